//! Outputs of several files, and the identity of outputs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, path::Path as Key};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::{
    Listed, StoreError, StoreOptions,
    clients::Purpose,
    connect::{connect, in_region, settle_region},
    link::{Failure, Link},
    list_page,
    location::Location,
    lock::beside,
    meter::Meter,
    output::{Aside, INNER, OLD, PART, UPLOADS, create_aside, folder_of, sync_folder, upload},
};

/// Maximum size in bytes of the start of a document that is read to recognize an output.
const HEAD: u64 = 64 << 20;

/// Returns the first file that does not belong to an output, given the keys of all files, and the first 64 MiB of those of
/// the documents that exist.
type FindForeign = fn(&BTreeSet<String>, &BTreeMap<&str, Vec<u8>>) -> Option<String>;

/// Recognizes outputs. Other folders and prefixes are never replaced.
#[derive(Clone, Copy, Debug)]
pub struct Recognizer {
    /// Keys of the documents that tell which files belong to an output.
    pub documents: &'static [&'static str],
    /// Finds a file that does not belong to an output.
    pub foreign: FindForeign,
}

/// A set of files that becomes a folder, or objects under a prefix, once all of them are complete. If it is dropped
/// before that, its files are deleted and the target stays unchanged.
#[derive(Debug)]
pub struct SideFolder {
    target: Location,
    /// Whether an existing output is replaced.
    overwrite: bool,
    recognizer: Recognizer,
    /// Temporary folder that holds the files.
    aside: TempDir,
    /// Lock of the temporary folder, which shows that this process is alive.
    _locked: File,
    /// Keys of the files, in the order in which they were started.
    keys: Vec<String>,
    /// Receipt of all files, once they are durable.
    content: Option<Receipt>,
}

impl SideFolder {
    /// Creates a set of files for a local path or a URL prefix. A local target must be absent, an empty folder or, with
    /// `overwrite`, an output; the prefix of a bucket is checked before the upload.
    pub fn create(target: &str, overwrite: bool, recognizer: Recognizer) -> Result<Self, StoreError> {
        let target = Location::parse(target.trim_end_matches('/'))?;
        let failed = StoreError::at(&target.name());
        let folder = |beside: Option<&Path>| {
            create_aside(|builder: &mut Aside| {
                let made = beside.map_or_else(|| builder.tempdir(), |beside| builder.tempdir_in(beside))?;
                let file = File::open(made.path())?;
                Ok((made, file))
            })
        };
        let (target, (aside, locked)) = match &target {
            Location::Local(path) => {
                check_local(path, overwrite, recognizer)?;
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                let beside = path.parent().unwrap_or(Path::new("/"));
                let aside = folder(Some(beside)).map_err(&failed)?;
                (Location::Local(path), aside)
            }
            Location::Http(_) | Location::Foreign(_) => {
                let reason = "cannot be written, expected a path, s3, gs, az or abfs";
                return Err(StoreError::location(target.name(), reason));
            }
            Location::Bucket { .. } => {
                let aside = folder(None).map_err(&failed)?;
                (target, aside)
            }
        };
        let (keys, content) = (Vec::new(), None);
        let this = Self { target, overwrite, recognizer, aside, _locked: locked, keys, content };
        fs::create_dir(this.inner()).map_err(StoreError::at(&this.target.name()))?;
        Ok(this)
    }

    /// Checks what [`SideFolder::create`] and [`SideFolder::finish`] check later: that a target is absent or empty or,
    /// with `overwrite`, an output.
    pub async fn check(
        target: &str,
        overwrite: bool,
        recognizer: Recognizer,
        options: &StoreOptions,
    ) -> Result<(), StoreError> {
        let location = Location::parse(target.trim_end_matches('/'))?;
        if let Location::Local(path) = &location {
            return check_local(path, overwrite, recognizer).map(drop);
        }
        check_bucket(&location, overwrite, recognizer, options).await.map(drop)
    }

