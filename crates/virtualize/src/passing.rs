//! Sources of chunks that are written while they are read.

use std::{ops::ControlFlow, sync::Arc};

use virtualize_store::OutputPlace;
use virtualize_zarr::{Chunk, ChunkReadError, ChunkReader, ChunkRef, ChunkVisitor, Chunks, Source};

use crate::error::Error;
use crate::relocate::{Relocation, Relocator};

/// Reader that checks and relocates the sources of another reader's chunks.
pub(crate) struct PassingChunks<'a> {
    reader: &'a mut dyn ChunkReader,
    sources: PassingSources<'a>,
}

struct PassingSources<'a> {
    /// Location of the output, which must not be a source.
    place: Option<&'a OutputPlace>,
    /// Name of the output.
    target: &'a str,
    relocator: Relocator<'a>,
    /// The last source, as it was read and as it is written.
    last: Option<(Arc<Source>, Arc<Source>)>,
}

impl<'a> PassingChunks<'a> {
    /// Creates a reader that rejects sources in `place`, if given, and relocates the others.
    pub(crate) fn new(
        reader: &'a mut dyn ChunkReader,
        (target, place): (&'a str, Option<&'a OutputPlace>),
        relocation: &'a Relocation,
    ) -> Result<Self, Error> {
        let relocator = Relocator::new(relocation)?;
        Ok(Self { reader, sources: PassingSources { place, target, relocator, last: None } })
    }
}

impl PassingSources<'_> {
    /// Returns a source as it is written.
    fn pass(&mut self, source: &Arc<Source>) -> Result<&Arc<Source>, Error> {
        let is_last = self.last.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, source));
        let passed = match self.last.take().filter(|_| is_last) {
            Some(passed) => passed,
            None => (Arc::clone(source), self.relocated(source)?),
        };
        Ok(&self.last.insert(passed).1)
    }

    fn relocated(&mut self, source: &Arc<Source>) -> Result<Arc<Source>, Error> {
        if self.place.is_some_and(|place| place.contains(&source.url)) {
            return Err(Error::OverInput { name: self.target.to_owned() });
        }
        let url = self.relocator.url(&source.url)?;
        Ok(match url == source.url {
            true => Arc::clone(source),
            // The version is that of the file at its old url.
            false => Arc::new(Source { url, size: source.size, ..Source::default() }),
        })
    }
}

impl ChunkReader for PassingChunks<'_> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let Self { reader, sources } = self;
        Ok(Box::new(reader.chunks(path, start)?.map(|item| {
            Ok(match item? {
                (position, Chunk::Reference { source, offset, length }) => {
                    let source = Arc::clone(sources.pass(&source)?);
                    (position, Chunk::Reference { source, offset, length })
                }
                inline => inline,
            })
        })))
    }

    fn visit(&mut self, path: &str, start: u64, visit: &mut ChunkVisitor<'_>) -> Result<(), ChunkReadError> {
        let Self { reader, sources } = self;
        let mut failed = None;
        reader.visit(path, start, &mut |position, chunk| match chunk {
            ChunkRef::Inline(_) => visit(position, chunk),
            ChunkRef::Reference { source, offset, length } => match sources.pass(source) {
                Ok(source) => visit(position, ChunkRef::Reference { source, offset, length }),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
        })?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        self.reader.count(path)
    }

    /// Checks that every rule of the relocation has matched a source.
    fn finish(&mut self) -> Result<(), ChunkReadError> {
        self.sources.relocator.finish().map_err(Error::from)?;
        self.reader.finish()
    }
}
