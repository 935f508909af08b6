use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use virtualize_remedy::Remedy;

use crate::{Budget, ByteRange};

/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One file, read by byte ranges. Implementations fetch the ranges of one call together: they merge neighbours and run
/// requests in parallel, so a caller asks for all that it can name at once.
pub trait ReadRanges: Send + Sync {
    /// The bytes of each range, in the order asked for. A range that passes the end of the file returns what exists,
    /// which may be nothing.
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>>;

    /// Size of the file in bytes.
    fn size(&self) -> u64;

    /// Asked before `bytes` of memory are taken for `what` was read, beside the bytes themselves; with 0 between steps of
    /// work.
    ///
    /// # Errors
    /// Why reading is to stop.
    fn hold(&self, _what: &str, _bytes: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

/// Whether reading goes on. Who has said no once says no from then on.
pub trait Gate: Debug + Send + Sync {
    /// Asked before so many bytes are read, and with 0 between steps of work.
    ///
    /// # Errors
    /// Why reading is to stop.
    fn pass(&self, bytes: u64) -> Result<(), ReadError>;

    /// A gate of its own for one of many files. Where there is none, all pass this one.
    fn for_file(&self) -> Option<Arc<dyn Gate>> {
        None
    }
}

/// A file whose reads come out of a budget.
#[derive(Clone, Copy)]
pub struct Budgeted<'a> {
    source: &'a dyn ReadRanges,
    budget: &'a Budget<'a>,
}

impl<'a> Budgeted<'a> {
    /// A file that shares a budget, which was raised by its size.
    pub fn new(source: &'a dyn ReadRanges, budget: &'a Budget<'a>) -> Self {
        Self { source, budget }
    }
}

impl ReadRanges for Budgeted<'_> {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        let size = self.source.size();
        let bytes =
            || ranges.iter().fold(0_u64, |all, range| all.saturating_add(range.clamp_to(size).length));
        match self.budget.go_on().and_then(|()| self.budget.take("bytes of the file", bytes())) {
            Ok(()) => self.source.read_ranges(ranges),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn hold(&self, what: &str, bytes: u64) -> Result<(), ReadError> {
        self.budget.take(what, bytes)
    }

    fn size(&self) -> u64 {
        self.source.size()
    }
}

/// Why bytes could not be fetched. The text is one line that names the file; the kind drives exit status and retries.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReadError {
    /// What went wrong, as a class.
    pub kind: ReadErrorKind,
    /// One line for people.
    pub message: Arc<str>,
    /// What the user can do.
    pub remedy: Option<Box<Remedy>>,
}

/// Classes of failed reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadErrorKind {
    /// No such file or object.
    NotFound,
    /// The file is there, or may be, but these credentials may not read it.
    Denied,
    /// The file changed between two reads (its etag, size or modification time differs).
    Changed,
    /// The url or an option makes no sense.
    Invalid,
    /// The network or the store failed after all retries.
    Unavailable,
    /// More metadata was asked for than [`crate::Limits::metadata_bytes`] allows.
    Limit,
}

impl ReadError {
    /// An error of the given class.
    pub fn new(kind: ReadErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), remedy: None }
    }
}

/// A file in memory: for tests, for fuzzing, and for content that was fetched whole.
#[derive(Clone, Debug)]
pub struct MemorySource(pub Bytes);

impl ReadRanges for MemorySource {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        let parts = ranges.iter().map(|range| slice(&self.0, *range)).collect();
        Box::pin(std::future::ready(Ok(parts)))
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The part of `whole` that `range` names, clamped to its end.
fn slice(whole: &Bytes, range: ByteRange) -> Bytes {
    let range = range.clamp_to(whole.len() as u64);
    match (usize::try_from(range.start), usize::try_from(range.end())) {
        (Ok(start), Ok(end)) => whole.slice(start..end),
        _ => Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_past_the_end_return_what_exists() {
        let source = MemorySource(Bytes::from_static(b"0123456789"));
        let ranges = [ByteRange::new(2, 3), ByteRange::new(8, 9), ByteRange::new(u64::MAX, 7)];
        let mut future = source.read_ranges(&ranges);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(parts) = future.as_mut().poll(&mut context) else {
            panic!("memory never waits")
        };
        assert_eq!(parts.unwrap(), [&b"234"[..], b"89", b""]);
    }
}
