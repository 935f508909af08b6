//! Accumulates arrays, groups and coordinates file by file.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use virtualize::zarr::{
    Array, Group, Hierarchy, Node, NodePath, Source, SourceId,
    node::{self, join},
};

use super::{
    accumulate::{Growing, Read},
    attributes::MergedAttributes,
    selection,
};
use crate::{
    Along, Layout, Member,
    compat::{
        DimRole, is_copied, roles,
        times::{self, bounds_of},
    },
    error::{CombineError, Note, Problem},
    plan::{Block, PlannedEra},
    values::{Scalar, scalar::Given},
};

/// State of a join after some of the files.
pub(super) struct Joiner<'a> {
    pub(super) era: &'a PlannedEra,
    pub(super) layout: &'a Layout,
    pub(super) whole: Hierarchy,
    pub(super) arrays: BTreeMap<NodePath, Growing>,
    pub(super) groups: BTreeMap<NodePath, MergedAttributes>,
    /// Number of elements at each place along each dimension, by group.
    pub(super) sizes: BTreeMap<NodePath, Vec<Vec<Option<u64>>>>,
    /// Bounds that share the units of an array of times, by the path of that array.
    pub(super) followers: BTreeMap<NodePath, Vec<NodePath>>,
    /// Coordinates that no array provides, by place, for each dimension.
    pub(super) given: Vec<BTreeMap<usize, Given>>,
    pub(super) notes: BTreeSet<Note>,
    /// The files by row.
    pub(super) urls: HashMap<u64, Arc<str>>,
    /// IDs of sources by URL, entity tag, size and time of modification.
    sources: HashMap<SourceKey, SourceId>,
}

impl<'a> Joiner<'a> {
    pub(super) fn new(first: &Member, era: &'a PlannedEra, layout: &'a Layout) -> Self {
        Self {
            era,
            layout,
            whole: Hierarchy::new(first.hierarchy.format),
            arrays: BTreeMap::new(),
            groups: BTreeMap::new(),
            sizes: BTreeMap::new(),
            followers: BTreeMap::new(),
            given: vec![BTreeMap::new(); layout.along.len()],
            notes: BTreeSet::new(),
            urls: HashMap::new(),
            sources: HashMap::new(),
        }
    }

    /// Adds a file at its place.
    pub(super) fn add(&mut self, block: &Block, mut member: Member) -> Result<(), CombineError> {
        let at = block.indices();
        let at = at.as_slice();
        let url: Arc<str> = member.item.url.as_str().into();
        let error = |problem| CombineError::file(&*url, problem);
        if member.hierarchy.format != self.whole.format {
            return Err(error(Problem::ZarrFormat));
        }
        self.give(at, &member).map_err(error)?;
        let roles = roles(&member.hierarchy, self.layout);
        let related = times::time_arrays(&member.hierarchy, self.layout.inline_limit);
        self.urls.insert(block.row, Arc::clone(&url));
        let ids = self.sources_of(&member.hierarchy.sources);
        self.follow(&member.hierarchy);
        self.merge_groups(&member.hierarchy.root);
        for (path, roles) in roles {
            let Some(mut array) = take(&mut member.hierarchy, &path) else { continue };
            let are_times = related.contains(&path);
            let always = is_copied(&path, &array, &roles, are_times);
            if let (Some(taken), [DimRole::Axis(axis)], [along]) =
                (block.selection.as_deref().copied(), roles.as_slice(), self.layout.along.as_slice())
            {
                let values = member.values.get_mut(&path).map(|values| &mut values.bytes);
                selection::select(&mut array, values, *axis, taken, along.name())
                    .and_then(|()| own_coordinates(&path, along.name()))
                    .map_err(|problem| CombineError::array(&*url, &path, problem))?;
            }
            let (values, digest) = (member.values.remove(&path), member.digests.remove(&path));
            let read = Read {
                values,
                digest,
                format: self.whole.format,
                are_times,
                assume_equal: Layout::has(&self.layout.assume_equal, &path),
                is_optional: Layout::has(&self.layout.optional, &path),
            };
            let file = File { at, url: &url, ids: &ids };
            self.array(&path, array, roles, always, read, &file)
                .map_err(|problem| CombineError::array(&*url, &path, problem))?;
        }
        Ok(())
    }

    /// Merges the attributes of a file's groups.
    fn merge_groups(&mut self, root: &Group) {
        for (path, attributes) in groups_of(root) {
            match self.groups.get_mut(&path) {
                Some(merged) => merged.add(&attributes, false),
                None => {
                    self.groups.insert(path, MergedAttributes::new(&attributes));
                }
            }
        }
    }

    /// Records the coordinates that a file's name, catalogue entry or attributes provide.
    fn give(&mut self, at: &[usize], member: &Member) -> Result<(), Problem> {
        for ((n, along), place) in self.layout.along.iter().enumerate().zip(at) {
            let name = along.name();
            let attribute = self.layout.coordinate_attributes.get(name);
            let attribute = attribute.and_then(|attribute| member.hierarchy.root.attributes.get(attribute));
            let given = match (member.given.get(name), attribute, along) {
                (Some(value), _, _) => Given::of(value),
                (None, Some(value), Along::Stack(_)) => Scalar::of_json(value).map(Given::plain),
                _ => None,
            };
            if let (Some(given), Some(slot)) = (given, self.given.get_mut(n)) {
                let known = slot.entry(*place).or_insert_with(|| given.clone());
                if *known != given {
                    let (now, before) = (given.value.to_string(), known.value.to_string());
                    return Err(Problem::CoordinateConflict { name: name.to_owned(), now, before });
                }
            }
        }
        Ok(())
    }

