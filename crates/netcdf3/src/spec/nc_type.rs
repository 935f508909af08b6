//! External data types.
//!
//! ```text
//! nc_type = NC_BYTE | NC_CHAR | NC_SHORT | NC_INT | NC_FLOAT | NC_DOUBLE
//!         | NC_UBYTE | NC_USHORT | NC_UINT | NC_INT64 | NC_UINT64 (CDF-5)
//! ```

use super::reader::{Reader, Result};
use crate::model::DataType;

/// Reads a type. Like netCDF-C, accepts those of CDF-5 in every version.
pub(crate) fn nc_type(reader: &mut Reader<'_>) -> Result<DataType> {
    Ok(match reader.u32()? {
        1 => DataType::Byte,
        2 => DataType::Char,
        3 => DataType::Short,
        4 => DataType::Int,
        5 => DataType::Float,
        6 => DataType::Double,
        7 => DataType::UByte,
        8 => DataType::UShort,
        9 => DataType::UInt,
        10 => DataType::Int64,
        11 => DataType::UInt64,
        other => return Err(reader.malformed(format!("nc_type {other}, expected 1 to 11"))),
    })
}