    /// Creates the file of a key such as `a/b.json`.
    pub fn file(&mut self, key: &str) -> io::Result<File> {
        if key.split('/').any(|name| matches!(name, "" | "." | "..")) || key.contains(['\\', '\0']) {
            let reason = format!("{key:?} cannot be the name of a file");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let path = self.inner().join(key);
        let created = fs::create_dir_all(folder_of(&path)).and_then(|()| File::create_new(&path));
        let file = created.map_err(|error| io::Error::new(error.kind(), format!("{key}: {error}")))?;
        self.keys.push(key.to_owned());
        Ok(file)
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
            let found = File::open(&path).and_then(|file| {
                if is_local {
                    file.sync_all()?;
                }
                file.metadata()
            });
            parts.add_file(key, &found.map_err(StoreError::at(key))?);
        }
        for folder in folders.iter().filter(|_| is_local) {
            sync_folder(folder).map_err(StoreError::at(&self.target.name()))?;
        }
        Ok(self.content.insert(parts.receipt()).clone())
    }

    /// Publishes the files: exchanges a local folder with the new one, or uploads objects, that of the file started last
    /// after all others. Returns the receipt of the published output.
    pub async fn finish(mut self, options: &StoreOptions) -> Result<Receipt, StoreError> {
        let content = self.sync()?;
        if let Location::Local(path) = &self.target {
            self.rename(path)?;
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
    /// that, moved aside first. It is restored if that fails, or if files were added to it meanwhile.
    fn rename(&self, target: &Path) -> Result<(), StoreError> {
        let failed = StoreError::at(&self.target.name());
        let (inner, old) = (self.inner(), self.aside.path().join(OLD));
        if check_local(target, self.overwrite, self.recognizer)? {
            exchange(&inner, target)
                .or_else(|_| {
                    fs::rename(target, &old)?;
                    fs::rename(&inner, target).inspect_err(|_| drop(fs::rename(&old, target)))
                })
                .map_err(&failed)?;
            let replaced = if old.exists() { &old } else { &inner };
            if let Err(error) = check_local(replaced, self.overwrite, self.recognizer) {
                exchange(replaced, target)
                    .or_else(|_| fs::rename(target, &inner).and_then(|()| fs::rename(replaced, target)))
                    .map_err(&failed)?;
                return Err(error);
            }
        } else {
            fs::rename(&inner, target).map_err(&failed)?;
        }
        sync_folder(folder_of(target)).map_err(failed)
    }

    /// Uploads all files, the one started last after the others, and deletes the other files of the output that is
    /// replaced. Until its root is replaced, readers see that output, except for files of the same name as new ones.
    ///
    /// While this goes on, an object next to the output lists the keys of both outputs: if the process is killed, it tells the
    /// next one which objects it may replace.
    async fn upload(&self, options: &StoreOptions) -> Result<(), StoreError> {
        let name = self.target.name();
        let failed = |error| StoreError::remote(&name, &error);
        settle_region(&self.target, options).await?;
        let (store, prefix) = connect(&self.target, Purpose::Writing, options)?;
        let existing = check_bucket(&self.target, self.overwrite, self.recognizer, options).await?;
        let Some((root, others)) = self.keys.split_last() else { return Ok(()) };
        let (_, list) = connect(&beside(&self.target, LIST), Purpose::Writing, options)?;
        let written: BTreeSet<&str> = self.keys.iter().map(String::as_str).collect();
        let all: BTreeSet<&str> =
            existing.iter().map(String::as_str).chain(written.iter().copied()).collect();
        let text = all.into_iter().collect::<Vec<_>>().join("\n");
        store.put(&list, text.into()).await.map_err(failed)?;
        let (same, new): (Vec<_>, Vec<_>) = others.iter().partition(|key| existing.contains(*key));
        for keys in [new, same, vec![root]] {
            self.upload_files(&store, &prefix, keys).await?;
        }
        let obsolete = existing.iter().filter(|key| !written.contains(key.as_str()));
        let obsolete: Vec<_> = obsolete.map(|key| child(&prefix, key)).chain([Ok(list)]).collect();
        let deleted = store.delete_stream(stream::iter(obsolete).boxed());
        deleted.try_for_each(|_| async { Ok(()) }).await.map_err(failed)
    }

    /// Uploads files in any order: small ones concurrently, and each large one in parts.
    async fn upload_files(
        &self,
        store: &Arc<dyn ObjectStore>,
        prefix: &Key,
        keys: Vec<&String>,
    ) -> Result<(), StoreError> {
        let name = self.target.name();
        let open = |key: &str| {
            let file = File::open(self.inner().join(key)).and_then(|file| Ok((file.metadata()?.len(), file)));
            file.map_err(StoreError::at(key))
        };
        let one = async |key: &str| {
            let (size, mut file) = open(key)?;
            let path = child(prefix, key).map_err(|error| StoreError::remote(&name, &error))?;
            let uploaded = upload(store.as_ref(), &path, &mut file, size).await;
            uploaded.map(drop).map_err(|error| StoreError::remote(&name, &error))
        };
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for key in keys {
            if open(key)?.0 <= PART { small.push(key) } else { large.push(key) }
        }
        stream::iter(small.into_iter().map(Ok)).try_for_each_concurrent(UPLOADS, |key| one(key)).await?;
        for key in large {
            one(key).await?;
        }
        Ok(())
    }
}

/// Suffix of the object next to an output that lists the keys of the output while it is replaced.
const LIST: &str = "part";

/// Checks that a path is absent, an empty folder or, with `overwrite`, an output. Returns whether it exists.
fn check_local(path: &Path, overwrite: bool, recognizer: Recognizer) -> Result<bool, StoreError> {
    let name = path.display().to_string();
    let failed = StoreError::at(&name);
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Ok(false);
        }
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_dir() => {
            return Err(StoreError::location(name, "a file, expected a folder or nothing"));
        }
        Ok(_) => {}
    }
    let mut documents = BTreeMap::new();
    for key in recognizer.documents {
        let file = path.join(key);
        if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let mut text = Vec::new();
            let read = File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut text));
            read.map_err(&failed)?;
            documents.insert(*key, text);
        }
    }
    let mut keys = BTreeSet::new();
    // A large folder need not be listed to be refused.
    let is_deep = !documents.is_empty();
    files_below(path, "", is_deep, &mut keys).map_err(&failed)?;
    if keys.is_empty() {
        return Ok(true);
    }
    let foreign = (recognizer.foreign)(&keys, &documents);
    if foreign.is_some() || !overwrite {
        return Err(StoreError::Occupied { name, foreign });
    }
    Ok(true)
}

