//! Writing and deleting files and objects. A file is written next to its target and renamed; a temporary file is named
//! `.virtualize-XXXXXX.part`, and its process keeps it locked, so that leftovers of a killed process can be distinguished.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart, path::Path as Key};
use tempfile::NamedTempFile;

use crate::{
    Listed, Receipt, StoreError, StoreOptions,
    clients::Purpose,
    connect::{connect, settle_region},
    location::Location,
    lock::is_at,
    object::not_a_file,
};

/// Size in bytes of a part; larger objects are uploaded in parts. The 10,000 parts that S3 permits hold 80 GiB.
pub(crate) const PART: u64 = 8 << 20;
/// Maximum number of concurrent uploads, each of which holds a part in memory.
pub(crate) const UPLOADS: usize = 8;

/// A local file that is written next to its target, and renamed once it is complete and durable. If it is dropped before
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
        let failed = StoreError::at(&target.display().to_string());
        let existing = fs::metadata(target).ok();
        match existing.as_ref().and_then(not_a_file) {
            Some(what @ "a directory") => {
                return Err(StoreError::NotAFile { name: target.display().to_string(), what });
            }
            Some(_) => {
                let file = File::options().write(true).open(target).map_err(&failed)?;
                return Ok(Self { target: target.to_owned(), kind: Kind::Direct(file) });
            }
            None => {}
        }
        check_is_json(target)?;
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let mode = existing.map(|found| found.permissions()).or_else(new_file_permissions);
        check_folder(&target)?;
        let folder = folder_of(&target);
        let side = create_aside(|builder: &mut Aside| {
            if let Some(mode) = mode.clone() {
                builder.permissions(mode);
            }
            let side = builder.tempfile_in(folder)?;
            let file = side.as_file().try_clone()?;
            Ok((side, file))
        });
        let (side, _) = side.map_err(&failed)?;
        if let Some(mode) = mode.filter(|_| target.exists()) {
            side.as_file().set_permissions(mode).map_err(&failed)?;
        }
        Ok(Self { target, kind: Kind::Side(side) })
    }

    /// Makes the content durable: it survives a power cut once the file is renamed. Returns its receipt.
    pub fn sync(&mut self) -> Result<Receipt, StoreError> {
        let synced = match &self.kind {
            Kind::Side(side) => side.as_file().sync_all(),
            Kind::Direct(_) => Ok(()),
        };
        let found = synced.and_then(|()| self.file().metadata());
        let found = found.map_err(StoreError::at(&self.target.display().to_string()))?;
        Ok(Receipt::of_file(&found))
    }

    fn file(&self) -> &File {
        match &self.kind {
            Kind::Side(side) => side.as_file(),
            Kind::Direct(file) => file,
        }
    }

    /// Renames the file to its target, durably.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.sync()?;
        let Kind::Side(side) = self.kind else { return Ok(()) };
        let renamed = side.persist(&self.target).map_err(|error| error.error);
        let synced = renamed.and_then(|_| sync_folder(folder_of(&self.target)));
        synced.map_err(StoreError::at(&self.target.display().to_string()))
    }
}

impl Write for SideFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
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
    if folder.exists() {
        return Ok(());
    }
    Err(StoreError::NotFound { name: format!("{}: the folder {}", target.display(), folder.display()) })
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
    made.map_err(StoreError::at(&folder.display().to_string()))
}

