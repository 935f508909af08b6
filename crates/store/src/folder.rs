use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, path::Path as Key};
use tempfile::TempDir;

use crate::{
    Allowed, ExistingFolder, Receipt, StoreError, StoreOptions,
    aside::{self, Aside, INNER, OLD},
    clients::Purpose,
    connect::connect,
    location::Location,
    output::{folder_of, sync_folder, upload},
    receipt::{Parts, content},
    region,
};

/// A set of files that becomes a folder, or objects under a prefix, once all of them are complete. If it is dropped
/// before that, its files are deleted and the target stays unchanged.
#[derive(Debug)]
pub struct SideFolder {
    target: Location,
    /// Whether existing content of the target is replaced.
    overwrite: bool,
    /// Temporary folder that holds the files.
    aside: TempDir,
    /// Lock of the temporary folder, which shows that this process is alive.
    _locked: File,
    /// Keys of the files, in the order in which they were started.
    keys: Vec<String>,
    /// The output that is extended.
    existing: Option<Parts>,
    /// Keys of its files that are kept.
    kept: BTreeSet<String>,
    /// Receipt of all files, once they are durable.
    content: Option<Receipt>,
}

/// Maximum concurrent uploads; each object is held in memory whole.
const UPLOADS: usize = 8;

impl SideFolder {
    /// Creates a set of files for a local path or a URL prefix. Without `overwrite`, a local target must be absent or
    /// an empty folder; the prefix of a bucket is checked before the upload.
    pub fn create(target: &str, overwrite: bool) -> Result<Self, StoreError> {
        let target = Location::parse(target.trim_end_matches('/'))?;
        let failed = |error: &io::Error| StoreError::io(&target.name(), error);
        let folder = |beside: Option<&Path>| {
            aside::create(|builder: &mut Aside| {
                let made = beside.map_or_else(|| builder.tempdir(), |beside| builder.tempdir_in(beside))?;
                let file = File::open(made.path())?;
                Ok((made, file))
            })
        };
        let (target, (aside, locked)) = match &target {
            Location::Local(path) => {
                if !overwrite {
                    vacant(path)?;
                }
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                let beside = path.parent().unwrap_or(Path::new("/"));
                let aside = folder(Some(beside)).map_err(|error| failed(&error))?;
                (Location::Local(path), aside)
            }
            Location::Http(_) | Location::Foreign(_) => {
                let reason = "cannot be written, expected a path, s3, gs, az or abfs".to_owned();
                return Err(StoreError::Location { name: target.name(), reason });
            }
            Location::Bucket { .. } => {
                let aside = folder(None).map_err(|error| failed(&error))?;
                (target, aside)
            }
        };
        let this = Self {
            target,
            overwrite,
            aside,
            _locked: locked,
            keys: Vec::new(),
            existing: None,
            kept: BTreeSet::new(),
            content: None,
        };
        fs::create_dir(this.inner()).map_err(|error| StoreError::io(&this.target.name(), &error))?;
        Ok(this)
    }

    /// Creates a set of files that replaces an output, of which some files may be kept.
    pub fn extend(target: &str, existing: &ExistingFolder) -> Result<Self, StoreError> {
        let this = Self::create(target, true)?;
        Ok(Self { existing: Some(existing.parts.clone()), ..this })
    }

