use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use virtualize::zarr::{
    Array, ChunkGrid, Group, Hierarchy, Node, NodePath,
    cf::attributes::{of_grid_mapping, of_group},
    node::join,
};

use super::{
    attributes,
    numbers::Numbers,
    role::{Place, length_along, places},
    spelling::{codecs, fill_value, type_name},
    storage::{is_copied, is_plain, may_be_copied},
    stored::Stored,
    times::related,
};
use crate::{Layout, Member, values::sentinel::MISSING};

/// What must be equal in files that are put together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Signature {
    /// Arrays that all files must have.
    pub arrays: BTreeMap<NodePath, ArraySignature>,
    /// Arrays that may be in some of the files only ([`Layout::optional`]). They are no part of the digest, since files
    /// without them agree with all: those that have one must agree by themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub optional: BTreeMap<NodePath, ArraySignature>,
    /// Attributes of groups that places of values depend on, such as a coordinate reference system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<NodePath, BTreeMap<String, Value>>,
    /// How the arrays that grow are stored: files that agree in all else are of one era where their parts can stand beside
    /// each other.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored: BTreeMap<NodePath, Stored>,
    /// Of coordinates and times: their types need not agree where one type holds all numbers exactly.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<NodePath, Numbers>,
}

/// What must be equal of an array.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArraySignature {
    /// Type of an element, as Zarr names it.
    pub data_type: String,
    /// Names of the axes, slowest first.
    pub dimensions: Vec<Option<String>>,
    /// Sizes along the axes; nothing for those along which files are put together.
    pub sizes: Vec<Option<u64>>,
    /// Chunk sizes along the axes: a number, a list where they vary, or nothing where any will do. Nothing at all where
    /// the array is written anew, or taken from the first file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<Value>>,
    /// Codecs with all parameters that decoding depends on, in the order of encoding; as `chunks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codecs: Option<Vec<String>>,
    /// What missing chunks read as, in the spelling of Zarr v3; null where nothing says.
    pub fill_value: Value,
    /// Attributes that the meaning of values depends on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
    /// SHA-256 of the values of an array that is taken from the first file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
}

impl Signature {
    /// The signature of a file for a layout. Values of arrays that vary along none of the layout's dimensions are taken
    /// from [`Member::digests`]; one that was not read is equal to none.
    pub fn of(member: &Member, layout: &Layout) -> Self {
        let hierarchy = &member.hierarchy;
        let (mut places, grid_mappings) = (places(hierarchy, layout), attributes::grid_mappings(hierarchy));
        let times = related(hierarchy, layout.inline_limit);
        let extents: Vec<u64> = layout.along.iter().map(|along| length_along(hierarchy, along)).collect();
        let mut signature = Self::default();
        for (path, array) in hierarchy.arrays() {
            let places = places.remove(&path).unwrap_or_default();
            let is_fixed = places.iter().all(|place| *place == Place::Absent);
            if is_fixed && Layout::has(&layout.assume_equal, &path) {
                continue;
            }
            let is_mapping = grid_mappings.contains(&path);
            let is_copied = is_copied(&path, array, &places, times.contains(&path));
            let work = OfArray {
                member,
                layout,
                path: &path,
                array,
                places: &places,
                is_fixed,
                is_copied,
                is_mapping,
            };
            let signed = work.signature();
            match Layout::has(&layout.optional, &path) {
                true => signature.optional.insert(path, signed),
                false => {
                    if !is_copied && !is_fixed {
                        let stored = Stored::of(array, &places, layout, codecs(array), &extents);
                        signature.stored.insert(path.clone(), stored);
                    }
                    let values = member.values.get(&path).filter(|_| is_copied);
                    let numbers = values.and_then(|values| {
                        Numbers::of(array, values, times.contains(&path), hierarchy.format)
                    });
                    signature.numbers.extend(numbers.map(|numbers| (path.clone(), numbers)));
                    signature.arrays.insert(path, signed)
                }
            };
        }
        groups(hierarchy, layout, "", &hierarchy.root, &mut signature.groups);
        signature
    }

    /// SHA-256 in hexadecimal: equal where [`super::differences`] finds none, but for optional arrays.
    pub fn digest(&self) -> String {
        sha256(&(&self.arrays, &self.groups))
    }

    /// SHA-256 of all of it but optional arrays.
    pub fn kind(&self) -> String {
        sha256(&(&self.arrays, &self.groups, &self.stored, &self.numbers))
    }

