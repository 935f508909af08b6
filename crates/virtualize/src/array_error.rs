use virtualize_bytes::{ByteRange, ReadError};
use virtualize_codec::CodecFailure;
use virtualize_store::StoreError;
use virtualize_zarr::DataType;

/// Why the values of an array could not be read. One line that names neither file nor array.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ArrayError {
    /// The hierarchy has no array at the path.
    #[error("there is no such array")]
    NoArray,
    /// The grid has no chunk of fixed size at the position.
    #[error("there is no chunk {0} of fixed size")]
    NoChunk(u64),
    /// A chunk has a position outside the grid.
    #[error("position {position} lies outside a grid of {counts:?} chunks")]
    OutsideGrid {
        /// Row-major position.
        position: u64,
        /// Chunks along each axis.
        counts: Vec<u64>,
    },
    /// Array and chunk grid differ in their number of axes.
    #[error("{rank} axes, and a chunk grid of {grid}")]
    GridRank {
        /// Axes of the array.
        rank: usize,
        /// Axes of the grid.
        grid: usize,
    },
    /// Array or chunk exceed the limit.
    #[error("{what} has {bytes} bytes, and at most {most} are read at once")]
    TooLarge {
        /// "it" or "a chunk".
        what: &'static str,
        /// Decoded size in bytes.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// The number of elements overflows.
    #[error("{what} has {shape:?} elements of {data_type}, too many")]
    TooManyElements {
        /// "it" or "a chunk".
        what: &'static str,
        /// Elements along each axis.
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
        /// Axes of the array.
        rank: usize,
    },
    /// A `transpose` follows a codec that is no `transpose`.
    #[error("transpose behind another codec")]
    LateTranspose,
    /// A chunk is damaged.
    #[error("chunk {indices}: {source}")]
    Chunk {
        /// Its indices, as in a chunk key.
        indices: String,
        /// What is wrong with it.
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
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// The fill value is no element of the array's type.
    #[error("its fill value is no element of its type")]
    FillValue,
    /// Elements of this type have no byte order, or no whole number of elements was decoded.
    #[error("its byte order cannot be changed")]
    ByteOrder,
    /// A chunk has fewer elements than its shape.
    #[error("its elements are fewer than its shape has")]
    TooFewElements,
    /// Elements of the type have no fixed size.
    #[error("its elements have no fixed size")]
    VariableSize,
    /// The chunks have to be re-encoded, and are too large to be inlined.
    #[error("more than {0} bytes would have to be inlined")]
    InlineLimit(u64),
    /// A chunk refers to a source that the hierarchy does not list.
    #[error("there is no source {0}")]
    NoSource(u32),
    /// A file changed since it was mapped.
    #[error("{name} has changed")]
    Changed {
        /// The file.
        name: String,
    },
    /// A file ends before the chunk does.
    #[error("{range} of {name} cannot be read: it ends before")]
    Truncated {
        /// Bytes of the chunk.
        range: ByteRange,
        /// The file.
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
    /// Adds the indices of a chunk to what is wrong with it.
    pub(crate) fn in_chunk(self, indices: String) -> Self {
        Self::Chunk { indices, source: Box::new(self) }
    }
}
