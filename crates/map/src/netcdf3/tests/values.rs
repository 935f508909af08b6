use crate::netcdf3::*;

/// `netCDF4.default_fillvals` of netCDF4-python 1.7, as bytes of NumPy.
#[test]
fn default_fill_values_are_those_of_netcdf_c() {
    let bytes = |stored| match netcdf_default_fill(&data_type(stored)) {
        Some((_, FillValue::Fixed(bytes))) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(bytes(Stored::Float), [0, 0, 0xf0, 0x7c]);
    assert_eq!(bytes(Stored::Double), [0, 0, 0, 0, 0, 0, 0x9e, 0x47]);
    assert_eq!(bytes(Stored::Byte), (-127_i8).to_le_bytes());
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
