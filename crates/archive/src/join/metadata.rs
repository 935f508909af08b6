//! Accumulates arrays, groups and coordinates file by file.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use virtualize::{
    OptionName, Remedy,
    zarr::{
        Array, ChunkGrid, ChunkManifest, Codec, DataType, Hierarchy, Node, NodePath, ZarrFormat,
        cf::{conventions, missing::Sentinels},
        node,
    },
};

use super::{
    Combined, Result,
    attributes::{KindArray, Kinds, MergedAttributes, SizeClass, contribution, size_class},
    chunks::{ArrayChunks, ChunkPlaces, Files, Placing},
    regions::{self, grid},
    times::unify,
    values::{self, Form, Pieces, Place},
};
use crate::{
    Along, Layout,
    compat::{
        Conversion, Difference, DimRole, MAX_COPIED, MAX_KEPT, decode_alike, disagreement, is_coordinate,
        is_plain,
        roles::{self, Axis, Geometry, Levels},
        signature::{ArrayParts, ChunkLayout, Misfit, Storage},
    },
    error::{CombineError, Note, Problem, var},
    file::{BANDS, Head, HeadNode, ParsedNode},
    plan::{Block, PlannedSet, Selection},
    values::{Given, Packing, index, is_number, packing, values_agree, variable},
};

/// Maximum number of documents of a node that are remembered.
const MAX_SEEN: usize = 32;

/// State of a join after some of the files.
pub(super) struct Joiner<'a> {
    pub(super) set: &'a PlannedSet,
    pub(super) layout: &'a Layout,
    pub(super) files: Files<'a>,
    pub(super) whole: Hierarchy,
    nodes: Vec<NodeState<'a>>,
    of_path: HashMap<Arc<str>, usize>,
    /// Number of elements at each place along each dimension, by group.
    pub(super) sizes: HashMap<NodePath, Vec<Vec<Option<u64>>>>,
    /// Bounds that share the units of an array of times, by the path of that array.
    pub(super) followers: BTreeMap<NodePath, Vec<NodePath>>,
    /// Coordinates that no array provides, by place, for each dimension.
    pub(super) given: Vec<Vec<Option<Given>>>,
    pub(super) notes: BTreeSet<Note>,
    /// The levels of all files.
    pub(super) levels: Levels,
    /// The levels that cannot be joined, and why.
    pub(super) dropped: BTreeMap<NodePath, Problem>,
    kinds: Kinds,
    /// Whether a catalogue declares the packing of bands.
    has_declared_bands: bool,
    /// For each node of the last file, its index in `nodes`, and that of its document there.
    last: Vec<(usize, usize)>,
}

/// What is known of the nodes at a path.
struct NodeState<'a> {
    path: Arc<str>,
    array: Option<Growing<'a>>,
    group: Option<MergedAttributes>,
    /// The last documents.
    seen: Vec<Seen>,
}

/// A document of a node in some of the files.
struct Seen {
    node: Arc<ParsedNode>,
    size: SizeClass,
    /// What it contributes to the roles of arrays.
    contribution: u64,
    compared: Option<Compared>,
    is_merged: bool,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(format: ZarrFormat, set: &'a PlannedSet, files: Files<'a>, layout: &'a Layout) -> Self {
        let places = (0..layout.along.len()).map(|n| set.sizes.get(n).map_or(0, Vec::len));
        Self {
            set,
            layout,
            files,
            whole: Hierarchy::new(format),
            nodes: Vec::new(),
            of_path: HashMap::new(),
            sizes: HashMap::new(),
            followers: BTreeMap::new(),
            given: places.map(|places| vec![None; places]).collect(),
            notes: BTreeSet::new(),
            levels: Levels::default(),
            dropped: BTreeMap::new(),
            kinds: Kinds::default(),
            has_declared_bands: false,
            last: Vec::new(),
        }
    }

    /// Adds the file of a block. `tables` are the chunks of its arrays if it has a selection.
    pub(super) fn add(
        &mut self,
        n: u32,
        head: &Head,
        tables: &mut BTreeMap<NodePath, ChunkManifest>,
    ) -> Result<(), CombineError> {
        let error = |problem| CombineError::of(&head.item.url, problem);
        let block = self.files.block(n).ok_or(CombineError::Nothing)?;
        if head.format != self.whole.format {
            return Err(error(Problem::of(
                "the references are in another Zarr format than those of earlier files",
            )));
        }
        self.give(&block.at, head).map_err(error)?;
        self.has_declared_bands |= head.item.properties.contains_key(BANDS);
        let contributions = self.look_up(head);
        let kind = self.kinds.kind(contributions, head, self.layout);
        for (path, bounds) in &kind.followers {
            if !self.followers.contains_key(path) {
                self.followers.insert(path.clone(), bounds.clone());
            }
        }
        self.merge_groups();
        self.levels.extend(&kind.levels);
        for array in &kind.arrays {
            let Some(HeadNode { path, .. }) = head.nodes.get(array.node) else { continue };
            if array.level.as_ref().is_some_and(|level| self.dropped.contains_key(level)) {
                continue;
            }
            match (self.array(array, n, head, tables), &array.level) {
                (Ok(()), _) => {}
                (Err(problem), Some(level)) => self.drop_level(level, problem),
                (Err(problem), None) => return Err(CombineError::array(&head.item.url, path, problem)),
            }
        }
        Ok(())
    }