    /// Keeps a file of the output that is extended: links or copies a local file; objects stay where they are.
    pub fn keep(&mut self, key: &str) -> io::Result<()> {
        if let Location::Local(target) = &self.target {
            let (from, to) = (target.join(key), self.place(key)?);
            fs::hard_link(&from, &to).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err(error),
                // The file system has no links.
                _ => {
                    fs::copy(&from, &to)?;
                    File::open(&to)?.sync_all()
                }
            })?;
        }
        self.kept.insert(key.to_owned());
        self.keys.push(key.to_owned());
        Ok(())
    }

    /// Checks that the real path of the temporary folder may be written.
    pub fn check_place(&self, writable: Option<&Allowed>) -> Result<(), StoreError> {
        match (&self.target, writable) {
            (Location::Local(_), Some(writable)) => writable.check_side(self.aside.path()),
            _ => Ok(()),
        }
    }

    /// Creates the file of a key such as `a/b.json`.
    pub fn file(&mut self, key: &str) -> io::Result<File> {
        let path = self.place(key)?;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{key}: {error}"));
        let file = File::create_new(&path).map_err(named)?;
        self.keys.push(key.to_owned());
        Ok(file)
    }

    /// Returns the path of a file, and creates its folder.
    fn place(&self, key: &str) -> io::Result<PathBuf> {
        if key.split('/').any(|name| matches!(name, "" | "." | "..")) || key.contains(['\\', '\0']) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{key:?} cannot be a file's name"),
            ));
        }
        let path = self.inner().join(key);
        if let Some(folder) = path.parent() {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{key}: {error}"));
            fs::create_dir_all(folder).map_err(named)?;
        }
        Ok(path)
    }

    /// Makes all files durable if the target is local, and returns the receipt of what was written.
    pub fn sync(&mut self) -> Result<Receipt, StoreError> {
        if let Some(content) = &self.content {
            return Ok(content.clone());
        }
        let is_local = matches!(self.target, Location::Local(_));
        let mut parts = Parts::default();
        let mut folders = BTreeSet::from([self.inner()]);
        for key in &self.keys {
            let path = self.inner().join(key);
            let above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(self.inner()));
            folders.extend(above.map(Path::to_owned));
            if let Some(existing) = self.existing.as_ref().filter(|_| self.kept.contains(key)) {
                parts.add_from(existing, key);
                continue;
            }
            let read = File::open(&path).and_then(|mut file| {
                if is_local {
                    file.sync_all()?;
                }
                content(&mut file)
            });
            let (size, digest) = read.map_err(|error| StoreError::io(key, &error))?;
            parts.add_content(key, size, &digest);
        }
        for folder in folders.iter().filter(|_| is_local) {
            sync_folder(folder).map_err(|error| StoreError::io(&self.target.name(), &error))?;
        }
        Ok(self.content.insert(parts.receipt()).clone())
    }

    /// Publishes the files: exchanges a local folder with the new one, or uploads objects in any order, except for the file
    /// started last, which is uploaded after all others. Returns the receipt of the published output.
    pub async fn finish(mut self, options: &StoreOptions) -> Result<Receipt, StoreError> {
        let content = self.sync()?;
        if let Location::Local(path) = &self.target {
            self.rename(path).map_err(|error| StoreError::io(&self.target.name(), &error))?;
            return Ok(content);
        }
        self.upload(options).await?;
        let name = self.target.name();
        match crate::receipt(&self.target.url(), true, options).await? {
            Some(there) if (there.files, there.bytes) == (content.files, content.bytes) => Ok(there),
            _ => Err(StoreError::Changed { name, reason: "it is not what was just written".to_owned() }),
        }
    }

    /// Returns the folder within the temporary one that holds the files.
    fn inner(&self) -> PathBuf {
        self.aside.path().join(INNER)
    }

    /// Renames the folder to its target. An existing target is exchanged with it at once or, on a file system that cannot do
    /// that, moved aside first, and restored if the rename fails.
    fn rename(&self, target: &Path) -> io::Result<()> {
        let old = self.aside.path().join(OLD);
        let replaced = match target.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
            Ok(found) if found.is_dir() && (self.overwrite || is_empty(target)?) => {
                if exchange(&self.inner(), target).is_ok() {
                    return sync_folder(folder_of(target));
                }
                fs::rename(target, &old)?;
                true
            }
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something already")),
        };
        let renamed = fs::rename(self.inner(), target);
        if renamed.is_err() && replaced {
            fs::rename(&old, target)?;
        }
        renamed.and_then(|()| sync_folder(folder_of(target)))
    }

    /// Uploads all files, the one started last after the others.
    async fn upload(&self, options: &StoreOptions) -> Result<(), StoreError> {
        let name = self.target.name();
        let failed = |error| StoreError::remote(&name, &error);
        region::settle(&self.target, options).await?;
        let (store, prefix) = connect(&self.target, Purpose::Writing, options)?;
        if self.existing.is_none() {
            self.clear(store.as_ref(), &prefix).await?;
        }
        let Some((last, others)) = self.keys.split_last() else { return Ok(()) };
        let others = others.iter().filter(|key| !self.kept.contains(*key));
        let one = async |key: &str| {
            let bytes = fs::read(self.inner().join(key)).map_err(|error| StoreError::io(key, &error))?;
            let path = child(&prefix, key).map_err(failed)?;
            upload(store.as_ref(), &path, Bytes::from(bytes)).await.map(drop).map_err(failed)
        };
        stream::iter(others.map(Ok)).try_for_each_concurrent(UPLOADS, |key| one(key)).await?;
        one(last).await?;
        self.remove_obsolete(store.as_ref(), &prefix).await
    }

    /// Deletes the objects of the output that was extended which are no longer part of it.
    async fn remove_obsolete(&self, store: &dyn ObjectStore, prefix: &Key) -> Result<(), StoreError> {
        let name = self.target.name();
        let failed = |error| StoreError::remote(&name, &error);
        let present: BTreeSet<&str> = self.keys.iter().map(String::as_str).collect();
        let existing = self.existing.iter().flat_map(Parts::keys).filter(|key| !present.contains(key));
        let obsolete: Vec<_> = existing.map(|key| child(prefix, key)).collect();
        store
            .delete_stream(stream::iter(obsolete).boxed())
            .try_for_each(|_| async { Ok(()) })
            .await
            .map_err(failed)
    }

    /// Deletes the objects below the prefix, starting with the one that readers open first (which is uploaded last).
    /// Without `overwrite`, fails if there are any.
    async fn clear(&self, store: &dyn ObjectStore, prefix: &Key) -> Result<(), StoreError> {
        let name = self.target.name();
        let failed = |error| StoreError::remote(&name, &error);
        match store.list(Some(prefix)).next().await.transpose().map_err(failed)? {
            None => return Ok(()),
            Some(_) if !self.overwrite => return Err(StoreError::Occupied { name }),
            Some(_) => {}
        }
        if let Some(last) = self.keys.last() {
            match store.delete(&child(prefix, last).map_err(failed)?).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let found = store.list(Some(prefix)).map_ok(|object| object.location).boxed();
        store.delete_stream(found).try_for_each(|_| async { Ok(()) }).await.map_err(failed)
    }
}

/// Exchanges two folders at once.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn child(prefix: &Key, key: &str) -> object_store::Result<Key> {
    Ok(Key::parse(format!("{prefix}/{key}"))?)
}

/// Fails unless a path is absent or an empty folder.
fn vacant(path: &Path) -> Result<(), StoreError> {
    let name = path.display().to_string();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io(&name, &error)),
        Ok(found) if found.is_dir() && is_empty(path).map_err(|error| StoreError::io(&name, &error))? => {
            Ok(())
        }
        Ok(_) => Err(StoreError::Occupied { name }),
    }
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().is_none())
}
