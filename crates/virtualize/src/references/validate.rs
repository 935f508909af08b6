//! Validation of references against their sources: recorded versions match, every reference is inside its file, chunks
//! decode, and a direct read of the source agrees.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_codec::CodecFailure;
use virtualize_map::{ChunkGridChoice, Finding, MapOptions};
use virtualize_store::{Condition, Object, StoreError, StoreOptions, probe};
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, Codec, DataType, Endian, FillValue, Hierarchy, Reference, References,
    Source, SourceId, ZarrFormat,
    cf::{attributes::decides_values, missing::Sentinels},
    in_byte_order,
};

use super::{
    Part, Place, Places,
    diff::{
        Aligned, LARGEST, aligned, are_stored_alike, both_lack_a_chunk, chunk_shape, is_filled, is_full_of,
        is_within, missing_reads, name, pairs, place,
    },
    is_plain, parts, places,
};
use crate::{
    decode,
    describe::printable,
    error::{ArrayError, Error, NONE_OF_THEM},
    inline::finding,
    open::open_object,
    options::{Options, ReadOptions},
    source_formats::detect,
    sources::{changes, source_of},
    store::VirtualStore,
};

/// Number of sources that are opened at once, ahead of their validation.
const AHEAD: usize = 8;

/// Selection of the chunks to decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sample {
    /// The given number of chunks of each array, evenly spread.
    Chunks(u64),
    /// All chunks.
    Full,
}

/// Validates a store that was read from references, one source after the other. Holds one chunk in memory at a time.
///
/// # Errors
/// [`Error::Store`] for an invalid option. Problems of sources are part of the report.
pub async fn validate(
    store: &VirtualStore,
    sample: Sample,
    options: &ReadOptions,
) -> Result<ValidationReport, Error> {
    let hierarchy = &store.hierarchy;
    let arrays = hierarchy.arrays();
    let mut report = ValidationReport::default();
    let named = |(path, array): &(String, &Array)| Checked {
        name: path.clone(),
        chunks: array.chunks.len(),
        ..Checked::default()
    };
    report.arrays = arrays.iter().map(named).collect();
    if hierarchy.sources.iter().all(|source| source.etag.is_none() && source.modified.is_none()) {
        report.notes.push("the references record neither entity tags nor times of their sources".to_owned());
    }
    if hierarchy.sources.is_empty() {
        report.notes.push("there are no references, so nothing was compared".to_owned());
    }
    let urls: Vec<String> = hierarchy.sources.iter().map(|source| source.url.clone()).collect();
    // For each array, chunks of its source files to which no reference leads: their number, and the first file.
    let mut unreferenced: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let opened =
        stream::iter(urls).map(|url| async move { virtualize_store::open(&url, &options.store).await });
    let mut opened = opened.buffered(AHEAD);
    for (source, parts) in hierarchy.sources.iter().zip(parts(&arrays, hierarchy.sources.len())) {
        let Some(object) = opened.next().await else { break };
        let mut checked = Checked { name: source.url.clone(), ..Checked::default() };
        match object {
            Err(error @ StoreError::Option { .. }) => return Err(error.into()),
            Err(error) => {
                checked.problem(error.to_string());
                checked.chunks = parts.iter().map(Part::count).sum();
            }
            Ok(object) => {
                for change in changes(source, &source_of(&object)) {
                    checked.problem(format!("it has changed: {change}"));
                }
                let start = parts.iter().find_map(|part| Some(part.references().next()?.1.offset));
                if let Some(start) = start.filter(|_| checked.problems == 0)
                    && let Some(problem) = unreadable(source, &object, start, &options.store).await
                {
                    checked.problem(problem);
                }
                let direct = direct(&object, hierarchy, options, &mut report.notes).await;
                let known = OnceLock::new();
                let work = Work { hierarchy, object: &object, direct: direct.as_ref(), known, sample };
                for part in &parts {
                    checked.chunks += part.count();
                    if let Some(found) = report.arrays.get_mut(part.at) {
                        work.array(part, found).await;
                    }
                }
                for (at, (path, array)) in arrays.iter().enumerate() {
                    let part =
                        parts.binary_search_by_key(&at, |part| part.at).ok().and_then(|n| parts.get(n));
                    let twin = direct.as_ref().and_then(|direct| direct.hierarchy.array(path));
                    let count = twin.map_or(0, |twin| unreferenced_chunks(array, part, twin));
                    if count > 0 {
                        unreferenced.entry(path).or_insert((0, &source.url)).0 += count;
                    }
                }
            }
        }
        report.sources.push(checked);
    }
    report.notes.extend(unreferenced.into_iter().map(|(path, (count, first))| {
        format!(
            "/{path}: no reference leads to {count} of the chunks in its source files, first in {first}; where no other \
             file has these elements, they read as the fill value"
        )
    }));
    Ok(report)
}

