//! Merges the attributes of files.

use super::Result;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize::zarr::{Array, NodePath, cf::attributes::decides_values};

use crate::{
    Layout,
    compat::{
        DimRole, is_copied, roles,
        roles::{DESCRIBING, bounds_of, has_time_units, time_arrays},
    },
    error::{Note, Problem},
    file::{Head, ParsedNode},
    values::variable::{is_variable, value_bytes},
};

/// Attributes that refer to other arrays: those of the first file are kept.
const NAMING: [&str; 3] = ["bounds", "climatology", "coordinates"];

/// Maximum number of distinct values counted per attribute.
const MOST_VALUES: usize = 10_000;

/// Merged attributes of a group or array.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MergedAttributes {
    /// Attributes of the first file that no other file contradicts.
    pub(super) kept: Map<String, Value>,
    /// All attributes of the first file.
    first: Map<String, Value>,
    /// Hashes of the values of attributes that differ between files.
    differing: BTreeMap<String, BTreeSet<u64>>,
}

impl MergedAttributes {
    pub(super) fn new(first: &Map<String, Value>) -> Self {
        Self { kept: first.clone(), first: first.clone(), differing: BTreeMap::new() }
    }

    /// Merges the attributes of another file. The signatures already cover attributes that determine what an array's
    /// values mean.
    pub(super) fn add(&mut self, other: &Map<String, Value>, of_array: bool) {
        if *other == self.first && self.differing.is_empty() {
            return;
        }
        let Self { kept, first, differing } = self;
        let added = other.keys().filter(|name| !first.contains_key(*name));
        for name in first.keys().chain(added) {
            let (left, right) = (first.get(name), other.get(name));
            if (left == right && !differing.contains_key(name)) || (of_array && decides_values(name)) {
                continue;
            }
            if !(of_array && NAMING.contains(&name.as_str())) {
                kept.remove(name);
            }
            if !differing.contains_key(name) {
                differing.insert(name.clone(), [hash(left)].into());
            }
            let values = differing.get_mut(name).filter(|values| values.len() < MOST_VALUES);
            values.map(|values| values.insert(hash(right)));
        }
    }

    /// Returns notes on the attributes that were dropped.
    pub(super) fn notes(&self, path: &str) -> Vec<Note> {
        let subject = if path.is_empty() { "/" } else { path };
        let note = |(name, values): (&String, &BTreeSet<u64>)| {
            let many = if values.len() < MOST_VALUES { "" } else { "at least " };
            let done = if self.kept.contains_key(name) { "the first file's is kept" } else { "dropped" };
            let text = format!("attribute {name} has {many}{} different values: {done}", values.len());
            Note::new(subject, text)
        };
        self.differing.iter().map(note).collect()
    }
}

fn hash(value: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.map(Value::to_string).hash(&mut hasher);
    hasher.finish()
}

/// Maximum number of kinds, and of contributions, that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// What a node contributes to the roles of a file's arrays.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Contribution {
    path: Arc<str>,
    array: Option<OfArray>,
    /// Attributes that name arrays.
    naming: Vec<(&'static str, String)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfArray {
    dimensions: Vec<Option<String>>,
    /// Whether it has a single element.
    is_single: bool,
    size: SizeClass,
    has_time_units: bool,
}

/// Whether the size of an array's values is known, and small enough to be copied.
pub(super) type SizeClass = Option<bool>;

/// Files of one kind.
pub(super) struct Kind {
    /// The arrays, in order of path.
    pub(super) arrays: Vec<KindArray>,
    /// Bounds that share the units of each array of times, by the path of that array.
    pub(super) followers: BTreeMap<NodePath, Vec<NodePath>>,
}

/// An array in files of one kind.
pub(super) struct KindArray {
    /// Index among the file's nodes.
    pub(super) node: usize,
    pub(super) roles: Vec<DimRole>,
    /// Whether its values are copied in any case.
    pub(super) is_copied: bool,
    /// Whether it holds times, or bounds of times.
    pub(super) are_times: bool,
    /// Why its dimensions do not suit the layout.
    pub(super) problem: Option<Problem>,
}

