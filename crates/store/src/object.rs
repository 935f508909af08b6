use std::{
    fs::{File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use object_store::ObjectMeta;
use virtualize_bytes::{BoxFuture, ByteRange, MemorySource, ReadError, ReadRanges};

use crate::{
    Allowed, Listed, Stats, StoreError, StoreOptions,
    list::milliseconds,
    location::Location,
    meter::Meter,
    pages::{self, pause, slice},
    remote::{self, Opened, Remote},
};

/// An open file: its metadata when it was opened, and access to its bytes by ranges.
#[derive(Debug)]
pub struct Object {
    location: Option<Location>,
    url: String,
    name: String,
    etag: Option<String>,
    modified: Option<i64>,
    content: Content,
    meter: Arc<Meter>,
}

#[derive(Debug)]
enum Content {
    Local(LocalFile),
    Remote(Arc<Remote>),
    Memory(MemorySource),
}

/// Opens a path or URL. A local file costs no request; any other file costs one, which also fetches its first bytes.
pub async fn open(location: &str, options: &StoreOptions) -> Result<Arc<Object>, StoreError> {
    open_listed(&Listed::of(location), options).await
}

/// Opens a listed file, as [`open`] does. Fails with [`StoreError::Changed`] if the file differs from its listing. The
/// one request fetches a file of at most [`StoreOptions::small_file`] bytes whole.
pub async fn open_listed(listed: &Listed, options: &StoreOptions) -> Result<Arc<Object>, StoreError> {
    options.check_allowed(&listed.url)?;
    let location = match &options.through {
        Some(_) => Location::Foreign(listed.url.clone()),
        None => Location::parse(&listed.url)?,
    };
    location.check_text()?;
    if let Some(allowed) = &options.allowed {
        allowed.check_location(&location)?;
    }
    let meter = Arc::new(Meter::new(options));
    if !matches!(location, Location::Local(_)) {
        if options.through.is_none() && tokio::runtime::Handle::try_current().is_err() {
            let reason = "a file with a URL needs the async runtime tokio: call this within #[tokio::main]";
            return Err(StoreError::location(location.name(), reason));
        }
        meter.level();
    }
    let (content, etag, modified) = match &location {
        Location::Local(path) => {
            let file = LocalFile::open(path.clone(), options.allowed.as_ref())?;
            let modified = file.modified.and_then(milliseconds);
            let found = Listed { size: Some(file.size), modified, ..Listed::default() };
            listed.compare(&location.name(), &found)?;
            (Content::Local(file), None, modified)
        }
        _ => match remote::open(&location, listed, options, &meter).await? {
            Opened::Ranges(remote) => {
                let (etag, modified) = (remote.meta().e_tag.clone(), modified(remote.meta()));
                (Content::Remote(remote), etag, modified)
            }
            Opened::Whole(bytes, meta) => {
                let modified = modified(&meta);
                (Content::Memory(MemorySource(bytes)), meta.e_tag, modified)
            }
        },
    };
    let (url, name) = (location.url(), location.name());
    Ok(Arc::new(Object { location: Some(location), url, name, etag, modified, content, meter }))
}

/// Returns the modification time in milliseconds, rounded up as [`crate::milliseconds`] does, if it is known: `object_store`
/// reports 1970 for servers that send none.
fn modified(meta: &ObjectMeta) -> Option<i64> {
    let since_1970 = u64::try_from(meta.last_modified.timestamp_micros()).ok()?.div_ceil(1000);
    i64::try_from(since_1970).ok().filter(|time| *time > 0)
}

impl Object {
    /// Creates an in-memory file with a URL of its own.
    pub fn in_memory(url: impl Into<String>, bytes: impl Into<Bytes>) -> Arc<Self> {
        let url = url.into();
        let content = Content::Memory(MemorySource(bytes.into()));
        let name = url.clone();
        let meter = Arc::<Meter>::default();
        Arc::new(Self { location: None, url, name, etag: None, modified: None, content, meter })
    }

    /// Returns the absolute URL that readers open.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the name for messages: a path, or a URL without its query.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.size()
    }

    /// Returns the entity tag when the file was opened.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Returns the modification time when the file was opened, in milliseconds since 1970-01-01T00:00:00Z.
    pub fn modified(&self) -> Option<i64> {
        self.modified
    }

    /// Returns an identifier of this version of the file: for a local file, all that the file system records of it;
    /// else the entity tag, or else size and time. `None` if none of these is known.
    pub fn stamp(&self) -> Option<String> {
        match (&self.content, &self.etag, self.modified) {
            (Content::Local(file), ..) => file.stamp(),
            (_, Some(etag), _) => Some(format!("{etag} {}", self.size())),
            (_, None, Some(modified)) => Some(format!("{modified} {}", self.size())),
            (_, None, None) => None,
        }
    }

    /// Reads a range, which may be large, with one request that bypasses the cache (unless all of the range is cached).
    ///
    /// # Errors
    /// [`StoreError`] of the store; [`StoreError::Changed`] if the file is no longer the one that was opened.
    pub async fn read_once(&self, range: ByteRange) -> Result<Bytes, StoreError> {
        match &self.content {
            Content::Local(file) => Ok(file.read_ranges(&[range], &self.meter)?.pop().unwrap_or_default()),
            Content::Remote(remote) => remote.read_once(range).await,
            Content::Memory(memory) => Ok(slice(&memory.0, range.start, range.length)),
        }
    }

    /// Reads bytes of a local file, or of one in memory, into a buffer on the calling thread, and returns their number,
    /// which is smaller at the end of the file. `None` for other files.
    ///
    /// # Errors
    /// As [`Object::read_once`].
    pub fn read_now(&self, start: u64, buffer: &mut [u8]) -> Option<Result<usize, StoreError>> {
        match &self.content {
            Content::Local(file) => Some(file.read_into(start, buffer, &self.meter)),
            Content::Remote(_) => None,
            Content::Memory(memory) => {
                let range = ByteRange::new(start, buffer.len() as u64).clamp_to(memory.size());
                let bytes = slice(&memory.0, range.start, range.length);
                buffer.get_mut(..bytes.len())?.copy_from_slice(&bytes);
                Some(Ok(bytes.len()))
            }
        }
    }

    /// Returns whether [`Object::read_now`] reads the file.
    pub fn is_local(&self) -> bool {
        !matches!(self.content, Content::Remote(_))
    }

    /// Returns whether readers can read parts of the file: `false` if its server sends it only as a whole.
    pub fn supports_ranges(&self) -> bool {
        match &self.content {
            Content::Memory(memory) => self.location.is_none() || memory.size() == 0,
            Content::Local(_) | Content::Remote(_) => true,
        }
    }

    /// Drops the cached bytes of a remote file, and returns whether this left little in memory: `false` for a local file,
    /// which has a descriptor, and for one that was fetched whole.
    pub fn drop_cached(&self) -> bool {
        let Content::Remote(remote) = &self.content else { return false };
        remote.drop_cached();
        true
    }

    /// Returns the requests, bytes and time spent on reads so far.
    pub fn stats(&self) -> Stats {
        self.meter.stats()
    }

    /// Checks, without a request, that the file is still the one that was opened. A local path is looked up again;
    /// remote reads are checked one by one.
    pub fn verify(&self) -> Result<(), StoreError> {
        let Content::Local(file) = &self.content else { return Ok(()) };
        file.unchanged(&std::fs::metadata(&file.path).map_err(|error| file.failed(error))?)
    }

    /// Returns the path of a local file; `None` for others.
    pub fn path(&self) -> Option<&Path> {
        match &self.location {
            Some(Location::Local(path)) => Some(path),
            _ => None,
        }
    }

    async fn read(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, ReadError> {
        match &self.content {
            Content::Local(file) => {
                pause().await;
                let start = Instant::now();
                let parts = file.read_ranges(ranges, &self.meter)?;
                self.meter.waited(start);
                Ok(parts)
            }
            Content::Remote(remote) => Ok(remote.read_ranges(ranges).await?),
            Content::Memory(memory) => memory.read_ranges(ranges).await,
        }
    }
}

impl ReadRanges for Object {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        Box::pin(self.read(ranges))
    }

    fn will_read(&self, ranges: &[ByteRange]) {
        if let Content::Remote(remote) = &self.content {
            remote.announce(ranges, true);
        }
    }

    fn may_read(&self, ranges: &[ByteRange]) {
        if let Content::Remote(remote) = &self.content {
            remote.announce(ranges, false);
        }
    }

    fn size(&self) -> u64 {
        match &self.content {
            Content::Local(file) => file.size,
            Content::Remote(remote) => remote.meta().size,
            Content::Memory(memory) => memory.size(),
        }
    }
    fn is_local(&self) -> bool {
        Self::is_local(self)
    }
}

/// Maximum gap in bytes across which two reads are merged.
const GAP: u64 = 4 << 10;
/// Maximum length in bytes of a merged read.
const LONGEST: u64 = 4 << 20;

/// A file on a local disk, read synchronously on the calling thread.
#[derive(Debug)]
struct LocalFile {
    file: File,
    path: PathBuf,
    size: u64,
    modified: Option<SystemTime>,
}

impl LocalFile {
    /// Opens a regular file; checks its real path if only some prefixes are allowed.
    fn open(path: PathBuf, allowed: Option<&Allowed>) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let found = std::fs::metadata(&path).map_err(StoreError::at(&name))?;
        if let Some(what) = not_a_file(&found) {
            return Err(StoreError::NotAFile { name, what });
        }
        let file = File::open(&path).map_err(StoreError::at(&name))?;
        if let Some(allowed) = allowed {
            allowed.check_file(&file, &path)?;
        }
        let opened = file.metadata().map_err(StoreError::at(&name))?;
        Ok(Self { file, path, size: opened.len(), modified: opened.modified().ok() })
    }

    /// Returns an identifier of this version of the file.
    fn stamp(&self) -> Option<String> {
        let found = self.file.metadata().ok()?;
        let modified = self.modified?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        #[cfg(unix)]
        let more = {
            use std::os::unix::fs::MetadataExt;
            format!("{}-{}-{}-{}", found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
        };
        #[cfg(not(unix))]
        let more = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        Some(format!("{}-{modified}-{more}", self.size))
    }

    /// Reads bytes into a buffer, and returns their number, which is smaller at the end of the file. Fails if the file
    /// changed since it was opened.
    fn read_into(&self, start: u64, buffer: &mut [u8], meter: &Meter) -> Result<usize, StoreError> {
        let range = ByteRange::new(start, buffer.len() as u64).clamp_to(self.size);
        let length = usize::try_from(range.length).unwrap_or(usize::MAX).min(buffer.len());
        self.read_exact(buffer.get_mut(..length).unwrap_or_default(), range.start, meter)?;
        self.unchanged(&self.file.metadata().map_err(|error| self.failed(error))?)?;
        Ok(length)
    }

    /// Reads ranges, merging neighbours; fails if the file changed since it was opened.
    fn read_ranges(&self, ranges: &[ByteRange], meter: &Meter) -> Result<Vec<Bytes>, StoreError> {
        let clamped: Vec<_> = ranges.iter().map(|range| range.clamp_to(self.size)).collect();
        let plan = pages::merge(&clamped, GAP, LONGEST);
        let spans: Vec<Bytes> =
            plan.spans.iter().map(|span| self.read(*span, meter)).collect::<Result<_, _>>()?;
        self.unchanged(&self.file.metadata().map_err(|error| self.failed(error))?)?;
        let part = |(range, &at): (&ByteRange, &usize)| match (plan.spans.get(at), spans.get(at)) {
            (Some(span), Some(bytes)) => slice(bytes, range.start - span.start, range.length),
            _ => Bytes::new(),
        };
        Ok(clamped.iter().zip(&plan.span_of).map(part).collect())
    }

    /// Reads a single range.
    fn read(&self, range: ByteRange, meter: &Meter) -> Result<Bytes, StoreError> {
        let Ok(length) = usize::try_from(range.length) else {
            return Err(self.failed(io::ErrorKind::OutOfMemory.into()));
        };
        if length == 0 {
            return Ok(Bytes::new());
        }
        let mut buffer = vec![0; length];
        self.read_exact(&mut buffer, range.start, meter)?;
        Ok(buffer.into())
    }

    /// Fills a buffer.
    fn read_exact(&self, buffer: &mut [u8], start: u64, meter: &Meter) -> Result<(), StoreError> {
        match read_exact_at(&self.file, buffer, start) {
            Ok(()) => {
                meter.request(buffer.len() as u64);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.changed("it became shorter"))
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Compares size and modification time with those of the opened file.
    fn unchanged(&self, now: &Metadata) -> Result<(), StoreError> {
        if now.len() != self.size {
            return Err(self.changed(&format!("{} bytes, expected {}", now.len(), self.size)));
        }
        if now.modified().ok() != self.modified {
            return Err(self.changed("its modification time differs"));
        }
        Ok(())
    }

    fn changed(&self, reason: &str) -> StoreError {
        StoreError::Changed { name: self.path.display().to_string(), reason: reason.to_owned() }
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::at(&self.path.display().to_string())(error)
    }
}

/// Returns the kind of a file that is not a regular one; `None` for a regular file.
pub(crate) fn not_a_file(found: &Metadata) -> Option<&'static str> {
    match found {
        found if found.is_file() => None,
        found if found.is_dir() => Some("a directory"),
        _ => Some("a pipe, socket or device"),
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.seek_read(rest, offset.saturating_add(done as u64))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}
