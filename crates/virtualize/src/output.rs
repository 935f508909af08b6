use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use virtualize_store::{SideFile, StoreOptions};
use virtualize_zarr::ZarrFormat;

use crate::{Error, VirtualStore};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Kerchunk JSON version 1, with Zarr v2 keys.
    KerchunkJson,
    /// The same JSON with Zarr v3 keys.
    Zarr3Json,
}

impl Format {
    /// The Zarr format that a hierarchy must have been mapped for.
    pub fn zarr_format(self) -> ZarrFormat {
        match self {
            Self::KerchunkJson => ZarrFormat::V2,
            Self::Zarr3Json => ZarrFormat::V3,
        }
    }
}

/// Writes references to a path or the url of an object. What was there before stays until all is written.
pub async fn write(
    store: &VirtualStore,
    format: Format,
    target: &str,
    options: &StoreOptions,
) -> Result<(), Error> {
    if store.object().is_at(target) {
        return Err(Error::OverInput { name: target.to_owned() });
    }
    if target.contains("://") && !target.starts_with("file://") {
        let mut bytes = Vec::new();
        write_to(store, format, &mut bytes)?;
        return Ok(virtualize_store::put(target, options, bytes.into()).await?);
    }
    let path = Path::new(target.strip_prefix("file://").unwrap_or(target));
    let mut file = SideFile::create(path)?;
    write_to(store, format, &mut file).map_err(|error| at(target, error))?;
    Ok(file.finish()?)
}

/// Writes references to anything that takes bytes, in large pieces.
pub fn write_to(store: &VirtualStore, format: Format, out: &mut dyn Write) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(BUFFER, Watched { out, failed: None });
    let written = emit(store, format, &mut out).and_then(|()| out.flush().map_err(|error| error.to_string()));
    match (written, out.get_ref().failed) {
        (Ok(()), _) => Ok(()),
        (Err(reason), failed) => Err(Error::Emit {
            name: store.name().to_owned(),
            reason,
            broken_pipe: failed == Some(io::ErrorKind::BrokenPipe),
        }),
    }
}

fn emit(store: &VirtualStore, format: Format, out: &mut impl Write) -> Result<(), String> {
    let _ = (store, format);
    writeln!(out, "{{}}").map_err(|error| error.to_string())
}

/// Names the output rather than the input.
fn at(target: &str, error: Error) -> Error {
    match error {
        Error::Emit { reason, broken_pipe, .. } => {
            Error::Emit { name: target.to_owned(), reason, broken_pipe }
        }
        other => other,
    }
}

/// Remembers how writing failed, whatever becomes of the error on its way.
struct Watched<'a> {
    out: &'a mut dyn Write,
    failed: Option<io::ErrorKind>,
}

impl Watched<'_> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failed = Some(error.kind());
        }
        result
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.note(result)
    }
}