    /// Records why a level cannot be joined.
    pub(super) fn drop_level(&mut self, level: &NodePath, problem: Problem) {
        self.dropped.entry(level.clone()).or_insert(problem);
    }

    /// Finds the documents of a file's nodes among those of the files before. Returns the numbers of what they contribute.
    fn look_up(&mut self, head: &Head) -> Vec<u64> {
        let mut contributions = Vec::with_capacity(head.nodes.len());
        self.last.resize(head.nodes.len(), (usize::MAX, 0));
        for (at, HeadNode { path, node, .. }) in head.nodes.iter().enumerate() {
            let place = self.place(at, path);
            let size = size_class(node, head.values.get(&**path), self.layout.inline_limit);
            let Some(state) = self.nodes.get_mut(place) else { continue };
            let is_same = |seen: &Seen| Arc::ptr_eq(&seen.node, node) && seen.size == size;
            let document = state.seen.iter().position(is_same).unwrap_or_else(|| {
                if state.seen.len() >= MAX_SEEN {
                    state.seen.clear();
                }
                let contribution = contribution(path, node, size);
                let node = Arc::clone(node);
                state.seen.push(Seen { node, size, contribution, compared: None, is_merged: false });
                state.seen.len() - 1
            });
            contributions.extend(state.seen.get(document).map(|seen| seen.contribution));
            if let Some(last) = self.last.get_mut(at) {
                *last = (place, document);
            }
        }
        contributions
    }

