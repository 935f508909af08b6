//! Whole arrays, decoded.

mod chunk;
mod fetch;
mod lay;
mod variable;

use std::{collections::BTreeMap, fmt::Write as _};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use virtualize_store::StoreOptions;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, Codec, DataType, Endian, Field, FillValue, in_byte_order,
};

pub use self::chunk::{chunk_size, decode_chunk};
use self::{fetch::fetch, lay::Grid, variable::Variable};
use crate::{Error, VirtualStore, decode};

/// Most bytes of an array that [`read_array`] reads.
pub const MOST_BYTES: u64 = 256 << 20;

/// All values of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayValues {
    /// Size along each axis, in elements, slowest first.
    pub shape: Vec<u64>,
    /// Type of an element; fields of structures are little-endian.
    pub data_type: DataType,
    /// Elements in row-major order and in little-endian byte order. Those of variable length, text in UTF-8 and byte
    /// strings, have their length in bytes before them, as 4 bytes little-endian.
    pub bytes: Bytes,
}

impl ArrayValues {
    /// The values of an array that [`read_array`] gave as `bytes` before.
    pub fn of_array(array: &Array, bytes: Bytes) -> Self {
        Self { shape: array.shape.clone(), data_type: little(&array.data_type), bytes }
    }
}

/// Reads and decodes all chunks of an array: those in the file that is open, in other files, which are opened, and those
/// that are inline. A missing chunk reads as the fill value, or as zero where there is none.
///
/// # Errors
/// [`Error::Values`]: there is no such array, it has more than [`MOST_BYTES`], or a chunk is damaged, has a codec that is
/// not decoded here (of images), or lies in a file that has changed; [`Error::Store`], [`Error::Read`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { futures::executor::block_on(async {
/// use virtualize::{Options, open, read_array};
///
/// let options = Options::default();
/// # std::env::set_current_dir("../..")?;
/// let store = open("fixtures/hdf5/netcdf4.nc", &options).await?;
/// let time = read_array(&store, "time", &options.store).await?;
/// assert_eq!((time.shape, time.data_type.to_string()), (vec![3], "float64".to_owned()));
/// assert_eq!(time.bytes.as_ref(), [0.0_f64, 1.0, 2.0].map(f64::to_le_bytes).concat());
/// # Ok(()) }) }
/// ```
pub async fn read_array(
    store: &VirtualStore,
    path: &str,
    options: &StoreOptions,
) -> Result<ArrayValues, Error> {
    read_array_within(store, path, MOST_BYTES, options).await
}

/// As [`read_array`], with another limit: most bytes of the array, of its stored chunks together, and of one chunk.
///
/// # Errors
/// As [`read_array`].
pub async fn read_array_within(
    store: &VirtualStore,
    path: &str,
    most: u64,
    options: &StoreOptions,
) -> Result<ArrayValues, Error> {
    let failed =
        |reason: String| Error::Values { name: store.name().to_owned(), path: path.to_owned(), reason };
    let array = store.hierarchy.array(path).ok_or_else(|| failed("there is no such array".to_owned()))?;
    let grid = Grid::of(array, most).map_err(failed)?;
    let fetched = fetch(store, array, most, options).await.map_err(|error| error.of(failed))?;
    let chunks = array.chunks.iter().map(|(position, entry)| {
        let bytes = match entry {
            ChunkEntry::Inline(bytes) => Some(bytes),
            ChunkEntry::Reference(_) => fetched.get(&position),
        };
        (position, bytes)
    });
    let bytes = match array.data_type {
        DataType::String | DataType::VariableBytes => variable_values(array, &grid, most, chunks),
        _ => fixed_values(array, &grid, most, chunks),
    };
    Ok(ArrayValues {
        shape: array.shape.clone(),
        data_type: little(&array.data_type),
        bytes: bytes.map_err(failed)?.into(),
    })
}

/// What references of an array lead to, by position; at most `most` bytes.
pub(crate) async fn fetch_chunks(
    store: &VirtualStore,
    array: &Array,
    most: u64,
    options: &StoreOptions,
) -> Result<BTreeMap<u64, Bytes>, String> {
    fetch(store, array, most, options).await.map_err(fetch::Failure::into_reason)
}

