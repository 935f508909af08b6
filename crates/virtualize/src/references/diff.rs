//! Compares two hierarchies.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use serde_json::{Map, Value};
use virtualize_map::MapOptions;
use virtualize_references::translate;
use virtualize_remedy::Code;
use virtualize_store::Object;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Group, Hierarchy, Node,
    ZarrFormat, chunk_indices, node::join, readers::in_stored_order,
};

use super::read_references;
use crate::options::ReadOptions;
use crate::{
    decode, error::Error, open::open_object, options::Options, source_formats::detect, store::VirtualStore,
};

/// Number of differing chunks that are listed for an array, as examples.
const EXAMPLES: usize = 3;
/// Compares two hierarchies: nodes, metadata, attributes and chunks. If their Zarr formats differ, both are compared
/// as Zarr v3, and a different order of identically named axes, which Zarr v2 cannot express, is not a difference. A
/// missing chunk equals a chunk full of the fill value. Fill values are compared where both arrays lack a chunk.
/// Unless `urls` is set, chunks at equal offsets are equal, whichever files they are in.
pub fn diff(first: &Hierarchy, second: &Hierarchy, urls: bool) -> Difference {
    let is_one_format = first.format == second.format;
    let in_v3 = |hierarchy: &Hierarchy| {
        let translates = !is_one_format && hierarchy.format != ZarrFormat::V3;
        translates.then(|| translate(hierarchy.clone(), ZarrFormat::V3))
    };
    let (one, other) = (in_v3(first), in_v3(second));
    let mut compare = Compare {
        first: one.as_ref().map_or(first, |one| &one.hierarchy),
        second: other.as_ref().map_or(second, |other| &other.hierarchy),
        is_one_format,
        urls,
        found: Vec::new(),
    };
    compare.groups("", &compare.first.root, &compare.second.root);
    let mut found = Difference { nodes: compare.found };
    for (is_first, translation) in [(true, &one), (false, &other)] {
        for (path, reason) in translation.iter().flat_map(|translation| &translation.omitted) {
            found.unread(path, is_first, reason);
        }
        for (path, _) in translation.iter().flat_map(|translation| &translation.pending) {
            found.remade(path, is_first);
        }
    }
    found
}

struct Compare<'a> {
    first: &'a Hierarchy,
    second: &'a Hierarchy,
    /// Whether both hierarchies had the same Zarr format, so that neither was converted.
    is_one_format: bool,
    urls: bool,
    found: Vec<NodeDifference>,
}

