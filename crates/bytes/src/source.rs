use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use virtualize_remedy::Remedy;

use crate::{Budget, ByteRange};

/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A file that is read by byte ranges. Implementations coalesce adjacent ranges of a call and fetch them in parallel, so
/// callers should request all ranges that they know at once.
pub trait ReadRanges: Send + Sync {
    /// Fetches the bytes of each range, in the order of the ranges. A range beyond the end of the file yields the bytes that
    /// exist, possibly none.
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>>;

    /// Announces ranges that will almost certainly be read soon. The next call of [`ReadRanges::read_ranges`] may fetch
    /// them with its own.
    fn will_read(&self, _ranges: &[ByteRange]) {}

    /// Suggests ranges that may be read soon. The next call of [`ReadRanges::read_ranges`] may fetch those that cost little.
    fn may_read(&self, _ranges: &[ByteRange]) {}

    /// Returns the size of the file in bytes.
    fn size(&self) -> u64;

    /// Returns whether a read takes no longer than the copy of its bytes. Callers then read in small batches, which take less
    /// memory.
    fn is_local(&self) -> bool {
        false
    }

    /// Charges `bytes` of memory for parsed metadata, in addition to the bytes of the file. `what` is a noun in the plural for
    /// the error message. Called with 0 between steps of work.
    ///
    /// # Errors
    /// Reading must stop.
    fn hold(&self, _what: &str, _bytes: u64) -> Result<(), ReadError> {
        Ok(())
    }
}

/// Decides whether reading continues. After its first refusal, a gate refuses every call.
pub trait Gate: Debug + Send + Sync {
    /// Called before `bytes` are read or allocated, and with 0 between steps of work.
    ///
    /// # Errors
    /// Reading must stop.
    fn pass(&self, bytes: u64) -> Result<(), ReadError>;

    /// Returns a separate gate for one of many files; `None` if they share this one.
    fn for_file(&self) -> Option<Arc<dyn Gate>> {
        None
    }
}

/// A file whose reads are charged to a budget.
#[derive(Clone, Copy)]
pub struct Budgeted<'a> {
    source: &'a dyn ReadRanges,
    budget: &'a Budget<'a>,
}

impl<'a> Budgeted<'a> {
    /// Wraps a file. The budget must already include its size.
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

    fn will_read(&self, ranges: &[ByteRange]) {
        self.source.will_read(ranges);
    }

    fn may_read(&self, ranges: &[ByteRange]) {
        self.source.may_read(ranges);
    }

    fn is_local(&self) -> bool {
        self.source.is_local()
    }

    fn hold(&self, what: &str, bytes: u64) -> Result<(), ReadError> {
        self.budget.take(what, bytes)
    }

    fn size(&self) -> u64 {
        self.source.size()
    }
}

/// Error of fetching bytes. The message is one line that names the file; the kind determines exit status and retries.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReadError {
    /// Kind of failure.
    pub kind: ReadErrorKind,
    /// Message, one line.
    pub message: Arc<str>,
    /// What the user can do.
    pub remedy: Option<Box<Remedy>>,
}

/// Kinds of failed reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadErrorKind {
    /// The file or object does not exist.
    NotFound,
    /// The credentials do not permit reading the file, if it exists.
    Denied,
    /// The file changed between two reads (its etag, size or modification time differs).
    Changed,
    /// The url or an option is invalid.
    Invalid,
    /// The network or the store failed after all retries.
    Unavailable,
    /// The metadata needs more memory than the [`Budget`] allows.
    Limit,
}

impl ReadError {
    /// Creates an error.
    pub fn new(kind: ReadErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), remedy: None }
    }
}

/// A file in memory: for tests, fuzzing, and content that was fetched completely.
#[derive(Clone, Debug)]
pub struct MemorySource(pub Bytes);

impl ReadRanges for MemorySource {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        let part = |range: &ByteRange| {
            let range = range.clamp_to(self.size());
            match (usize::try_from(range.start), usize::try_from(range.end())) {
                (Ok(start), Ok(end)) => self.0.slice(start..end),
                _ => Bytes::new(),
            }
        };
        Box::pin(std::future::ready(Ok(ranges.iter().map(part).collect())))
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_local(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_to_the_file() {
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
