use std::collections::BTreeMap;

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
    copying::{is_copied, is_plain, may_be_copied},
    numbers::Numbers,
    role::{DimRole, length_along, roles},
    spelling::{codecs, fill_value, type_name},
    stored::Stored,
    times::time_arrays,
};
use crate::{Layout, Member, values::sentinel::MISSING};

/// What must be equal in files that are put together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Signature {
    /// Arrays that all files must have.
    pub arrays: BTreeMap<NodePath, ArraySignature>,
    /// Arrays that may be in some of the files only ([`Layout::optional`]). They are not part of the digest, since files
    /// without them agree with all others; those that have one must agree among themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub optional: BTreeMap<NodePath, ArraySignature>,
    /// Attributes of groups on which the positions of values depend, such as a coordinate reference system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<NodePath, BTreeMap<String, Value>>,
    /// How the arrays that grow are stored: files that agree in all else are compatible if their parts form one grid.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored: BTreeMap<NodePath, Stored>,
    /// The numbers of coordinates and times: their types need not agree if one type holds all of them exactly.
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
    /// Size along each axis; `None` along those that grow.
    pub sizes: Vec<Option<u64>>,
    /// Chunk size along each axis: a number, a list if sizes vary, or null if any size will do. `None` altogether if the
    /// array is written anew, or comes from the first file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<Value>>,
    /// Codecs in the order of encoding, with all parameters that decoding depends on; `None` like [`Self::chunks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codecs: Option<Vec<String>>,
    /// Value of missing chunks, in the notation of Zarr v3; null if it is not defined.
    pub fill_value: Value,
    /// Attributes on which the meaning of values depends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
    /// SHA-256 of the values of an array that comes from the first file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
}

impl Signature {
    /// Returns the signature of a file for a layout. The values of arrays that are invariant along all dimensions are those
    /// of [`Member::digests`]; an array that was not read equals no other.
    pub fn of(member: &Member, layout: &Layout) -> Self {
        let hierarchy = &member.hierarchy;
        let (mut roles, grid_mappings) = (roles(hierarchy, layout), attributes::grid_mappings(hierarchy));
        let times = time_arrays(hierarchy, layout.inline_limit);
        let lengths: Vec<u64> = layout.along.iter().map(|along| length_along(hierarchy, along)).collect();
        let mut signature = Self::default();
        for (path, array) in hierarchy.arrays() {
            let roles = roles.remove(&path).unwrap_or_default();
            let is_fixed = roles.iter().all(|role| *role == DimRole::Invariant);
            if is_fixed && Layout::has(&layout.assume_equal, &path) {
                continue;
            }
            let is_mapping = grid_mappings.contains(&path);
            let is_copied = is_copied(&path, array, &roles, times.contains(&path));
            let file_array = FileArray { member, layout, path: &path, array, roles: &roles };
            let signed = file_array.signature(is_fixed, is_copied, is_mapping);
            if Layout::has(&layout.optional, &path) {
                signature.optional.insert(path, signed);
                continue;
            }
            if !is_copied && !is_fixed {
                let stored = Stored::of(array, &roles, layout, codecs(array), &lengths);
                signature.stored.insert(path.clone(), stored);
            }
            let values = member.values.get(&path).filter(|_| is_copied);
            let numbers =
                values.and_then(|values| Numbers::of(array, values, times.contains(&path), hierarchy.format));
            signature.numbers.extend(numbers.map(|numbers| (path.clone(), numbers)));
            signature.arrays.insert(path, signed);
        }
        add_groups(hierarchy, layout, "", &hierarchy.root, &mut signature.groups);
        signature
    }

    /// Returns the SHA-256 of arrays and groups in hexadecimal: equal if and only if [`super::differences`] finds none,
    /// optional arrays aside.
    pub fn digest(&self) -> String {
        sha256(&(&self.arrays, &self.groups))
    }

    /// Returns the SHA-256 of all but optional arrays: [`Self::digest`] together with how arrays are stored.
    pub fn storage_digest(&self) -> String {
        sha256(&(&self.arrays, &self.groups, &self.stored, &self.numbers))
    }

    /// Returns the SHA-256 of what cannot be reconciled: all but how arrays are stored, and types of numbers.
    pub(crate) fn core_digest(&self) -> String {
        let mut arrays = self.arrays.clone();
        for (path, array) in &mut arrays {
            (array.chunks, array.codecs) = (None, None);
            if let Some(numbers) = self.numbers.get(path) {
                "number".clone_into(&mut array.data_type);
                if numbers.are_times {
                    array.forget_missing();
                }
            }
        }
        let stored: BTreeMap<_, _> = self.stored.iter().map(|(path, stored)| (path, &stored.roles)).collect();
        sha256(&(&arrays, &self.groups, stored))
    }

    /// Returns whether an array has the same chunks and codecs in all files, as far as they must agree.
    pub(crate) fn is_stored_alike(path: &str, all: &[&Self]) -> bool {
        let mut all = all.iter().map(|one| one.arrays.get(path).map(|array| (&array.chunks, &array.codecs)));
        let first = all.next();
        all.all(|other| Some(other) == first)
    }

