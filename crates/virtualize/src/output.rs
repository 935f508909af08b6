//! Writing of references to files, folders, buckets and streams.

use std::{
    io::{self, BufWriter, Write},
    ops::ControlFlow,
    path::Path,
};

use virtualize_references::{EmitError, Format, Sink};
use virtualize_store::{
    OutputLock, OutputPlace, Receipt, Recognizer, SideFile, SideFolder, SideObject, StoreOptions,
};
use virtualize_zarr::{
    Chunk, ChunkReadError, ChunkReader, ChunkVisitor, Chunks, Hierarchy, HierarchyChunks, Source, SourceRef,
};

use crate::{
    error::Error,
    relocate::{Relocation, Relocator},
    store::VirtualStore,
};

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;
/// The outputs that may be replaced.
const OUTPUTS: Recognizer =
    Recognizer { documents: virtualize_references::DOCUMENTS, foreign: virtualize_references::foreign_file };

/// Writes references to a path or the url of an object; a format of several files, to a folder or prefix. Existing
/// content stays until everything is written. The output is locked against other processes.
pub async fn write(
    store: &VirtualStore,
    format: Format,
    target: &str,
    options: &StoreOptions,
) -> Result<(), Error> {
    write_folder(store, format, target, false, options).await
}

/// Writes references as [`write()`] does. A folder or prefix that is not empty is replaced if `overwrite` is set and it
/// contains nothing but an output, and otherwise rejected.
pub async fn write_folder(
    store: &VirtualStore,
    format: Format,
    target: &str,
    overwrite: bool,
    options: &StoreOptions,
) -> Result<(), Error> {
    let lock = OutputLock::acquire(target, options).await?;
    let publish = async {
        let prepared = prepare(store, format, target, overwrite)?;
        lock.check().await?;
        prepared.publish(options).await.map(drop)
    };
    let written = publish.await;
    lock.release().await;
    written
}

/// Checks that the folder or prefix of an output is absent or empty or, with `overwrite`, contains nothing but an output.
/// Writing the output checks this again.
///
/// # Errors
/// [`Error::Store`].
pub async fn check_replaceable(target: &str, overwrite: bool, options: &StoreOptions) -> Result<(), Error> {
    Ok(SideFolder::check(target, overwrite, OUTPUTS, options).await?)
}

/// Returns the path of an output that consists of one local file.
fn local(format: Format, target: &str) -> Option<&Path> {
    let path = target.strip_prefix("file://").or_else(|| (!target.contains("://")).then_some(target));
    path.filter(|_| !format.is_several_files()).map(Path::new)
}

/// An output that is complete and durable, but not yet published. Dropping it removes it.
#[derive(Debug)]
pub struct PreparedOutput {
    content: Receipt,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File(SideFile),
    Object(SideObject),
    Folder(SideFolder),
}

/// An output and how it is written.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// Format of the output.
    pub format: Format,
    /// Path, or url of an object; for a format of several files, a folder or prefix.
    pub target: &'a str,
    /// How the urls of sources are written.
    pub relocation: &'a Relocation,
    /// Whether an output that is a folder or prefix is replaced.
    pub overwrite: bool,
}

/// Prepares the output of [`write()`] or [`write_folder`]. Unlike these, it expects the caller to hold the
/// [`virtualize_store::OutputLock`].
pub fn prepare(
    store: &VirtualStore,
    format: Format,
    target: &str,
    overwrite: bool,
) -> Result<PreparedOutput, Error> {
    let place = OutputPlace::new(target, format.is_several_files())?;
    if store.source_urls.iter().any(|url| place.contains(url)) {
        return Err(Error::OverInput { name: target.to_owned() });
    }
    store.check_ranges(&Relocation::Keep)?;
    let chunks = &mut HierarchyChunks(&store.hierarchy);
    let relocation = &Relocation::Keep;
    prepare_at(&store.hierarchy, chunks, Destination { format, target, relocation, overwrite })
}

/// Prepares an output as [`prepare`] does, for a store whose chunks come from a reader. The store contains metadata only;
/// its manifests and sources are ignored. The sources of the chunks are relocated.
///
/// # Errors
/// As [`prepare`], and [`Error::Chunks`] if the chunks cannot be read.
pub fn prepare_chunks(
    store: &VirtualStore,
    chunks: &mut dyn ChunkReader,
    destination: Destination<'_>,
) -> Result<PreparedOutput, Error> {
    let Destination { format, target, relocation, .. } = destination;
    let place = OutputPlace::new(target, format.is_several_files())?;
    let mut chunks = PassingChunks::new(chunks, (target, Some(&place)), relocation)?;
    let prepared = prepare_at(&store.hierarchy, &mut chunks, destination)?;
    chunks.finish().map_err(Error::of_chunks)?;
    Ok(prepared)
}

/// Prepares an output, without a check of its sources.
fn prepare_at(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    destination: Destination<'_>,
) -> Result<PreparedOutput, Error> {
    let Destination { format, target, overwrite, .. } = destination;
    if let Some(path) = local(format, target) {
        let mut file = SideFile::create(path)?;
        write_file(hierarchy, chunks, format, &mut file).map_err(|error| failed(target, error))?;
        return Ok(PreparedOutput { content: file.sync()?, place: Place::File(file) });
    }
    if format.is_several_files() {
        let mut folder = SideFolder::create(target, overwrite, OUTPUTS)?;
        virtualize_references::write_files_chunks(hierarchy, chunks, format, &mut FolderSink(&mut folder))
            .map_err(|error| failed(target, error))?;
        return Ok(PreparedOutput { content: folder.sync()?, place: Place::Folder(folder) });
    }
    let mut object = SideObject::create(target)?;
    write_file(hierarchy, chunks, format, &mut object).map_err(|error| failed(target, error))?;
    Ok(PreparedOutput { content: object.content()?, place: Place::Object(object) })
}

