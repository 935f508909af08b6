use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Datatype, Float, StringPadding};
use virtualize_zarr::{Codec, NodePath, SourceId};

use crate::hdf5::ObjectNames;

/// Chunks of one array that are to be made and put inline.
///
/// "Stored order" below means the bytes as they are at the array's `bytes` codec: elements in C order of the chunk as
/// stored (after any `transpose`), numbers in the byte order which that codec says.
#[derive(Clone, Debug)]
pub struct InlineTask {
    /// The array.
    pub array: NodePath,
    /// Row-major positions of the chunks that get this content.
    pub positions: Vec<u64>,
    /// How to make it.
    pub content: ChunkContent,
}

/// How the bytes of an inline chunk are made.
#[derive(Clone, Debug)]
pub enum ChunkContent {
    /// The bytes of the file as they are: they are already encoded.
    AsStored {
        /// In which file.
        source: SourceId,
        /// Where.
        range: ByteRange,
    },
    /// Stored bytes after a prefix from the filter's parameters, as one stream of bits (the least significant bit of a
    /// byte first) that is padded with zero bits to whole words. They are already encoded.
    Prefixed {
        /// In which file.
        source: SourceId,
        /// Where.
        range: ByteRange,
        /// The prefix.
        prefix: Bytes,
        /// Bits of the prefix that belong to the stream.
        prefix_bits: u32,
        /// Bytes of a word.
        word: u32,
    },
    /// The bytes of the file, the bits of each byte turned round (TIFF's FillOrder 2). They are already encoded.
    BitsReversed {
        /// In which file.
        source: SourceId,
        /// Where.
        range: ByteRange,
    },
    /// An image of its own format, made taller, as the array's first codec says which; the rows that are added have any
    /// values.
    TallerImage {
        /// In which file.
        source: SourceId,
        /// Where.
        range: ByteRange,
        /// Columns.
        width: u64,
        /// Rows that count.
        rows: u64,
        /// Rows of the chunk.
        height: u64,
    },
    /// Decode LERC blobs as libtiff does (masked numbers are NaN, or the mask is alpha), and encode the result as one LERC
    /// blob without a mask, with the array's codecs after LERC around it.
    Lerc {
        /// In which file.
        source: SourceId,
        /// Where.
        range: ByteRange,
        /// Rows that the blobs have.
        rows: u64,
        /// Rows of the chunk: those that are added are 0.
        height: u64,
        /// Columns.
        columns: u64,
        /// Extent of the last axis where it is that of samples, else 1.
        samples: u64,
        /// The last sample is unassociated alpha.
        has_alpha: bool,
    },
    /// Decode pieces, lay them on a background, then encode with the array's codecs (`transpose` and the codec that
    /// turns the array into bytes aside: the buffer is in stored order).
    Assemble {
        /// Shape of the chunk in stored order; its element size is that of `background`.
        shape: Vec<u64>,
        /// One element in stored order, which fills what no piece covers.
        background: Bytes,
        /// What is laid on it, in order.
        pieces: Vec<Piece>,
    },
    /// Variable-length elements: decode the pieces, look each element up in the global heap of its file, then
    /// encode as `vlen-utf8` or `vlen-bytes`. Elements that no piece covers are empty. References become
    /// text, null references the empty text.
    Variable {
        /// Elements of the chunk.
        shape: Vec<u64>,
        /// The HDF5 type of an element.
        datatype: Datatype,
        /// Stored elements, in order.
        pieces: Vec<Piece>,
        /// What references lead to.
        objects: Arc<ObjectNames>,
        /// What is said of references.
        text: ReferenceText,
    },
}

impl ChunkContent {
    /// The file of what is not made of pieces.
    fn source(&self) -> Option<(SourceId, ByteRange)> {
        match self {
            Self::AsStored { source, range }
            | Self::Prefixed { source, range, .. }
            | Self::TallerImage { source, range, .. }
            | Self::Lerc { source, range, .. }
            | Self::BitsReversed { source, range } => Some((*source, *range)),
            Self::Assemble { .. } | Self::Variable { .. } => None,
        }
    }

    /// The pieces, where it is made of such.
    pub fn pieces(&self) -> &[Piece] {
        match self {
            Self::Assemble { pieces, .. } | Self::Variable { pieces, .. } => pieces,
            _ => &[],
        }
    }

    /// The byte ranges that it needs.
    pub fn ranges(&self) -> impl Iterator<Item = (SourceId, ByteRange)> {
        let of_pieces = self.pieces().iter().filter_map(|piece| match &piece.bytes {
            PieceBytes::At(range) => Some((piece.source, *range)),
            PieceBytes::Here(_) => None,
        });
        self.source().into_iter().chain(of_pieces)
    }

