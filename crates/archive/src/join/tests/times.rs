//! Times in several units; expected dates are those of `cftime.num2date` 1.6.6.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use virtualize::zarr::{DataType, NodePath, ZarrFormat};

use super::super::times::unify;
use super::{array, blocks, files, options};
use crate::join::metadata::{Growing, Read};
use crate::{compat::DimRole, error::Problem};

/// Times of files, each in its own units.
struct Case {
    data_type: DataType,
    calendar: &'static str,
    files: Vec<(&'static str, Vec<[u8; 8]>)>,
    /// Further attributes.
    more: Value,
}

impl Case {
    /// Returns data type, units and values after the conversion.
    fn unified(&self) -> Result<(String, String, Vec<f64>), Problem> {
        self.unify(|growing| {
            let all = growing.pieces.iter().flat_map(|n| growing.pieces.values(n).unwrap().to_vec());
            let all: Vec<u8> = all.collect();
            let is_int = growing.first.data_type == DataType::Int64;
            let number = |bytes: &[u8]| {
                let bytes: [u8; 8] = bytes.try_into().unwrap();
                if is_int { i64::from_le_bytes(bytes) as f64 } else { f64::from_le_bytes(bytes) }
            };
            let units = growing.attributes.kept["units"].as_str().unwrap().to_owned();
            (growing.first.data_type.to_string(), units, all.chunks_exact(8).map(number).collect())
        })
    }

    /// Returns an attribute after the conversion.
    fn kept(&self, name: &str) -> Option<Value> {
        self.unify(|growing| growing.attributes.kept.get(name).cloned()).unwrap()
    }

