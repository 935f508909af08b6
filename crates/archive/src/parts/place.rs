//! Reads and writes plans and parts, in any store.

use std::sync::Arc;

use bytes::Bytes;
use virtualize::{ByteRange, Object, StoreError, StoreOptions};
use virtualize_store::{SideFile, create_folder, local_path, open, put, url_of};

use super::{
    PartsError,
    sealed::{END, Fault, Sealed},
};

/// Greatest size of a part in bytes. A part is read whole.
const PART: u64 = 2 << 30;

/// Returns the options for objects that this program writes, unlike the files, which a store of the caller may supply.
fn own(options: &StoreOptions) -> StoreOptions {
    StoreOptions { through: None, ..options.clone() }
}

/// Opens an object; `None` if it does not exist.
pub(super) async fn open_if_there(
    location: &str,
    options: &StoreOptions,
) -> Result<Option<Arc<Object>>, PartsError> {
    match open(location, &own(options)).await {
        Ok(object) => Ok(Some(object)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens an object.
pub(super) async fn open_object(location: &str, options: &StoreOptions) -> Result<Arc<Object>, PartsError> {
    Ok(open(location, &own(options)).await?)
}

/// Reads the footer of a sealed file.
pub(super) async fn read_footer(object: &Object) -> Result<Result<Sealed, Fault>, StoreError> {
    let size = object.bytes();
    let Some(start) = size.checked_sub(END) else { return Ok(Err(Fault::Short(size))) };
    let end = object.read_once(ByteRange::new(start, END)).await?;
    let length = match Sealed::footer_length(size, &end) {
        Ok(length) => length,
        Err(fault) => return Ok(Err(fault)),
    };
    let footer = object.read_once(ByteRange::new(start.saturating_sub(length), length)).await?;
    Ok(Sealed::parse(&footer, size))
}

/// Reads a whole part.
pub(super) async fn read_whole(object: &Object) -> Result<Bytes, StoreError> {
    let size = object.bytes();
    if size > PART {
        let reason = format!("{size} bytes, expected at most {PART} in a part");
        return Err(StoreError::Location { name: object.name().to_owned(), reason });
    }
    object.read_once(ByteRange::new(0, size)).await
}

/// Writes an object as a whole: it is complete, or not there.
pub(crate) async fn write(location: &str, bytes: Bytes, options: &StoreOptions) -> Result<(), StoreError> {
    if let Some(writable) = &options.writable {
        writable.check_output(&url_of(location)?)?;
    }
    let Some(path) = local_path(location) else { return put(location, options, bytes).await.map(drop) };
    if let Some(folder) = path.parent() {
        if let Some(writable) = &options.writable {
            writable.check_new_folder(folder)?;
        }
        create_folder(folder)?;
    }
    let mut file = SideFile::create(&path)?;
    file.check_place(options.writable.as_ref())?;
    let failed = |error: std::io::Error| StoreError::Unavailable {
        name: location.to_owned(),
        reason: error.to_string(),
    };
    std::io::Write::write_all(&mut file, &bytes).map_err(failed)?;
    file.finish()
}
