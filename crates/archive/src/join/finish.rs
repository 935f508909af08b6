//! Builds the combined arrays once all files were added.

use std::collections::BTreeSet;

use virtualize::zarr::{Array, Codec, Hierarchy, Node, ZarrFormat, node};

use super::{
    accumulate::Growing, coordinate, grid::grid, inline, joiner::Joiner, missing, numbers, references,
    times::unify,
};
use crate::{
    Along, Layout,
    compat::{
        DimRole,
        storage::{Storage, StorageOptions},
    },
    error::{CombineError, Note, Problem},
    plan::PlanOptions,
    values::variable,
};

/// The last step of a [`super::combine`].
pub(super) struct Finish<'a> {
    joiner: Joiner<'a>,
    options: &'a PlanOptions,
    names: Vec<String>,
}

impl<'a> Finish<'a> {
    pub(super) fn new(joiner: Joiner<'a>, options: &'a PlanOptions) -> Self {
        let names = joiner.layout.along.iter().map(|along| along.name().to_owned()).collect();
        Self { joiner, options, names }
    }

    /// Builds all groups and arrays. Returns the combined hierarchy and the notes for the user.
    pub(super) fn run(mut self) -> Result<(Hierarchy, Vec<Note>), CombineError> {
        self.times()?;
        let groups = std::mem::take(&mut self.joiner.groups);
        for (path, merged) in &groups {
            self.joiner.notes.extend(merged.notes(path));
            if let Some(group) = self.joiner.whole.root.make_group(path) {
                group.attributes = merged.kept.clone();
            }
        }
        for (path, growing) in std::mem::take(&mut self.joiner.arrays) {
            let url = growing.url.to_string();
            self.joiner.notes.extend(growing.attributes.notes(&path));
            let array =
                self.array(&path, growing).map_err(|problem| CombineError::array(url, &path, problem))?;
            self.put(&path, array)?;
        }
        self.given()?;
        Ok((self.joiner.whole, self.joiner.notes.into_iter().collect()))
    }

    /// Inserts an array at its path, creating the groups above it.
    fn put(&mut self, path: &str, array: Array) -> Result<(), CombineError> {
        let (parent, name) = node::split(path);
        let group = self
            .joiner
            .whole
            .root
            .make_group(parent)
            .ok_or_else(|| CombineError::array("the files", parent, Problem::ArrayAndGroup))?;
        group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
        Ok(())
    }

    /// Converts numbers to one data type, and times to one unit per array.
    fn times(&mut self) -> Result<(), CombineError> {
        let format = self.joiner.whole.format;
        for (path, growing) in &mut self.joiner.arrays {
            let url = growing.url.to_string();
            let done = numbers::unify_types(growing, format);
            let done = done.map_err(|problem| CombineError::array(url, path, problem))?;
            self.joiner.notes.extend(done.map(|text| Note::new(path, text)));
        }
        for (path, followers) in &self.joiner.followers {
            let Some(growing) = self.joiner.arrays.get(path) else { continue };
            if !growing.always_copied {
                continue;
            }
            let url = growing.url.to_string();
            let done = unify(&mut self.joiner.arrays, path, followers, format);
            let done = done.map_err(|problem| CombineError::array(url, path, problem))?;
            self.joiner.notes.extend(done.map(|text| Note::new(path, text)));
        }
        Ok(())
    }

    /// Builds the combined array: copies its values or places its chunks, as its storage requires.
    fn array(&mut self, path: &str, mut growing: Growing) -> Result<Array, Problem> {
        let mut array = growing.first.clone();
        array.attributes = growing.attributes.kept.clone();
        let lacks_parts = self.missing(path, &growing)?;
        if !growing.varies() {
            let piece = growing.pieces.pop_first().map(|(_, piece)| piece);
            array.chunks = piece.map(|piece| piece.chunks).unwrap_or_default();
            return Ok(array);
        }
        let sizes = self.sizes(path);
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = growing.geometry(&self.names, &sizes).ok_or(Problem::TooLarge)?;
        let v3 = self.joiner.whole.format == ZarrFormat::V3;
        let options = StorageOptions {
            rectilinear: self.joiner.layout.rectilinear && v3,
            inline_limit: self.joiner.layout.inline_limit,
        };
        let storage = growing.parts().storage(&geometry, options)?;
        if lacks_parts {
            let complete = storage == Storage::Copied || is_complete(&growing);
            let any = self.options.fill_without_sentinel;
            missing::prepare(&mut array, self.joiner.whole.format, complete, any)?;
        }
        array.shape = geometry.shape();
        array.dimension_names = geometry.axes.iter().map(|axis| axis.name.clone()).collect();
        if storage == Storage::Copied {
            let fill = element(&array);
            let values = inline::whole(&growing, &geometry, &fill, self.options.most_inline)?;
            inline::set_inline_values(&mut array, values).ok_or(Problem::TooLarge)?;
            return Ok(array);
        }
        let new_axes = geometry.axes.iter().filter(|axis| axis.own.is_none()).count();
        array.codecs = with_new_axes(&array.codecs, new_axes)?;
        array.chunk_grid = grid(&storage, &growing, &geometry).ok_or(Problem::TooLarge)?;
        let counts = array.chunk_grid.counts(&array.shape);
        array.chunks =
            references::join(&mut growing, &geometry, &storage, &counts).ok_or(Problem::ChunkLength)?;
        Ok(array)
    }

