//! Reader compatibility: which released readers decode an array, and what they need.
//!
//! The rules were found by reading arrays with the readers themselves: zarr-python 3.4.2 (numcodecs 0.17.1, imagecodecs
//! 2026.10.10; for `virtualize` with this project's Python package), zarrs 0.23.14, zarrita.js 0.7.5 and GDAL 3.12.2. The interop test `test_readers.py` reads all fixtures
//! with each of them and compares the outcome with these rules.
//!
//! "Decodes" means equal values: a reader that shows wrong values without an error does not decode.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde_json::{Map, Value};

use crate::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Hierarchy, Implementation, Lengths, MetadataError,
    ReferencesBuilder, ZarrFormat, chunk_indices, chunk_position, codecs::PACKAGE,
};

/// A released reader of Zarr.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reader {
    /// zarr-python, over fsspec's reference filesystem.
    ZarrPython,
    /// The Rust crate zarrs, with its codecs for blosc, bz2, fletcher32, gzip, transpose, zlib and zstd.
    Zarrs,
    /// zarrita.js, over its reference store.
    Zarrita,
    /// GDAL's Zarr driver, as raster: numbers of one dimension and more.
    Gdal,
    /// zarr-python with this project's Python package, which brings numcodecs and registers codecs of its own.
    Virtualize,
}

/// A package or setting that a reader needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// numcodecs' codecs for Zarr v3, which zarr-python depends on.
    Numcodecs,
    /// The package `imagecodecs`, with its codecs registered.
    Imagecodecs,
    /// The package `cast-value-rs`.
    CastValueRs,
    /// zarr-python's setting `array.rectilinear_chunks`.
    RectilinearChunks,
    /// A JavaScript engine with `Float16Array`.
    Float16Array,
}

impl Reader {
    /// All readers.
    pub const ALL: [Self; 5] = [Self::ZarrPython, Self::Zarrs, Self::Zarrita, Self::Gdal, Self::Virtualize];

    /// Returns the usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZarrPython => "zarr-python",
            Self::Zarrs => "zarrs",
            Self::Zarrita => "zarrita",
            Self::Gdal => "gdal",
            Self::Virtualize => "virtualize",
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Need {
    /// All packages and settings.
    pub const ALL: [Self; 5] =
        [Self::Numcodecs, Self::Imagecodecs, Self::CastValueRs, Self::RectilinearChunks, Self::Float16Array];

    /// Returns the name of the package or setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Numcodecs => "numcodecs",
            Self::Imagecodecs => "imagecodecs",
            Self::CastValueRs => "cast-value-rs",
            Self::RectilinearChunks => "array.rectilinear_chunks",
            Self::Float16Array => "Float16Array",
        }
    }
}

/// Whether a reader decodes an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compatibility {
    /// It does.
    Yes,
    /// It does with these packages and settings.
    Needs(Vec<Need>),
    /// It does not, for this reason: a codec, the data type, the chunk grid, the fill value, ….
    No(String),
}

/// Why a reader does not decode an array.
type Obstacle = String;

/// Facts about the chunks of an array on which readers depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkFacts {
    /// Some chunk is missing, so that readers show the fill value.
    pub shows_fill_value: bool,
    /// Some chunk is stored in an odd number of bytes.
    pub has_odd_length: bool,
}

impl ChunkFacts {
    /// Returns the facts about an array that has all its chunks.
    pub fn of(array: &Array) -> Self {
        let counts = array.chunk_grid.counts(&array.shape);
        let positions = counts.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
        let is_odd = |length: u64| length % 2 == 1;
        let mut columns = array.chunks.references.iter();
        let has_odd_reference = columns.any(|column| match &column.lengths {
            Lengths::Uniform(length) => is_odd(*length),
            Lengths::Each(lengths) => lengths.iter().any(|length| is_odd((*length).into())),
        });
        let mut inline = array.chunks.inline.values();
        Self {
            shows_fill_value: positions.is_none_or(|positions| array.chunks.len() < positions),
            has_odd_length: has_odd_reference || inline.any(|bytes| is_odd(bytes.len() as u64)),
        }
    }
}

/// Returns the compatibility of an array with each reader, if it is written at `path` in a format. Of its chunks only
/// the facts count.
pub fn compatibility(
    path: &str,
    array: &Array,
    chunks: ChunkFacts,
    format: ZarrFormat,
) -> Vec<(Reader, Compatibility)> {
    let found = match Document::new(array, chunks, format) {
        Ok(document) => Reader::ALL.map(|reader| check(reader, path, array, &document)),
        Err(error) => Reader::ALL.map(|_| Compatibility::No(error.to_string())),
    };
    Reader::ALL.into_iter().zip(found).collect()
}

