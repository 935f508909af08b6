//! HDF5's scale-offset filter (6): differences to the chunk's minimum, in as few bits as they need.
//! <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Zscaleoffset.c>
//!
//! ```text
//! 4  bits per difference (numbers little-endian)
//! 1  size of the minimum, 8
//! 8  minimum
//! 8  unused
//! …  differences, most significant bit first; all ones stand for the fill value
//! ```

use virtualize_bytes::BitReader;
use virtualize_zarr::{Endian, FilterParameters, ScaleOffset};

use super::numbers::{number, push_number};
use crate::{CodecFailure, bounded, corrupt, parameters};

const NAME: &str = "scale-offset";

/// Offset of the differences.
const DATA: usize = 21;

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], client_data: &[u32], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let wrong = || parameters(NAME, format!("client data {client_data:?}"));
    let parameters = ScaleOffset::from_client_data(client_data).ok_or_else(wrong)?;
    let [size, elements] = [parameters.size, parameters.elements].map(usize::try_from);
    let (size, elements) = (size.map_err(|_| wrong())?, elements.map_err(|_| wrong())?);
    let total = bounded(NAME, elements.checked_mul(size), limit)?;
    let cut_off = || corrupt(NAME, "the chunk is truncated");
    let (bits, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut_off)?;
    let (minimum_size, rest) = rest.split_first().ok_or_else(cut_off)?;
    let minimum = rest.first_chunk::<8>().ok_or_else(cut_off)?;
    let data = bytes.get(DATA..).unwrap_or_default();
    let bits = u32::from_le_bytes(*bits);
    let full = parameters.size * 8;
    if bits > full || *minimum_size != 8 {
        return Err(corrupt(NAME, format!("{bits} bits, minimum of {minimum_size} bytes")));
    }
    let minimum = u64::from_le_bytes(*minimum);
    let mut reader = BitReader::new(data);
    let mut out = Vec::with_capacity(total);
    for _ in 0..elements {
        let value = if bits == full {
            number(data.get(out.len()..out.len() + size).ok_or_else(cut_off)?, false)
        } else {
            value(&parameters, reader.read(bits).ok_or_else(cut_off)?, bits, minimum).into()
        };
        push_number(value, size, parameters.byte_order == Endian::Big, &mut out);
    }
    Ok(out)
}

/// Returns the bits of the element that a stored difference encodes.
fn value(parameters: &ScaleOffset, stored: u64, bits: u32, minimum: u64) -> u64 {
    let ones = u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0);
    match (parameters.fill_value_bits, parameters.decimals) {
        (Some(fill), _) if stored == ones => fill,
        (_, None) => stored.wrapping_add(minimum),
        (_, Some(decimals)) if parameters.size == 4 => {
            let signed = u32::try_from(stored & 0xffff_ffff).unwrap_or(0).cast_signed();
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "as libhdf5 does"
            )]
            let number = signed as f32 / 10f64.powi(decimals) as f32;
            let minimum = f32::from_bits(u32::try_from(minimum & 0xffff_ffff).unwrap_or(0));
            u64::from((number + minimum).to_bits())
        }
        (_, Some(decimals)) => {
            #[expect(clippy::cast_precision_loss, reason = "as libhdf5 does")]
            let number = stored.cast_signed() as f64 / 10f64.powi(decimals);
            (number + f64::from_bits(minimum)).to_bits()
        }
    }
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
