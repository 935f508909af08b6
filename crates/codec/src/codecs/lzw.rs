//! TIFF's LZW (TIFF 6.0, section 13): codes of 9 to 12 bits, most significant bit first, which widen one code early.
//!
//! Old files have the least significant bit first and no early change. They are recognized by their first code, 256
//! (clear), which then starts with a zero byte.

use weezl::{BitOrder, LzwStatus, decode::Decoder, encode::Encoder};

use crate::{CodecFailure, corrupt};

const NAME: &str = "lzw";

/// Decodes the start of a chunk that fills `out`, with a decoder that is used again; `None` if it does not, is damaged,
/// or is of the old kind.
pub(crate) fn decode_into(bytes: &[u8], out: &mut [u8], decoder: &mut Option<Decoder>) -> Option<()> {
    if kind(bytes)? == Kind::Old {
        return None;
    }
    let decoder = decoder.get_or_insert_with(|| Decoder::with_tiff_size_switch(BitOrder::Msb, 8));
    decoder.reset();
    let (mut rest, mut written) = (bytes, 0);
    while written < out.len() {
        let result = decoder.decode_bytes(rest, out.get_mut(written..)?);
        written += result.consumed_out;
        rest = rest.get(result.consumed_in..)?;
        match result.status {
            Ok(LzwStatus::Ok) if result.consumed_in + result.consumed_out > 0 => {}
            _ => break,
        }
    }
    (written == out.len()).then_some(())
}

#[derive(PartialEq, Eq)]
enum Kind {
    Usual,
    Old,
}

/// Returns the kind that the first code shows; `None` if it is not 256, which libtiff and imagecodecs refuse.
fn kind(bytes: &[u8]) -> Option<Kind> {
    match *bytes {
        [0x80, second, ..] if second & 0x80 == 0 => Some(Kind::Usual),
        [0, second, ..] if second & 1 == 1 => Some(Kind::Old),
        _ => None,
    }
}

pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut decoder = match kind(bytes).ok_or_else(|| corrupt(NAME, "the first code is not 256 (clear)"))? {
        Kind::Old => Decoder::new(BitOrder::Lsb, 8),
        Kind::Usual => Decoder::with_tiff_size_switch(BitOrder::Msb, 8),
    };
    let mut out = Vec::new();
    let mut rest = bytes;
    let mut block = vec![0; 1 << 14];
    while out.len() <= limit {
        let result = decoder.decode_bytes(rest, &mut block);
        out.extend_from_slice(block.get(..result.consumed_out).unwrap_or_default());
        rest = rest.get(result.consumed_in..).unwrap_or_default();
        match result.status {
            Ok(LzwStatus::Ok) if result.consumed_in + result.consumed_out > 0 => {}
            Ok(_) => break,
            Err(_) if out.len() >= limit => break,
            Err(error) => return Err(corrupt(NAME, error)),
        }
    }
    out.truncate(limit.saturating_add(1));
    Ok(out)
}

pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    Encoder::with_tiff_size_switch(BitOrder::Msb, 8).encode(bytes).map_err(|error| corrupt(NAME, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// imagecodecs and libtiff refuse a stream whose first code is another one.
    #[test]
    fn the_first_code_clears_the_table() {
        let stream = encode(b"aaaa").unwrap();
        assert_eq!(decode(&stream, 4).unwrap(), b"aaaa");
        // The codes 97 and 257 (end).
        let other = [0x30, 0xc0, 0x40];
        assert!(decode(&other, 4).is_err() && decode_into(&other, &mut [0], &mut None).is_none());
    }
}
