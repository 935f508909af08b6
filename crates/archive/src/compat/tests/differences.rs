//! The differences reported between signatures.

use crate::compat::signature::Numbers;
use serde_json::{Value, json};
use virtualize::zarr::DataType;

use super::{
    super::{
        DimRole,
        difference::{Conversion, Difference, differences, disagreement, numbers_agree},
        signature::{ArraySignature, Signature},
    },
    array,
};
use crate::compat::signature::Stored;

fn signed(data_type: &str) -> ArraySignature {
    let file = array(DataType::Int16, &[("time", 4, 2), ("x", 3, 3)], json!({}));
    ArraySignature {
        data_type: data_type.to_owned(),
        ..ArraySignature::of(&file, &[DimRole::Axis(0)], false)
    }
}

/// A file with one array.
fn with(array: ArraySignature) -> Signature {
    Signature { arrays: [("v".to_owned(), array)].into(), ..Signature::default() }
}

fn texts(found: &[Difference]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

/// Whether one type holds numbers of two files exactly, and what means "missing" agrees, or does not matter.
#[test]
fn numbers_of_two_types() {
    let whole = Numbers {
        are_times: false,
        has_sentinel: false,
        any_missing: false,
        are_whole: true,
        are_float: true,
    };
    let long = Numbers { are_float: false, ..whole };
    let fraction = Numbers { are_whole: false, ..whole };
    let missing = Numbers { any_missing: true, ..whole };
    let sentinel = Numbers { has_sentinel: true, ..whole };
    let time = Numbers { are_times: true, ..sentinel };
    let fills = |value: i64| Value::from(value);
    let cases = [
        (("int64", 0, long), ("int64", 0, long), true),
        (("int64", 0, missing), ("int64", 0, missing), true),
        (("int64", 0, sentinel), ("int64", 0, sentinel), true),
        (("int32", 0, whole), ("int64", 0, whole), true),
        (("float64", 0, whole), ("int64", 0, long), true),
        (("float64", 0, fraction), ("int64", 0, whole), true),
        (("float64", 0, fraction), ("int64", 0, long), false),
        (("float64", 0, missing), ("int64", 0, whole), false),
        (("float64", 0, whole), ("int64", 0, missing), false),
        // A value of an integer type that means "missing" is a number in another type; NaN of a float is not.
        (("int32", 0, sentinel), ("int64", 0, whole), false),
        (("float64", 0, sentinel), ("int64", 0, whole), true),
        (("float64", 0, whole), ("int64", 0, sentinel), false),
        // Times that are not missing are converted whatever means "missing".
        (("int32", 0, time), ("int64", 0, time), true),
        (("int64", 0, whole), ("int64", 1, whole), true),
        (("int64", 0, fraction), ("int64", 1, long), true),
        (("int64", 0, missing), ("int64", 1, whole), false),
        (("int64", 0, sentinel), ("int64", 1, sentinel), false),
        (("int64", 0, time), ("int64", 1, time), true),
        (("int64", 0, Numbers { any_missing: true, ..time }), ("int64", 1, time), false),
    ];
    for (one, other, expected) in cases {
        let file = |(data_type, fill, numbers): (&str, i64, Numbers)| Signature {
            numbers: [("v".to_owned(), numbers)].into(),
            ..with(ArraySignature { fill_value: fills(fill), ..signed(data_type) })
        };
        let (left, right) = (file(one), file(other));
        assert_eq!(numbers_agree("v", &[&left, &right]), expected, "{one:?} {other:?}");
        assert_eq!(numbers_agree("v", &[&right, &left]), expected, "{other:?} {one:?}");
        let unknown = with(signed(one.0));
        assert!(!numbers_agree("v", &[&left, &unknown]) && !numbers_agree("w", &[&left, &left]));
    }
    assert!(numbers_agree("v", &[]));
}

/// What could be brought together is a reason only where there is no other.
#[test]
fn reasons_come_before_what_conversion_settles() {
    let numbers = Numbers {
        are_times: false,
        has_sentinel: false,
        any_missing: false,
        are_whole: true,
        are_float: true,
    };
    let file = |data_type: &str, codec: &str, numbers| {
        let stored = Stored {
            roles: vec![DimRole::Axis(0)],
            shape: vec![None],
            chunks: Some(vec![None, Some(3)]),
            codecs: vec![codec.to_owned()],
            element: 2,
            is_plain: false,
            is_read: codec == "b",
        };
        Signature {
            arrays: [("v".to_owned(), signed(data_type)), ("w".to_owned(), signed("int16"))].into(),
            numbers: [("v".to_owned(), numbers)].into(),
            stored: [("w".to_owned(), stored)].into(),
            ..Signature::default()
        }
    };
    let reported = |left: &Signature, right: &Signature| texts(&differences(left, right));
    let one = file("int32", "a", numbers);
    let types = "/v: data type: int32 → int64";
    let stored = "/w: chunk shape: (all, 3) in a, not copied → (all, 3) in b, small enough to be copied";
    // Nothing else differs: the type is reported, although it could be converted.
    assert_eq!(reported(&one, &file("int64", "a", numbers)), [types]);
    // The storage does, and the type could be converted.
    assert_eq!(reported(&one, &file("int64", "b", numbers)), [stored]);
    assert_eq!(reported(&one, &file("int32", "b", numbers)), [stored]);
    // The type cannot be converted.
    let missing = Numbers { any_missing: true, ..numbers };
    assert_eq!(reported(&one, &file("int64", "b", missing)), [types]);
    // What nothing reconciles differs too.
    let mut third = file("int64", "b", numbers);
    third.arrays.get_mut("w").unwrap().fill_value = json!(1);
    assert_eq!(reported(&one, &third), [types, "/w: fill value: 0 → 1"]);
    let mut varying = file("int32", "a", numbers);
    varying.stored.get_mut("w").unwrap().chunks = None;
    let several = "/w: chunk shape: (all, 3) in a, not copied → (several) in a, not copied";
    assert_eq!(reported(&one, &varying), [several]);
    assert_eq!(reported(&one, &one), [""; 0]);
}

#[test]
fn arrays_and_groups_of_one_file_only() {
    let (one, mut other) = (with(signed("int16")), Signature::default());
    assert_eq!(texts(&differences(&one, &other)), ["/v: array: int16 (time, x 3) → none"]);
    other.arrays.insert("a".to_owned(), ArraySignature { dimensions: vec![None, None], ..signed("int8") });
    other.groups.insert("g".to_owned(), [("proj:code".to_owned(), json!("EPSG:1"))].into());
    assert_eq!(
        texts(&differences(&one, &other)),
        [
            "/g: attribute proj:code: none → \"EPSG:1\"",
            "/a: array: none → int8 (?, 3)",
            "/v: array: int16 (time, x 3) → none"
        ]
    );
    // An array that files may lack is compared where both have it.
    let optional = |data_type: &str| Signature {
        optional: [("v".to_owned(), signed(data_type))].into(),
        ..Signature::default()
    };
    assert_eq!(texts(&differences(&optional("int8"), &Signature::default())), [""; 0]);
    let found = differences(&optional("int8"), &optional("int16"));
    let expected = Difference {
        path: "v".to_owned(),
        what: "data type".to_owned(),
        left: "int8".to_owned(),
        right: "int16".to_owned(),
    };
    assert_eq!(found, [expected]);
}

/// Differences of two arrays, without their path.
fn reported(change: impl Fn(&mut ArraySignature, &mut ArraySignature)) -> Vec<String> {
    let (mut one, mut other) = (signed("int16"), signed("int16"));
    change(&mut one, &mut other);
    let found = texts(&differences(&with(one), &with(other)));
    found.into_iter().map(|text| text.trim_start_matches("/v: ").to_owned()).collect()
}

#[test]
fn byte_orders_are_reported_if_nothing_else_differs() {
    let codecs = |left: &[&str], right: &[&str]| {
        let all = |codecs: &[&str]| Some(codecs.iter().map(|codec| (*codec).to_owned()).collect());
        reported(|one, other| (one.codecs, other.codecs) = (all(left), all(right)))
    };
    let (little, big) = ("bytes (little-endian)", "bytes (big-endian)");
    assert_eq!(codecs(&[little, "zlib"], &[big, "zlib"]), ["byte order: little-endian → big-endian"]);
    assert_eq!(codecs(&[big], &[little]), ["byte order: big-endian → little-endian"]);
    for (left, right) in [
        (&[little, "zlib"][..], &[big, "gzip"][..]),
        (&[little, "zlib"], &[big]),
        (&[little], &[big, "zlib"]),
        (&[little], &["bytes"]),
        (&["delta little-endian"], &["other little-endian"]),
        (&[little], &[little, "zlib"]),
    ] {
        assert_eq!(codecs(left, right), [format!("codecs: {} → {}", left.join(", "), right.join(", "))]);
    }
    assert_eq!(reported(|one, _| one.codecs = Some(vec![])), [""; 0], "compared if both are known");
}

#[test]
fn chunks_and_values() {
    let chunks = |one: &mut ArraySignature| one.chunks = Some(vec![Value::Null, json!([1, 2])]);
    assert_eq!(reported(|one, _| chunks(one)), ["chunk shape: (any, [1,2]) → any, its values are copied"]);
    let mut array = signed("int16");
    assert_eq!(array.to_string(), "int16 (time, x 3)");
    chunks(&mut array);
    assert_eq!(array.to_string(), "int16 (time, x 3), chunks (any, [1,2])");
    let values = |left: Option<&str>, right: Option<&str>| {
        reported(|one, other| {
            (one.values, other.values) = (left.map(str::to_owned), right.map(str::to_owned));
        })
    };
    let digest = "0123456789abcdef".repeat(4) + " 1, 2";
    assert_eq!(values(Some(&digest), None), ["values: 1, 2 → not compared"]);
    let unread = "not read from a.nc";
    assert_eq!(values(Some(&digest), Some(unread)), ["values: 1, 2 → not read from a.nc"]);
    // Of another type or size values are other ones, which goes without saying.
    let retyped = reported(|one, other| {
        (one.values, other.data_type) = (Some(digest.clone()), "int32".to_owned());
    });
    assert_eq!(retyped, ["data type: int16 → int32"]);
    let resized =
        reported(|one, other| (one.values, other.sizes) = (Some(digest.clone()), vec![None, Some(5)]));
    assert_eq!(resized, ["sizes: (time, x 3) → (time, x 5)"]);
    let renamed =
        reported(|_, other| (other.dimensions, other.sizes) = (vec![None, None], vec![None, Some(5)]));
    assert_eq!(renamed, ["dimensions: (time, x 3) → (?, 5)"]);
}

/// Numbers that are equal to six digits have been rounded to float32 in one of the files.
#[test]
fn numbers_that_are_nearly_equal_are_reported_with_their_types() {
    let scale_factors = |left: f64, right: f64| {
        let attribute = |value: f64| [("scale_factor".to_owned(), json!(value))].into();
        reported(|one, other| (one.attributes, other.attributes) = (attribute(left), attribute(right)))
    };
    let single = f64::from(0.1_f32);
    assert_eq!(
        scale_factors(0.1, single),
        ["attribute scale_factor: 0.1 as float64 → 0.1 as float32 (0.10000000149011612)"]
    );
    assert_eq!(
        scale_factors(-0.1, -single),
        ["attribute scale_factor: -0.1 as float64 → -0.1 as float32 (-0.10000000149011612)"]
    );
    // A number that float32 holds exactly, in as many digits.
    assert_eq!(scale_factors(0.5, 0.500_000_01), ["attribute scale_factor: 0.5 → 0.50000001 as float64"]);
    assert_eq!(scale_factors(0.5, 0.6), ["attribute scale_factor: 0.5 → 0.6"]);
    assert_eq!(scale_factors(1.0, -1.0), ["attribute scale_factor: 1.0 → -1.0"]);
}

/// What conversion reconciles between parts of one array.
#[test]
fn disagreements_that_conversion_leaves() {
    let axes = [("time", 4, 2), ("x", 3, 3)];
    let file = |data_type, fill: i64, units: &str| {
        array(data_type, &axes, json!({"_FillValue": fill, "units": units}))
    };
    let one = file(DataType::Int16, 0, "days since 2000-01-01");
    let roles = [DimRole::Axis(0)];
    let first = |other: &_, conversion, only_shape| {
        disagreement([&one, other], &roles, conversion, only_shape).map(|found| found.what)
    };
    let [none, copied, numbers, times] =
        [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
            .map(|(is_copied, of_numbers, of_times)| Conversion { is_copied, of_numbers, of_times });
    let (retyped, refilled) = (
        file(DataType::Int32, 0, "days since 2000-01-01"),
        file(DataType::Int16, 1, "days since 2000-01-01"),
    );
    let reunited = file(DataType::Int16, 0, "hours since 1999-01-01");
    let expected = |what: &str| Some(what.to_owned());
    for (other, conversion, only_shape, found) in [
        (&one, none, false, None),
        (&retyped, copied, false, expected("data type")),
        (&retyped, numbers, false, None),
        (&retyped, none, true, expected("data type")),
        (&refilled, numbers, false, expected("attribute _FillValue")),
        (&refilled, times, false, None),
        (&refilled, none, true, None),
        (&reunited, none, false, expected("attribute units")),
        (&reunited, copied, false, None),
        (&reunited, none, true, None),
    ] {
        assert_eq!(first(other, conversion, only_shape), found, "{conversion:?} {only_shape}");
    }
    let mut longer = one.clone();
    longer.shape = vec![9, 4];
    assert_eq!(first(&longer, times, true), expected("sizes"));
    // The fill value of the array itself.
    let mut filled = one.clone();
    filled.fill_value = None;
    assert_eq!(first(&filled, copied, false), expected("fill value"));
    assert_eq!(first(&filled, copied, true), None);
}
