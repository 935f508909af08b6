//! Chains of codecs in metadata documents: `filters` and `compressor` of Zarr v2, `codecs` of Zarr v3.

use serde_json::{Map, Value};

use super::{Codec, CodecError, CodecKind};
use crate::{
    DataType, Endian, ZarrFormat,
    read::{ReadError, unexpected},
};

/// Maximum number of codecs of an array.
const MAX_CODECS: usize = 64;

fn parse_v2(entry: &Value, data_type: &DataType, is_compressor: bool) -> Codec {
    let members = entry.as_object();
    let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
    let known = members.and_then(|members| Codec::parse(id, members, ZarrFormat::V2, data_type));
    let kind = if is_compressor { CodecKind::BytesToBytes } else { CodecKind::ArrayToArray };
    known.unwrap_or_else(|| Codec::Foreign { entry: entry.clone(), format: ZarrFormat::V2, kind })
}

/// `entry` is an object with `name` and perhaps `configuration`, or the name alone.
pub(super) fn parse_v3(entry: &Value, data_type: &DataType, is_serialized: bool) -> Codec {
    let name = entry.get("name").unwrap_or(entry).as_str().unwrap_or_default();
    let nothing = Map::new();
    let members = entry.get("configuration").map_or(Some(&nothing), Value::as_object);
    let known = members.and_then(|members| Codec::parse(name, members, ZarrFormat::V3, data_type));
    let kind = if is_serialized { CodecKind::BytesToBytes } else { CodecKind::ArrayToArray };
    known.unwrap_or_else(|| Codec::Foreign { entry: entry.clone(), format: ZarrFormat::V3, kind })
}

/// Parses `order`, `filters` and `compressor` of a Zarr v2 array of `rank` axes.
pub(crate) fn from_v2(
    zarray: &Value,
    data_type: &DataType,
    endian: Endian,
    rank: usize,
) -> Result<Vec<Codec>, ReadError> {
    let mut codecs = Vec::new();
    match zarray.get("order").and_then(Value::as_str) {
        Some("F") if rank > 1 => codecs.push(Codec::Transpose { order: (0..rank).rev().collect() }),
        None | Some("C" | "F") => {}
        Some(_) => return Err(unexpected("order", "C or F", zarray.get("order").unwrap_or(&Value::Null))),
    }
    let filters = match zarray.get("filters") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(filters)) if filters.len() < MAX_CODECS => filters,
        Some(other) => return Err(unexpected("filters", "a list of codecs", other)),
    };
    let compressor = zarray.get("compressor").filter(|compressor| !compressor.is_null());
    codecs.extend(filters.iter().map(|filter| parse_v2(filter, data_type, false)));
    codecs.extend(compressor.map(|compressor| parse_v2(compressor, data_type, true)));
    // Numbers of one byte and other elements have none.
    let byte_order = (!data_type.byte_orders_of(endian).is_empty()).then_some(endian);
    if !codecs.iter().any(Codec::is_array_to_bytes) {
        // Filters work on the array up to the first that works on bytes.
        let at = codecs.iter().position(Codec::is_bytes_to_bytes).unwrap_or(codecs.len());
        codecs.insert(at, Codec::Bytes { endian: byte_order });
    } else if byte_order == Some(Endian::Big)
        && let Some(at) = codecs.iter().position(|codec| matches!(codec, Codec::Image { .. }))
        && let Some(dtype) = zarray.get("dtype").and_then(Value::as_str)
    {
        codecs.insert(at, Codec::ReversedBytes { dtype: dtype.to_owned() });
    }
    Ok(codecs)
}

/// Parses `codecs` of a Zarr v3 array.
pub(crate) fn from_v3(codecs: &Value, data_type: &DataType) -> Result<Vec<Codec>, ReadError> {
    let list = codecs.as_array().filter(|list| (1..=MAX_CODECS).contains(&list.len()));
    let list = list.ok_or_else(|| unexpected("codecs", "a list of codecs", codecs))?;
    let mut chain: Vec<Codec> = Vec::with_capacity(list.len());
    for entry in list {
        let is_serialized = chain.iter().any(Codec::makes_bytes);
        chain.push(parse_v3(entry, data_type, is_serialized));
    }
    if !chain.iter().any(Codec::makes_bytes) {
        // The last unknown codec, such as `sharding_indexed`, must be the array → bytes codec.
        let foreign = chain.iter_mut().rev().find_map(|codec| match codec {
            Codec::Foreign { kind, .. } => Some(kind),
            _ => None,
        });
        *foreign.ok_or_else(|| unexpected("codecs", "an array → bytes codec among them", codecs))? =
            CodecKind::ArrayToBytes;
    }
    let has_byte_order =
        |codec: &Codec| matches!(codec, Codec::Difference { .. } | Codec::FixedScaleOffset { .. });
    if Codec::endian_of(&chain) == Endian::Big && chain.iter().any(has_byte_order) {
        return Err(unexpected("codecs", "little-endian bytes with filters of numcodecs", codecs));
    }
    // A reversal of bits precedes `bytes` in v3, and follows it here.
    let at = chain.windows(2).position(|pair| matches!(pair, [Codec::BitOrder, Codec::Bytes { .. }]));
    if let Some(at) = at {
        chain.swap(at, at + 1);
    }
    Ok(chain)
}