/// Where zarr-python finds a codec of Zarr v3 by the name that it is registered under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InZarrPython {
    BuiltIn,
    /// In a package besides its dependencies.
    Package(Need),
    /// Under the prefix `numcodecs.`.
    Numcodecs,
}

/// Codecs that readers other than zarr-python decode, by their names without the prefix `numcodecs.`. zarr-python finds
/// all codecs of imagecodecs and numcodecs by their prefixes; no reader but `virtualize` decodes those of its package.
const CODECS: [(&str, InZarrPython, &[Reader]); 14] = {
    use InZarrPython::{BuiltIn, Numcodecs, Package};
    use Reader::{Gdal, Zarrita, Zarrs};
    [
        ("transpose", BuiltIn, &[Zarrs, Zarrita, Gdal]),
        ("bytes", BuiltIn, &[Zarrs, Zarrita, Gdal]),
        ("vlen-utf8", BuiltIn, &[Zarrs, Zarrita]),
        ("vlen-bytes", BuiltIn, &[Zarrs]),
        ("gzip", BuiltIn, &[Zarrs, Zarrita, Gdal]),
        ("zstd", BuiltIn, &[Zarrs, Zarrita, Gdal]),
        ("blosc", BuiltIn, &[Zarrs, Zarrita, Gdal]),
        ("scale_offset", BuiltIn, &[Zarrita]),
        ("cast_value", Package(Need::CastValueRs), &[Zarrita]),
        ("zlib", Numcodecs, &[Zarrs, Zarrita, Gdal]),
        ("shuffle", Numcodecs, &[Zarrs, Zarrita, Gdal]),
        ("bz2", Numcodecs, &[Zarrs]),
        ("fletcher32", Numcodecs, &[Zarrs]),
        ("lzma", Numcodecs, &[Gdal]),
    ]
};

/// Prefix of numcodecs' names in v3.
const NUMCODECS: &str = "numcodecs.";

/// An array's metadata document, with what decides about readers.
struct Document {
    format: ZarrFormat,
    codecs: Vec<DocumentCodec>,
    fill_value: Value,
    chunks: ChunkFacts,
}

/// A codec of a document. Codecs that the model does not know ([`crate::Codec::Foreign`]) are judged by their name,
/// like all others.
struct DocumentCodec {
    /// The name as it is written.
    name: String,
    configuration: Value,
    /// Whether v2 lists it as the compressor.
    is_compressor: bool,
}

impl Document {
    fn new(array: &Array, chunks: ChunkFacts, format: ZarrFormat) -> Result<Self, MetadataError> {
        let document = match format {
            ZarrFormat::V2 => array.to_zarray()?,
            ZarrFormat::V3 => array.to_zarr_json_with("", &Map::new())?,
        };
        let list = |key: &str| document.get(key).and_then(Value::as_array).into_iter().flatten();
        let codec = |entry: &Value, name: &str, is_compressor| {
            let name = entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let configuration = match format {
                ZarrFormat::V2 => entry.clone(),
                ZarrFormat::V3 => entry.get("configuration").cloned().unwrap_or_default(),
            };
            DocumentCodec { name, configuration, is_compressor }
        };
        // All readers know the `order` of a v2 array.
        let mut codecs: Vec<_> = list("filters").map(|filter| codec(filter, "id", false)).collect();
        codecs.extend(
            document.get("compressor").filter(|entry| !entry.is_null()).map(|it| codec(it, "id", true)),
        );
        codecs.extend(list("codecs").map(|entry| codec(entry, "name", false)));
        let fill_value = document.get("fill_value").cloned().unwrap_or_default();
        Ok(Self { format, codecs, fill_value, chunks })
    }
}

impl DocumentCodec {
    fn refused(&self) -> Obstacle {
        self.name.clone()
    }

    /// Returns the entry of the table.
    fn entry(&self) -> Option<(InZarrPython, &'static [Reader])> {
        let bare = self.name.strip_prefix(NUMCODECS).unwrap_or(&self.name);
        CODECS.into_iter().find(|(name, ..)| *name == bare).map(|(_, package, readers)| (package, readers))
    }

