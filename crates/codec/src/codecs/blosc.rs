//! Blosc 1 chunks. Numbers are little-endian. <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst>
//!
//! ```text
//! 1  format version, 2        4  decoded size
//! 1  compressor's version     4  decoded size of a block
//! 1  flags                    4  stored size
//! 1  size of an element       …  offset of each block, 4 bytes each, then the blocks
//! ```
//!
//! A block is one stream, or one per byte of an element. Each stream starts with its stored size in 4 bytes.

use super::{hdf5_bitshuffle, hdf5_lz4::lz4_block, lzf, shuffle, streams};
use crate::{CodecFailure, bounded, corrupt, size};

const NAME: &str = "blosc";

/// Flag: bytes are shuffled.
const SHUFFLED: u8 = 1;
/// Flag: the chunk is stored without compression.
const COPIED: u8 = 2;
/// Flag: bits are shuffled.
const BIT_SHUFFLED: u8 = 4;
/// Flag: a block is one stream.
const ONE_STREAM: u8 = 16;

struct Header {
    flags: u8,
    element: usize,
    size: usize,
    block: usize,
}

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let (header, _) = bytes.split_first_chunk::<16>().ok_or_else(cut_off)?;
    let [_, _, flags, element, a, b, c, d, e, f, g, h, stored @ ..] = *header;
    let number = |bytes| size(u32::from_le_bytes(bytes));
    // What follows the stored size is not part of the chunk.
    let bytes = bytes.get(..number(stored)).ok_or_else(cut_off)?;
    let data = bytes.get(16..).ok_or_else(cut_off)?;
    let header = Header {
        flags,
        element: usize::from(element).max(1),
        size: number([a, b, c, d]),
        block: number([e, f, g, h]),
    };
    bounded(NAME, Some(header.size), limit)?;
    if flags & COPIED != 0 {
        return data.get(..header.size).map(<[u8]>::to_vec).ok_or_else(cut_off);
    }
    if header.block == 0 && header.size > 0 {
        return Err(corrupt(NAME, "blocks of no bytes"));
    }
    let mut out = Vec::with_capacity(header.size);
    let starts = data.as_chunks::<4>().0.iter().map(|start| number(*start));
    for start in starts.take(header.size.div_ceil(header.block.max(1))) {
        let stored = bytes.get(start..).ok_or_else(cut_off)?;
        let size = header.block.min(header.size - out.len());
        out.extend(unshuffle(block(&header, stored, size)?, &header)?);
    }
    Ok(out)
}

fn block(header: &Header, mut stored: &[u8], size: usize) -> Result<Vec<u8>, CodecFailure> {
    let splits = header.flags & ONE_STREAM == 0
        && header.element <= 16
        && header.block / header.element >= 128
        && size == header.block;
    let streams = if splits { header.element } else { 1 };
    let mut out = Vec::with_capacity(size);
    for _ in 0..streams {
        let (length, rest) = stored.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let length = crate::size(u32::from_le_bytes(*length));
        let (stream, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        if length == size / streams {
            out.extend_from_slice(stream);
        } else {
            out.extend(decompress(header.flags >> 5, stream, size / streams)?);
        }
        stored = rest;
    }
    if out.len() != size {
        return Err(corrupt(NAME, format!("a block of {} bytes, expected {size}", out.len())));
    }
    Ok(out)
}

pub(super) fn decompress(format: u8, stream: &[u8], size: usize) -> Result<Vec<u8>, CodecFailure> {
    match format {
        0 => blosclz(stream, size),
        1 => lz4_block(NAME, stream, size),
        3 => streams::decode_zlib(stream, size),
        4 => streams::decode_zstd(stream, size),
        2 => Err(CodecFailure::NoDecoder("blosc with snappy".to_owned())),
        other => Err(corrupt(NAME, format!("compressor {other}"))),
    }
}

/// Decodes BloscLZ: literals, and copies from up to 73,727 bytes before.
fn blosclz(stream: &[u8], size: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut input = stream.iter().map(|byte| usize::from(*byte));
    let mut out: Vec<u8> = Vec::with_capacity(size.min(stream.len().saturating_mul(8)));
    let mut control = input.next().ok_or_else(cut_off)? & 31;
    loop {
        if control < 32 {
            let literal = input.by_ref().take(control + 1).filter_map(|byte| u8::try_from(byte).ok());
            out.extend(literal);
        } else {
            let mut length = (control >> 5) + 2;
            let mut open = control >> 5 == 7;
            while open {
                let more = input.next().ok_or_else(cut_off)?;
                length += more;
                open = more == 255;
            }
            let low = input.next().ok_or_else(cut_off)?;
            let mut distance = ((control & 31) << 8) + low + 1;
            if distance == 8192 {
                let far = (input.next().ok_or_else(cut_off)? << 8) + input.next().ok_or_else(cut_off)?;
                distance += far;
            }
            let start = out.len().checked_sub(distance);
            let start = start.ok_or_else(|| corrupt(NAME, "a copy from before the start"))?;
            let room = size.saturating_sub(out.len());
            lzf::copy(&mut out, start, length.min(room));
        }
        if out.len() >= size {
            out.truncate(size);
            return Ok(out);
        }
        let Some(next) = input.next() else { return Ok(out) };
        control = next;
    }
}

fn unshuffle(block: Vec<u8>, header: &Header) -> Result<Vec<u8>, CodecFailure> {
    let size = header.element;
    if header.flags & SHUFFLED != 0 && size > 1 {
        shuffle::decode(&block, u32::try_from(size).unwrap_or(1))
    } else if header.flags & BIT_SHUFFLED != 0 && (block.len() / size).is_multiple_of(8) {
        Ok(hdf5_bitshuffle::unshuffle(&block, size))
    } else {
        Ok(block)
    }
}

/// Stores the chunk without compression, which every version of Blosc decodes.
pub(super) fn encode(bytes: &[u8], typesize: u32) -> Result<Vec<u8>, CodecFailure> {
    let too_large = || CodecFailure::NoEncoder("a blosc chunk over 2 GiB".to_owned());
    let size = i32::try_from(bytes.len()).map_err(|_| too_large())?;
    let stored = size.checked_add(16).ok_or_else(too_large)?;
    let mut out = vec![2, 1, COPIED, u8::try_from(typesize).unwrap_or(1).max(1)];
    for number in [size, size, stored] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(bytes);
    Ok(out)
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the chunk is truncated")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_its_stored_size() {
        let chunk = encode(b"abcd", 4).unwrap();
        assert_eq!(decode(&[&chunk[..], &[0]].concat(), 4).unwrap(), b"abcd");
        for size in [0_u32, 15, 19, 21, 0xFF00_0014] {
            let chunk = [&chunk[..12], &size.to_le_bytes(), &chunk[16..]].concat();
            assert!(decode(&chunk, 4).is_err(), "{size}");
        }
    }
}