    /// SHA-256 of what cannot be brought together: all but how arrays are stored, and types of numbers.
    pub(crate) fn agreement(&self) -> String {
        let mut arrays = self.arrays.clone();
        for (path, array) in &mut arrays {
            (array.chunks, array.codecs) = (None, None);
            if let Some(numbers) = self.numbers.get(path) {
                array.data_type = "number".to_owned();
                if numbers.are_times {
                    array.fill_value = Value::Null;
                    array.attributes.retain(|name, _| !MISSING.contains(&name.as_str()));
                }
            }
        }
        let stored: BTreeMap<_, _> =
            self.stored.iter().map(|(path, stored)| (path, &stored.places)).collect();
        sha256(&(&arrays, &self.groups, stored))
    }
}

impl ArraySignature {
    /// Says of what differs in files that are put together that any will do.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.codecs != other.codecs {
            self.codecs = None;
        }
        if self.data_type != other.data_type
            && !self.data_type.split(" or ").any(|own| own == other.data_type)
        {
            self.data_type = format!("{} or {}", self.data_type, other.data_type);
        }
        if let (Some(own), Some(others)) = (&mut self.chunks, &other.chunks) {
            for (own, other) in own.iter_mut().zip(others) {
                if own != other {
                    *own = Value::Null;
                }
            }
        }
    }

    /// What means "missing".
    pub(crate) fn missing(&self) -> (&Value, Vec<&Value>) {
        (&self.fill_value, MISSING.iter().filter_map(|name| self.attributes.get(*name)).collect())
    }
}

fn sha256(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut digest = String::with_capacity(64);
    for byte in Sha256::digest(&text) {
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

fn groups(
    hierarchy: &Hierarchy,
    layout: &Layout,
    path: &str,
    group: &Group,
    found: &mut BTreeMap<NodePath, BTreeMap<String, Value>>,
) {
    let said = of_group(&group.attributes, attributes::is_moved(hierarchy, layout));
    if !said.is_empty() {
        found.insert(path.to_owned(), said);
    }
    for (name, node) in &group.children {
        if let Node::Group(child) = node {
            groups(hierarchy, layout, &join(path, name), child, found);
        }
    }
}

/// One array of a file.
struct OfArray<'a> {
    member: &'a Member,
    layout: &'a Layout,
    path: &'a str,
    array: &'a Array,
    places: &'a [Place],
    /// It varies along no dimension of the layout.
    is_fixed: bool,
    /// Its values are copied into the references in any case.
    is_copied: bool,
    /// It describes a coordinate reference system.
    is_mapping: bool,
}

impl OfArray<'_> {
    fn signature(&self) -> ArraySignature {
        let array = self.array;
        let is_compared = self.is_fixed && !self.layout.along.is_empty();
        // What is written anew, or taken from the first file, may be stored in any way.
        let is_stored = !self.is_copied && !is_compared;
        let grows = |axis: usize| self.places.contains(&Place::Axis(axis));
        let moved = attributes::is_moved(&self.member.hierarchy, self.layout);
        ArraySignature {
            data_type: type_name(&array.data_type),
            dimensions: array.dimension_names.clone(),
            sizes: array.shape.iter().enumerate().map(|(axis, n)| (!grows(axis)).then_some(*n)).collect(),
            chunks: is_stored.then(|| self.chunks(grows)),
            codecs: is_stored.then(|| codecs(array)),
            fill_value: fill_value(array),
            attributes: match self.is_mapping {
                true => of_grid_mapping(&array.attributes, moved),
                false => attributes::of_array(array, self.is_copied),
            },
            values: is_compared.then(|| self.values()),
        }
    }

    fn values(&self) -> String {
        let digest = self.member.digests.get(self.path).cloned();
        let read = || self.member.values.get(self.path).map(virtualize::digest);
        digest.or_else(read).unwrap_or_else(|| format!("not read from {}", self.member.item.url))
    }

    /// Chunk sizes that must agree: not those along a dimension where chunks can be cut or copied, or may vary.
    fn chunks(&self, grows: impl Fn(usize) -> bool) -> Vec<Value> {
        let layout = self.layout;
        let copied = may_be_copied(self.array, self.places, layout);
        let any = |axis| copied || (grows(axis) && (layout.rectilinear || self.can_be_cut(axis)));
        let spelled = |(axis, size): (usize, Value)| if any(axis) { Value::Null } else { size };
        let sizes: Vec<Value> = match &self.array.chunk_grid {
            ChunkGrid::Regular(sizes) => sizes.iter().copied().map(Value::from).collect(),
            ChunkGrid::Rectilinear(edges) => edges.iter().cloned().map(Value::from).collect(),
        };
        sizes.into_iter().enumerate().map(spelled).collect()
    }

    /// Whether chunks are plain elements that lie one behind the other along an axis, the only one that grows.
    fn can_be_cut(&self, axis: usize) -> bool {
        let grown = self.places.iter().filter(|place| matches!(place, Place::Axis(_))).count();
        let ChunkGrid::Regular(sizes) = &self.array.chunk_grid else { return false };
        grown == 1 && is_plain(self.array) && sizes.iter().take(axis).all(|size| *size == 1)
    }
}