    /// Returns the index in `nodes` of a path, given the index among a file's nodes.
    fn place(&mut self, at: usize, path: &Arc<str>) -> usize {
        let last = self.last.get(at).map(|(place, _)| *place);
        let is_last = |place: &usize| self.nodes.get(*place).is_some_and(|state| state.path == *path);
        if let Some(place) = last.filter(is_last).or_else(|| self.of_path.get(path).copied()) {
            return place;
        }
        let state = NodeState { path: Arc::clone(path), array: None, group: None, seen: Vec::new() };
        self.nodes.push(state);
        self.of_path.insert(Arc::clone(path), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Returns what is known of a node of the last file, and the index of its document.
    fn node(&mut self, at: usize) -> Option<(&mut NodeState<'a>, usize)> {
        let (place, document) = *self.last.get(at)?;
        Some((self.nodes.get_mut(place)?, document))
    }

    /// Merges the attributes of a file's groups.
    fn merge_groups(&mut self) {
        for at in 0..self.last.len() {
            let Some((NodeState { group, seen, .. }, document)) = self.node(at) else { continue };
            let Some(seen) = seen.get_mut(document).filter(|seen| !seen.is_merged) else { continue };
            let ParsedNode::Group(attributes) = &*seen.node else { continue };
            seen.is_merged = true;
            match group {
                Some(merged) => merged.add(attributes, false),
                None => *group = Some(MergedAttributes::new(attributes)),
            }
        }
    }

    /// Records the coordinates that a file's name, catalogue entry or attributes provide.
    fn give(&mut self, at: &[u32], head: &Head) -> Result<()> {
        for ((along, place), slots) in self.layout.along.iter().zip(at).zip(&mut self.given) {
            let name = along.name();
            let given = head.given.get(name).and_then(Given::of);
            if let (Some(given), Some(slot)) = (given, slots.get_mut(index(*place))) {
                let known = slot.get_or_insert_with(|| given.clone());
                if *known != given {
                    let (now, before) = (&given.value, &known.value);
                    let text = format!("coordinate {name} is {now}, but {before} in earlier files");
                    return Err(Problem::new(text));
                }
            }
        }
        Ok(())
    }

    /// Adds an array of a file. `tables` are the chunks of the file's arrays if it has a selection.
    fn array(
        &mut self,
        kind: &KindArray,
        n: u32,
        head: &Head,
        tables: &mut BTreeMap<NodePath, ChunkManifest>,
    ) -> Result<()> {
        let Some(HeadNode { path, node, count }) = head.nodes.get(kind.node) else { return Ok(()) };
        let ParsedNode::Array(array) = &**node else { return Ok(()) };
        let (mut array, mut chunks) = (Cow::Borrowed(&**array), *count);
        let mut values = head.values.get(&**path).cloned();
        let selections = self.files.block(n).and_then(|block| block.selection.as_deref());
        let along = selections.into_iter().flatten().zip(&kind.roles).zip(&self.layout.along);
        let selected = along.filter_map(|((selection, role), along)| match role {
            DimRole::Axis(axis) => Some(((*selection)?, *axis, along.name())),
            _ => None,
        });
        let selected: Vec<(Selection, usize, &str)> = selected.collect();
        if kind.level.is_some() && selections.is_some() {
            return Err(Problem::of("a part of a file is selected"));
        }
        if !selected.is_empty() {
            array.to_mut().chunks = tables.remove(&**path).unwrap_or_default();
        }
        for (selection, axis, name) in &selected {
            let array = array.to_mut();
            regions::select(array, values.as_mut(), *axis, *selection, name)?;
            // The indices of a group with its own coordinates may differ.
            if path.rsplit_once('/').is_some_and(|(_, last)| last == *name) {
                return Err(Problem::new(format!(
                    "a part of the file is selected along {name}, but this group has its own coordinates along it"
                )));
            }
            chunks = array.chunks.len();
        }
        if let Some(problem) = &kind.problem {
            return Err(problem.clone());
        }
        self.measure(path, &array.shape, &kind.roles, n)?;
        let options = ArrayOptions {
            format: self.whole.format,
            assume_equal: Layout::has(&self.layout.assume_equal, path),
            is_optional: Layout::has(&self.layout.optional, path) || kind.level.is_some(),
            is_near: self.set.grids.contains(&**path),
            is_axis: array.data_type == DataType::Float64 && is_coordinate(path, &array),
        };
        let files = self.files;
        let Some((NodeState { array: slot, seen, .. }, document)) = self.node(kind.node) else {
            return Ok(());
        };
        let growing = slot.get_or_insert_with(|| {
            let of_values = (kind.is_copied, kind.are_times);
            Growing::new(&array, (files, n), kind.roles.clone(), of_values, options)
        });
        if growing.roles != kind.roles {
            return Err(Problem::of("varies along other dimensions than in earlier files"));
        }
        // What is known of the document does not apply to a selection.
        let mut of_selection = None;
        let compared = match seen.get_mut(document) {
            Some(seen) if selected.is_empty() => &mut seen.compared,
            _ => &mut of_selection,
        };
        if compared.is_none() {
            *compared = Some(growing.compare(&array)?);
        }
        let digest = head.digests.get(&**path).map(String::as_str);
        let read = Read { chunks, values: values.as_deref(), digest };
        compared.as_mut().map_or(Ok(()), |compared| growing.add(n, compared, read))
    }

    /// Records the number of elements that the array's group has along each dimension at the file's place.
    fn measure(&mut self, path: &str, shape: &[u64], roles: &[DimRole], block: u32) -> Result<()> {
        if !roles.iter().any(|role| matches!(role, DimRole::Axis(_))) {
            return Ok(());
        }
        let at = self.files.block(block).map(|block| block.at.as_slice()).unwrap_or_default();
        let group = node::parent(path);
        if !self.sizes.contains_key(group) {
            let empty = self.set.sizes.iter().map(|sizes| vec![None; sizes.len()]).collect();
            self.sizes.insert(group.to_owned(), empty);
        }
        let Some(sizes) = self.sizes.get_mut(group) else { return Ok(()) };
        for ((place, sizes), n) in roles.iter().zip(sizes).zip(at) {
            let DimRole::Axis(axis) = place else { continue };
            let (Some(own), Some(slot)) = (shape.get(*axis), sizes.get_mut(index(*n))) else { continue };
            let known = *slot.get_or_insert(*own);
            if known != *own {
                return Err(Problem::new(format!(
                    "{own} elements along axis {axis}, and {known} in other arrays of its group"
                )));
            }
        }
        Ok(())
    }

    /// Takes the arrays and the merged attributes of the groups, by path.
    pub(super) fn take(&mut self) -> (BTreeMap<NodePath, Growing<'a>>, BTreeMap<NodePath, MergedAttributes>) {
        let (mut arrays, mut groups) = (BTreeMap::new(), BTreeMap::new());
        for NodeState { path, array, group, .. } in std::mem::take(&mut self.nodes) {
            arrays.extend(array.map(|array| (path.as_ref().to_owned(), array)));
            groups.extend(group.map(|group| (path.as_ref().to_owned(), group)));
        }
        (arrays, groups)
    }
}

/// An array in all files that were added so far.
pub(super) struct Growing<'a> {
    /// Its metadata in the first file.
    pub(super) first: Array,
    /// The first file.
    first_block: u32,
    /// Role of each dimension of the layout.
    pub(super) roles: Vec<DimRole>,
    /// Whether its values are copied in any case.
    pub(super) always_copied: bool,
    /// Whether it holds times, or bounds of times, and is copied.
    pub(super) are_times: bool,
    /// Its parts: one for each place along the dimensions along which it varies.
    pub(super) pieces: Pieces,
    /// Its merged attributes.
    pub(super) attributes: MergedAttributes,
    /// Packing in files where it is not that of the first file, by block. Empty if it need not be a variable.
    packings: HashMap<u32, Packing>,
    pub(super) files: Files<'a>,
    options: ArrayOptions,
}

/// Properties of an array that hold for all files.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayOptions {
    pub(super) format: ZarrFormat,
    /// Whether the layout assumes that the array is equal in all files.
    pub(super) assume_equal: bool,
    /// Whether the array may be missing from some files.
    pub(super) is_optional: bool,
    /// Whether its values may differ by rounding, as the plan has found.
    pub(super) is_near: bool,
    /// Whether it holds the coordinates of its own dimension in float64.
    pub(super) is_axis: bool,
}

