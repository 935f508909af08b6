use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use bytes::Bytes;
use virtualize_emit::{EmitError, Format, Sink};
use virtualize_store::{OutputLock, Receipt, Receipted, SideFile, SideFolder, StoreOptions};

use crate::error::Error;
use crate::store::VirtualStore;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

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

/// Writes references as [`write()`] does. A folder or prefix that is not empty is replaced if `overwrite` is set, and
/// otherwise rejected.
pub async fn write_folder(
    store: &VirtualStore,
    format: Format,
    target: &str,
    overwrite: bool,
    options: &StoreOptions,
) -> Result<(), Error> {
    let lock = OutputLock::acquire(target, options).await?;
    let written = match local(format, target) {
        Some(path) => write_local(store, format, (target, path), options),
        None => publish(prepare(store, format, target, overwrite, options), options).await,
    };
    lock.release().await;
    written
}

async fn publish(prepared: Result<PreparedOutput, Error>, options: &StoreOptions) -> Result<(), Error> {
    prepared?.publish(options).await.map(drop)
}

/// Returns the path of an output that consists of one local file.
fn local(format: Format, target: &str) -> Option<&Path> {
    let path = target.strip_prefix("file://").or_else(|| (!target.contains("://")).then_some(target));
    path.filter(|_| !format.is_several_files()).map(Path::new)
}

/// Writes one local file without a receipt, since digesting a large output takes longer than writing it.
fn write_local(
    store: &VirtualStore,
    format: Format,
    (target, path): (&str, &Path),
    options: &StoreOptions,
) -> Result<(), Error> {
    let mut file = start_file(store, (target, path), options)?;
    write_to(store, format, &mut file).map_err(|error| named(target, error))?;
    Ok(file.finish()?)
}

/// Creates a temporary file next to the output, if writing is permitted.
fn start_file(
    store: &VirtualStore,
    (target, path): (&str, &Path),
    options: &StoreOptions,
) -> Result<SideFile, Error> {
    check_target(store, target, options)?;
    let file = SideFile::create(path)?;
    file.check_place(options.writable.as_ref())?;
    Ok(file)
}

/// Rejects an output that must not be written, or that is one of the sources.
fn check_target(store: &VirtualStore, target: &str, options: &StoreOptions) -> Result<(), Error> {
    if let Some(writable) = &options.writable {
        writable.check_output(&virtualize_store::url_of(target)?)?;
    }
    match store.source_urls().any(|url| virtualize_store::is_same(url, target)) {
        true => Err(Error::OverInput { name: target.to_owned() }),
        false => Ok(()),
    }
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
    Object(String, Bytes),
    Folder(SideFolder),
}

/// Prepares the output of [`write()`] or [`write_folder`]. Unlike these, it expects the caller to hold the
/// [`virtualize_store::OutputLock`].
pub fn prepare(
    store: &VirtualStore,
    format: Format,
    target: &str,
    overwrite: bool,
    options: &StoreOptions,
) -> Result<PreparedOutput, Error> {
    if let Some(path) = local(format, target) {
        let mut file = start_file(store, (target, path), options)?;
        let mut out = Receipted::new(&mut file);
        write_to(store, format, &mut out).map_err(|error| named(target, error))?;
        let content = out.receipt();
        file.sync()?;
        return Ok(PreparedOutput { content, place: Place::File(file) });
    }
    check_target(store, target, options)?;
    if format.is_several_files() {
        let mut folder = SideFolder::create(target, overwrite)?;
        folder.check_place(options.writable.as_ref())?;
        if store.source_urls().any(|url| folder.holds(url)) {
            return Err(Error::OverInput { name: target.to_owned() });
        }
        virtualize_emit::write_files(&store.hierarchy, format, &mut FolderSink(&mut folder))
            .map_err(|error| failed(target, error))?;
        return Ok(PreparedOutput { content: folder.sync()?, place: Place::Folder(folder) });
    }
    let mut bytes = Vec::new();
    write_to(store, format, &mut bytes).map_err(|error| named(target, error))?;
    let content = virtualize_store::receipt_of_bytes(&bytes);
    Ok(PreparedOutput { content, place: Place::Object(target.to_owned(), bytes.into()) })
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
            Place::Object(target, bytes) => virtualize_store::put(&target, options, bytes).await?,
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
    let mut out = BufWriter::with_capacity(BUFFER, out);
    let written = virtualize_emit::write(&store.hierarchy, format, &mut out);
    written.and_then(|()| Ok(out.flush()?)).map_err(|error| failed(store.name(), error))
}

/// Writes a format of several files to a sink. After an error the output is invalid.
///
/// # Errors
/// [`Error::Emit`].
pub fn write_files(store: &VirtualStore, format: Format, sink: &mut dyn Sink) -> Result<(), Error> {
    virtualize_emit::write_files(&store.hierarchy, format, sink).map_err(|error| failed(store.name(), error))
}

/// Returns the metadata documents of a store with their keys, in its Zarr format. The root's comes first and contains all
/// others.
///
/// # Errors
/// [`Error::Emit`] where the format cannot express a name or an array.
pub fn metadata(store: &VirtualStore) -> Result<Vec<(String, serde_json::Value)>, Error> {
    virtualize_emit::metadata(&store.hierarchy).map_err(|error| failed(store.name(), error))
}

pub(crate) fn failed(name: &str, error: EmitError) -> Error {
    Error::Emit {
        name: name.to_owned(),
        broken_pipe: matches!(&error, EmitError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe),
        reason: error.to_string(),
    }
}

/// Makes an error name the output instead of the input.
fn named(target: &str, error: Error) -> Error {
    match error {
        Error::Emit { reason, broken_pipe, .. } => {
            Error::Emit { name: target.to_owned(), reason, broken_pipe }
        }
        other => other,
    }
}
