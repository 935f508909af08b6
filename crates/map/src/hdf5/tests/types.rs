//! Data types: what they map to, and how their elements are converted. Expected values: h5py 3.16 and NumPy 2.5 on such types,
//! unless stated otherwise.

use virtualize_hdf5::model::{ByteOrder, CharacterSet, Datatype, Float, Integer, Member, StringPadding};
use virtualize_zarr::{DataType, Endian, ZarrFormat};

use super::{compound, float32, int};
use crate::hdf5::attributes::flags;
use crate::hdf5::datatype::{ElementType, element_type, has_times, is_boolean, numpy_time};

fn v3(datatype: &Datatype) -> Option<ElementType> {
    element_type(datatype, ZarrFormat::V3).ok()
}

fn integer(size: u32, order: ByteOrder, bit_offset: u16, precision: u16) -> Datatype {
    Datatype::Integer(Integer { size, order, signed: true, bit_offset, precision })
}

fn string(size: u32, padding: StringPadding) -> Datatype {
    Datatype::String { size, padding, charset: CharacterSet::Ascii }
}

fn opaque(size: u32, tag: &str) -> Datatype {
    Datatype::Opaque { size, tag: tag.to_owned() }
}

#[test]
fn invalid_types_are_refused() {
    let Datatype::Float(float) = float32(ByteOrder::Little) else { panic!() };
    let float = |change: fn(&mut Float)| {
        let mut float = float;
        change(&mut float);
        Datatype::Float(float)
    };
    let f4 = || float32(ByteOrder::Little);
    let rows = [
        (opaque(1 << 20, ""), true),
        (opaque((1 << 20) + 1, ""), false),
        (opaque(0, ""), false),
        (string(0, StringPadding::NullPadded), false),
        (integer(1, ByteOrder::Vax, 0, 8), true),
        (integer(2, ByteOrder::Vax, 0, 16), false),
        (integer(4, ByteOrder::Little, 0, 0), false),
        (integer(4, ByteOrder::Little, 20, 12), true),
        (integer(4, ByteOrder::Little, 21, 12), false),
        (integer(3, ByteOrder::Little, 0, 24), true),
        (float(|float| float.exponent_bias = 100), true),
        (float(|float| (float.exponent_size, float.exponent_bias) = (0, 100)), false),
        (float(|float| (float.mantissa_size, float.exponent_bias) = (0, 100)), false),
        (float(|float| (float.exponent_size, float.exponent_bias) = (32, 100)), false),
        (Datatype::Array { base: Box::new(f4()), shape: vec![0] }, false),
        (Datatype::Array { base: Box::new(f4()), shape: vec![u64::MAX, 2] }, false),
        (Datatype::Time { size: 4, order: ByteOrder::Big }, true),
        (Datatype::Time { size: 2, order: ByteOrder::Big }, false),
        (compound(8, &[("a", 0, f4()), ("a", 4, f4())]), false),
        (compound(8, &[]), false),
        (compound(8, &[("a", 5, f4())]), false),
        (compound(8, &[("a", u32::MAX, f4())]), false),
    ];
    for (datatype, expected) in rows {
        assert_eq!(v3(&datatype).is_some(), expected, "{datatype:?}");
    }
}