/// Metadata of an array in a file, compared with the first file. Applies to all files with the same document.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    form: Form,
    /// Packing, if it is not that of the first file.
    packing: Option<Packing>,
    units: u32,
    /// Number of chunks if none is missing.
    all_chunks: Option<u64>,
    /// Index of the form of the last file, if it is among those of the parts.
    index: Option<u32>,
}

/// Properties of an array in a file, besides its metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a> {
    /// Number of chunks.
    pub(super) chunks: u64,
    pub(super) values: Option<&'a [u8]>,
    pub(super) digest: Option<&'a str>,
}

impl<'a> Growing<'a> {
    /// Creates an array from its metadata in the first file that has it. `is_copied` and `are_times` describe its values.
    pub(super) fn new(
        first: &Array,
        (files, first_block): (Files<'a>, u32),
        roles: Vec<DimRole>,
        (is_copied, are_times): (bool, bool),
        options: ArrayOptions,
    ) -> Self {
        let mut first = first.clone();
        first.chunks = ChunkManifest::default();
        Self {
            attributes: MergedAttributes::new(&first.attributes),
            packings: HashMap::new(),
            first,
            first_block,
            always_copied: is_copied,
            are_times: is_copied && are_times,
            pieces: Pieces::new(varies_throughout(&roles)),
            roles,
            files,
            options,
        }
    }

    /// Returns the url of the first file that has the array.
    pub(super) fn url(&self) -> String {
        self.files.url(self.first_block)
    }

    /// Returns the url of the file of a part.
    pub(super) fn url_of(&self, piece: u32) -> String {
        self.pieces.get(piece).map(|piece| self.files.url(piece.block)).unwrap_or_default()
    }

    /// Returns the place of a part.
    pub(super) fn place_of(&self, piece: u32) -> Place {
        self.pieces.get(piece).map(|piece| self.files.place(piece.block, &self.roles)).unwrap_or_default()
    }

    /// Returns the part at a place.
    pub(super) fn find(&self, place: &Place) -> Option<u32> {
        self.pieces.find(place, |block| self.files.place(block, &self.roles).cmp(place))
    }

    /// Returns the first file whose part no file has.
    pub(super) fn first_missing(&self) -> Option<u32> {
        let blocks = 0..u32::try_from(self.files.blocks.len()).unwrap_or(u32::MAX);
        if varies_throughout(&self.roles) {
            let has = |block: &u32| self.pieces.get(*block).is_some_and(|piece| piece.block == *block);
            return blocks.into_iter().find(|block| !has(block));
        }
        blocks.into_iter().find(|block| self.find(&self.files.place(*block, &self.roles)).is_none())
    }

    /// Returns whether the array varies along any dimension.
    pub(super) fn varies(&self) -> bool {
        self.roles.iter().any(|role| *role != DimRole::Invariant)
    }

    /// Returns the axes of the combined array; `sizes` are the elements of each place along each dimension of the layout.
    pub(super) fn geometry(&self, names: &[String], sizes: &[&[u64]]) -> Option<Geometry> {
        Geometry::new(&self.roles, &self.first.shape, &self.first.dimension_names, names, sizes)
    }

    /// Returns how the parts are stored.
    pub(super) fn parts(&self) -> ArrayParts<'_> {
        ArrayParts {
            always_copied: self.always_copied,
            is_plain: is_plain(&self.first),
            layouts: self.pieces.forms().map(|form| &form.layout).collect(),
        }
    }

    /// Compares the metadata of a file with the files before, and merges its attributes.
    ///
    /// # Errors
    /// An optional or invariant array that differs from the files before. All other arrays agree because the plan has
    /// checked the signatures of their files.
    pub(super) fn compare(&mut self, array: &Array) -> Result<Compared> {
        let only_shape = self.options.assume_equal && !self.varies();
        let is_proved = !self.options.is_optional && !only_shape;
        if (!is_proved || cfg!(debug_assertions))
            && let Some(Difference { what, left, right, .. }) = self.disagreement(array, only_shape)
        {
            debug_assert!(!is_proved, "files whose signatures agree: {what} {right}, but {left}");
            return Err(Problem::new(format!("{what} {right}, but {left} in earlier files")));
        }
        if !only_shape {
            self.attributes.add(&array.attributes, true);
        }
        let units = roles::text(&array.attributes, "units");
        let has_other_units = self.always_copied
            && roles::has_time_units(&self.first)
            && roles::has_time_units(array)
            && units != roles::text(&self.first.attributes, "units");
        let units = units.filter(|_| has_other_units);
        let form = self.form(array);
        let packing = Packing::of(&array.attributes);
        Ok(Compared {
            packing: packing.filter(|_| packing != Packing::of(&self.first.attributes)),
            all_chunks: form.counts().iter().try_fold(1_u64, |all, n| all.checked_mul(*n)),
            units: self.pieces.intern_units(units).ok_or(Problem::TOO_LARGE)?,
            form,
            index: None,
        })
    }