/// Returns the number of chunks of a source file to which no reference of an array with several sources leads. `twin` is the
/// array of the file, and `part` has the references to it, if there are any.
fn unreferenced_chunks(array: &Array, part: Option<&Part<'_>>, twin: &Array) -> usize {
    let chunks = &array.chunks;
    let mut sources = chunks.references.iter().map(|column| column.source);
    let first = sources.next();
    let has_one_source = sources.all(|source| Some(source) == first);
    // It is unknown which files inline chunks come from.
    if has_one_source || !chunks.inline.is_empty() {
        return 0;
    }
    let used: BTreeSet<u64> = part.into_iter().flat_map(Part::references).map(|(_, to)| to.offset).collect();
    let is_unused = |entry: &ChunkEntry<'_>| match entry {
        ChunkEntry::Reference(to) => {
            to.source == SourceId(0)
                && used.range(to.offset..to.offset.saturating_add(to.length)).next().is_none()
        }
        ChunkEntry::Inline(_) => false,
    };
    twin.chunks.iter().filter(|(_, entry)| is_unused(entry)).count()
}

/// Requests a byte of a source as readers do, and returns why they cannot read it. Those of Icechunk, which alone records
/// versions, send the recorded one as a condition.
async fn unreadable(source: &Source, object: &Object, start: u64, options: &StoreOptions) -> Option<String> {
    if !object.supports_ranges() {
        return Some("its server ignores range requests, so readers cannot read chunks".to_owned());
    }
    let condition = match (&source.etag, source.modified) {
        (Some(tag), _) => Condition::Tag(tag.trim_matches('"').to_owned()),
        (None, Some(time)) => Condition::NotModifiedSince(time.saturating_add(999) / 1000),
        (None, None) => return None,
    };
    match (probe(&source.url, start, Some(&condition), options).await, condition) {
        (Ok(()), _) => None,
        (Err(StoreError::Changed { .. }), Condition::Tag(tag)) => {
            Some(format!("readers send If-Match: {tag}, which its server rejects"))
        }
        (Err(StoreError::Changed { .. }), Condition::NotModifiedSince(_)) => Some(
            "readers send If-Unmodified-Since with the recorded time, which its server rejects".to_owned(),
        ),
        (Err(error), _) => Some(error.to_string()),
    }
}

/// Maps a source directly. Returns `None` if its format is not supported.
async fn direct(
    object: &Arc<Object>,
    hierarchy: &Hierarchy,
    options: &ReadOptions,
    notes: &mut Vec<String>,
) -> Option<VirtualStore> {
    let is_known = matches!(detect(object.as_ref()).await, Ok(Ok(_)));
    if !is_known {
        notes.push(format!("{}: {NONE_OF_THEM}, so there is no direct read", object.name()));
        return None;
    }
    // Unpacked arrays are compared with unpacked arrays.
    let calculates = |array: &Array| array.codecs.iter().any(Codec::is_arithmetic);
    let unpack = hierarchy.arrays().iter().any(|(_, array)| calculates(array));
    // Rectilinear grids are compared with rectilinear grids.
    let is_rectilinear = |array: &Array| matches!(array.chunk_grid, ChunkGrid::Rectilinear(_));
    let chunk_grid = match hierarchy.arrays().iter().any(|(_, array)| is_rectilinear(array)) {
        true => ChunkGridChoice::Rectilinear,
        false => ChunkGridChoice::Regular,
    };
    // Sequences and array members are arrays of their own, if the references have them.
    let map =
        MapOptions { format: hierarchy.format, unpack, chunk_grid, ragged: true, ..MapOptions::default() };
    let options = Options { store: options.store.clone(), map, ..Options::default() };
    match open_object(Arc::clone(object), &options).await {
        Ok(store) => Some(store),
        Err(error) => {
            notes.push(format!("no direct read: {error}"));
            None
        }
    }
}

