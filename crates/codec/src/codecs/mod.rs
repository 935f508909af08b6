//! Decoders and encoders, one file per codec of the table in `virtualize-zarr` ([`Codec`]).
//!
//! A decoder gets the stored bytes and a limit, and returns at most one byte more than that, from which the chain knows
//! that the chunk is too long.

mod blosc;
mod blosc2;
pub(crate) mod fletcher32;
mod hdf5_bitshuffle;
pub(crate) mod hdf5_lz4;
mod hdf5_nbit;
mod hdf5_scale_offset;
mod hdf5_szip;
mod lzf;
mod lzo;
pub(crate) mod lzw;
mod numbers;
mod numcodecs;
mod packbits;
pub(crate) mod predictor;
pub(crate) mod shuffle;
pub(crate) mod streams;

use virtualize_zarr::Codec;

use self::predictor::Layout;
use crate::{CodecFailure, bounded, parameters};

/// Decodes stored bytes by one codec to at most `limit` bytes; `None` means that they stay as they are.
///
/// # Errors
/// See [`CodecFailure`].
pub(crate) fn decode(codec: &Codec, bytes: &[u8], limit: usize) -> Result<Option<Vec<u8>>, CodecFailure> {
    match codec {
        Codec::Own(codec) => return decode(codec, bytes, limit),
        // Chunks here are in stored order, with numbers in the array's byte order.
        Codec::Transpose { .. }
        | Codec::Bytes { .. }
        | Codec::ReversedBytes { .. }
        | Codec::VlenUtf8
        | Codec::VlenBytes
        | Codec::Rounded { .. } => return Ok(None),
        Codec::Delta { axis, dtype, shape } => {
            let mut out = bytes.to_vec();
            Layout::new(*axis, dtype, shape)?.decode_delta(&mut out);
            Ok(out)
        }
        Codec::FloatPredictor { axis, dtype, shape } => {
            let mut out = vec![0; bytes.len()];
            let written = Layout::new(*axis, dtype, shape)?.decode_floats(bytes, &mut out);
            out.truncate(written);
            Ok(out)
        }
        Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => {
            numbers::Packed::new(*bits_per_sample, *run_length, dtype)?.decode(bytes, limit)
        }
        Codec::Integers { size, endian, stored } => {
            numbers::Integers::new(*size, *endian, *stored)?.decode(bytes, limit)
        }
        Codec::ComplexIntegers { dtype } => numbers::Complex::new(dtype)?.decode(bytes, limit),
        Codec::Gzip { .. } => streams::decode_gzip(bytes, limit),
        Codec::Zlib { .. } => streams::decode_zlib(bytes, limit),
        Codec::Zstd { .. } => streams::decode_zstd(bytes, limit),
        Codec::Lz4 { .. } => numcodecs::decode_lz4(bytes, limit),
        Codec::Bz2 { .. } => streams::decode_bz2(bytes, limit),
        Codec::Lzma { format } => streams::decode_lzma(bytes, *format, limit),
        Codec::Blosc { .. } => blosc::decode(bytes, limit),
        Codec::Blosc2 => blosc2::decode(bytes, limit),
        Codec::Shuffle { element_size } => shuffle::decode(bytes, *element_size),
        Codec::Fletcher32 => fletcher32::verified(bytes).map(<[u8]>::to_vec),
        Codec::Checksum { name, is_at_end } => {
            numcodecs::verified(bytes, name, *is_at_end).map(<[u8]>::to_vec)
        }
        Codec::Difference { dtype } => {
            let size = dtype.get(2..).and_then(|size| size.parse().ok()).unwrap_or(1).max(1);
            let mut out = bytes.to_vec();
            Layout::new(0, dtype, &[(bytes.len() as u64 / size).max(1)])?.decode_delta(&mut out);
            Ok(out)
        }
        Codec::PackedBools => numcodecs::decode_bools(bytes, limit),
        Codec::FixedScaleOffset { offset, scale, dtype, astype } => {
            numcodecs::decode_scaled(bytes, *offset, *scale, dtype, astype, limit)
        }
        Codec::Lzw => lzw::decode(bytes, limit),
        Codec::PackBits => packbits::decode(bytes, limit),
        Codec::Lzf => lzf::decode(bytes, limit),
        Codec::BitOrder => Ok(reversed_bits(bytes)),
        Codec::Lzo { configuration } => lzo::decode(bytes, configuration, limit),
        Codec::Hdf5Lz4 => hdf5_lz4::decode(bytes, limit),
        Codec::Hdf5Szip(client_data) => hdf5_szip::decode(bytes, client_data, limit),
        Codec::Hdf5Nbit(client_data) => hdf5_nbit::decode(bytes, client_data, limit),
        Codec::Hdf5ScaleOffset(client_data) => hdf5_scale_offset::decode(bytes, client_data, limit),
        Codec::Hdf5Bitshuffle(client_data) => hdf5_bitshuffle::decode(bytes, client_data, limit),
        Codec::Lerc { .. } => crate::lerc::decode_chunk(bytes, codec, limit),
        Codec::Image { name, configuration } => crate::image::decode(name, configuration, bytes, limit),
        // Chunks of exactly `size` bytes are stored unchanged.
        Codec::Optional { size, codecs } => {
            let size = bounded("optional", Some(crate::size(*size)), limit)?;
            if bytes.len() == size { Ok(bytes.to_vec()) } else { crate::decode(codecs, bytes, size) }
        }
        #[cfg(feature = "rare")]
        Codec::Sz { .. }
        | Codec::Sz3 { .. }
        | Codec::Sperr { .. }
        | Codec::Zfp { .. }
        | Codec::JpegLs { .. }
        | Codec::Tiff(_) => crate::rare::decode(codec, bytes, limit),
        #[cfg(not(feature = "rare"))]
        Codec::Sz { .. }
        | Codec::Sz3 { .. }
        | Codec::Sperr { .. }
        | Codec::Zfp { .. }
        | Codec::JpegLs { .. }
        | Codec::Tiff(_) => {
            let name = codec.describe();
            Err(CodecFailure::NoDecoder(format!("{name} (needs a build with the cargo feature `full`)")))
        }
        // Arithmetic needs the type of the elements: `crate::decode_values` runs it. Only readers decode the others.
        Codec::ScaleOffset { .. } | Codec::CastValue { .. } | Codec::Foreign { .. } => {
            Err(CodecFailure::NoDecoder(codec.describe()))
        }
    }
    .map(Some)
}

