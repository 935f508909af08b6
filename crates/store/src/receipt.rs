use std::{collections::BTreeMap, fmt, fs, io, path::Path, time::UNIX_EPOCH};

use object_store::GetOptions;
use sha2::{Digest as _, Sha256};

use crate::{
    Listed, StoreError, StoreOptions,
    link::{Failure, Link},
    list_page,
    location::Location,
    meter::Meter,
    region,
};

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
                let found =
                    local(&path).map_err(|error| StoreError::io(&path.display().to_string(), &error))?;
                Ok(found.map(|parts| parts.receipt()))
            });
            let failed =
                |error: tokio::task::JoinError| StoreError::Unavailable { name, reason: error.to_string() };
            read.await.map_err(failed)?
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
    if let Some(allowed) = &options.allowed {
        allowed.check(url)?;
    }
    let location = Location::parse(url)?;
    if let Location::Local(path) = &location {
        return match fs::metadata(path) {
            Ok(found) => Ok(Some(Listed::of_metadata(url, &found))),
            Err(error) => nothing(StoreError::io(&location.name(), &error)),
        };
    }
    let answer = match region::following(&location, options, || head(&location, options)).await {
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
    Ok(Listed {
        size: Some(meta.size),
        modified: Some(meta.last_modified.timestamp_millis()).filter(|time| *time > 0),
        etag: meta.e_tag,
        ..Listed::default()
    })
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