/// Lists the files of a folder, and with `deep` those below it. Folders that are not looked into or empty, links and devices
/// get names that no file of an output has.
fn files_below(folder: &Path, prefix: &str, deep: bool, keys: &mut BTreeSet<String>) -> io::Result<()> {
    let before = keys.len();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() && deep {
            files_below(&entry.path(), &format!("{key}/"), deep, keys)?;
        } else if kind.is_file() {
            keys.insert(key);
        } else {
            keys.insert(format!("{key}{}", if kind.is_dir() { "/" } else { " (not a regular file)" }));
        }
    }
    if keys.len() == before && !prefix.is_empty() {
        keys.insert(prefix.to_owned());
    }
    Ok(())
}

/// Checks that a prefix is empty or, with `overwrite`, an output, or what is left of outputs after an interrupted upload.
/// Returns the keys of its objects.
async fn check_bucket(
    target: &Location,
    overwrite: bool,
    recognizer: Recognizer,
    options: &StoreOptions,
) -> Result<BTreeSet<String>, StoreError> {
    let options = &StoreOptions { allowed: None, ..options.clone() };
    let name = target.name();
    let (folder, mut keys) = (format!("{}/", target.url()), BTreeSet::new());
    let mut page = list_page(&folder, true, None, options).await?;
    if page.files.is_empty() && page.next.is_none() {
        return Ok(keys);
    }
    settle_region(target, options).await?;
    let (store, prefix) = connect(target, Purpose::Writing, options)?;
    let head = async |key: object_store::Result<Key>| {
        let how = GetOptions { range: Some(GetRange::Bounded(0..HEAD)), ..GetOptions::default() };
        let read = async { store.get_opts(&key?, how).await?.bytes().await };
        match read.await {
            Ok(text) => Ok(Some(text)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::remote(&name, &error)),
        }
    };
    let (_, list) = connect(&beside(target, LIST), Purpose::Writing, options)?;
    let listed = head(Ok(list)).await?.unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let listed: BTreeSet<&str> = listed.lines().collect();
    let mut documents = BTreeMap::new();
    for key in recognizer.documents {
        if let Some(text) = head(child(&prefix, key)).await? {
            documents.insert(*key, text.to_vec());
        }
    }
    loop {
        let files = page.files.iter();
        keys.extend(files.map(|file| file.url.strip_prefix(&folder).unwrap_or(&file.url).to_owned()));
        // A large prefix need not be listed to be refused.
        let is_foreign = documents.is_empty() && listed.is_empty() && !keys.is_empty();
        match page.next.filter(|_| !is_foreign) {
            Some(next) => page = list_page(&folder, true, Some(&next), options).await?,
            None => break,
        }
    }
    let others: BTreeSet<_> = keys.iter().filter(|key| !listed.contains(key.as_str())).cloned().collect();
    let foreign = if others.is_empty() { None } else { (recognizer.foreign)(&others, &documents) };
    if foreign.is_some() || !overwrite {
        return Err(StoreError::Occupied { name, foreign });
    }
    Ok(keys)
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

/// Identity of an output: its number of files, its size, and a digest of the names, sizes and versions of its files. The
/// version is the modification time of a local file, or the entity tag that the store assigned to an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Number of files or objects.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
    digest: String,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.files, self.bytes, self.digest)
    }
}

