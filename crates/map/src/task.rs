//! Chunks that are made from the file's bytes, and the conversion of their elements.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use half::f16;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{ByteOrder, Float};
use virtualize_zarr::{Codec, DataType, Endian, NodePath, SourceId, StoredInteger};

use crate::hdf5::HeapPointers;

/// Chunks of one array that are made from the file's bytes and stored inline.
///
/// "Stored order" below is the order of the bytes at the array's `bytes` codec: elements in C order of the chunk as
/// stored (after any `transpose`), numbers in the byte order of that codec.
#[derive(Clone, Debug)]
pub struct InlineTask {
    /// Path of the array.
    pub array: NodePath,
    /// Row-major positions of the chunks that share this content.
    pub positions: Vec<u64>,
    /// Recipe of the chunk.
    pub content: ChunkContent,
}

/// Recipe of the encoded bytes of an inline chunk.
#[derive(Clone, Debug)]
pub enum ChunkContent {
    /// Stored bytes with a change after which they are encoded in the codecs of the array.
    Stored {
        /// File of the stored bytes.
        source: SourceId,
        /// Stored bytes.
        range: ByteRange,
        /// Change of the bytes.
        change: StoredChange,
    },
    /// Decoded pieces on a constant background, encoded with the array's codecs (all but `transpose` and the
    /// array-to-bytes codec, since the buffer is in stored order).
    Assemble {
        /// Shape of the chunk in stored order; its element size is that of `background`.
        shape: Vec<u64>,
        /// One element in stored order, which fills what no piece covers.
        background: Bytes,
        /// Pieces, in the order in which they are copied.
        pieces: Vec<Piece>,
    },
    /// Elements of variable length, which the file stores as pointers. Once resolved, they are encoded as `vlen-utf8`
    /// or `vlen-bytes`. Elements that no piece covers are empty.
    Variable {
        /// Elements of the chunk along each axis.
        shape: Vec<u64>,
        /// Size of a pointer in bytes.
        pointer_size: u32,
        /// Stored pointers, in the order in which they are copied.
        pieces: Vec<Piece>,
        /// Type of the elements, and the paths of the objects to which they may refer.
        pointers: Arc<HeapPointers>,
        /// Text of elements that refer to objects; `None` where the elements are strings.
        references: Option<ReferenceText>,
    },
}

/// Change of stored bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredChange {
    /// A prefix from the filter's parameters comes first: one stream of bits (the least significant bit of a byte first),
    /// padded with zero bits to whole words.
    Prefix {
        /// Bytes that hold the prefix.
        bytes: Bytes,
        /// Bits of `bytes` that count.
        bits: u32,
        /// Bytes of a word.
        word: u32,
    },
    /// The bits of each byte are in reverse order (TIFF `FillOrder` 2).
    ReverseBits,
    /// A compressed image is extended to `height` rows, in the format of the array's first codec. The values of the added
    /// rows are undefined.
    AddRows {
        /// Columns.
        width: u64,
        /// Rows of the stored image.
        rows: u64,
        /// Rows of the chunk.
        height: u64,
    },
    /// LERC blobs are decoded as libtiff does (masked numbers are NaN, or the mask is alpha) and encoded again as one LERC
    /// blob without a mask, inside the codecs that follow LERC in the array.
    Lerc {
        /// Extent of the stored blobs.
        layout: LercLayout,
        /// Rows of the chunk. Added rows are 0.
        height: u64,
    },
}

/// Extent of the blobs of a LERC chunk, and the meaning of their mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LercLayout {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Extent of the last axis where that axis holds samples, else 1.
    pub samples: u64,
    /// The last sample is unassociated alpha, stored as the mask.
    pub has_alpha: bool,
}

impl ChunkContent {
    /// Returns the stored bytes of content that is not made of pieces.
    fn stored(&self) -> Option<(SourceId, ByteRange)> {
        match self {
            Self::Stored { source, range, .. } => Some((*source, *range)),
            Self::Assemble { .. } | Self::Variable { .. } => None,
        }
    }

    /// Returns the pieces, to change them; `None` for content of another kind.
    pub(crate) fn pieces_mut(&mut self) -> Option<&mut Vec<Piece>> {
        match self {
            Self::Assemble { pieces, .. } | Self::Variable { pieces, .. } => Some(pieces),
            Self::Stored { .. } => None,
        }
    }

    /// Returns the pieces, or nothing for content of another kind.
    pub fn pieces(&self) -> &[Piece] {
        match self {
            Self::Assemble { pieces, .. } | Self::Variable { pieces, .. } => pieces,
            _ => &[],
        }
    }

