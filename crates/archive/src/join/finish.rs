//! Builds the combined arrays once all files were added.

use std::collections::{BTreeMap, HashSet};

use virtualize::zarr::{Array, Codec, Node, NodePath, ZarrFormat, node};

use super::{
    Combined,
    accumulate::Growing,
    attributes::MergedAttributes,
    chunks::{ArrayChunks, ChunkPlaces},
    coordinate,
    grid::grid,
    inline,
    joiner::Joiner,
    misfit::explain,
    missing, numbers,
    placing::Placing,
    times::unify,
};
use crate::{
    Along, Layout,
    compat::{DimRole, storage::Storage},
    error::{CombineError, Note, Problem},
    plan::{Block, PlanOptions},
    values::variable,
};

/// The last step of a [`super::combine`].
pub(super) struct Finish<'a, 'b> {
    joiner: Joiner<'b>,
    blocks: &'a [Block],
    options: &'b PlanOptions,
    names: Vec<String>,
    arrays: BTreeMap<NodePath, Growing<'b>>,
    groups: BTreeMap<NodePath, MergedAttributes>,
    chunks: ChunkPlaces<'a>,
}

impl<'a, 'b> Finish<'a, 'b> {
    /// Takes all files, which are those of `blocks`.
    pub(super) fn new(mut joiner: Joiner<'b>, blocks: &'a [Block], options: &'b PlanOptions) -> Self {
        let names = joiner.layout.along.iter().map(|along| along.name().to_owned()).collect();
        let (arrays, groups) = joiner.take();
        Self { joiner, blocks, options, names, arrays, groups, chunks: ChunkPlaces::default() }
    }