/// Checks that a file is absent or empty, or may be JSON: other files are never replaced.
///
/// # Errors
/// [`StoreError::Occupied`].
pub fn check_is_json(path: &Path) -> Result<(), StoreError> {
    let mut start = [b'{'];
    let name = path.display().to_string();
    let read = match File::open(path) {
        Ok(mut file) if file.metadata().is_ok_and(|found| found.is_file()) => file.read(&mut start),
        _ => return Ok(()),
    };
    read.map_err(StoreError::at(&name))?;
    if start == [b'{'] {
        return Ok(());
    }
    Err(StoreError::Occupied { name, foreign: Some("something other than JSON".to_owned()) })
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
        let file = tempfile::tempfile().map_err(StoreError::at("temporary folder"))?;
        Ok(Self { target: target.to_owned(), file })
    }

    /// Returns the receipt of the temporary file.
    pub fn content(&self) -> Result<Receipt, StoreError> {
        let found = self.file.metadata().map_err(StoreError::at(&self.target))?;
        Ok(Receipt::of_file(&found))
    }

    /// Uploads the object, as [`put`] does.
    pub async fn finish(mut self, options: &StoreOptions) -> Result<Receipt, StoreError> {
        let size = self.file.stream_position().and_then(|size| self.file.rewind().map(|()| size));
        let size = size.map_err(StoreError::at(&self.target))?;
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
        return Err(StoreError::location(name, "cannot be written, expected a path, s3, gs, az or abfs"));
    }
    settle_region(&location, options).await?;
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

/// Start of the names of files and folders next to an output, which are not part of it.
pub(crate) const PREFIX: &str = ".virtualize-";
const SUFFIX: &str = ".part";
/// Folder within a temporary one that holds the previous output while the new one replaces it.
pub(crate) const OLD: &str = "old";
/// Folder within a temporary one that becomes the output. The temporary folder itself is inaccessible to other users.
pub(crate) const INNER: &str = "whole";

/// Builder of temporary files and folders.
pub(crate) type Aside = tempfile::Builder<'static, 'static>;

/// Creates a temporary file or folder, and locks it. `make` creates it, and returns it with the file to lock.
pub(crate) fn create_aside<T: AsRef<Path>>(
    mut make: impl FnMut(&mut Aside) -> io::Result<(T, File)>,
) -> io::Result<(T, File)> {
    loop {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        let (made, file) = make(&mut builder)?;
        // On a file system without locks, nothing is removed either, so that an unlocked file is safe.
        let lost = matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, made.as_ref());
        if !lost {
            return Ok((made, file));
        }
    }
}

/// Returns whether a path or URL is that of a lock or a temporary file or folder, which runs create next to their outputs.
pub fn is_beside_output(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(PREFIX))
}

/// Removes temporary files that killed processes left in a folder, and with `deep` in its subfolders. Keeps the only
/// copy of an output that was being replaced.
pub fn remove_abandoned(folder: &Path, deep: bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        let is_temporary = is_beside_output(&name) && name.ends_with(SUFFIX);
        if is_temporary && (kind.is_file() || kind.is_dir()) {
            remove_one_abandoned(&path, kind.is_dir());
        } else if deep && kind.is_dir() {
            remove_abandoned(&path, deep);
        }
    }
}

/// Removes an abandoned file or folder, unless a living process holds its lock.
fn remove_one_abandoned(path: &Path, is_folder: bool) {
    let Ok(file) = File::open(path) else { return };
    if file.try_lock().is_err() || !is_at(&file, path) {
        return;
    }
    if path.join(OLD).exists() && path.join(INNER).exists() {
        tracing::warn!(
            "{}: has an output that was being replaced when the process was killed",
            path.display()
        );
        return;
    }
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Ok(()) => tracing::info!("{}: left by a process that was killed, removed", path.display()),
        Err(error) => tracing::warn!("{}: left by a process that was killed: {error}", path.display()),
    }
}

/// Number of objects that are deleted at once.
const AT_ONCE: usize = 16;

/// Deletes files and objects. Those that are not there are no error. A folder is deleted with its last file.
pub async fn remove<T: AsRef<str>>(
    locations: impl IntoIterator<Item = T>,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let each =
        locations.into_iter().map(|location| async move { remove_one(location.as_ref(), options).await });
    stream::iter(each).buffer_unordered(AT_ONCE).try_collect().await
}