    /// Returns the byte ranges to fetch.
    pub fn ranges(&self) -> impl Iterator<Item = (SourceId, ByteRange)> {
        let of_pieces = self.pieces().iter().filter_map(|piece| match &piece.bytes {
            PieceBytes::At(range) => Some((piece.source, *range)),
            PieceBytes::Here(_) => None,
        });
        self.stored().into_iter().chain(of_pieces)
    }

    /// Returns the files that the content depends on.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> {
        let stored = self.stored().map(|(source, _)| source);
        stored.into_iter().chain(self.pieces().iter().map(|piece| piece.source))
    }

    /// Returns the files that the content depends on, to renumber them.
    pub fn sources_mut(&mut self) -> impl Iterator<Item = &mut SourceId> {
        let (stored, pieces) = match self {
            Self::Stored { source, .. } => (Some(source), &mut [][..]),
            Self::Assemble { pieces, .. } | Self::Variable { pieces, .. } => (None, &mut pieces[..]),
        };
        stored.into_iter().chain(pieces.iter_mut().map(|piece| &mut piece.source))
    }
}

/// Encoded bytes of a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PieceBytes {
    /// Stored in the file.
    At(ByteRange),
    /// Known already: part of the file's metadata, or a fill value.
    Here(Bytes),
}

/// Text of a reference to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceText {
    /// Path of the object.
    Path,
    /// Selected part of the object, as JSON; empty for the whole object.
    Part,
    /// Path of the object; a reference to a part of it is an error.
    Whole,
}

/// Decoded elements of a range of a file, and the region of the chunk that they fill.
#[derive(Clone, Debug)]
pub struct Piece {
    /// File of the bytes; pointers are resolved in the same file.
    pub source: SourceId,
    /// Encoded bytes.
    pub bytes: PieceBytes,
    /// Codecs of `bytes`, in the order of encoding.
    pub codecs: Vec<Codec>,
    /// Shape of the decoded elements. Missing bytes of used elements are an error; excess bytes are ignored.
    pub shape: Vec<u64>,
    /// First used element of the piece along each axis.
    pub from: Vec<u64>,
    /// Index of that element in the chunk along each axis.
    pub to: Vec<u64>,
    /// Number of used elements along each axis.
    pub extent: Vec<u64>,
    /// Conversion of each element.
    pub transform: ElementTransform,
}

impl Piece {
    /// Returns a piece that fills a chunk of its shape from the start, as far as it reaches.
    pub(crate) fn whole(
        source: SourceId,
        bytes: PieceBytes,
        codecs: Vec<Codec>,
        shape: Vec<u64>,
        transform: ElementTransform,
    ) -> Self {
        let origin = vec![0; shape.len()];
        let (to, extent) = (origin.clone(), shape.clone());
        Self { source, bytes, codecs, shape, from: origin, to, extent, transform }
    }

    /// Cuts what exceeds the first elements of the chunk along each axis. Returns whether anything is left.
    pub(crate) fn clip(&mut self, ends: impl IntoIterator<Item = u64>) -> bool {
        for ((extent, to), end) in self.extent.iter_mut().zip(&self.to).zip(ends) {
            *extent = (*extent).min(end.saturating_sub(*to));
        }
        !self.extent.contains(&0)
    }
}

/// A part of an element with a conversion of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElementPart {
    /// Offset in the stored element, in bytes.
    pub from: u32,
    /// Offset in the new element, in bytes.
    pub to: u32,
    /// Size in the new element, in bytes.
    pub size: u32,
    /// Conversion.
    pub transform: ElementTransform,
}

/// Conversion of each decoded element to the array's element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElementTransform {
    /// None: the stored element is the array's element.
    None,
    /// Parts of the stored element become parts of the new one.
    Repack {
        /// Size of a stored element.
        stored_size: u32,
        /// Parts.
        parts: Arc<[ElementPart]>,
    },
    /// A string that ends before its first NUL, if it has one, as a null-padded one. The bytes after a NUL are undefined.
    NullTerminated,
    /// A string that is padded with blanks, as a null-padded one.
    SpacePadded,
    /// The bytes of a number in reverse order.
    Reversed,
    /// An integer with unused bits: shifted right by its offset, cut to its precision, sign-extended, and stored in the
    /// array's element size and byte order.
    Integer {
        /// The stored integer.
        stored: StoredInteger,
        /// The array's bytes are most significant first.
        big_endian: bool,
    },
    /// A time of PyTables, which has seconds in the upper half of 64 bits and microseconds in the lower half, both signed,
    /// as a 64-bit float of seconds.
    Time {
        /// Byte order of the stored time.
        stored: Endian,
        /// The array's bytes are most significant first.
        big_endian: bool,
    },
    /// A floating-point number as the IEEE 754 number of the same value; an error if there is none. NaNs lose their
    /// payload.
    Float {
        /// Format of the stored number.
        stored: Float,
        /// Type of the array.
        data_type: DataType,
        /// The array's bytes are most significant first.
        big_endian: bool,
    },
}

