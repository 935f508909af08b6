//! Fetching of stored chunk bytes, from the file that is mapped and from the files that it refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use virtualize_bytes::{Budgeted, ByteRange, Limits, ReadError, ReadRanges};
use virtualize_map::hdf5::HeapPointers;
use virtualize_map::{Piece, PieceBytes, ReferenceText};
use virtualize_store::Object;
use virtualize_zarr::SourceId;

use crate::error::Failure;
use crate::source_formats::{Pointed, Pointers, SourceFile};
use crate::sources::{Sources, Unopened};

/// Inputs of chunk creation besides the recipes.
pub(crate) struct ChunkMaker<'a> {
    /// The file that is mapped.
    pub(crate) own: &'a dyn ReadRanges,
    pub(crate) limits: &'a Limits,
    /// Metadata of the file.
    pub(crate) file: &'a SourceFile,
    pub(crate) sources: &'a Sources<'a>,
    /// Urls of the sources of the hierarchy.
    pub(crate) urls: Vec<String>,
}

/// Fetched bytes, or the reason why the bytes of a file could not be fetched.
#[derive(Default)]
pub(crate) struct Fetched {
    bytes: BTreeMap<(SourceId, ByteRange), Bytes>,
    failed: BTreeMap<SourceId, String>,
    /// Limit of a range in bytes.
    most: u64,
}

impl Fetched {
    /// Returns all bytes of a range.
    pub(crate) fn range(&self, source: SourceId, range: ByteRange) -> Result<&Bytes, String> {
        if let Some(why) = self.failed.get(&source) {
            return Err(why.clone());
        }
        if range.length > self.most {
            return Err(format!("{range} are more than the {} that may be read at once", self.most));
        }
        let bytes = self.bytes.get(&(source, range));
        let bytes = bytes.filter(|bytes| bytes.len() as u64 == range.length);
        bytes.ok_or_else(|| format!("{range} cannot be read: the file ends before"))
    }

    /// Returns all bytes of a piece.
    pub(super) fn piece<'a>(&'a self, piece: &'a Piece) -> Result<&'a Bytes, String> {
        match &piece.bytes {
            PieceBytes::Here(bytes) => Ok(bytes),
            PieceBytes::At(range) => self.range(piece.source, *range),
        }
    }
}

impl ChunkMaker<'_> {
    /// Fetches ranges: those of one file together, and several files concurrently. Omits a range that is implausibly
    /// long.
    pub(crate) async fn fetch(
        &self,
        wanted: impl Iterator<Item = (SourceId, ByteRange)>,
    ) -> Result<Fetched, ReadError> {
        let most = self.limits.structure_bytes;
        let mut by_file: BTreeMap<SourceId, BTreeSet<ByteRange>> = BTreeMap::new();
        for (source, range) in wanted.filter(|(_, range)| range.length <= most) {
            by_file.entry(source).or_default().insert(range);
        }
        let reads = by_file.into_iter().map(|(source, ranges)| async move {
            let ranges: Vec<ByteRange> = ranges.into_iter().collect();
            let read = self.read(source, &ranges).await;
            (source, ranges, read)
        });
        let mut fetched = Fetched { most, ..Fetched::default() };
        let mut reads = Box::pin(self.sources.several(reads));
        while let Some((source, ranges, read)) = reads.next().await {
            match read {
                Ok(bytes) => {
                    let placed = ranges.into_iter().zip(bytes);
                    fetched.bytes.extend(placed.map(|(range, bytes)| ((source, range), bytes)));
                }
                Err(Failure::Chunk(why)) => drop(fetched.failed.insert(source, why)),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
        Ok(fetched)
    }

    async fn read(&self, source: SourceId, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Failure> {
        match source {
            SourceId(0) => self.own.read_ranges(ranges).await.map_err(Failure::Read),
            other => {
                let object = self.open(other).await?;
                let budgeted = Budgeted::new(object.as_ref(), self.sources.budget());
                budgeted.read_ranges(ranges).await.map_err(Failure::of_other_read)
            }
        }
    }

    async fn open(&self, id: SourceId) -> Result<Arc<Object>, Failure> {
        let url = self.urls.get(id.index()).ok_or_else(|| format!("there is no source {}", id.0))?;
        self.sources.open(url).await.map_err(|unopened| match unopened {
            Unopened::Changed(error) => Failure::Read(error),
            unopened => Failure::Chunk(unopened.to_string()),
        })
    }

    /// Returns the elements that stored pointers of a file refer to.
    pub(super) async fn resolve(
        &self,
        source: SourceId,
        raw: &[u8],
        context: &HeapPointers,
        references: Option<ReferenceText>,
    ) -> Result<Vec<Pointed>, Failure> {
        let other = match source {
            SourceId(0) => None,
            other => Some(self.open(other).await?),
        };
        let stored = Pointers {
            reader: other.as_ref().map_or(self.own, |object| object.as_ref()),
            source,
            url: self.urls.get(source.index()).map_or("", String::as_str),
            raw,
            context,
            references,
            limits: self.limits,
            most: self.sources.budget().left(),
        };
        self.file.resolve(stored).await.map_err(|error| match error {
            Failure::Read(error) if other.is_none() => Failure::of_own_read(error),
            Failure::Read(error) => Failure::of_other_read(error),
            failure => failure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_ranges_say_what_is_wrong() {
        let fetched = Fetched { most: 100, ..Fetched::default() };
        let why = |length| fetched.range(SourceId(0), ByteRange::new(0, length)).unwrap_err();
        assert!(why(101).ends_with("are more than the 100 that may be read at once"));
        assert!(why(100).ends_with("the file ends before"));
    }
}
