//! Decoders and encoders, one file per codec of the table in `virtualize-zarr` ([`Codec`]).
//!
//! A decoder gets the stored bytes and a limit, and returns at most one byte more than that, from which the chain knows
//! that the chunk is too long.

mod bit_order;
mod blosc;
mod blosc2;
mod bz2;
mod complex_integers;
mod delta;
pub(crate) mod fletcher32;
mod float_predictor;
mod gzip;
mod hdf5_bitshuffle;
pub(crate) mod hdf5_lz4;
mod hdf5_nbit;
mod hdf5_scale_offset;
mod hdf5_szip;
mod integers;
mod jpegls;
mod lerc;
mod lzf;
mod lzma;
mod lzo;
pub(crate) mod lzw;
mod optional;
mod packbits;
mod packints;
pub(crate) mod predictor;
mod shuffle;
mod sperr;
mod stream;
mod sz;
mod sz3;
mod tiff;
mod zfp;
pub(crate) mod zlib;
pub(crate) mod zstd;

use virtualize_zarr::Codec;

use crate::CodecFailure;

/// Direction in which a codec runs.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// From stored bytes towards the array, to at most `limit` bytes.
    Decode { limit: usize },
    /// From the array towards stored bytes.
    Encode,
}

/// Decodes or encodes bytes by one codec; `None` means that they stay as they are.
///
/// # Errors
/// See [`CodecFailure`].
pub(crate) fn run(
    codec: &Codec,
    bytes: &[u8],
    direction: Direction,
) -> Result<Option<Vec<u8>>, CodecFailure> {
    let step = Step { codec, bytes, direction };
    match codec {
        // Chunks here are in stored order, with numbers in the array's byte order.
        Codec::Transpose { .. }
        | Codec::Bytes { .. }
        | Codec::ReversedBytes { .. }
        | Codec::VlenUtf8
        | Codec::VlenBytes => return Ok(None),
        Codec::Delta { axis, dtype, shape } => step.run(
            |bytes, _| delta::decode(bytes, *axis, dtype, shape),
            |bytes| delta::encode(bytes, *axis, dtype, shape),
        ),
        Codec::FloatPredictor { axis, dtype, shape } => step.run(
            |bytes, _| float_predictor::decode(bytes, *axis, dtype, shape),
            |bytes| float_predictor::encode(bytes, *axis, dtype, shape),
        ),
        Codec::PackBitsOfIntegers { bits_per_sample: bits, run_length, dtype } => step.run(
            |bytes, limit| packints::decode(bytes, *bits, *run_length, dtype, limit),
            |bytes| packints::encode(bytes, *bits, *run_length, dtype),
        ),
        Codec::Gzip { level } => step.run(gzip::decode, |bytes| gzip::encode(bytes, *level)),
        Codec::Zlib { level } => step.run(zlib::decode, |bytes| zlib::encode(bytes, *level)),
        Codec::Zstd { .. } => step.run(zstd::decode, zstd::encode),
        Codec::Blosc { typesize, .. } => step.run(blosc::decode, |bytes| blosc::encode(bytes, *typesize)),
        Codec::Shuffle { element_size } => step.run(
            |bytes, _| shuffle::decode(bytes, *element_size),
            |bytes| shuffle::encode(bytes, *element_size),
        ),
        Codec::Fletcher32 => step.run(|bytes, _| fletcher32::decode(bytes), fletcher32::encode),
        Codec::Bz2 { level } => step.run(bz2::decode, |bytes| bz2::encode(bytes, *level)),
        Codec::Lzma { format } => {
            step.run(|bytes, limit| lzma::decode(bytes, *format, limit), |bytes| lzma::encode(bytes, *format))
        }
        Codec::Lzw => step.run(lzw::decode, lzw::encode),
        Codec::PackBits => step.run(packbits::decode, packbits::encode),
        Codec::Lzf => step.run(lzf::decode, lzf::encode),
        Codec::BitOrder => step.run(|bytes, _| bit_order::reverse(bytes), bit_order::reverse),
        Codec::Hdf5Lz4 => step.run(hdf5_lz4::decode, hdf5_lz4::encode),
        Codec::Hdf5Szip(client_data) => step.run(
            |bytes, limit| hdf5_szip::decode(bytes, client_data, limit),
            |bytes| hdf5_szip::encode(bytes, client_data),
        ),
        // Arrays are never written in these.
        Codec::Hdf5Nbit(client_data) => {
            step.decode_only(|bytes, limit| hdf5_nbit::decode(bytes, client_data, limit))
        }
        Codec::Hdf5ScaleOffset(client_data) => {
            step.decode_only(|bytes, limit| hdf5_scale_offset::decode(bytes, client_data, limit))
        }
        Codec::Hdf5Bitshuffle(client_data) => {
            step.decode_only(|bytes, limit| hdf5_bitshuffle::decode(bytes, client_data, limit))
        }
        Codec::Tiff(scheme) => step.decode_only(|bytes, limit| tiff::decode(scheme, bytes, limit)),
        Codec::Blosc2 => step.decode_only(blosc2::decode),
        Codec::Sperr { dtype, shape, has_mode } => {
            let width = if *dtype == "<f4" { 4 } else { 8 };
            step.decode_only(|bytes, limit| sperr::decode(bytes, (width, shape), *has_mode, limit))
        }
        Codec::Sz { dtype, shape } => {
            let width = if *dtype == "<f4" { 4 } else { 8 };
            step.decode_only(|bytes, limit| sz::decode(bytes, (width, shape), limit))
        }
        Codec::Sz3 { dtype } => step.decode_only(|bytes, limit| sz3::decode(bytes, dtype, limit)),
        Codec::JpegLs { by_pixel } => {
            step.decode_only(|bytes, limit| jpegls::decode(bytes, *by_pixel, limit))
        }
        Codec::Lzo { configuration } => {
            step.decode_only(|bytes, limit| lzo::decode(bytes, configuration, limit))
        }
        Codec::Optional { size, codecs } => step.run(
            |bytes, limit| optional::decode(bytes, codecs, *size, limit),
            |bytes| optional::encode(bytes, codecs, *size),
        ),
        Codec::Integers { size, endian, stored } => step.run(
            |bytes, limit| integers::decode(bytes, (*size, *endian, *stored), limit),
            |bytes| integers::encode(bytes, (*size, *endian, *stored)),
        ),
        Codec::ComplexIntegers { dtype } => step.run(
            |bytes, limit| complex_integers::decode(bytes, dtype, limit),
            |bytes| complex_integers::encode(bytes, dtype),
        ),
        Codec::Lerc { .. } => step.decode_only(|bytes, limit| lerc::decode(bytes, codec, limit)),
        Codec::Zfp { .. } => step.decode_only(|bytes, limit| zfp::decode(bytes, codec, limit)),
        Codec::Own(codec) => return run(codec, bytes, direction),
        // They need the type of the elements: `crate::values` runs them.
        Codec::ScaleOffset { .. } | Codec::CastValue { .. } => step.unsupported(),
        // Only clients decode them.
        Codec::Image { .. } | Codec::Foreign { .. } => step.unsupported(),
    }
    .map(Some)
}

/// One codec, and what it is given.
#[derive(Clone, Copy)]
struct Step<'a> {
    codec: &'a Codec,
    bytes: &'a [u8],
    direction: Direction,
}

impl Step<'_> {
    fn run(
        self,
        decode: impl FnOnce(&[u8], usize) -> Result<Vec<u8>, CodecFailure>,
        encode: impl FnOnce(&[u8]) -> Result<Vec<u8>, CodecFailure>,
    ) -> Result<Vec<u8>, CodecFailure> {
        match self.direction {
            Direction::Decode { limit } => decode(self.bytes, limit),
            Direction::Encode => encode(self.bytes),
        }
    }

    fn decode_only(
        self,
        decode: impl FnOnce(&[u8], usize) -> Result<Vec<u8>, CodecFailure>,
    ) -> Result<Vec<u8>, CodecFailure> {
        self.run(decode, |_| self.unsupported())
    }

    fn unsupported(self) -> Result<Vec<u8>, CodecFailure> {
        Err(match self.direction {
            Direction::Decode { .. } => CodecFailure::NoDecoder(self.codec.describe()),
            Direction::Encode => CodecFailure::NoEncoder(self.codec.describe()),
        })
    }
}