impl Compare<'_> {
    /// Compares the attributes and children of two groups.
    fn groups(&mut self, path: &str, first: &Group, second: &Group) {
        self.members(path, "attribute ", &first.attributes, &second.attributes);
        let names: BTreeSet<&String> = first.children.keys().chain(second.children.keys()).collect();
        for name in names {
            let path = join(path, name);
            match (first.children.get(name), second.children.get(name)) {
                (Some(Node::Group(one)), Some(Node::Group(other))) => self.groups(&path, one, other),
                (Some(Node::Array(one)), Some(Node::Array(other))) => self.arrays(&path, one, other),
                (Some(_), Some(_)) => self.found.push(NodeDifference::Kind { path }),
                (one, _) => self.found.push(NodeDifference::OnlyIn { path, first: one.is_some() }),
            }
        }
    }

    /// Compares the metadata, attributes and chunks of two arrays, after aligning their axes.
    fn arrays(&mut self, path: &str, first: &Array, second: &Array) {
        let aligned = aligned(first, second);
        // Another order of axes is a difference within one format.
        if aligned.is_moved && self.is_one_format {
            let names = |array: &Array| Some(Value::from(array.dimension_names.clone()));
            self.found.push(NodeDifference::Member {
                path: path.to_owned(),
                member: "order of axes".to_owned(),
                first: names(first),
                second: names(second),
            });
        }
        let Aligned { first, second, .. } = aligned;
        let format = self.first.format;
        let (mut one, mut other) = (document(&first, format, path), document(&second, format, path));
        let counts = first.chunk_grid.counts(&first.shape);
        let is_one_grid = counts == second.chunk_grid.counts(&second.shape);
        // In Zarr v2 the fill value is a sentinel as well.
        let is_storage = !self.is_one_format || format == ZarrFormat::V3;
        if is_storage && is_one_grid && !both_lack_a_chunk(&first, &second) {
            one.remove("fill_value");
            other.remove("fill_value");
        }
        let (mut attributes, mut others) = (first.attributes.clone(), second.attributes.clone());
        if !is_storage && is_one_grid && mask_alike(&first, &second) {
            for members in [&mut one, &mut other, &mut attributes, &mut others] {
                members.remove("fill_value");
                members.remove("_FillValue");
            }
        }
        self.members(path, "", &one, &other);
        self.members(path, "attribute ", &attributes, &others);
        if is_one_grid {
            self.chunks(path, &counts, &first, &second);
        }
    }

    /// Reports each member that has different values, with `kind` before its name.
    fn members(&mut self, path: &str, kind: &str, first: &Map<String, Value>, second: &Map<String, Value>) {
        let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
        for name in names.into_iter().filter(|name| !same(first.get(*name), second.get(*name))) {
            self.found.push(NodeDifference::Member {
                path: path.to_owned(),
                member: format!("{kind}{name}"),
                first: first.get(name).cloned(),
                second: second.get(name).cloned(),
            });
        }
    }

    /// Compares the chunks of two arrays of the same grid, and reports their number and a few examples.
    fn chunks(&mut self, path: &str, counts: &[u64], first: &Array, second: &Array) {
        let (mut count, mut examples) = (0, Vec::new());
        for pair in pairs(first, second) {
            let is_filled = is_filled(first, second, &pair);
            let (position, one, other) = pair;
            if is_filled.unwrap_or_else(|| self.is_same(one.as_ref(), other.as_ref())) {
                continue;
            }
            count += 1;
            if examples.len() < EXAMPLES {
                examples.push(ChunkDifference {
                    indices: chunk_indices(position, counts).unwrap_or_else(|| vec![position]),
                    first: place(self.first, one.as_ref()),
                    second: place(self.second, other.as_ref()),
                });
            }
        }
        if count > 0 {
            self.found.push(NodeDifference::Chunks { path: path.to_owned(), count, examples });
        }
    }

    /// Returns whether two chunks are stored in the same place, or inline with the same bytes.
    fn is_same(&self, one: Option<&ChunkEntry<'_>>, other: Option<&ChunkEntry<'_>>) -> bool {
        match (one, other) {
            (Some(ChunkEntry::Inline(one)), Some(ChunkEntry::Inline(other))) => one == other,
            (Some(ChunkEntry::Reference(one)), Some(ChunkEntry::Reference(other))) => {
                let url = |hierarchy: &Hierarchy, id| hierarchy.source(id).map(|source| source.url.clone());
                (one.offset, one.length) == (other.offset, other.length)
                    && (!self.urls || url(self.first, one.source) == url(self.second, other.source))
            }
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// Returns whether two arrays of Zarr v2 have the same sentinel, as `fill_value` or as an attribute, and their missing
/// chunks read as the same value.
fn mask_alike(first: &Array, second: &Array) -> bool {
    let masks = |array: &Array| {
        let mut in_v3 = Array { chunks: ChunkManifest::default(), ..array.clone() };
        let lost = virtualize_references::fill_in_v3(&mut in_v3);
        lost.is_none().then(|| (in_v3.fill_value, in_v3.attributes.remove("_FillValue")))
    };
    match (masks(first), masks(second)) {
        (Some((one, sentinel)), Some((other, same_sentinel))) => {
            same(sentinel.as_ref(), same_sentinel.as_ref())
                && (one == other || !both_lack_a_chunk(first, second))
        }
        _ => false,
    }
}

/// Returns whether two values are equal, including the sign of a zero.
fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(Some(one), Some(other)))
        }
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.len() == other.len() && one.iter().all(|(name, one)| same(Some(one), other.get(name)))
        }
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            let is_negative =
                |number: &serde_json::Number| number.as_f64().is_some_and(f64::is_sign_negative);
            one == other && is_negative(one) == is_negative(other)
        }
        (one, other) => one == other,
    }
}