/// Validation of one source.
struct Work<'a> {
    hierarchy: &'a Hierarchy,
    object: &'a Arc<Object>,
    direct: Option<&'a VirtualStore>,
    /// Chunks of the direct read, built on first use.
    known: OnceLock<Places<'a>>,
    sample: Sample,
}

impl Work<'_> {
    /// Validates the chunks of an array in the source.
    async fn array(&self, part: &Part<'_>, found: &mut Checked) {
        let array = part.array;
        let counts = array.chunk_grid.counts(&array.shape);
        let twin = self.direct.and_then(|direct| direct.hierarchy.array(part.path));
        let aligned = twin.filter(|_| part.is_whole()).map(|twin| aligned(array, twin));
        if let Some(Aligned { first, second, .. }) = &aligned
            && part.is_only
            && first.shape.len() == second.shape.len()
            && first.shape != second.shape
            // Without references to the source, a larger array may be joined of several files.
            && (part.count() > 0 || first.shape.iter().zip(&second.shape).any(|(one, other)| one < other))
            && !starts_elsewhere(first, second)
        {
            let text = format!("shape {:?}, a direct read of the source has {:?}", first.shape, second.shape);
            found.problem(text);
        }
        let aligned = aligned.filter(|aligned| aligned.first.shape == aligned.second.shape);
        if part.count() == 0 && aligned.is_none() {
            return;
        }
        let size = self.object.size();
        for (position, part) in part.references() {
            if part.offset.checked_add(part.length).is_none_or(|end| end > size) {
                found.problem(format!(
                    "chunk {}: bytes {} to {} are outside the file of {size} bytes",
                    name(position, &counts),
                    part.offset,
                    part.offset.saturating_add(part.length)
                ));
            }
        }
        if let Some(Aligned { first, second, .. }) = &aligned {
            self.metadata(first, second, found);
        }
        match (aligned, self.direct) {
            (Some(Aligned { first, second, .. }), Some(direct)) if first.chunk_grid == second.chunk_grid => {
                self.tables(&first, &second, &direct.hierarchy, found).await;
                let columns = first.chunks.references.iter().collect();
                self.decode(&Part { array: &first, columns, ..*part }, Some(&second), found).await;
            }
            (_, Some(_)) => {
                self.places(part, found);
                self.decode(part, None, found).await;
            }
            (_, None) => self.decode(part, None, found).await,
        }
    }

    /// Compares the metadata that determine how values are read.
    fn metadata(&self, array: &Array, twin: &Array, found: &mut Checked) {
        kinds(array, twin, found);
        let fill_value = |array: &Array| {
            array.fill_value.as_ref().map_or_else(|| "null".to_owned(), |fill| shown(fill, &array.data_type))
        };
        if both_lack_a_chunk(array, twin) {
            differ(found, "fill value", &fill_value(array), &fill_value(twin));
        }
        let masked = |array| Vec::from_iter(masked(array, self.hierarchy.format)).join(", ");
        let (one, other) = (masked(array), masked(twin));
        if one != other {
            found.problem(format!(
                "readers mask the values [{one}], but [{other}] in a direct read of the source"
            ));
        }
        attributes(array, twin, false, found);
    }

    /// Compares the complete chunk tables. A chunk may be missing if that of the source is full of the array's fill value.
    async fn tables(&self, array: &Array, twin: &Array, direct: &Hierarchy, found: &mut Checked) {
        let counts = array.chunk_grid.counts(&array.shape);
        for pair in pairs(array, twin) {
            let mut is_filled = is_filled(array, twin, &pair);
            let (position, one, other) = &pair;
            if let (None, Some(ChunkEntry::Reference(reference))) = (one, other)
                && found.listed.len() < LISTED
                && let Some(Ok(bytes)) = self.read(reference).await
            {
                is_filled = Some(is_full_of(twin, *position, &bytes, &missing_reads(array)));
            }
            let is_same = is_filled.unwrap_or_else(|| match (one, other) {
                (Some(ChunkEntry::Reference(one)), Some(ChunkEntry::Reference(other))) => {
                    (one.offset, one.length) == (other.offset, other.length)
                }
                (one, other) => one.is_some() == other.is_some(),
            });
            if !is_same {
                let name = name(*position, &counts);
                let (here, there) = (place(self.hierarchy, one.as_ref()), place(direct, other.as_ref()));
                found.problem(format!("chunk {name}: {here}, a direct read of the source has {there}"));
            }
        }
    }

    /// Matches the chunks of arrays with several sources or different grids by place.
    fn places(&self, part: &Part<'_>, found: &mut Checked) {
        let array = part.array;
        let counts = array.chunk_grid.counts(&array.shape);
        let mut types = None;
        for (position, reference) in part.references() {
            let place = self.known_place(reference.offset);
            let fits = place.is_some_and(|(offset, place)| {
                let whole = (offset, place.length) == (reference.offset, reference.length);
                let end = offset.saturating_add(place.length);
                let is_inside = reference.offset.saturating_add(reference.length) <= end;
                whole || (is_plain(place.array) && is_plain(array) && is_inside)
            });
            match place {
                Some((_, place)) if fits => types = types.or(Some(place.array)),
                _ => found.problem(format!(
                    "chunk {}: [{}, {}] is not a chunk of the source",
                    name(position, &counts),
                    reference.offset,
                    reference.length
                )),
            }
        }
        if let Some(twin) = types {
            kinds(array, twin, found);
            attributes(array, twin, true, found);
        }
    }

    /// Returns the last chunk of the direct read that starts at or before an offset.
    fn known_place(&self, offset: u64) -> Option<(u64, &Place<'_>)> {
        let direct = &self.direct?.hierarchy;
        let known = self.known.get_or_init(|| places(direct));
        known.range(..=offset).next_back().map(|(offset, place)| (*offset, place))
    }

    /// Decodes chunks and compares them with those of the direct read: by position if there is a twin, otherwise by
    /// place.
    async fn decode(&self, part: &Part<'_>, twin: Option<&Array>, found: &mut Checked) {
        let array = part.array;
        let counts = array.chunk_grid.counts(&array.shape);
        let inline = twin.map_or(0, |_| array.chunks.inline.len() as u64);
        let count = u128::from(part.count().saturating_add(inline));
        let wanted = match self.sample {
            Sample::Full => count,
            Sample::Chunks(wanted) => count.min(wanted.into()),
        };
        // Evenly spread with both ends, since the last chunk may be stored differently from the others.
        let is_chosen = |at: u128| match wanted {
            0 => false,
            1 => at == 0,
            _ => (at * (wanted - 1)).div_ceil(count - 1) * (count - 1) / (wanted - 1) == at,
        };
        let here = part.references().map(|(at, reference)| (at, ChunkEntry::Reference(reference)));
        let carried = array.chunks.inline.iter().filter(|_| twin.is_some());
        let carried = carried.map(|(at, bytes)| (*at, ChunkEntry::Inline(bytes)));
        let chosen = here.chain(carried).enumerate().filter(|(at, _)| is_chosen(*at as u128));
        for (_, (position, entry)) in chosen {
            let name = name(position, &counts);
            match self.values(array, position, &entry).await {
                Ok(None) => {}
                Ok(Some(values)) => {
                    found.decoded += 1;
                    // The chunk of the direct read at this position, or of the same bytes.
                    let other = match (twin, &entry) {
                        (Some(twin), _) => Some((twin, position)),
                        (None, ChunkEntry::Inline(_)) => None,
                        (None, ChunkEntry::Reference(to)) => self
                            .known_place(to.offset)
                            .filter(|(offset, place)| (*offset, place.length) == (to.offset, to.length))
                            .map(|(_, place)| (place.array, place.position)),
                    };
                    let little = |array: &Array| array.data_type.clone().in_byte_order(Endian::Little);
                    if let Some((twin, at)) = other.filter(|(twin, _)| little(array) == little(twin)) {
                        self.compare((array, position), values, (twin, at), &name, found).await;
                    }
                }
                Err(reason) => found.problem(format!("chunk {name}: {reason}")),
            }
        }
    }

    /// Compares the values of a chunk, given by its array and position, with those of a chunk of the direct read. Elements
    /// outside of the array are not compared: no reader returns them.
    async fn compare(
        &self,
        (array, position): (&Array, u64),
        values: Values,
        (twin, at): (&Array, u64),
        name: &str,
        found: &mut Checked,
    ) {
        let Some(entry) = twin.chunks.get(at) else { return };
        let is_moved = are_stored_alike(array, twin);
        let shape = values.shape.clone().filter(|_| !is_moved);
        let other = match self.values(twin, at, &entry).await {
            Ok(Some(other)) => other.of(twin, is_moved),
            Ok(None) => return,
            Err(reason) => Err(reason),
        };
        match (values.of(array, is_moved), other) {
            (Ok(values), Ok(other)) => {
                let is_within = |at| shape.as_ref().is_none_or(|shape| is_within(array, position, shape, at));
                let mut ones = decode::each_element(array, &values);
                let mut others = decode::each_element(array, &other);
                let pairs = (0..).map(|at| (at, ones.next(), others.next()));
                let mut pairs = pairs.take_while(|(_, one, other)| one.is_some() || other.is_some());
                let is_same = pairs.all(|(at, one, other)| {
                    one == other || one.is_some() && other.is_some() && !is_within(at)
                });
                if !is_same {
                    found.problem(format!("chunk {name}: its values differ from those of a direct read"));
                }
            }
            (Err(reason), _) => found.problem(format!("chunk {name}: {reason}")),
            (_, Err(reason)) => found.problem(format!("chunk {name}: a direct read: {reason}")),
        }
    }

    /// Reads a chunk of the source; `None` if it is outside the file or too large.
    async fn read(&self, reference: &Reference) -> Option<Result<Bytes, ArrayError>> {
        let end = reference.offset.checked_add(reference.length)?;
        if end > self.object.size() || reference.length > LARGEST {
            return None;
        }
        let range = [ByteRange::new(reference.offset, reference.length)];
        let read = self.object.read_ranges(&range).await;
        Some(read.map(|read| read.into_iter().next().unwrap_or_default()).map_err(ArrayError::from))
    }

    /// Returns a chunk's values, or its bytes if there is no decoder. Returns `None` outside the file, which has been
    /// reported already.
    async fn values(
        &self,
        array: &Array,
        position: u64,
        entry: &ChunkEntry<'_>,
    ) -> Result<Option<Values>, ArrayError> {
        let bytes: Bytes = match entry {
            ChunkEntry::Inline(bytes) => (*bytes).clone(),
            ChunkEntry::Reference(reference) => match self.read(reference).await {
                Some(bytes) => bytes?,
                None => return Ok(None),
            },
        };
        let Some(shape) = chunk_shape(array, position) else { return Ok(None) };
        let decoded = match &array.data_type {
            DataType::String | DataType::VariableBytes => decode::variable(array, &bytes, &shape, LARGEST),
            _ => decode::elements(array, &shape, &bytes).map_err(ArrayError::from),
        };
        match decoded {
            Ok(values) => Ok(Some(Values { shape: Some(shape), stored: values })),
            Err(ArrayError::Codec(CodecFailure::NoDecoder(_))) => match finding(array, position, &bytes) {
                Some(Finding::OtherImage(why) | Finding::Damaged(why)) => Err(ArrayError::invalid(why)),
                Some(Finding::OtherShape) => Err(ArrayError::invalid("readers do not convert its colors")),
                _ => Ok(Some(Values { shape: None, stored: bytes.to_vec() })),
            },
            Err(error) => Err(error),
        }
    }
}

