use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError, ReadErrorKind, ReadRanges};

use crate::{Error, spec::slice};

/// Bytes fetched from the start of a file before anything is parsed: most small files, and the root of large ones.
const HEAD_BYTES: u64 = 64 << 10;

/// A file, the limits it is held to, and a count of the metadata read from it.
pub(crate) struct Io<'a> {
    source: &'a dyn ReadRanges,
    limits: Limits,
    fetched: AtomicU64,
    head: Bytes,
}

impl<'a> Io<'a> {
    pub(crate) fn new(source: &'a dyn ReadRanges, limits: Limits) -> Self {
        Self { source, limits, fetched: AtomicU64::new(0), head: Bytes::new() }
    }

    /// Fetches the start of the file, from which later reads are served.
    pub(crate) async fn with_head(source: &'a dyn ReadRanges, limits: Limits) -> Result<Self, Error> {
        let mut io = Self::new(source, limits);
        let head = io.read(&[ByteRange::new(0, HEAD_BYTES)]).await?;
        io.head = head.into_iter().next().unwrap_or_default();
        Ok(io)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.source.size()
    }

    /// The bytes of all ranges, fetched together. A range that passes the end of the file returns what exists.
    pub(crate) async fn read(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        let known: Vec<_> = ranges.iter().map(|range| self.in_head(*range)).collect();
        if known.iter().all(Option::is_none) {
            return self.fetch(ranges).await;
        }
        let unknown = ranges.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(range, _)| *range).collect();
        let mut fetched = self.fetch(&unknown).await?.into_iter();
        Ok(known.into_iter().map(|known| known.or_else(|| fetched.next()).unwrap_or_default()).collect())
    }

    fn in_head(&self, range: ByteRange) -> Option<Bytes> {
        let range = range.clamp_to(self.size());
        slice(&self.head, range.start, range.end())
    }

    async fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = ranges.iter().map(|range| range.clamp_to(self.size()).length);
        let wanted = wanted.fold(0_u64, u64::saturating_add);
        let before = self.fetched.fetch_add(wanted, Ordering::Relaxed);
        if before.saturating_add(wanted) > self.limits.metadata_bytes {
            let message = format!("more than {} bytes of metadata", self.limits.metadata_bytes);
            return Err(ReadError::new(ReadErrorKind::Limit, message).into());
        }
        Ok(self.source.read_ranges(ranges).await?)
    }
}
