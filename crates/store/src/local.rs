use std::{
    fs::{File, Metadata},
    io,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{Allowed, StoreError, list::milliseconds, meter::Meter, pages};

/// Maximum gap in bytes across which two reads are merged.
const GAP: u64 = 4 << 10;
/// Maximum length in bytes of a merged read.
const LONGEST: u64 = 4 << 20;

/// A file on a local disk, read synchronously on the calling thread.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    path: PathBuf,
    size: u64,
    modified: Option<SystemTime>,
}

impl LocalFile {
    /// Opens a regular file; checks its real path if only some prefixes are allowed.
    pub(crate) fn open(path: PathBuf, allowed: Option<&Allowed>) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let found = std::fs::metadata(&path).map_err(|error| StoreError::io(&name, &error))?;
        if let Some(what) = not_a_file(&found) {
            return Err(StoreError::NotAFile { name, what });
        }
        let file = File::open(&path).map_err(|error| StoreError::io(&name, &error))?;
        if let Some(allowed) = allowed {
            allowed.check_file(&file, &path)?;
        }
        let opened = file.metadata().map_err(|error| StoreError::io(&name, &error))?;
        Ok(Self { file, path, size: opened.len(), modified: opened.modified().ok() })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the modification time in milliseconds since 1970, rounded up.
    pub(crate) fn modified(&self) -> Option<i64> {
        milliseconds(self.modified?)
    }

    /// Returns an identifier of this version of the file.
    pub(crate) fn stamp(&self) -> Option<String> {
        let found = self.file.metadata().ok()?;
        let modified = self.modified?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        #[cfg(unix)]
        let more = {
            use std::os::unix::fs::MetadataExt;
            format!("{}-{}-{}-{}", found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
        };
        #[cfg(not(unix))]
        let more = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        Some(format!("{}-{modified}-{more}", self.size))
    }

    /// Reads bytes into a buffer, and returns their number, which is smaller at the end of the file. Fails if the file
    /// changed since it was opened.
    pub(crate) fn read_into(
        &self,
        start: u64,
        buffer: &mut [u8],
        meter: &Meter,
    ) -> Result<usize, StoreError> {
        let range = ByteRange::new(start, buffer.len() as u64).clamp_to(self.size);
        let length = usize::try_from(range.length).unwrap_or(usize::MAX).min(buffer.len());
        self.read_exact(buffer.get_mut(..length).unwrap_or_default(), range.start, meter)?;
        self.unchanged(&self.file.metadata().map_err(|error| self.failed(&error))?)?;
        Ok(length)
    }

    /// Reads ranges; fails if the file changed since it was opened.
    pub(crate) fn read_ranges(&self, ranges: &[ByteRange], meter: &Meter) -> Result<Vec<Bytes>, StoreError> {
        let clamped: Vec<_> = ranges.iter().map(|range| range.clamp_to(self.size)).collect();
        let parts = match clamped.as_slice() {
            [range] => vec![self.read(*range, meter)?],
            many => self.read_merged(many, meter)?,
        };
        self.unchanged(&self.file.metadata().map_err(|error| self.failed(&error))?)?;
        Ok(parts)
    }

    /// Checks that the path still leads to the file that was opened.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        self.unchanged(&std::fs::metadata(&self.path).map_err(|error| self.failed(&error))?)
    }

    /// Reads several ranges, merging neighbours.
    fn read_merged(&self, ranges: &[ByteRange], meter: &Meter) -> Result<Vec<Bytes>, StoreError> {
        let plan = pages::merge(ranges, GAP, LONGEST);
        let spans: Vec<Bytes> =
            plan.spans.iter().map(|span| self.read(*span, meter)).collect::<Result<_, _>>()?;
        let part = |(range, &at): (&ByteRange, &usize)| match (plan.spans.get(at), spans.get(at)) {
            (Some(span), Some(bytes)) => slice(bytes, range.start - span.start, range.length),
            _ => Bytes::new(),
        };
        Ok(ranges.iter().zip(&plan.span_of).map(part).collect())
    }

    /// Reads a single range.
    fn read(&self, range: ByteRange, meter: &Meter) -> Result<Bytes, StoreError> {
        let Ok(length) = usize::try_from(range.length) else {
            return Err(self.failed(&io::ErrorKind::OutOfMemory.into()));
        };
        if length == 0 {
            return Ok(Bytes::new());
        }
        let mut buffer = vec![0; length];
        self.read_exact(&mut buffer, range.start, meter)?;
        Ok(buffer.into())
    }

    /// Fills a buffer.
    fn read_exact(&self, buffer: &mut [u8], start: u64, meter: &Meter) -> Result<(), StoreError> {
        match read_exact_at(&self.file, buffer, start) {
            Ok(()) => {
                meter.request(buffer.len() as u64);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.changed("it became shorter"))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Compares size and modification time with those of the opened file.
    fn unchanged(&self, now: &Metadata) -> Result<(), StoreError> {
        if now.len() != self.size {
            return Err(self.changed(&format!("{} bytes, expected {}", now.len(), self.size)));
        }
        if now.modified().ok() != self.modified {
            return Err(self.changed("its modification time differs"));
        }
        Ok(())
    }

    fn changed(&self, reason: &str) -> StoreError {
        StoreError::Changed { name: self.path.display().to_string(), reason: reason.to_owned() }
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        StoreError::io(&self.path.display().to_string(), error)
    }
}

/// Returns `length` bytes of `bytes` from `start`; empty if the range is out of bounds.
pub(crate) fn slice(bytes: &Bytes, start: u64, length: u64) -> Bytes {
    let end = start.saturating_add(length);
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= bytes.len() => bytes.slice(start..end),
        _ => Bytes::new(),
    }
}

/// Returns the kind of a file that is not a regular one; `None` for a regular file.
pub(crate) fn not_a_file(found: &Metadata) -> Option<&'static str> {
    match found {
        found if found.is_file() => None,
        found if found.is_dir() => Some("a directory"),
        _ => Some("a pipe, socket or device"),
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.seek_read(rest, offset.saturating_add(done as u64))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}
