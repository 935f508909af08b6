//! The shared cache: a folder, or a prefix of a bucket. Several services may use it at the same time.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use virtualize::ByteRange;
use virtualize_store::{ObjectVersion, StoreOptions};

use crate::{
    ConfigError, Problem,
    budget::{Budget, Share},
    disk::{DIGEST, Disk},
    encode::{Content, Kept},
};

/// Bytes of an object to read at once.
const PIECE: u64 = 1 << 20;
/// Maximum bytes of an object of the cache: it is uploaded in one request, from memory.
const LARGEST: u64 = 32 << 20;
/// Maximum bytes of a record of a version.
const RECORD: u64 = 64 << 10;
/// Objects that are uploaded concurrently. Further references are not cached.
const UPLOADS: usize = 4;

/// Where the cache is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Folder(PathBuf),
    /// URL of a bucket and prefix, which ends in `/`.
    Bucket(String),
}

impl Place {
    /// Returns the local folder for temporary files; `None` for that of the system.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Bucket(_) => None,
        }
    }
}

/// Parses a path, or the URL of a folder or of a bucket and prefix.
impl FromStr for Place {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("file://") {
            return Ok(Self::Folder(path.into()));
        }
        if !text.contains("://") {
            return Ok(Self::Folder(text.into()));
        }
        let url = virtualize_store::folder_url(text);
        url.map(Self::Bucket).map_err(|error| ConfigError::Prefix { setting: "cache", error })
    }
}

/// The cache of a service.
#[derive(Debug)]
pub(crate) enum Cache {
    Folder(Arc<Disk>),
    Bucket(Box<Bucket>),
}

/// A cache in a bucket. Its objects are named by key, and end with the digest of their content.
#[derive(Debug)]
pub(crate) struct Bucket {
    url: String,
    options: StoreOptions,
    uploads: Arc<Semaphore>,
}

/// A record of a version, and what identifies it when it is replaced.
pub(crate) enum Record {
    Absent,
    File(Vec<u8>),
    Object(Bytes, ObjectVersion),
}

impl Record {
    /// Returns the content.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::File(content) => Some(content),
            Self::Object(content, _) => Some(content),
        }
    }
}

impl Cache {
    /// Opens a cache. `options` are those to access a bucket.
    pub(crate) fn open(
        place: &Place,
        most: u64,
        spool: Budget,
        options: &StoreOptions,
    ) -> Result<Self, ConfigError> {
        Ok(match place {
            Place::Folder(folder) => Self::Folder(Arc::new(Disk::open(folder, most, spool)?)),
            Place::Bucket(url) => Self::Bucket(Box::new(Bucket {
                url: url.clone(),
                options: StoreOptions {
                    allowed: None,
                    small_file: PIECE,
                    cache_bytes: PIECE,
                    ..options.clone()
                },
                uploads: Arc::new(Semaphore::new(UPLOADS)),
            })),
        })
    }

    /// Returns whether the cache is writable. A bucket counts as writable: failures to reach it are logged.
    pub(crate) fn is_well(&self) -> bool {
        match self {
            Self::Folder(disk) => disk.is_well(),
            Self::Bucket(_) => true,
        }
    }

    /// Returns the bytes of the entries of a folder; 0 for a bucket, which is not listed.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Folder(disk) => disk.bytes(),
            Self::Bucket(_) => 0,
        }
    }

    /// Looks up an entry. An entry that cannot be read does not exist.
    pub(crate) async fn find(&self, key: &str, spool: &Budget) -> Result<Option<Content>, Problem> {
        match self {
            Self::Folder(disk) => {
                let (disk, key) = (Arc::clone(disk), key.to_owned());
                let found = tokio::task::spawn_blocking(move || disk.get(&key)).await.ok().flatten();
                let Some(found) = found else { return Ok(None) };
                // An evicted file still occupies the disk until it has been sent.
                let share = spool.take(found.bytes).await?;
                Ok(Some(Content::File(Kept::new(found.file, Some(share)), found.bytes)))
            }
            Self::Bucket(bucket) => bucket.find(key, spool).await,
        }
    }

    /// Stores an entry in a bucket in the background, if a share of the memory is available at once.
    pub(crate) fn upload(&self, key: &str, content: &Content, memory: &Budget) {
        let Self::Bucket(bucket) = self else { return };
        let length = content.length();
        let place = Arc::clone(&bucket.uploads).try_acquire_owned();
        let (true, Ok(place), Some(share)) = (length <= LARGEST, place, memory.try_take(length)) else {
            return;
        };
        let (url, options, content) = (bucket.url_of(key), bucket.options.clone(), content.clone());
        tokio::spawn(async move {
            let _held = (place, share);
            if let Err(error) = put(&url, content, &options).await {
                tracing::warn!("references were not cached: {error}");
            }
        });
    }

    /// Returns the record of a version.
    pub(crate) async fn record(&self, key: &str) -> Result<Record, Problem> {
        match self {
            Self::Folder(disk) => {
                let (disk, key) = (Arc::clone(disk), key.to_owned());
                let record = tokio::task::spawn_blocking(move || disk.record(&key)).await;
                let record = record.map_err(|_| Problem::internal())?;
                Ok(record.map_err(|error| unreachable(&error))?.map_or(Record::Absent, Record::File))
            }
            Self::Bucket(bucket) => {
                let url = bucket.url_of(&format!("shown/{key}"));
                let found = virtualize_store::read_object(&url, RECORD, &bucket.options).await;
                let found = found.map_err(|error| unreachable(&error))?;
                Ok(found.map_or(Record::Absent, |(content, version)| Record::Object(content, version)))
            }
        }
    }

    /// Replaces a record if it is still the one that was read; returns whether it was.
    pub(crate) async fn replace(&self, key: &str, read: Record, record: Vec<u8>) -> Result<bool, Problem> {
        match self {
            Self::Folder(disk) => {
                let (disk, key) = (Arc::clone(disk), key.to_owned());
                let work = move || disk.replace_record(&key, read.content(), &record);
                let replaced = tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())?;
                replaced.map_err(|error| unreachable(&error))
            }
            Self::Bucket(bucket) => {
                let version = match read {
                    Record::Object(_, version) => Some(version),
                    Record::Absent | Record::File(_) => None,
                };
                let url = bucket.url_of(&format!("shown/{key}"));
                let written =
                    virtualize_store::write_object(&url, version, record.into(), &bucket.options).await;
                written.map_err(|error| unreachable(&error))
            }
        }
    }
}