/// Returns the members of an array's document that determine how its chunks are read.
fn document(array: &Array, format: ZarrFormat, path: &str) -> Map<String, Value> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let document = match format {
        ZarrFormat::V2 => array.to_zarray(),
        ZarrFormat::V3 => array.to_zarr_json(name),
    };
    let mut members = match document {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::from_iter([("array".to_owned(), Value::from(format!("{array:?}")))]),
    };
    members.remove("attributes");
    if format == ZarrFormat::V2 {
        members.insert("dimension_names".to_owned(), array.axis_names(name).into());
    }
    members
}

/// Longest value that is shown in full, in characters.
const SHOWN: usize = 100;

/// Differences between two hierarchies, in order of path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Difference {
    /// Differences; empty if the hierarchies are equal.
    pub nodes: Vec<NodeDifference>,
}

/// One difference.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeDifference {
    /// A node that exists in one hierarchy only.
    OnlyIn {
        /// Path of the node, without a leading slash.
        path: String,
        /// Whether the first hierarchy contains it.
        first: bool,
    },
    /// An array of one hierarchy that could not be compared.
    Unread {
        /// Path of the array.
        path: String,
        /// Whether it belongs to the first hierarchy.
        first: bool,
        /// Reason why it could not be compared.
        reason: String,
    },
    /// A node that is a group in one hierarchy and an array in the other.
    Kind {
        /// Path of the node.
        path: String,
    },
    /// A member of a metadata document, or an attribute, with different values.
    Member {
        /// Path of the node.
        path: String,
        /// Name of the member, such as `shape` or `attribute units`.
        member: String,
        /// Value in the first, if it has the member.
        first: Option<Value>,
        /// Value in the second.
        second: Option<Value>,
    },
    /// Chunks that are stored in different places, or exist in one hierarchy only.
    Chunks {
        /// Path of the array.
        path: String,
        /// Number of these chunks.
        count: u64,
        /// The first few of these chunks.
        examples: Vec<ChunkDifference>,
    },
}

/// A chunk that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkDifference {
    /// Indices in the chunk grid, slowest axis first.
    pub indices: Vec<u64>,
    /// Its place in the first hierarchy.
    pub first: String,
    /// Its place in the second hierarchy.
    pub second: String,
}

impl Difference {
    /// Replaces the differences of chunks that one side inlines because its format cannot refer to them.
    pub(super) fn remade(&mut self, path: &str, first: bool) {
        let is_of = |node: &NodeDifference| matches!(node, NodeDifference::Chunks { path: known, .. } if known == path);
        if self.nodes.iter().any(is_of) {
            self.nodes.retain(|node| !is_of(node));
            let reason =
                "Zarr v3 cannot refer to its chunks; they would be re-encoded and inlined".to_owned();
            self.nodes.push(NodeDifference::Unread { path: path.to_owned(), first, reason });
        }
    }

    /// Reports an array that could not be read from one side as unread instead of missing.
    pub(super) fn unread(&mut self, path: &str, first: bool, reason: &str) {
        let is_only = |node: &NodeDifference| matches!(node, NodeDifference::OnlyIn { path: known, .. } if known == path);
        self.nodes.retain(|node| !is_only(node));
        self.nodes.push(NodeDifference::Unread { path: path.to_owned(), first, reason: reason.to_owned() });
    }

