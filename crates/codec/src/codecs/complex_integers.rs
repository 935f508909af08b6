//! Complex numbers whose parts are stored as integers of half their size, in the same byte order.

use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "complex integers";

/// Decodes integers of type `dtype` to floats of twice their size, at most to `limit` bytes.
pub(super) fn decode(bytes: &[u8], dtype: &str, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let size = part_size(dtype)?;
    if !bytes.len().is_multiple_of(size) {
        return Err(corrupt(NAME, format!("{} bytes of numbers of {size}", bytes.len())));
    }
    if bytes.len() > limit / 2 {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    let mut out = Vec::with_capacity(bytes.len().saturating_mul(2));
    for part in bytes.chunks_exact(size) {
        push_float(part, dtype, &mut out);
    }
    Ok(out)
}

/// Encodes floats. Those that are not integers of the type are an error.
pub(super) fn encode(bytes: &[u8], dtype: &str) -> Result<Vec<u8>, CodecFailure> {
    let size = part_size(dtype)?;
    let mut out = Vec::with_capacity(bytes.len() / 2);
    for part in bytes.chunks_exact(size * 2) {
        let start = out.len();
        push_integer(part, dtype, &mut out);
        let mut back = Vec::with_capacity(part.len());
        push_float(out.get(start..).unwrap_or_default(), dtype, &mut back);
        if back != part {
            return Err(parameters(NAME, format!("a number that is no integer of type {dtype}")));
        }
    }
    Ok(out)
}

fn part_size(dtype: &str) -> Result<usize, CodecFailure> {
    match dtype {
        "<i2" | ">i2" => Ok(2),
        "<i4" | ">i4" => Ok(4),
        other => Err(parameters(NAME, format!("parts of type {other}"))),
    }
}

fn push_float(part: &[u8], dtype: &str, out: &mut Vec<u8>) {
    match (dtype, part) {
        ("<i2", &[a, b]) => out.extend(f32::from(i16::from_le_bytes([a, b])).to_le_bytes()),
        (">i2", &[a, b]) => out.extend(f32::from(i16::from_be_bytes([a, b])).to_be_bytes()),
        ("<i4", &[a, b, c, d]) => out.extend(f64::from(i32::from_le_bytes([a, b, c, d])).to_le_bytes()),
        (">i4", &[a, b, c, d]) => out.extend(f64::from(i32::from_be_bytes([a, b, c, d])).to_be_bytes()),
        _ => {}
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the caller converts it back and compares")]
fn push_integer(part: &[u8], dtype: &str, out: &mut Vec<u8>) {
    let four = || <[u8; 4]>::try_from(part).unwrap_or_default();
    let eight = || <[u8; 8]>::try_from(part).unwrap_or_default();
    match dtype {
        "<i2" => out.extend((f32::from_le_bytes(four()) as i16).to_le_bytes()),
        ">i2" => out.extend((f32::from_be_bytes(four()) as i16).to_be_bytes()),
        "<i4" => out.extend((f64::from_le_bytes(eight()) as i32).to_le_bytes()),
        _ => out.extend((f64::from_be_bytes(eight()) as i32).to_be_bytes()),
    }
}