impl ElementTransform {
    /// Returns the size of a stored element in bytes, or `None` where it is that of the array's element.
    pub fn stored_size(&self) -> Option<u32> {
        match self {
            Self::None | Self::NullTerminated | Self::SpacePadded | Self::Reversed => None,
            Self::Repack { stored_size, .. } => Some(*stored_size),
            Self::Integer { stored, .. } => Some(stored.size),
            Self::Float { stored, .. } => Some(stored.size),
            Self::Time { .. } => Some(8),
        }
    }

    /// Reverses the bytes of the resulting number.
    pub(crate) fn reverse(&mut self) {
        match self {
            Self::Reversed => *self = Self::None,
            Self::Integer { big_endian, .. }
            | Self::Float { big_endian, .. }
            | Self::Time { big_endian, .. } => {
                *big_endian = !*big_endian;
            }
            _ => *self = Self::Reversed,
        }
    }

    /// Converts stored elements to elements of the array, one after the other; `size` is that of one array element in
    /// bytes. Returns `None` if the bytes are not a whole number of stored elements, a part exceeds its element, or a
    /// number cannot be converted exactly.
    pub fn apply(&self, stored: &[u8], size: usize) -> Option<Vec<u8>> {
        if *self == Self::None {
            return Some(stored.to_vec());
        }
        let stored_size = self.stored_size().map_or(Some(size), |size| usize::try_from(size).ok())?;
        if size == 0 || stored_size == 0 || !stored.len().is_multiple_of(stored_size) {
            return None;
        }
        let mut made = vec![0; (stored.len() / stored_size).checked_mul(size)?];
        for (from, to) in stored.chunks_exact(stored_size).zip(made.chunks_exact_mut(size)) {
            self.convert(from, to)?;
        }
        Some(made)
    }

    /// Converts one element. Both slices have its size, stored and converted.
    fn convert(&self, from: &[u8], to: &mut [u8]) -> Option<()> {
        match self {
            Self::Repack { parts, .. } => {
                for part in parts.iter() {
                    let length = part.transform.stored_size().unwrap_or(part.size);
                    let from = from.get(range(part.from, length)?)?;
                    part.transform.convert(from, to.get_mut(range(part.to, part.size)?)?)?;
                }
            }
            Self::None => to.copy_from_slice(from),
            Self::Reversed => {
                to.copy_from_slice(from);
                to.reverse();
            }
            // As libhdf5 does (`H5T__conv_s_s`).
            Self::NullTerminated | Self::SpacePadded => {
                let end = match self {
                    Self::NullTerminated => from.iter().position(|byte| *byte == 0).unwrap_or(from.len()),
                    _ => from.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1),
                };
                to.get_mut(..end)?.copy_from_slice(from.get(..end)?);
            }
            Self::Integer { stored, big_endian } => {
                let StoredInteger { size, endian, offset, precision, signed } = *stored;
                if u32::from(offset) + u32::from(precision) > size.saturating_mul(8) {
                    return None;
                }
                let raw = unsigned(from, endian == Endian::Big)?;
                write_integer(significant(raw, offset, precision, signed)?, to, *big_endian)?;
            }
            Self::Time { stored, big_endian } => {
                let number = u64::try_from(unsigned(from, *stored == Endian::Big)?).ok()?.cast_signed();
                let (whole, micro) = (i32::try_from(number >> 32).ok()?, number.to_le_bytes());
                let micro = i32::from_le_bytes(*micro.first_chunk()?);
                let seconds = 1e-6 * f64::from(micro) + f64::from(whole);
                write_integer(seconds.to_bits().into(), to, *big_endian)?;
            }
            Self::Float { stored, data_type, big_endian } => {
                let raw = unsigned(from, stored.order == ByteOrder::Big)?;
                let magnitude = magnitude(raw, stored)?;
                #[expect(clippy::cast_possible_truncation, reason = "checked below")]
                let (bits, near) = match data_type {
                    DataType::Float16 => {
                        let near = f16::from_f64(magnitude);
                        (near.to_bits().into(), f64::from(near))
                    }
                    DataType::Float32 => ((magnitude as f32).to_bits().into(), (magnitude as f32).into()),
                    _ => (magnitude.to_bits(), magnitude),
                };
                if near != magnitude && !magnitude.is_nan() {
                    return None;
                }
                let sign = raw.checked_shr(stored.sign_location.into())? & 1;
                let bits = u128::from(bits) | sign << (to.len() * 8).checked_sub(1)?;
                write_integer(bits, to, *big_endian)?;
            }
        }
        Some(())
    }
}