    /// Returns the form of an array whose values were not read.
    fn form(&self, array: &Array) -> Form {
        let chunk = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => Some(chunk.clone()),
            ChunkGrid::Rectilinear(_) => None,
        };
        let fits = decode_alike(array, &self.first) && array.fill_value == self.first.fill_value;
        Form {
            layout: ChunkLayout { shape: array.shape.clone(), chunk, fits, is_read: false },
            values: None,
            other: self.other(array),
            is_complete: false,
        }
    }

    /// Returns data type and missing values if they differ from those of the first file, and the values are copied.
    fn other(&self, array: &Array) -> Option<Arc<(virtualize::zarr::DataType, Sentinels)>> {
        let sentinels = Sentinels::of(array, self.options.format);
        let is_other = array.data_type != self.first.data_type
            || sentinels != Sentinels::of(&self.first, self.options.format);
        (self.always_copied && is_other).then(|| Arc::new((array.data_type.clone(), sentinels)))
    }

    /// Adds the part of a file.
    ///
    /// # Errors
    /// A part that differs from that of another file at the same place.
    pub(super) fn add(&mut self, block: u32, compared: &mut Compared, read: Read<'_>) -> Result<()> {
        let read = Read { values: read.values.filter(|_| !self.pieces.are_dropped), ..read };
        compared.update(read);
        // The part of another file at the same place.
        let there = if !self.varies() {
            self.pieces.first()
        } else if varies_throughout(&self.roles) {
            None
        } else {
            self.find(&self.files.place(block, &self.roles))
        };
        if let Some(there) = there {
            return if self.options.assume_equal || self.options.is_near {
                Ok(())
            } else {
                self.check_equal(there, compared, read)
            };
        }
        let form = match compared.index {
            Some(form) => form,
            None => self.pieces.intern(&compared.form).ok_or(Problem::TOO_LARGE)?,
        };
        compared.index = Some(form);
        let Self { pieces, files, roles, .. } = self;
        let place = || files.place(block, roles);
        let piece = (block, form, compared.units);
        pieces.push(place, piece, read.values, (read.digest, read.chunks)).ok_or(Problem::TOO_LARGE)?;
        if !self.always_copied && self.varies() {
            self.packings.extend(compared.packing.map(|packing| (block, packing)));
        }
        if !self.always_copied && self.varies() && self.pieces.kept() > MAX_KEPT {
            self.pieces.drop_values();
        }
        Ok(())
    }

    /// Checks that the parts of two files at the same place are equal.
    fn check_equal(&self, there: u32, compared: &Compared, read: Read<'_>) -> Result<()> {
        let form = self.pieces.form(there).ok_or(Problem::TOO_LARGE)?;
        let is_same = match (self.pieces.values(there), read.values, self.pieces.digest(there), read.digest) {
            (Some(left), Some(right), _, _) => {
                let units = self.pieces.get(there).map(|piece| piece.units);
                let is_near = || self.options.is_axis && values_agree(left, right);
                (left == right || is_near())
                    && units == Some(compared.units)
                    && form.other == compared.form.other
            }
            (_, _, Some(left), Some(right)) => left == right,
            _ => {
                let problem = Problem::of("values were not compared with those of earlier files");
                return Err(problem.with(var("first", "keep the first file's values")));
            }
        };
        let packing = self.pieces.get(there).and_then(|piece| self.packings.get(&piece.block));
        let is_packed_alike = !self.varies() || packing == compared.packing.as_ref();
        if is_same && is_packed_alike && form.layout.shape == compared.form.layout.shape {
            return Ok(());
        }
        let url = self.url_of(there);
        let text = format!(
            "values differ from those of {url}, although the array does not vary along the dimension"
        );
        Err(Problem::new(text).with(
            var("vary", "let it vary along the dimension")
                .or(var("first", "keep the first file's values"))
                .or(var("drop", "omit it")),
        ))
    }

    /// Returns the difference from the first file's array that conversion cannot reconcile.
    fn disagreement(&self, array: &Array, only_shape: bool) -> Option<Difference> {
        let are_numbers = is_number(&array.data_type) && is_number(&self.first.data_type);
        let conversion = Conversion {
            is_copied: self.always_copied,
            of_numbers: self.always_copied && are_numbers && packing(&self.first.attributes).is_none(),
            of_times: self.are_times,
        };
        disagreement([&self.first, array], &self.roles, conversion, only_shape)
    }
}

impl Compared {
    /// Adapts the form to the values and chunks of a file.
    fn update(&mut self, read: Read<'_>) {
        let values = read.values.map(|values| values.len() as u64);
        let is_complete = self.all_chunks == Some(read.chunks);
        if (self.form.values, self.form.is_complete) != (values, is_complete) {
            self.form.values = values;
            self.form.layout.is_read = values.is_some();
            self.form.is_complete = is_complete;
            self.index = None;
        }
    }
}

