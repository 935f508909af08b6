//! Groups that are segments of one dataset. The attribute [`ATTRIBUTE`] of their parent describes how the arrays of several
//! groups, which are stored differently, form one array each.
//!
//! ```json
//! "virtualize:segments": {
//!   "version": 1,
//!   "dimension": "time",
//!   "segments": [
//!     {"group": "set_0", "start": 0, "length": 48},
//!     {"group": "set_1", "start": 0, "length": 48}
//!   ],
//!   "arrays": {"t2m": {"data_type": "float64"}}
//! }
//! ```
//!
//! An array of the dataset has the path of those that it consists of, relative to their groups. Along the dimension, it is
//! the concatenation of the segments. A group that lacks an array contributes missing values. An array without the dimension
//! is that of the first group which has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, DataType, FillValue, Group, Hierarchy, Lengths, Node, NodePath,
    References, SourceId, ZarrFormat,
    cf::{
        attributes::decides_values,
        fill_value_attribute,
        missing::{MISSING, Sentinels},
    },
    node::{self, join},
};

use crate::{
    keys::{decoded_array, with_arrays},
    read::little_endian,
};

/// Attribute of the group that contains the segments.
pub const ATTRIBUTE: &str = "virtualize:segments";

/// Version of the description.
pub const VERSION: u64 = 1;

/// Maximum number of chunks of an array whose keys are listed.
const MAX_LISTED: u64 = 1 << 24;

/// How the arrays of several groups form one dataset.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segments {
    /// [`VERSION`].
    pub version: u64,
    /// Name of the dimension along which the segments follow each other.
    pub dimension: String,
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// Arrays whose elements are converted, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arrays: BTreeMap<NodePath, Target>,
}

/// A range of a group along the dimension.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Path of the group.
    pub group: NodePath,
    /// First index.
    pub start: u64,
    /// Number of elements.
    pub length: u64,
}

/// What the elements of an array are converted to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// An integer or float type of Zarr v3 that holds all elements exactly. As a float, missing elements become NaN.
    pub data_type: String,
}

impl Target {
    /// Describes a type.
    pub fn new(data_type: &DataType) -> Self {
        Self { data_type: data_type.to_string() }
    }
}

/// Returns an integer or float type by its name in Zarr v3.
pub fn number_type(name: &str) -> Option<DataType> {
    NUMBERS.into_iter().find(|one| one.to_string() == name)
}

const NUMBERS: [DataType; 10] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float32,
    DataType::Float64,
];

/// Returns the smallest type that holds all numbers of several types exactly, and NaN if `nan`; `None` if no type does.
///
/// ```
/// use virtualize::{segments::common_type, zarr::DataType};
///
/// assert_eq!(common_type(&[DataType::Int16, DataType::UInt8], false), Some(DataType::Int16));
/// assert_eq!(common_type(&[DataType::Int16, DataType::Float32], false), Some(DataType::Float32));
/// assert_eq!(common_type(&[DataType::Int32], true), Some(DataType::Float64));
/// assert_eq!(common_type(&[DataType::Int64, DataType::Float64], false), None);
/// ```
pub fn common_type(types: &[DataType], nan: bool) -> Option<DataType> {
    let mut numbers = NUMBERS.into_iter().filter(|one| !nan || one.is_float());
    numbers.find(|target| types.iter().all(|one| holds(target, one)))
}

/// Returns whether a type holds all numbers of another exactly.
fn holds(target: &DataType, other: &DataType) -> bool {
    let digits = |one: &DataType| match one {
        DataType::Float32 => Some(24),
        DataType::Float64 => Some(53),
        one if one.is_integer() => Some(8 * one.number_size() - u64::from(one.is_signed_integer())),
        _ => None,
    };
    let (Some(room), Some(needed)) = (digits(target), digits(other)) else { return false };
    let is_unsigned = target.is_integer() && !target.is_signed_integer();
    let is_signed = other.is_float() || other.is_signed_integer();
    room >= needed && !(is_unsigned && is_signed) && !(target.is_integer() && other.is_float())
}