fn range(start: u32, length: u32) -> Option<Range<usize>> {
    let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
    Some(start..start.checked_add(length)?)
}

/// Returns stored bits as a number; `None` for more than 128 bits.
pub(crate) fn unsigned(bytes: &[u8], big_endian: bool) -> Option<u128> {
    let push = |value: u128, byte: &u8| (value << 8) | u128::from(*byte);
    match bytes.len() {
        0..=16 if big_endian => Some(bytes.iter().fold(0, push)),
        0..=16 => Some(bytes.iter().rev().fold(0, push)),
        _ => None,
    }
}

/// Returns the `precision` bits from `bit_offset` on, sign-extended if `signed`.
pub(crate) fn significant(raw: u128, bit_offset: u16, precision: u16, signed: bool) -> Option<u128> {
    let unused = 128u32.checked_sub(precision.into()).filter(|n| *n < 128)?;
    let left = raw.checked_shr(bit_offset.into())?.checked_shl(unused)?;
    Some(if signed { (left.cast_signed() >> unused).cast_unsigned() } else { left >> unused })
}

/// Returns the absolute value of a stored number; `None` if no 64-bit float equals it.
fn magnitude(raw: u128, float: &Float) -> Option<f64> {
    let field = |at: u8, size: u8| Some(raw.checked_shr(at.into())? & low_bits(size.into())?);
    let mantissa = field(float.mantissa_location, float.mantissa_size)?;
    let exponent = field(float.exponent_location, float.exponent_size)?;
    // The first bit of the mantissa is implied, or stored (x87).
    let is_explicit = float.normalization != 2;
    let fraction_size = u32::from(float.mantissa_size).checked_sub(is_explicit.into())?;
    let (fraction, first) = (mantissa & low_bits(fraction_size)?, 1_u128.checked_shl(fraction_size)?);
    let significand = match is_explicit {
        true if exponent > 0 && mantissa & first == 0 => return None, // no number of the x87
        false if exponent > 0 => mantissa | first,
        _ => mantissa,
    };
    if exponent == low_bits(float.exponent_size.into())? {
        return Some(if fraction == 0 { f64::INFINITY } else { f64::NAN });
    }
    if significand == 0 {
        return Some(0.0);
    }
    // libhdf5 gives subnormal numbers with a stored first bit half the value that the x87 gives them.
    let exponent = i64::try_from(exponent.max((!is_explicit).into())).ok()?;
    let zeros = significand.trailing_zeros();
    let odd = significand >> zeros;
    let power = exponent - i64::from(float.exponent_bias) - i64::from(fraction_size) + i64::from(zeros);
    let bits = i64::from(128 - odd.leading_zeros());
    if bits > 53 || power < -1074 || power + bits > 1024 {
        return None;
    }
    // In two steps, since 2^1074 is infinite.
    let power = i32::try_from(power).ok()?;
    Some(odd as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2))
}

/// Returns a number with the lowest `count` bits set.
fn low_bits(count: u32) -> Option<u128> {
    1_u128.checked_shl(count).map(|bit| bit - 1)
}

