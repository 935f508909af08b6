//! Parsing of metadata documents, written here ([`Array::to_zarray`], [`Array::to_zarr_json`]) or by other tools.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use half::f16;
use serde_json::{Map, Value};

use crate::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, Field, FillValue, Group, TimeUnit, ZarrFormat,
    codecs,
    data_type::SCALARS,
    fill_value::{complex_half, in_byte_order},
    metadata::ARRAY_DIMENSIONS,
};

/// A parsed array, without its chunks.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayDocument {
    /// The array, with an empty manifest.
    pub array: Array,
    /// Separator of the numbers in a chunk's key: `.` or `/`.
    pub separator: char,
    /// Whether keys of chunks start with `c`, the default encoding of Zarr v3.
    pub starts_with_c: bool,
}

/// Greatest number of axes.
const AXES: usize = 64;
/// Greatest number of chunks along an axis of a rectilinear grid.
const EDGES: u64 = 1 << 24;

fn get<'a>(document: &'a Value, member: &'static str) -> &'a Value {
    document.get(member).unwrap_or(&Value::Null)
}

/// Parses a list of sizes.
pub(crate) fn sizes(document: &Value, member: &'static str) -> Result<Vec<u64>, ReadError> {
    let value = get(document, member);
    let list = value.as_array().filter(|list| list.len() <= AXES);
    let sizes: Option<Vec<u64>> = list.and_then(|list| list.iter().map(Value::as_u64).collect());
    sizes.ok_or_else(|| unexpected(member, "a list of sizes", value))
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

impl Group {
    /// Parses a group, without its children. `document` is `.zattrs` in v2 and `zarr.json` in v3.
    pub fn from_document(document: &Value, format: ZarrFormat) -> Self {
        let attributes = match format {
            ZarrFormat::V2 => object(document),
            ZarrFormat::V3 => object(get(document, "attributes")),
        };
        Self { attributes, ..Self::default() }
    }
}

impl Array {
    /// Parses `.zarray` and `.zattrs` (`null` if there is none).
    ///
    /// # Errors
    /// Members that are missing or violate the Zarr v2 specification; unsupported data types.
    pub fn from_zarray(zarray: &Value, zattrs: &Value) -> Result<ArrayDocument, ReadError> {
        if get(zarray, "zarr_format").as_u64() != Some(2) {
            return Err(unexpected("zarr_format", "2", get(zarray, "zarr_format")));
        }
        let shape = sizes(zarray, "shape")?;
        let chunks = sizes(zarray, "chunks")?;
        if chunks.len() != shape.len() {
            return Err(unexpected("chunks", "as many sizes as the shape has", get(zarray, "chunks")));
        }
        let (data_type, endian) = data_type_from_v2(get(zarray, "dtype"), zarray)?;
        let codecs = codecs::from_v2(zarray, &data_type, endian, shape.len())?;
        let fill_value = match get(zarray, "fill_value") {
            Value::Null => None,
            value => Some(FillValue::from_json(value, &data_type)?),
        };
        let mut attributes = object(zattrs);
        let dimension_names = dimension_names(attributes.remove(ARRAY_DIMENSIONS).as_ref(), shape.len());
        let separator = match get(zarray, "dimension_separator").as_str() {
            None | Some(".") => '.',
            Some("/") => '/',
            Some(_) => {
                return Err(unexpected(
                    "dimension_separator",
                    "\".\" or \"/\"",
                    get(zarray, "dimension_separator"),
                ));
            }
        };
        let array = Self {
            shape,
            data_type,
            chunk_grid: ChunkGrid::Regular(chunks),
            fill_value,
            codecs,
            dimension_names,
            attributes,
            chunks: ChunkManifest::default(),
        };
        Ok(ArrayDocument { array, separator, starts_with_c: false })
    }

    /// Parses `zarr.json`.
    ///
    /// # Errors
    /// Members that are missing or violate the Zarr v3 specification; unsupported data types and grids.
    pub fn from_zarr_json(document: &Value) -> Result<ArrayDocument, ReadError> {
        if get(document, "node_type").as_str() != Some("array")
            || get(document, "zarr_format").as_u64() != Some(3)
        {
            return Err(unexpected("node_type", "an array of Zarr v3", get(document, "node_type")));
        }
        let shape = sizes(document, "shape")?;
        let data_type = data_type_from_v3(get(document, "data_type"))?;
        let codecs = codecs::from_v3(get(document, "codecs"), &data_type)?;
        let data_type = data_type.in_byte_order(Codec::endian_of(&codecs));
        let fill_value = FillValue::from_json(get(document, "fill_value"), &data_type)?;
        let dimension_names = dimension_names(document.get("dimension_names"), shape.len());
        let (separator, starts_with_c) = keys(get(document, "chunk_key_encoding"))?;
        let array = Self {
            chunk_grid: chunk_grid(get(document, "chunk_grid"), &shape)?,
            shape,
            data_type,
            fill_value: Some(fill_value),
            codecs,
            dimension_names,
            attributes: object(get(document, "attributes")),
            chunks: ChunkManifest::default(),
        };
        Ok(ArrayDocument { array, separator, starts_with_c })
    }
}

fn dimension_names(names: Option<&Value>, axes: usize) -> Vec<Option<String>> {
    let list = names.and_then(Value::as_array).filter(|list| list.len() == axes);
    list.map_or_else(
        || vec![None; axes],
        |list| list.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
    )
}

fn keys(encoding: &Value) -> Result<(char, bool), ReadError> {
    let refused = || unexpected("chunk_key_encoding", "default or v2", encoding);
    let name = encoding.get("name").or(Some(encoding)).and_then(Value::as_str);
    let separator = encoding.get("configuration").and_then(|it| it.get("separator")).and_then(Value::as_str);
    let (otherwise, starts_with_c) = match name {
        Some("default") => ('/', true),
        Some("v2") => ('.', false),
        _ => return Err(refused()),
    };
    match separator {
        None => Ok((otherwise, starts_with_c)),
        Some("/") => Ok(('/', starts_with_c)),
        Some(".") => Ok(('.', starts_with_c)),
        Some(_) => Err(refused()),
    }
}

fn chunk_grid(grid: &Value, shape: &[u64]) -> Result<ChunkGrid, ReadError> {
    let configuration = get(grid, "configuration");
    match grid.get("name").and_then(Value::as_str) {
        Some("regular") => {
            let chunks = sizes(configuration, "chunk_shape")?;
            match chunks.len() == shape.len() {
                true => Ok(ChunkGrid::Regular(chunks)),
                false => Err(unexpected("chunk_grid", "as many sizes as the shape has", grid)),
            }
        }
        Some("rectilinear") => {
            let axes = get(configuration, "chunk_shapes").as_array().filter(|axes| axes.len() == shape.len());
            let edges: Option<Vec<_>> = axes.and_then(|axes| {
                axes.iter().zip(shape).map(|(edges, size)| edge_lengths(edges, *size)).collect()
            });
            edges
                .map(ChunkGrid::Rectilinear)
                .ok_or_else(|| unexpected("chunk_grid", "edge lengths of each axis", grid))
        }
        _ => Err(unexpected("chunk_grid", "regular or rectilinear", grid)),
    }
}

/// Parses edge lengths, each alone or with a count. A single number stands for a regular axis of `size` elements.
fn edge_lengths(edges: &Value, size: u64) -> Option<Vec<u64>> {
    let mut lengths = Vec::new();
    let mut push = |length: u64, times: u64| {
        let all = times.checked_add(lengths.len() as u64).filter(|all| *all <= EDGES && length > 0)?;
        lengths.resize(usize::try_from(all).ok()?, length);
        Some(())
    };
    if let Some(length) = edges.as_u64() {
        push(length, size.div_ceil(length.max(1)))?;
    } else {
        for edge in edges.as_array()? {
            match (edge.as_u64(), edge.as_array().map(Vec::as_slice)) {
                (Some(length), _) => push(length, 1)?,
                (None, Some([length, times])) => push(length.as_u64()?, times.as_u64()?)?,
                _ => return None,
            }
        }
    }
    Some(lengths)
}

// Parsing of data types and scalars.

/// Greatest size of a fixed-length element, in bytes.
const LONGEST: u32 = 1 << 24;
/// Greatest depth of nested structures.
const DEPTH: usize = 16;

/// Parses `dtype` of a Zarr v2 array into type and byte order. The array's first filter determines the type of `|O`.
pub(crate) fn data_type_from_v2(dtype: &Value, zarray: &Value) -> Result<(DataType, Endian), ReadError> {
    if dtype.as_str() == Some("|O") {
        let filters = zarray.get("filters").and_then(Value::as_array);
        let first = filters.and_then(|filters| filters.first()?.get("id")?.as_str());
        return match first {
            Some("vlen-utf8") => Ok((DataType::String, Endian::Little)),
            Some("vlen-bytes") => Ok((DataType::VariableBytes, Endian::Little)),
            _ => Err(unexpected("dtype", "an object type with the filter vlen-utf8 or vlen-bytes", dtype)),
        };
    }
    numpy(dtype, DEPTH).ok_or_else(|| {
        unexpected("dtype", "a NumPy type of numbers, times, bytes, text or fields of these", dtype)
    })
}

fn numpy(dtype: &Value, depth: usize) -> Option<(DataType, Endian)> {
    if let Some(fields) = dtype.as_array() {
        let depth = depth.checked_sub(1)?;
        let fields: Option<Vec<Field>> = fields.iter().map(|field| numpy_field(field, depth)).collect();
        let structure = DataType::Struct(fields.filter(|fields| !fields.is_empty())?);
        let endian = structure.byte_orders_of(Endian::Little).first().copied();
        return Some((structure, endian.unwrap_or(Endian::Little)));
    }
    let text = dtype.as_str()?;
    let (order, rest) = text.split_at_checked(1)?;
    let endian = match order {
        "<" | "|" => Endian::Little,
        ">" => Endian::Big,
        _ => return None,
    };
    if let Some(unit) = rest.strip_prefix("M8") {
        return Some((DataType::DateTime(TimeUnit::from_numpy(unit)?), endian));
    }
    if let Some(unit) = rest.strip_prefix("m8") {
        return Some((DataType::TimeDelta(TimeUnit::from_numpy(unit)?), endian));
    }
    let (kind, size) = rest.split_at_checked(1)?;
    let size: u32 = size.parse().ok().filter(|size| *size <= LONGEST)?;
    let scalar = SCALARS.iter().find(|(.., known, bytes)| kind.starts_with(*known) && *bytes == size);
    let data_type = match (kind, size) {
        ("V", 1..) => DataType::RawBytes(size),
        ("S", 1..) => DataType::FixedBytes(size),
        ("U", 1..) if size <= LONGEST / 4 => DataType::FixedText(size),
        _ => scalar?.0.clone(),
    };
    Some((data_type, endian))
}

fn numpy_field(field: &Value, depth: usize) -> Option<Field> {
    let [name, dtype, shape @ ..] = field.as_array()?.as_slice() else { return None };
    let (data_type, endian) = numpy(dtype, depth)?;
    let shape = match shape {
        [] => Vec::new(),
        [shape] => shape.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
        _ => return None,
    };
    Some(Field { name: name.as_str()?.to_owned(), data_type, endian, shape })
}

/// Parses `data_type` of a Zarr v3 array.
pub(crate) fn data_type_from_v3(data_type: &Value) -> Result<DataType, ReadError> {
    v3(data_type, DEPTH).ok_or_else(|| {
        unexpected("data_type", "a data type of numbers, times, bytes, text or fields of these", data_type)
    })
}

fn v3(data_type: &Value, depth: usize) -> Option<DataType> {
    if let Some(name) = data_type.as_str() {
        return plain(name);
    }
    let configuration = data_type.get("configuration");
    let length = || {
        let length = configuration?.get("length_bytes")?.as_u64()?;
        u32::try_from(length).ok().filter(|length| (1..=LONGEST).contains(length))
    };
    let unit = || {
        let factor = configuration?.get("scale_factor")?.as_u64()?;
        TimeUnit::new(configuration?.get("unit")?.as_str()?, factor)
    };
    match data_type.get("name")?.as_str()? {
        "numpy.datetime64" => unit().map(DataType::DateTime),
        "numpy.timedelta64" => unit().map(DataType::TimeDelta),
        "raw_bytes" => length().map(DataType::RawBytes),
        "null_terminated_bytes" => length().map(DataType::FixedBytes),
        "fixed_length_utf32" => {
            length().filter(|length| length.is_multiple_of(4)).map(|length| DataType::FixedText(length / 4))
        }
        "struct" | "structured" => {
            let depth = depth.checked_sub(1)?;
            let fields = configuration?.get("fields")?.as_array()?;
            let fields: Option<Vec<Field>> = fields.iter().map(|field| v3_field(field, depth)).collect();
            Some(DataType::Struct(fields.filter(|fields| !fields.is_empty())?))
        }
        name if configuration.is_none() => plain(name),
        _ => None,
    }
}

fn plain(name: &str) -> Option<DataType> {
    match name {
        "string" => Some(DataType::String),
        "variable_length_bytes" | "bytes" => Some(DataType::VariableBytes),
        _ => {
            if let Some((scalar, ..)) = SCALARS.iter().find(|(_, known, ..)| *known == name) {
                return Some(scalar.clone());
            }
            let bits: u32 = name.strip_prefix('r')?.parse().ok()?;
            (bits.is_multiple_of(8) && (1..=LONGEST).contains(&(bits / 8)))
                .then_some(DataType::RawBytes(bits / 8))
        }
    }
}

fn v3_field(field: &Value, depth: usize) -> Option<Field> {
    let (name, data_type) = match field.as_array().map(Vec::as_slice) {
        Some([name, data_type]) => (name, data_type),
        Some(_) => return None,
        None => (field.get("name")?, field.get("data_type")?),
    };
    let data_type = v3(data_type, depth)?;
    Some(Field { name: name.as_str()?.to_owned(), data_type, endian: Endian::Little, shape: Vec::new() })
}

impl FillValue {
    /// Parses what [`FillValue::to_json`] writes.
    ///
    /// # Errors
    /// JSON that is not a scalar of the type.
    pub fn from_json(value: &Value, data_type: &DataType) -> Result<Self, ReadError> {
        let found = match data_type {
            DataType::String => {
                value.as_str().map(|text| Self::Text(text.to_owned())).or_else(|| zero(value, data_type))
            }
            DataType::VariableBytes => decode64(value).map(Self::Variable).or_else(|| zero(value, data_type)),
            _ => fixed(value, data_type).map(|bytes| Self::Fixed(bytes.into())),
        };
        found.ok_or_else(|| unexpected("fill_value", "a scalar of the array's type", value))
    }
}

/// Some tools write the number 0 as the fill value of every type.
fn zero(value: &Value, data_type: &DataType) -> Option<FillValue> {
    (value.as_u64() == Some(0)).then(|| FillValue::zero(data_type))
}

fn decode64(value: &Value) -> Option<Bytes> {
    BASE64_STANDARD.decode(value.as_str()?).ok().map(Bytes::from)
}

/// Parses an element of fixed size into its bytes, little-endian.
fn fixed(value: &Value, data_type: &DataType) -> Option<Vec<u8>> {
    if let Some(half) = complex_half(data_type) {
        let [real, imaginary] = value.as_array()?.as_slice() else { return None };
        let (real, imaginary) = (fixed(real, &half)?, fixed(imaginary, &half)?);
        return Some([real, imaginary].concat());
    }
    let size = usize::try_from(data_type.size()?).ok()?;
    let of = |fill: Option<FillValue>| match fill {
        Some(FillValue::Fixed(bytes)) => Some(bytes.to_vec()),
        _ => None,
    };
    match data_type {
        DataType::Bool => match value {
            Value::Bool(value) => Some(vec![u8::from(*value)]),
            number => number.as_u64().filter(|number| *number <= 1).map(|number| vec![u8::from(number == 1)]),
        },
        integer if integer.is_integer() => {
            let whole =
                || value.as_f64().filter(|number| number.trunc() == *number && number.abs() < 2f64.powi(53));
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
            let number = value
                .as_i64()
                .map(i128::from)
                .or_else(|| value.as_u64().map(i128::from))
                .or_else(|| whole().map(|n| n as i128))?;
            of(FillValue::from_i128(integer, number).exact())
        }
        DataType::DateTime(_) | DataType::TimeDelta(_) => {
            if value == "NaT" {
                return of(Some(FillValue::zero(data_type)));
            }
            fixed(value, &DataType::Int64)
        }
        float if float.is_float() => float_bytes(value, float, size),
        DataType::Struct(fields) if value.is_object() => {
            let parts: Option<Vec<_>> =
                fields.iter().map(|field| fixed(value.get(&field.name)?, &field.data_type)).collect();
            Some(parts?.concat()).filter(|bytes| bytes.len() == size)
        }
        _ if value.as_u64() == Some(0) => Some(vec![0; size]),
        DataType::FixedText(_) => {
            // NumPy truncates longer text.
            let text = value.as_str()?.chars().flat_map(|code_point| u32::from(code_point).to_le_bytes());
            Some(text.chain(std::iter::repeat(0)).take(size).collect())
        }
        other => {
            // NumPy strips NULs from the end of a byte string.
            let mut bytes = decode64(value)?.to_vec();
            if bytes.len() > size || (bytes.len() < size && !matches!(other, DataType::FixedBytes(_))) {
                return None;
            }
            bytes.resize(size, 0);
            in_byte_order(&bytes, other, Endian::Little)
        }
    }
}

fn float_bytes(value: &Value, data_type: &DataType, size: usize) -> Option<Vec<u8>> {
    let number = match value {
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            hexadecimal => return hex(hexadecimal, size),
        },
        number => number.as_f64()?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounds to nearest, as every reader of the document does"
    )]
    Some(match data_type {
        _ if number.is_nan() => match FillValue::from_f64(data_type, number).value()? {
            FillValue::Fixed(bytes) => bytes.to_vec(),
            _ => return None,
        },
        DataType::Float16 => f16::from_f64(number).to_le_bytes().to_vec(),
        DataType::Float32 => (number as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    })
}

/// Parses `0x…`, the bits of a number.
fn hex(text: &str, size: usize) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2 * size)?;
    let bits = u64::from_str_radix(digits, 16).ok()?;
    bits.to_le_bytes().get(..size).map(<[u8]>::to_vec)
}

// The error of parsing metadata documents.

/// A document that does not describe an array or group, or one that the model cannot represent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{member}: expected {expected}, found {found}")]
pub struct ReadError {
    /// The member of the document, such as `chunks`.
    pub member: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// What was found, shortened.
    pub found: String,
}

/// Creates an error with what was found, shortened.
pub(crate) fn unexpected(member: &'static str, expected: &'static str, found: &Value) -> ReadError {
    let mut text = found.to_string();
    if let Some((at, _)) = text.char_indices().nth(80) {
        text.truncate(at);
        text.push('…');
    }
    ReadError { member, expected, found: text }
}