    /// Returns whether the hierarchies are equal.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Formats path, member and both sides on one line.
impl fmt::Display for NodeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyIn { path, first: true } => write!(f, "/{path}: only in the first"),
            Self::OnlyIn { path, first: false } => write!(f, "/{path}: only in the second"),
            Self::Unread { path, first, reason } => {
                let which = if *first { "first" } else { "second" };
                write!(f, "/{path}: cannot be compared, in the {which}: {reason}")
            }
            Self::Kind { path } => write!(f, "/{path}: a group in one, an array in the other"),
            Self::Member { path, member, first, second } => {
                write!(f, "/{path}: {member}: {} | {}", shown(first.as_ref()), shown(second.as_ref()))
            }
            Self::Chunks { path, count, examples } => {
                write!(f, "/{path}: {count} chunk{}", if *count == 1 { "" } else { "s" })?;
                for example in examples {
                    write!(
                        f,
                        "; {}: {} | {}",
                        decode::chunk_name(&example.indices),
                        example.first,
                        example.second
                    )?;
                }
                let more = usize::try_from(*count).is_ok_and(|count| count > examples.len());
                f.write_str(if more { "; …" } else { "" })
            }
        }
    }
}

fn shown(value: Option<&Value>) -> Cow<'static, str> {
    let Some(value) = value else { return "nothing".into() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// Compares two locations, each of which is a reference set or an HDF5, NetCDF or TIFF file. A file is mapped for the Zarr
/// format of the references that it is compared with; two files are mapped for v3. Chunks of two files are equal if
/// their offsets are.
///
/// # Errors
/// As [`read_references`] and [`crate::open`].
pub async fn compare(
    first: &str,
    second: &str,
    urls: bool,
    options: &ReadOptions,
) -> Result<Difference, Error> {
    let (one, other) = (file(first, options).await?, file(second, options).await?);
    let (first_is_set, second_is_set) = (one.is_none(), other.is_none());
    let (one, other, urls) = match (one, other) {
        (None, None) => {
            (read_references(first, options).await?, read_references(second, options).await?, urls)
        }
        (Some(file), None) => {
            let references = read_references(second, options).await?;
            (map(file, references.hierarchy.format, options).await?, references, urls)
        }
        (None, Some(file)) => {
            let references = read_references(first, options).await?;
            let mapped = map(file, references.hierarchy.format, options).await?;
            (references, mapped, urls)
        }
        (Some(one), Some(other)) => {
            (map(one, ZarrFormat::V3, options).await?, map(other, ZarrFormat::V3, options).await?, false)
        }
    };
    let mut found = diff(&one.hierarchy, &other.hierarchy, urls);
    for (is_first, is_set, store) in [(true, first_is_set, &one), (false, second_is_set, &other)] {
        // Arrays that could not be read from references are not missing.
        for omitted in store.warnings().filter(|warning| is_set && warning.code == Code::ArrayOmitted) {
            found.unread(omitted.path.trim_start_matches('/'), is_first, &omitted.message);
        }
    }
    Ok(found)
}

/// Opens a location if it is a file of a source format. Returns `None` otherwise.
async fn file(location: &str, options: &ReadOptions) -> Result<Option<Arc<Object>>, Error> {
    let Ok(object) = virtualize_store::open(location, &options.store).await else { return Ok(None) };
    let is_known = detect(object.as_ref()).await?.is_ok();
    Ok(is_known.then_some(object))
}

/// Maps a file for a Zarr format, with default options.
async fn map(object: Arc<Object>, format: ZarrFormat, options: &ReadOptions) -> Result<VirtualStore, Error> {
    let map = MapOptions { format, ..MapOptions::default() };
    open_object(object, &Options { store: options.store.clone(), map, ..Options::default() }).await
}

/// Size limit of a chunk to decode in bytes, both stored and decoded.
pub(super) const LARGEST: u64 = 1 << 30;

/// Two arrays with their axes in the same order.
pub(super) struct Aligned<'a> {
    pub(super) first: Cow<'a, Array>,
    pub(super) second: Cow<'a, Array>,
    /// Whether their orders differ.
    pub(super) is_moved: bool,
}

/// Aligns two arrays. If one has the axes of the other in another order, judged by their names (Zarr v3 expresses this by
/// `transpose`), both are returned with their axes as stored.
pub(super) fn aligned<'a>(first: &'a Array, second: &'a Array) -> Aligned<'a> {
    let is_moved = first.shape.len() == second.shape.len()
        && are_stored_alike(first, second)
        && stored_names(first) == stored_names(second);
    let stored = |array: &'a Array| match is_moved {
        true => in_stored_order(array).map_or(Cow::Borrowed(array), Cow::Owned),
        false => Cow::Borrowed(array),
    };
    Aligned { first: stored(first), second: stored(second), is_moved }
}