    /// Returns what zarr-python needs for it.
    fn for_zarr_python(&self, format: ZarrFormat) -> Result<Option<Need>, Obstacle> {
        if self.name.starts_with("imagecodecs_") {
            return Ok(Some(Need::Imagecodecs));
        }
        if self.name.starts_with("virtualize.") {
            return Err(self.refused());
        }
        match (format, self.entry()) {
            // Codecs of Zarr v2 *are* those of numcodecs.
            (ZarrFormat::V2, _) => Ok(None),
            (ZarrFormat::V3, _) if self.name.starts_with(NUMCODECS) => Ok(Some(Need::Numcodecs)),
            (ZarrFormat::V3, Some((InZarrPython::BuiltIn, _))) => Ok(None),
            (ZarrFormat::V3, Some((InZarrPython::Package(need), _))) => Ok(Some(need)),
            (ZarrFormat::V3, _) => Err(self.refused()),
        }
    }

    /// Checks that a reader other than zarr-python decodes it. `element_size` is that of the stored elements, in bytes.
    fn check(&self, reader: Reader, format: ZarrFormat, element_size: Option<u64>) -> Result<(), Obstacle> {
        let entry = self.entry().filter(|(_, readers)| readers.contains(&reader));
        let (package, _) = entry.ok_or_else(|| self.refused())?;
        let bare = self.name.strip_prefix(NUMCODECS).unwrap_or(&self.name);
        // GDAL decodes a single compressor in v2, and only core codecs in v3.
        let is_supported_by_gdal = match format {
            ZarrFormat::V2 => matches!(bare, "transpose" | "bytes" | "shuffle") != self.is_compressor,
            ZarrFormat::V3 => package != InZarrPython::Numcodecs && !self.name.starts_with(NUMCODECS),
        };
        if reader == Reader::Gdal && !is_supported_by_gdal {
            return Err(self.refused());
        }
        let member = |name: &str| self.configuration.get(name);
        let limitation = match (bare, reader) {
            ("blosc", _) if member("cname").is_some_and(|cname| cname == "snappy") => {
                format!("{} with snappy", self.name)
            }
            // zarrita takes the element size of the array for that of the shuffle.
            ("shuffle", Reader::Zarrita) if member("elementsize").and_then(Value::as_u64) != element_size => {
                format!("{} of another element size than the array's", self.name)
            }
            // GDAL applies the inverse of each transposition, which is right where it is its own inverse.
            ("transpose", Reader::Gdal) if format == ZarrFormat::V3 => {
                let axes = member("order").and_then(Value::as_array).into_iter().flatten();
                let order: Vec<_> = axes.filter_map(Value::as_u64).collect();
                let target = |axis: u64| order.get(usize::try_from(axis).ok()?).copied();
                if (0..).zip(&order).all(|(axis, to)| target(*to) == Some(axis)) {
                    return Ok(());
                }
                "transpose of more than two axes in turn".to_owned()
            }
            _ => return Ok(()),
        };
        Err(limitation)
    }
}

// A reader with the packages and settings that its user has: `zarr-python+imagecodecs`.

/// A reader with the packages and settings that are available to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The reader.
    pub reader: Reader,
    /// Available packages and settings.
    pub has: Vec<Need>,
}

/// Text that names no reader.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {}", self.expected())]
pub struct ClientError;

impl ClientError {
    /// Returns what a reader is, as a noun phrase.
    pub fn expected(&self) -> &'static str {
        "virtualize, zarr-python, zarrs, zarrita or gdal, each with + and what it has: numcodecs, imagecodecs, cast-value-rs, \
         array.rectilinear_chunks or Float16Array"
    }
}

impl Client {
    /// Returns why it does not decode an array; `None` if it does. `compatibility` is that of its reader.
    pub fn obstacle(&self, compatibility: &Compatibility) -> Option<String> {
        match compatibility {
            Compatibility::Yes => None,
            Compatibility::No(because) => Some(because.clone()),
            Compatibility::Needs(needs) => {
                let missing: Vec<_> = needs.iter().filter(|need| !self.has.contains(need)).collect();
                let names: Vec<_> = missing.into_iter().map(|need| need.name()).collect();
                (!names.is_empty()).then(|| format!("needs {}", names.join(" and ")))
            }
        }
    }
}

/// Parses `reader+need+…`, ignoring case. imagecodecs brings numcodecs.
impl FromStr for Client {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('+').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let reader = Reader::ALL.into_iter().find(|reader| reader.name().eq_ignore_ascii_case(name));
        let need = |name: &str| Need::ALL.into_iter().find(|need| need.name().eq_ignore_ascii_case(name));
        let mut has = parts.map(|name| need(name).ok_or(ClientError)).collect::<Result<Vec<_>, _>>()?;
        if has.contains(&Need::Imagecodecs) {
            has.push(Need::Numcodecs);
        }
        has.sort_unstable();
        has.dedup();
        Ok(Self { reader: reader.ok_or(ClientError)?, has })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reader)?;
        self.has.iter().try_for_each(|need| write!(f, "+{}", need.name()))
    }
}

