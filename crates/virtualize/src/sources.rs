//! Opening of the files that others refer to: sources of virtual datasets, targets of external links, raw data files,
//! planes of an OME-TIFF. Only this module decides which of these files may be opened, and whether two openings found
//! the same version.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use virtualize_bytes::{Budget, ByteRange, ReadError, ReadErrorKind, ReadRanges};
use virtualize_store::{Listed, Object, StoreError, StoreOptions, opaque_tag};
use virtualize_zarr::Source;

use crate::error::ArrayError;

/// Number of bytes that [`head`] returns.
const HEAD: u64 = 64 << 10;

/// Number of files that one [`Pool`] keeps open with their cached bytes; of local files, with their descriptors.
const CACHED: usize = 64;

/// Number of remote files beyond which a [`Pool`] forgets those that have no cached bytes.
const OPEN: usize = 4096;

/// Returns the first bytes of a file, which contain the signatures of most formats. The store fetches them anyway.
pub(crate) async fn head(source: &dyn ReadRanges) -> Result<Bytes, ReadError> {
    Ok(source.read_ranges(&[ByteRange::new(0, HEAD)]).await?.pop().unwrap_or_default())
}

/// Returns a file's url and version.
pub(crate) fn source_of(object: &Object) -> Source {
    Source {
        url: object.url().to_owned(),
        etag: object.etag().map(str::to_owned),
        size: object.size(),
        modified: object.modified(),
    }
}

/// Returns the evidence that a file is not the recorded version, one line per member. Members without a recorded value
/// are not compared. Some formats record times in whole seconds, rounded up. Icechunk records a time without a size: the
/// latest at which the file may have been modified.
pub(crate) fn changes(recorded: &Source, now: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let is_now = |etag: &str| now.etag.as_deref().is_some_and(|now| opaque_tag(now) == opaque_tag(etag));
    if let Some(etag) = recorded.etag.as_ref().filter(|etag| !is_now(etag)) {
        found.push(format!("entity tag {}, recorded {etag}", now.etag.as_deref().unwrap_or("none")));
    }
    if let (Some(then), Some(time)) = (recorded.modified, now.modified) {
        let seconds = |time: i64| time.saturating_add(999) / 1000;
        let is_latest = recorded.size == 0 && recorded.etag.is_none();
        let is_same = match then % 1000 {
            0 if is_latest => seconds(time) <= seconds(then),
            0 => seconds(time) == seconds(then),
            _ => time == then,
        };
        if !is_same {
            found.push(format!("modified at {time} ms, recorded {then} ms"));
        }
    }
    if recorded.size != 0 && recorded.size != now.size {
        found.push(format!("{} bytes, recorded {}", now.size, recorded.size));
    }
    found
}

/// Opens a file again and checks that it is the recorded version.
pub(crate) async fn reopen(
    url: &str,
    recorded: Option<&Source>,
    options: &StoreOptions,
) -> Result<Arc<Object>, ArrayError> {
    let etag = recorded.and_then(|recorded| recorded.etag.clone());
    let listed = Listed { etag, ..Listed::of(url) };
    let object = virtualize_store::open_listed(&listed, options).await.map_err(ArrayError::of_store)?;
    is_version(&object, recorded).map(|()| object)
}

/// Checks that a file is the recorded version.
pub(crate) fn is_version(object: &Object, recorded: Option<&Source>) -> Result<(), ArrayError> {
    match recorded.is_none_or(|recorded| changes(recorded, &source_of(object)).is_empty()) {
        true => Ok(()),
        false => Err(ArrayError::Changed { name: object.name().to_owned() }),
    }
}

/// Open files. Only the most recently used ones have cached bytes; a remote file without any costs little memory, and
/// reading it takes no request to open it again.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    files: HashMap<String, Arc<Object>>,
    /// Urls of the files that may have cached bytes, the least recently used first.
    cached: VecDeque<String>,
}

impl Pool {
    /// Returns an open file.
    pub(crate) fn get(&self, url: &str) -> Option<Arc<Object>> {
        let mut open = lock(&self.0);
        let object = open.files.get(url).cloned()?;
        open.used(url);
        Some(object)
    }

    /// Keeps a file open.
    pub(crate) fn keep(&self, url: &str, object: &Arc<Object>) {
        let mut open = lock(&self.0);
        open.files.insert(url.to_owned(), Arc::clone(object));
        open.used(url);
    }
}

impl Open {
    /// Records that a file is used. If there are too many, the least recently used one loses its cached bytes, or is
    /// closed.
    fn used(&mut self, url: &str) {
        self.cached.retain(|known| known != url);
        self.cached.push_back(url.to_owned());
        if self.cached.len() <= CACHED {
            return;
        }
        let Some(oldest) = self.cached.pop_front() else { return };
        let has_room = self.files.len() <= OPEN;
        if !self.files.get(&oldest).is_some_and(|object| has_room && object.drop_cached()) {
            self.files.remove(&oldest);
        }
    }
}

