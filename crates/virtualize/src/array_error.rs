use virtualize_bytes::{ByteRange, ReadError};
use virtualize_codec::CodecFailure;
use virtualize_store::StoreError;
use virtualize_zarr::DataType;

use crate::selection::SelectionError;

/// Reason why the values of an array could not be read. A message of one line that names neither file nor array.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ArrayError {
    /// The hierarchy has no array at the path.
    #[error("there is no such array")]
    NoArray,
    /// The grid has no chunk of fixed size at the position.
    #[error("there is no chunk {0} of fixed size")]
    NoChunk(u64),
    /// The grid has no chunk with these indices.
    #[error("there is no chunk {indices:?} in a grid of {counts:?} chunks")]
    NoChunkAt {
        /// Indices in the grid.
        indices: Vec<u64>,
        /// Number of chunks along each axis.
        counts: Vec<u64>,
    },
    /// A selection does not fit the array.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The function for chunks without a decoder here failed.
    #[error("{0}")]
    ForeignDecoder(String),
    /// The array does not describe the image of a chunk.
    #[error("{0}")]
    Image(String),
    /// A chunk has a position outside the grid.
    #[error("position {position} lies outside a grid of {counts:?} chunks")]
    OutsideGrid {
        /// Row-major position.
        position: u64,
        /// Number of chunks along each axis.
        counts: Vec<u64>,
    },
    /// The array and its chunk grid differ in their number of axes.
    #[error("{rank} axes, and a chunk grid of {grid}")]
    GridRank {
        /// Number of axes of the array.
        rank: usize,
        /// Number of axes of the grid.
        grid: usize,
    },
    /// The array or a chunk exceeds the limit.
    #[error("{what} has {bytes} bytes, and at most {most} are read at once")]
    TooLarge {
        /// "it" or "a chunk".
        what: &'static str,
        /// Decoded size in bytes.
        bytes: u64,
        /// Limit in bytes.
        most: u64,
    },
    /// The number of elements overflows.
    #[error("{what} has {shape:?} elements of {data_type}, too many")]
    TooManyElements {
        /// "it" or "a chunk".
        what: &'static str,
        /// Number of elements along each axis.
        shape: Vec<u64>,
        /// Type of an element.
        data_type: DataType,
    },
    /// The stored chunks exceed the limit.
    #[error("its chunks are stored in more than {0} bytes, which is all that is read at once")]
    StoredTooLarge(u64),
    /// Elements of variable length exceed the limit.
    #[error("its elements have more than the {0} bytes that are read at once")]
    TextTooLarge(u64),
    /// A `transpose` does not fit the array.
    #[error("transpose: {order:?} is no order of {rank} axes")]
    Order {
        /// The order of the codec.
        order: Vec<usize>,
        /// Number of axes of the array.
        rank: usize,
    },
    /// A `transpose` follows a codec other than `transpose`.
    #[error("transpose behind another codec")]
    LateTranspose,
    /// A chunk is damaged.
    #[error("chunk {indices}: {source}")]
    Chunk {
        /// Indices of the chunk, as in a chunk key.
        indices: String,
        /// Reason.
        source: Box<Self>,
    },
    /// A codec fails.
    #[error(transparent)]
    Codec(#[from] CodecFailure),
    /// `vlen-utf8` or `vlen-bytes` is damaged.
    #[error("text of variable length at byte {at}: {found}, expected {expected}")]
    VariableLayout {
        /// Offset in the decoded chunk, in bytes.
        at: usize,
        /// The value found there.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The fill value is not an element of the array's type.
    #[error("its fill value is no element of its type")]
    FillValue,
    /// Elements of this type have no byte order, or no whole number of elements was decoded.
    #[error("its byte order cannot be changed")]
    ByteOrder,
    /// A chunk has fewer elements than its shape.
    #[error("its elements are fewer than its shape has")]
    TooFewElements,
    /// Elements of the type have a fixed size.
    #[error("its elements have a fixed size")]
    FixedSize,
    /// Elements of the type have no fixed size.
    #[error("its elements have no fixed size")]
    VariableSize,
    /// The chunks have to be re-encoded, and are too large to inline.
    #[error("more than {0} bytes would have to be inlined")]
    InlineLimit(u64),
    /// A chunk refers to a source that the hierarchy does not list.
    #[error("there is no source {0}")]
    NoSource(u32),
    /// A file changed since it was mapped.
    #[error("{name} has changed")]
    Changed {
        /// Name of the file.
        name: String,
    },
    /// A file ends before the end of a chunk.
    #[error("{range} of {name} cannot be read: it ends before")]
    Truncated {
        /// Length of the chunk in bytes.
        range: ByteRange,
        /// Name of the file.
        name: String,
    },
    /// A file could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ArrayError {
    /// Adds the indices of a chunk to an error.
    pub(crate) fn in_chunk(self, indices: String) -> Self {
        Self::Chunk { indices, source: Box::new(self) }
    }
}