// Equivalent forms of an array that more readers decode.

/// Returns the array with its axes in stored order instead of a `transpose`; `None` where it has no such codec, or
/// where chunks would change their positions.
pub fn untransposed(array: &Array) -> Option<Array> {
    let (Codec::Transpose { order }, ChunkGrid::Regular(_)) = (array.codecs.first()?, &array.chunk_grid)
    else {
        return None;
    };
    let counts = array.chunk_grid.counts(&array.shape);
    keeps_positions(order, &counts).then(|| in_stored_order(array)).flatten()
}

/// Returns the array with its axes in stored order instead of a `transpose` that comes first, with its chunks at their
/// new positions; `None` where it has no such codec.
pub fn in_stored_order(array: &Array) -> Option<Array> {
    let (Codec::Transpose { order }, rest) = array.codecs.split_first()? else { return None };
    let counts = array.chunk_grid.counts(&array.shape);
    let name = |axis: &usize| array.dimension_names.get(*axis).cloned().flatten();
    Some(Array {
        shape: permuted(&array.shape, order)?,
        data_type: array.data_type.clone(),
        chunk_grid: match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => ChunkGrid::Regular(permuted(chunk, order)?),
            ChunkGrid::Rectilinear(edges) => ChunkGrid::Rectilinear(permuted(edges, order)?),
        },
        fill_value: array.fill_value.clone(),
        codecs: rest.to_vec(),
        dimension_names: order.iter().map(name).collect(),
        attributes: array.attributes.clone(),
        chunks: match keeps_positions(order, &counts) {
            true => array.chunks.clone(),
            false => permuted_chunks(&array.chunks, order, &counts)?,
        },
    })
}

/// Permutes a property of each axis.
fn permuted<T: Clone>(of_axes: &[T], order: &[usize]) -> Option<Vec<T>> {
    let permuted = order.iter().map(|axis| of_axes.get(*axis).cloned()).collect::<Option<Vec<_>>>()?;
    (permuted.len() == of_axes.len()).then_some(permuted)
}

/// Whether row-major positions of chunks are the same in both orders of axes.
fn keeps_positions(order: &[usize], counts: &[u64]) -> bool {
    order.iter().filter(|axis| counts.get(**axis).is_some_and(|count| *count > 1)).is_sorted()
}

fn permuted_chunks(chunks: &ChunkManifest, order: &[usize], counts: &[u64]) -> Option<ChunkManifest> {
    let new_counts = permuted(counts, order)?;
    let place = |position: u64| {
        let indices = chunk_indices(position, counts)?;
        chunk_position(permuted(&indices, order)?, &new_counts)
    };
    let mut all = ChunkManifest::default();
    for column in &chunks.references {
        let mut builder = ReferencesBuilder::default();
        for (position, reference) in column.iter() {
            builder.push(place(position)?, reference.offset, reference.length);
        }
        all.references.extend(builder.finish(column.source));
    }
    for (position, bytes) in &chunks.inline {
        all.inline.insert(place(*position)?, bytes.clone());
    }
    Some(all)
}

/// Returns codecs for re-encoded chunks: the layout stays, and compression becomes one that every reader of
/// the format decodes. `None` where chunks cannot be decoded here.
pub fn plain_codecs(array: &Array, format: ZarrFormat) -> Option<Vec<Codec>> {
    let is_recoded = |codec: &Codec| codec.implementation() != Implementation::None && !codec.is_arithmetic();
    if array.data_type.size().is_none() || !array.codecs.iter().all(is_recoded) {
        return None;
    }
    let layout = array.codecs.iter().take_while(|codec| matches!(codec, Codec::Transpose { .. }));
    let mut plain: Vec<_> = layout.cloned().collect();
    plain.push(Codec::Bytes { endian: Some(array.endian()) });
    if array.codecs.iter().any(Codec::is_compressor) {
        plain.push(match format {
            ZarrFormat::V2 => Codec::Zlib { level: LEVEL },
            ZarrFormat::V3 => Codec::Gzip { level: LEVEL },
        });
    }
    Some(plain)
}

/// Usual compression level of both.
const LEVEL: u8 = 6;