/// Returns whether an array varies along every dimension, so that each file has a place of its own.
fn varies_throughout(roles: &[DimRole]) -> bool {
    !roles.is_empty() && roles.iter().all(|role| *role != DimRole::Invariant)
}

/// The last step of a [`super::combine`].
pub(super) struct Finish<'a, 'b> {
    pub(super) joiner: Joiner<'b>,
    blocks: &'a [Block],
    pub(super) names: Vec<String>,
    pub(super) arrays: BTreeMap<NodePath, Growing<'b>>,
    pub(super) groups: BTreeMap<NodePath, MergedAttributes>,
    pub(super) chunks: ChunkPlaces<'a>,
    /// Spatial dimensions of the main image.
    pub(super) dimensions: Vec<String>,
    /// Groups whose images are placed side by side, with the attributes of a single image that were dropped.
    pub(super) moved: BTreeMap<NodePath, Vec<String>>,
}

impl<'a, 'b> Finish<'a, 'b> {
    /// Takes all files, which are those of `blocks`.
    pub(super) fn new(mut joiner: Joiner<'b>, blocks: &'a [Block]) -> Self {
        let names = joiner.layout.along.iter().map(|along| along.name().to_owned()).collect();
        let (arrays, groups) = joiner.take();
        let dimensions = groups.get("").map(MergedAttributes::dimensions).unwrap_or_default();
        let (chunks, moved) = (ChunkPlaces::default(), BTreeMap::new());
        Self { joiner, blocks, names, arrays, groups, chunks, dimensions, moved }
    }

