//! Whole arrays, decoded.

use bytes::Bytes;
use virtualize_zarr::DataType;

/// All values of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayValues {
    /// Size along each axis, in elements, slowest first.
    pub shape: Vec<u64>,
    /// Type of an element.
    pub data_type: DataType,
    /// Elements in row-major order and in little-endian byte order.
    pub bytes: Bytes,
}
