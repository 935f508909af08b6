//! Accumulates arrays, groups and coordinates file by file.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use virtualize::zarr::{Array, ChunkManifest, Hierarchy, NodePath, ZarrFormat, node};

use super::{
    accumulate::{ArrayOptions, Compared, Growing, Read},
    attributes::MergedAttributes,
    files::Files,
    kinds::{KindArray, Kinds, SizeClass, size_class},
    selection,
};
use crate::{
    Along, Layout,
    compat::DimRole,
    error::{CombineError, Note, Problem},
    file::{Head, HeadNode, ParsedNode},
    plan::{PlannedEra, Selection},
    values::{Scalar, scalar::Given},
};

/// Maximum number of documents of a node that are remembered.
const MAX_SEEN: usize = 32;

/// State of a join after some of the files.
pub(super) struct Joiner<'a> {
    pub(super) era: &'a PlannedEra,
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
    kinds: Kinds,
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
    pub(super) fn new(format: ZarrFormat, era: &'a PlannedEra, files: Files<'a>, layout: &'a Layout) -> Self {
        let places = (0..layout.along.len()).map(|n| era.sizes.get(n).map_or(0, Vec::len));
        Self {
            era,
            layout,
            files,
            whole: Hierarchy::new(format),
            nodes: Vec::new(),
            of_path: HashMap::new(),
            sizes: HashMap::new(),
            followers: BTreeMap::new(),
            given: places.map(|places| vec![None; places]).collect(),
            notes: BTreeSet::new(),
            kinds: Kinds::default(),
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
        let error = |problem| CombineError::file(&head.item.url, problem);
        let block = self.files.block(n).ok_or(CombineError::Nothing)?;
        if head.format != self.whole.format {
            return Err(error(Problem::ZarrFormat));
        }
        self.give(&block.at, head).map_err(error)?;
        let contributions = self.look_up(head);
        let kind = self.kinds.kind(&contributions, head, self.layout);
        for (path, bounds) in &kind.followers {
            if !self.followers.contains_key(path) {
                self.followers.insert(path.clone(), bounds.clone());
            }
        }
        self.merge_groups();
        for array in &kind.arrays {
            let Some(node) = head.nodes.get(array.node) else { continue };
            let file = File { n, head, selection: block.selection.as_deref().copied() };
            self.array(array, node, &file, tables)
                .map_err(|problem| CombineError::array(&head.item.url, &*node.path, problem))?;
        }
        Ok(())
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
                let contribution = self.kinds.contribution(path, node, size);
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
    fn give(&mut self, at: &[u32], head: &Head) -> Result<(), Problem> {
        for ((along, place), slots) in self.layout.along.iter().zip(at).zip(&mut self.given) {
            let name = along.name();
            let attribute = self.layout.coordinate_attributes.get(name);
            let attribute = attribute.and_then(|attribute| head.root_attributes()?.get(attribute));
            let given = match (head.given.get(name), attribute, along) {
                (Some(value), _, _) => Given::of(value),
                (None, Some(value), Along::Stack(_)) => Scalar::of_json(value).map(Given::plain),
                _ => None,
            };
            if let (Some(given), Some(slot)) = (given, slots.get_mut(index(*place))) {
                let known = slot.get_or_insert_with(|| given.clone());
                if *known != given {
                    let (now, before) = (given.value.to_string(), known.value.to_string());
                    return Err(Problem::CoordinateConflict { name: name.to_owned(), now, before });
                }
            }
        }
        Ok(())
    }

    /// Adds an array of a file.
    fn array(
        &mut self,
        kind: &KindArray,
        node: &HeadNode,
        file: &File<'_>,
        tables: &mut BTreeMap<NodePath, ChunkManifest>,
    ) -> Result<(), Problem> {
        let ParsedNode::Array(array) = &*node.node else { return Ok(()) };
        let values = file.head.values.get(&*node.path);
        let digest = file.head.digests.get(&*node.path).map(String::as_str);
        let selected = file.selected(kind, self.layout);
        let Some((selection, (axis, name))) = selected else {
            let read = Read { chunks: node.count, values: values.map(AsRef::as_ref), digest };
            return self.add_array(kind, (&node.path, array), file.n, read, true);
        };
        let mut array = array.clone();
        array.chunks = tables.remove(&*node.path).unwrap_or_default();
        let mut values = values.cloned();
        selection::select(&mut array, values.as_mut(), axis, selection, name)?;
        own_coordinates(&node.path, name)?;
        let read = Read { chunks: array.chunks.len(), values: values.as_deref(), digest };
        self.add_array(kind, (&node.path, &array), file.n, read, false)
    }

    /// Adds an array whose metadata is that of the file's document, if `is_document`.
    fn add_array(
        &mut self,
        kind: &KindArray,
        (path, array): (&Arc<str>, &Array),
        block: u32,
        read: Read<'_>,
        is_document: bool,
    ) -> Result<(), Problem> {
        if let Some(problem) = &kind.problem {
            return Err(problem.clone());
        }
        self.measure(path, &array.shape, &kind.roles, block)?;
        let options = ArrayOptions {
            format: self.whole.format,
            assume_equal: Layout::has(&self.layout.assume_equal, path),
            is_optional: Layout::has(&self.layout.optional, path),
        };
        let files = self.files;
        let Some((NodeState { array: slot, seen, .. }, document)) = self.node(kind.node) else {
            return Ok(());
        };
        let growing = slot.get_or_insert_with(|| {
            let of_values = (kind.is_copied, kind.are_times);
            Growing::new(array, (files, block), kind.roles.clone(), of_values, options)
        });
        if growing.roles != kind.roles {
            return Err(Problem::Roles);
        }
        match seen.get_mut(document).filter(|_| is_document) {
            Some(Seen { compared: Some(compared), .. }) => growing.add(block, compared, read),
            Some(seen) => {
                let compared = growing.compare(array)?;
                growing.add(block, seen.compared.insert(compared), read)
            }
            None => {
                let mut compared = growing.compare(array)?;
                growing.add(block, &mut compared, read)
            }
        }
    }

    /// Records the number of elements that the array's group has along each dimension at the file's place.
    fn measure(&mut self, path: &str, shape: &[u64], roles: &[DimRole], block: u32) -> Result<(), Problem> {
        if !roles.iter().any(|role| matches!(role, DimRole::Axis(_))) {
            return Ok(());
        }
        let at = self.files.block(block).map(|block| block.at.as_slice()).unwrap_or_default();
        let group = node::parent(path);
        if !self.sizes.contains_key(group) {
            let empty = self.era.sizes.iter().map(|sizes| vec![None; sizes.len()]).collect();
            self.sizes.insert(group.to_owned(), empty);
        }
        let Some(sizes) = self.sizes.get_mut(group) else { return Ok(()) };
        for ((place, sizes), n) in roles.iter().zip(sizes).zip(at) {
            let DimRole::Axis(axis) = place else { continue };
            let (Some(own), Some(slot)) = (shape.get(*axis), sizes.get_mut(index(*n))) else { continue };
            let known = *slot.get_or_insert(*own);
            if known != *own {
                return Err(Problem::UnequalLengths { own: *own, axis: *axis, known });
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

/// A file that is added.
struct File<'a> {
    /// Index of its block.
    n: u32,
    head: &'a Head,
    selection: Option<Selection>,
}

impl File<'_> {
    /// Returns the selection from an array, with its axis and dimension; `None` if the whole array is taken.
    fn selected<'a>(&self, kind: &KindArray, layout: &'a Layout) -> Option<(Selection, (usize, &'a str))> {
        match (self.selection, kind.roles.as_slice(), layout.along.as_slice()) {
            (Some(selection), [DimRole::Axis(axis)], [along]) => Some((selection, (*axis, along.name()))),
            _ => None,
        }
    }
}

/// Rejects a selection in a group with its own coordinates along the dimension, whose indices may differ.
fn own_coordinates(path: &str, name: &str) -> Result<(), Problem> {
    match path.rsplit_once('/') {
        Some((_, last)) if last == name => Err(Problem::OwnCoordinates { name: name.to_owned() }),
        _ => Ok(()),
    }
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}
