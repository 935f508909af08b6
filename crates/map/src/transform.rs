//! What an [`ElementTransform`] does to the bytes of elements.

use crate::ElementTransform;

impl ElementTransform {
    /// Makes the array's elements of stored ones, one after the other; `size` is that of one of the array's elements.
    /// `None` where the bytes are no whole number of stored elements, or a part leaves its element.
    pub fn apply(&self, stored: &[u8], size: usize) -> Option<Vec<u8>> {
        match self {
            Self::None => Some(stored.to_vec()),
            Self::Repack { stored_size, parts } => {
                each(stored, *stored_size, size, |from, to| repack(from, to, parts))
            }
            Self::Integer { stored_size, stored_big_endian, bit_offset, precision, signed, big_endian } => {
                each(stored, *stored_size, size, |from, to| {
                    let raw = unsigned(from, *stored_big_endian)?;
                    let value = significant(raw, *bit_offset, *precision, *signed)?;
                    write_integer(value, to, *big_endian)
                })
            }
        }
    }
}

fn each(
    stored: &[u8],
    stored_size: u32,
    size: usize,
    one: impl Fn(&[u8], &mut [u8]) -> Option<()>,
) -> Option<Vec<u8>> {
    let stored_size = usize::try_from(stored_size).ok().filter(|n| *n > 0)?;
    if size == 0 || !stored.len().is_multiple_of(stored_size) {
        return None;
    }
    let mut made = vec![0; (stored.len() / stored_size).checked_mul(size)?];
    for (from, to) in stored.chunks_exact(stored_size).zip(made.chunks_exact_mut(size)) {
        one(from, to)?;
    }
    Some(made)
}

fn repack(from: &[u8], to: &mut [u8], parts: &[(u32, u32, u32)]) -> Option<()> {
    for (at, place, length) in parts {
        let [at, place, length] = [*at, *place, *length].map(usize::try_from);
        let (at, place, length) = (at.ok()?, place.ok()?, length.ok()?);
        let source = from.get(at..at.checked_add(length)?)?;
        to.get_mut(place..place.checked_add(length)?)?.copy_from_slice(source);
    }
    Some(())
}

/// The stored bits as a number, at most 128 of them.
fn unsigned(bytes: &[u8], big_endian: bool) -> Option<u128> {
    let push = |value: u128, byte: &u8| (value << 8) | u128::from(*byte);
    match bytes.len() {
        0..=16 if big_endian => Some(bytes.iter().fold(0, push)),
        0..=16 => Some(bytes.iter().rev().fold(0, push)),
        _ => None,
    }
}

fn significant(raw: u128, bit_offset: u16, precision: u16, signed: bool) -> Option<u128> {
    let unused = 128u32.checked_sub(precision.into()).filter(|n| *n < 128)?;
    let left = raw.checked_shr(bit_offset.into())?.checked_shl(unused)?;
    Some(if signed { (left.cast_signed() >> unused).cast_unsigned() } else { left >> unused })
}

fn write_integer(value: u128, to: &mut [u8], big_endian: bool) -> Option<()> {
    let bytes = value.to_le_bytes();
    to.copy_from_slice(bytes.get(..to.len())?);
    if big_endian {
        to.reverse();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(
        stored_size: u32,
        big: bool,
        bit_offset: u16,
        precision: u16,
        signed: bool,
    ) -> ElementTransform {
        ElementTransform::Integer {
            stored_size,
            stored_big_endian: big,
            bit_offset,
            precision,
            signed,
            big_endian: false,
        }
    }

    /// Expected values: libhdf5's conversion of an H5T_STD_I32LE with precision 12 and offset 4, and of 24-bit integers.
    #[test]
    fn integers_with_unused_bits_keep_their_value() {
        let stored = (0xfff_u32 << 4 | 0xf000_000f).to_le_bytes();
        assert_eq!(integer(4, false, 4, 12, true).apply(&stored, 2), Some(vec![0xff, 0xff]));
        assert_eq!(integer(4, false, 4, 12, false).apply(&stored, 2), Some(vec![0xff, 0x0f]));
        assert_eq!(
            integer(3, true, 0, 24, true).apply(&[0xff, 0xff, 0xfe], 4),
            Some(vec![0xfe, 255, 255, 255])
        );
        assert_eq!(integer(3, true, 0, 24, true).apply(&[0xff, 0xff], 4), None);
    }

    #[test]
    fn members_move_together() {
        let repack = ElementTransform::Repack { stored_size: 8, parts: vec![(0, 0, 1), (4, 1, 2)] };
        assert_eq!(repack.apply(&[1, 9, 9, 9, 2, 3, 9, 9], 3), Some(vec![1, 2, 3]));
        let outside = ElementTransform::Repack { stored_size: 8, parts: vec![(6, 0, 3)] };
        assert_eq!(outside.apply(&[0; 8], 3), None);
    }
}
