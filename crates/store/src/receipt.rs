use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

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

/// What an output is: how many files and bytes it has, and a digest by which it is known again. Of local files it is a
/// digest of their content; of objects, of the entity tags that their store gave them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Files or objects.
    pub files: u64,
    /// Bytes of all together.
    pub bytes: u64,
    digest: String,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.files, self.bytes, self.digest)
    }
}

impl Receipt {
    /// Reads what `to_string` gave.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (files, bytes) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { files, bytes, digest: parts.next()?.to_owned() })
    }

    /// That of an object which is an output of its own, as a listing has it.
    pub fn of_object(object: &Listed) -> Self {
        let mut parts = Parts::default();
        parts.add_object("", object);
        parts.receipt()
    }
}

/// Passes bytes on, and knows the receipt of a file that has them.
pub struct Receipted<W> {
    out: W,
    size: u64,
    hasher: Sha256,
}

impl<W: Write> Receipted<W> {
    /// Passes bytes on to `out`.
    pub fn new(out: W) -> Self {
        Self { out, size: 0, hasher: Sha256::new() }
    }

    /// That of what was written.
    pub fn receipt(self) -> Receipt {
        let mut parts = Parts::default();
        parts.add_content("", self.size, &self.hasher.finalize());
        parts.receipt()
    }
}

impl<W: Write> Write for Receipted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(bytes.get(..count).unwrap_or_default());
        self.size = self.size.saturating_add(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Files of an output by their keys: sizes, and what tells their content.
#[derive(Default)]
pub struct Parts(BTreeMap<String, (u64, String)>);

impl Parts {
    /// An object as a listing has it.
    pub fn add_object(&mut self, key: &str, object: &Listed) {
        let tag = match (&object.etag, object.modified) {
            (Some(tag), _) => tag.trim_start_matches("W/").trim_matches('"').to_owned(),
            (None, Some(modified)) => format!("modified {modified}"),
            (None, None) => String::new(),
        };
        self.0.insert(key.to_owned(), (object.size.unwrap_or_default(), tag));
    }

    pub(crate) fn add_content(&mut self, key: &str, size: u64, digest: &[u8]) {
        self.0.insert(key.to_owned(), (size, hex::encode(digest)));
    }

    /// What they are together.
    pub fn receipt(&self) -> Receipt {
        let mut hasher = Sha256::new();
        for (key, (size, tag)) in &self.0 {
            hasher.update(format!("{key}\0{size}\0{tag}\n"));
        }
        let bytes = self.0.values().map(|(size, _)| size).sum();
        Receipt { files: self.0.len() as u64, bytes, digest: hex::encode(hasher.finalize()) }
    }
}

/// Says what is at a path or url now, with `deep` below a prefix of a bucket; `None` where there is nothing. Local files
/// are read whole. An output need not be among what may be opened.
///
/// # Errors
/// What a store can say.
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
                local(&path).map_err(|error| StoreError::io(&path.display().to_string(), &error))
            });
            let failed =
                |error: tokio::task::JoinError| StoreError::Unavailable { name, reason: error.to_string() };
            read.await.map_err(failed)?
        }
        Location::Bucket { .. } if deep => below(&location, options).await,
        _ => Ok(look(target, options).await?.map(|found| Receipt::of_object(&found))),
    }
}

/// What a store says of a file now; `None` where there is none. Costs one request, of a local file none.
///
/// # Errors
/// What a store can say.
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
    let mut answer = head(&location, options).await;
    if let Err(error) = &answer
        && region::learned(&location, error, options)
    {
        answer = head(&location, options).await;
    }
    answer.map(|found| Some(Listed { url: url.to_owned(), ..found })).or_else(nothing)
}

fn nothing<T>(error: StoreError) -> Result<Option<T>, StoreError> {
    match error {
        StoreError::NotFound { .. } => Ok(None),
        error => Err(error),
    }
}

/// Signed urls of the web are good for GET alone: of these the first byte is asked for.
async fn head(location: &Location, options: &StoreOptions) -> Result<Listed, StoreError> {
    let link = Link::new(location, options)?;
    let mut how = GetOptions { head: true, ..GetOptions::default() };
    if let Location::Http(_) = location {
        how = GetOptions { range: Some(object_store::GetRange::Bounded(0..1)), ..GetOptions::default() };
    }
    match link.get(how, &Meter::default(), |_| Ok(())).await {
        Ok((meta, _)) => Ok(Listed {
            size: Some(meta.size),
            modified: Some(meta.last_modified.timestamp_millis()).filter(|time| *time > 0),
            etag: meta.e_tag,
            ..Listed::default()
        }),
        // An empty file has no first byte.
        Err(Failure::PastEnd(_)) => Ok(Listed { size: Some(0), ..Listed::default() }),
        Err(Failure::NoRanges) => Ok(Listed::default()),
        Err(Failure::Other(error)) => Err(error),
    }
}

async fn below(location: &Location, options: &StoreOptions) -> Result<Option<Receipt>, StoreError> {
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
            return Ok((!parts.0.is_empty()).then(|| parts.receipt()));
        }
    }
}

fn local(path: &Path) -> Result<Option<Receipt>, io::Error> {
    let found = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        found => found?,
    };
    let mut parts = Parts::default();
    if found.is_dir() {
        add_folder(&mut parts, path, "")?;
        return Ok((!parts.0.is_empty()).then(|| parts.receipt()));
    }
    let (size, digest) = content(&mut File::open(path)?)?;
    parts.add_content("", size, &digest);
    Ok(Some(parts.receipt()))
}

fn add_folder(parts: &mut Parts, folder: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            add_folder(parts, &entry.path(), &format!("{key}/"))?;
        } else {
            let (size, digest) = content(&mut File::open(entry.path())?)?;
            parts.add_content(&key, size, &digest);
        }
    }
    Ok(())
}

/// Size and SHA-256 of what can be read.
pub(crate) fn content(file: &mut impl Read) -> io::Result<(u64, Vec<u8>)> {
    let (mut size, mut hasher, mut buffer) = (0_u64, Sha256::new(), vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((size, hasher.finalize().to_vec()));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        size = size.saturating_add(count as u64);
    }
}