#[test]
fn types_of_h5py() {
    let enumeration = |base: Datatype, values: [(&str, &[u8]); 2]| {
        let members = values.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).to_vec();
        Datatype::Enum { base: Box::new(base), members }
    };
    let big = || integer(2, ByteOrder::Big, 0, 16);
    let f4 = || float32(ByteOrder::Little);
    let two = |size, real, imaginary, name| compound(size, &[("r", real, f4()), (name, imaginary, f4())]);
    let array = |item: Datatype| Datatype::Array { base: Box::new(item), shape: vec![2] };
    let rows = [
        (enumeration(int(1, true), [("FALSE", &[0]), ("TRUE", &[1])]), DataType::Bool),
        (enumeration(int(2, true), [("TRUE", &[1, 0]), ("FALSE", &[0, 0])]), DataType::Bool),
        (enumeration(big(), [("FALSE", &[0, 0]), ("TRUE", &[0, 1])]), DataType::Bool),
        (enumeration(big(), [("FALSE", &[0, 0]), ("TRUE", &[1, 0])]), DataType::Int16),
        (enumeration(int(2, true), [("FALSE", &[0, 0]), ("TRUE", &[1, 1])]), DataType::Int16),
        (enumeration(int(1, true), [("FALSE", &[0]), ("TRUE", &[2])]), DataType::Int8),
        (enumeration(int(1, true), [("FALSE", &[1]), ("TRUE", &[1])]), DataType::Int8),
        (enumeration(int(1, true), [("NO", &[0]), ("TRUE", &[1])]), DataType::Int8),
        (two(8, 0, 4, "i"), DataType::Complex64),
        (two(12, 0, 8, "i"), DataType::Complex64),
        (two(8, 4, 0, "i"), DataType::Complex64),
        (opaque(8, "NUMPY:<M8[s]"), DataType::Int64),
        (opaque(4, "NUMPY:<M8[s]"), DataType::RawBytes(4)),
        (opaque(3, "NUMPY:|S3"), DataType::FixedBytes(3)),
        (opaque(3, "NUMPY:|S4"), DataType::RawBytes(3)),
        (string(1, StringPadding::NullTerminated), DataType::FixedBytes(1)),
        (array(f4()), DataType::Float32),
    ];
    for (datatype, expected) in rows {
        assert_eq!(v3(&datatype).map(|element| element.data_type), Some(expected), "{datatype:?}");
    }
    assert_eq!(v3(&array(array(f4()))).unwrap().axes, [2, 2]);
    for other in [two(8, 0, 4, "j"), compound(12, &[("r", 0, f4()), ("i", 4, int(8, true))])] {
        assert!(matches!(v3(&other).unwrap().data_type, DataType::Struct(_)), "{other:?}");
    }
}

/// Stored elements, and what they become.
#[test]
fn elements_are_converted_in_place() {
    let (f4_big, i2) = (|| float32(ByteOrder::Big), || int(2, true));
    let mixed = compound(6, &[("b", 0, f4_big()), ("a", 4, i2())]);
    let deep = compound(9, &[("a", 0, i2()), ("in", 3, mixed)]);
    let pair = compound(12, &[("r", 8, f4_big()), ("i", 0, f4_big())]);
    let both = compound(14, &[("a", 0, i2()), ("z", 2, pair.clone())]);
    let boolean = Datatype::Enum {
        base: Box::new(integer(2, ByteOrder::Big, 0, 16)),
        members: vec![("FALSE".to_owned(), vec![0, 0]), ("TRUE".to_owned(), vec![0, 1])],
    };
    let rows: [(Datatype, &[u8], &[u8]); 4] = [
        (deep, b"\x01\x02.\x3f\x80\x00\x00\x05\x06", b"\x01\x02\x00\x00\x80\x3f\x05\x06"),
        (pair, b"\x01\x02\x03\x04....\x05\x06\x07\x08", b"\x05\x06\x07\x08\x01\x02\x03\x04"),
        (both, b"\x09\x0a\x01\x02\x03\x04....\x05\x06\x07\x08", b"\x09\x0a\x08\x07\x06\x05\x04\x03\x02\x01"),
        (boolean, b"\x00\x01", b"\x01"),
    ];
    for (datatype, stored, expected) in rows {
        let element = v3(&datatype).unwrap();
        let size = usize::try_from(element.data_type.size().unwrap()).unwrap();
        assert_eq!(element.stored_size, datatype.size());
        assert_eq!(element.transform.apply(stored, size).as_deref(), Some(expected), "{datatype:?}");
    }
}

/// A member of each kind behind a gap, inside a member behind a gap.
#[test]
fn members_of_members_keep_their_values() {
    let narrow = Datatype::Integer(Integer {
        size: 2,
        order: ByteOrder::Big,
        signed: true,
        bit_offset: 4,
        precision: 12,
    });
    let inner = compound(8, &[("n", 1, narrow), ("s", 4, string(3, StringPadding::NullTerminated))]);
    let element = v3(&compound(12, &[("a", 1, int(2, true)), ("in", 4, inner)])).unwrap();
    // -2 in bits 4 to 15: 0xffe0. Text ends at its first NUL.
    let stored = [9, 1, 2, 9, 9, 0xff, 0xe9, 9, b'a', 0, b'b', 9];
    assert_eq!(element.transform.apply(&stored, 7), Some(vec![1, 2, 0xfe, 0xff, b'a', 0, 0]));
}