    /// Returns whether some place has no part of the array. Fails if a file lacks an array that is not optional.
    fn missing(&mut self, path: &str, growing: &Growing) -> Result<bool, Problem> {
        let expected: BTreeSet<Vec<usize>> =
            self.joiner.era.blocks.iter().map(|block| growing.key(&block.indices())).collect();
        let absent = expected.len().saturating_sub(growing.pieces.len());
        if absent > 0 {
            if !Layout::has(&self.joiner.layout.optional, path) {
                let first = self
                    .joiner
                    .era
                    .blocks
                    .iter()
                    .find(|block| !growing.pieces.contains_key(&growing.key(&block.indices())));
                let first = first.and_then(|block| self.joiner.urls.get(&block.row)).map_or("", |url| url);
                return Err(Problem::Lacking { count: absent, first: first.to_owned() });
            }
            let text = format!("{absent} files do not have it: their part reads as the fill value");
            self.joiner.notes.insert(Note::new(path, text));
        }
        let counts = growing.roles.iter().zip(&self.joiner.era.sizes);
        let places =
            counts.map(|(role, sizes)| if *role == DimRole::Invariant { 1 } else { sizes.len() as u64 });
        let all = places.fold(1_u64, u64::saturating_mul);
        Ok(all > growing.pieces.len() as u64)
    }

    /// Returns the number of elements at each place along each dimension, for the group of an array.
    fn sizes(&self, path: &str) -> Vec<Vec<u64>> {
        let group = node::parent(path);
        let own = self.joiner.sizes.get(group);
        let all = self.joiner.era.sizes.iter().enumerate();
        all.map(|(n, sizes)| {
            let own = own.and_then(|own| own.get(n));
            let one = |(at, size): (usize, &u64)| own.and_then(|own| *own.get(at)?).unwrap_or(*size);
            sizes.iter().enumerate().map(one).collect()
        })
        .collect()
    }

    /// Adds the coordinates that no array of the files provides.
    fn given(&mut self) -> Result<(), CombineError> {
        for (n, given) in std::mem::take(&mut self.joiner.given).into_iter().enumerate() {
            let (Some(name), Some(sizes)) = (self.names.get(n).cloned(), self.joiner.era.sizes.get(n)) else {
                continue;
            };
            if given.is_empty() {
                continue;
            }
            let error = |problem| CombineError::option(format!("coordinate {name}"), problem);
            if self.joiner.whole.node(&name).is_some() {
                if self.joiner.layout.along.get(n).is_some_and(|along| matches!(along, Along::Stack(_))) {
                    return Err(error(Problem::NameTaken));
                }
                let text = "names or catalogues give the files' order, and the values are those of the files";
                self.joiner.notes.insert(Note::new(&name, text));
                continue;
            }
            if sizes.iter().any(|size| *size != 1) || given.len() != sizes.len() {
                let text = "files have several elements each: names give their order, and no coordinate";
                self.joiner.notes.insert(Note::new(&name, text));
                continue;
            }
            let format = self.joiner.whole.format;
            let array = coordinate::array(&name, given.into_values().collect(), format);
            let array = array.ok_or_else(|| error(Problem::SeveralKinds))?;
            self.put(&name, array)?;
        }
        Ok(())
    }
}

/// Returns whether every part has all of its chunks.
fn is_complete(growing: &Growing) -> bool {
    growing.pieces.values().all(|piece| piece.counts().iter().product::<u64>() == piece.chunks.len())
}

/// Returns an element with the value that missing chunks read as.
fn element(array: &Array) -> Vec<u8> {
    if variable::is_variable(&array.data_type) {
        return variable::fill(array);
    }
    let zero = || vec![0; array.data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)];
    match &array.fill_value {
        Some(virtualize::zarr::FillValue::Fixed(bytes)) => bytes.to_vec(),
        _ => zero(),
    }
}

/// Adapts a codec chain to chunks with additional leading axes of one element.
fn with_new_axes(codecs: &[Codec], new: usize) -> Result<Vec<Codec>, Problem> {
    let unknown = |codec: &Codec| Problem::ForeignCodec { codec: codec.describe() };
    codecs.iter().map(|codec| codec.with_leading_axes(new).ok_or_else(|| unknown(codec))).collect()
}
