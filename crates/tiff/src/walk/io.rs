use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError, ReadErrorKind, ReadRanges};

use crate::Error;

/// Bytes to keep because they may contain more metadata.
const MAX_CACHED: u64 = 64 << 20;
/// Factor by which interpreted metadata may exceed the size of the file. Larger values only occur in attacks.
const MAX_REPETITION: u64 = 16;
/// Bytes of metadata that a file of any size may have.
const MIN_METADATA: u64 = 16 << 20;

/// A file, its fetched blocks, and the amount of metadata that was interpreted.
pub(crate) struct Io<'a> {
    source: &'a dyn ReadRanges,
    limits: Limits,
    cached: BTreeMap<u64, Bytes>,
    cached_bytes: u64,
    interpreted: u64,
}

impl<'a> Io<'a> {
    pub(crate) fn new(source: &'a dyn ReadRanges, limits: Limits) -> Self {
        Self { source, limits, cached: BTreeMap::new(), cached_bytes: 0, interpreted: 0 }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.source.size()
    }

    /// Returns the fetched bytes from `offset` on; none if no block covers it.
    pub(crate) fn cached_from(&self, offset: u64) -> Bytes {
        let Some((start, block)) = self.cached.range(..=offset).next_back() else { return Bytes::new() };
        match usize::try_from(offset.saturating_sub(*start)) {
            Ok(skip) if skip < block.len() => block.slice(skip..),
            _ => Bytes::new(),
        }
    }

    /// Reads all ranges; those that are not available are fetched together. A range beyond the end of the file yields
    /// the bytes that exist.
    pub(crate) async fn read(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        let mut parts: Vec<Bytes> = ranges.iter().map(|&range| self.cached(range)).collect();
        let lacking =
            |(range, part): &(&ByteRange, &Bytes)| (part.len() as u64) < range.clamp_to(self.size()).length;
        let missing: Vec<ByteRange> =
            ranges.iter().zip(&parts).filter(lacking).map(|(range, _)| *range).collect();
        if missing.is_empty() {
            return Ok(parts);
        }
        let mut fetched = self.source.read_ranges(&missing).await?.into_iter();
        for (range, part) in ranges.iter().zip(&mut parts) {
            if lacking(&(range, part)) {
                *part = fetched.next().unwrap_or_default();
            }
        }
        Ok(parts)
    }

    /// Reads ranges like [`Io::read`] and keeps the bytes.
    pub(crate) async fn read_and_cache(&mut self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        let parts = self.read(ranges).await?;
        for (range, part) in ranges.iter().zip(&parts) {
            self.cached_bytes = self.cached_bytes.saturating_add(part.len() as u64);
            if self.cached_bytes <= MAX_CACHED && self.cached_from(range.start).len() < part.len() {
                self.cached.insert(range.start, part.clone());
            }
        }
        Ok(parts)
    }

    fn cached(&self, range: ByteRange) -> Bytes {
        let mut part = self.cached_from(range.start);
        part.truncate(usize::try_from(range.length).unwrap_or(usize::MAX));
        part
    }

    /// Counts interpreted metadata. Overlapping directories and values could otherwise make a small file describe any
    /// amount of it.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Error> {
        self.interpreted = self.interpreted.saturating_add(bytes);
        let most = self.size().saturating_mul(MAX_REPETITION).saturating_add(MIN_METADATA);
        let most = most.min(self.limits.metadata_bytes);
        if self.interpreted > most {
            return Err(ReadError::new(
                ReadErrorKind::Limit,
                format!("metadata exceeds the limit of {most} bytes"),
            )
            .into());
        }
        Ok(())
    }
}