/// Returns whether two arrays have their common axes in different orders, but store them in the same order.
pub(super) fn are_stored_alike(first: &Array, second: &Array) -> bool {
    let (one, other) = (&first.dimension_names, &second.dimension_names);
    let common = |name: &&Option<String>| name.is_some() && one.contains(name) && other.contains(name);
    let in_order =
        |names: &[Option<String>]| -> Vec<Option<String>> { names.iter().filter(common).cloned().collect() };
    let is_unique = |names: Vec<Option<String>>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    in_order(one) != in_order(other)
        && is_unique(in_order(one))
        && is_unique(in_order(other))
        && in_order(&stored_names(first)) == in_order(&stored_names(second))
}

/// Returns the names of the axes in stored order.
fn stored_names(array: &Array) -> Vec<Option<String>> {
    match array.codecs.first() {
        Some(Codec::Transpose { order }) => {
            order.iter().map(|axis| array.dimension_names.get(*axis).cloned().flatten()).collect()
        }
        _ => array.dimension_names.clone(),
    }
}

/// Returns whether some position has a chunk in neither of two arrays of the same grid.
pub(super) fn both_lack_a_chunk(first: &Array, second: &Array) -> bool {
    let all = first.chunk_grid.counts(&first.shape).iter().fold(1_u64, |all, n| all.saturating_mul(*n));
    first.chunks.len().max(second.chunks.len()) < all && (pairs(first, second).count() as u64) < all
}

/// Returns whether a chunk that only one of two arrays has is full of the value that the other one reads there; `None` if
/// both have it or neither, or it is in a file.
pub(super) fn is_filled(first: &Array, second: &Array, pair: &Pair<'_>) -> Option<bool> {
    match pair {
        (position, Some(ChunkEntry::Inline(bytes)), None) => {
            Some(is_full_of(first, *position, bytes, &missing_reads(second)))
        }
        (position, None, Some(ChunkEntry::Inline(bytes))) => {
            Some(is_full_of(second, *position, bytes, &missing_reads(first)))
        }
        _ => None,
    }
}

/// Returns the value that readers return for the elements of missing chunks.
pub(super) fn missing_reads(array: &Array) -> FillValue {
    array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&array.data_type))
}

/// Returns whether all elements of an encoded chunk that are inside the array equal a value.
pub(super) fn is_full_of(array: &Array, position: u64, bytes: &[u8], value: &FillValue) -> bool {
    let Some(shape) = chunk_shape(array, position) else { return false };
    let decoded = match &array.data_type {
        DataType::String | DataType::VariableBytes => decode::variable(array, bytes, &shape, LARGEST).ok(),
        _ => decode::elements(array, &shape, bytes).ok(),
    };
    let Some(decoded) = decoded.and_then(|values| decode::in_order(array, &shape, values).ok()) else {
        return false;
    };
    let wanted = match value {
        FillValue::Text(text) => text.as_bytes().to_vec(),
        FillValue::Variable(bytes) => bytes.to_vec(),
        FillValue::Fixed(_) => value.to_stored(&array.data_type, array.endian()).unwrap_or_default(),
    };
    let mut elements = decode::each_element(array, &decoded).enumerate();
    elements.all(|(at, one)| one == wanted || !is_within(array, position, &shape, at))
}

/// Returns whether an element of a chunk, by its row-major index, is inside the array.
pub(super) fn is_within(array: &Array, position: u64, shape: &[u64], at: usize) -> bool {
    let ChunkGrid::Regular(_) = &array.chunk_grid else { return true };
    let chunk = virtualize_zarr::chunk_indices(position, &array.chunk_grid.counts(&array.shape));
    let element = virtualize_zarr::chunk_indices(at as u64, shape);
    let (Some(chunk), Some(element)) = (chunk, element) else { return true };
    let places = chunk.iter().zip(shape).zip(element);
    let mut places = places.map(|((chunk, size), at)| chunk.saturating_mul(*size).saturating_add(at));
    array.shape.iter().all(|size| places.next().is_none_or(|at| at < *size))
}

