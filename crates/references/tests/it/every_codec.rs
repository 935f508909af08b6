//! The whole table of codecs: each is encoded, parsed, converted to the other Zarr format and decoded.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use virtualize_codec::{decode_values, encode_values};
use virtualize_references::{from_json, translate};
use virtualize_zarr::{Array, Codec, DataType, Endian, Implementation, ZarrFormat};

/// Returns the elements of a chunk of 4 × 3 that fit the codec's array.
fn elements(array: &Array) -> Vec<u8> {
    match &array.data_type {
        DataType::Float32 => (0..12_u8).flat_map(|n| f32::from(n).to_le_bytes()).collect(),
        DataType::Complex64 => (0..24_u8).flat_map(|n| stored(array, f32::from(n).to_le_bytes())).collect(),
        DataType::Complex128 => (0..24_u8).flat_map(|n| stored(array, f64::from(n).to_le_bytes())).collect(),
        _ => (0..12_u16).flat_map(|n| (n * 100).to_le_bytes()).collect(),
    }
}

/// Returns a number in the byte order of an array.
fn stored<const N: usize>(array: &Array, mut little: [u8; N]) -> [u8; N] {
    if Codec::endian_of(&array.codecs) == Endian::Big {
        little.reverse();
    }
    little
}

fn document(array: &Array, format: ZarrFormat) -> Option<Value> {
    match format {
        ZarrFormat::V2 => array.to_zarray().ok(),
        ZarrFormat::V3 => array.to_zarr_json("a").ok(),
    }
}

/// Returns references of one array with one inline chunk.
fn references(array: &Array, format: ZarrFormat, chunk: &[u8]) -> Option<Vec<u8>> {
    let document = document(array, format)?;
    let chunk = format!("base64:{}", BASE64_STANDARD.encode(chunk));
    let references = match format {
        ZarrFormat::V2 => json!({".zgroup": {"zarr_format": 2}, "a/.zarray": document, "a/0.0": chunk}),
        ZarrFormat::V3 => {
            let root = json!({"node_type": "group", "zarr_format": 3});
            json!({"zarr.json": root, "a/zarr.json": document, "a/c/0/0": chunk})
        }
    };
    Some(references.to_string().into_bytes())
}

/// Converts the array, and reads it back from its document in the other format.
fn converted(text: &[u8], from: ZarrFormat, to: ZarrFormat) -> Option<Array> {
    let set = from_json(text).unwrap();
    assert_eq!((set.hierarchy.format, set.omitted.len()), (from, 0));
    let translation = translate(set.hierarchy, to);
    let mut array = translation.hierarchy.array("a")?.clone();
    assert!(translation.pending.iter().all(|(path, _)| path == "a"));
    let document = document(&array, to).unwrap();
    let parsed = match to {
        ZarrFormat::V2 => Array::from_zarray(&document, &Value::Null),
        ZarrFormat::V3 => Array::from_zarr_json(&document),
    };
    array.codecs = parsed.unwrap().array.codecs;
    Codec::complete(&mut array.codecs, &array.data_type, &[4, 3]);
    Some(array)
}

#[test]
fn every_codec_is_converted_where_the_other_format_expresses_it() {
    let mut decoded = 0;
    for codec in Codec::examples() {
        let array = codec.example_array();
        let elements = elements(&array);
        let is_decoded = codec.implementation() == Implementation::Complete
            && array.codecs.iter().all(|codec| codec.implementation() == Implementation::Complete);
        let chunk = match is_decoded {
            true => encode_values(&array.data_type, &array.codecs, &elements).unwrap(),
            false => b"any bytes".to_vec(),
        };
        for (from, to) in [(ZarrFormat::V2, ZarrFormat::V3), (ZarrFormat::V3, ZarrFormat::V2)] {
            let Some(text) = references(&array, from, &chunk) else { continue };
            let expected = document(&array, to).is_some();
            let converted = converted(&text, from, to);
            assert_eq!(converted.is_some(), expected, "{codec:?} from {from:?}");
            let Some(converted) = converted else { continue };
            assert_eq!(converted.chunks.inline.get(&0).map(|bytes| bytes.as_ref()), Some(chunk.as_slice()));
            if is_decoded && array.data_type.size().is_some() {
                let values = decode_values(&converted.data_type, &converted.codecs, &chunk, 12);
                assert_eq!(values.as_ref(), Ok(&elements), "{codec:?} from {from:?}");
                decoded += 1;
            }
        }
    }
    assert!(decoded > 60, "{decoded}");
}
