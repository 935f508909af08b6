//! Data types, and their values as other types need them.

use bytes::Bytes;
use virtualize_netcdf3::model::DataType as Stored;
use virtualize_zarr::{DataType, FillValue};

use crate::cf::CfValue;

/// Returns the Zarr data type. Characters are byte strings of length 1, as h5py shows those of NetCDF-4.
pub(super) fn data_type(stored: Stored) -> DataType {
    match stored {
        Stored::Byte => DataType::Int8,
        Stored::Char => DataType::FixedBytes(1),
        Stored::Short => DataType::Int16,
        Stored::Int => DataType::Int32,
        Stored::Float => DataType::Float32,
        Stored::Double => DataType::Float64,
        Stored::UByte => DataType::UInt8,
        Stored::UShort => DataType::UInt16,
        Stored::UInt => DataType::UInt32,
        Stored::Int64 => DataType::Int64,
        Stored::UInt64 => DataType::UInt64,
    }
}

/// Returns the name and value of netCDF's default fill value (`netcdf.h`).
pub(super) fn default_fill(stored: Stored) -> (&'static str, FillValue) {
    const FLOAT: f32 = 9.969_21e36;
    let (name, bytes): (_, Vec<u8>) = match stored {
        Stored::Byte => ("NC_FILL_BYTE", vec![0x81]),
        Stored::Char => ("NC_FILL_CHAR", vec![0]),
        Stored::Short => ("NC_FILL_SHORT", (-32_767_i16).to_le_bytes().into()),
        Stored::Int => ("NC_FILL_INT", (-2_147_483_647_i32).to_le_bytes().into()),
        Stored::Float => ("NC_FILL_FLOAT", FLOAT.to_le_bytes().into()),
        Stored::Double => ("NC_FILL_DOUBLE", f64::from(FLOAT).to_le_bytes().into()),
        Stored::UByte => ("NC_FILL_UBYTE", vec![u8::MAX]),
        Stored::UShort => ("NC_FILL_USHORT", u16::MAX.to_le_bytes().into()),
        Stored::UInt => ("NC_FILL_UINT", u32::MAX.to_le_bytes().into()),
        Stored::Int64 => ("NC_FILL_INT64", (-9_223_372_036_854_775_806_i64).to_le_bytes().into()),
        Stored::UInt64 => ("NC_FILL_UINT64", (u64::MAX - 1).to_le_bytes().into()),
    };
    (name, FillValue::Fixed(Bytes::from(bytes)))
}

/// Returns stored values, which are big-endian, in little-endian byte order.
pub(super) fn little_endian(stored: Stored, values: &[u8]) -> Vec<u8> {
    let size = usize::try_from(stored.size()).unwrap_or(1).max(1);
    values.chunks_exact(size).flat_map(|value| value.iter().rev()).copied().collect()
}

/// Decodes the values of an attribute. Characters are one text, whose NULs netCDF4-python drops.
pub(super) fn values(stored: Stored, values: &[u8]) -> Vec<CfValue> {
    if stored == Stored::Char {
        return vec![CfValue::Text(text(values))];
    }
    let data_type = data_type(stored);
    let size = usize::try_from(stored.size()).unwrap_or(1).max(1);
    let value = |bytes: &[u8]| {
        let little = FillValue::Fixed(bytes.iter().rev().copied().collect());
        match data_type.is_float() {
            true => little.to_f64(&data_type).map(CfValue::Float),
            false => little.to_i128(&data_type).map(CfValue::Integer),
        }
    };
    values.chunks_exact(size).filter_map(value).collect()
}

/// Returns text as netCDF4-python does: without NULs, and with U+FFFD for what is not UTF-8.
pub(super) fn text(values: &[u8]) -> String {
    String::from_utf8_lossy(values).replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `netCDF4.default_fillvals` of netCDF4-python 1.7, as bytes of NumPy.
    #[test]
    fn default_fill_values_are_those_of_netcdf_c() {
        let bytes = |stored| match default_fill(stored).1 {
            FillValue::Fixed(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes(Stored::Float), [0, 0, 0xf0, 0x7c]);
        assert_eq!(bytes(Stored::Double), [0, 0, 0, 0, 0, 0, 0x9e, 0x47]);
        assert_eq!(bytes(Stored::Byte), (-127_i8).to_le_bytes());
        assert_eq!(bytes(Stored::Char), [0]);
        assert_eq!(bytes(Stored::Short), (-32_767_i16).to_le_bytes());
        assert_eq!(bytes(Stored::Int), (-2_147_483_647_i32).to_le_bytes());
        assert_eq!(bytes(Stored::Int64), (-9_223_372_036_854_775_806_i64).to_le_bytes());
        assert_eq!(bytes(Stored::UByte), [255]);
        assert_eq!(bytes(Stored::UShort), [255; 2]);
        assert_eq!(bytes(Stored::UInt), [255; 4]);
        assert_eq!(bytes(Stored::UInt64), 18_446_744_073_709_551_614_u64.to_le_bytes());
    }

    #[test]
    fn values_are_big_endian() {
        assert_eq!(values(Stored::Short, &[0xff, 0xfe, 0, 1]), [CfValue::Integer(-2), CfValue::Integer(1)]);
        assert_eq!(values(Stored::UByte, &[0xff]), [CfValue::Integer(255)]);
        assert_eq!(values(Stored::Float, &[0x3f, 0, 0, 0]), [CfValue::Float(0.5)]);
        assert_eq!(values(Stored::Char, b"a\0b\0\0"), [CfValue::Text("ab".to_owned())]);
        assert_eq!(little_endian(Stored::Short, &[1, 2, 3, 4]), [2, 1, 4, 3]);
        assert_eq!(text(b"\xff\xe9 \xc3\xbc"), "\u{fffd}\u{fffd} \u{fc}");
    }
}
