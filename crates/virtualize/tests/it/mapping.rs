//! Compares the metadata of mapped HDF5 fixtures with what h5py and h5netcdf report: attributes, types, dimensions, chunks and fill values. The
//! descriptions and diagnostics of the report are in tables.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::oracle::{HIDDEN, each_node, fixture, flat, hex, opened, options, text};
use serde_json::{Map, Value, json};
use virtualize::{
    Format, VirtualStore,
    zarr::{Array, ChunkGrid, Endian},
};

/// Attributes that policies decide on, with tests of their own.
const FILL: [&str; 2] = ["_FillValue", "missing_value"];

/// Calls `check` with each array that is mapped under its own name and in its own shape.
fn each_array(mut check: impl FnMut(&VirtualStore, &Array, &Value, &str)) {
    each_node(
        |_| (),
        |store, name, node, what| {
            let Some(array) = store.hierarchy.array(name) else { return };
            if node["kind"] == "dataset" && node["shape"] == json!(array.shape) && !name.starts_with("_nc4") {
                check(store, array, node, what);
            }
        },
    );
}

/// Returns an attribute as JSON has it; `None` if it is not text.
fn attribute(truth: &Value) -> Option<Value> {
    let value = &truth["value"];
    let type_name = truth["dtype"].as_str().unwrap_or_default();
    let value = match type_name {
        "text" => Value::Array(flat(value)),
        name if name.contains('c') && name.len() < 5 => complex(value),
        _ => text(value)?,
    };
    match value {
        Value::Array(mut items) if items.len() == 1 => items.pop(),
        other => Some(other),
    }
}

/// Replaces pairs by their parts.
fn complex(value: &Value) -> Value {
    match value.as_array().map(Vec::as_slice) {
        Some([real, imaginary]) if !real.is_array() => json!({"r": real, "i": imaginary}),
        _ => value.as_array().unwrap().iter().map(complex).collect(),
    }
}

#[test]
fn attributes_are_those_of_h5py() {
    let mut compared = 0;
    each_node(
        |_| (),
        |store, name, node, what| {
            let found = match (store.hierarchy.array(name), store.hierarchy.group(name)) {
                (Some(array), _) => &array.attributes,
                (None, Some(group)) => &group.attributes,
                (None, None) => return,
            };
            // The name of this dimension belongs to another variable.
            if name.starts_with("_nc4_non_coord") || (what.starts_with("dimensions.nc") && name == "y") {
                return;
            }
            let none = Map::new();
            let truth = node["attributes"].as_object().unwrap_or(&none);
            for (key, expected) in truth {
                let is_kept = expected.get("value").is_some() && !FILL.contains(&key.as_str());
                if !is_kept || HIDDEN.contains(&key.as_str()) {
                    continue;
                }
                assert_eq!(found.get(key), attribute(expected).as_ref(), "{what}: {key}");
                compared += 1;
            }
            let is_added =
                |key: &str| ["flag_values", "flag_meanings"].contains(&key) || name.starts_with("times/");
            for key in found.keys().filter(|key| !is_added(key)) {
                assert!(
                    truth.contains_key(key) || FILL.contains(&key.as_str()),
                    "{what}: {key} is not in the file"
                );
            }
        },
    );
    assert_eq!(compared, 484, "attributes");
}

/// The units are those that xarray gives times of NumPy. It decodes durations of whole days and hours as seconds.
#[test]
fn times_have_units() {
    let store = opened(&fixture("mapping/kinds.h5"), &options(Format::ZARR3_JSON)).unwrap();
    let times = [
        ("D", "days", "s"),
        ("h", "hours", "s"),
        ("m", "minutes", "s"),
        ("s", "seconds", "s"),
        ("ms", "milliseconds", "ms"),
        ("us", "microseconds", "us"),
        ("ns", "nanoseconds", "ns"),
    ];
    for (unit, name, decoded) in times {
        for order in ["", "_be"] {
            let attributes =
                |kind| &store.hierarchy.array(&format!("times/{kind}_{unit}{order}")).unwrap().attributes;
            assert_eq!(json!(attributes("M8")), json!({"units": format!("{name} since 1970-01-01")}));
            assert_eq!(
                json!(attributes("m8")),
                json!({"units": name, "dtype": format!("timedelta64[{decoded}]")})
            );
        }
    }
}

