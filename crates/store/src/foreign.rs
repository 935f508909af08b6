use std::fmt;

use bytes::Bytes;
use chrono::DateTime;
use object_store::{ObjectMeta, path::Path};
use virtualize_bytes::{BoxFuture, ByteRange, ReadErrorKind};

use crate::{StoreError, error::one_line};

/// A store that the caller provides, such as one of a Python library. Files are read through it if it is set in
/// [`crate::StoreOptions::through`].
pub trait ForeignStore: fmt::Debug + Send + Sync {
    /// Reads a range of the file at a URL, and returns the version of the file that contains these bytes, or fails: all
    /// detection of changes rests on this. The result is shorter if the file ends within the range. `if_match` is the
    /// entity tag when the file was opened, for stores that support conditional requests; `None` when the file is
    /// being opened, and for files without a tag.
    fn read<'a>(
        &'a self,
        url: &'a str,
        range: ByteRange,
        if_match: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(FileVersion, Bytes), ForeignError>>;
}

/// Version of a file in a foreign store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileVersion {
    /// Size in bytes.
    pub size: u64,
    /// Entity tag.
    pub etag: Option<String>,
    /// Modification time in microseconds since 1970-01-01T00:00:00Z.
    pub modified: Option<i64>,
}

/// Error of a foreign store.
#[derive(Debug)]
pub struct ForeignError {
    /// Class of the error.
    pub kind: ReadErrorKind,
    /// What failed.
    pub reason: String,
}

impl ForeignError {
    /// Adds the name of the file.
    pub(crate) fn named(self, name: &str) -> StoreError {
        let (name, reason) = (name.to_owned(), one_line(&self.reason));
        match self.kind {
            ReadErrorKind::NotFound => StoreError::NotFound { name },
            ReadErrorKind::Denied => StoreError::Denied { name, reason },
            ReadErrorKind::Changed => StoreError::Changed { name, reason },
            ReadErrorKind::Invalid => StoreError::Location { name, reason },
            _ => StoreError::Unavailable { name, reason },
        }
    }
}

impl From<FileVersion> for ObjectMeta {
    fn from(version: FileVersion) -> Self {
        let modified = version.modified.and_then(DateTime::from_timestamp_micros).unwrap_or_default();
        let FileVersion { size, etag, .. } = version;
        Self { location: Path::default(), last_modified: modified, size, e_tag: etag, version: None }
    }
}