/// The kinds of files that were added so far.
#[derive(Default)]
pub(super) struct Kinds {
    contributions: HashMap<Contribution, u64>,
    kinds: HashMap<Vec<u64>, Rc<Kind>>,
    /// Number of the next contribution.
    next: u64,
}

impl Kinds {
    /// Returns the number of what a node contributes: equal numbers mean equal contributions.
    pub(super) fn contribution(&mut self, path: &Arc<str>, node: &ParsedNode, size: SizeClass) -> u64 {
        if self.contributions.len() > MAX_REMEMBERED {
            self.contributions.clear();
        }
        let (array, attributes) = match node {
            ParsedNode::Group(attributes) => (None, attributes),
            ParsedNode::Array(array) => {
                let of_array = OfArray {
                    dimensions: array.dimension_names.clone(),
                    is_single: array.shape.iter().all(|n| *n == 1),
                    size,
                    has_time_units: has_time_units(array),
                };
                (Some(of_array), &array.attributes)
            }
        };
        let naming = DESCRIBING.iter();
        let naming = naming.filter_map(|name| Some((*name, attributes.get(*name)?.as_str()?.to_owned())));
        let contribution = Contribution { path: Arc::clone(path), array, naming: naming.collect() };
        *self.contributions.entry(contribution).or_insert_with(|| {
            self.next += 1;
            self.next
        })
    }

    /// Returns the kind of a file from the numbers of its nodes' contributions.
    pub(super) fn kind(&mut self, contributions: &[u64], head: &Head, layout: &Layout) -> Rc<Kind> {
        if let Some(known) = self.kinds.get(contributions) {
            return Rc::clone(known);
        }
        if self.kinds.len() > MAX_REMEMBERED {
            self.kinds.clear();
        }
        let kind = Rc::new(Kind::of(head, layout));
        self.kinds.insert(contributions.to_vec(), Rc::clone(&kind));
        kind
    }
}

/// Returns the size class of a node's values. The size of elements of variable length is known if they were read.
pub(super) fn size_class(node: &ParsedNode, values: Option<&Bytes>, limit: u64) -> SizeClass {
    let ParsedNode::Array(array) = node else { return None };
    let size = if is_variable(&array.data_type) {
        values.map(|values| values.len() as u64)
    } else {
        value_bytes(array)
    };
    size.map(|size| size <= limit)
}

impl Kind {
    fn of(head: &Head, layout: &Layout) -> Self {
        let hierarchy = head.hierarchy();
        let related = time_arrays(&hierarchy, layout.inline_limit);
        let mut roles = roles(&hierarchy, layout);
        let mut arrays = Vec::new();
        for (n, node) in head.nodes.iter().enumerate() {
            let Some((array, roles)) = hierarchy.array(&node.path).zip(roles.remove(&*node.path)) else {
                continue;
            };
            let are_times = related.contains(&*node.path);
            arrays.push(KindArray {
                node: n,
                is_copied: is_copied(&node.path, array, &roles, are_times),
                are_times,
                problem: check_axes(array, &roles, layout).err(),
                roles,
            });
        }
        let path = |array: &KindArray| head.nodes.get(array.node).map(|node| Arc::clone(&node.path));
        arrays.sort_by_key(path);
        let times = hierarchy.arrays().into_iter().filter(|(_, array)| has_time_units(array));
        let followers = times.map(|(path, array)| {
            let bounds = bounds_of(&hierarchy, &path, array);
            (path, bounds)
        });
        Self { arrays, followers: followers.collect() }
    }
}

/// Rejects an array that has a dimension twice, or already has one that it is to gain.
fn check_axes(array: &Array, roles: &[DimRole], layout: &Layout) -> Result<()> {
    for (along, place) in layout.along.iter().zip(roles) {
        let name = along.name();
        let times = array.dimension_names.iter().filter(|own| own.as_deref() == Some(name)).count();
        match place {
            DimRole::Axis(_) if times > 1 => {
                return Err(Problem::new(format!("dimension {name} occurs twice")));
            }
            DimRole::NewAxis | DimRole::Broadcast if times > 0 => {
                return Err(Problem::dimension_exists(name));
            }
            _ => {}
        }
    }
    Ok(())
}
