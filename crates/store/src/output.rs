use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart, path::Path as Key};
use tempfile::NamedTempFile;

use crate::{
    Allowed, Listed, Receipt, StoreError, StoreOptions,
    aside::{self, Aside},
    clients::Purpose,
    connect::connect,
    local::not_a_file,
    location::Location,
    region,
};

/// Size in bytes of a part; larger objects are uploaded in parts. The 10,000 parts that S3 permits hold 80 GiB.
pub(crate) const PART: u64 = 8 << 20;
/// Maximum number of concurrent uploads, each of which holds a part in memory.
pub(crate) const UPLOADS: usize = 8;

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

    /// Makes the content durable: it survives a power cut once the file is renamed. Returns its receipt.
    pub fn sync(&mut self) -> Result<Receipt, StoreError> {
        let synced = match &mut self.kind {
            Kind::Side(side) => side.as_file().sync_all().and_then(|()| side.as_file().metadata()),
            Kind::Direct(file) => file.flush().and_then(|()| file.metadata()),
        };
        let found = synced.map_err(|error| StoreError::io(&self.target.display().to_string(), &error))?;
        Ok(Receipt::of_file(&found))
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

/// An object that is written to a temporary file, and uploaded once it is complete.
#[derive(Debug)]
pub struct SideObject {
    target: String,
    file: File,
}

impl SideObject {
    /// Creates a temporary file, which has no name, for an object.
    pub fn create(target: &str) -> Result<Self, StoreError> {
        let file = tempfile::tempfile().map_err(|error| StoreError::io("temporary folder", &error))?;
        Ok(Self { target: target.to_owned(), file })
    }

    /// Returns the receipt of the temporary file.
    pub fn content(&self) -> Result<Receipt, StoreError> {
        let found = self.file.metadata().map_err(|error| StoreError::io(&self.target, &error))?;
        Ok(Receipt::of_file(&found))
    }

    /// Uploads the object, as [`put`] does.
    pub async fn finish(mut self, options: &StoreOptions) -> Result<Receipt, StoreError> {
        let size = self.file.stream_position().and_then(|size| self.file.rewind().map(|()| size));
        let size = size.map_err(|error| StoreError::io(&self.target, &error))?;
        put_from(&self.target, options, &mut self.file, size).await
    }
}

impl Write for SideObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes an object, and returns the receipt of what the store then holds. Readers see the previous object, or none,
/// until the upload is complete.
pub async fn put(location: &str, options: &StoreOptions, bytes: Bytes) -> Result<Receipt, StoreError> {
    put_from(location, options, &mut bytes.as_ref(), bytes.len() as u64).await
}

async fn put_from(
    location: &str,
    options: &StoreOptions,
    content: &mut (impl Read + Send),
    size: u64,
) -> Result<Receipt, StoreError> {
    let location = Location::parse(location)?;
    let name = location.name();
    if let Location::Http(_) = location {
        let reason = "cannot be written, expected a path, s3, gs, az or abfs".to_owned();
        return Err(StoreError::Location { name, reason });
    }
    region::settle(&location, options).await?;
    let (store, path) = connect(&location, Purpose::Writing, options)?;
    let etag = upload(store.as_ref(), &path, content, size)
        .await
        .map_err(|error| StoreError::remote(&name, &error))?;
    if etag.is_some() {
        return Ok(Receipt::of_object(&Listed { size: Some(size), etag, ..Listed::default() }));
    }
    crate::receipt(&location.url(), false, options).await?.ok_or(StoreError::NotFound { name })
}

/// Uploads an object of `size` bytes, in parts if it is large. Returns its entity tag if the store reports one.
pub(crate) async fn upload(
    store: &dyn ObjectStore,
    path: &Key,
    content: &mut (impl Read + Send),
    size: u64,
) -> object_store::Result<Option<String>> {
    let mut next = || -> object_store::Result<Vec<u8>> {
        let mut part = Vec::with_capacity(usize::try_from(size.min(PART)).unwrap_or_default());
        let read = content.by_ref().take(PART).read_to_end(&mut part);
        read.map_err(|source| object_store::Error::Generic { store: "file", source: source.into() })?;
        Ok(part)
    };
    if size <= PART {
        return store.put(path, next()?.into()).await.map(|put| put.e_tag);
    }
    let part_size = usize::try_from(PART).unwrap_or_default();
    let mut upload = WriteMultipart::new_with_chunk_size(store.put_multipart(path).await?, part_size);
    let sent = async {
        loop {
            upload.wait_for_capacity(UPLOADS).await?;
            match next()? {
                part if part.is_empty() => return Ok::<(), object_store::Error>(()),
                part => upload.put(part.into()),
            }
        }
    };
    if let Err(error) = sent.await {
        // What was uploaded costs money until it is deleted; the first error says why.
        let _ = upload.abort().await;
        return Err(error);
    }
    upload.finish().await.map(|put| put.e_tag)
}