async fn remove_one(location: &str, options: &StoreOptions) -> Result<(), StoreError> {
    let location = Location::parse(location)?;
    let name = location.name();
    if let Location::Local(path) = &location {
        return remove_file(path).map_err(StoreError::at(&name));
    }
    settle_region(&location, options).await?;
    let (store, key) = connect(&location, Purpose::Writing, options)?;
    match store.delete(&key).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(StoreError::remote(&name, &error)),
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    if let Some(folder) = path.parent() {
        // It stays while there are others in it.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// Location of an output, with which its sources are compared.
#[derive(Clone, Debug)]
pub struct OutputPlace {
    location: Location,
    /// Whether the output is a folder or a prefix.
    several_files: bool,
    /// Real path of a local output that exists.
    real: Option<PathBuf>,
}

impl OutputPlace {
    /// Returns the location of an output, which is a folder or a prefix if it consists of several files.
    pub fn new(target: &str, several_files: bool) -> Result<Self, StoreError> {
        let target = if several_files { target.trim_end_matches('/') } else { target };
        let location = Location::parse(target)?;
        let real = match &location {
            Location::Local(path) => path.canonicalize().ok(),
            _ => None,
        };
        Ok(Self { location, several_files, real })
    }

    /// Returns whether a path or URL leads to the output, or to a file in it.
    pub fn contains(&self, url: &str) -> bool {
        match (Location::parse(url), &self.location) {
            (Ok(Location::Local(path)), Location::Local(output)) => {
                self.is_in(&path, output)
                    || self
                        .real
                        .as_ref()
                        .is_some_and(|real| path.canonicalize().is_ok_and(|path| self.is_in(&path, real)))
            }
            (Ok(other), output) if other == *output => true,
            (Ok(other), output) if self.several_files => {
                other.url().strip_prefix(&output.url()).is_some_and(|rest| rest.starts_with('/'))
            }
            _ => false,
        }
    }

    fn is_in(&self, path: &Path, output: &Path) -> bool {
        path == output || self.several_files && path.starts_with(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn files_are_removed_and_then_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        fs::create_dir(&parts).unwrap();
        let paths = ["a", "b", "kept"].map(|name| parts.join(name).display().to_string());
        paths.iter().for_each(|path| fs::write(path, "").unwrap());
        let [a, b, kept] = &paths;
        let options = StoreOptions::default();
        remove([a, b, a], &options).await.unwrap();
        assert!(Path::new(kept).is_file() && !Path::new(a).exists() && !Path::new(b).exists());
        remove([kept], &options).await.unwrap();
        assert!(!parts.exists() && folder.path().is_dir());
    }

    #[test]
    fn files_in_a_folder_are_known() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().canonicalize().unwrap().join("store");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.nc"), "x").unwrap();
        let place = OutputPlace::new(folder.to_str().unwrap(), true).unwrap();
        assert!(place.contains(&format!("file://{}/a.nc", folder.display())));
        assert!(!place.contains(&format!("file://{}2/a.nc", folder.display())));
        let file = OutputPlace::new(folder.join("a.nc").to_str().unwrap(), false).unwrap();
        assert!(file.contains(&format!("file://{}/a.nc", folder.display())));
        #[cfg(unix)]
        {
            let link = root.path().join("link");
            std::os::unix::fs::symlink(&folder, &link).unwrap();
            assert!(place.contains(&format!("file://{}/a.nc", link.display())));
            assert!(file.contains(link.join("a.nc").to_str().unwrap()));
        }
    }

    #[test]
    fn objects_below_a_prefix_are_known() {
        let place = OutputPlace::new("s3://bucket/store.zarr/", true).unwrap();
        assert!(place.contains("s3://bucket/store.zarr/a.nc") && place.contains("s3://bucket/store.zarr"));
        assert!(!place.contains("s3://bucket/store.zarr2/a.nc") && !place.contains("/store.zarr/a.nc"));
        let object = OutputPlace::new("s3://bucket/a.json", false).unwrap();
        assert!(object.contains("s3://bucket/a.json") && !object.contains("s3://bucket/a.json/b"));
    }
}
