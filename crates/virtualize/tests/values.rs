//! Compares decoded values of the fixtures with those that h5py and tifffile report.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use virtualize::{
    ArrayValues, Format, MapOptions, Options, VirtualStore, open, read_array, read_array_within,
    zarr::DataType,
};

fn fixtures(folder: &str) -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut said: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    said.sort();
    let read = |path: PathBuf| {
        let json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path.with_extension(""), json)
    };
    said.into_iter().map(read).collect()
}

fn opened(path: &Path, format: Format) -> Option<(VirtualStore, Options)> {
    let map = MapOptions { format: format.zarr_format(), ..MapOptions::default() };
    let options = Options { map, ..Options::default() };
    let store = futures::executor::block_on(open(&path.to_string_lossy(), &options)).ok()?;
    Some((store, options))
}

fn values(path: &Path, array: &str, format: Format) -> ArrayValues {
    let (store, options) = opened(path, format).unwrap();
    futures::executor::block_on(read_array(&store, array, &options.store)).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an expected element as bytes.
fn bytes(value: &Value, data_type: &DataType) -> Vec<u8> {
    let float = || match value.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => value.as_f64().unwrap(),
    };
    let integer = || value.as_i64().map_or_else(|| value.as_u64().map(i128::from), |n| Some(i128::from(n)));
    match data_type {
        DataType::Float16 => half::f16::from_f64(float()).to_le_bytes().to_vec(),
        DataType::Float32 => (float() as f32).to_le_bytes().to_vec(),
        DataType::Float64 => float().to_le_bytes().to_vec(),
        DataType::Complex64 | DataType::Complex128 => {
            let half = if *data_type == DataType::Complex64 { DataType::Float32 } else { DataType::Float64 };
            value.as_array().unwrap().iter().flat_map(|part| bytes(part, &half)).collect()
        }
        DataType::Bool => vec![u8::from(value.as_bool().unwrap_or_else(|| value.as_i64() == Some(1)))],
        DataType::FixedBytes(_) | DataType::RawBytes(_) => {
            let text = value["hex"].as_str().unwrap();
            let digits = text.as_bytes().chunks(2);
            let mut bytes: Vec<u8> = digits
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect();
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

#[test]
fn as_h5py_reads_them() {
    let mut compared = 0;
    for (path, said) in fixtures("hdf5") {
        for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
            let Some((store, options)) = opened(&path, format) else { continue };
            let nodes = said["nodes"].as_object().unwrap();
            for (name, node) in nodes {
                let name = name.trim_start_matches('/');
                // The name of this dimension belongs to a variable of other dimensions.
                if nodes.contains_key(&format!("/_nc4_non_coord_{name}")) {
                    continue;
                }
                let Some(array) = store.hierarchy.array(name) else { continue };
                let (list, digest) = (node["values"].as_array(), node["data"].as_str());
                if list.is_none() && digest.is_none() {
                    continue;
                }
                let values = futures::executor::block_on(read_array(&store, name, &options.store));
                let values = match values {
                    Ok(values) => values,
                    Err(error) if error.to_string().contains("cannot be decoded here") => continue,
                    Err(error) => panic!("{}: {error}", path.display()),
                };
                assert_eq!(values.shape, array.shape);
                if let Some(list) = list {
                    let expected: Vec<u8> =
                        list.iter().flat_map(|value| leaves(value, &values.data_type)).collect();
                    // A variable that is shorter than its dimension is padded along its first axis, as in netCDF.
                    let is_padded = node["shape"] != serde_json::json!(values.shape);
                    let shown = if is_padded { &values.bytes[..expected.len()] } else { &values.bytes[..] };
                    assert_eq!(hex(shown), hex(&expected), "{} {name}", path.display());
                } else {
                    assert_eq!(
                        hex(&Sha256::digest(&values.bytes)),
                        digest.unwrap(),
                        "{} {name}",
                        path.display()
                    );
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 2500, "{compared} arrays compared");
}

/// Returns the elements of values that are lists (of array types).
fn leaves(value: &Value, data_type: &DataType) -> Vec<u8> {
    match value.as_array() {
        Some(list) if !data_type.is_complex() => {
            list.iter().flat_map(|value| leaves(value, data_type)).collect()
        }
        _ => bytes(value, data_type),
    }
}

/// Returns the elements `(band, y, x)` as `(y, x, band)`.
fn interleaved(values: &ArrayValues) -> Vec<u8> {
    let [bands, rest] =
        [values.shape[0], values.shape[1] * values.shape[2]].map(|n| usize::try_from(n).unwrap());
    let size = values.bytes.len() / (bands * rest);
    let element = |at: usize| &values.bytes[at * size..(at + 1) * size];
    (0..rest).flat_map(|at| (0..bands).flat_map(move |band| element(band * rest + at).to_vec())).collect()
}

#[test]
fn as_tifffile_reads_them() {
    let mut compared = 0;
    for (path, said) in fixtures("tiff") {
        for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
            let Some((store, options)) = opened(&path, format) else { continue };
            let Some(image) = said["images"]["0"].as_object() else { continue };
            let Some(digest) = image.get("data").and_then(Value::as_str) else { continue };
            let values = futures::executor::block_on(read_array(&store, "band_data", &options.store));
            let values = match values {
                Ok(values) => values,
                Err(error) if error.to_string().contains("cannot be decoded here") => continue,
                Err(error) => panic!("{}: {error}", path.display()),
            };
            let is_turned = image["axes"] == "YXS" && format == Format::ZARR3_JSON;
            let bytes = if is_turned { interleaved(&values) } else { values.bytes.to_vec() };
            assert_eq!(hex(&Sha256::digest(&bytes)), digest, "{} {format:?}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} images compared");
}

#[test]
fn text_has_its_length_before_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/types.h5");
    let values = values(&path, "strings/vlen", Format::ZARR3_JSON);
    let (mut rest, mut found) = (&values.bytes[..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (text, after) = after.split_at(usize::try_from(u32::from_le_bytes(*length)).unwrap());
        found.push(String::from_utf8(text.to_vec()).unwrap());
        rest = after;
    }
    // h5py 3.16: f["strings/vlen"].asstr()[()]
    assert_eq!(found, EXPECTED);
}

const EXPECTED: [&str; 3] = ["a", "", "größer"];

#[test]
fn what_is_too_large_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/layouts.h5");
    let (store, options) = opened(&path, Format::ZARR3_JSON).unwrap();
    let read = |most| futures::executor::block_on(read_array_within(&store, "chunked", most, &options.store));
    let error = read(480).unwrap_err().to_string();
    assert!(error.contains("stored in more than 480 bytes"), "with what sticks out they have 720: {error}");
    assert_eq!(read(1000).unwrap().bytes.len(), 480);
    let error = read(479).unwrap_err().to_string();
    assert!(
        error.ends_with("layouts.h5: /chunked: it has 480 bytes, and at most 479 are read at once"),
        "{error}"
    );
    let error = futures::executor::block_on(read_array(&store, "no", &options.store)).unwrap_err();
    assert!(error.to_string().ends_with("/no: there is no such array"), "{error}");
}