/// Elements of a chunk in stored order, or its bytes if there is no decoder.
struct Values {
    /// Shape of the chunk; `None` for undecoded bytes.
    shape: Option<Vec<u64>>,
    stored: Vec<u8>,
}

impl Values {
    /// Returns the little-endian elements in the order of the array's axes or, for comparison with an array of another
    /// order, in stored order.
    fn of(self, array: &Array, as_stored: bool) -> Result<Vec<u8>, ArrayError> {
        let Some(shape) = self.shape else { return Ok(self.stored) };
        let values = match as_stored {
            true => self.stored,
            false => decode::in_order(array, &shape, self.stored)?,
        };
        Ok(in_byte_order(&values, &array.data_type, array.endian()).unwrap_or(values))
    }
}

/// Returns a value in the encoding of Zarr v3, for messages.
fn shown(value: &FillValue, data_type: &DataType) -> String {
    let json = value.to_json(data_type, ZarrFormat::V3);
    json.map_or_else(|error| error.to_string(), |json| json.to_string())
}

/// Compares data types, byte orders, and the fields of structures.
fn kinds(array: &Array, twin: &Array, found: &mut Checked) {
    differ(found, "data type", &array.data_type.to_string(), &twin.data_type.to_string());
    // Re-encoded chunks may have another byte order than the source.
    if array.chunks.references.iter().all(References::is_empty) {
        return;
    }
    differ(found, "byte order", &format!("{:?}", array.endian()), &format!("{:?}", twin.endian()));
    let fields = |array: &Array| array.data_type.to_v2(array.endian()).unwrap_or_default().to_string();
    if let DataType::Struct(_) = &array.data_type {
        differ(found, "fields", &fields(array), &fields(twin));
    }
}