#[test]
fn times_of_numpy() {
    let units = |tag: &str| numpy_time(tag).map(|time| (time.units, time.duration));
    for (unit, name, duration) in [
        ("D", "days", "s"),
        ("h", "hours", "s"),
        ("m", "minutes", "s"),
        ("s", "seconds", "s"),
        ("ms", "milliseconds", "ms"),
        ("us", "microseconds", "us"),
        ("ns", "nanoseconds", "ns"),
    ] {
        let since = format!("{name} since 1970-01-01");
        assert_eq!(units(&format!("NUMPY:<M8[{unit}]")), Some((since, None)));
        let duration = format!("timedelta64[{duration}]");
        assert_eq!(units(&format!("NUMPY:>m8[{unit}]")), Some((name.to_owned(), Some(duration))));
    }
    let element = v3(&opaque(8, "NUMPY:>M8[s]")).unwrap();
    assert_eq!(
        (element.endian, v3(&opaque(8, "NUMPY:<M8[s]")).unwrap().endian),
        (Endian::Big, Endian::Little)
    );
    for other in ["NUMPY:|M8[s]", "NUMPY:<M8[Y]", "M8[s]", "NUMPY:"] {
        assert_eq!(units(other), None, "{other}");
    }
    let time = || Datatype::Time { size: 8, order: ByteOrder::Little };
    let member = vec![Member { name: "t".to_owned(), offset: 0, datatype: time() }];
    for (datatype, expected) in [
        (time(), true),
        (Datatype::Compound { size: 8, members: member }, true),
        (Datatype::Array { base: Box::new(time()), shape: vec![2] }, true),
        (Datatype::Sequence { size: 16, base: Box::new(time()) }, true),
        (int(8, true), false),
    ] {
        assert_eq!(has_times(&datatype), expected, "{datatype:?}");
    }
    // PyTables: 1.5 s before the epoch.
    for (order, stored) in [
        (ByteOrder::Little, (-2_i64 << 32 | 500_000).to_le_bytes()),
        (ByteOrder::Big, (-2_i64 << 32 | 500_000).to_be_bytes()),
    ] {
        let element = v3(&Datatype::Time { size: 8, order }).unwrap();
        let expected =
            if order == ByteOrder::Big { (-1.5_f64).to_be_bytes() } else { (-1.5_f64).to_le_bytes() };
        assert_eq!(element.transform.apply(&stored, 8).as_deref(), Some(&expected[..]));
        assert_eq!(element.data_type, DataType::Float64);
    }
}

/// CF conventions, section 3.5: `flag_values` and `flag_meanings`, names separated by blanks.
#[test]
fn flags_of_enumerations() {
    type Members<'a> = &'a [(&'a str, &'a [u8])];
    let found = |base: Datatype, members: Members<'_>| {
        let members = members.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        let found = flags(&Datatype::Enum { base: Box::new(base), members });
        found.map(|[values, meanings]| format!("{} {}", values.1, meanings.1))
    };
    let big = || integer(2, ByteOrder::Big, 0, 16);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found(int(1, true), &[("a", &[0]), ("b", &[0xff])]), some("[0,-1] \"a b\""));
    assert_eq!(found(int(2, false), &[("a", &[1, 2]), ("b", &[0xff, 0xff])]), some("[513,65535] \"a b\""));
    assert_eq!(found(big(), &[("a", &[1, 2]), ("b", &[0xff, 0xfe])]), some("[258,-2] \"a b\""));
    assert_eq!(
        found(int(8, true), &[("a", &[1, 0, 0, 0, 0, 0, 0, 0x80])]),
        some("[-9223372036854775807] \"a\"")
    );
    assert_eq!(found(int(1, true), &[("a b", &[0]), ("", &[1])]), some("[0,1] \"a_b _\""));
    let none: [(Datatype, Members<'_>); 4] = [
        (int(1, true), &[]),
        (int(1, true), &[("FALSE", &[0]), ("TRUE", &[1])]),
        (int(1, true), &[("a", &[])]),
        (int(9, true), &[("a", &[0; 9])]),
    ];
    for (base, members) in none {
        assert_eq!(found(base, members), None, "{members:?}");
    }
    assert!(!is_boolean(&float32(ByteOrder::Little), &[]));
}
