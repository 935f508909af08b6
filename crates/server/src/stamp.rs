//! What changes when a file is replaced.

use std::{
    fs::{self, Metadata},
    io,
    path::Path,
    time::SystemTime,
};

/// Modification time, length and number of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    pub(crate) length: u64,
    number: u64,
}

impl Stamp {
    /// Reads the stamp of a file.
    ///
    /// # Errors
    /// The file does not exist, or its metadata cannot be read.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        Ok(Self { modified: about.modified().ok(), length: about.len(), number: number(&about) })
    }
}

#[cfg(unix)]
fn number(about: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(about)
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> u64 {
    0
}
