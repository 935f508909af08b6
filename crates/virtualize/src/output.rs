use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use virtualize_emit::{EmitError, Format};
use virtualize_store::{SideFile, StoreOptions};

use crate::{Error, VirtualStore};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// Writes references to a path or to the url of an object. What was there before stays until all is written.
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
        write_to(store, format, &mut bytes).map_err(|error| named(target, error))?;
        return Ok(virtualize_store::put(target, options, bytes.into()).await?);
    }
    let path = Path::new(target.strip_prefix("file://").unwrap_or(target));
    let mut file = SideFile::create(path)?;
    write_to(store, format, &mut file).map_err(|error| named(target, error))?;
    Ok(file.finish()?)
}

/// Writes references to anything that takes bytes, in large pieces. What was written before an error is no valid
/// file.
pub fn write_to(store: &VirtualStore, format: Format, out: &mut impl Write) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    let written = virtualize_emit::write(&store.hierarchy, format, &mut out);
    written.and_then(|()| Ok(out.flush()?)).map_err(|error| Error::Emit {
        name: store.name().to_owned(),
        broken_pipe: matches!(&error, EmitError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe),
        reason: error.to_string(),
    })
}

/// An error that names the output rather than the input.
fn named(target: &str, error: Error) -> Error {
    match error {
        Error::Emit { reason, broken_pipe, .. } => {
            Error::Emit { name: target.to_owned(), reason, broken_pipe }
        }
        other => other,
    }
}