/// A dataset of several groups.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Combined {
    /// The dataset, and the groups. Arrays have no chunks.
    pub(crate) hierarchy: Hierarchy,
    /// How the arrays of the dataset are read, by path.
    pub(crate) arrays: BTreeMap<NodePath, CombinedArray>,
    /// The descriptions, by path of the group that has them.
    pub(crate) datasets: BTreeMap<NodePath, Segments>,
}

/// An array that consists of segments.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CombinedArray {
    /// Axis of the dimension; `None` if the array is that of one group.
    pub(crate) axis: Option<usize>,
    /// The segments in order; a single one if there is no axis.
    pub(crate) parts: Vec<Part>,
}

/// A segment of an array.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Part {
    /// First index in the whole.
    pub(crate) offset: u64,
    /// First index in the array of the group.
    pub(crate) start: u64,
    /// Number of elements along the dimension.
    pub(crate) length: u64,
    /// Path of the array; `None` if the group has none, so that all elements are missing.
    pub(crate) path: Option<NodePath>,
    /// How elements are converted.
    pub(crate) cast: Option<Cast>,
}

/// A conversion of numbers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Cast {
    pub(crate) from: DataType,
    pub(crate) to: DataType,
    /// What means "missing", if it becomes NaN.
    missing: Option<Sentinels>,
}