    /// The files that it needs.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> {
        self.source()
            .map(|(source, _)| source)
            .into_iter()
            .chain(self.pieces().iter().map(|piece| piece.source))
    }

    /// The same files, to be changed.
    pub fn sources_mut(&mut self) -> impl Iterator<Item = &mut SourceId> {
        let (whole, pieces) = match self {
            Self::AsStored { source, .. }
            | Self::Prefixed { source, .. }
            | Self::TallerImage { source, .. }
            | Self::Lerc { source, .. }
            | Self::BitsReversed { source, .. } => (Some(source), &mut [][..]),
            Self::Assemble { pieces, .. } | Self::Variable { pieces, .. } => (None, &mut pieces[..]),
        };
        whole.into_iter().chain(pieces.iter_mut().map(|piece| &mut piece.source))
    }
}

/// Where the encoded bytes of a piece are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PieceBytes {
    /// In the file.
    At(ByteRange),
    /// Here: the file's metadata hold them, or nothing does (a fill value).
    Here(Bytes),
}

/// What the text of a reference says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceText {
    /// The path of the object.
    Path,
    /// Which part of the object is meant, as JSON; empty for all of it.
    Part,
}

/// Decoded elements of a stretch of a file, and where in the chunk they go.
#[derive(Clone, Debug)]
pub struct Piece {
    /// In which file; elements of variable length point into its global heap.
    pub source: SourceId,
    /// Encoded bytes.
    pub bytes: PieceBytes,
    /// Codecs that encoded them, in the order of encoding; decoding undoes the last first.
    pub codecs: Vec<Codec>,
    /// Shape of the decoded elements. Fewer decoded bytes than it needs are an error; more are cut off.
    pub shape: Vec<u64>,
    /// First element of the part that is used, along each axis.
    pub from: Vec<u64>,
    /// Where that element goes in the chunk.
    pub to: Vec<u64>,
    /// How many elements are used along each axis.
    pub extent: Vec<u64>,
    /// What is done to each element.
    pub transform: ElementTransform,
}

/// A fixed-length string that is not null-padded as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaddedString {
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// How it is stored.
    pub padding: StringPadding,
}

/// What is done to each decoded element before it is placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElementTransform {
    /// Nothing: the stored element is the array's element.
    None,
    /// Parts of the stored element are copied, then strings and numbers among them converted in place.
    Repack {
        /// Size of a stored element.
        stored_size: u32,
        /// Parts to copy: (offset in the stored element, offset in the new one, bytes).
        parts: Vec<(u32, u32, u32)>,
        /// Strings of the new element that become null-padded.
        strings: Vec<PaddedString>,
        /// Numbers of the new element whose bytes are reversed: (offset, bytes).
        reversed: Vec<(u32, u32)>,
    },
    /// An integer with unused bits: shift right by `bit_offset`, keep `precision` bits, extend the sign, and store in as
    /// many bytes as the array's element has, in the array's byte order.
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
    /// Two signed integers as two floats of twice their size, in the same byte order.
    ComplexInteger {
        /// Bytes of each integer: 2 or 4.
        part_size: u32,
        /// The most significant byte comes first, in both.
        big_endian: bool,
    },
    /// A floating-point number with an implied first bit as the IEEE 754 one of the same value, which has at least as
    /// many bits for exponent and mantissa. NaNs lose their payload.
    Float {
        /// The stored format: at most 8 bytes, not in VAX order.
        stored: Float,
        /// Bits of the array's exponent.
        exponent_size: u8,
        /// Bits of the array's mantissa, the implied one not counted.
        mantissa_size: u8,
        /// The array's bytes are most significant first.
        big_endian: bool,
    },
}

impl ElementTransform {
    /// Copies parts of an element, and makes strings in it null-padded.
    pub(crate) fn repack(stored_size: u32, parts: Vec<(u32, u32, u32)>, strings: Vec<PaddedString>) -> Self {
        Self::Repack { stored_size, parts, strings, reversed: Vec::new() }
    }

    /// Bytes of a stored element, where it differs from the array's.
    pub fn stored_size(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Repack { stored_size, .. } | Self::Integer { stored_size, .. } => Some(*stored_size),
            Self::Float { stored, .. } => Some(stored.size),
            Self::ComplexInteger { part_size, .. } => Some(part_size.saturating_mul(2)),
        }
    }
}
