//! How types, fill values and codecs are spelled in signatures, so that what means the same is equal.

use serde_json::Value;
use virtualize::zarr::{Array, Codec, DataType, Endian, FillValue, ZarrFormat, cf::attributes::canonical};

/// Returns whether the chunks of two arrays of one type are decoded alike.
pub(crate) fn decode_alike(one: &Array, other: &Array) -> bool {
    one.codecs == other.codecs || codecs(one) == codecs(other)
}

/// Returns the type as Zarr names it; structures with all their fields.
pub(super) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(_) => data_type
            .to_v2(Endian::Little)
            .map_or_else(|_| format!("{data_type:?}"), |v2| format!("struct {v2}")),
        other => other.to_string(),
    }
}

/// Returns the fill value in the notation of Zarr v3; null if it is not defined.
pub(super) fn fill_value(array: &Array) -> Value {
    let said = |fill: &FillValue| {
        fill.to_json(&array.data_type, ZarrFormat::V3).unwrap_or_else(|_| format!("{fill:?}").into())
    };
    canonical(array.fill_value.as_ref().map_or(Value::Null, said))
}

/// Returns the codecs without parameters that only an encoder needs.
pub(super) fn codecs(array: &Array) -> Vec<String> {
    let plain = array.data_type.number_size() == 1 && !matches!(array.data_type, DataType::Struct(_));
    array.codecs.iter().map(|codec| spelled(codec, plain)).collect()
}

fn spelled(codec: &Codec, plain: bool) -> String {
    match codec {
        codec if codec.is_self_describing() => codec.name().unwrap_or_default().to_owned(),
        Codec::Bytes { .. } if plain => "bytes".to_owned(),
        Codec::Bytes { endian: Some(Endian::Big) } => "bytes (big-endian)".to_owned(),
        Codec::Bytes { endian } => {
            if endian.is_some() {
                "bytes (little-endian)".to_owned()
            } else {
                "bytes".to_owned()
            }
        }
        Codec::Shuffle { element_size } => format!("shuffle ({element_size} bytes)"),
        other => document(other),
    }
}

/// Name and configuration, with members in order.
fn document(codec: &Codec) -> String {
    let Ok(said) = codec.to_v3().or_else(|_| codec.to_v2()) else { return format!("{codec:?}") };
    let name = ["name", "id"].iter().find_map(|key| said.get(key)?.as_str()).unwrap_or_default();
    let configuration = canonical(said.get("configuration").cloned().unwrap_or(Value::Null));
    match configuration.as_object() {
        Some(members) if !members.is_empty() => format!("{name} {configuration}"),
        _ => name.to_owned(),
    }
}