#[test]
fn special_attributes() {
    let store = opened(&fixture("mapping/attributes.h5"), &options(Format::ZARR3_JSON)).unwrap();
    let attributes = &store.hierarchy.array("data").unwrap().attributes;
    assert_eq!(attributes["null"], json!([]));
    assert_eq!(attributes["null_text"], "");
    // h5py: f["data"].attrs["region"] is a region of [1:3] of /data.
    assert_eq!(attributes["region"], json!({"path": "/data", "selection": "blocks", "blocks": [[[1], [2]]]}));
    let flags = opened(&fixture("hdf5/netcdf4.nc"), &options(Format::ZARR3_JSON)).unwrap();
    let flags = &flags.hierarchy.array("cloud").unwrap().attributes;
    assert_eq!(flags["flag_values"], json!([0, 1, 255]));
    assert_eq!(flags["flag_meanings"], "clear cloudy missing");
}

#[test]
fn data_types_are_those_of_h5py() {
    let names = [
        ("|b1", "bool"),
        ("|i1", "int8"),
        ("|u1", "uint8"),
        ("i2", "int16"),
        ("u2", "uint16"),
        ("i4", "int32"),
        ("u4", "uint32"),
        ("i8", "int64"),
        ("u8", "uint64"),
        ("f2", "float16"),
        ("f4", "float32"),
        ("f8", "float64"),
        ("c8", "complex64"),
        ("c16", "complex128"),
        ("vlen string", "string"),
        ("reference", "string"),
    ];
    let mut compared = 0;
    each_array(|_, array, node, what| {
        let Some(name) = node["dtype"].as_str() else { return };
        let expected = match name.strip_prefix("|S") {
            Some(size) => format!("bytes of length {size}"),
            None => match names.iter().find(|(numpy, _)| *numpy == name || *numpy == &name[1..]) {
                Some((_, zarr)) => (*zarr).to_owned(),
                None => return,
            },
        };
        assert_eq!(array.data_type.to_string(), expected, "{what}");
        compared += 1;
    });
    assert_eq!(compared, 3870, "arrays");
}

#[test]
fn dimensions_are_those_of_h5netcdf() {
    let mut compared = 0;
    each_array(|_, array, node, what| {
        let Some(expected) = node["dimensions"].as_array() else { return };
        let found: Vec<_> = array.dimension_names.iter().map(|name| json!(name)).collect();
        assert_eq!(&found, expected, "{what}");
        compared += 1;
    });
    assert_eq!(compared, 3852, "arrays");
}

#[test]
fn chunks_and_fill_values_are_those_of_libhdf5() {
    let mut compared = 0;
    each_array(|_, array, node, what| {
        if let Some(chunk) = node["chunk"].as_array() {
            let ChunkGrid::Regular(found) = &array.chunk_grid else {
                panic!("{what}: {:?}", array.chunk_grid)
            };
            assert_eq!(json!(found), json!(chunk), "{what}");
            compared += 1;
        }
        let (Some(value), Some(fill), true) =
            (node["fill"].get("value"), &array.fill_value, what.contains("zarr3"))
        else {
            return;
        };
        let expected = crate::oracle::bytes(value, &array.data_type);
        assert_eq!(hex(&fill.to_stored(&array.data_type, Endian::Little).unwrap()), hex(&expected), "{what}");
    });
    assert_eq!(compared, 2826, "arrays");
}