/// Writes a number in the size and byte order of the target element.
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
        let endian = if big { Endian::Big } else { Endian::Little };
        let stored = StoredInteger { size: stored_size, endian, offset: bit_offset, precision, signed };
        ElementTransform::Integer { stored, big_endian: false }
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
        let repack = |parts: &[(u32, u32, u32)]| {
            let copy = |(from, to, size)| ElementPart { from, to, size, transform: ElementTransform::None };
            ElementTransform::Repack { stored_size: 8, parts: parts.iter().copied().map(copy).collect() }
        };
        let outside = repack(&[(6, 0, 3)]);
        let repack = repack(&[(0, 0, 1), (4, 1, 2)]);
        assert_eq!(repack.apply(&[1, 9, 9, 9, 2, 3, 9, 9], 3), Some(vec![1, 2, 3]));
        assert_eq!(outside.apply(&[0; 8], 3), None);
    }

    /// Expected values: such strings as h5py 3.16 reads them into NumPy arrays.
    #[test]
    fn strings_become_null_padded() {
        use ElementTransform::{NullTerminated, SpacePadded};
        let read = |padding: ElementTransform, bytes: &[u8]| padding.apply(bytes, bytes.len()).unwrap();
        assert_eq!(read(NullTerminated, b"ab\0cd\xff"), b"ab\0\0\0\0");
        assert_eq!(read(NullTerminated, b"abc"), b"abc");
        assert_eq!(read(SpacePadded, b"x y   "), b"x y\0\0\0");
        assert_eq!(read(SpacePadded, b"a\0 b\0 "), b"a\0 b\0\0");
    }

    /// Expected values: PyTables 3.11 on such a `Time64Col`.
    #[test]
    fn times_of_pytables_become_seconds() {
        let seconds = |stored: i64, big_endian: bool| {
            let bytes = if big_endian { stored.to_be_bytes() } else { stored.to_le_bytes() };
            {
                let stored = if big_endian { Endian::Big } else { Endian::Little };
                ElementTransform::Time { stored, big_endian }
            }
            .apply(&bytes, 8)
        };
        let bytes = |value: f64| Some(value.to_le_bytes().to_vec());
        assert_eq!(seconds(1_178_896_298 << 32 | 25_000, false), bytes(1_178_896_298.025));
        assert_eq!(seconds(-1 << 32 | 0xffff_fc18, false), bytes(-1.001));
        assert_eq!(seconds(3 << 32, true), Some(3.0_f64.to_be_bytes().to_vec()));
    }

    #[test]
    fn members_are_converted_in_their_places() {
        let part = |from, to, size, transform| ElementPart { from, to, size, transform };
        let mut reversed = integer(3, true, 0, 12, false);
        reversed.reverse();
        let parts = [
            part(6, 4, 1, ElementTransform::None),
            part(0, 0, 2, integer(2, false, 4, 12, true)),
            part(3, 2, 2, reversed),
        ];
        let transform = ElementTransform::Repack { stored_size: 7, parts: parts.into() };
        let stored = [0xef, 0xff, 9, 0, 0x1, 0x23, 7];
        assert_eq!(transform.apply(&stored, 5), Some(vec![0xfe, 0xff, 0x01, 0x23, 7]));
        assert_eq!(transform.apply(&stored, 4), None, "members past the end");
    }

    #[test]
    fn more_bits_than_there_are_is_refused() {
        assert_eq!(integer(1, false, 4, 5, false).apply(&[1], 1), None);
        assert_eq!(integer(0, false, 0, 0, false).apply(&[], 1), None, "elements of 0 bytes");
    }

    fn float(size: u32, exponent: (u8, u8), mantissa_size: u8, bias: u32, big_endian: bool) -> Float {
        let (exponent_location, exponent_size) = exponent;
        Float {
            size,
            order: if big_endian { ByteOrder::Big } else { ByteOrder::Little },
            bit_offset: 0,
            precision: 0,
            sign_location: exponent_location + exponent_size,
            exponent_location,
            exponent_size,
            mantissa_location: 0,
            mantissa_size,
            exponent_bias: bias,
            normalization: 2,
        }
    }

    /// Expected values: h5py 3.16 on bfloat16, which is the upper half of a binary32.
    #[test]
    fn bfloat16_is_the_upper_half_of_a_float32() {
        let stored = float(2, (7, 8), 7, 127, true);
        let transform = ElementTransform::Float { stored, data_type: DataType::Float32, big_endian: true };
        for bits in [0x3f80_u16, 0x8000, 0x0001, 0x807f, 0x7f7f, 0x7f80, 0xff80] {
            let [high, low] = bits.to_be_bytes();
            assert_eq!(transform.apply(&[high, low], 4), Some(vec![high, low, 0, 0]), "{bits:#x}");
        }
        assert_eq!(transform.apply(&[0x7f, 0x81], 4), Some(vec![0x7f, 0xc0, 0, 0]), "NaN");
    }

    /// Expected values: h5py 3.16 on HDF5 2's 8-bit float of 4 exponent and 3 mantissa bits, whose smallest is 2^-9.
    #[test]
    fn subnormal_numbers_become_normal_ones() {
        let stored = float(1, (3, 4), 3, 7, false);
        let transform = ElementTransform::Float { stored, data_type: DataType::Float32, big_endian: false };
        let value =
            |byte: u8| transform.apply(&[byte], 4).map(|le| f32::from_le_bytes(le.try_into().unwrap()));
        assert_eq!(value(0x01), Some(0.001_953_125));
        assert_eq!(value(0x87), Some(-0.013_671_875));
        assert_eq!((value(0x38), value(0x77), value(0x78)), (Some(1.0), Some(240.0), Some(f32::INFINITY)));
    }

    /// Bytes as NumPy 2.5 stores longdouble on x86; expected values as it casts them to float64.
    #[test]
    fn floats_of_80_bits_become_equal_ones_of_64() {
        let stored = Float { size: 16, normalization: 0, ..float(16, (64, 15), 64, 16383, false) };
        let transform = ElementTransform::Float { stored, data_type: DataType::Float64, big_endian: false };
        let value = |mantissa: u64, high: u16| {
            let bytes = [mantissa.to_le_bytes(), u64::from(high).to_le_bytes()].concat();
            transform.apply(&bytes, 8).map(|le| f64::from_le_bytes(le.try_into().unwrap()))
        };
        assert_eq!(value(0xa000_0000_0000_0000, 0x4000), Some(2.5));
        assert_eq!(value(0, 0x8000).map(f64::to_bits), Some((-0.0_f64).to_bits()));
        assert_eq!(value(1 << 63, 0xffff), Some(f64::NEG_INFINITY));
        assert!(value(0xc000_0000_0000_0000, 0x7fff).is_some_and(f64::is_nan));
        assert_eq!(value(1 << 63, 0x3bcd), Some(f64::from_bits(1)), "2^-1074");
        assert_eq!(value(0xffff_ffff_ffff_f800, 0x43fe), Some(f64::MAX));
        assert_eq!(value(1 << 63, 0x43ff), None, "2^1024");
        assert_eq!(value(1 << 63, 0x3bcc), None, "2^-1075");
        assert_eq!(value(0xaaaa_aaaa_aaaa_aaab, 0x3ffd), None, "a third");
        assert_eq!(value(1 << 62, 0x3fff), None, "an unnormal number");
    }

    /// Expected value: h5py 3.16 on 64-bit floats with a stored first bit. It is half of what the x87 takes such bits for.
    #[test]
    fn subnormal_numbers_with_a_stored_bit_are_halved() {
        let stored = Float { normalization: 0, ..float(8, (52, 11), 52, 1023, false) };
        let transform = ElementTransform::Float { stored, data_type: DataType::Float64, big_endian: false };
        let subnormal = 0xf03f_u64.to_le_bytes();
        assert_eq!(transform.apply(&subnormal, 8), Some(subnormal.to_vec()));
    }

    /// Bytes by the definition of binary128 in IEEE 754.
    #[test]
    fn floats_of_128_bits_become_equal_ones_of_64() {
        let stored = float(16, (112, 15), 112, 16383, true);
        let transform = ElementTransform::Float { stored, data_type: DataType::Float64, big_endian: true };
        let value = |high: u64, low: u64| {
            let bytes = [high.to_be_bytes(), low.to_be_bytes()].concat();
            transform.apply(&bytes, 8).map(|be| f64::from_be_bytes(be.try_into().unwrap()))
        };
        assert_eq!(value(0x3fff_4000_0000_0000, 0), Some(1.25));
        assert_eq!(value(0xc000_0000_0000_0000, 0), Some(-2.0));
        assert_eq!(value(0x3fff_0000_0000_0000, 1 << 60), Some(1.0 + f64::EPSILON));
        assert_eq!(value(0x3fff_0000_0000_0000, 1 << 59), None);
        assert_eq!(value(0, 1), None, "subnormal");
    }

    #[test]
    fn what_the_target_cannot_hold_is_refused() {
        let stored = float(2, (7, 8), 7, 127, false);
        let half = ElementTransform::Float { stored, data_type: DataType::Float16, big_endian: false };
        assert_eq!(half.apply(&[0x80, 0x3f], 2), Some(vec![0x00, 0x3c]));
        assert_eq!(half.apply(&[0x7f, 0x7f], 2), None, "3.4e38");
        assert_eq!(half.apply(&[0x80, 0x00], 2), None, "2^-126");
        assert_eq!(half.apply(&[0x00, 0x34], 2), Some(vec![0x02, 0x00]), "2^-23");
    }
}
