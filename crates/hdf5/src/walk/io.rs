use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError, ReadErrorKind, ReadRanges};

use crate::Error;

/// A file, the limits it is held to, and a count of the metadata read from it.
pub(crate) struct Io<'a> {
    source: &'a dyn ReadRanges,
    limits: Limits,
    fetched: AtomicU64,
}

impl<'a> Io<'a> {
    pub(crate) fn new(source: &'a dyn ReadRanges, limits: Limits) -> Self {
        Self { source, limits, fetched: AtomicU64::new(0) }
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