/// Encodes `filters` and `compressor` of v2. The last codec is the compressor if its output has any length; checksums
/// and rearrangements are filters.
pub(crate) fn to_v2(codecs: &[Codec]) -> Result<(Value, Value), CodecError> {
    let is_member_of_the_array = |codec: &Codec| {
        matches!(codec, Codec::Bytes { .. } | Codec::Transpose { .. } | Codec::ReversedBytes { .. })
    };
    let mut filters: Vec<_> = codecs.iter().filter(|codec| !is_member_of_the_array(codec)).collect();
    let compressor = filters.pop_if(|last| last.is_compressor());
    let filters: Vec<_> = filters.into_iter().map(Codec::to_v2).collect::<Result<_, _>>()?;
    let filters = if filters.is_empty() { Value::Null } else { filters.into() };
    Ok((filters, compressor.map_or(Ok(Value::Null), Codec::to_v2)?))
}

/// Returns v2's `order`: "F" for a reversal of all axes that comes first.
pub(crate) fn order_v2(codecs: &[Codec]) -> Result<&'static str, CodecError> {
    let found = codecs.iter().enumerate().find_map(|(at, codec)| match codec {
        Codec::Transpose { order } => Some((at, codec, order.iter().copied())),
        _ => None,
    });
    let Some((at, codec, order)) = found else { return Ok("C") };
    let rank = order.len();
    if order.clone().eq(0..rank) {
        Ok("C")
    } else if at == 0 && order.rev().eq(0..rank) {
        Ok("F")
    } else {
        Err(codec.unsupported(ZarrFormat::V2))
    }
}

/// Encodes `codecs` of v3. Codecs that serialize the array themselves replace `bytes`. A reversal of bits, which v3 has
/// as an array → array codec only, moves before `bytes` if it follows directly.
pub(crate) fn to_v3(codecs: &[Codec], data_type: &DataType) -> Result<Vec<Value>, CodecError> {
    let mut chain: Vec<&Codec> = Vec::with_capacity(codecs.len());
    let mut makes_bytes = false;
    for codec in codecs {
        match codec {
            Codec::Bytes { .. } if makes_bytes => continue,
            Codec::BitOrder => match chain.last() {
                // The codec takes arrays of integers only.
                Some(Codec::Bytes { .. }) if data_type.is_integer() => chain.insert(chain.len() - 1, codec),
                _ => return Err(codec.unsupported(ZarrFormat::V3)),
            },
            _ if makes_bytes && codec.kind() == CodecKind::ArrayToArray => {
                return Err(codec.unsupported(ZarrFormat::V3));
            }
            _ => chain.push(codec),
        }
        makes_bytes |= codec.makes_bytes();
    }
    if !makes_bytes {
        return Err(CodecError::new("a chain without an array → bytes codec", ZarrFormat::V3));
    }
    let mut type_here = data_type;
    let mut entries = Vec::with_capacity(chain.len());
    for codec in chain {
        if let Codec::CastValue { data_type, .. } = codec {
            type_here = data_type;
        }
        entries.push(match codec {
            Codec::Bytes { endian } => bytes_to_v3(*endian, type_here)?,
            codec => codec.to_v3()?,
        });
    }
    Ok(entries)
}

/// Encodes the codec `bytes` with the byte order that v3 requires for the type, which must be that of structures'
/// fields.
fn bytes_to_v3(endian: Option<Endian>, data_type: &DataType) -> Result<Value, CodecError> {
    let orders = data_type.byte_orders_of(endian.unwrap_or(Endian::Little));
    match orders.as_slice() {
        [] => Codec::Bytes { endian: None }.to_v3(),
        [one] if endian.is_none_or(|declared| declared == *one) => {
            Codec::Bytes { endian: Some(*one) }.to_v3()
        }
        _ => {
            let what = "a structure whose fields have another byte order than the array";
            Err(CodecError::new(what, ZarrFormat::V3))
        }
    }
}
