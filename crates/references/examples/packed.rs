//! For the interop test of `scale_offset` and `cast_value`: prints Zarr v3 references of arrays whose chunks were encoded
//! here, all of shape (4, 5) in chunks of (2, 3), of which the last is missing. `test_arithmetic.py` knows the values.

#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use serde_json::{Map, Value, json};
use virtualize_codec::encode_values;
use virtualize_references::{Format, write};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Hierarchy, Node, OutOfRange,
    Rounding, ScalarMap, ZarrFormat,
};

const NAN: f64 = f64::NAN;

fn main() {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let mut add =
        |name: &str, array| hierarchy.root.children.insert(name.to_owned(), Node::Array(Box::new(array)));
    let sentinel = ScalarMap {
        encode: vec![("NaN".into(), (-32768).into())],
        decode: vec![((-32768).into(), "NaN".into())],
    };
    let packed = vec![
        scale_offset(json!(10), json!(10)),
        cast(DataType::Int16, Rounding::default(), None, sentinel),
        Codec::Transpose { order: vec![1, 0] },
        Codec::Bytes { endian: Some(Endian::Big) },
        Codec::Zlib { level: 4 },
    ];
    let number = |at: u32| if at == 3 { NAN } else { (f64::from(at) * 7.0 - 50.0) / 10.0 + 10.0 };
    add("packed", array(DataType::Float64, packed, NAN, |at| number(at).to_be_bytes()));
    let plain = Codec::Bytes { endian: Some(Endian::Little) };
    let clamped = cast(DataType::UInt8, Rounding::TowardsZero, Some(OutOfRange::Clamp), ScalarMap::default());
    let clamped = vec![clamped, Codec::Bytes { endian: None }];
    add("clamped", array(DataType::Float32, clamped, 7.0, |at| ((at as f32) * 20.9 - 30.0).to_le_bytes()));
    let wrapped = cast(DataType::Int8, Rounding::default(), Some(OutOfRange::Wrap), ScalarMap::default());
    let wrapped = vec![wrapped, Codec::Bytes { endian: None }];
    add("wrapped", array(DataType::UInt32, wrapped, 5.0, |at| (at * 1000).to_le_bytes()));
    let exact = vec![scale_offset(json!((1_i64 << 53) + 1), json!(-3)), plain.clone()];
    let large = |at: u32| (1_i64 << 60) + i64::from(at);
    add("exact", array(DataType::Int64, exact, 0.0, move |at| large(at).to_le_bytes()));
    let half = vec![cast(DataType::Float16, Rounding::NearestAway, None, ScalarMap::default()), plain];
    add("half", array(DataType::Float32, half, NAN, |at| (1.0 + at as f32 / 4096.0).to_le_bytes()));
    write(&hierarchy, Format::ZARR3_JSON, &mut std::io::stdout().lock()).unwrap();
}

fn scale_offset(offset: Value, scale: Value) -> Codec {
    Codec::ScaleOffset { offset: Some(offset), scale: Some(scale) }
}

fn cast(
    data_type: DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    scalar_map: ScalarMap,
) -> Codec {
    Codec::CastValue { data_type, rounding, out_of_range, scalar_map }
}

/// The array whose elements in C order are `element(0)`, `element(1)`, …, in the byte order of its codecs.
fn array<const N: usize>(
    data_type: DataType,
    codecs: Vec<Codec>,
    fill: f64,
    element: impl Fn(u32) -> [u8; N],
) -> Array {
    let transposed = codecs.iter().any(|codec| matches!(codec, Codec::Transpose { .. }));
    let at = |row: u32, column: u32| element(row.min(3) * 5 + column.min(4));
    let chunk = |row: u32, column: u32| -> Vec<u8> {
        let here = |k: u32| if transposed { (k % 2, k / 2) } else { (k / 3, k % 3) };
        (0..6).map(here).flat_map(|(y, x)| at(row * 2 + y, column * 3 + x)).collect()
    };
    let places = [(0, 0, 0), (1, 0, 1), (2, 1, 0)];
    let encode = |elements: Vec<u8>| encode_values(&data_type, &codecs, &elements).unwrap();
    let inline = places.map(|(place, row, column)| (place, encode(chunk(row, column)).into()));
    Array {
        shape: vec![4, 5],
        fill_value: FillValue::from_f64(&data_type, fill).value(),
        chunk_grid: ChunkGrid::Regular(vec![2, 3]),
        dimension_names: vec![Some("y".into()), Some("x".into())],
        attributes: Map::new(),
        chunks: ChunkManifest { inline: inline.into_iter().collect(), ..ChunkManifest::default() },
        codecs,
        data_type,
    }
}