// What each reader cannot decode, rule by rule.

fn check(reader: Reader, path: &str, array: &Array, document: &Document) -> Compatibility {
    let needs = match reader {
        Reader::ZarrPython => zarr_python(array, document, false),
        Reader::Zarrs => zarrs(array, document),
        Reader::Zarrita => zarrita(path, array, document),
        Reader::Gdal => gdal(array, document),
        Reader::Virtualize => zarr_python(array, document, true),
    };
    match needs {
        Err(obstacle) => Compatibility::No(obstacle),
        Ok(needs) if needs.is_empty() => Compatibility::Yes,
        Ok(needs) => Compatibility::Needs(needs),
    }
}

type Needs = Result<Vec<Need>, Obstacle>;

/// Returns what zarr-python needs; with the package `virtualize` if it has that, which depends on numcodecs.
fn zarr_python(array: &Array, document: &Document, has_package: bool) -> Needs {
    let mut needs = Vec::new();
    for codec in &document.codecs {
        if has_package && PACKAGE.contains(&codec.name.as_str()) {
            continue;
        }
        let need = codec.for_zarr_python(document.format)?;
        needs.extend(need.filter(|need| !has_package || *need != Need::Numcodecs));
    }
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        needs.push(Need::RectilinearChunks);
    }
    needs.sort_unstable();
    needs.dedup();
    Ok(needs)
}

fn zarrs(array: &Array, document: &Document) -> Needs {
    for codec in &document.codecs {
        codec.check(Reader::Zarrs, document.format, None)?;
    }
    let kind = &array.data_type;
    let known = is_number(kind)
        || matches!(kind, DataType::String | DataType::VariableBytes | DataType::FixedText(_))
        || match document.format {
            ZarrFormat::V2 => matches!(kind, DataType::RawBytes(_)),
            ZarrFormat::V3 => matches!(kind, DataType::DateTime(_) | DataType::TimeDelta(_)),
        };
    if !known {
        return Err(format!("data type {kind}"));
    }
    let needs_fill = kind.is_complex() || matches!(kind, DataType::RawBytes(_) | DataType::FixedText(_));
    if document.fill_value.is_null() && needs_fill {
        return Err(format!("fill value null of {kind}"));
    }
    if *kind == DataType::Float16 && document.chunks.shows_fill_value && is_nan_payload(&document.fill_value)
    {
        return Err(format!("fill value {}", document.fill_value));
    }
    if sums_odd_bytes(array, document.chunks) {
        return Err("fletcher32 over an odd number of bytes".to_owned());
    }
    Ok(Vec::new())
}

fn zarrita(path: &str, array: &Array, document: &Document) -> Needs {
    let kind = &array.data_type;
    let is_text = *kind == DataType::String
        || (matches!(kind, DataType::FixedText(_)) && document.format == ZarrFormat::V2);
    let known = (is_number(kind) && !kind.is_complex()) || is_text;
    if !known {
        return Err(format!("data type {kind}"));
    }
    regular_and_not_empty(array)?;
    for codec in &document.codecs {
        codec.check(Reader::Zarrita, document.format, stored_type(array).size())?;
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c)) {
        return Err("a name with characters that urls escape".to_owned());
    }
    let fill = &document.fill_value;
    let wide = matches!(kind, DataType::Int64 | DataType::UInt64);
    let lost = (wide && !is_exact_as_binary64(fill))
        || (fill.is_null() && (wide || is_text))
        || is_nan_payload(fill);
    if document.chunks.shows_fill_value && lost {
        return Err(format!("fill value {}", document.fill_value));
    }
    Ok(if *kind == DataType::Float16 { vec![Need::Float16Array] } else { Vec::new() })
}

fn gdal(array: &Array, document: &Document) -> Needs {
    let kind = &array.data_type;
    if !is_number(kind) {
        return Err(format!("data type {kind}"));
    }
    regular_and_not_empty(array)?;
    if array.shape.is_empty() {
        return Err("no dimensions".to_owned());
    }
    for codec in &document.codecs {
        codec.check(Reader::Gdal, document.format, None)?;
    }
    let fill = &document.fill_value;
    let refused = match document.format {
        ZarrFormat::V2 => {
            (kind.is_complex() && !fill.is_null()) || (*kind == DataType::Float16 && fill.is_string())
        }
        ZarrFormat::V3 => *kind == DataType::Float16 && is_nan_payload(fill),
    };
    let lost =
        fill.as_u64().is_some_and(|fill| i64::try_from(fill).is_err()) && document.chunks.shows_fill_value;
    if refused || lost { Err(format!("fill value {fill}")) } else { Ok(Vec::new()) }
}

