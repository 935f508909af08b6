//! Integers that are stored with unused bits, or in another size.

use virtualize_zarr::{Endian, StoredInteger};

use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "integers";

/// Sizes, offset and precision, checked.
struct Layout {
    /// Bytes of a decoded number.
    size: usize,
    endian: Endian,
    /// Bytes of a stored number.
    stored_size: usize,
    stored: StoredInteger,
    /// Bits of a number of 128 bits above the precision.
    unused: u32,
}

impl Layout {
    fn new(size: u32, endian: Endian, stored: StoredInteger) -> Result<Self, CodecFailure> {
        let wrong = || parameters(NAME, format!("{size} bytes of {stored:?}"));
        let bits = u32::from(stored.offset) + u32::from(stored.precision);
        let fits =
            (1..=16).contains(&stored.size) && bits <= stored.size * 8 && matches!(size, 1 | 2 | 4 | 8);
        if !fits || stored.precision == 0 || u32::from(stored.precision) > size * 8 {
            return Err(wrong());
        }
        let bytes = |n| usize::try_from(n).map_err(|_| wrong());
        let unused = 128 - u32::from(stored.precision);
        Ok(Self { size: bytes(size)?, endian, stored_size: bytes(stored.size)?, stored, unused })
    }

    fn value(&self, stored: &[u8]) -> u128 {
        let left = number(stored, self.stored.endian) >> self.stored.offset << self.unused;
        if self.stored.signed {
            (left.cast_signed() >> self.unused).cast_unsigned()
        } else {
            left >> self.unused
        }
    }
}

/// Decodes to at most `limit` bytes.
pub(super) fn decode(
    bytes: &[u8],
    (size, endian, stored): (u32, Endian, StoredInteger),
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(size, endian, stored)?;
    if !bytes.len().is_multiple_of(layout.stored_size) {
        return Err(corrupt(NAME, format!("{} bytes of numbers of {}", bytes.len(), layout.stored_size)));
    }
    if bytes.len() / layout.stored_size > limit / layout.size {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    let mut out = Vec::with_capacity(bytes.len() / layout.stored_size * layout.size);
    for stored in bytes.chunks_exact(layout.stored_size) {
        push(layout.value(stored), layout.size, layout.endian, &mut out);
    }
    Ok(out)
}

/// Encodes numbers. Those that need more bits are an error.
pub(super) fn encode(
    bytes: &[u8],
    (size, endian, stored): (u32, Endian, StoredInteger),
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(size, endian, stored)?;
    let mut out = Vec::with_capacity(bytes.len() / layout.size * layout.stored_size);
    for decoded in bytes.chunks_exact(layout.size) {
        let significant = number(decoded, endian) << layout.unused >> layout.unused;
        push(significant << stored.offset, layout.stored_size, stored.endian, &mut out);
        let mut back = Vec::with_capacity(layout.size);
        push(
            layout.value(out.get(out.len() - layout.stored_size..).unwrap_or_default()),
            layout.size,
            endian,
            &mut back,
        );
        if back != decoded {
            return Err(parameters(NAME, format!("a number that does not fit {} bits", stored.precision)));
        }
    }
    Ok(out)
}

fn number(bytes: &[u8], endian: Endian) -> u128 {
    let push = |value: u128, byte: &u8| (value << 8) | u128::from(*byte);
    match endian {
        Endian::Big => bytes.iter().fold(0, push),
        Endian::Little => bytes.iter().rev().fold(0, push),
    }
}

fn push(value: u128, size: usize, endian: Endian, out: &mut Vec<u8>) {
    let bytes = value.to_le_bytes();
    let significant = bytes.get(..size).unwrap_or_default();
    match endian {
        Endian::Big => out.extend(significant.iter().rev()),
        Endian::Little => out.extend_from_slice(significant),
    }
}
