use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart, path::Path as Key};
use tempfile::NamedTempFile;

use crate::{
    StoreError, StoreOptions, clients::Purpose, connect::connect, local::not_a_file, location::Location,
    region,
};

/// Size in bytes from which on an object is uploaded in parts.
const PART: usize = 32 << 20;

/// A local file that is written beside its final place and renamed when it is complete. Dropped before that, it
/// leaves nothing, and what was at the final place stays.
#[derive(Debug)]
pub struct SideFile {
    target: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Side(NamedTempFile),
    /// A pipe or device, which cannot be renamed over.
    Direct(File),
}

impl SideFile {
    /// Starts a file that will be at `target`. A symbolic link is followed; the mode of an existing file is kept.
    pub fn create(target: &Path) -> Result<Self, StoreError> {
        let failed = |error: &io::Error| StoreError::io(&target.display().to_string(), error);
        let existing = fs::metadata(target).ok();
        match existing.as_ref().and_then(not_a_file) {
            Some(what @ "a directory") => {
                return Err(StoreError::NotAFile { name: target.display().to_string(), what });
            }
            Some(_) => {
                let file = File::options().write(true).open(target).map_err(|error| failed(&error))?;
                return Ok(Self { target: target.to_owned(), kind: Kind::Direct(file) });
            }
            None => {}
        }
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".virtualize-").suffix(".part");
        let mode = existing.map(|found| found.permissions()).or_else(new_file_permissions);
        if let Some(mode) = mode.clone() {
            builder.permissions(mode);
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let side = builder.tempfile_in(folder).map_err(|error| failed(&error))?;
        if let Some(mode) = mode.filter(|_| target.exists()) {
            side.as_file().set_permissions(mode).map_err(|error| failed(&error))?;
        }
        Ok(Self { target, kind: Kind::Side(side) })
    }

    /// Puts the file at its final place.
    pub fn finish(self) -> Result<(), StoreError> {
        let failed = |error: io::Error| StoreError::io(&self.target.display().to_string(), &error);
        match self.kind {
            Kind::Side(side) => side.persist(&self.target).map(drop).map_err(|error| failed(error.error)),
            Kind::Direct(mut file) => file.flush().map_err(failed),
        }
    }
}

impl Write for SideFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Side(side) => side.write(bytes),
            Kind::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Side(side) => side.flush(),
            Kind::Direct(file) => file.flush(),
        }
    }
}

/// What any program gives its new files; the umask takes its part.
fn new_file_permissions() -> Option<fs::Permissions> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(not(unix))]
    None
}

/// Writes an object whole. Readers see the old one, or none, until it is complete.
pub async fn put(location: &str, options: &StoreOptions, bytes: Bytes) -> Result<(), StoreError> {
    let location = Location::parse(location)?;
    let name = location.name();
    if let Location::Http(_) = location {
        let reason = "cannot be written, expected a path, s3, gs, az or abfs".to_owned();
        return Err(StoreError::Location { name, reason });
    }
    region::settle(&location, options).await?;
    let (store, path) = connect(&location, Purpose::Writing, options)?;
    upload(store.as_ref(), &path, bytes).await.map_err(|error| StoreError::remote(&name, &error))
}

/// Writes an object whole, in parts where it is large.
pub(crate) async fn upload(store: &dyn ObjectStore, path: &Key, bytes: Bytes) -> object_store::Result<()> {
    if bytes.len() < PART {
        return store.put(path, bytes.into()).await.map(drop);
    }
    let mut upload = WriteMultipart::new_with_chunk_size(store.put_multipart(path).await?, PART);
    upload.put(bytes);
    upload.finish().await.map(drop)
}