fn regular_and_not_empty(array: &Array) -> Result<(), Obstacle> {
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        return Err("chunk grid rectilinear".to_owned());
    }
    if array.shape.contains(&0) { Err("no elements".to_owned()) } else { Ok(()) }
}

/// Returns the type of stored elements.
fn stored_type(array: &Array) -> &DataType {
    let cast = |codec: &'_ &Codec| matches!(codec, Codec::CastValue { .. });
    match array.codecs.iter().rfind(cast) {
        Some(Codec::CastValue { data_type, .. }) => data_type,
        _ => &array.data_type,
    }
}

fn is_number(kind: &DataType) -> bool {
    matches!(kind, DataType::Bool | DataType::Float16 | DataType::Float32 | DataType::Float64)
        || kind.is_integer()
        || matches!(kind, DataType::Complex64 | DataType::Complex128)
}

/// Whether a fill value is a NaN with a payload, which is written by its bits.
fn is_nan_payload(fill: &Value) -> bool {
    fill.as_str().is_some_and(|text| text.starts_with("0x"))
}

/// Whether a JavaScript number represents it exactly.
fn is_exact_as_binary64(fill: &Value) -> bool {
    let Some(number) = fill.as_i64().map(i128::from).or_else(|| fill.as_u64().map(i128::from)) else {
        return false;
    };
    let magnitude = number.unsigned_abs();
    magnitude == 0 || 128 - magnitude.leading_zeros() - magnitude.trailing_zeros() <= 53
}

/// Whether a checksum covers an odd number of bytes, for which zarrs reports it as invalid.
fn sums_odd_bytes(array: &Array, chunks: ChunkFacts) -> bool {
    let Some(at) = array.codecs.iter().position(|codec| *codec == Codec::Fletcher32) else {
        return false;
    };
    let before = array.codecs.get(..at).unwrap_or_default();
    if before.iter().all(|codec| codec.encoded_length(0) == Some(0)) && array.data_type.size().is_some() {
        let ChunkGrid::Regular(shape) = &array.chunk_grid else { return true };
        let size = array.data_type.size();
        let bytes =
            size.and_then(|size| shape.iter().try_fold(size, |bytes, n| bytes.checked_mul((*n).max(1))));
        return bytes.is_none_or(|bytes| bytes % 2 == 1);
    }
    let is_last = at + 1 == array.codecs.len();
    !is_last || chunks.has_odd_length
}

// What zarr-python and xarray need beyond their own dependencies before they decode a set of arrays.

/// Packages to install, and Python statements to run before references are opened with zarr-python or xarray. Empty
/// where zarr-python needs neither.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ReaderSetup {
    /// Packages of PyPI to install.
    pub packages: BTreeSet<&'static str>,
    /// Python statements to run, in any order.
    pub statements: BTreeSet<&'static str>,
}

/// Registers the codecs of imagecodecs with zarr-python for one of the formats. imagecodecs has no entry points.
const REGISTER_V2: [&str; 2] = ["import imagecodecs.numcodecs", "imagecodecs.numcodecs.register_codecs()"];
const REGISTER_V3: [&str; 2] = ["import imagecodecs.zarr", "imagecodecs.zarr.register_codecs()"];
const RECTILINEAR: [&str; 2] = ["import zarr", "zarr.config.set({\"array.rectilinear_chunks\": True})"];

impl ReaderSetup {
    /// Returns what the arrays of a hierarchy need together. Arrays that no reader decodes add nothing.
    pub fn of(hierarchy: &Hierarchy) -> Self {
        let mut all = Self::default();
        hierarchy.arrays().iter().for_each(|(_, array)| all.add(array, hierarchy.format));
        all
    }

    /// Adds what another set needs.
    pub fn merge(&mut self, other: Self) {
        self.packages.extend(other.packages);
        self.statements.extend(other.statements);
    }

    /// Adds what an array needs.
    fn add(&mut self, array: &Array, format: ZarrFormat) {
        // zarr-python does not depend on these facts.
        let facts = ChunkFacts { shows_fill_value: false, has_odd_length: false };
        let Ok(document) = Document::new(array, facts, format) else { return };
        let check = |reader| check(reader, "", array, &document);
        match check(Reader::ZarrPython) {
            Compatibility::Yes => {}
            Compatibility::Needs(needs) => self.add_needs(&needs, format),
            Compatibility::No(_) => match check(Reader::Virtualize) {
                Compatibility::No(_) => {}
                found => {
                    self.packages.insert("virtualize");
                    if let Compatibility::Needs(needs) = found {
                        self.add_needs(&needs, format);
                    }
                }
            },
        }
    }