/// Writes one file, in large pieces.
fn write_file(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    format: Format,
    out: &mut impl Write,
) -> Result<(), EmitError> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    virtualize_references::write_chunks(hierarchy, chunks, format, &mut out)?;
    Ok(out.flush()?)
}

impl PreparedOutput {
    /// Returns the receipt of the output. Stores may add to it when it is published.
    pub fn content(&self) -> &Receipt {
        &self.content
    }

    /// Moves the output to its final location, and returns its receipt.
    pub async fn publish(self, options: &StoreOptions) -> Result<Receipt, Error> {
        Ok(match self.place {
            Place::File(file) => {
                file.finish()?;
                self.content
            }
            Place::Object(object) => object.finish(options).await?,
            Place::Folder(folder) => folder.finish(options).await?,
        })
    }
}

/// Adapter from a folder to the emitter's sink.
struct FolderSink<'a>(&'a mut SideFolder);

impl Sink for FolderSink<'_> {
    fn create(&mut self, key: &str) -> io::Result<Box<dyn Write + Send + '_>> {
        Ok(Box::new(BufWriter::new(self.0.file(key)?)))
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.file(key)?.write_all(bytes)
    }
}

/// Writes references to a writer, in large pieces. After an error the output is invalid.
pub fn write_to(store: &VirtualStore, format: Format, out: &mut impl Write) -> Result<(), Error> {
    store.check_ranges(&Relocation::Keep)?;
    let chunks = &mut HierarchyChunks(&store.hierarchy);
    write_file(&store.hierarchy, chunks, format, out).map_err(|error| failed(store.name(), error))
}

/// Writes a format of several files to a sink. After an error the output is invalid.
///
/// # Errors
/// [`Error::Emit`].
pub fn write_files(store: &VirtualStore, format: Format, sink: &mut dyn Sink) -> Result<(), Error> {
    store.check_ranges(&Relocation::Keep)?;
    virtualize_references::write_files(&store.hierarchy, format, sink)
        .map_err(|error| failed(store.name(), error))
}

/// Returns the metadata documents of a store with their keys, in its Zarr format. The root's comes first and contains all
/// others.
///
/// # Errors
/// [`Error::Emit`] where the format cannot express a name or an array.
pub fn metadata(store: &VirtualStore) -> Result<Vec<(String, serde_json::Value)>, Error> {
    virtualize_references::metadata(&store.hierarchy).map_err(|error| failed(store.name(), error))
}

pub(crate) fn failed(name: &str, error: EmitError) -> Error {
    match error {
        EmitError::Chunks(error) => Error::of_chunks(error),
        error => Error::Emit {
            name: name.to_owned(),
            broken_pipe: matches!(&error, EmitError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe),
            reason: error.to_string(),
        },
    }
}

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
    /// Url of the last source, and the source that replaces it, if it is relocated.
    last: Option<(String, Option<SourceRef<'static>>)>,
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
    /// Returns the source to write in place of another one, if it is relocated.
    fn relocated(&mut self, source: &Source) -> Result<Option<SourceRef<'static>>, Error> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != source.url) {
            if self.place.is_some_and(|place| place.contains(&source.url)) {
                return Err(Error::OverInput { name: self.target.to_owned() });
            }
            let url = self.relocator.url(&source.url)?;
            // The version is that of the file at its old url.
            let relocated = (url != source.url)
                .then(|| SourceRef::Shared(Source { url, size: source.size, ..Source::default() }.into()));
            self.last = Some((source.url.clone(), relocated));
        }
        Ok(self.last.as_ref().and_then(|(_, relocated)| relocated.clone()))
    }
}

impl ChunkReader for PassingChunks<'_> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let Self { reader, sources } = self;
        Ok(Box::new(reader.chunks(path, start)?.map(|item| {
            let (position, mut chunk) = item?;
            if let Chunk::Reference { source, .. } = &mut chunk
                && let Some(relocated) = sources.relocated(source)?
            {
                *source = relocated;
            }
            Ok((position, chunk))
        })))
    }

    fn visit(&mut self, path: &str, start: u64, visit: &mut ChunkVisitor<'_>) -> Result<(), ChunkReadError> {
        let Self { reader, sources } = self;
        let mut failed = None;
        reader.visit(path, start, &mut |position, chunk| {
            let Chunk::Reference { source, offset, length } = chunk else { return visit(position, chunk) };
            match sources.relocated(source) {
                Ok(None) => visit(position, chunk),
                Ok(Some(source)) => {
                    visit(position, &Chunk::Reference { source, offset: *offset, length: *length })
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        self.reader.count(path)
    }

    /// Checks that every rule of the relocation has matched a source.
    fn finish(&mut self) -> Result<(), ChunkReadError> {
        self.sources.relocator.finish()?;
        self.reader.finish()
    }
}