    /// Returns false if no arrangement of files makes the storage of two signatures compatible.
    pub(crate) fn may_share_storage(&self, other: &Self) -> bool {
        self.stored.iter().all(|(path, stored)| {
            let Some(others) = other.stored.get(path) else { return false };
            (stored.is_read && others.is_read) || stored.codecs == others.codecs
        })
    }
}

impl ArraySignature {
    /// Returns what must agree of an array however it is stored: all but chunks, codecs and values.
    pub(super) fn of(array: &Array, roles: &[DimRole], is_copied: bool) -> Self {
        let grows = |axis: usize| roles.contains(&DimRole::Axis(axis));
        Self {
            data_type: type_name(&array.data_type),
            dimensions: array.dimension_names.clone(),
            sizes: array.shape.iter().enumerate().map(|(axis, n)| (!grows(axis)).then_some(*n)).collect(),
            chunks: None,
            codecs: None,
            fill_value: fill_value(array),
            attributes: attributes::of_array(array, is_copied),
            values: None,
        }
    }

    /// Removes what means "missing", which need not agree in times that are converted.
    pub(super) fn forget_missing(&mut self) {
        self.fill_value = Value::Null;
        self.attributes.retain(|name, _| !MISSING.contains(&name.as_str()));
    }

    /// Marks what differs in another array as arbitrary, for the description of files that are put together.
    pub(crate) fn merge(&mut self, other: &Self) {
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

    /// Returns what means "missing".
    pub(super) fn missing(&self) -> (&Value, Vec<&Value>) {
        (&self.fill_value, MISSING.iter().filter_map(|name| self.attributes.get(*name)).collect())
    }
}

fn sha256(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    hex::encode(Sha256::digest(&text))
}

fn add_groups(
    hierarchy: &Hierarchy,
    layout: &Layout,
    path: &str,
    group: &Group,
    found: &mut BTreeMap<NodePath, BTreeMap<String, Value>>,
) {
    let attributes = of_group(&group.attributes, attributes::is_moved(hierarchy, layout));
    if !attributes.is_empty() {
        found.insert(path.to_owned(), attributes);
    }
    for (name, node) in &group.children {
        if let Node::Group(child) = node {
            add_groups(hierarchy, layout, &join(path, name), child, found);
        }
    }
}

/// An array of a file.
struct FileArray<'a> {
    member: &'a Member,
    layout: &'a Layout,
    path: &'a str,
    array: &'a Array,
    roles: &'a [DimRole],
}

impl FileArray<'_> {
    /// `is_fixed` if the array is invariant along all dimensions, `is_mapping` if it describes a coordinate reference system.
    fn signature(&self, is_fixed: bool, is_copied: bool, is_mapping: bool) -> ArraySignature {
        let mut signature = ArraySignature::of(self.array, self.roles, is_copied);
        let is_compared = is_fixed && !self.layout.along.is_empty();
        // An array that is written anew, or comes from the first file, may be stored in any way.
        if !is_copied && !is_compared {
            signature.chunks = Some(self.chunks());
            signature.codecs = Some(codecs(self.array));
        }
        if is_mapping {
            let is_moved = attributes::is_moved(&self.member.hierarchy, self.layout);
            signature.attributes = of_grid_mapping(&self.array.attributes, is_moved);
        }
        signature.values = is_compared.then(|| self.values());
        signature
    }

    fn values(&self) -> String {
        let digest = self.member.digests.get(self.path).cloned();
        let of_values = || self.member.values.get(self.path).map(virtualize::digest);
        digest.or_else(of_values).unwrap_or_else(|| format!("not read from {}", self.member.item.url))
    }

    /// Returns the chunk sizes that must agree: not those along an axis where chunks can be sliced or copied, or may vary.
    fn chunks(&self) -> Vec<Value> {
        let layout = self.layout;
        let is_copied = may_be_copied(self.array, self.roles, layout);
        let grows = |axis: usize| self.roles.contains(&DimRole::Axis(axis));
        let may_differ =
            |axis| is_copied || (grows(axis) && (layout.rectilinear || self.can_be_sliced(axis)));
        let sizes: Vec<Value> = match &self.array.chunk_grid {
            ChunkGrid::Regular(sizes) => sizes.iter().copied().map(Value::from).collect(),
            ChunkGrid::Rectilinear(edges) => edges.iter().cloned().map(Value::from).collect(),
        };
        let sizes = sizes.into_iter().enumerate();
        sizes.map(|(axis, size)| if may_differ(axis) { Value::Null } else { size }).collect()
    }

    /// Returns whether chunks are plain elements, contiguous along an axis which is the only one that grows.
    fn can_be_sliced(&self, axis: usize) -> bool {
        let growing = self.roles.iter().filter(|role| matches!(role, DimRole::Axis(_))).count();
        let ChunkGrid::Regular(sizes) = &self.array.chunk_grid else { return false };
        growing == 1 && is_plain(self.array) && sizes.iter().take(axis).all(|size| *size == 1)
    }
}