    /// Adds packages and settings. zarr-python depends on numcodecs, so that it is always there.
    fn add_needs(&mut self, needs: &[Need], format: ZarrFormat) {
        for need in needs {
            match need {
                Need::Imagecodecs => {
                    self.packages.insert("imagecodecs");
                    self.statements.extend(match format {
                        ZarrFormat::V2 => REGISTER_V2,
                        ZarrFormat::V3 => REGISTER_V3,
                    });
                }
                Need::CastValueRs => drop(self.packages.insert("cast-value-rs")),
                Need::RectilinearChunks => self.statements.extend(RECTILINEAR),
                Need::Numcodecs | Need::Float16Array => {}
            }
        }
    }

    /// Whether zarr-python and xarray need nothing.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.statements.is_empty()
    }

    /// Returns the command that installs the packages, if there are any.
    pub fn install(&self) -> Option<String> {
        let packages: Vec<_> = self.packages.iter().copied().collect();
        (!packages.is_empty()).then(|| format!("pip install {}", packages.join(" ")))
    }

    /// Returns the statements as one line of Python: imports first. `None` if there are none.
    pub fn python(&self) -> Option<String> {
        let (imports, calls): (Vec<_>, Vec<_>) =
            self.statements.iter().copied().partition(|statement| statement.starts_with("import "));
        let all = [imports, calls].concat();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns what to do before references are read, in one line; `None` if zarr-python and xarray need nothing.
    pub fn hint(&self) -> Option<String> {
        (!self.is_empty()).then(|| format!("to read this with xarray or zarr-python: {self}"))
    }
}

/// `pip install imagecodecs; in Python, before opening: import imagecodecs.zarr; …`, one line.
impl fmt::Display for ReaderSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let python = self.python().map(|python| format!("in Python, before opening: {python}"));
        let steps: Vec<_> = [self.install(), python].into_iter().flatten().collect();
        f.write_str(&steps.join("; "))
    }
}

#[cfg(test)]
mod tests {
    mod client {
        use super::super::*;

        #[test]
        fn names_are_readers_with_what_they_have() {
            let client: Client = "zarr-python+imagecodecs".parse().unwrap();
            assert_eq!(client.has, [Need::Numcodecs, Need::Imagecodecs]);
            assert_eq!(client.obstacle(&Compatibility::Needs(vec![Need::Numcodecs])), None);
            assert_eq!("zarrita+float16array".parse::<Client>().unwrap().has, [Need::Float16Array]);
            let alone: Client = "zarr-python".parse().unwrap();
            assert_eq!(
                alone.obstacle(&Compatibility::Needs(vec![Need::Numcodecs])).unwrap(),
                "needs numcodecs"
            );
            for text in ["", "xarray", "zarrs+", "zarrs+zarr"] {
                assert_eq!(text.parse::<Client>(), Err(ClientError), "{text}");
            }
        }
    }

    mod rewrite {
        use serde_json::Map;

        use super::super::*;
        use crate::{DataType, Endian, Lengths, References, SourceId};

        fn array(shape: &[u64], chunk: &[u64], order: &[usize]) -> Array {
            Array {
                shape: shape.to_vec(),
                data_type: DataType::UInt16,
                chunk_grid: ChunkGrid::Regular(chunk.to_vec()),
                fill_value: None,
                codecs: vec![
                    Codec::Transpose { order: order.to_vec() },
                    Codec::Bytes { endian: Some(Endian::Big) },
                    Codec::Lzw,
                ],
                dimension_names: ["band", "y", "x"].map(|name| Some(name.to_owned())).to_vec(),
                attributes: Map::new(),
                chunks: ChunkManifest::default(),
            }
        }

