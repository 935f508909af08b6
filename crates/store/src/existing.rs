use std::{
    fs::File,
    io::{self, Cursor, Read, Seek},
};

use tokio::runtime::Handle;

use crate::{
    Receipt, StoreError, StoreOptions, fetch,
    location::Location,
    receipt::{Parts, below, local},
};

/// A file that can be read at any offset.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// An output of several files that exists. Its functions block; for an output in a bucket, they need the context of a tokio
/// runtime, on a thread that may block.
#[derive(Clone, Debug)]
pub struct ExistingFolder {
    location: Location,
    pub(crate) parts: Parts,
    options: StoreOptions,
}

impl ExistingFolder {
    /// Identifies the files of an output. Reads all of them if they are on a local disk. Returns `None` if there are none.
    ///
    /// # Errors
    /// [`StoreError`] of the store or the file system.
    pub fn find(target: &str, options: &StoreOptions) -> Result<Option<Self>, StoreError> {
        let location = Location::parse(target.trim_end_matches('/'))?;
        let options = StoreOptions { allowed: None, ..options.clone() };
        let parts = match &location {
            Location::Local(path) if !path.is_dir() => None,
            Location::Local(path) => local(path).map_err(|error| StoreError::io(&location.name(), &error))?,
            _ => Handle::current().block_on(below(&location, &options))?,
        };
        Ok(parts.map(|parts| Self { location, parts, options }))
    }

    /// Returns the receipt of the output.
    pub fn receipt(&self) -> Receipt {
        self.parts.receipt()
    }

    /// Returns the keys of its files.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.parts.keys()
    }

    /// Opens a file; an object is fetched whole.
    ///
    /// # Errors
    /// I/O errors, and those of the store.
    pub fn open(&self, key: &str) -> io::Result<Box<dyn ReadSeek>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{key}: not found"));
        let size = self.parts.size(key).ok_or_else(missing)?;
        if let Location::Local(path) = &self.location {
            return Ok(Box::new(File::open(path.join(key))?));
        }
        let url = format!("{}/{key}", self.location.url());
        let bytes = Handle::current().block_on(fetch(&url, size, &self.options)).map_err(io::Error::other)?;
        Ok(Box::new(Cursor::new(bytes)))
    }
}
