//! What each reader cannot decode, rule by rule.

use serde_json::Value;

use super::{ChunkFacts, Compatibility, Need, Obstacle, Reader, chain::Document};
use crate::{Array, ChunkGrid, Codec, DataType, ZarrFormat};

pub(super) fn check(reader: Reader, path: &str, array: &Array, document: &Document) -> Compatibility {
    let needs = match reader {
        Reader::ZarrPython => zarr_python(array, document),
        Reader::Zarrs => zarrs(array, document),
        Reader::Zarrita => zarrita(path, array, document),
        Reader::Gdal => gdal(array, document),
        Reader::Virtualize => virtualize(array, document),
    };
    match needs {
        Err(obstacle) => Compatibility::No(obstacle.to_string()),
        Ok(needs) if needs.is_empty() => Compatibility::Yes,
        Ok(needs) => Compatibility::Needs(needs),
    }
}

type Needs = Result<Vec<Need>, Obstacle>;

fn zarr_python(array: &Array, document: &Document) -> Needs {
    let mut needs = Vec::new();
    for codec in &document.codecs {
        needs.extend(codec.for_zarr_python(document.format)?);
    }
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        needs.push(Need::RectilinearChunks);
    }
    needs.sort_unstable();
    needs.dedup();
    Ok(needs)
}

/// The package needs numcodecs, so that its codecs are always there.
fn virtualize(array: &Array, document: &Document) -> Needs {
    let mut needs = Vec::new();
    for codec in document.codecs.iter().filter(|codec| !codec.is_own()) {
        needs.extend(codec.for_zarr_python(document.format)?.filter(|need| *need != Need::Numcodecs));
    }
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        needs.push(Need::RectilinearChunks);
    }
    needs.sort_unstable();
    needs.dedup();
    Ok(needs)
}

fn zarrs(array: &Array, document: &Document) -> Needs {
    for codec in &document.codecs {
        codec.check(Reader::Zarrs, document.format, None)?;
    }
    let kind = &array.data_type;
    let known = is_number(kind)
        || matches!(kind, DataType::String | DataType::VariableBytes)
        || (matches!(kind, DataType::RawBytes(_)) && document.format == ZarrFormat::V2);
    if !known {
        return Err(Obstacle::DataType(kind.clone()));
    }
    if document.fill_value.is_null() && (kind.is_complex() || matches!(kind, DataType::RawBytes(_))) {
        return Err(Obstacle::NullFillValue(kind.clone()));
    }
    if *kind == DataType::Float16 && document.chunks.shows_fill_value && is_nan_payload(&document.fill_value)
    {
        return Err(Obstacle::FillValue(document.fill_value.clone()));
    }
    if sums_odd_bytes(array, document.chunks) {
        return Err(Obstacle::OddChecksum);
    }
    Ok(Vec::new())
}

fn zarrita(path: &str, array: &Array, document: &Document) -> Needs {
    let kind = &array.data_type;
    let known = (is_number(kind) && !kind.is_complex()) || *kind == DataType::String;
    if !known {
        return Err(Obstacle::DataType(kind.clone()));
    }
    regular_and_not_empty(array)?;
    for codec in &document.codecs {
        codec.check(Reader::Zarrita, document.format, stored_type(array).size())?;
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c)) {
        return Err(Obstacle::EscapedName);
    }
    let fill = &document.fill_value;
    let wide = matches!(kind, DataType::Int64 | DataType::UInt64);
    let lost = (wide && !is_exact_as_binary64(fill))
        || (fill.is_null() && (wide || *kind == DataType::String))
        || is_nan_payload(fill);
    if document.chunks.shows_fill_value && lost {
        return Err(Obstacle::FillValue(document.fill_value.clone()));
    }
    Ok(if *kind == DataType::Float16 { vec![Need::Float16Array] } else { Vec::new() })
}

fn gdal(array: &Array, document: &Document) -> Needs {
    let kind = &array.data_type;
    if !is_number(kind) {
        return Err(Obstacle::DataType(kind.clone()));
    }
    regular_and_not_empty(array)?;
    if array.shape.is_empty() {
        return Err(Obstacle::NoDimensions);
    }
    for codec in &document.codecs {
        codec.check(Reader::Gdal, document.format, None)?;
    }
    let fill = &document.fill_value;
    let refused = match document.format {
        ZarrFormat::V2 => {
            (kind.is_complex() && !fill.is_null()) || (*kind == DataType::Float16 && fill.is_string())
        }
        ZarrFormat::V3 => *kind == DataType::Float16 && is_nan_payload(fill),
    };
    let lost =
        fill.as_u64().is_some_and(|fill| i64::try_from(fill).is_err()) && document.chunks.shows_fill_value;
    match refused || lost {
        true => Err(Obstacle::FillValue(document.fill_value.clone())),
        false => Ok(Vec::new()),
    }
}

fn regular_and_not_empty(array: &Array) -> Result<(), Obstacle> {
    if matches!(array.chunk_grid, ChunkGrid::Rectilinear(_)) {
        return Err(Obstacle::RectilinearGrid);
    }
    match array.shape.contains(&0) {
        true => Err(Obstacle::NoElements),
        false => Ok(()),
    }
}

/// Returns the type of stored elements.
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

/// Whether a fill value is a NaN with a payload, which is written by its bits.
fn is_nan_payload(fill: &Value) -> bool {
    fill.as_str().is_some_and(|text| text.starts_with("0x"))
}

/// Whether a JavaScript number represents it exactly.
fn is_exact_as_binary64(fill: &Value) -> bool {
    let Some(number) = fill.as_i64().map(i128::from).or_else(|| fill.as_u64().map(i128::from)) else {
        return false;
    };
    let magnitude = number.unsigned_abs();
    magnitude == 0 || 128 - magnitude.leading_zeros() - magnitude.trailing_zeros() <= 53
}

/// Whether a checksum covers an odd number of bytes, for which zarrs reports it as invalid.
fn sums_odd_bytes(array: &Array, chunks: ChunkFacts) -> bool {
    let Some(at) = array.codecs.iter().position(|codec| *codec == Codec::Fletcher32) else {
        return false;
    };
    let before = array.codecs.get(..at).unwrap_or_default();
    if before.iter().all(|codec| codec.encoded_length(0) == Some(0)) && array.data_type.size().is_some() {
        return chunk_bytes(array).is_none_or(|bytes| bytes % 2 == 1);
    }
    let is_last = at + 1 == array.codecs.len();
    !is_last || chunks.has_odd_length
}

fn chunk_bytes(array: &Array) -> Option<u64> {
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { return None };
    shape.iter().try_fold(array.data_type.size()?, |bytes, n| bytes.checked_mul((*n).max(1)))
}
