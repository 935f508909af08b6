//! The files whose bytes go into made chunks: the one that is open, and others, which are opened when they are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use virtualize_bytes::{Budgeted, ByteRange, Limits, ReadError, ReadErrorKind, ReadRanges};
use virtualize_hdf5::model::{Datatype, Element, File};
use virtualize_map::hdf5::OtherFile;
use virtualize_map::{Piece, PieceBytes};
use virtualize_store::Object;
use virtualize_zarr::{Source, SourceId};

use super::Failure;
use crate::formats::Model;
use crate::others::Others;
use crate::sources::{PARALLEL, Sources, Unopened};

/// What making a chunk needs beside its bytes.
pub(crate) struct Context<'a> {
    pub(crate) source: &'a dyn ReadRanges,
    pub(crate) limits: &'a Limits,
    pub(crate) model: &'a Model,
    pub(crate) others: &'a Others,
    pub(crate) sources: &'a Sources<'a>,
    /// The files of the hierarchy.
    pub(crate) files: Vec<Source>,
}

/// Bytes that were fetched, or why those of their file were not.
#[derive(Default)]
pub(crate) struct Fetched {
    bytes: BTreeMap<(SourceId, ByteRange), Bytes>,
    failed: BTreeMap<SourceId, String>,
    /// Most bytes of a range.
    most: u64,
}

impl Fetched {
    /// All bytes of a range.
    pub(crate) fn range(&self, source: SourceId, range: ByteRange) -> Result<&Bytes, Failure> {
        if let Some(why) = self.failed.get(&source) {
            return Err(Failure::Chunk(why.clone()));
        }
        if range.length > self.most {
            let most = self.most;
            return Err(Failure::Chunk(format!("{range} are more than the {most} that may be read at once")));
        }
        let bytes = self.bytes.get(&(source, range));
        bytes
            .filter(|bytes| bytes.len() as u64 == range.length)
            .ok_or_else(|| Failure::Chunk(format!("{range} cannot be read: the file ends before")))
    }

    /// All bytes of a piece.
    pub(super) fn piece<'a>(&'a self, piece: &'a Piece) -> Result<&'a Bytes, Failure> {
        match &piece.bytes {
            PieceBytes::Here(bytes) => Ok(bytes),
            PieceBytes::At(range) => self.range(piece.source, *range),
        }
    }
}

impl Context<'_> {
    /// Fetches ranges, those of a file together. A range too large to be believed is left out.
    pub(crate) async fn fetch(
        &self,
        wanted: impl Iterator<Item = (SourceId, ByteRange)>,
    ) -> Result<Fetched, ReadError> {
        let mut by_file: BTreeMap<SourceId, BTreeSet<ByteRange>> = BTreeMap::new();
        for (source, range) in wanted.filter(|(_, range)| range.length <= self.limits.structure_bytes) {
            by_file.entry(source).or_default().insert(range);
        }
        let mut fetched = Fetched { most: self.limits.structure_bytes, ..Fetched::default() };
        let reads = by_file.into_iter().map(|(source, ranges)| async move {
            let ranges: Vec<ByteRange> = ranges.into_iter().collect();
            let read = self.read(source, &ranges).await;
            (source, ranges, read)
        });
        let mut reads = futures::stream::iter(reads).buffered(PARALLEL);
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
            SourceId(0) => Ok(self.source.read_ranges(ranges).await.map_err(Failure::Read)?),
            other => {
                let object = self.open(other).await?;
                let budgeted = Budgeted::new(object.as_ref(), self.sources.budget());
                budgeted.read_ranges(ranges).await.map_err(of_another_read)
            }
        }
    }

    /// Opens another file, under the same rules as when it was checked.
    async fn open(&self, id: SourceId) -> Result<Arc<Object>, Failure> {
        let source = self.files.get(id.index());
        let source = source.ok_or_else(|| Failure::Chunk(format!("there is no source {}", id.0)))?;
        self.sources.open(&source.url).await.map_err(|unopened| match unopened {
            Unopened::Changed(error) => Failure::Read(error),
            unopened => Failure::Chunk(unopened.why()),
        })
    }

    /// The elements that pointers into the global heap of a file mean.
    pub(super) async fn elements(
        &self,
        source: SourceId,
        datatype: &Datatype,
        raw: &[u8],
    ) -> Result<Vec<Element>, Failure> {
        let file = self.hdf5(source)?;
        let other = match source {
            SourceId(0) => None,
            other => Some(self.open(other).await?),
        };
        let reader = other.as_ref().map_or(self.source, |object| object.as_ref());
        let elements = virtualize_hdf5::resolve_elements(reader, self.limits, file, datatype, raw).await;
        elements.map_err(|error| match error {
            virtualize_hdf5::Error::Read(error) if other.is_none() => error.into(),
            virtualize_hdf5::Error::Read(error) => of_another_read(error),
            error => Failure::Chunk(error.to_string()),
        })
    }

    /// What an HDF5 file says.
    fn hdf5(&self, source: SourceId) -> Result<&File, Failure> {
        let other = || self.files.get(source.index()).and_then(|file| self.others.files.files.get(&file.url));
        match (source, self.model) {
            (SourceId(0), Model::Hdf5(file)) => Ok(file),
            (SourceId(0), Model::Tiff(_)) => {
                Err(Failure::Chunk("only HDF5 has elements of variable length".to_owned()))
            }
            _ => match other() {
                Some(OtherFile::Read(file, _)) => Ok(file),
                _ => Err(Failure::Chunk(format!("source {} is no HDF5 file that was read", source.0))),
            },
        }
    }
}

/// What is wrong with another file costs the arrays that need it, not the whole hierarchy; unless it changed.
fn of_another_read(error: ReadError) -> Failure {
    match error.kind {
        ReadErrorKind::Changed => Failure::Read(error),
        _ => Failure::Chunk(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_too_long_say_so() {
        let fetched = Fetched { most: 100, ..Fetched::default() };
        let why = |length| match fetched.range(SourceId(0), ByteRange::new(0, length)) {
            Err(Failure::Chunk(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(101).ends_with("are more than the 100 that may be read at once"));
        assert!(why(100).ends_with("the file ends before"));
    }
}
