//! Numbers and their types, and what of a signature can be reconciled.

use crate::compat::signature::Numbers;
use bytes::Bytes;
use serde_json::{Value, json};
use virtualize::ArrayValues;
use virtualize::zarr::{Codec, CodecKind, DataType, Endian, FillValue, ZarrFormat};

use super::{
    super::signature::{ArraySignature, Signature},
    array, layout, member,
};
use crate::Member;
use crate::compat::{roles::DimRole, signature::Stored};

/// What is known of numbers: times, sentinel, missing, whole, float.
fn facts(numbers: Option<Numbers>) -> Option<[bool; 5]> {
    numbers.map(|n| [n.are_times, n.has_sentinel, n.any_missing, n.are_whole, n.are_float])
}

fn numbers(data_type: DataType, attributes: Value, bytes: Vec<u8>, are_times: bool) -> Option<[bool; 5]> {
    let size = data_type.size().unwrap();
    let n = bytes.len() as u64 / size;
    let array = array(data_type.clone(), &[("x", n, n)], attributes);
    let values = ArrayValues { shape: vec![n], data_type, bytes: Bytes::from(bytes) };
    facts(Numbers::of(&array, &values, are_times, ZarrFormat::V3))
}

fn floats(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn ints(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Whole numbers up to 2^53 are exact as binary64; floats are whole if they have no fraction and are within 64 bits.
#[test]
fn numbers_have_types_that_hold_them() {
    let none = || json!({});
    let float = |values: &[f64], attributes| numbers(DataType::Float64, attributes, floats(values), false);
    let int = |values: &[i64], attributes| numbers(DataType::Int64, attributes, ints(values), true);
    assert_eq!(float(&[1.0, 2.0], none()), Some([false, false, false, true, true]));
    assert_eq!(float(&[1.5, 2.0], none()), Some([false, false, false, false, true]));
    assert_eq!(float(&[2.0, 1.5], none()), Some([false, false, false, false, true]));
    assert_eq!(float(&[2.0, 1e19], none()), Some([false, false, false, false, true]));
    assert_eq!(float(&[2.0, f64::NAN], none()), Some([false, false, true, true, true]));
    assert_eq!(float(&[2.0], json!({"_FillValue": 2.0})), Some([false, true, true, true, true]));
    assert_eq!(float(&[2.5, 3.0], json!({"missing_value": 2.5})), Some([false, true, true, true, true]));
    assert_eq!(int(&[1, 2], none()), Some([true, false, false, true, true]));
    assert_eq!(int(&[1, (1 << 53) + 1], none()), Some([true, false, false, true, false]));
    assert_eq!(int(&[(1 << 53) + 1, 1], none()), Some([true, false, false, true, false]));
    assert_eq!(int(&[1], json!({"_FillValue": 2})), Some([true, true, false, true, true]));
    // Packed numbers, and text.
    assert_eq!(int(&[1], json!({"scale_factor": 0.5})), None);
    assert_eq!(numbers(DataType::Bool, none(), vec![1], false), None);
    assert_eq!(numbers(DataType::FixedBytes(2), none(), vec![65, 0], false), None);
    let unsigned = numbers(DataType::UInt64, none(), u64::MAX.to_le_bytes().to_vec(), false);
    assert_eq!(unsigned, Some([false, false, false, false, false]));
}

#[test]
fn a_file_has_numbers_of_its_coordinates() {
    let of = |change: fn(&mut Member)| {
        let mut file = member(0, 2);
        change(&mut file);
        let found = Signature::of(&file, &layout()).numbers;
        found.into_iter().map(|(path, numbers)| (path, facts(Some(numbers)).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(of(|_| {}), [("time".to_owned(), [true, false, false, true, true])]);
    let metres = |file: &mut Member| {
        super::attribute(file, "time", "units", json!("m"));
        file.hierarchy.format = ZarrFormat::V2;
    };
    // In Zarr v2, the fill value (0 here) means "missing".
    assert_eq!(of(metres), [("time".to_owned(), [false, true, true, true, true])]);
    assert!(of(|file| file.values.clear()).is_empty());
    // An array that does not vary has no numbers to convert, though its values are known.
    let invariant = |file: &mut Member| {
        let time = file.values.remove("time").unwrap();
        file.values.insert("lat".to_owned(), time);
    };
    assert!(of(invariant).is_empty());
}

type Change = fn(&mut Signature);

/// What of a signature decides whether files are compatible, however they are stored.
#[test]
fn the_core_of_a_signature_is_what_nothing_reconciles() {
    let signature = || Signature::of(&member(0, 2), &layout());
    let array = |signature: &mut Signature, path: &str, change: fn(&mut ArraySignature)| {
        change(signature.arrays.get_mut(path).unwrap());
    };
    let own = signature();
    let equal: [(&str, Change); 4] = [
        ("chunks", |s| s.arrays.get_mut("t2m").unwrap().chunks = None),
        ("codecs", |s| s.arrays.get_mut("t2m").unwrap().codecs = None),
        ("storage", |s| s.stored.get_mut("t2m").unwrap().element = 7),
        ("type of numbers", |s| s.arrays.get_mut("time").unwrap().data_type = "float64".to_owned()),
    ];
    for (what, change) in equal {
        let mut other = signature();
        change(&mut other);
        assert_eq!(own.core_digest(), other.core_digest(), "{what}");
        assert_ne!(own.storage_digest(), other.storage_digest(), "{what}");
    }
    let different: [(&str, Change); 5] = [
        ("type of other arrays", |s| s.arrays.get_mut("t2m").unwrap().data_type = "int32".to_owned()),
        ("fill value of other arrays", |s| s.arrays.get_mut("t2m").unwrap().fill_value = json!(7)),
        ("roles", |s| s.stored.get_mut("t2m").unwrap().roles = vec![DimRole::Axis(1)]),
        ("groups", |s| drop(s.groups.insert("g".to_owned(), [("a".to_owned(), json!(1))].into()))),
        ("units of numbers", |s| s.arrays.get_mut("time").unwrap().attributes.clear()),
    ];
    for (what, change) in different {
        let mut other = signature();
        change(&mut other);
        assert_ne!(own.core_digest(), other.core_digest(), "{what}");
    }
    // What means "missing" may differ in times, not in other numbers.
    for are_times in [true, false] {
        let mut one = signature();
        one.numbers.get_mut("time").unwrap().are_times = are_times;
        let mut other = one.clone();
        array(&mut other, "time", |time| {
            time.fill_value = json!(-1);
            time.attributes.insert("missing_value".to_owned(), json!(-1));
        });
        assert_eq!(one.core_digest() == other.core_digest(), are_times);
    }
    assert_eq!(own.core_digest().len(), 64);
}

#[test]
fn optional_arrays_are_in_no_digest() {
    let (one, mut other) = (Signature::of(&member(0, 2), &layout()), Signature::of(&member(0, 2), &layout()));
    let array = other.arrays["t2m"].clone();
    other.optional.insert("w".to_owned(), array);
    let digests = |s: &Signature| [s.digest(), s.storage_digest(), s.core_digest()];
    assert_eq!(digests(&one), digests(&other));
}

fn signed(codecs: Option<&str>, chunks: Option<Vec<Value>>) -> ArraySignature {
    let file = array(DataType::Int16, &[("x", 4, 2), ("y", 4, 2)], json!({}));
    let codecs = codecs.map(|name| vec![name.to_owned()]);
    ArraySignature { codecs, chunks, ..ArraySignature::of(&file, &[], false) }
}

#[test]
fn arrays_that_are_stored_alike() {
    let chunks = |n: u64| Some(vec![json!(n), json!(2)]);
    let with = |array: ArraySignature| Signature {
        arrays: [("v".to_owned(), array)].into(),
        ..Signature::default()
    };
    let (one, same) = (with(signed(Some("a"), chunks(1))), with(signed(Some("a"), chunks(1))));
    let (codec, chunk) = (with(signed(Some("b"), chunks(1))), with(signed(Some("a"), chunks(2))));
    let alike = |all: &[&Signature]| Signature::is_stored_alike("v", all);
    assert!(alike(&[&one, &same]) && alike(&[&one]));
    for others in [[&codec, &one], [&one, &chunk], [&chunk, &codec], [&one, &Signature::default()]] {
        assert!(!alike(&[&one, others[0], others[1]]), "{others:?}");
    }
}

#[test]
fn storage_may_be_shared_if_codecs_agree_or_values_are_read() {
    let with = |codec: &str, is_read| {
        let file = array(DataType::Int16, &[("time", 4, 2)], json!({}));
        let codecs = vec![codec.to_owned()];
        let stored = Stored { is_read, ..Stored::of(&file, &[DimRole::Axis(0)], &layout(), codecs, &[4]) };
        Signature { stored: [("v".to_owned(), stored)].into(), ..Signature::default() }
    };
    for (one, other, expected) in [
        (with("a", false), with("a", false), true),
        (with("a", true), with("a", false), true),
        (with("a", true), with("b", true), true),
        (with("a", true), with("b", false), false),
        (with("a", false), with("b", true), false),
        (with("a", false), Signature::default(), false),
        (Signature::default(), Signature::default(), true),
    ] {
        assert_eq!(one.may_share_storage(&other), expected);
    }
}

/// What is reported of a set whose files differ in storage.
#[test]
fn what_differs_in_an_era_is_arbitrary() {
    let chunks = |sizes: [u64; 2]| Some(sizes.map(Value::from).into());
    let mut one = signed(Some("a"), chunks([1, 2]));
    let mut other = signed(Some("a"), chunks([3, 2]));
    one.merge(&other);
    assert_eq!(one, signed(Some("a"), Some(vec![Value::Null, json!(2)])));
    other.data_type = "float32".to_owned();
    other.codecs = Some(vec!["b".to_owned()]);
    for _ in 0..2 {
        one.merge(&other);
        assert_eq!((one.data_type.as_str(), &one.codecs), ("int16 or float32", &None));
    }
    one.merge(&signed(None, None));
    assert_eq!(one.data_type, "int16 or float32");
    assert_eq!(one.chunks, Some(vec![Value::Null, json!(2)]));
    let mut same = signed(Some("a"), chunks([1, 2]));
    same.merge(&signed(Some("a"), chunks([1, 2])));
    assert_eq!(same, signed(Some("a"), chunks([1, 2])));
}

#[test]
fn what_means_missing() {
    let attributes = json!({"_FillValue": 1, "missing_value": [2], "units": "K"});
    let mut file = array(DataType::Int16, &[("x", 4, 2)], attributes);
    file.fill_value = Some(FillValue::from_i128(&DataType::Int16, 3).exact().unwrap());
    let mut signed = ArraySignature::of(&file, &[], false);
    assert_eq!(signed.missing(), (&json!(3), vec![&json!(1), &json!([2])]));
    signed.forget_missing();
    assert_eq!(signed.missing(), (&Value::Null, vec![]));
    assert_eq!(signed.attributes, [("units".to_owned(), json!("K"))].into());
}

/// Codecs as they are compared, and shown to people.
#[test]
fn codecs_are_spelled_without_what_only_an_encoder_needs() {
    let little = Codec::Bytes { endian: Some(Endian::Little) };
    let of = |data_type, codecs| {
        let mut file = array(data_type, &[("x", 4, 2)], json!({}));
        file.codecs = codecs;
        super::super::signature::codecs(&file).join(", ")
    };
    let transpose = Codec::Transpose { order: vec![1, 0] };
    let delta = Codec::Delta { axis: -1, dtype: "<i2".to_owned(), shape: vec![1, 2] };
    let foreign = |entry| Codec::Foreign { entry, format: ZarrFormat::V3, kind: CodecKind::BytesToBytes };
    let structure = DataType::Struct(vec![]);
    let cases = [
        (
            DataType::Int16,
            vec![little.clone(), Codec::Zstd { level: 3, checksum: true }],
            "bytes (little-endian), zstd",
        ),
        (DataType::Int16, vec![Codec::Bytes { endian: Some(Endian::Big) }], "bytes (big-endian)"),
        (DataType::Int16, vec![Codec::Bytes { endian: None }], "bytes"),
        // A single byte has no order; numbers in a structure have.
        (DataType::UInt8, vec![little.clone()], "bytes"),
        (DataType::FixedBytes(7), vec![Codec::Bytes { endian: Some(Endian::Big) }], "bytes"),
        (structure, vec![little.clone()], "bytes (little-endian)"),
        (
            DataType::Int16,
            vec![transpose, little.clone()],
            "transpose {\"order\":[1,0]}, bytes (little-endian)",
        ),
        (DataType::String, vec![Codec::VlenUtf8], "vlen-utf8"),
        // No configuration, and an empty one.
        (DataType::Int16, vec![foreign(json!({"name": "own"}))], "own"),
        (DataType::Int16, vec![foreign(json!({"name": "own", "configuration": {}}))], "own"),
        (DataType::Int16, vec![delta], "imagecodecs_delta {\"axis\":-1,\"dist\":1}"),
    ];
    for (data_type, codecs, expected) in cases {
        assert_eq!(of(data_type, codecs), expected);
    }
}
