//! What each reader cannot do, rule by rule.

use serde_json::Value;

use super::{Need, Reader, Verdict, chain::Spelt};
use crate::{Array, ChunkGrid, Codec, DataType, Lengths, ZarrFormat};

pub(super) fn verdict(reader: Reader, path: &str, array: &Array, spelt: &Spelt) -> Verdict {
    let needs = match reader {
        Reader::ZarrPython => zarr_python(array, spelt),
        Reader::Zarrs => zarrs(array, spelt),
        Reader::Zarrita => zarrita(path, array, spelt),
        Reader::Gdal => gdal(array, spelt),
    };
    match needs {
        Err(reason) => Verdict::No(reason),
        Ok(needs) if needs.is_empty() => Verdict::Yes,
        Ok(needs) => Verdict::Needs(needs),
    }
}

type Needs = Result<Vec<Need>, String>;

fn zarr_python(array: &Array, spelt: &Spelt) -> Needs {
    let mut needs = Vec::new();
    for codec in &spelt.codecs {
        needs.extend(codec.for_zarr_python(spelt.format)?);
    }
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        needs.push(Need::RectilinearChunks);
    }
    needs.sort_unstable();
    needs.dedup();
    Ok(needs)
}

fn zarrs(array: &Array, spelt: &Spelt) -> Needs {
    for codec in &spelt.codecs {
        codec.for_zarrs()?;
    }
    let kind = &array.data_type;
    let known = is_number(kind)
        || matches!(kind, DataType::String | DataType::VariableBytes)
        || (matches!(kind, DataType::RawBytes(_)) && spelt.format == ZarrFormat::V2);
    if !known {
        return Err(data_type(kind));
    }
    if spelt.fill_value.is_null() && (kind.is_complex() || matches!(kind, DataType::RawBytes(_))) {
        return Err(format!("fill value null of {kind}"));
    }
    if *kind == DataType::Float16 && spelt.shows_fill && is_nan_payload(&spelt.fill_value) {
        return Err(fill_value(spelt));
    }
    if sums_odd_bytes(array) {
        return Err("fletcher32 over an odd number of bytes".to_owned());
    }
    Ok(Vec::new())
}

fn zarrita(path: &str, array: &Array, spelt: &Spelt) -> Needs {
    let kind = &array.data_type;
    let known = (is_number(kind) && !kind.is_complex()) || *kind == DataType::String;
    if !known {
        return Err(data_type(kind));
    }
    regular_and_not_empty(array)?;
    for codec in &spelt.codecs {
        codec.for_zarrita(stored_type(array).size())?;
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c)) {
        return Err("a name with characters that urls escape".to_owned());
    }
    let fill = &spelt.fill_value;
    let wide = matches!(kind, DataType::Int64 | DataType::UInt64);
    let lost = (wide && !is_exact_as_binary64(fill))
        || (fill.is_null() && (wide || *kind == DataType::String))
        || is_nan_payload(fill);
    if spelt.shows_fill && lost {
        return Err(fill_value(spelt));
    }
    Ok(if *kind == DataType::Float16 { vec![Need::Float16Array] } else { Vec::new() })
}

fn gdal(array: &Array, spelt: &Spelt) -> Needs {
    let kind = &array.data_type;
    if !is_number(kind) {
        return Err(data_type(kind));
    }
    regular_and_not_empty(array)?;
    if array.shape.is_empty() {
        return Err("no dimensions".to_owned());
    }
    for codec in &spelt.codecs {
        codec.for_gdal(spelt.format)?;
    }
    let fill = &spelt.fill_value;
    let refused = match spelt.format {
        ZarrFormat::V2 => {
            (kind.is_complex() && !fill.is_null()) || (*kind == DataType::Float16 && fill.is_string())
        }
        ZarrFormat::V3 => *kind == DataType::Float16 && is_nan_payload(fill),
    };
    let lost = fill.as_u64().is_some_and(|fill| i64::try_from(fill).is_err()) && spelt.shows_fill;
    match refused || lost {
        true => Err(fill_value(spelt)),
        false => Ok(Vec::new()),
    }
}

fn regular_and_not_empty(array: &Array) -> Result<(), String> {
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        return Err("chunk grid rectilinear".to_owned());
    }
    match array.shape.contains(&0) {
        true => Err("no elements".to_owned()),
        false => Ok(()),
    }
}

/// The type of the elements that are stored.
fn stored_type(array: &Array) -> &DataType {
    let cast = |codec: &'_ &Codec| matches!(codec, Codec::CastValue { .. });
    match array.codecs.iter().rfind(cast) {
        Some(Codec::CastValue { data_type, .. }) => data_type,
        _ => &array.data_type,
    }
}

fn is_number(kind: &DataType) -> bool {
    matches!(kind, DataType::Bool | DataType::Float16 | DataType::Float32 | DataType::Float64)
        || kind.is_integer()
        || matches!(kind, DataType::Complex64 | DataType::Complex128)
}

fn data_type(kind: &DataType) -> String {
    format!("data type {kind}")
}

fn fill_value(spelt: &Spelt) -> String {
    format!("fill value {}", spelt.fill_value)
}

/// Whether a fill value is a NaN by its bits.
fn is_nan_payload(fill: &Value) -> bool {
    fill.as_str().is_some_and(|text| text.starts_with("0x"))
}

/// Whether JavaScript's numbers hold it.
fn is_exact_as_binary64(fill: &Value) -> bool {
    let Some(number) = fill.as_i64().map(i128::from).or_else(|| fill.as_u64().map(i128::from)) else {
        return false;
    };
    let magnitude = number.unsigned_abs();
    magnitude == 0 || 128 - magnitude.leading_zeros() - magnitude.trailing_zeros() <= 53
}

/// Whether a checksum was taken over an odd number of bytes, at which zarrs calls it invalid.
fn sums_odd_bytes(array: &Array) -> bool {
    let Some(at) = array.codecs.iter().position(|codec| *codec == Codec::Fletcher32) else {
        return false;
    };
    let before = array.codecs.get(..at).unwrap_or_default();
    if before.iter().all(keeps_size) {
        return chunk_bytes(array).is_none_or(|bytes| bytes % 2 == 1);
    }
    let is_last = at + 1 == array.codecs.len();
    let odd_column = array.chunks.references.iter().any(|column| match &column.lengths {
        Lengths::Uniform(length) => length % 2 == 1,
        Lengths::Each(lengths) => lengths.iter().any(|length| length % 2 == 1),
    });
    !is_last || odd_column || array.chunks.inline.values().any(|bytes| bytes.len() % 2 == 1)
}

fn keeps_size(codec: &Codec) -> bool {
    matches!(
        codec,
        Codec::Transpose { .. } | Codec::Bytes { .. } | Codec::Shuffle { .. } | Codec::Delta { .. }
    )
}

fn chunk_bytes(array: &Array) -> Option<u64> {
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { return None };
    shape.iter().try_fold(array.data_type.size()?, |bytes, n| bytes.checked_mul((*n).max(1)))
}
