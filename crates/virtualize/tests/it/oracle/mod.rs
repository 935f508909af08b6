//! What independent readers report of the fixtures, and the form in which it is compared.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use virtualize::{Format, MapOptions, Options, VirtualStore, open, zarr::DataType};

pub(crate) const FORMATS: [Format; 2] = [Format::KERCHUNK_JSON, Format::ZARR3_JSON];

pub(crate) fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// Returns the files of a folder with an expected result whose name without `.json` ends with one of `ends`.
pub(crate) fn fixtures(folder: &str, ends: &[&str]) -> Vec<(PathBuf, Value)> {
    let paths = std::fs::read_dir(fixture(folder)).unwrap().map(|entry| entry.unwrap().path());
    let wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.strip_suffix(".json").is_some_and(|name| ends.iter().any(|end| name.ends_with(end)))
    };
    let mut truth: Vec<_> = paths.filter(wanted).collect();
    truth.sort();
    let read = |path: PathBuf| {
        let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path.with_extension(""), json)
    };
    truth.into_iter().map(read).collect()
}

pub(crate) fn options(format: Format) -> Options {
    let map = MapOptions { format: format.zarr_format(), ..MapOptions::default() };
    Options { map, ..Options::default() }
}

pub(crate) fn opened(path: &Path, options: &Options) -> Option<VirtualStore> {
    futures::executor::block_on(open(&path.to_string_lossy(), options)).ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn float(value: &Value) -> f64 {
    match value.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => value.as_f64().unwrap(),
    }
}

/// Returns an expected element as bytes.
pub(crate) fn bytes(value: &Value, data_type: &DataType) -> Vec<u8> {
    let integer = || value.as_i64().map_or_else(|| value.as_u64().map(i128::from), |n| Some(i128::from(n)));
    match data_type {
        DataType::Float16 => half::f16::from_f64(float(value)).to_le_bytes().to_vec(),
        DataType::Float32 => (float(value) as f32).to_le_bytes().to_vec(),
        DataType::Float64 => float(value).to_le_bytes().to_vec(),
        DataType::Complex64 | DataType::Complex128 => {
            let half = if *data_type == DataType::Complex64 { DataType::Float32 } else { DataType::Float64 };
            value.as_array().unwrap().iter().flat_map(|part| bytes(part, &half)).collect()
        }
        DataType::Bool => vec![u8::from(value.as_bool().unwrap_or_else(|| value.as_i64() == Some(1)))],
        DataType::FixedBytes(_) | DataType::RawBytes(_) => {
            let mut bytes = unhex(value["hex"].as_str().unwrap());
            bytes.resize(usize::try_from(data_type.size().unwrap()).unwrap(), 0);
            bytes
        }
        DataType::String => {
            let text = value.as_str().unwrap();
            [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat()
        }
        integers => {
            let size = usize::try_from(integers.size().unwrap()).unwrap();
            integer().unwrap_or_else(|| panic!("{value} as {data_type}")).to_le_bytes()[..size].to_vec()
        }
    }
}

/// Returns the elements of values that are lists (of array types).
pub(crate) fn leaves(value: &Value, data_type: &DataType) -> Vec<u8> {
    match value.as_array() {
        Some(list) if !data_type.is_complex() => {
            list.iter().flat_map(|value| leaves(value, data_type)).collect()
        }
        _ => bytes(value, data_type),
    }
}

/// Attributes by which netCDF and HDF5 keep dimensions: `h5netcdf.attrs._HIDDEN_ATTRS`, to which `test_attributes.py` compares
/// what is shown.
pub(crate) const HIDDEN: [&str; 8] = [
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_NCProperties",
    "_nc3_strict",
];

/// Calls `check` with each node that h5py sees, and the store. All failures are shown.
pub(crate) fn each_node(
    change: impl Fn(&mut Options),
    mut check: impl FnMut(&VirtualStore, &str, &Value, &str),
) {
    let mut failed = 0;
    for (path, truth) in [fixtures("hdf5", &[".h5", ".nc"]), fixtures("mapping", &[".h5", ".nc"])].concat() {
        for format in FORMATS {
            let mut options = options(format);
            change(&mut options);
            let Some(store) = opened(&path, &options) else { continue };
            for (name, node) in truth["nodes"].as_object().unwrap() {
                let what = format!("{} {name} {format:?}", path.file_name().unwrap().display());
                let mut one = || check(&store, name.trim_start_matches('/'), node, &what);
                failed += u32::from(catch_unwind(AssertUnwindSafe(&mut one)).is_err());
            }
        }
    }
    assert_eq!(failed, 0, "nodes that differ");
}

/// Returns the items of nested lists.
pub(crate) fn flat(value: &Value) -> Vec<Value> {
    value.as_array().map_or_else(|| vec![value.clone()], |items| items.iter().flat_map(flat).collect())
}

/// Replaces bytes by text.
pub(crate) fn text(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Array(items) => items.iter().map(text).collect::<Option<_>>()?,
        Value::Object(members) => match members.get("hex").and_then(Value::as_str) {
            Some(digits) => {
                let bytes = unhex(digits);
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                String::from_utf8(bytes[..end].to_vec()).ok()?.into()
            }
            None => {
                let members = members.iter().map(|(name, value)| Some((name.clone(), text(value)?)));
                Value::Object(members.collect::<Option<Map<_, _>>>()?)
            }
        },
        other => other.clone(),
    })
}

/// Returns a number as bytes of a type, whether the oracle shows it as an integer or as a float.
pub(crate) fn integer_or_float(value: &Value, data_type: &DataType) -> Vec<u8> {
    match value.as_f64() {
        Some(number) if data_type.is_integer() && value.as_i64().is_none() => {
            bytes(&Value::from(number as i64), data_type)
        }
        _ => bytes(value, data_type),
    }
}