/// Returns the shape of a chunk; `None` if it is too large to be decoded.
pub(super) fn chunk_shape(array: &Array, position: u64) -> Option<Vec<u64>> {
    let size = array.data_type.size().unwrap_or(1);
    let shape = decode::chunk_shape(array, position)?;
    decode::count(&shape)?.checked_mul(size).filter(|bytes| *bytes <= LARGEST)?;
    Some(shape)
}

/// A position, and the chunk that each of two arrays has there.
pub(super) type Pair<'a> = (u64, Option<ChunkEntry<'a>>, Option<ChunkEntry<'a>>);

/// Pairs the chunks of two arrays, in order of position.
pub(super) fn pairs<'a>(first: &'a Array, second: &'a Array) -> impl Iterator<Item = Pair<'a>> {
    let (mut ones, mut others) = (first.chunks.iter().peekable(), second.chunks.iter().peekable());
    std::iter::from_fn(move || {
        let at = match (ones.peek(), others.peek()) {
            (Some((one, _)), Some((other, _))) => *one.min(other),
            (Some((one, _)), None) => *one,
            (None, Some((other, _))) => *other,
            (None, None) => return None,
        };
        let one = ones.next_if(|(position, _)| *position == at).map(|(_, entry)| entry);
        let other = others.next_if(|(position, _)| *position == at).map(|(_, entry)| entry);
        Some((at, one, other))
    })
}

/// Describes where a chunk is stored. Omits the query of a url, which may contain a signature.
pub(super) fn place(hierarchy: &Hierarchy, entry: Option<&ChunkEntry<'_>>) -> String {
    match entry {
        None => "missing".to_owned(),
        Some(ChunkEntry::Inline(bytes)) => format!("{} bytes inline", bytes.len()),
        Some(ChunkEntry::Reference(reference)) => {
            let url = hierarchy.source(reference.source).map_or("?", |source| {
                source
                    .url
                    .split_once('?')
                    .filter(|(url, _)| url.starts_with("http"))
                    .map_or(&*source.url, |(url, _)| url)
            });
            format!("[{url}, {}, {}]", reference.offset, reference.length)
        }
    }
}

