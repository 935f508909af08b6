//! Chains of codecs.

use virtualize_zarr::Codec;

use crate::{
    CodecFailure, bitshuffle, blosc, compressors, fletcher, lz4, lzf, nbit, packbits, packints, predictor,
    scale_offset, shuffle, szip, tiff,
};

/// Bytes by which encoders may lengthen a chunk, however small it is: heads, checksums and tables.
const SLACK: usize = 1 << 16;

/// How long the bytes between two codecs may be.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: usize,
    /// Whether a whole chunk has just so many.
    exact: bool,
}

/// Undoes a chain of codecs, the last first, and returns `expected_len` bytes. What is longer is cut off where no codec
/// depends on the length (TIFF pads).
///
/// # Errors
/// See [`CodecFailure`].
pub fn decode(codecs: &[Codec], bytes: &[u8], expected_len: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut data = undone(codecs, bytes, expected_len)?;
    if data.len() < expected_len {
        return Err(CodecFailure::TooShort { expected: expected_len, found: data.len() });
    }
    data.truncate(expected_len);
    Ok(data)
}

/// Undoes a chain of codecs whose elements have any length, and returns all bytes.
///
/// # Errors
/// See [`CodecFailure`]; more than `most` bytes.
pub fn decode_variable(codecs: &[Codec], bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecFailure> {
    let data = undone(codecs, bytes, most.saturating_add(1))?;
    if data.len() > most {
        return Err(CodecFailure::TooLong { codec: "chunk".to_owned(), limit: most });
    }
    Ok(data)
}

/// Undoes a chain of codecs; at most `most` bytes.
fn undone(codecs: &[Codec], bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecFailure> {
    let limits = limits(codecs, most);
    let mut data: Option<Vec<u8>> = None;
    for (index, (codec, limit)) in codecs.iter().zip(&limits).enumerate().rev() {
        let input = data.as_deref().unwrap_or(bytes);
        let Some(mut output) = decode_one(codec, input, limit.bytes)? else { continue };
        if output.len() > limit.bytes {
            let rest = codecs.get(..index).unwrap_or_default();
            if !limit.exact || !rest.iter().all(ignores_length) {
                return Err(CodecFailure::TooLong { codec: codec.describe(), limit: limit.bytes });
            }
            output.truncate(limit.bytes);
        }
        data = Some(output);
    }
    Ok(data.unwrap_or_else(|| bytes.iter().copied().take(most).collect()))
}

/// Applies a chain of codecs, the first first.
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

/// `None`: the bytes stay as they are. Decoders return at most one byte more than `limit`.
fn decode_one(codec: &Codec, bytes: &[u8], limit: usize) -> Result<Option<Vec<u8>>, CodecFailure> {
    match codec {
        Codec::Transpose { .. }
        | Codec::Bytes { .. }
        | Codec::ReversedBytes { .. }
        | Codec::VlenUtf8
        | Codec::VlenBytes => {
            return Ok(None);
        }
        Codec::Delta { axis, dtype, shape } => predictor::delta_decode(bytes, *axis, dtype, shape),
        Codec::FloatPredictor { axis, dtype, shape } => predictor::float_decode(bytes, *axis, dtype, shape),
        Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => {
            packints::decode(bytes, *bits_per_sample, *run_length, dtype, limit)
        }
        Codec::Gzip { .. } => compressors::gzip_decode(bytes, limit),
        Codec::Zlib { .. } => compressors::zlib_decode(bytes, limit),
        Codec::Zstd { .. } => compressors::zstd_decode(bytes, limit),
        Codec::Bz2 { .. } => compressors::bz2_decode(bytes, limit),
        Codec::Lzma { format } => compressors::lzma_decode(bytes, *format, limit),
        Codec::Lzw => compressors::lzw_decode(bytes, limit),
        Codec::PackBits => packbits::decode(bytes, limit),
        Codec::Lzf => lzf::decode(bytes, limit),
        Codec::Hdf5Lz4 => lz4::decode(bytes, limit),
        Codec::Blosc { .. } => blosc::decode(bytes, limit),
        Codec::Shuffle { element_size } => Ok(shuffle::decode(bytes, *element_size)),
        Codec::BitOrder => Ok(shuffle::reverse_bits(bytes)),
        Codec::Fletcher32 => fletcher::decode(bytes),
        Codec::Hdf5Szip(client_data) => szip::decode(bytes, client_data, limit),
        Codec::Hdf5Nbit(client_data) => nbit::decode(bytes, client_data, limit),
        Codec::Hdf5ScaleOffset(client_data) => scale_offset::decode(bytes, client_data, limit),
        Codec::Hdf5Bitshuffle(client_data) => bitshuffle::decode(bytes, client_data, limit),
        Codec::Tiff(scheme) => tiff::decode(scheme, bytes, limit),
        Codec::ScaleOffset { .. }
        | Codec::CastValue { .. }
        | Codec::Image { .. }
        | Codec::Blosc2Nd
        | Codec::Foreign { .. }
        | Codec::Lzo { .. } => {
            return Err(CodecFailure::NoDecoder(codec.describe()));
        }
    }
    .map(Some)
}

fn encode_one(codec: &Codec, bytes: &[u8]) -> Result<Option<Vec<u8>>, CodecFailure> {
    match codec {
        Codec::Transpose { .. }
        | Codec::Bytes { .. }
        | Codec::ReversedBytes { .. }
        | Codec::VlenUtf8
        | Codec::VlenBytes => {
            return Ok(None);
        }
        Codec::Delta { axis, dtype, shape } => predictor::delta_encode(bytes, *axis, dtype, shape),
        Codec::FloatPredictor { axis, dtype, shape } => predictor::float_encode(bytes, *axis, dtype, shape),
        Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => {
            packints::encode(bytes, *bits_per_sample, *run_length, dtype)
        }
        Codec::Gzip { level } => compressors::gzip_encode(bytes, *level),
        Codec::Zlib { level } => compressors::zlib_encode(bytes, *level),
        Codec::Zstd { .. } => Ok(compressors::zstd_encode(bytes)),
        Codec::Bz2 { level } => compressors::bz2_encode(bytes, *level),
        Codec::Lzma { format } => compressors::lzma_encode(bytes, *format),
        Codec::Lzw => compressors::lzw_encode(bytes),
        Codec::PackBits => Ok(packbits::encode(bytes)),
        Codec::Lzf => Ok(lzf::encode(bytes)),
        Codec::Hdf5Lz4 => lz4::encode(bytes),
        Codec::Blosc { typesize, .. } => blosc::encode(bytes, *typesize),
        Codec::Shuffle { element_size } => Ok(shuffle::encode(bytes, *element_size)),
        Codec::BitOrder => Ok(shuffle::reverse_bits(bytes)),
        Codec::Fletcher32 => Ok(fletcher::encode(bytes)),
        Codec::Hdf5Szip(client_data) => szip::encode(bytes, client_data),
        Codec::ScaleOffset { .. }
        | Codec::CastValue { .. }
        | Codec::Image { .. }
        | Codec::Blosc2Nd
        | Codec::Foreign { .. }
        | Codec::Lzo { .. }
        | Codec::Hdf5Nbit(_)
        | Codec::Tiff(_)
        | Codec::Hdf5ScaleOffset(_)
        | Codec::Hdf5Bitshuffle(_) => return Err(CodecFailure::NoEncoder(codec.describe())),
    }
    .map(Some)
}

/// For each codec, how long the bytes may be that it decodes to. What compressors were given is little longer than the
/// chunk, however many there are: one bound holds for all of them, so that a chain of them is no bomb.
fn limits(codecs: &[Codec], expected_len: usize) -> Vec<Limit> {
    let most = expected_len.saturating_mul(2).saturating_add(SLACK);
    let mut limit = Limit { bytes: expected_len, exact: true };
    let mut limits = Vec::with_capacity(codecs.len());
    for codec in codecs {
        limits.push(limit);
        limit = match codec {
            Codec::Fletcher32 => Limit { bytes: limit.bytes.saturating_add(4), ..limit },
            Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => Limit {
                bytes: packints::encoded_len(limit.bytes, *bits_per_sample, *run_length, dtype),
                ..limit
            },
            Codec::Shuffle { .. } => limit,
            same if ignores_length(same) => limit,
            _ => Limit { bytes: most, exact: false },
        };
    }
    limits
}

/// Whether the first bytes decode alike however many follow.
fn ignores_length(codec: &Codec) -> bool {
    matches!(
        codec,
        Codec::Transpose { .. }
            | Codec::Bytes { .. }
            | Codec::ReversedBytes { .. }
            | Codec::VlenUtf8
            | Codec::VlenBytes
            | Codec::Delta { .. }
            | Codec::FloatPredictor { .. }
            | Codec::PackBitsOfIntegers { .. }
            | Codec::BitOrder
    )
}