/// Reports that the shared cache does not work. The cause goes to the log only.
fn unreachable(error: &dyn std::error::Error) -> Problem {
    tracing::error!("the shared cache cannot be used: {error}");
    Problem::no_cache()
}

/// Uploads an entry. An object of the same name remains: it has the same content.
async fn put(url: &str, content: Content, options: &StoreOptions) -> Result<(), virtualize::StoreError> {
    let mut bytes = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut content.reader(), &mut bytes).await;
    read.map_err(|error| virtualize::StoreError::Unavailable {
        name: "a temporary file".to_owned(),
        reason: error.to_string(),
    })?;
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    virtualize_store::write_object(url, None, bytes.into(), options).await.map(drop)
}

impl Bucket {
    fn url_of(&self, key: &str) -> String {
        format!("{}{key}", self.url)
    }

    /// Fetches an entry into a temporary file. Removes an object that does not match its digest.
    async fn find(&self, key: &str, spool: &Budget) -> Result<Option<Content>, Problem> {
        let url = self.url_of(key);
        let object = match virtualize_store::open(&url, &self.options).await {
            Ok(object) => object,
            Err(virtualize::StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => {
                tracing::warn!("the cache cannot be read: {error}");
                return Ok(None);
            }
        };
        let Some(length) = object.bytes().checked_sub(DIGEST) else { return Ok(None) };
        let share = spool.take(length).await?;
        let found = self.fetch(&object, length, share).await;
        match found {
            Ok(Some(content)) => Ok(Some(content)),
            Ok(None) => {
                tracing::warn!("an entry of the cache does not match its digest and was removed");
                if let Err(error) = virtualize_store::remove([url.clone()], &self.options).await {
                    tracing::warn!("the cache cannot be written: {error}");
                }
                Ok(None)
            }
            Err(error) => {
                tracing::warn!("the cache cannot be read: {error}");
                Ok(None)
            }
        }
    }

    /// Returns the content of an object; `None` if it does not match its digest.
    async fn fetch(
        &self,
        object: &virtualize::Object,
        length: u64,
        share: Share,
    ) -> Result<Option<Content>, virtualize::StoreError> {
        let failed = |error: std::io::Error| virtualize::StoreError::Unavailable {
            name: "a temporary file".to_owned(),
            reason: error.to_string(),
        };
        let mut file = tempfile::tempfile().map_err(failed)?;
        let (mut digest, mut at) = (Sha256::new(), 0);
        while at < length {
            let piece = object.read_once(ByteRange::new(at, PIECE.min(length.saturating_sub(at)))).await?;
            if piece.is_empty() {
                return Ok(None);
            }
            digest.update(&piece);
            at = at.saturating_add(piece.len() as u64);
            file = written(file, piece).await.map_err(failed)?;
        }
        let expected = object.read_once(ByteRange::new(length, DIGEST)).await?;
        if digest.finalize().as_slice() != &*expected {
            return Ok(None);
        }
        Ok(Some(Content::File(Kept::new(file, Some(share)), length)))
    }
}

/// Appends to a file, on a thread for blocking work.
async fn written(mut file: File, piece: Bytes) -> std::io::Result<File> {
    let work = move || file.write_all(&piece).map(|()| file);
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// Stores a rendering in the cache folder, if the cache is a folder.
pub(crate) fn keep(cache: Option<&Cache>, key: &str, content: &mut (impl Read + Seek)) {
    if let Some(Cache::Folder(disk)) = cache
        && let Err(error) = disk.put(key, content)
    {
        tracing::warn!("references were not cached: {error}");
    }
}
