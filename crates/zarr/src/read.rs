//! Parsing of metadata documents, written here ([`Array::to_zarray`], [`Array::to_zarr_json`]) or by other tools.

use serde_json::{Map, Value};

use crate::{
    Array, ChunkGrid, ChunkManifest, Codec, FillValue, Group, ZarrFormat, codecs,
    metadata::ARRAY_DIMENSIONS,
    parse,
    read_error::{ReadError, unexpected},
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
fn sizes(document: &Value, member: &'static str) -> Result<Vec<u64>, ReadError> {
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
        let (data_type, endian) = parse::data_type_from_v2(get(zarray, "dtype"), zarray)?;
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
        let data_type = parse::data_type_from_v3(get(document, "data_type"))?;
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