/// The files that the file at `own` refers to.
pub(crate) struct Sources<'a> {
    /// Url of the file that refers to the others.
    pub(crate) own: &'a str,
    options: &'a StoreOptions,
    /// The memory that all these files may take.
    pub(crate) budget: &'a Budget<'a>,
    /// Version of each file when it was first opened, by url; `None` if it does not exist.
    versions: Mutex<BTreeMap<String, Option<Source>>>,
    /// Urls of files whose servers send them only as a whole, with their names.
    whole: Mutex<BTreeMap<String, String>>,
    pool: Pool,
}

/// Reason why a file was not opened.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unopened {
    /// It does not exist.
    #[error("{0}")]
    Missing(StoreError),
    /// It is not the version that was opened first.
    #[error("{0}")]
    Changed(ReadError),
    /// It may not be opened, or could not be.
    #[error("{0}")]
    Failed(String),
}

impl<'a> Sources<'a> {
    pub(crate) fn new(own: &'a str, options: &'a StoreOptions, budget: &'a Budget<'a>) -> Self {
        Self {
            own,
            options,
            budget,
            versions: Mutex::default(),
            whole: Mutex::default(),
            pool: Pool::default(),
        }
    }

    /// Returns the urls and names of the files of which readers cannot read ranges.
    pub(crate) fn whole(&self) -> BTreeMap<String, String> {
        lock(&self.whole).clone()
    }

    /// Records a file of which readers may not be able to read ranges.
    pub(crate) fn note(&self, object: &Object) {
        if !object.supports_ranges() {
            lock(&self.whole).insert(object.url().to_owned(), object.name().to_owned());
        }
    }

    /// Opens a file and checks that it is the version that was opened first.
    pub(crate) async fn open(&self, url: &str) -> Result<Arc<Object>, Unopened> {
        if let Some(object) = self.pool.get(url) {
            return Ok(object);
        }
        check_allowed(self.own, url)?;
        let object = virtualize_store::open(url, self.options).await.map_err(|error| match error.kind() {
            ReadErrorKind::NotFound => {
                lock(&self.versions).entry(url.to_owned()).or_insert(None);
                Unopened::Missing(error)
            }
            _ => Unopened::Failed(error.to_string()),
        })?;
        self.check_version(url, &object)?;
        self.note(&object);
        self.pool.keep(url, &object);
        Ok(object)
    }

    /// Runs futures concurrently, as many as the store may have requests, and returns their results in the given order.
    pub(crate) fn several<F: Future>(
        &self,
        futures: impl IntoIterator<Item = F>,
    ) -> impl Stream<Item = F::Output> {
        stream::iter(futures).buffered(self.options.concurrency.max(1))
    }

    /// Returns the version of each file, or the reason why it was not opened. Several files are opened concurrently.
    ///
    /// # Errors
    /// A file changed since it was first opened.
    pub(crate) async fn versions(&self, urls: Vec<String>) -> Result<Vec<Result<Source, String>>, ReadError> {
        let version = |url: String| async move {
            match self.known(&url) {
                Some(version) => Ok(version),
                None => self.open(&url).await.map(|object| source_of(&object)),
            }
        };
        let mut opened = Box::pin(self.several(urls.into_iter().map(version)));
        let mut versions = Vec::new();
        while let Some(version) = opened.next().await {
            versions.push(match version {
                Ok(version) => Ok(version),
                Err(Unopened::Changed(error)) => return Err(error),
                Err(unopened) => Err(unopened.to_string()),
            });
        }
        Ok(versions)
    }

    /// Checks that no file changed since it was first opened, as far as this takes no requests. Reads of remote files
    /// are checked one by one.
    pub(crate) async fn verify(&self) -> Result<(), ReadError> {
        let urls: Vec<String> = lock(&self.versions)
            .iter()
            .filter(|(url, version)| version.is_some() && url.starts_with("file:"))
            .map(|(url, _)| url.clone())
            .collect();
        for url in &urls {
            match self.pool.get(url) {
                Some(object) => object.verify()?,
                None => drop(self.open(url).await.map_err(|unopened| changed(url, &unopened.to_string()))?),
            }
        }
        Ok(())
    }

    /// Returns the version of each file that was opened, by url; `None` for those that do not exist.
    pub(crate) fn related(&self) -> BTreeMap<String, Option<Source>> {
        lock(&self.versions).clone()
    }

    fn known(&self, url: &str) -> Option<Source> {
        lock(&self.versions).get(url).cloned().flatten()
    }

    /// Records the version of a file that is opened for the first time, and compares that of any other.
    fn check_version(&self, url: &str, object: &Object) -> Result<(), Unopened> {
        let now = source_of(object);
        match self.known(url) {
            Some(was) if changes(&was, &now).is_empty() => Ok(()),
            Some(_) => {
                let why = "it is not the version that was opened first";
                Err(Unopened::Changed(changed(object.name(), why)))
            }
            None => {
                self.budget.add_file(now.size);
                lock(&self.versions).insert(url.to_owned(), Some(now));
                Ok(())
            }
        }
    }
}

