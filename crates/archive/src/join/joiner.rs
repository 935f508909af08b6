//! What is known of all files after each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use virtualize::zarr::{Array, Group, Hierarchy, Node, NodePath, Source, SourceId};

use super::{
    accumulate::{Growing, Read},
    attributes::Merged,
    selection,
};
use crate::{
    Along, Layout, Member,
    compat::{
        Place, places, role,
        storage::is_copied,
        times::{self, bounds_of},
    },
    error::{CombineError, Note},
    plan::{Block, PlannedEra},
    values::{Scalar, scalar::Given},
};

/// What is known after some of the files.
pub(super) struct Joiner<'a> {
    pub(super) era: &'a PlannedEra,
    pub(super) layout: &'a Layout,
    pub(super) whole: Hierarchy,
    pub(super) arrays: BTreeMap<NodePath, Growing>,
    pub(super) groups: BTreeMap<NodePath, Merged>,
    /// Elements of each place along each dimension, as the arrays of a group have them.
    pub(super) sizes: BTreeMap<NodePath, Vec<Vec<Option<u64>>>>,
    /// For each array of times the bounds that follow its units.
    pub(super) followers: BTreeMap<NodePath, Vec<NodePath>>,
    /// Coordinates that no array of the files has, by place, for each dimension.
    pub(super) given: Vec<BTreeMap<usize, Given>>,
    pub(super) notes: BTreeSet<Note>,
    /// Ids of sources by url, entity tag, size and time.
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
            sources: HashMap::new(),
        }
    }

    pub(super) fn add(&mut self, block: &Block, mut member: Member) -> Result<(), CombineError> {
        let at = block.at.as_slice();
        let url: Arc<str> = member.item.url.as_str().into();
        let error = |what: String| CombineError::File { url: url.to_string(), what };
        if member.hierarchy.format != self.whole.format {
            return Err(error("its references are of another Zarr format than those before".to_owned()));
        }
        self.give(at, &member).map_err(error)?;
        let places = places(&member.hierarchy, self.layout);
        let related = times::related(&member.hierarchy, self.layout.inline_limit);
        let ids = self.sources_of(&member.hierarchy.sources);
        self.follow(&member.hierarchy);
        let groups = groups_of(&member.hierarchy.root);
        for (path, attributes) in groups {
            match self.groups.get_mut(&path) {
                Some(merged) => merged.add(&attributes, false),
                None => {
                    self.groups.insert(path, Merged::new(&attributes));
                }
            }
        }
        for (path, places) in places {
            let Some(mut array) = take(&mut member.hierarchy, &path) else { continue };
            let are_times = related.contains(&path);
            let always = is_copied(&path, &array, &places, are_times);
            if let (Some(taken), [Place::Axis(axis)], [along]) =
                (block.taken, places.as_slice(), self.layout.along.as_slice())
            {
                let values = member.values.get_mut(&path).map(|values| &mut values.bytes);
                selection::take(&mut array, values, *axis, taken, along.name())
                    .and_then(|()| own_coordinates(&path, along.name()))
                    .map_err(|what| CombineError::Array { url: url.to_string(), path: path.clone(), what })?;
            }
            let (values, digest) = (member.values.remove(&path), member.digests.remove(&path));
            let read = Read { values, digest, format: self.whole.format, times: are_times };
            let file = File { at, url: &url, ids: &ids };
            self.array(&path, array, places, always, read, &file).map_err(|what| CombineError::Array {
                url: url.to_string(),
                path: path.clone(),
                what,
            })?;
        }
        Ok(())
    }

    /// Keeps coordinates that no array of the file has.
    fn give(&mut self, at: &[usize], member: &Member) -> Result<(), String> {
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
                    return Err(format!("coordinate {name} is {}, and {} before", given.value, known.value));
                }
            }
        }
        Ok(())
    }

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

    fn follow(&mut self, hierarchy: &Hierarchy) {
        for (path, array) in hierarchy.arrays() {
            if times::has_time_units(array) && !self.followers.contains_key(&path) {
                self.followers.insert(path.clone(), bounds_of(hierarchy, &path, array));
            }
        }
    }

    fn array(
        &mut self,
        path: &str,
        mut array: Array,
        places: Vec<Place>,
        always: bool,
        read: Read,
        file: &File<'_>,
    ) -> Result<(), String> {
        self.check_axes(&array, &places)?;
        self.measure(path, &array, &places, file.at)?;
        for references in &mut array.chunks.references {
            let id = file.ids.get(references.source.index());
            references.source = *id.ok_or("its chunks lie in a file that is not listed")?;
        }
        let assume_equal = Layout::has(&self.layout.assume_equal, path);
        let growing = match self.arrays.get_mut(path) {
            Some(growing) => growing,
            None => {
                let new = Growing::new(&array, file.url.clone(), places.clone(), always, read.times);
                self.arrays.entry(path.to_owned()).or_insert(new)
            }
        };
        if growing.places != places {
            return Err("it does not vary along the same dimensions as before".to_owned());
        }
        growing.add(file.at, file.url, array, read, assume_equal)
    }

    fn check_axes(&self, array: &Array, places: &[Place]) -> Result<(), String> {
        for (along, place) in self.layout.along.iter().zip(places) {
            let name = along.name();
            let times = array.dimension_names.iter().filter(|own| own.as_deref() == Some(name)).count();
            match place {
                Place::Axis(_) if times > 1 => return Err(format!("it has dimension {name} twice")),
                Place::Stacked | Place::Repeated if times > 0 => {
                    return Err(format!("it has a dimension {name} already, which is to be new"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes how many elements the array's group has along each dimension at the file's place.
    fn measure(&mut self, path: &str, array: &Array, places: &[Place], at: &[usize]) -> Result<(), String> {
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        let empty = || self.era.sizes.iter().map(|sizes| vec![None; sizes.len()]).collect();
        let sizes: &mut Vec<Vec<Option<u64>>> = self.sizes.entry(group.to_owned()).or_insert_with(empty);
        for ((place, sizes), n) in places.iter().zip(sizes).zip(at) {
            let Place::Axis(axis) = place else { continue };
            let (Some(own), Some(slot)) = (array.shape.get(*axis), sizes.get_mut(*n)) else { continue };
            let known = *slot.get_or_insert(*own);
            if known != *own {
                return Err(format!("{own} elements along axis {axis}, and {known} in arrays beside it"));
            }
        }
        Ok(())
    }
}

/// Groups below the root may count along a dimension of the same name otherwise.
fn own_coordinates(path: &str, name: &str) -> Result<(), String> {
    match path.rsplit_once('/') {
        Some((_, last)) if last == name => Err(format!(
            "a part of the file is taken along {name}, and this group has coordinates of its own along it"
        )),
        _ => Ok(()),
    }
}

type SourceKey = (String, Option<String>, u64, Option<i64>);

/// A file, and its place.
struct File<'a> {
    at: &'a [usize],
    url: &'a Arc<str>,
    /// Ids of its sources in the whole.
    ids: &'a [SourceId],
}

fn take(hierarchy: &mut Hierarchy, path: &str) -> Option<Array> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    match hierarchy.root.group_mut(parent)?.children.remove(name)? {
        Node::Array(array) => Some(*array),
        Node::Group(_) => None,
    }
}

type Attributes = serde_json::Map<String, serde_json::Value>;

fn groups_of(root: &Group) -> Vec<(NodePath, Attributes)> {
    let mut found = Vec::new();
    let mut rest = vec![(NodePath::new(), root)];
    while let Some((path, group)) = rest.pop() {
        for (name, node) in &group.children {
            if let Node::Group(child) = node {
                rest.push((role::join(&path, name), child));
            }
        }
        found.push((path, group.attributes.clone()));
    }
    found
}
