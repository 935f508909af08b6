//! Reads and decodes whole arrays.

mod axis;
mod batches;
mod elements;
mod fetch;
mod place;
mod plan;
mod queue;
mod reader;
mod remote;
mod run;
mod slabs;
mod variable;

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use virtualize_store::StoreOptions;
use virtualize_zarr::{Array, DataType, Endian, Field};

pub use self::batches::{chunk_size, decode_chunk};
use self::elements::Elements;
pub(crate) use self::fetch::fetch;
use self::place::Place;
use self::plan::{Part, Plan};
pub use self::reader::{ArrayReader, ChunkAddress, ForeignDecoder};
use self::run::{Scratch, Work};
use self::variable::PlaceVariable;
use crate::decode;
use crate::error::ArrayError;
use crate::error::Error;
pub use crate::selection::{AxisSelection, Selection, SelectionError};
use crate::store::VirtualStore;

/// Default limit of [`read_array`] in bytes.
pub const MOST_BYTES: u64 = 256 << 20;

/// All values of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayValues {
    /// Size along each axis in elements, slowest axis first.
    pub shape: Vec<u64>,
    /// Type of an element. Fields of structures are little-endian.
    pub data_type: DataType,
    /// Elements in row-major order and little-endian byte order. Each element of variable length (UTF-8 text or a byte
    /// string) is preceded by its length in bytes, a little-endian 32-bit integer.
    pub bytes: Bytes,
}

impl ArrayValues {
    /// Creates the values of an array from `bytes` that [`read_array`] returned before.
    pub fn of_array(array: &Array, bytes: Bytes) -> Self {
        Self { shape: array.shape.clone(), data_type: little_endian(&array.data_type), bytes }
    }
}

/// Reads and decodes all chunks of an array: those of the open file, those of other files, which are opened, and
/// inline ones. A missing chunk reads as the fill value, or as zero if there is none.
///
/// # Errors
/// [`Error::Values`] if there is no such array, it has more than [`MOST_BYTES`], or a chunk is damaged, has a codec
/// without a decoder here (of images), or belongs to a file that has changed; [`Error::Store`], [`Error::Read`].
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

/// Reads an array as [`read_array`] does, with a different limit in bytes. The limit applies to the array, to its
/// stored chunks together, and to each chunk.
///
/// # Errors
/// As [`read_array`].
pub async fn read_array_within(
    store: &VirtualStore,
    path: &str,
    most: u64,
    options: &StoreOptions,
) -> Result<ArrayValues, Error> {
    let values = values_of(store, path, most, options).await;
    values.map_err(|error| Error::of_array(store.name(), path, error))
}

async fn values_of(
    store: &VirtualStore,
    path: &str,
    most: u64,
    options: &StoreOptions,
) -> Result<ArrayValues, ArrayError> {
    let array = store.hierarchy.array(path).ok_or(ArrayError::NoArray)?;
    let all = Selection::all(&array.shape);
    let plan = Plan::new(array, &all)?;
    within(array, &array.shape, most, "it")?;
    plan.check_positions()?;
    let fetched = fetch(store, array, most, options).await?;
    let bytes = match array.data_type.size() {
        Some(size) => {
            let length = all.check(&array.shape)?.saturating_mul(size);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            if length > 0 {
                let elements = Elements::new(array, most, None)?;
                place(&plan, &fetched, &Place::new(&plan, elements, all.lengths()?, &mut bytes)?)?;
            }
            bytes
        }
        None => {
            let work = PlaceVariable::new(&plan, all.lengths()?, most)?;
            place(&plan, &fetched, &work)?;
            joined(&work.into_elements(), most)?
        }
    };
    Ok(ArrayValues {
        shape: array.shape.clone(),
        data_type: little_endian(&array.data_type),
        bytes: bytes.into(),
    })
}

/// Places all chunks of an array.
fn place<'a>(
    plan: &'a Plan<'a>,
    fetched: &BTreeMap<u64, Bytes>,
    work: &impl Work<Part<'a>>,
) -> Result<(), ArrayError> {
    let mut scratch = Scratch::default();
    for part in plan.whole_parts() {
        let part = part?;
        let bytes = fetched.get(&part.position).map(AsRef::as_ref).unwrap_or_default();
        work.run(part, Ok(run::Bytes::Here(bytes)), &mut scratch)?;
    }
    Ok(())
}

/// Returns elements of variable length, each preceded by its length.
fn joined(elements: &[Bytes], most: u64) -> Result<Vec<u8>, ArrayError> {
    let mut joined = Vec::new();
    for element in elements {
        let length = u32::try_from(element.len()).map_err(|_| ArrayError::TextTooLarge(most))?;
        joined.extend_from_slice(&length.to_le_bytes());
        joined.extend_from_slice(element);
    }
    Ok(joined)
}

/// Checks that an array or chunk does not exceed the limit in bytes.
fn within(array: &Array, shape: &[u64], most: u64, what: &'static str) -> Result<(), ArrayError> {
    // Elements of variable length are counted as their lengths.
    let size = array.data_type.size().unwrap_or(8).max(1);
    let bytes = decode::count(shape).and_then(|count| count.checked_mul(size));
    match bytes {
        Some(bytes) if bytes <= most => Ok(()),
        Some(bytes) => Err(ArrayError::TooLarge { what, bytes, most }),
        None => {
            let (shape, data_type) = (shape.to_vec(), array.data_type.clone());
            Err(ArrayError::TooManyElements { what, shape, data_type })
        }
    }
}

/// Returns the SHA-256 of type, shape and bytes, in hexadecimal. NaNs differ if their bits do.
pub fn digest(values: &ArrayValues) -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("{}\n{:?}\n", type_name(&values.data_type), values.shape));
    hasher.update(&values.bytes);
    hex::encode(hasher.finalize())
}

/// Returns the type with all its numbers in little-endian byte order.
pub(crate) fn little_endian(data_type: &DataType) -> DataType {
    let DataType::Struct(fields) = data_type else { return data_type.clone() };
    let turned = |field: &Field| Field {
        data_type: little_endian(&field.data_type),
        endian: Endian::Little,
        ..field.clone()
    };
    DataType::Struct(fields.iter().map(turned).collect())
}

/// Returns the name of a type in digests. The name must never change.
fn type_name(data_type: &DataType) -> String {
    let DataType::Struct(fields) = data_type else { return data_type.to_string() };
    let field =
        |field: &Field| format!("{:?}: {} {:?}", field.name, type_name(&field.data_type), field.shape);
    format!("struct {{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
