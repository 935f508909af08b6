//! Destinations of outputs of several files.

use std::io;

/// Receives the files of an output that is a folder or a prefix. Implementations stage the files until all are
/// written, and publish the last one last: it is the root's metadata, without which no reader opens the rest.
pub trait Sink {
    /// Creates the file of a key such as `a/zarr.json`: names separated by slashes. Each key is used once. The caller
    /// flushes and drops the file, which completes it, before it creates the next one.
    ///
    /// # Errors
    /// A key that was used before or that leads outside the output, and I/O errors.
    fn create(&mut self, key: &str) -> io::Result<Box<dyn io::Write + Send + '_>>;

    /// Writes a whole file.
    ///
    /// # Errors
    /// As [`Sink::create`].
    fn put(&mut self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(key)?;
        file.write_all(bytes)?;
        file.flush()
    }
}