/// Arrays with their types, layouts and filters in the words of the specification.
const SOURCES: [(&str, &str, &str, &str, &[&str]); 24] = [
    ("mapping/kinds.h5", "bits/i2_11_5", "little-endian 11-bit integer from bit 5 of 16", "contiguous", &[]),
    (
        "mapping/kinds.h5",
        "bits/u4_31_0",
        "big-endian unsigned 31-bit integer from bit 0 of 32",
        "contiguous",
        &[],
    ),
    ("mapping/kinds.h5", "bits_8", "unsigned 8-bit bit field", "contiguous", &[]),
    ("mapping/kinds.h5", "bits_16", "big-endian unsigned 16-bit bit field", "contiguous", &[]),
    (
        "mapping/kinds.h5",
        "enums/YES_i1_False",
        "enumeration of 2 values of 8-bit integer",
        "chunked [3], version-1 B-tree",
        &[],
    ),
    (
        "mapping/kinds.h5",
        "floats_half",
        "little-endian 32-bit float (sign at 15, 5 exponent bits at 10, 10 mantissa bits at 0, bias 15)",
        "contiguous",
        &[],
    ),
    (
        "mapping/kinds.h5",
        "structures/arrays",
        "array [2, 3] of little-endian 32-bit float",
        "contiguous",
        &[],
    ),
    ("mapping/kinds.h5", "structures/text", "compound of 22 bytes (n, text, m)", "contiguous", &[]),
    ("mapping/kinds.h5", "text/references", "reference (Object)", "contiguous", &[]),
    ("mapping/kinds.h5", "text/nulls", "string of 4 bytes", "contiguous", &[]),
    ("mapping/kinds.h5", "times/M8_s_be", "opaque data of 8 bytes (\"NUMPY:>M8[s]\")", "contiguous", &[]),
    ("mapping/kinds.h5", "structures/list_of_text", "variable-length string", "contiguous", &[]),
    ("mapping/kinds.h5", "unix_times", "time of 4 bytes", "contiguous", &[]),
    (
        "mapping/external.h5",
        "unequal",
        "little-endian 32-bit integer",
        "in 3 segments of external files",
        &[],
    ),
    ("mapping/virtual.h5", "stacked", "little-endian 32-bit integer", "virtual, 3 mappings", &[]),
    (
        "mapping/filters.h5",
        "gzip_float64",
        "big-endian 64-bit float",
        "chunked [4, 5], version-1 B-tree",
        &["deflate (1)", "fletcher32 (3)"],
    ),
    (
        "mapping/filters.h5",
        "lzf_int16",
        "little-endian 16-bit integer",
        "chunked [4, 5], version-1 B-tree",
        &["shuffle (2)", "LZF (32000)"],
    ),
    (
        "hdf5/chunk_indexes.h5",
        "single",
        "little-endian 32-bit integer",
        "chunked [10, 12], single chunk",
        &[],
    ),
    (
        "hdf5/chunk_indexes.h5",
        "implicit",
        "little-endian 32-bit integer",
        "chunked [3, 5], implicit index",
        &[],
    ),
    (
        "hdf5/chunk_indexes.h5",
        "fixed_array",
        "little-endian 32-bit integer",
        "chunked [3, 5], fixed array",
        &[],
    ),
    (
        "hdf5/chunk_indexes.h5",
        "extensible_array",
        "little-endian 32-bit integer",
        "chunked [3, 5], extensible array",
        &[],
    ),
    (
        "hdf5/chunk_indexes.h5",
        "btree_2",
        "little-endian 32-bit integer",
        "chunked [3, 5], version-2 B-tree",
        &[],
    ),
    ("hdf5/layouts.h5", "compact", "little-endian 16-bit integer", "compact", &[]),
    ("hdf5/layouts.h5", "zero", "little-endian 32-bit float", "contiguous, never allocated", &[]),
];

#[test]
fn sources_are_described() {
    for (file, name, kind, layout, filters) in SOURCES {
        let store = opened(&fixture(file), &options(Format::ZARR3_JSON)).unwrap();
        let report = &store.report.arrays[name];
        assert_eq!(
            (report.source_type.as_str(), report.source_layout.as_str()),
            (kind, layout),
            "{file} {name}"
        );
        assert_eq!(report.source_filters, filters, "{file} {name}");
    }
    let store = opened(&fixture("hdf5/types.h5"), &options(Format::ZARR3_JSON)).unwrap();
    assert!(!store.report.arrays["strings/vlen"].is_ascii, "h5py writes UTF-8");
}
