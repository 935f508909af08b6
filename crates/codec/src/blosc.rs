//! Blosc 1 chunks.
//!
//! ```text
//! 1  format version, 2        4  decoded size, little-endian
//! 1  compressor's version     4  size of a block
//! 1  flags                    4  stored size
//! 1  size of an element       …  the chunk as it is, with flag 2
//! ```

use crate::{CodecFailure, corrupt};

const NAME: &str = "blosc";

/// Flag: the chunk is stored as it is.
const COPIED: u8 = 2;

/// Decodes chunks that are stored as they are.
pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let (header, data) =
        bytes.split_first_chunk::<16>().ok_or_else(|| corrupt(NAME, "the header is cut off"))?;
    let [_, _, flags, _, a, b, c, d, ..] = *header;
    let size = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if size > limit {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    if flags & COPIED == 0 {
        return Err(CodecFailure::NoDecoder("a compressed blosc chunk".to_owned()));
    }
    data.get(..size).map(<[u8]>::to_vec).ok_or_else(|| corrupt(NAME, "the chunk is cut off"))
}

/// Stores the chunk as it is, which every Blosc reads.
pub(crate) fn encode(bytes: &[u8], typesize: u32) -> Result<Vec<u8>, CodecFailure> {
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
