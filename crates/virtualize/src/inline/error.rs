use virtualize_bytes::{ByteRange, ReadError, ReadErrorKind};
use virtualize_codec::CodecFailure;

use crate::decode::RegionError;
use crate::source_formats::Unresolved;

/// Reason why a chunk could not be created or fetched.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A fault of the chunk itself: its array is omitted.
    Chunk(ChunkError),
    /// The file can no longer be read, so none of the results are reliable.
    Read(ReadError),
}

/// Fault of a chunk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChunkError {
    #[error("there is no such array")]
    NoArray,
    #[error("there is no source {0}")]
    NoSource(u32),
    /// The file of its bytes could not be opened or read.
    #[error("{0}")]
    Source(String),
    #[error("{range} are more than the {most} that may be read at once")]
    RangeTooLong { range: ByteRange, most: u64 },
    #[error("{0} cannot be read: the file ends before")]
    Truncated(ByteRange),
    #[error("a chunk of {0} elements is too large to be inlined")]
    TooLarge(String),
    #[error("{place}: {source}")]
    Piece { place: String, source: CodecFailure },
    #[error("{place}: {found} bytes decoded, expected {expected}")]
    PieceTooShort { place: String, found: usize, expected: usize },
    #[error("a stored number is no value of the array's data type")]
    Transform,
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Codec(#[from] CodecFailure),
    #[error("chunk at {at:#x}: {source}")]
    At { at: u64, source: CodecFailure },
    #[error("the array has no LERC codec")]
    NoLerc,
    #[error("images of this format cannot be made taller")]
    NotTaller,
    #[error("its last strip: {0}; a rectilinear chunk grid (Zarr v3) references it as it is")]
    LastStrip(CodecFailure),
    #[error(transparent)]
    Pointers(#[from] Unresolved),
    #[error("the type has no variable length")]
    FixedLength,
    #[error("a string is not UTF-8")]
    NotUtf8,
    #[error("its text takes more than {0} bytes")]
    TooMuchText(u64),
    #[error("{0} does not fit 32 bits")]
    Count(usize),
    #[error("its codecs ended unexpectedly")]
    Panicked,
}

impl<E: Into<ChunkError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Chunk(error.into())
    }
}

impl Failure {
    /// Returns the failure of a read from the file that is mapped.
    pub(crate) fn of_own_read(error: ReadError) -> Self {
        match error.kind {
            ReadErrorKind::Limit => Self::Chunk(ChunkError::Source(error.to_string())),
            _ => Self::Read(error),
        }
    }

    /// Returns the failure of a read from another file. It affects only the arrays that need that file, unless the
    /// file changed.
    pub(crate) fn of_other_read(error: ReadError) -> Self {
        match error.kind {
            ReadErrorKind::Changed => Self::Read(error),
            _ => Self::Chunk(ChunkError::Source(error.to_string())),
        }
    }
}