/// SHA-256 of type, shape and bytes, in hexadecimal. NaNs count by their bits.
pub fn digest(values: &ArrayValues) -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("{}\n{:?}\n", spelled(&values.data_type), values.shape));
    hasher.update(&values.bytes);
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A position, and the bytes that are there.
type Chunk<'a> = (u64, Option<&'a Bytes>);

fn fixed_values<'a>(
    array: &Array,
    grid: &Grid,
    most: u64,
    chunks: impl Iterator<Item = Chunk<'a>>,
) -> Result<Vec<u8>, String> {
    let mut whole = grid.filled(&background(array)?)?;
    for (position, bytes) in chunks {
        let wrong = |reason: String| grid.wrong(position, &reason);
        let shape = grid.chunk(array, position, most)?;
        let bytes = bytes.ok_or_else(|| wrong("it was not read".to_owned()))?;
        let elements = decode::elements(array, &shape, bytes).map_err(|error| wrong(error.to_string()))?;
        let turned = match array.endian() {
            Endian::Little if !matches!(array.data_type, DataType::Struct(_)) => elements,
            endian => in_byte_order(&elements, &array.data_type, endian)
                .ok_or_else(|| wrong("its byte order cannot be changed".to_owned()))?,
        };
        grid.lay(&mut whole, position, &shape, &turned)?;
    }
    Ok(whole)
}

fn variable_values<'a>(
    array: &Array,
    grid: &Grid,
    most: u64,
    chunks: impl Iterator<Item = Chunk<'a>>,
) -> Result<Vec<u8>, String> {
    let mut elements = Variable::new(array.fill_value.as_ref(), most);
    let mut whole = grid.filled(&0_u64.to_le_bytes())?;
    for (position, bytes) in chunks {
        let wrong = |reason: String| grid.wrong(position, &reason);
        let shape = grid.chunk(array, position, most)?;
        let bytes = bytes.ok_or_else(|| wrong("it was not read".to_owned()))?;
        let numbers = elements.chunk(array, &shape, bytes).map_err(wrong)?;
        grid.lay(&mut whole, position, &shape, &numbers)?;
    }
    elements.joined(&whole)
}

/// The little-endian bytes of a missing element.
fn background(array: &Array) -> Result<Vec<u8>, String> {
    let zero = || FillValue::zero(&array.data_type);
    match array.fill_value.clone().unwrap_or_else(zero) {
        FillValue::Fixed(bytes) if array.data_type.size() == Some(bytes.len() as u64) => Ok(bytes.to_vec()),
        _ => Err("its fill value is no element of its type".to_owned()),
    }
}

/// The type with all numbers in little-endian byte order.
fn little(data_type: &DataType) -> DataType {
    let DataType::Struct(fields) = data_type else { return data_type.clone() };
    let turned = |field: &Field| Field {
        data_type: little(&field.data_type),
        endian: Endian::Little,
        ..field.clone()
    };
    DataType::Struct(fields.iter().map(turned).collect())
}

/// A type in words that stay the same.
fn spelled(data_type: &DataType) -> String {
    let DataType::Struct(fields) = data_type else { return data_type.to_string() };
    let field = |field: &Field| format!("{:?}: {} {:?}", field.name, spelled(&field.data_type), field.shape);
    format!("struct {{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
}

/// Moves of axes that come first in a chain, as one: axis `i` of stored elements is axis `order[i]` of the array.
pub(crate) fn stored_order(codecs: &[Codec], rank: usize) -> Result<Vec<usize>, String> {
    let mut whole: Vec<usize> = (0..rank).collect();
    let mut is_first = true;
    for codec in codecs {
        match codec {
            Codec::Transpose { order } if is_first => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..rank) {
                    return Err(format!("transpose: {order:?} is no order of {rank} axes"));
                }
                whole = order.iter().filter_map(|axis| whole.get(*axis).copied()).collect();
            }
            Codec::Transpose { .. } => return Err("transpose behind another codec".to_owned()),
            arithmetic => is_first &= arithmetic.is_arithmetic(),
        }
    }
    Ok(whole)
}

/// Whether a grid has as many axes as the array.
fn rank_of(grid: &ChunkGrid) -> usize {
    match grid {
        ChunkGrid::Regular(chunk) => chunk.len(),
        ChunkGrid::Rectilinear(edges) => edges.len(),
    }
}

#[cfg(test)]
mod tests;
