use std::any::Any;

use bytes::Bytes;
use virtualize_bytes::{Limits, ReadError, ReadRanges};
use virtualize_map::ReferenceText;
use virtualize_zarr::SourceId;

/// Stored pointers to elements of variable length.
#[derive(Clone, Copy)]
pub(crate) struct Pointers<'a> {
    /// File that contains both pointers and elements.
    pub(crate) reader: &'a dyn ReadRanges,
    /// The same file among the sources.
    pub(crate) source: SourceId,
    /// Url of the file.
    pub(crate) url: &'a str,
    /// Pointers as stored.
    pub(crate) raw: &'a [u8],
    /// Mapping's record of the pointers.
    pub(crate) context: &'a (dyn Any + Send + Sync),
    /// Text of object references.
    pub(crate) references: Option<ReferenceText>,
    pub(crate) limits: &'a Limits,
    /// Limit of the text in bytes.
    pub(crate) most: u64,
}

/// An element of variable length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pointed {
    Text(String),
    Bytes(Bytes),
}

/// Reason why pointers could not be followed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    /// The format has no elements of variable length.
    #[error("the source format has no elements of variable length")]
    NoPointers,
    /// The file is not an HDF5 file that was read.
    #[error("source {} is no HDF5 file that was read", _0.0)]
    NotRead(SourceId),
    /// A reference points to no object with a name.
    #[error(transparent)]
    Reference(virtualize_map::Error),
    /// A reference selects a part of an object, for which there is no room.
    #[error("a reference leads to a part of an object")]
    Part,
    /// The text of references takes too much memory.
    #[error("its text takes more than {most} bytes")]
    TooMuchText {
        /// Limit in bytes.
        most: u64,
    },
    /// An element is not a string.
    #[error("an element is neither text nor bytes")]
    NotText,
    /// The file cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The heap is damaged.
    #[error(transparent)]
    Heap(virtualize_hdf5::Error),
}

impl From<virtualize_hdf5::Error> for Unresolved {
    fn from(error: virtualize_hdf5::Error) -> Self {
        match error {
            virtualize_hdf5::Error::Read(error) => Self::Read(error),
            error => Self::Heap(error),
        }
    }
}