    /// Builds all groups and arrays.
    pub(super) fn run(mut self) -> Result<Combined<'a>, CombineError> {
        self.times()?;
        self.describe_whole();
        for (path, merged) in std::mem::take(&mut self.groups) {
            self.joiner.notes.extend(merged.notes(&path));
            if let Some(group) = self.joiner.whole.root.make_group(&path) {
                group.attributes = merged.kept;
            }
        }
        while let Some((path, mut growing)) = self.arrays.pop_first() {
            let level = self.joiner.levels.level(&path).cloned();
            if level.as_ref().is_some_and(|level| self.joiner.dropped.contains_key(level)) {
                continue;
            }
            self.joiner.notes.extend(growing.attributes.notes(&path));
            let array = self.array(&path, &mut growing).and_then(|(mut array, chunks)| {
                let packing = self.packing(&path, &growing, &mut array)?;
                Ok((array, chunks, packing))
            });
            match (array, level) {
                (Ok((array, chunks, packing)), _) => {
                    self.put(&path, array, chunks)?;
                    for (path, array) in packing {
                        let chunks = ArrayChunks::Inline(array.chunks.inline.clone());
                        self.put(&path, array, chunks)?;
                    }
                }
                (Err(problem), Some(level)) => self.joiner.drop_level(&level, problem),
                (Err(problem), None) => return Err(CombineError::array(growing.url(), &path, problem)),
            }
        }
        self.list_levels();
        self.given()?;
        let Self { joiner: Joiner { mut whole, notes, .. }, chunks, moved, .. } = self;
        conventions::describe_members(&mut whole);
        Ok(Combined { hierarchy: whole, chunks, moved, notes: notes.into_iter().collect() })
    }

    /// Inserts an array at its path, creating the groups above it.
    fn put(&mut self, path: &str, array: Array, chunks: ArrayChunks<'a>) -> Result<(), CombineError> {
        let (parent, name) = node::split(path);
        self.chunks.insert(path.to_owned(), chunks);
        let group = self.joiner.whole.root.make_group(parent).ok_or_else(|| {
            CombineError::array(
                "the files",
                parent,
                Problem::of("an array in one file and a group in another"),
            )
        })?;
        group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
        Ok(())
    }

    /// Converts numbers to one data type, and times to one unit per array.
    fn times(&mut self) -> Result<(), CombineError> {
        let format = self.joiner.whole.format;
        for (path, growing) in &mut self.arrays {
            let done = values::unify_types(growing, format);
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
    fn array(&mut self, path: &str, growing: &mut Growing<'_>) -> Result<(Array, ArrayChunks<'a>)> {
        let mut array = growing.first.clone();
        array.attributes = growing.attributes.kept.clone();
        // Another group may lack the array, for which a fill value was given.
        let is_given = !self.joiner.set.group.is_empty() && self.joiner.layout.fill(path).is_some();
        let lacks_parts = self.missing(path, growing)? || is_given;
        if !growing.varies() {
            let first = growing.pieces.first().and_then(|n| growing.pieces.get(n));
            let row = first.and_then(|piece| growing.files.block(piece.block)).map_or(0, |block| block.row);
            let count = growing.pieces.chunks();
            return Ok((array, ArrayChunks::OfFile { row, path: path.to_owned(), count }));
        }
        let sizes = self.sizes(path);
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = growing.geometry(&self.names, &sizes).ok_or(Problem::TOO_LARGE)?;
        let Layout { rectilinear, inline_limit, .. } = *self.joiner.layout;
        let format = self.joiner.whole.format;
        let storage = growing.parts().storage(&geometry, rectilinear && format == ZarrFormat::V3);
        let storage = storage.map_err(|misfit| explain(growing, &geometry, misfit, inline_limit))?;
        if lacks_parts {
            let is_complete = || growing.pieces.forms().all(|form| form.is_complete);
            let complete = storage == Storage::Copied || is_complete();
            values::prepare(&mut array, format, complete, self.joiner.layout.fill(path))?;
        }
        array.shape = geometry.shape();
        array.dimension_names = geometry.axes.iter().map(|axis| axis.name.clone()).collect();
        if storage == Storage::Copied {
            let fill = element(&array);
            let values = values::whole(growing, &geometry, &fill, MAX_COPIED)?;
            values::set_inline_values(&mut array, values).ok_or(Problem::TOO_LARGE)?;
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

    /// Replaces packing that differs between files by variables along the dimension on which it depends. Returns them by
    /// path.
    fn packing(
        &mut self,
        path: &str,
        growing: &Growing<'_>,
        array: &mut Array,
    ) -> Result<Vec<(NodePath, Array)>> {
        let Some(first) = Packing::of(&growing.first.attributes).filter(|_| !growing.packings.is_empty())
        else {
            return Ok(Vec::new());
        };
        let sizes = self.sizes(path);
        // The packing at each place along a dimension, if it depends on no other one.
        let along = |dimension: usize, places: usize| -> Option<Vec<Packing>> {
            let mut found = vec![None; places];
            for part in growing.pieces.iter() {
                let block = growing.pieces.get(part)?.block;
                let packing = growing.packings.get(&block).copied().unwrap_or(first);
                let place = found.get_mut(index(*growing.place_of(part).get(dimension)?))?;
                if *place.get_or_insert(packing) != packing {
                    return None;
                }
            }
            Some(found.into_iter().map(|place| place.unwrap_or(first)).collect())
        };
        let varying = growing.roles.iter().zip(&sizes).zip(&self.names).enumerate();
        let mut varying = varying.filter(|(_, ((role, _), _))| **role != DimRole::Invariant);
        let found = varying.find_map(|(n, ((_, sizes), name))| Some((name, sizes, along(n, sizes.len())?)));
        let (dimension, sizes, packings) = found.ok_or_else(|| {
            Problem::of("scale_factor and add_offset depend on several dimensions")
                .with(var("drop", "omit it"))
        })?;
        let total = sizes.iter().try_fold(0, |sum: u64, size| sum.checked_add(*size));
        if total.is_none_or(|total| total > MAX_COPIED / 8) {
            return Err(Problem::TOO_LARGE);
        }
        let mut variables = Vec::new();
        let mut names = Vec::new();
        for (attribute, neutral) in Packing::ATTRIBUTES {
            array.attributes.remove(attribute);
            if packings.iter().all(|packing| packing.number(attribute).is_none()) {
                continue;
            }
            let each = packings.iter().zip(sizes).flat_map(|(packing, size)| {
                let repeated = usize::try_from(*size).unwrap_or(usize::MAX);
                std::iter::repeat_n(packing.number(attribute).unwrap_or(neutral), repeated)
            });
            let (along, format) = ((dimension.as_str(), each.collect()), self.joiner.whole.format);
            let (name, variable) = values::packing_variable(array, path, attribute, along, format)?;
            let variable_path = node::join(node::parent(path), &name);
            if self.arrays.contains_key(&variable_path) || self.joiner.whole.node(&variable_path).is_some() {
                return Err(values::name_is_taken(&name));
            }
            variables.push((variable_path, variable));
            names.push(name);
        }
        let declared = if self.joiner.has_declared_bands { " (raster:bands of the catalogue)" } else { "" };
        let names = names.join(" and ");
        let text = format!(
            "packing differs between files{declared}: stored in {names} along {dimension}, which engine=\"virtualize\" applies \
             and other readers do not"
        );
        self.joiner.notes.insert(Note::new(path, text));
        Ok(variables)
    }

    /// Returns whether some place has no part of the array. Fails if a file lacks an array that is not optional.
    fn missing(&mut self, path: &str, growing: &Growing<'_>) -> Result<bool> {
        let found = growing.pieces.len();
        let absent = self.expected(growing).saturating_sub(found);
        if absent > 0 {
            if !Layout::has(&self.joiner.layout.optional, path) {
                let first = growing.first_missing().map(|n| growing.files.url(n));
                let text = format!("missing from {absent} files, first {}", first.unwrap_or_default());
                let optional = var("optional", "fill the part of files that lack it");
                return Err(Problem::new(text).with(optional.or(var("drop", "omit it"))));
            }
            let text = format!("{absent} files do not have it: their part reads as the fill value");
            self.joiner.notes.insert(Note::new(path, text));
        }
        let counts = growing.roles.iter().zip(&self.joiner.set.sizes);
        let places =
            counts.map(|(role, sizes)| if *role == DimRole::Invariant { 1 } else { sizes.len() as u64 });
        let all = places.fold(1_u64, u64::saturating_mul);
        Ok(all > found as u64)
    }

    /// Returns the number of parts that an array has if no file lacks it.
    fn expected(&self, growing: &Growing<'_>) -> usize {
        let blocks = self.joiner.set.blocks.len();
        if varies_throughout(&growing.roles) {
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
        let all = self.joiner.set.sizes.iter().enumerate();
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
            let (Some(name), Some(sizes)) = (self.names.get(n).cloned(), self.joiner.set.sizes.get(n)) else {
                continue;
            };
            if given.iter().all(Option::is_none) {
                continue;
            }
            let error = |problem| CombineError::of(format!("coordinate {name}"), problem);
            if self.joiner.whole.node(&name).is_some() {
                if self.joiner.layout.along.get(n).is_some_and(|along| matches!(along, Along::Stack(_))) {
                    return Err(error(Problem::of("the files already have an array or group of that name")));
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
            let array = values::array(&name, given, self.joiner.whole.format);
            let array = array.ok_or_else(|| error(Problem::of("values of several kinds")))?;
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
fn with_new_axes(codecs: &[Codec], new: usize) -> Result<Vec<Codec>> {
    let unknown = |codec: &Codec| {
        let codec = codec.describe();
        Problem::new(format!("unknown effect of codec {codec} on an array with one more axis"))
    };
    codecs.iter().map(|codec| codec.with_leading_axes(new).ok_or_else(|| unknown(codec))).collect()
}

/// Returns why the parts of an array cannot be stored as one; arrays of up to `copy_limit` bytes per file are copied.
pub(super) fn explain(
    growing: &Growing<'_>,
    geometry: &Geometry,
    misfit: Misfit,
    copy_limit: u64,
) -> Problem {
    match misfit {
        Misfit::NotRead => Problem::NOT_READ,
        Misfit::Codecs => {
            let is_other = |n: &u32| growing.pieces.form(*n).is_some_and(|form| !form.layout.fits);
            let other = growing.pieces.iter().find(is_other);
            let url = other.map(|n| growing.url_of(n)).unwrap_or_default();
            Problem::new(format!("codecs or fill value of {url} are not those of {}", growing.url()))
        }
        Misfit::Chunks => {
            let axes = geometry.axes.iter();
            let growing_axes: Vec<_> =
                axes.filter_map(|axis| Some((axis.own?, axis.dimension?, axis))).collect();
            let is_only = growing_axes.len() == 1;
            let mut problems =
                growing_axes.into_iter().filter_map(|axis| along(growing, axis, is_only, copy_limit));
            problems.next().unwrap_or(Problem::GRID)
        }
    }
}

/// Returns the first part whose chunks do not fit along an axis.
fn along(
    growing: &Growing<'_>,
    (own, dimension, axis): (usize, usize, &Axis),
    is_only: bool,
    copy_limit: u64,
) -> Option<Problem> {
    let name = || axis.name.clone().unwrap_or_else(|| "?".to_owned());
    let pieces = &growing.pieces;
    let layout = |n| pieces.form(n).map(|form| &form.layout);
    let first = pieces.first().and_then(layout).and_then(|first| first.chunk_along(own)).unwrap_or(0);
    pieces.iter().find_map(|n| {
        let place = growing.place_of(n);
        let is_last = place.get(dimension).is_some_and(|n| u64::from(*n) + 1 == axis.sizes.len() as u64);
        let part = layout(n)?;
        let length = part.shape.get(own).copied().unwrap_or(0);
        let chunk = part.chunk_along(own).unwrap_or(0);
        if chunk != first {
            let (url, axis) = (growing.url_of(n), name());
            let text =
                format!("chunks of {chunk} elements along {axis} in {url}, but {first} in earlier files");
            return Some(Problem::new(text).with(if chunk == length && is_only {
                Remedy::set(OptionName::ChunkGrid, "rectilinear", "let chunk sizes vary")
            } else {
                let effect = format!("copy arrays larger than {copy_limit} bytes per file");
                Remedy::turn_on(OptionName::CopyLimit, effect).or(Remedy::advice("write the files again"))
            }));
        }
        let is_partial = !is_last && chunk > 0 && length % chunk != 0;
        is_partial.then(|| {
            let (url, axis) = (growing.url_of(n), name());
            let effect = format!("copy arrays larger than {copy_limit} bytes per file");
            let remedy = Remedy::turn_on(OptionName::CopyLimit, effect)
                .or(var("drop", "omit it"))
                .or(Remedy::advice("write the files again"));
            let text = format!(
                "{length} elements along {axis} in {url} are not a multiple of the chunk length {chunk}, and only the last \
                 file may end within a chunk"
            );
            Problem::new(text).with(remedy)
        })
    })
}