/// Checks that a file may be opened: it must be in the folder of the file that refers to it, or below.
fn check_allowed(own: &str, url: &str) -> Result<(), Unopened> {
    let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_http = own.starts_with("http://") || own.starts_with("https://");
    let below = url.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    let is_plain = |rest: &str| {
        rest.split('/').all(|step| !matches!(step, "" | "." | ".."))
            && !rest.contains('\\')
            && !(is_http && rest.contains(['%', '?', '#']))
    };
    if is_http && own.contains('?') {
        let text = "cannot resolve relative file names against a URL with a query";
        return Err(Unopened::Failed(text.to_owned()));
    }
    if below.is_some_and(is_plain) {
        return Ok(());
    }
    Err(Unopened::Failed(format!("{url} is outside the folder of the file")))
}

fn changed(name: &str, why: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Changed, format!("{name} changed while it was read: {why}"))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use virtualize_bytes::Limits;

    use super::*;

    fn url(path: &std::path::Path) -> String {
        format!("file://{}", path.display())
    }

    #[test]
    fn replaced_files_are_not_read() {
        let folder = std::env::temp_dir().join(format!("virtualize-sources-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let path = |n: usize| folder.join(format!("{n}.raw"));
        for n in 0..=CACHED {
            std::fs::write(path(n), b"one").unwrap();
        }
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let (budget, own) = (Budget::new(&limits, None), url(&folder.join("own.h5")));
        let sources = Sources::new(&own, &options, &budget);
        for n in 0..=CACHED {
            block_on(sources.open(&url(&path(n)))).unwrap();
        }
        block_on(sources.verify()).unwrap();
        // The first file has been closed by now.
        std::fs::write(path(0), b"other").unwrap();
        assert!(matches!(block_on(sources.open(&url(&path(0)))), Err(Unopened::Changed(_))));
        let error = block_on(sources.verify()).unwrap_err();
        assert!(error.to_string().contains("changed while it was read"), "{error}");
        let versions = block_on(sources.versions(vec![url(&path(0))])).unwrap();
        assert_eq!(versions[0].as_ref().unwrap().size, 3, "the version is that of the first opening");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_files_in_or_below_the_folder_are_opened() {
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let budget = Budget::new(&limits, None);
        let sources = Sources::new("file:///d/a.h5", &options, &budget);
        assert!(matches!(block_on(sources.open("file:///etc/passwd")), Err(Unopened::Failed(_))));
        assert!(matches!(block_on(sources.open("file:///d/nowhere.raw")), Err(Unopened::Missing(_))));
    }

    #[test]
    fn only_recorded_members_are_compared() {
        let now = Source { etag: Some("a".into()), size: 3, modified: Some(1_500), ..Source::default() };
        assert!(changes(&Source::default(), &now).is_empty());
        assert!(changes(&Source { modified: Some(2_000), ..now.clone() }, &now).is_empty(), "whole seconds");
        assert_eq!(changes(&Source { modified: Some(1_499), ..now.clone() }, &now).len(), 1);
        assert_eq!(changes(&Source { modified: Some(9_000), ..now.clone() }, &now).len(), 1);
        let latest = |modified| Source { modified: Some(modified), ..Source::default() };
        assert!(changes(&latest(9_000), &now).is_empty(), "Icechunk");
        assert_eq!(changes(&latest(1_000), &now).len(), 1);
        assert_eq!(changes(&Source { etag: Some("b".into()), size: 4, ..now.clone() }, &now).len(), 2);
    }

    #[test]
    fn files_in_the_folder_and_below_are_allowed() {
        for (own, url) in [
            ("file:///d/a.h5", "file:///d/b.raw"),
            ("file:///d/a.h5", "file:///d/x/b.raw"),
            ("s3://bucket/a.h5", "s3://bucket/100%.raw"),
            ("https://host/d/a.h5", "https://host/d/b.raw"),
        ] {
            assert!(check_allowed(own, url).is_ok(), "{url}");
        }
    }

    #[test]
    fn all_others_are_not() {
        for (own, url) in [
            ("file:///d/a.h5", "file:///d/../etc/passwd"),
            ("file:///d/a.h5", "file:////etc/passwd"),
            ("file:///d/a.h5", "file:///dd/b.raw"),
            ("https://host/a.h5", "file:////etc/passwd"),
            ("https://host/d/a.h5", "https://host/d/%2e%2e/b.raw"),
            ("https://host/d/a.h5?sig=1", "https://host/d/b.raw"),
            ("s3://bucket/d/a.h5", "s3://bucket/d/../b.raw"),
        ] {
            assert!(check_allowed(own, url).is_err(), "{url}");
        }
    }
}
