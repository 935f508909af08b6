//! Where outputs of several files go.

use std::io;

/// Takes the files of an output that is a folder or a prefix. Who implements it keeps them aside until all are there;
/// what was put last is shown last (the root's metadata, without which no reader opens the rest).
pub trait Sink {
    /// Starts the file of a key such as `a/zarr.json`: names parted by slashes, each key once. It is complete when it
    /// has been flushed and dropped, and before the next is started.
    ///
    /// # Errors
    /// A key that was there before or that leads out of the output, and what a disk can say.
    fn create(&mut self, key: &str) -> io::Result<Box<dyn io::Write + Send + '_>>;

    /// Writes the file of a key whole.
    ///
    /// # Errors
    /// As [`Sink::create`].
    fn put(&mut self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(key)?;
        file.write_all(bytes)?;
        file.flush()
    }
}