    /// Returns the combined IDs of a file's sources, adding those that are new.
    fn sources_of(&mut self, sources: &[Source]) -> Vec<SourceId> {
        let whole = &mut self.whole.sources;
        let id = |source: &Source| {
            let key = (source.url.clone(), source.etag.clone(), source.size, source.modified);
            *self.sources.entry(key).or_insert_with(|| {
                let id = SourceId(u32::try_from(whole.len()).unwrap_or(u32::MAX));
                whole.push(source.clone());
                id
            })
        };
        sources.iter().map(id).collect()
    }

    /// Records the bounds that share the units of each array of times.
    fn follow(&mut self, hierarchy: &Hierarchy) {
        for (path, array) in hierarchy.arrays() {
            if times::has_time_units(array) && !self.followers.contains_key(&path) {
                self.followers.insert(path.clone(), bounds_of(hierarchy, &path, array));
            }
        }
    }

    /// Adds an array of a file.
    fn array(
        &mut self,
        path: &str,
        mut array: Array,
        roles: Vec<DimRole>,
        always: bool,
        read: Read,
        file: &File<'_>,
    ) -> Result<(), Problem> {
        self.check_axes(&array, &roles)?;
        self.measure(path, &array, &roles, file.at)?;
        for references in &mut array.chunks.references {
            let id = file.ids.get(references.source.index());
            references.source = *id.ok_or(Problem::UnknownSource)?;
        }
        let growing = match self.arrays.get_mut(path) {
            Some(growing) => growing,
            None => {
                let new = Growing::new(&array, file.url.clone(), roles.clone(), always, read.are_times);
                self.arrays.entry(path.to_owned()).or_insert(new)
            }
        };
        if growing.roles != roles {
            return Err(Problem::Roles);
        }
        growing.add(file.at, file.url, array, read)
    }

    /// Rejects an array that has a dimension twice, or already has one that it is to gain.
    fn check_axes(&self, array: &Array, roles: &[DimRole]) -> Result<(), Problem> {
        for (along, place) in self.layout.along.iter().zip(roles) {
            let name = along.name();
            let times = array.dimension_names.iter().filter(|own| own.as_deref() == Some(name)).count();
            match place {
                DimRole::Axis(_) if times > 1 => {
                    return Err(Problem::RepeatedDimension { name: name.to_owned() });
                }
                DimRole::NewAxis | DimRole::Broadcast if times > 0 => {
                    return Err(Problem::DimensionExists { name: name.to_owned() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records the number of elements that the array's group has along each dimension at the file's place.
    fn measure(&mut self, path: &str, array: &Array, roles: &[DimRole], at: &[usize]) -> Result<(), Problem> {
        let group = node::parent(path);
        let empty = || self.era.sizes.iter().map(|sizes| vec![None; sizes.len()]).collect();
        let sizes: &mut Vec<Vec<Option<u64>>> = self.sizes.entry(group.to_owned()).or_insert_with(empty);
        for ((place, sizes), n) in roles.iter().zip(sizes).zip(at) {
            let DimRole::Axis(axis) = place else { continue };
            let (Some(own), Some(slot)) = (array.shape.get(*axis), sizes.get_mut(*n)) else { continue };
            let known = *slot.get_or_insert(*own);
            if known != *own {
                return Err(Problem::UnequalLengths { own: *own, axis: *axis, known });
            }
        }
        Ok(())
    }
}

/// Rejects a selection in a group with its own coordinates along the dimension, whose indices may differ.
fn own_coordinates(path: &str, name: &str) -> Result<(), Problem> {
    match path.rsplit_once('/') {
        Some((_, last)) if last == name => Err(Problem::OwnCoordinates { name: name.to_owned() }),
        _ => Ok(()),
    }
}

type SourceKey = (String, Option<String>, u64, Option<i64>);

/// A file and its place along each dimension.
struct File<'a> {
    at: &'a [usize],
    url: &'a Arc<str>,
    /// IDs of its sources in the combined hierarchy.
    ids: &'a [SourceId],
}

/// Removes an array from a hierarchy.
fn take(hierarchy: &mut Hierarchy, path: &str) -> Option<Array> {
    let (parent, name) = node::split(path);
    match hierarchy.root.group_mut(parent)?.children.remove(name)? {
        Node::Array(array) => Some(*array),
        Node::Group(_) => None,
    }
}

type Attributes = serde_json::Map<String, serde_json::Value>;

/// Returns path and attributes of all groups.
fn groups_of(root: &Group) -> Vec<(NodePath, Attributes)> {
    let mut found = Vec::new();
    let mut rest = vec![(NodePath::new(), root)];
    while let Some((path, group)) = rest.pop() {
        for (name, node) in &group.children {
            if let Node::Group(child) = node {
                rest.push((join(&path, name), child));
            }
        }
        found.push((path, group.attributes.clone()));
    }
    found
}