impl Cast {
    /// Converts little-endian elements.
    pub(crate) fn apply(&self, source: &[u8], target: &mut [u8]) {
        let size = |one: &DataType| usize::try_from(one.size().unwrap_or(1)).unwrap_or(1).max(1);
        let elements = source.chunks_exact(size(&self.from)).zip(target.chunks_exact_mut(size(&self.to)));
        for (element, slot) in elements {
            let is_missing = self.missing.as_ref().is_some_and(|missing| missing.is_missing(element));
            if is_missing {
                write(&self.to, Number::Float(f64::NAN), slot);
            } else {
                write(&self.to, read(&self.from, element), slot);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

fn read(data_type: &DataType, element: &[u8]) -> Number {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(element).for_each(|(slot, byte)| *slot = *byte);
    match data_type {
        DataType::Float32 => {
            let [a, b, c, d, ..] = bytes;
            Number::Float(f32::from_le_bytes([a, b, c, d]).into())
        }
        DataType::Float64 => Number::Float(f64::from_le_bytes(bytes)),
        one if one.is_signed_integer() => {
            let unused = 64 - 8 * element.len().clamp(1, 8);
            Number::Int((i64::from_le_bytes(bytes) << unused >> unused).into())
        }
        _ => Number::Int(u64::from_le_bytes(bytes).into()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the target holds all numbers of the source"
)]
fn write(data_type: &DataType, number: Number, slot: &mut [u8]) {
    let bytes = match (data_type, number) {
        (DataType::Float32, Number::Float(float)) => u64::from((float as f32).to_bits()).to_le_bytes(),
        (DataType::Float32, Number::Int(int)) => u64::from((int as f32).to_bits()).to_le_bytes(),
        (DataType::Float64, Number::Int(int)) => (int as f64).to_le_bytes(),
        (_, Number::Float(float)) => float.to_le_bytes(),
        (_, Number::Int(int)) => (int as i64).to_le_bytes(),
    };
    slot.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = byte);
}

impl Combined {
    /// Combines the groups of a hierarchy as the attributes of their parents describe; `None` without such an attribute.
    ///
    /// # Errors
    /// A description that is damaged, of another version, or does not fit the groups.
    pub(crate) fn of(hierarchy: &Hierarchy) -> Result<Option<Self>, String> {
        let mut described = Vec::new();
        find_described("", &hierarchy.root, &mut described);
        if described.is_empty() {
            return Ok(None);
        }
        let root = without_chunks(&hierarchy.root);
        let whole = Hierarchy { format: hierarchy.format, root, sources: hierarchy.sources.clone() };
        let mut combined = Self { hierarchy: whole, arrays: BTreeMap::new(), datasets: BTreeMap::new() };
        for (base, description) in described {
            let segments = parse(description)?;
            combined.add(hierarchy, &base, &segments)?;
            combined.datasets.insert(base, segments);
        }
        Ok(Some(combined))
    }

    /// Adds the dataset of the groups below `base`.
    fn add(&mut self, hierarchy: &Hierarchy, base: &str, segments: &Segments) -> Result<(), String> {
        let mut groups: Vec<NodePath> = Vec::new();
        let mut of_group: HashMap<&str, usize> = HashMap::new();
        let of_segment = segments.segments.iter().map(|Segment { group, .. }| {
            *of_group.entry(group).or_insert_with(|| {
                groups.push(join(base, group));
                groups.len() - 1
            })
        });
        let of_segment: Vec<usize> = of_segment.collect();
        // Number of elements of each group.
        let mut lengths = vec![0_u64; groups.len()];
        for (Segment { group, start, length }, n) in segments.segments.iter().zip(&of_segment) {
            let Some(before) = lengths.get_mut(*n) else { continue };
            if start != before {
                return Err(format!("a segment of {group} starts at {start}, expected {before}"));
            }
            *before = start.checked_add(*length).ok_or("a segment is too long")?;
        }
        let mut paths: BTreeSet<NodePath> = BTreeSet::new();
        for (n, path) in groups.iter().enumerate() {
            let group = hierarchy.group(path).filter(|_| path.trim_end_matches('/') != base);
            let group = group.ok_or_else(|| format!("no group {path:?}"))?;
            let inner = Hierarchy { root: without_chunks(group), ..Hierarchy::new(hierarchy.format) };
            paths.extend(inner.arrays().into_iter().map(|(path, _)| path));
            add_groups(&mut self.hierarchy.root, base, &inner.root, n == 0)?;
        }
        for path in paths {
            let sources: Vec<(&str, Option<&Array>)> =
                groups.iter().map(|group| (group.as_str(), hierarchy.array(&join(group, &path)))).collect();
            let (array, combined) = combine(hierarchy, segments, &of_segment, &lengths, &path, &sources)
                .map_err(|reason| format!("{path}: {reason}"))?;
            let path = join(base, &path);
            let (parent, name) = node::split(&path);
            let group = self.hierarchy.root.make_group(parent);
            let group = group.ok_or_else(|| format!("{path}: is below an array"))?;
            if group.children.contains_key(name) {
                return Err(format!("{path}: the parent of the groups already has a node of this name"));
            }
            group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
            self.arrays.insert(path, combined);
        }
        Ok(())
    }

    /// Returns the groups that are segments.
    pub(crate) fn groups(&self) -> BTreeSet<NodePath> {
        let of_dataset = |(base, segments): (&NodePath, &Segments)| {
            segments.segments.iter().map(|segment| join(base, &segment.group)).collect::<Vec<_>>()
        };
        self.datasets.iter().flat_map(of_dataset).collect()
    }

    /// Returns the dataset, and what it consists of with its chunks: `complete`.
    pub(crate) fn shown(&self, complete: &Hierarchy) -> Hierarchy {
        let mut shown = complete.clone();
        for path in self.arrays.keys() {
            let (parent, name) = node::split(path);
            let (Some(group), Some(node)) = (shown.root.make_group(parent), self.hierarchy.node(path)) else {
                continue;
            };
            if let Some(seen) = self.hierarchy.group(parent) {
                group.attributes.clone_from(&seen.attributes);
            }
            group.children.insert(name.to_owned(), node.clone());
        }
        shown
    }

    /// Returns the same with a reference for each chunk of the dataset, to list their keys; `None` if there are too many.
    pub(crate) fn listing(&self, complete: &Hierarchy) -> Option<Hierarchy> {
        let mut listed = self.shown(complete);
        for path in self.arrays.keys() {
            let Some(array) = listed.array_mut(path) else { continue };
            let counts = array.chunk_grid.counts(&array.shape);
            let count = counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count));
            let count = count.filter(|count| *count <= MAX_LISTED)?;
            let offsets = vec![0; usize::try_from(count).ok()?].into();
            let column =
                References { source: SourceId(0), positions: None, offsets, lengths: Lengths::Uniform(0) };
            array.chunks = if count == 0 { ChunkManifest::default() } else { ChunkManifest::of(column) };
        }
        Some(listed)
    }
}

/// Finds the groups that describe a dataset.
fn find_described<'a>(path: &str, group: &'a Group, found: &mut Vec<(NodePath, &'a Value)>) {
    found.extend(group.attributes.get(ATTRIBUTE).map(|described| (path.to_owned(), described)));
    for (name, node) in &group.children {
        if let Node::Group(child) = node {
            find_described(&join(path, name), child, found);
        }
    }
}

fn parse(described: &Value) -> Result<Segments, String> {
    let version = described.get("version").unwrap_or(&Value::Null);
    if version.as_u64() != Some(VERSION) {
        return Err(format!("version {version}, expected {VERSION}"));
    }
    serde_json::from_value(described.clone()).map_err(|error| error.to_string())
}

/// Adds the groups of a segment to the dataset, with the attributes that all segments share.
fn add_groups(whole: &mut Group, path: &str, group: &Group, is_first: bool) -> Result<(), String> {
    let target = whole.make_group(path).ok_or_else(|| format!("{path}: is a group and an array"))?;
    if is_first {
        let own = group.attributes.iter().map(|(name, value)| (name.clone(), value.clone()));
        for (name, value) in own {
            target.attributes.entry(name).or_insert(value);
        }
    } else {
        target
            .attributes
            .retain(|name, value| name == ATTRIBUTE || group.attributes.get(name) == Some(value));
    }
    for (name, node) in &group.children {
        if let Node::Group(child) = node {
            add_groups(whole, &join(path, name), child, is_first)?;
        }
    }
    Ok(())
}

/// Returns a group without the chunks of its arrays.
fn without_chunks(group: &Group) -> Group {
    with_arrays(group, &|array| Array { chunks: ChunkManifest::default(), ..array.clone() })
}

/// Returns whether an attribute is that of the first group if it differs between groups; others are dropped.
pub fn is_kept(name: &str) -> bool {
    decides_values(name) || name == "coordinates"
}

/// Combines the arrays at one path of all groups.
fn combine(
    hierarchy: &Hierarchy,
    segments: &Segments,
    of_segment: &[usize],
    lengths: &[u64],
    path: &str,
    sources: &[(&str, Option<&Array>)],
) -> Result<(Array, CombinedArray), String> {
    let present: Vec<&Array> = sources.iter().filter_map(|(_, array)| *array).collect();
    let first = *present.first().ok_or("is in no group")?;
    let is_dimension = |name: &Option<String>| name.as_deref() == Some(segments.dimension.as_str());
    let axis = first.dimension_names.iter().position(is_dimension);
    for other in &present {
        if other.dimension_names != first.dimension_names {
            return Err(format!(
                "has dimensions {:?} and {:?}",
                first.dimension_names, other.dimension_names
            ));
        }
        let sizes = first.shape.iter().zip(&other.shape).enumerate();
        if let Some((_, (one, another))) =
            sizes.into_iter().find(|(n, (one, another))| Some(*n) != axis && one != another)
        {
            return Err(format!("has lengths {one} and {another}"));
        }
    }
    let data_type = match segments.arrays.get(path) {
        Some(target) => number_type(&target.data_type)
            .ok_or_else(|| format!("unknown data type {:?}", target.data_type))?,
        None => first.data_type.clone(),
    };
    let mut array = decoded(first, &data_type);
    let Some(axis) = axis else {
        let group = sources.iter().find(|(_, array)| array.is_some()).map_or("", |(group, _)| group);
        let part = Part { offset: 0, start: 0, length: 0, path: Some(join(group, path)), cast: None };
        return Ok((array, CombinedArray { axis: None, parts: vec![part] }));
    };
    let is_converted = segments.arrays.contains_key(path);
    let becomes_nan = is_converted && data_type.is_float();
    for other in &present {
        if !is_converted && little_endian(&other.data_type) != little_endian(&data_type) {
            return Err(format!("has data types {data_type} and {}", other.data_type));
        }
        if is_converted && !holds(&data_type, &other.data_type) {
            return Err(format!("{data_type} does not hold all numbers of {}", other.data_type));
        }
        if !becomes_nan {
            let missing = |array: &Array| {
                let values: Vec<String> = Sentinels::of(array, hierarchy.format)
                    .elements
                    .iter()
                    .map(|one| shown(one, &array.data_type))
                    .collect();
                values
            };
            if missing(other) != missing(first) {
                let (one, another) = (missing(first).join(", "), missing(other).join(", "));
                return Err(format!("missing values are [{one}] and [{another}]"));
            }
        }
        // Units may be spelled differently: only groups whose arrays mean the same form a dataset.
        array.attributes.retain(|name, value| {
            let is_kept = if MISSING.contains(&name.as_str()) { is_converted } else { is_kept(name) };
            is_kept || other.attributes.get(name) == Some(value)
        });
        // Coordinates that only some groups have are arrays of the dataset too.
        if let Some(names) = other.attributes.get("coordinates") {
            array.attributes.entry("coordinates").or_insert_with(|| names.clone());
        }
    }
    if is_converted {
        array.attributes.retain(|name, _| !MISSING.contains(&name.as_str()));
        array.fill_value = convert_fill(first, &data_type, becomes_nan);
        if !becomes_nan {
            let sentinel = first.attributes.get("_FillValue");
            let value = sentinel.and_then(|value| fill_value_attribute::decode(value, &first.data_type));
            let value = value
                .and_then(|value| FillValue::from_i128(&data_type, value.to_i128(&first.data_type)?).exact());
            let attribute = value.and_then(|value| fill_value_attribute::encode(&value, &data_type));
            array.attributes.extend(attribute.map(|value| ("_FillValue".to_owned(), value)));
            let kept = first.attributes.get("missing_value");
            array.attributes.extend(kept.map(|value| ("missing_value".to_owned(), value.clone())));
        }
    }
    if present.len() < sources.len() {
        array.fill_value = missing_value(&array, hierarchy.format)
            .ok_or("is missing from some groups, and none of its values means that it is missing")?;
    }
    let mut parts = Vec::with_capacity(segments.segments.len());
    let mut offset = 0_u64;
    for ((group, source), length) in sources.iter().zip(lengths) {
        let own = source.and_then(|source| source.shape.get(axis).copied()).unwrap_or(*length);
        if own != *length {
            return Err(format!("{own} elements in {group}, of which {length} are in segments"));
        }
    }
    for (segment, n) in segments.segments.iter().zip(of_segment) {
        let source = sources.get(*n).and_then(|(_, array)| *array);
        let cast = source.filter(|_| is_converted).map(|source| Cast {
            from: source.data_type.clone(),
            to: data_type.clone(),
            missing: becomes_nan.then(|| Sentinels::of(source, hierarchy.format)),
        });
        let path = sources.get(*n).filter(|_| source.is_some()).map(|(group, _)| join(group, path));
        parts.push(Part { offset, start: segment.start, length: segment.length, path, cast });
        offset = offset.checked_add(segment.length).ok_or("is too long")?;
    }
    if let Some(length) = array.shape.get_mut(axis) {
        *length = offset;
    }
    Ok((array, CombinedArray { axis: Some(axis), parts }))
}

/// Returns a number as text.
fn shown(element: &Bytes, data_type: &DataType) -> String {
    match read(data_type, element) {
        Number::Int(int) => int.to_string(),
        Number::Float(float) => float.to_string(),
    }
}

/// Returns the fill value in another type.
fn convert_fill(array: &Array, data_type: &DataType, nan: bool) -> Option<FillValue> {
    if nan {
        return FillValue::from_f64(data_type, f64::NAN).value();
    }
    let own = array.fill_value.as_ref()?.to_i128(&array.data_type)?;
    FillValue::from_i128(data_type, own).exact()
}

/// Returns whether arrays of a type, by its name, have a value that means "missing" without an attribute: NaN, or an empty text.
pub fn has_missing_value(name: &str) -> bool {
    ["float", "complex", "text", "string", "bytes"].iter().any(|start| name.starts_with(start))
}

/// Returns the value of elements that no group has: a missing value of numbers, an empty text. `None` if no value of the array
/// means that it is missing.
fn missing_value(array: &Array, format: ZarrFormat) -> Option<Option<FillValue>> {
    let twice = |nan: &[u8]| Some(Some(FillValue::Fixed(nan.repeat(2).into())));
    match &array.data_type {
        data_type if data_type.is_float() => Some(FillValue::from_f64(data_type, f64::NAN).value()),
        DataType::Complex64 => twice(&f32::NAN.to_le_bytes()),
        DataType::Complex128 => twice(&f64::NAN.to_le_bytes()),
        data_type if data_type.is_integer() => {
            Sentinels::of(array, format).elements.first().map(|one| Some(FillValue::Fixed(one.clone())))
        }
        data_type if has_missing_value(&data_type.to_string()) => Some(array.fill_value.clone()),
        _ => None,
    }
}

/// Returns the metadata of an array whose chunks are decoded. Chunks are those of the array, or as long as its longest.
fn decoded(array: &Array, data_type: &DataType) -> Array {
    let mut decoded = decoded_array(array);
    decoded.data_type = little_endian(data_type);
    if let ChunkGrid::Rectilinear(edges) = &array.chunk_grid {
        let longest = edges.iter().map(|lengths| lengths.iter().copied().max().unwrap_or(1).max(1));
        decoded.chunk_grid = ChunkGrid::Regular(longest.collect());
    }
    decoded
}

/// Returns the attributes that describe segments.
pub fn attributes(segments: &Segments) -> Map<String, Value> {
    let described = serde_json::to_value(segments).unwrap_or(Value::Null);
    [(ATTRIBUTE.to_owned(), described)].into_iter().collect()
}

/// Checks that the groups of a hierarchy form the dataset that its attributes describe, if they describe one.
///
/// # Errors
/// What does not fit.
pub fn check(hierarchy: &Hierarchy) -> Result<(), String> {
    Combined::of(hierarchy).map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use virtualize_zarr::{ChunkGrid, Codec, ZarrFormat};

    use super::*;

    fn array(data_type: DataType, length: u64, attributes: Value) -> Node {
        Node::Array(Box::new(Array {
            shape: vec![length],
            fill_value: Some(FillValue::zero(&data_type)),
            data_type,
            chunk_grid: ChunkGrid::Regular(vec![2]),
            codecs: vec![Codec::Bytes { endian: None }],
            dimension_names: vec![Some("t".to_owned())],
            attributes: attributes.as_object().cloned().unwrap_or_default(),
            chunks: ChunkManifest::default(),
        }))
    }

    /// Two groups: `a` of 3 elements, `b` of 2 or none.
    fn hierarchy(described: Value, others: Option<Node>) -> Hierarchy {
        let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
        hierarchy.root.attributes.insert(ATTRIBUTE.to_owned(), described);
        let one = array(DataType::Int16, 3, json!({"_FillValue": -1, "units": "K", "history": "a"}));
        hierarchy.root.make_group("a").unwrap().children.insert("v".to_owned(), one);
        let group = hierarchy.root.make_group("b").unwrap();
        group.children.extend(others.map(|node| ("v".to_owned(), node)));
        hierarchy
    }

    fn described(arrays: &Value) -> Value {
        let segments = json!([
            {"group": "a", "start": 0, "length": 1},
            {"group": "b", "start": 0, "length": 2},
            {"group": "a", "start": 1, "length": 2},
        ]);
        json!({"version": 1, "dimension": "t", "segments": segments, "arrays": arrays})
    }

    #[test]
    fn numbers_keep_their_values_in_the_common_type() {
        let types: Vec<DataType> = NUMBERS.to_vec();
        for from in &types {
            for to in types.iter().filter(|to| holds(to, from)) {
                for number in [-128_i128, -1, 0, 1, 127, 255, 32_767, -32_768, 16_777_216, i64::MAX.into()] {
                    let Some(FillValue::Fixed(stored)) = FillValue::from_i128(from, number).exact() else {
                        continue;
                    };
                    let cast = Cast { from: from.clone(), to: to.clone(), missing: None };
                    let mut found = vec![0; usize::try_from(to.size().unwrap()).unwrap()];
                    cast.apply(&stored, &mut found);
                    let expected = FillValue::from_i128(to, number).exact();
                    assert_eq!(
                        expected,
                        Some(FillValue::Fixed(found.into())),
                        "{number} from {from} to {to}"
                    );
                }
            }
        }
    }

    #[test]
    fn groups_that_lack_an_array_contribute_missing_values() {
        let combined = Combined::of(&hierarchy(described(&json!({})), None)).unwrap().unwrap();
        let array = combined.hierarchy.array("v").unwrap();
        assert_eq!((array.shape.as_slice(), &array.data_type), ([5].as_slice(), &DataType::Int16));
        assert_eq!(array.fill_value, FillValue::from_i128(&DataType::Int16, -1).exact());
        let parts = &combined.arrays["v"].parts;
        let found: Vec<_> =
            parts.iter().map(|part| (part.offset, part.start, part.path.as_deref())).collect();
        assert_eq!(found, [(0, 0, Some("a/v")), (1, 0, None), (3, 1, Some("a/v"))]);
    }

    #[test]
    fn attributes_are_those_that_all_groups_share() {
        let other = array(DataType::Int32, 2, json!({"_FillValue": -9, "units": "kelvin", "history": "b"}));
        let target = json!({"v": {"data_type": "float64"}});
        let combined = Combined::of(&hierarchy(described(&target), Some(other))).unwrap().unwrap();
        let array = combined.hierarchy.array("v").unwrap();
        assert_eq!(Value::Object(array.attributes.clone()), json!({"units": "K"}));
        assert!(matches!(&array.fill_value, Some(fill) if fill.to_f64(&DataType::Float64).unwrap().is_nan()));
    }

    #[test]
    fn descriptions_that_do_not_fit_are_refused() {
        let int16 = |length| Some(array(DataType::Int16, length, json!({"_FillValue": -1})));
        let mut newer = described(&json!({}));
        newer["version"] = 2.into();
        let mut gap = described(&json!({}));
        gap["segments"][2]["start"] = 2.into();
        let mut unknown = described(&json!({}));
        unknown["segments"][1]["group"] = "c".into();
        let mut more = described(&json!({}));
        more["stride"] = 1.into();
        for (described, others, reason) in [
            (newer, int16(2), "version 2, expected 1"),
            (gap, int16(2), "a segment of a starts at 2, expected 1"),
            (unknown, int16(2), "no group \"c\""),
            (more, int16(2), "unknown field `stride`"),
            (described(&json!({})), int16(3), "v: 3 elements in b, of which 2 are in segments"),
            (
                described(&json!({})),
                Some(array(DataType::Int8, 2, json!({}))),
                "v: has data types int16 and int8",
            ),
            (
                described(&json!({})),
                Some(array(DataType::Int16, 2, json!({}))),
                "missing values are [-1] and []",
            ),
            (
                described(&json!({"v": {"data_type": "int8"}})),
                int16(2),
                "int8 does not hold all numbers of int16",
            ),
            (described(&json!({"v": {"data_type": "text"}})), int16(2), "unknown data type \"text\""),
        ] {
            let error = Combined::of(&hierarchy(described, others)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