impl Receipt {
    /// Parses the text that `to_string` returns.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (files, bytes) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { files, bytes, digest: parts.next()?.to_owned() })
    }

    /// Returns the receipt of a local file that is an output by itself.
    pub(crate) fn of_file(found: &fs::Metadata) -> Self {
        let mut parts = Parts::default();
        parts.add_file("", found);
        parts.receipt()
    }

    /// Returns the receipt of a listed object that is an output by itself.
    pub fn of_object(object: &Listed) -> Self {
        let mut parts = Parts::default();
        parts.add_object("", object);
        parts.receipt()
    }
}

/// Files of an output by key, each with its size and an identifier of its content.
#[derive(Clone, Default, Debug)]
pub struct Parts(BTreeMap<String, (u64, String)>);

impl Parts {
    /// Adds a listed object, identified by its entity tag, or else by its modification time.
    pub fn add_object(&mut self, key: &str, object: &Listed) {
        let tag = match (&object.etag, object.modified) {
            (Some(tag), _) => tag.trim_start_matches("W/").trim_matches('"').to_owned(),
            (None, Some(modified)) => format!("modified {modified}"),
            (None, None) => String::new(),
        };
        self.0.insert(key.to_owned(), (object.size.unwrap_or_default(), tag));
    }

    /// Adds a local file, identified by its modification time.
    pub(crate) fn add_file(&mut self, key: &str, found: &fs::Metadata) {
        let time = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = time.map_or(0, |time| time.as_nanos());
        self.0.insert(key.to_owned(), (found.len(), format!("modified {nanoseconds}")));
    }

    /// Returns the receipt of all files together.
    pub fn receipt(&self) -> Receipt {
        let mut hasher = Sha256::new();
        for (key, (size, tag)) in &self.0 {
            hasher.update(format!("{key}\0{size}\0{tag}\n"));
        }
        let bytes = self.0.values().map(|(size, _)| size).sum();
        Receipt { files: self.0.len() as u64, bytes, digest: hex::encode(hasher.finalize()) }
    }
}

