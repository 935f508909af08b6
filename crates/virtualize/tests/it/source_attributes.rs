//! Compares attributes with the types of the source file, which xarray gets from the Python package, with those that h5py reports.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::collections::BTreeMap;

use crate::oracle::{HIDDEN, each_node, flat, hex, text, unhex};
use serde_json::{Value, json};
use virtualize::{NumpyField, NumpyType, SourceValue};

#[test]
fn attributes_keep_their_types_for_xarray() {
    let mut compared = 0;
    each_node(
        |options| options.map.source_attributes = true,
        |store, name, node, what| {
            let Some(found) = store.report.attributes.get(name) else { return };
            let found: BTreeMap<_, _> =
                found.iter().map(|attribute| (attribute.name.as_str(), &attribute.value)).collect();
            if name.starts_with("_nc4_non_coord") || (what.starts_with("dimensions.nc") && name == "y") {
                return;
            }
            for (key, truth) in node["attributes"].as_object().into_iter().flatten() {
                if HIDDEN.contains(&key.as_str()) || truth.get("value").is_none() {
                    continue;
                }
                check_source(found[key.as_str()], truth, &format!("{what}: {key}"));
                compared += 1;
            }
        },
    );
    assert_eq!(compared, 3212, "attributes");
}

/// Returns the shape of nested lists of elements.
fn shape(value: &Value, is_element: impl Fn(&Value) -> bool + Copy) -> Vec<u64> {
    match value.as_array() {
        Some(items) if !is_element(value) => {
            let inner = items.first().map_or_else(Vec::new, |item| shape(item, is_element));
            [&[items.len() as u64][..], &inner].concat()
        }
        _ => Vec::new(),
    }
}

fn check_source(found: &SourceValue, truth: &Value, what: &str) {
    let (value, name) = (&truth["value"], truth["dtype"].as_str().unwrap());
    match found {
        SourceValue::Text { elements, shape: found_shape, .. } => {
            assert!(name == "text" || name.starts_with("|S"), "{what}: {name}");
            let expected: Vec<_> = flat(&text(value).unwrap_or_else(|| json!([])))
                .iter()
                .map(|text| text.as_str().unwrap().as_bytes().to_vec())
                .collect();
            if !expected.is_empty() {
                assert_eq!(elements, &expected, "{what}");
            }
            assert_eq!(found_shape.as_deref(), Some(&shape(value, |_| false)[..]), "{what}");
        }
        SourceValue::Fixed { data_type: NumpyType::Plain(found_name), shape: found_shape, bytes } => {
            let is_complex = name.contains('c');
            let is_pair = |value: &Value| {
                is_complex && value.as_array().is_some_and(|items| items.len() == 2 && !items[0].is_array())
            };
            assert_eq!(found_name, name, "{what}");
            assert_eq!(found_shape.as_deref(), Some(&shape(value, is_pair)[..]), "{what}");
            assert_eq!(hex(bytes), hex(&stored(value, name)), "{what}");
        }
        SourceValue::Fixed { data_type, bytes, .. } => {
            assert_eq!(name, "structure", "{what}");
            assert_eq!(hex(bytes), truth["bytes"].as_str().unwrap(), "{what}");
            assert_eq!(fields(data_type), truth["fields"], "{what}");
        }
        SourceValue::Sequences { data_type, elements, .. } => {
            assert_eq!(name, "sequences", "{what}");
            assert_eq!(data_type, &NumpyType::Plain("<i4".to_owned()), "{what}");
            let expected: Vec<_> =
                value.as_array().unwrap().iter().map(|items| stored(items, "<i4")).collect();
            assert_eq!(elements, &expected, "{what}");
        }
        SourceValue::Json(found) => assert_eq!(found, value, "{what}: {name}"),
    }
}

/// Returns the fields of a structure as the fixtures have them.
fn fields(data_type: &NumpyType) -> Value {
    match data_type {
        NumpyType::Plain(name) => name.as_str().into(),
        NumpyType::Struct { fields: members, .. } => {
            let field = |NumpyField { name, offset, data_type, shape }: &NumpyField| {
                json!([name, offset, fields(data_type), shape])
            };
            members.iter().map(field).collect()
        }
    }
}

/// Returns elements in the bytes of a NumPy type such as `>i4`.
fn stored(value: &Value, name: &str) -> Vec<u8> {
    use virtualize::zarr::DataType;
    let (order, kind) = name.split_at(1);
    let data_type = match kind {
        "i1" => DataType::Int8,
        "u1" => DataType::UInt8,
        "b1" => DataType::Bool,
        "i2" => DataType::Int16,
        "u2" => DataType::UInt16,
        "i4" => DataType::Int32,
        "u4" => DataType::UInt32,
        "i8" => DataType::Int64,
        "u8" => DataType::UInt64,
        "f2" => DataType::Float16,
        "f4" => DataType::Float32,
        "f8" => DataType::Float64,
        "c8" => DataType::Complex64,
        "c16" => DataType::Complex128,
        _ => return unhex(value["hex"].as_str().unwrap()),
    };
    let little = match (data_type.is_complex(), value.as_array()) {
        (true, Some(items)) if items[0].is_array() => {
            items.iter().flat_map(|item| crate::oracle::bytes(item, &data_type)).collect()
        }
        _ => crate::oracle::leaves(value, &data_type),
    };
    let size = usize::try_from(data_type.number_size()).unwrap();
    let turned = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<_>>();
    if order == ">" { little.chunks(size).flat_map(turned).collect() } else { little }
}
