//! Chunks of arrays with arithmetic codecs: elements have the array's type, not the stored one.

use virtualize_zarr::{Arithmetic, Codec, DataType};

use crate::{CodecFailure, Decoder};

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
    crate::encode(&rest(codecs), &stored)
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

fn rest(codecs: &[Codec]) -> Vec<Codec> {
    codecs.iter().filter(|codec| !codec.is_arithmetic()).cloned().collect()
}
