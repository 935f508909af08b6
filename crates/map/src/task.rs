use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_zarr::{Codec, NodePath, SourceId};

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

/// Decoded elements of a stretch of a file, and the region of the chunk that they fill.
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
}

/// A fixed-length string that is not stored null-padded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaddedString {
    /// Offset in the element, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// How the end of the text is marked.
    pub end: StringEnd,
}

/// How a fixed-length string marks the end of its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StringEnd {
    /// The first NUL ends the text; the bytes after it are undefined.
    Nul,
    /// Trailing blanks are padding.
    Blanks,
}

/// A part of an element with a conversion of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvertedPart {
    /// Offset in the stored element, in bytes.
    pub from: u32,
    /// Offset in the new element, in bytes.
    pub to: u32,
    /// Size in the new element, in bytes.
    pub size: u32,
    /// Conversion.
    pub transform: ElementTransform,
}

/// A binary floating-point format. Bits count from the least significant one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloatFormat {
    /// Size in bytes, at most 16.
    pub size: u32,
    /// The most significant byte comes first.
    pub big_endian: bool,
    /// Bit of the sign.
    pub sign_location: u8,
    /// First bit of the exponent.
    pub exponent_location: u8,
    /// Bits of the exponent.
    pub exponent_size: u8,
    /// Number added to the exponent.
    pub exponent_bias: u32,
    /// First bit of the mantissa.
    pub mantissa_location: u8,
    /// Bits of the mantissa without an implied one.
    pub mantissa_size: u8,
    /// The first bit of the mantissa is stored (x87), not implied.
    pub explicit_bit: bool,
}

/// Conversion of each decoded element to the array's element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElementTransform {
    /// None: the stored element is the array's element.
    None,
    /// Parts of the stored element are copied, then strings and numbers among them converted in place.
    Repack {
        /// Size of a stored element.
        stored_size: u32,
        /// Parts to copy: (offset in the stored element, offset in the new one, bytes).
        parts: Vec<(u32, u32, u32)>,
        /// Strings of the new element that become null-padded.
        strings: Vec<PaddedString>,
        /// Parts that are converted instead of copied.
        converted: Vec<ConvertedPart>,
        /// Numbers of the new element whose bytes are reversed: (offset, bytes).
        reversed: Vec<(u32, u32)>,
    },
    /// An integer with unused bits: shifted right by `bit_offset`, cut to `precision` bits, sign-extended, and stored in
    /// the array's element size and byte order.
    Integer {
        /// Size of a stored element.
        stored_size: u32,
        /// The stored bytes are most significant first.
        stored_big_endian: bool,
        /// First significant bit.
        bit_offset: u16,
        /// Significant bits.
        precision: u16,
        /// Two's complement.
        signed: bool,
        /// The array's bytes are most significant first.
        big_endian: bool,
    },
    /// A time of PyTables, which has seconds in the upper half of 64 bits and microseconds in the lower half, both signed,
    /// as a 64-bit float of seconds in the same byte order.
    Time {
        /// The most significant byte comes first.
        big_endian: bool,
    },
    /// A floating-point number as the IEEE 754 number of the same value; an error if there is none. NaNs lose their
    /// payload.
    Float {
        /// Format of the stored number.
        stored: FloatFormat,
        /// Bits of the array's exponent.
        exponent_size: u8,
        /// Bits of the array's mantissa without the implied one.
        mantissa_size: u8,
        /// The array's bytes are most significant first.
        big_endian: bool,
    },
}

impl ElementTransform {
    /// Returns a transform that copies parts of an element and null-pads its strings.
    pub(crate) fn repack(stored_size: u32, parts: Vec<(u32, u32, u32)>, strings: Vec<PaddedString>) -> Self {
        Self::Repack { stored_size, parts, strings, converted: Vec::new(), reversed: Vec::new() }
    }

    /// Returns the size of a stored element in bytes, or `None` where it is that of the array's element.
    pub fn stored_size(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Repack { stored_size, .. } | Self::Integer { stored_size, .. } => Some(*stored_size),
            Self::Float { stored, .. } => Some(stored.size),
            Self::Time { .. } => Some(8),
        }
    }
}
