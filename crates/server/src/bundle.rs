//! Formats of several files in one response: a zip archive of uncompressed entries, so that clients can read single
//! entries by range. Times, order and attributes are fixed, so that the same references give the same bytes.

use std::io::{self, BufWriter, Seek, Write};

use virtualize::Sink;
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

/// Size of the write buffer in bytes.
const BUFFER: usize = 64 << 10;

/// A sink whose files become entries of an archive.
pub(crate) struct Bundle<W: Write + Seek> {
    archive: ZipWriter<W>,
    options: SimpleFileOptions,
}

impl<W: Write + Seek> Bundle<W> {
    /// Creates an archive whose entries have at most `most` bytes each.
    pub(crate) fn new(out: W, most: u64) -> Self {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(most >= u64::from(u32::MAX));
        Self { archive: ZipWriter::new(out), options }
    }

    /// Completes the archive, and returns the writer.
    pub(crate) fn finish(self) -> io::Result<W> {
        Ok(self.archive.finish()?)
    }
}

impl<W: Write + Seek + Send> Sink for Bundle<W> {
    fn create(&mut self, key: &str) -> io::Result<Box<dyn Write + Send + '_>> {
        // No entry may be extracted outside the target folder.
        if key.split('/').any(|name| matches!(name, "" | "." | "..")) || key.contains(['\\', '\0']) {
            let reason = format!("{key:?} cannot be a file's name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        self.archive.start_file(key, self.options)?;
        Ok(Box::new(BufWriter::with_capacity(BUFFER, &mut self.archive)))
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> io::Result<()> {
        drop(self.create(key)?);
        self.archive.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(keys: &[&str]) -> io::Result<Vec<u8>> {
        let mut bundle = Bundle::new(io::Cursor::new(Vec::new()), 1 << 20);
        for key in keys {
            bundle.put(key, key.as_bytes())?;
        }
        Ok(bundle.finish()?.into_inner())
    }

    #[test]
    fn archives_are_the_same_each_time_and_lead_nowhere() {
        let made = archive(&["a/b", "c"]).unwrap();
        assert_eq!(made, archive(&["a/b", "c"]).unwrap());
        // A local file header (APPNOTE, section 4.3.7): method "stored", 1980-01-01, and the uncompressed bytes.
        assert_eq!(&made[..4], b"PK\x03\x04");
        assert_eq!(&made[8..14], [0, 0, 0, 0, 0x21, 0]);
        assert!(
            made.windows(7)
                .any(|bytes| bytes == b"a/b".iter().chain(b"a/b").chain(b"P").copied().collect::<Vec<_>>())
        );
        for key in ["", "/a", "../a", "a/../b", "a\\b", "a\0", "a/"] {
            assert!(archive(&[key]).is_err(), "{key}");
        }
        assert!(archive(&["a", "a"]).is_err());
    }
}