/// Returns the receipt of the present content of a path or URL; `None` if nothing exists. With `deep`, covers the
/// objects below a prefix of a bucket. [`StoreOptions::allowed`] does not apply, since an
/// output need not be an allowed input.
///
/// # Errors
/// [`StoreError`] of the store or the file system.
pub async fn receipt(
    target: &str,
    deep: bool,
    options: &StoreOptions,
) -> Result<Option<Receipt>, StoreError> {
    let location = Location::parse(target.trim_end_matches('/'))?;
    let options = &StoreOptions { allowed: None, ..options.clone() };
    match &location {
        Location::Local(path) => {
            let (path, name) = (path.clone(), location.name());
            let read = tokio::task::spawn_blocking(move || {
                let found = local(&path).map_err(StoreError::at(&path.display().to_string()))?;
                Ok(found.map(|parts| parts.receipt()))
            });
            read.await.map_err(|error| StoreError::unavailable(name, error))?
        }
        Location::Bucket { .. } if deep => Ok(below(&location, options).await?.map(|parts| parts.receipt())),
        _ => Ok(look(target, options).await?.map(|found| Receipt::of_object(&found))),
    }
}

/// Looks up the size, entity tag and modification time of a file; `None` if it does not exist. Costs one request, or
/// none for a local file.
///
/// # Errors
/// [`StoreError`] of the store or the file system.
pub async fn look(url: &str, options: &StoreOptions) -> Result<Option<Listed>, StoreError> {
    options.check_allowed(url)?;
    let location = Location::parse(url)?;
    if let Location::Local(path) = &location {
        return match fs::metadata(path) {
            Ok(found) => Ok(Some(Listed::of_metadata(url, &found))),
            Err(error) => nothing(StoreError::io(&location.name(), &error)),
        };
    }
    let answer = match in_region(&location, options, || head(&location, options)).await {
        // An empty file has no first byte.
        Err(Failure::PastEnd(_)) => Ok(Listed { size: Some(0), ..Listed::default() }),
        Err(Failure::NoRanges) => Ok(Listed::default()),
        Err(Failure::Other(error)) => Err(error),
        Ok(found) => Ok(found),
    };
    answer.map(|found| Some(Listed { url: url.to_owned(), ..found })).or_else(nothing)
}

/// Converts "not found" to `None`.
fn nothing<T>(error: StoreError) -> Result<Option<T>, StoreError> {
    match error {
        StoreError::NotFound { .. } => Ok(None),
        error => Err(error),
    }
}

/// Requests the metadata of a file. For web servers, requests the first byte instead, since signed URLs are valid for
/// GET only.
async fn head(location: &Location, options: &StoreOptions) -> Result<Listed, Failure> {
    let link = Link::new(location, options)?;
    let mut how = GetOptions { head: true, ..GetOptions::default() };
    if let Location::Http(_) = location {
        how = GetOptions { range: Some(object_store::GetRange::Bounded(0..1)), ..GetOptions::default() };
    }
    let (meta, _) = link.get(how, &Meter::new(options), |_| Ok(())).await?;
    Ok(Listed::of_object("", &meta))
}

/// Lists all objects below a prefix. Returns `None` if there are none.
async fn below(location: &Location, options: &StoreOptions) -> Result<Option<Parts>, StoreError> {
    let prefix = format!("{}/", location.url());
    let mut parts = Parts::default();
    let mut after = None;
    loop {
        let page = list_page(&prefix, true, after.as_deref(), options).await?;
        for object in &page.files {
            parts.add_object(object.url.strip_prefix(&prefix).unwrap_or(&object.url), object);
        }
        after = page.next;
        if after.is_none() {
            return Ok((!parts.0.is_empty()).then_some(parts));
        }
    }
}

/// Looks up a local file, or all files of a folder. Returns `None` if there is none.
fn local(path: &Path) -> Result<Option<Parts>, io::Error> {
    let found = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        found => found?,
    };
    let mut parts = Parts::default();
    if found.is_dir() {
        add_folder(&mut parts, path, "")?;
        return Ok((!parts.0.is_empty()).then_some(parts));
    }
    parts.add_file("", &found);
    Ok(Some(parts))
}

/// Adds all files of a folder and its subfolders.
fn add_folder(parts: &mut Parts, folder: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            add_folder(parts, &entry.path(), &format!("{key}/"))?;
        } else {
            parts.add_file(&key, &fs::metadata(entry.path())?);
        }
    }
    Ok(())
}
