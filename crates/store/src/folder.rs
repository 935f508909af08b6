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
    Allowed, Receipt, StoreError, StoreOptions,
    aside::{self, Aside, INNER, OLD},
    clients::Purpose,
    connect::connect,
    location::Location,
    output::{folder_of, sync_folder, upload},
    receipt::{Parts, content},
    region,
};

/// Files that become a folder, or objects under a prefix, when all of them are there. Dropped before that, it leaves
/// nothing, and what was at the final place stays.
#[derive(Debug)]
pub struct SideFolder {
    target: Location,
    /// Whether what is there already is taken away.
    overwrite: bool,
    aside: TempDir,
    /// Shows that this process is alive.
    _locked: File,
    /// In the order in which they were put.
    keys: Vec<String>,
}

/// Objects that are written at once; each is held in memory whole.
const UPLOADS: usize = 8;

impl SideFolder {
    /// Starts a folder that will be at a path, or the objects that will be below a url. Unless it is to be overwritten,
    /// nothing may be there but an empty folder.
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
            Location::Http(_) => {
                let reason = "cannot be written, expected a path, s3, gs, az or abfs".to_owned();
                return Err(StoreError::Location { name: target.name(), reason });
            }
            Location::Bucket { .. } => {
                let aside = folder(None).map_err(|error| failed(&error))?;
                (target, aside)
            }
        };
        let this = Self { target, overwrite, aside, _locked: locked, keys: Vec::new() };
        fs::create_dir(this.inner()).map_err(|error| StoreError::io(&this.target.name(), &error))?;
        Ok(this)
    }

    /// Whether it really lies where it may be written.
    pub fn check_place(&self, writable: Option<&Allowed>) -> Result<(), StoreError> {
        match (&self.target, writable) {
            (Location::Local(_), Some(writable)) => writable.check_side(self.aside.path()),
            _ => Ok(()),
        }
    }

    /// Whether a file, as [`crate::Object::url`] gives it, lies in the folder or below the prefix.
    pub fn holds(&self, url: &str) -> bool {
        if let (Location::Local(target), Some(path)) = (&self.target, url.strip_prefix("file://")) {
            let path = Path::new(path);
            return path.canonicalize().as_deref().unwrap_or(path).starts_with(target);
        }
        url.strip_prefix(&self.target.url()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Starts the file of a key such as `a/b.json`.
    pub fn file(&mut self, key: &str) -> io::Result<File> {
        if key.split('/').any(|name| matches!(name, "" | "." | "..")) || key.contains(['\\', '\0']) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{key:?} cannot be a file's name"),
            ));
        }
        let path = self.inner().join(key);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{key}: {error}"));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(named)?;
        }
        let file = File::create_new(&path).map_err(named)?;
        self.keys.push(key.to_owned());
        Ok(file)
    }

    /// Sees to it that all files are on the disk, and says what was written.
    pub fn sync(&self) -> Result<Receipt, StoreError> {
        let is_local = matches!(self.target, Location::Local(_));
        let mut parts = Parts::default();
        let mut folders = BTreeSet::from([self.inner()]);
        for key in &self.keys {
            let path = self.inner().join(key);
            let read = File::open(&path).and_then(|mut file| {
                if is_local {
                    file.sync_all()?;
                }
                content(&mut file)
            });
            let (size, digest) = read.map_err(|error| StoreError::io(key, &error))?;
            parts.add_content(key, size, &digest);
            let above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(self.inner()));
            folders.extend(above.map(Path::to_owned));
        }
        for folder in folders.iter().filter(|_| is_local) {
            sync_folder(folder).map_err(|error| StoreError::io(&self.target.name(), &error))?;
        }
        Ok(parts.receipt())
    }

    /// Puts all at its final place: a local folder at once, objects in any order but for the last, which is put when
    /// all others are there. Says what is there then.
    pub async fn finish(self, options: &StoreOptions) -> Result<Receipt, StoreError> {
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

    fn inner(&self) -> PathBuf {
        self.aside.path().join(INNER)
    }

    fn rename(&self, target: &Path) -> io::Result<()> {
        let old = self.aside.path().join(OLD);
        let replaced = match target.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
            Ok(found) if found.is_dir() && (self.overwrite || is_empty(target)?) => {
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

    async fn upload(&self, options: &StoreOptions) -> Result<(), StoreError> {
        let name = self.target.name();
        let failed = |error| StoreError::remote(&name, &error);
        region::settle(&self.target, options).await?;
        let (store, prefix) = connect(&self.target, Purpose::Writing, options)?;
        self.clear(store.as_ref(), &prefix).await?;
        let Some((last, others)) = self.keys.split_last() else { return Ok(()) };
        let one = async |key: &str| {
            let bytes = fs::read(self.inner().join(key)).map_err(|error| StoreError::io(key, &error))?;
            let path = child(&prefix, key).map_err(failed)?;
            upload(store.as_ref(), &path, Bytes::from(bytes)).await.map(drop).map_err(failed)
        };
        stream::iter(others.iter().map(Ok)).try_for_each_concurrent(UPLOADS, |key| one(key)).await?;
        one(last).await
    }

    /// Takes away what is below the prefix, the file that shows it (which was put last) before the others; or refuses
    /// where there is anything and it is not to be overwritten.
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

fn child(prefix: &Key, key: &str) -> object_store::Result<Key> {
    Ok(Key::parse(format!("{prefix}/{key}"))?)
}

/// Refuses a place where there is something.
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
