//! HDF5's scale-offset filter (6): differences to the chunk's minimum, in as few bits as they need.
//! <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Zscaleoffset.c>
//!
//! Client data: scale type (0 decimal scale of floats, 2 integers), scale factor, elements, class (0 integer, 1 float),
//! size, sign (0 or 1), byte order (1 big), 1 if a fill value is defined, the fill value in 4-byte words. A chunk, numbers
//! little-endian:
//!
//! ```text
//! 4  bits per difference
//! 1  size of the minimum, 8
//! 8  minimum
//! 8  unused
//! …  differences, most significant bit first; all ones stand for the fill value
//! ```

use virtualize_bytes::BitReader;

use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "scale-offset";

/// Offset of the differences.
const DATA: usize = 21;

struct Parameters {
    decimal: bool,
    factor: i32,
    elements: usize,
    size: usize,
    big_endian: bool,
    fill: Option<u64>,
}

impl Parameters {
    fn parse(client_data: &[u32]) -> Result<Self, CodecFailure> {
        let wrong = || parameters(NAME, format!("client data {client_data:?}"));
        let [scale_type, factor, elements, class, size, sign, order, filled, fill @ ..] = client_data else {
            return Err(wrong());
        };
        let fill = match fill {
            [low, high, ..] => (u64::from(*high) << 32) | u64::from(*low),
            [low] => u64::from(*low),
            [] => 0,
        };
        let sensible = match class {
            0 => {
                let most_bits = i64::from(*size) * 8;
                *scale_type == 2
                    && matches!(size, 1 | 2 | 4 | 8)
                    && *sign <= 1
                    && i64::from(factor.cast_signed()) <= most_bits
            }
            1 => *scale_type == 0 && matches!(size, 4 | 8),
            _ => false,
        };
        if !sensible || *order > 1 {
            return Err(wrong());
        }
        let size = usize::try_from(*size).map_err(|_| wrong())?;
        Ok(Self {
            decimal: *class == 1,
            factor: factor.cast_signed(),
            elements: usize::try_from(*elements).map_err(|_| wrong())?,
            size,
            big_endian: *order == 1,
            fill: (*filled == 1).then_some(fill & ones(u32::try_from(size * 8).unwrap_or(64))),
        })
    }

    /// Returns the bits of the element that a stored difference encodes.
    fn value(&self, stored: u64, bits: u32, minimum: u64) -> u64 {
        match self.fill {
            Some(fill) if stored == ones(bits) => fill,
            _ if !self.decimal => stored.wrapping_add(minimum),
            _ if self.size == 4 => {
                let signed = u32::try_from(stored & 0xffff_ffff).unwrap_or(0).cast_signed();
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    reason = "as libhdf5 does"
                )]
                let number = signed as f32 / 10f64.powi(self.factor) as f32;
                let minimum = f32::from_bits(u32::try_from(minimum & 0xffff_ffff).unwrap_or(0));
                u64::from((number + minimum).to_bits())
            }
            _ => {
                #[expect(clippy::cast_precision_loss, reason = "as libhdf5 does")]
                let number = stored.cast_signed() as f64 / 10f64.powi(self.factor);
                (number + f64::from_bits(minimum)).to_bits()
            }
        }
    }
}

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], client_data: &[u32], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let parameters = Parameters::parse(client_data)?;
    let total = parameters.elements.checked_mul(parameters.size).filter(|total| *total <= limit);
    let total = total.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
    let cut_off = || corrupt(NAME, "the chunk is truncated");
    let (bits, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut_off)?;
    let (minimum_size, rest) = rest.split_first().ok_or_else(cut_off)?;
    let minimum = rest.first_chunk::<8>().ok_or_else(cut_off)?;
    let data = bytes.get(DATA..).unwrap_or_default();
    let bits = u32::from_le_bytes(*bits);
    let full = u32::try_from(parameters.size * 8).unwrap_or(64);
    if bits > full || *minimum_size != 8 {
        return Err(corrupt(NAME, format!("{bits} bits, minimum of {minimum_size} bytes")));
    }
    let minimum = u64::from_le_bytes(*minimum);
    let mut reader = BitReader::new(data);
    let mut out = Vec::with_capacity(total);
    for _ in 0..parameters.elements {
        let value = if bits == full {
            let stored = data.get(out.len()..out.len() + parameters.size).ok_or_else(cut_off)?;
            stored.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
        } else {
            parameters.value(reader.read(bits).ok_or_else(cut_off)?, bits, minimum)
        };
        let little = value.to_le_bytes();
        let element = little.get(..parameters.size).unwrap_or_default();
        if parameters.big_endian {
            out.extend(element.iter().rev());
        } else {
            out.extend_from_slice(element);
        }
    }
    Ok(out)
}

fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules are those of `H5Z__filter_scaleoffset`: two's complement is sign 1, and 1 is the only number by which a fill
    /// value is defined.
    #[test]
    fn client_data_of_libhdf5() {
        let decoded = |client_data: &[u32]| {
            // Two elements of 4 bits: 1 and 15, to which 5 is added.
            let chunk = [&[4, 0, 0, 0, 8, 5][..], &[0; 15], &[0x1f]].concat();
            decode(&chunk, client_data, 100).ok()
        };
        assert_eq!(decoded(&[2, 0, 2, 0, 1, 1, 0, 1, 99]), Some(vec![6, 99]));
        assert_eq!(decoded(&[2, 0, 2, 0, 1, 1, 0, 0, 99]), Some(vec![6, 20]));
        assert_eq!(decoded(&[2, 0, 2, 0, 1, 1, 0, 127, 99]), Some(vec![6, 20]), "no fill value");
        assert_eq!(decoded(&[2, 0, 2, 0, 1, 2, 0, 1, 99]), None, "sign");
        assert_eq!(decoded(&[2, 9, 2, 0, 1, 1, 0, 1, 99]), None, "more bits than an element has");
        assert_eq!(decoded(&[2, u32::MAX, 2, 0, 1, 1, 0, 1, 99]), Some(vec![6, 99]), "reset to 0");
    }
}