/// Reports a problem if an array and the direct read differ.
fn differ(found: &mut Checked, what: &str, one: &str, other: &str) {
    if one != other {
        found.problem(format!("{what} is {one}, a direct read of the source says {other}"));
    }
}

/// Returns the values that readers take for missing, except for NaN.
fn masked(array: &Array, format: ZarrFormat) -> BTreeSet<String> {
    let data_type = &array.data_type;
    let sentinels = Sentinels::of(array, format);
    let is_masked =
        |element: &&Bytes| (data_type.is_integer() || data_type.is_float()) && !sentinels.is_nan(element);
    let elements = sentinels.elements.iter().filter(is_masked);
    elements.map(|element| shown(&FillValue::Fixed(element.clone()), data_type)).collect()
}

/// Returns whether the first chunk of an array is not that of the source, as in a virtual dataset of a part of it.
fn starts_elsewhere(array: &Array, twin: &Array) -> bool {
    let start = |array: &Array| match array.chunks.get(0) {
        Some(ChunkEntry::Reference(reference)) => Some(reference.offset),
        _ => None,
    };
    start(array).is_some() && start(array) != start(twin)
}

/// Compares attributes that both arrays have. Of an array of several sources, only numbers on which values depend are
/// compared: the sources may differ in others, and spell texts differently.
fn attributes(array: &Array, twin: &Array, is_joined: bool, found: &mut Checked) {
    for (name, value) in &array.attributes {
        let Some(other) = twin.attributes.get(name) else { continue };
        let is_same = match is_joined && decides_values(name) {
            true => value.as_f64().zip(other.as_f64()).is_none_or(|(one, other)| one == other),
            false => is_joined || value == other,
        };
        if !is_same {
            differ(found, &format!("attribute {name}"), &value.to_string(), &other.to_string());
        }
    }
}

