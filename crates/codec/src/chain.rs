//! Chains of codecs, and the bounds on what they decode to.

use virtualize_zarr::Codec;

use crate::{
    CodecFailure, Scratch,
    codecs::{decode as decode_one, encode as encode_one, fletcher32, streams},
    fast,
};

/// Bytes by which encoders may lengthen even a small chunk: headers, checksums and tables.
const SLACK: usize = 1 << 16;

/// Bound on the bytes between two codecs.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: usize,
    /// Whether a whole chunk has exactly so many.
    exact: bool,
}

/// Decodes a chunk by a chain of codecs, the last first, and returns `expected_len` bytes. Longer output is truncated
/// if no codec depends on the length, as TIFF pads strips.
///
/// # Errors
/// See [`CodecFailure`].
pub fn decode(codecs: &[Codec], bytes: &[u8], expected_len: usize) -> Result<Vec<u8>, CodecFailure> {
    whole(decode_up_to(codecs, bytes, expected_len)?, expected_len)
}

/// Decodes the first bytes of a chunk, at most `most`: as [`decode`], but the chunk may be shorter.
///
/// # Errors
/// See [`CodecFailure`].
pub fn decode_up_to(codecs: &[Codec], bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut data = decode_to_limit(codecs, bytes, most, Excess::Ignored)?;
    data.truncate(most);
    Ok(data)
}

/// Decodes a chunk as Zarr readers do: bytes that decode to more than `expected_len` bytes are an error, and so are bytes
/// after the end of a Zstandard frame.
///
/// # Errors
/// See [`CodecFailure`].
pub fn decode_exact(codecs: &[Codec], bytes: &[u8], expected_len: usize) -> Result<Vec<u8>, CodecFailure> {
    whole(decode_to_limit(codecs, bytes, expected_len, Excess::Refused)?, expected_len)
}

fn whole(data: Vec<u8>, expected: usize) -> Result<Vec<u8>, CodecFailure> {
    if data.len() < expected {
        return Err(CodecFailure::TooShort { expected, found: data.len() });
    }
    Ok(data)
}

/// Decodes a chunk of elements of variable length, and returns all bytes.
///
/// # Errors
/// See [`CodecFailure`]; [`CodecFailure::TooLong`] above `most` bytes.
pub fn decode_variable(codecs: &[Codec], bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecFailure> {
    let data = decode_to_limit(codecs, bytes, most.saturating_add(1), Excess::Ignored)?;
    if data.len() > most {
        return Err(CodecFailure::TooLong { codec: "chunk".to_owned(), limit: most });
    }
    Ok(data)
}

/// Treatment of bytes after the end of a chunk.
#[derive(Clone, Copy, PartialEq)]
enum Excess {
    Ignored,
    Refused,
}

/// Decodes to at most `most` bytes.
fn decode_to_limit(
    codecs: &[Codec],
    bytes: &[u8],
    most: usize,
    excess: Excess,
) -> Result<Vec<u8>, CodecFailure> {
    let too_long = |codec: &str, limit| CodecFailure::TooLong { codec: codec.to_owned(), limit };
    let limits = limits(codecs, most);
    let mut data: Option<Vec<u8>> = None;
    for (index, (codec, limit)) in codecs.iter().zip(&limits).enumerate().rev() {
        let input = data.as_deref().unwrap_or(bytes);
        if excess == Excess::Refused
            && matches!(codec, Codec::Zstd { .. })
            && !streams::ends_with_zstd_frame(input)
        {
            return Err(too_long(&codec.describe(), limit.bytes));
        }
        let Some(mut output) = decode_one(codec, input, limit.bytes)? else { continue };
        if output.len() > limit.bytes {
            let rest = codecs.get(..index).unwrap_or_default();
            if excess == Excess::Refused || !limit.exact || !rest.iter().all(Codec::decodes_prefixes) {
                return Err(too_long(&codec.describe(), limit.bytes));
            }
            output.truncate(limit.bytes);
        }
        data = Some(output);
    }
    if excess == Excess::Refused && data.is_none() && bytes.len() > most {
        return Err(too_long("chunk", most));
    }
    Ok(data.unwrap_or_else(|| bytes.iter().copied().take(most).collect()))
}

/// Decodes a chunk that fills `out`, without allocating memory for each codec. `None` if [`decode`] must decide.
pub(crate) fn decode_fast(
    codecs: &[Codec],
    bytes: &[u8],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Option<()> {
    let limits = limits(codecs, out.len());
    let steps = codecs.iter().zip(&limits).enumerate().filter(|(_, (codec, _))| !fast::keeps(codec));
    let mut steps = steps.rev().peekable();
    let Scratch { buffers: [one, other], fast: state } = scratch;
    let (mut current, mut next) = (one, other);
    // Length of the data in `current`; `None` while it is in `bytes`.
    let mut decoded: Option<usize> = None;
    let mut stored = bytes.len();
    while let Some((index, (codec, limit))) = steps.next() {
        let input = match decoded {
            None => bytes.get(..stored)?,
            Some(length) => current.get(..length)?,
        };
        if matches!(codec, Codec::Fletcher32) {
            let length = fletcher32::verified(input).ok()?.len();
            *decoded.as_mut().unwrap_or(&mut stored) = length;
            continue;
        }
        let may_be_longer = codecs.get(..index)?.iter().all(Codec::decodes_prefixes);
        if !limit.exact || !may_be_longer && matches!(codec, Codec::Lzw) {
            return None;
        }
        if steps.peek().is_none() {
            return fast::decode(codec, input, out, state);
        }
        if !fast::is_plausible(input.len(), limit.bytes) {
            return None;
        }
        next.resize(limit.bytes, 0);
        fast::decode(codec, input, next, state)?;
        decoded = Some(limit.bytes);
        std::mem::swap(&mut current, &mut next);
    }
    let input = match decoded {
        None => bytes.get(..stored)?,
        Some(length) => current.get(..length)?,
    };
    out.copy_from_slice(input.get(..out.len())?);
    Some(())
}

/// Encodes a chunk by a chain of codecs, the first first.
///
/// # Errors
/// [`CodecFailure::NoEncoder`], or parameters that do not fit the bytes.
pub fn encode(codecs: &[Codec], bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let mut data = bytes.to_vec();
    for codec in codecs {
        if let Some(encoded) = encode_one(codec, &data)? {
            data = encoded;
        }
    }
    Ok(data)
}

/// Returns the bound on the output of each codec's decoder. The input of a compressor is hardly longer than the chunk,
/// however many compressors there are, so one bound holds for all of them: a chain of compressors cannot multiply.
fn limits(codecs: &[Codec], expected_len: usize) -> Vec<Limit> {
    let most = expected_len.saturating_mul(2).saturating_add(SLACK);
    let mut limit = Limit { bytes: expected_len, exact: true };
    let mut limits = Vec::with_capacity(codecs.len());
    for codec in codecs {
        limits.push(limit);
        limit = match codec.encoded_length(limit.bytes as u64) {
            Some(bytes) => Limit { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), ..limit },
            None => Limit { bytes: most, exact: false },
        };
    }
    limits
}
