use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart, path::Path as Key};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::{
    Allowed, Listed, Receipt, StoreError, StoreOptions,
    aside::{self, Aside},
    clients::Purpose,
    connect::connect,
    local::not_a_file,
    location::Location,
    receipt::Parts,
    region,
};

/// Size in bytes of a part, and from which an object is uploaded in parts.
const PART: usize = 32 << 20;

/// A local file that is written beside its target, and renamed once it is complete and durable. If it is dropped before
/// that, it is deleted and the target stays unchanged.
#[derive(Debug)]
pub struct SideFile {
    target: PathBuf,
    kind: Kind,
}

/// Where the bytes are written.
#[derive(Debug)]
enum Kind {
    /// A temporary file, which is renamed to the target.
    Side(NamedTempFile),
    /// A pipe or device, which cannot be renamed over.
    Direct(File),
}

impl SideFile {
    /// Creates a temporary file for `target`. Follows a symbolic link; keeps the mode of an existing file.
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
        let mode = existing.map(|found| found.permissions()).or_else(new_file_permissions);
        check_folder(&target)?;
        let folder = folder_of(&target);
        let side = aside::create(|builder: &mut Aside| {
            if let Some(mode) = mode.clone() {
                builder.permissions(mode);
            }
            let side = builder.tempfile_in(folder)?;
            let file = side.as_file().try_clone()?;
            Ok((side, file))
        });
        let (side, _) = side.map_err(|error| failed(&error))?;
        if let Some(mode) = mode.filter(|_| target.exists()) {
            side.as_file().set_permissions(mode).map_err(|error| failed(&error))?;
        }
        Ok(Self { target, kind: Kind::Side(side) })
    }

    /// Checks that the real path of the temporary file may be written.
    pub fn check_place(&self, writable: Option<&Allowed>) -> Result<(), StoreError> {
        let Some(writable) = writable else { return Ok(()) };
        match &self.kind {
            Kind::Side(side) => writable.check_side(side.path()),
            Kind::Direct(_) => Err(StoreError::NotAllowed { name: self.target.display().to_string() }),
        }
    }

    /// Makes the content durable: it survives a power cut once the file is renamed.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let synced = match &mut self.kind {
            Kind::Side(side) => side.as_file().sync_all(),
            Kind::Direct(file) => file.flush(),
        };
        synced.map_err(|error| StoreError::io(&self.target.display().to_string(), &error))
    }

    /// Renames the file to its target, durably.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.sync()?;
        let Kind::Side(side) = self.kind else { return Ok(()) };
        let renamed = side.persist(&self.target).map_err(|error| error.error);
        let synced = renamed.and_then(|_| sync_folder(folder_of(&self.target)));
        synced.map_err(|error| StoreError::io(&self.target.display().to_string(), &error))
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

/// Returns the folder of a path; `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Checks that the folder of an output exists.
pub(crate) fn check_folder(target: &Path) -> Result<(), StoreError> {
    let folder = folder_of(target);
    match folder.exists() {
        true => Ok(()),
        false => {
            let name = format!("{}: the folder {}", target.display(), folder.display());
            Err(StoreError::NotFound { name })
        }
    }
}

/// Makes the entries of a folder durable, if the file system supports it.
///
/// # Errors
/// The file system's.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        // A folder in which files may be created, but which may not be read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    };
    #[cfg(not(unix))]
    {
        let _ = folder;
        Ok(())
    }
}

/// Creates a folder and its missing parents, durably.
///
/// # Errors
/// [`StoreError`] of the file system.
pub fn create_folder(folder: &Path) -> Result<(), StoreError> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    create_folder(folder_of(folder))?;
    let made = match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        made => made.and_then(|()| sync_folder(folder_of(folder))),
    };
    made.map_err(|error| StoreError::io(&folder.display().to_string(), &error))
}

/// Returns the default mode of new files; the umask applies.
fn new_file_permissions() -> Option<fs::Permissions> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(not(unix))]
    None
}

/// Writes an object, and returns the receipt of what the store then holds. Readers see the previous object, or none,
/// until the upload is complete.
pub async fn put(location: &str, options: &StoreOptions, bytes: Bytes) -> Result<Receipt, StoreError> {
    let location = Location::parse(location)?;
    let name = location.name();
    if let Location::Http(_) = location {
        let reason = "cannot be written, expected a path, s3, gs, az or abfs".to_owned();
        return Err(StoreError::Location { name, reason });
    }
    region::settle(&location, options).await?;
    let (store, path) = connect(&location, Purpose::Writing, options)?;
    let size = bytes.len() as u64;
    let etag =
        upload(store.as_ref(), &path, bytes).await.map_err(|error| StoreError::remote(&name, &error))?;
    if etag.is_some() {
        return Ok(Receipt::of_object(&Listed { size: Some(size), etag, ..Listed::default() }));
    }
    crate::receipt(&location.url(), false, options).await?.ok_or(StoreError::NotFound { name })
}

/// Returns the receipt of an output with this content.
pub fn receipt_of_bytes(bytes: &[u8]) -> Receipt {
    let mut parts = Parts::default();
    parts.add_content("", bytes.len() as u64, &Sha256::digest(bytes));
    parts.receipt()
}

/// Uploads an object, in parts if it is large. Returns its entity tag if the store reports one.
pub(crate) async fn upload(
    store: &dyn ObjectStore,
    path: &Key,
    bytes: Bytes,
) -> object_store::Result<Option<String>> {
    if bytes.len() < PART {
        return store.put(path, bytes.into()).await.map(|put| put.e_tag);
    }
    let mut upload = WriteMultipart::new_with_chunk_size(store.put_multipart(path).await?, PART);
    upload.put(bytes);
    upload.finish().await.map(|put| put.e_tag)
}