    /// Builds all groups and arrays.
    pub(super) fn run(mut self) -> Result<Combined<'a>, CombineError> {
        self.times()?;
        for (path, merged) in std::mem::take(&mut self.groups) {
            self.joiner.notes.extend(merged.notes(&path));
            if let Some(group) = self.joiner.whole.root.make_group(&path) {
                group.attributes = merged.kept;
            }
        }
        while let Some((path, mut growing)) = self.arrays.pop_first() {
            self.joiner.notes.extend(growing.attributes.notes(&path));
            let (array, chunks) = self
                .array(&path, &mut growing)
                .map_err(|problem| CombineError::array(growing.url(), &path, problem))?;
            self.put(&path, array, chunks)?;
        }
        self.given()?;
        let Self { joiner: Joiner { whole, notes, .. }, chunks, .. } = self;
        Ok(Combined { hierarchy: whole, chunks, notes: notes.into_iter().collect() })
    }

    /// Inserts an array at its path, creating the groups above it.
    fn put(&mut self, path: &str, array: Array, chunks: ArrayChunks<'a>) -> Result<(), CombineError> {
        let (parent, name) = node::split(path);
        self.chunks.insert(path, chunks);
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
        for (path, growing) in &mut self.arrays {
            let done = numbers::unify_types(growing, format);
            let done = done.map_err(|problem| CombineError::array(growing.url(), path, problem))?;
            self.joiner.notes.extend(done.map(|text| Note::new(path, text)));
        }
        for (path, followers) in &self.joiner.followers {
            if !self.arrays.get(path).is_some_and(|growing| growing.always_copied) {
                continue;
            }
            let done = unify(&mut self.arrays, path, followers, format);
            let url = || self.arrays.get(path).map(Growing::url).unwrap_or_default();
            let done = done.map_err(|problem| CombineError::array(url(), path, problem))?;
            self.joiner.notes.extend(done.map(|text| Note::new(path, text)));
        }
        Ok(())
    }

    /// Builds the combined array: copies its values or places its chunks, as its storage requires.
    fn array(&mut self, path: &str, growing: &mut Growing<'_>) -> Result<(Array, ArrayChunks<'a>), Problem> {
        let mut array = growing.first.clone();
        array.attributes = growing.attributes.kept.clone();
        let lacks_parts = self.missing(path, growing)?;
        if !growing.varies() {
            let first = growing.pieces.first().and_then(|n| growing.pieces.get(n));
            let row = first.and_then(|piece| growing.files.block(piece.block)).map_or(0, |block| block.row);
            let count = growing.pieces.chunks();
            return Ok((array, ArrayChunks::OfFile { row, path: path.to_owned(), count }));
        }
        let sizes = self.sizes(path);
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = growing.geometry(&self.names, &sizes).ok_or(Problem::TooLarge)?;
        let Layout { rectilinear, inline_limit, .. } = *self.joiner.layout;
        let format = self.joiner.whole.format;
        let storage = growing.parts().storage(&geometry, rectilinear && format == ZarrFormat::V3);
        let storage = storage.map_err(|misfit| explain(growing, &geometry, misfit, inline_limit))?;
        if lacks_parts {
            let is_complete = || growing.pieces.forms().all(|form| form.is_complete);
            let complete = storage == Storage::Copied || is_complete();
            missing::prepare(&mut array, format, complete, self.options.fill_without_sentinel)?;
        }
        array.shape = geometry.shape();
        array.dimension_names = geometry.axes.iter().map(|axis| axis.name.clone()).collect();
        if storage == Storage::Copied {
            let fill = element(&array);
            let values = inline::whole(growing, &geometry, &fill, self.options.most_inline)?;
            inline::set_inline_values(&mut array, values).ok_or(Problem::TooLarge)?;
            let chunks = ArrayChunks::Inline(array.chunks.inline.clone());
            return Ok((array, chunks));
        }
        let new_axes = geometry.axes.iter().filter(|axis| axis.own.is_none()).count();
        array.codecs = with_new_axes(&array.codecs, new_axes)?;
        array.chunk_grid = grid(&storage, growing, &geometry)?;
        let counts = array.chunk_grid.counts(&array.shape);
        let placing = Placing::new(path, (growing, self.blocks), &geometry, &storage, counts)?;
        Ok((array, ArrayChunks::Placed(Box::new(placing))))
    }

    /// Returns whether some place has no part of the array. Fails if a file lacks an array that is not optional.
    fn missing(&mut self, path: &str, growing: &Growing<'_>) -> Result<bool, Problem> {
        let found = growing.pieces.len();
        let absent = self.expected(growing).saturating_sub(found);
        if absent > 0 {
            if !Layout::has(&self.joiner.layout.optional, path) {
                let first = growing.first_missing().map(|n| growing.files.url(n));
                return Err(Problem::Lacking { count: absent, first: first.unwrap_or_default() });
            }
            let text = format!("{absent} files do not have it: their part reads as the fill value");
            self.joiner.notes.insert(Note::new(path, text));
        }
        let counts = growing.roles.iter().zip(&self.joiner.era.sizes);
        let places =
            counts.map(|(role, sizes)| if *role == DimRole::Invariant { 1 } else { sizes.len() as u64 });
        let all = places.fold(1_u64, u64::saturating_mul);
        Ok(all > found as u64)
    }

    /// Returns the number of parts that an array has if no file lacks it.
    fn expected(&self, growing: &Growing<'_>) -> usize {
        let blocks = self.joiner.era.blocks.len();
        if growing.is_of_each_file() {
            return blocks;
        }
        if !growing.varies() {
            return blocks.min(1);
        }
        let blocks = 0..u32::try_from(blocks).unwrap_or(u32::MAX);
        let places = blocks.map(|n| growing.files.place(n, &growing.roles));
        places.collect::<HashSet<_>>().len()
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
            if given.iter().all(Option::is_none) {
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
            let is_single = sizes.iter().all(|size| *size == 1);
            let Some(given) = given.into_iter().collect::<Option<Vec<_>>>().filter(|_| is_single) else {
                let text = "files have several elements each: names give their order, and no coordinate";
                self.joiner.notes.insert(Note::new(&name, text));
                continue;
            };
            let array = coordinate::array(&name, given, self.joiner.whole.format);
            let array = array.ok_or_else(|| error(Problem::SeveralKinds))?;
            let chunks = ArrayChunks::Inline(array.chunks.inline.clone());
            self.put(&name, array, chunks)?;
        }
        Ok(())
    }
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
