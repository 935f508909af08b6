//! Decoding of many chunks with the same codecs into memory of the caller.

use virtualize_zarr::{Arithmetic, Codec, DataType};

use crate::{CodecFailure, chain, parameters};

/// Decodes bytes by codecs to so many bytes.
type DecodeChain = fn(&[Codec], &[u8], usize) -> Result<Vec<u8>, CodecFailure>;

/// Decodes chunks of one array and one shape.
#[derive(Debug)]
pub struct Decoder {
    arithmetic: Arithmetic,
    /// The codecs that work on bytes.
    codecs: Vec<Codec>,
    endian: virtualize_zarr::Endian,
    /// Bytes of an element of the array.
    size: usize,
}

/// Memory that is used again for the next chunk.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) buffers: [Vec<u8>; 2],
    pub(crate) fast: crate::fast::State,
}

impl Decoder {
    /// Creates a decoder for elements of a fixed-size type.
    ///
    /// # Errors
    /// As [`crate::decode_values`].
    pub fn new(data_type: &DataType, codecs: &[Codec]) -> Result<Self, CodecFailure> {
        let arithmetic = Arithmetic::new(data_type, codecs)?;
        let size = data_type.size().and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or_else(|| parameters("chunk", format!("elements of {data_type}")))?;
        let codecs_of_bytes = codecs.iter().filter(|codec| !codec.is_arithmetic()).cloned().collect();
        Ok(Self { arithmetic, codecs: codecs_of_bytes, endian: Codec::endian_of(codecs), size })
    }

    /// Returns whether a chunk of so many stored bytes may decode to `length` bytes, so that memory for them can be
    /// allocated in advance. Otherwise, use [`Decoder::decode_growing`].
    pub fn is_plausible(stored: usize, length: usize) -> bool {
        crate::fast::is_plausible(stored, length)
    }

    /// Decodes a chunk into `out`, which has exactly its length: elements of the array's type in stored order.
    ///
    /// # Errors
    /// As [`crate::decode_values`].
    pub fn decode(&self, bytes: &[u8], out: &mut [u8], scratch: &mut Scratch) -> Result<(), CodecFailure> {
        if self.arithmetic.is_empty() && chain::decode_fast(&self.codecs, bytes, out, scratch).is_some() {
            return Ok(());
        }
        let elements = self.decode_growing(bytes, out.len() / self.size.max(1))?;
        let short = CodecFailure::TooShort { expected: out.len(), found: elements.len() };
        out.copy_from_slice(elements.get(..out.len()).ok_or(short)?);
        Ok(())
    }

    /// Decodes a chunk of `count` elements without allocating memory before there are bytes for it.
    ///
    /// # Errors
    /// As [`crate::decode_values`], but bytes after the end of the chunk are ignored.
    pub fn decode_growing(&self, bytes: &[u8], count: usize) -> Result<Vec<u8>, CodecFailure> {
        self.decode_by(chain::decode, bytes, count)
    }

    fn decode_by(&self, decode: DecodeChain, bytes: &[u8], count: usize) -> Result<Vec<u8>, CodecFailure> {
        let stored_type = self.arithmetic.stored_type();
        let size = stored_type.size().and_then(|size| usize::try_from(size).ok());
        let expected = size
            .and_then(|size| count.checked_mul(size))
            .ok_or_else(|| parameters("chunk", format!("{count} elements of {stored_type}")))?;
        let stored = decode(&self.codecs, bytes, expected)?;
        if self.arithmetic.is_empty() {
            return Ok(stored);
        }
        Ok(self.arithmetic.decode(&stored, self.endian)?)
    }
}

// Chunks of arrays with arithmetic codecs: elements have the array's type, not the stored one.

/// Encodes elements of the array's type, in stored order, by a chain that may contain `scale_offset` and `cast_value`.
///
/// # Errors
/// As [`crate::encode`], and numbers that the chain cannot represent.
pub fn encode_values(
    data_type: &DataType,
    codecs: &[Codec],
    elements: &[u8],
) -> Result<Vec<u8>, CodecFailure> {
    let arithmetic = Arithmetic::new(data_type, codecs)?;
    let stored = arithmetic.encode(elements, Codec::endian_of(codecs))?;
    let of_bytes: Vec<_> = codecs.iter().filter(|codec| !codec.is_arithmetic()).cloned().collect();
    crate::encode(&of_bytes, &stored)
}

/// Decodes a chunk by a chain that may contain `scale_offset` and `cast_value`, and returns `count` elements of the
/// array's type in stored order.
///
/// # Errors
/// As [`crate::decode_exact`], and numbers that the array's type cannot represent.
pub fn decode_values(
    data_type: &DataType,
    codecs: &[Codec],
    bytes: &[u8],
    count: usize,
) -> Result<Vec<u8>, CodecFailure> {
    Decoder::new(data_type, codecs)?.decode_by(crate::decode_exact, bytes, count)
}