/// Number of problems that are listed for an array.
const LISTED: usize = 10;

/// Result of a validation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValidationReport {
    /// Sources, in the order of the references.
    pub sources: Vec<Checked>,
    /// Arrays, in order of path.
    pub arrays: Vec<Checked>,
    /// Parts that could not be validated, with the reason.
    pub notes: Vec<String>,
}

/// A validated source or array.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Checked {
    /// Url of the source, or path of the array without a leading slash.
    pub name: String,
    /// Number of chunks, inline ones included.
    pub chunks: u64,
    /// Number of decoded chunks.
    pub decoded: u64,
    /// Number of problems.
    pub problems: u64,
    /// The first problems, described.
    pub listed: Vec<String>,
}

impl ValidationReport {
    /// Returns whether there are no problems.
    pub fn is_valid(&self) -> bool {
        self.sources.iter().chain(&self.arrays).all(|checked| checked.problems == 0)
    }

    /// Returns the result as JSON.
    pub fn to_json(&self) -> Value {
        json!({"valid": self.is_valid(), "arrays": self.arrays, "sources": self.sources, "notes": self.notes})
    }
}

impl Checked {
    /// Counts a problem, and lists it if it is among the first.
    pub(super) fn problem(&mut self, text: impl Into<String>) {
        self.problems += 1;
        if self.listed.len() < LISTED {
            self.listed.push(text.into());
        }
    }
}

/// Formats one line per array and source, and one per listed problem.
impl fmt::Display for ValidationReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, checked) in [("array", &self.arrays), ("source", &self.sources)] {
            writeln!(out, "{:>10} {:>10} {:>10}  {title}", "chunks", "decoded", "problems")?;
            for one in checked {
                let slash = if title == "array" { "/" } else { "" };
                writeln!(
                    out,
                    "{:>10} {:>10} {:>10}  {slash}{}",
                    one.chunks,
                    one.decoded,
                    one.problems,
                    printable(&one.name)
                )?;
                for problem in &one.listed {
                    writeln!(out, "{:>32}  {}", "", printable(problem))?;
                }
                if one.problems > one.listed.len() as u64 {
                    writeln!(out, "{:>32}  …", "")?;
                }
            }
        }
        for note in &self.notes {
            writeln!(out, "note: {}", printable(note))?;
        }
        Ok(())
    }
}