/// Returns the name of a chunk in the notation of keys: `0.1`.
pub(super) fn name(position: u64, counts: &[u64]) -> String {
    chunk_indices(position, counts).map_or_else(
        || format!("at position {position}, outside the grid"),
        |indices| decode::chunk_name(&indices),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::json;
    use virtualize_zarr::{
        ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Lengths, References, Source, SourceId,
    };

    /// An array of 2 × 3 chunks in `s3://b/one.nc`, in a group.
    fn hierarchy(format: ZarrFormat) -> Hierarchy {
        let mut hierarchy = Hierarchy::new(format);
        hierarchy.sources.push(Source { url: "s3://b/one.nc".to_owned(), ..Source::default() });
        let references = References {
            source: SourceId(0),
            positions: None,
            offsets: vec![10, 20, 30, 40, 50, 60].into(),
            lengths: Lengths::Uniform(10),
        };
        let array = Array {
            shape: vec![4, 6],
            data_type: DataType::Int16,
            chunk_grid: ChunkGrid::Regular(vec![2, 2]),
            fill_value: Some(FillValue::zero(&DataType::Int16)),
            codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }, Codec::Zlib { level: 4 }],
            dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
            attributes: Map::from_iter([("units".to_owned(), json!("K"))]),
            chunks: ChunkManifest::of(references),
        };
        hierarchy.root.make_group("g").unwrap().children.insert("a".to_owned(), Node::Array(Box::new(array)));
        hierarchy
    }

    fn changed(change: impl FnOnce(&mut Hierarchy)) -> Hierarchy {
        let mut hierarchy = hierarchy(ZarrFormat::V3);
        change(&mut hierarchy);
        hierarchy
    }

    fn reported(other: &Hierarchy, urls: bool) -> Vec<String> {
        let found = diff(&hierarchy(ZarrFormat::V3), other, urls);
        found.nodes.iter().map(ToString::to_string).collect()
    }

    fn array(hierarchy: &mut Hierarchy) -> &mut Array {
        hierarchy.array_mut("g/a").unwrap()
    }

    #[test]
    fn equal_hierarchies_of_either_format_do_not_differ() {
        assert!(reported(&hierarchy(ZarrFormat::V3), true).is_empty());
        let mut other = hierarchy(ZarrFormat::V2);
        // Zarr v2: readers would mask the fill value.
        array(&mut other).fill_value = None;
        assert_eq!(reported(&other, true), Vec::<String>::new());
        assert!(diff(&hierarchy(ZarrFormat::V2), &hierarchy(ZarrFormat::V2), true).is_empty());
    }

    #[test]
    fn nodes_of_one_only_and_of_two_kinds() {
        let other = changed(|h| {
            h.root.make_group("h").unwrap();
        });
        assert_eq!(reported(&other, true), ["/h: only in the second"]);
        let other = changed(|h| h.root.children.clear());
        assert_eq!(reported(&other, true), ["/g: only in the first"]);
        let other = changed(|h| {
            h.root.make_group("g").unwrap().children.clear();
            h.root.make_group("g/a").unwrap();
        });
        assert_eq!(reported(&other, true), ["/g/a: a group in one, an array in the other"]);
    }

    #[test]
    fn members_and_attributes() {
        let other = changed(|h| {
            array(h).attributes.insert("units".to_owned(), json!("m"));
            array(h).attributes.insert("long".to_owned(), json!("é".repeat(200)));
            array(h).codecs.pop();
        });
        let reported = reported(&other, true);
        let expected = [
            "/g/a: codecs: [",
            "/g/a: attribute long: nothing | \"é",
            "/g/a: attribute units: \"K\" | \"m\"",
        ];
        assert_eq!(reported.len(), expected.len(), "{reported:?}");
        for (found, start) in reported.iter().zip(expected) {
            assert!(found.starts_with(start), "{found}");
        }
        assert!(reported.get(1).is_some_and(|line| line.ends_with('…')));
    }

    #[test]
    fn chunks_that_moved_are_missing_or_inline() {
        let other = changed(|h| {
            let chunks = &mut array(h).chunks;
            chunks.references.first_mut().unwrap().offsets = vec![10, 21, 30, 40, 50].into();
            chunks.inline.insert(3, Bytes::from_static(b"12345"));
        });
        let expected = "/g/a: 3 chunks; 0.1: [s3://b/one.nc, 20, 10] | [s3://b/one.nc, 21, 10]; \
            1.0: [s3://b/one.nc, 40, 10] | 5 bytes inline; 1.2: [s3://b/one.nc, 60, 10] | missing";
        assert_eq!(reported(&other, true), [expected]);
    }

    #[test]
    fn many_chunks_are_counted_and_three_listed() {
        let other = changed(|h| array(h).chunks.references.clear());
        let reported = reported(&other, true);
        assert!(
            reported.iter().all(|line| line.starts_with("/g/a: 6 chunks; 0.0: ") && line.ends_with("; …"))
        );
        assert_eq!(reported.len(), 1);
    }

    #[test]
    fn urls_count_where_they_are_wanted() {
        let other = changed(|h| h.sources.first_mut().unwrap().url = "s3://b/two.nc".to_owned());
        assert!(reported(&other, false).is_empty());
        assert_eq!(reported(&other, true).len(), 1);
    }

    #[test]
    fn secrets_of_urls_are_not_printed() {
        let other =
            changed(|h| h.sources.first_mut().unwrap().url = "https://h/one.nc?signature=secret".to_owned());
        let reported = reported(&other, true).concat();
        assert!(reported.contains("https://h/one.nc,") && !reported.contains("secret"), "{reported}");
    }
}