        #[test]
        fn bands_that_are_stored_last_come_last() {
            let array = untransposed(&array(&[3, 20, 24], &[3, 5, 24], &[1, 2, 0])).unwrap();
            assert_eq!(array.shape, [20, 24, 3]);
            assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![5, 24, 3]));
            assert_eq!(array.dimension_names, ["y", "x", "band"].map(|name| Some(name.to_owned())));
            assert_eq!(array.codecs.len(), 2);
        }

        #[test]
        fn chunks_keep_their_places() {
            assert_eq!(untransposed(&array(&[3, 20, 24], &[1, 5, 24], &[1, 2, 0])), None);
            assert_eq!(untransposed(&array(&[3, 20, 24], &[3, 5, 4], &[2, 1, 0])), None);
        }

        #[test]
        fn chunks_move_with_their_axes() {
            let mut array = array(&[2, 4, 24], &[1, 2, 24], &[1, 2, 0]);
            let references = References {
                source: SourceId(0),
                positions: None,
                offsets: vec![0, 10, 20, 30].into(),
                lengths: Lengths::Uniform(5),
            };
            array.chunks = ChunkManifest::of(references);
            array.chunks.inline.insert(1, bytes::Bytes::from_static(b"at y 1, band 0"));
            let stored = in_stored_order(&array).unwrap();
            assert_eq!(stored.shape, [4, 24, 2]);
            let places: Vec<_> =
                stored.chunks.references[0].iter().map(|(at, part)| (at, part.offset)).collect();
            assert_eq!(places, [(0, 0), (1, 20), (2, 10), (3, 30)]);
            assert!(stored.chunks.inline.contains_key(&2));
            array.codecs[0] = Codec::Transpose { order: vec![0, 5, 1] };
            assert_eq!(in_stored_order(&array), None);
        }

        #[test]
        fn new_chunks_keep_byte_order_and_layout() {
            let array = array(&[3, 20, 24], &[3, 5, 24], &[1, 2, 0]);
            let [layout, bytes] = [array.codecs[0].clone(), array.codecs[1].clone()];
            assert_eq!(
                plain_codecs(&array, ZarrFormat::V3).unwrap(),
                [layout, bytes, Codec::Gzip { level: LEVEL }]
            );
            let unknown = |codec: Codec| {
                let mut array = array.clone();
                array.codecs[2] = codec;
                plain_codecs(&array, ZarrFormat::V3).is_none()
            };
            assert!(unknown(Codec::ScaleOffset { offset: None, scale: Some(2.into()) }), "of arithmetic");
            assert!(unknown(Codec::Image { name: "imagecodecs_jpegxr", configuration: Map::new() }));
            assert_eq!(plain_codecs(&Array { data_type: DataType::String, ..array }, ZarrFormat::V3), None);
        }
    }

    mod setup {
        use super::super::*;
        use crate::{ChunkGrid, ChunkManifest, Codec, DataType, Endian, Node};

        fn setup(arrays: &[&Array], format: ZarrFormat) -> ReaderSetup {
            let mut hierarchy = Hierarchy::new(format);
            for (number, array) in arrays.iter().enumerate() {
                hierarchy.root.children.insert(number.to_string(), Node::Array(Box::new((*array).clone())));
            }
            ReaderSetup::of(&hierarchy)
        }

        fn array(codecs: Vec<Codec>) -> Array {
            Array {
                shape: vec![4],
                data_type: DataType::UInt8,
                chunk_grid: ChunkGrid::Regular(vec![4]),
                fill_value: None,
                codecs: [vec![Codec::Bytes { endian: Some(Endian::Little) }], codecs].concat(),
                dimension_names: vec![None],
                attributes: serde_json::Map::new(),
                chunks: ChunkManifest::default(),
            }
        }

        #[test]
        fn only_codecs_outside_zarr_python_need_a_setup() {
            let plain = array(vec![Codec::Zlib { level: 1 }]);
            let foreign = array(vec![Codec::Lzw]);
            for (format, module) in [(ZarrFormat::V2, "numcodecs"), (ZarrFormat::V3, "zarr")] {
                assert!(setup(&[&plain], format).is_empty());
                let found = setup(&[&plain, &foreign], format);
                let expected = format!(
                    "pip install imagecodecs; in Python, before opening: import imagecodecs.{module}; \
                     imagecodecs.{module}.register_codecs()"
                );
                assert_eq!(found.to_string(), expected);
            }
        }

        #[test]
        fn a_rectilinear_grid_needs_a_setting_and_no_package() {
            let mut rectilinear = array(Vec::new());
            rectilinear.chunk_grid = ChunkGrid::Rectilinear(vec![vec![1, 3]]);
            rectilinear.fill_value = Some(crate::FillValue::zero(&rectilinear.data_type));
            let found = setup(&[&rectilinear], ZarrFormat::V3);
            assert_eq!(found.install(), None);
            assert_eq!(
                found.python().as_deref(),
                Some("import zarr; zarr.config.set({\"array.rectilinear_chunks\": True})")
            );
        }
    }
}
