use virtualize_map::ElementTransform;

use super::Failure;

/// Turns stored elements into the array's, `element` bytes each.
pub(super) fn apply(
    transform: &ElementTransform,
    stored: Vec<u8>,
    element: usize,
) -> Result<Vec<u8>, Failure> {
    match *transform {
        ElementTransform::None => Ok(stored),
        ElementTransform::Repack { stored_size, ref parts } => {
            repack(&stored, size(stored_size)?, parts, element)
        }
        ElementTransform::Integer {
            stored_size,
            stored_big_endian,
            bit_offset,
            precision,
            signed,
            big_endian,
        } => {
            let bits = Bits { offset: bit_offset.into(), precision: precision.into(), signed };
            integers(&stored, (size(stored_size)?, stored_big_endian), bits, (element, big_endian))
        }
    }
}

fn size(stored_size: u32) -> Result<usize, Failure> {
    match usize::try_from(stored_size) {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(Failure::Chunk(format!("elements of {stored_size} bytes"))),
    }
}

fn repack(
    stored: &[u8],
    stored_size: usize,
    parts: &[(u32, u32, u32)],
    element: usize,
) -> Result<Vec<u8>, Failure> {
    let mut new = vec![0; (stored.len() / stored_size).saturating_mul(element)];
    for (old, new) in stored.chunks_exact(stored_size).zip(new.chunks_exact_mut(element)) {
        for &(from, to, bytes) in parts {
            let within = |start: u32| start as usize..(start as usize).saturating_add(bytes as usize);
            match (old.get(within(from)), new.get_mut(within(to))) {
                (Some(source), Some(target)) => target.copy_from_slice(source),
                _ => return Err(Failure::Chunk("a member lies outside its compound".to_owned())),
            }
        }
    }
    Ok(new)
}

/// Which bits of a stored integer count.
#[derive(Clone, Copy)]
struct Bits {
    offset: u32,
    precision: u32,
    signed: bool,
}

fn integers(
    stored: &[u8],
    (stored_size, stored_big): (usize, bool),
    bits: Bits,
    (element, big): (usize, bool),
) -> Result<Vec<u8>, Failure> {
    let width = bits.offset.saturating_add(bits.precision);
    if stored_size > 16 || element > 16 || bits.precision == 0 || width as usize > stored_size * 8 {
        let Bits { offset, precision, .. } = bits;
        return Err(Failure::Chunk(format!(
            "integers of {precision} bits at bit {offset} of {stored_size} bytes in {element} bytes"
        )));
    }
    let mut new = Vec::with_capacity((stored.len() / stored_size).saturating_mul(element));
    for old in stored.chunks_exact(stored_size) {
        let value = significant(integer(old, stored_big), bits).to_le_bytes();
        let bytes = value.get(..element).unwrap_or_default();
        match big {
            true => new.extend(bytes.iter().rev()),
            false => new.extend_from_slice(bytes),
        }
    }
    Ok(new)
}

/// At most 16 bytes as an unsigned number.
fn integer(bytes: &[u8], big_endian: bool) -> u128 {
    let add = |sum: u128, byte: &u8| sum << 8 | u128::from(*byte);
    match big_endian {
        true => bytes.iter().fold(0, add),
        false => bytes.iter().rev().fold(0, add),
    }
}

/// The significant bits, moved down, with the sign extended.
fn significant(value: u128, bits: Bits) -> u128 {
    let above = 128_u32.saturating_sub(bits.precision);
    let top = (value >> bits.offset) << above;
    match bits.signed {
        true => (top.cast_signed() >> above).cast_unsigned(),
        false => top >> above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer_of(bit_offset: u16, precision: u16, signed: bool, stored: &[u8], element: usize) -> Vec<u8> {
        let transform = ElementTransform::Integer {
            stored_size: 2,
            stored_big_endian: false,
            bit_offset,
            precision,
            signed,
            big_endian: true,
        };
        apply(&transform, stored.to_vec(), element).unwrap()
    }

    #[test]
    fn significant_bits_move_down_and_keep_their_sign() {
        // 12 bits from bit 4 of 0xABC7 are 0xABC, which is -1348 in two's complement.
        assert_eq!(integer_of(4, 12, false, &[0xC7, 0xAB], 2), [0x0A, 0xBC]);
        assert_eq!(integer_of(4, 12, true, &[0xC7, 0xAB], 2), (-1348_i16).to_be_bytes());
        assert_eq!(integer_of(4, 12, true, &[0xC7, 0xAB], 4), (-1348_i32).to_be_bytes());
        assert_eq!(integer_of(0, 16, true, &[0xFF, 0xFF], 2), [0xFF, 0xFF]);
    }

    #[test]
    fn more_bits_than_there_are_is_refused() {
        let transform = ElementTransform::Integer {
            stored_size: 1,
            stored_big_endian: false,
            bit_offset: 4,
            precision: 5,
            signed: false,
            big_endian: false,
        };
        assert!(apply(&transform, vec![1], 1).is_err());
    }

    #[test]
    fn members_move_together() {
        let transform = ElementTransform::Repack { stored_size: 8, parts: vec![(0, 0, 1), (4, 1, 2)] };
        let stored = b"a...bc..d...ef..".to_vec();
        assert_eq!(apply(&transform, stored, 3).unwrap(), b"abcdef");
        let outside = ElementTransform::Repack { stored_size: 2, parts: vec![(1, 0, 2)] };
        assert!(apply(&outside, vec![0, 0], 2).is_err());
    }
}
