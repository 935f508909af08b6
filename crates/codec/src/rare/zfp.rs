//! ZFP streams, by the crate `zfp-rs`. HDF5 filter 32013 (H5Z-ZFP) keeps the header of its streams in the client data;
//! `imagecodecs_zfp` has it at the start of each chunk.

use virtualize_zarr::Codec;
use zfp_rs::{ZfpBitStream, ZfpConfig, ZfpFieldMut, ZfpScalar};

use crate::{CodecFailure, bounded, corrupt, parameters};

const NAME: &str = "zfp";

/// A stream, and how its blocks were encoded.
struct Stream<'a> {
    bytes: &'a [u8],
    config: ZfpConfig,
    /// Fastest axis first; 0 for axes that do not exist.
    dims: [usize; 4],
    count: usize,
}

/// Decodes a stream without header ([`Codec::Zfp`]) to at most `limit` bytes of little-endian numbers.
pub(crate) fn decode(bytes: &[u8], codec: &Codec, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let Codec::Zfp { dtype, shape, min_bits, max_bits, max_precision, min_exponent } = codec else {
        return Err(parameters(NAME, "no parameters"));
    };
    let config = ZfpConfig::expert(*min_bits, *max_bits, *max_precision, *min_exponent);
    let size = if dtype.ends_with('8') { 8 } else { 4 };
    let (dims, count) = dims(shape).ok_or_else(|| parameters(NAME, format!("streams of {shape:?}")))?;
    bounded(NAME, count.checked_mul(size), limit)?;
    let stream = Stream { bytes, config: config.map_err(|why| parameters(NAME, why))?, dims, count };
    match *dtype {
        "<i4" => stream.numbers(i32::to_le_bytes),
        "<i8" => stream.numbers(i64::to_le_bytes),
        "<f4" => stream.numbers(f32::to_le_bytes),
        "<f8" => stream.numbers(f64::to_le_bytes),
        other => Err(parameters(NAME, format!("elements of type {other}"))),
    }
}

/// Returns a shape, slowest axis first, as ZFP has it, with its number of elements.
fn dims(shape: &[u64]) -> Option<([usize; 4], usize)> {
    let mut dims = [0; 4];
    if shape.is_empty() || shape.len() > dims.len() || shape.contains(&0) {
        return None;
    }
    let mut count = 1_usize;
    for (dim, size) in dims.iter_mut().zip(shape.iter().rev()) {
        *dim = usize::try_from(*size).ok()?;
        count = count.checked_mul(*dim)?;
    }
    Some((dims, count))
}

impl Stream<'_> {
    fn numbers<T: ZfpScalar + Copy + Default, const N: usize>(
        &self,
        bytes_of: fn(T) -> [u8; N],
    ) -> Result<Vec<u8>, CodecFailure> {
        let mut numbers = vec![T::default(); self.count];
        let mut field = ZfpFieldMut::new(&mut numbers, self.dims).map_err(|why| parameters(NAME, why))?;
        let mut stream = ZfpBitStream::from_words(words(self.bytes));
        stream.decompress(&self.config, &mut field).map_err(|why| corrupt(NAME, why))?;
        Ok(numbers.into_iter().flat_map(bytes_of).collect())
    }
}

/// Returns the 64-bit words of a stream, which are little-endian in files. `ZfpBitStream::from_bytes` takes the byte order
/// of the processor.
fn words(bytes: &[u8]) -> Vec<u64> {
    let (whole, rest) = bytes.as_chunks();
    let mut words: Vec<u64> = whole.iter().copied().map(u64::from_le_bytes).collect();
    if !rest.is_empty() {
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        words.push(u64::from_le_bytes(last));
    }
    words
}