    fn unify<T>(&self, result: impl FnOnce(&Growing<'_>) -> T) -> Result<T, Problem> {
        let of = |units: &str, n: u64| {
            let mut attributes = json!({"units": units, "calendar": self.calendar});
            for (name, value) in self.more.as_object().into_iter().flatten() {
                attributes[name] = value.clone();
            }
            array(self.data_type.clone(), &[("time", n, n)], attributes)
        };
        let (units, values) = &self.files[0];
        let blocks = blocks(u32::try_from(self.files.len()).unwrap());
        let (first, roles) = (of(units, values.len() as u64), vec![DimRole::Axis(0)]);
        let mut growing = Growing::new(&first, (files(&blocks), 0), roles, (true, true), options(true));
        for (n, (units, values)) in (0..).zip(&self.files) {
            let mut compared = growing.compare(&of(units, values.len() as u64))?;
            let values = values.concat();
            growing.add(n, &mut compared, Read { chunks: 1, values: Some(&values), digest: None })?;
        }
        let mut arrays: BTreeMap<NodePath, Growing<'_>> = [("time".to_owned(), growing)].into();
        unify(&mut arrays, "time", &[], ZarrFormat::V3)?;
        Ok(result(&arrays["time"]))
    }
}

fn floats(values: &[f64]) -> Vec<[u8; 8]> {
    values.iter().map(|value| value.to_le_bytes()).collect()
}

fn ints(values: &[i64]) -> Vec<[u8; 8]> {
    values.iter().map(|value| value.to_le_bytes()).collect()
}

fn of_floats(
    calendar: &'static str,
    files: &[(&'static str, &[f64])],
) -> Result<(String, String, Vec<f64>), Problem> {
    let files = files.iter().map(|(units, values)| (*units, floats(values))).collect();
    Case { data_type: DataType::Float64, calendar, files, more: json!({}) }.unified()
}

fn of_ints(files: &[(&'static str, &[i64])], more: Value) -> Result<(String, String, Vec<f64>), Problem> {
    let files = files.iter().map(|(units, values)| (*units, ints(values))).collect();
    Case { data_type: DataType::Int64, calendar: "standard", files, more }.unified()
}

#[test]
fn the_unit_is_the_longest_in_which_all_are_whole() {
    for (calendar, values, expected) in [
        ("standard", 1.0, ("hours since 2000-01-01", vec![0.0, 10_201.0])),
        ("standard", 60.5, ("seconds since 2000-01-01", vec![0.0, 36_723_630.0])),
        ("noleap", 60.5, ("seconds since 2000-01-01", vec![0.0, 36_637_230.0])),
        ("360_day", 60.5, ("seconds since 2000-01-01", vec![0.0, 36_291_630.0])),
    ] {
        let unit = if values == 1.0 { "hours since 2001-03-01" } else { "minutes since 2001-03-01" };
        let found = of_floats(calendar, &[("hours since 2000-01-01", &[0.0]), (unit, &[values])]).unwrap();
        assert_eq!(found, ("int64".to_owned(), expected.0.to_owned(), expected.1), "{calendar}");
    }
}

/// -1.25 days from 1999-12-30 12:00 are 1999-12-29 06:00.
#[test]
fn negative_and_fractional_offsets() {
    let files: [(&str, &[f64]); 2] =
        [("days since 2000-01-01", &[0.0]), ("days since 1999-12-30 12:00", &[-1.25, 0.5])];
    let (kind, units, values) = of_floats("standard", &files).unwrap();
    assert_eq!(
        (kind.as_str(), units.as_str(), values.as_slice()),
        ("int64", "hours since 2000-01-01", &[0.0, -66.0, -24.0][..])
    );
}

#[test]
fn units_of_one_meaning_are_left_alone() {
    let files: [(&str, &[f64]); 2] =
        [("days since 2000-01-01", &[0.1]), ("days since 2000-01-01 00:00:00", &[0.7])];
    assert_eq!(
        of_floats("standard", &files).unwrap(),
        ("float64".to_owned(), files[0].0.to_owned(), vec![0.1, 0.7])
    );
}

#[test]
fn floats_that_no_unit_counts_are_kept_where_that_is_exact() {
    let part = 2f64.powi(-40);
    let files: [(&str, &[f64]); 2] = [("days since 2000-01-01", &[part]), ("days since 2000-01-03", &[0.0])];
    assert_eq!(
        of_floats("standard", &files).unwrap(),
        ("float64".to_owned(), files[0].0.to_owned(), vec![part, 2.0])
    );
    let files: [(&str, &[f64]); 2] = [("days since 2000-01-01", &[0.1]), ("days since 2010-01-01", &[0.1])];
    assert!(of_floats("standard", &files).unwrap_err().to_string().contains("no exact value"));
}

#[test]
fn what_cannot_be_converted_is_refused() {
    for (calendar, second, what) in [
        ("standard", "months since 2001-01-01", "attribute units"),
        ("noleap", "days since 2000-02-29", "attribute units"),
        ("lunar", "days since 2001-01-01", "attribute units"),
    ] {
        let error = of_floats(calendar, &[("days since 2000-01-01", &[0.0]), (second, &[0.0])])
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    }
    let files: [(_, &[i64]); 2] = [("days since 2000-01-01", &[0]), ("days since 2001-01-01", &[0])];
    let packed = of_ints(&files, json!({"scale_factor": 0.5}));
    assert!(packed.unwrap_err().to_string().contains("scale_factor"));
    let far: [(_, &[i64]); 2] = [("days since 2000-01-01", &[0]), ("days since 2001-01-01", &[i64::MAX])];
    assert!(of_ints(&far, json!({})).is_err());
}

#[test]
fn missing_times_stay_missing() {
    let files: [(_, &[i64]); 2] =
        [("hours since 2000-01-01", &[0, -99]), ("hours since 2000-01-02", &[-99, 1])];
    let (kind, _, values) = of_ints(&files, json!({"_FillValue": -99})).unwrap();
    assert_eq!((kind.as_str(), values.as_slice()), ("int64", &[0.0, -99.0, -99.0, 25.0][..]));
    // A converted time that collides with the missing value.
    let files: [(_, &[i64]); 2] =
        [("hours since 2000-01-01", &[25, -99]), ("hours since 1999-12-31", &[-75])];
    assert!(of_ints(&files, json!({"_FillValue": -99})).unwrap_err().to_string().contains("missing"));
    // The same with a missing value that does not occur, while another one does.
    let both = json!({"_FillValue": -99, "missing_value": [7, 31]});
    let files: [(_, &[i64]); 2] =
        [("hours since 2000-01-01", &[0, -99]), ("hours since 2000-01-02", &[7, 8])];
    let (_, _, values) = of_ints(&files, both.clone()).unwrap();
    assert_eq!(values, [0.0, -99.0, 7.0, 32.0], "7 stays missing");
    let files: [(_, &[i64]); 2] =
        [("hours since 2000-01-01", &[0, -99]), ("hours since 2000-01-02", &[6, 8])];
    assert!(of_ints(&files, both).is_ok());
    let files: [(_, &[i64]); 2] = [("hours since 2000-01-01", &[0, -99]), ("hours since 1999-12-31", &[55])];
    assert!(of_ints(&files, json!({"_FillValue": -99, "missing_value": 31})).is_err());
}

/// Without a missing value, the attributes are removed: a converted time may equal them.
#[test]
fn missing_values_that_do_not_occur_are_removed() {
    let of = |name: &str| Case {
        data_type: DataType::Int64,
        calendar: "standard",
        files: vec![("hours since 2000-01-01", ints(&[0])), ("hours since 2000-01-01 06:00", ints(&[3]))],
        more: json!({name: 9}),
    };
    for name in ["_FillValue", "missing_value"] {
        assert_eq!(of(name).kept(name), None);
    }
}