/// Encodes bytes by one codec; `None` means that they stay as they are.
///
/// # Errors
/// See [`CodecFailure`].
pub(crate) fn encode(codec: &Codec, bytes: &[u8]) -> Result<Option<Vec<u8>>, CodecFailure> {
    match codec {
        Codec::Own(codec) => return encode(codec, bytes),
        Codec::Transpose { .. }
        | Codec::Bytes { .. }
        | Codec::ReversedBytes { .. }
        | Codec::VlenUtf8
        | Codec::VlenBytes => return Ok(None),
        Codec::Delta { axis, dtype, shape } => Ok(Layout::new(*axis, dtype, shape)?.encode_delta(bytes)),
        Codec::FloatPredictor { axis, dtype, shape } => {
            Ok(Layout::new(*axis, dtype, shape)?.encode_floats(bytes))
        }
        Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => {
            numbers::Packed::new(*bits_per_sample, *run_length, dtype)?.encode(bytes)
        }
        Codec::Integers { size, endian, stored } => {
            numbers::Integers::new(*size, *endian, *stored)?.encode(bytes)
        }
        Codec::ComplexIntegers { dtype } => numbers::Complex::new(dtype)?.encode(bytes),
        Codec::Gzip { level } => streams::encode_gzip(bytes, *level),
        Codec::Zlib { level } => streams::encode_zlib(bytes, *level),
        Codec::Zstd { .. } => streams::encode_zstd(bytes),
        Codec::Lz4 { .. } => numcodecs::encode_lz4(bytes),
        Codec::Checksum { name, is_at_end } => numcodecs::add_checksum(bytes, name, *is_at_end),
        Codec::Bz2 { level } => streams::encode_bz2(bytes, *level),
        Codec::Lzma { format } => streams::encode_lzma(bytes, *format),
        Codec::Blosc { typesize, .. } => blosc::encode(bytes, *typesize),
        Codec::Shuffle { element_size } => shuffle::encode(bytes, *element_size),
        Codec::Fletcher32 => fletcher32::encode(bytes),
        Codec::Lzw => lzw::encode(bytes),
        Codec::PackBits => packbits::encode(bytes),
        Codec::Lzf => lzf::encode(bytes),
        Codec::BitOrder => Ok(reversed_bits(bytes)),
        Codec::Hdf5Lz4 => hdf5_lz4::encode(bytes),
        Codec::Hdf5Szip(client_data) => hdf5_szip::encode(bytes, client_data),
        Codec::Optional { size, .. } if bytes.len() as u64 != *size => {
            Err(parameters("optional", format!("{} bytes, expected {size}", bytes.len())))
        }
        // A chunk stays unchanged if no encoder gives it another number of bytes.
        Codec::Optional { codecs, .. } => match crate::encode(codecs, bytes) {
            Ok(encoded) if encoded.len() != bytes.len() => Ok(encoded),
            Ok(_) | Err(CodecFailure::NoEncoder(_)) => Ok(bytes.to_vec()),
            Err(other) => Err(other),
        },
        _ => Err(CodecFailure::NoEncoder(codec.describe())),
    }
    .map(Some)
}

/// Reverses the bits of each byte: TIFF's FillOrder 2 (TIFF 6.0, section 8).
pub(crate) fn reversed_bits(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.reverse_bits()).collect()
}
