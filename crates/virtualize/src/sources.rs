//! The files that an open file names: sources of virtual datasets, targets of external links, external raw data files,
//! files of an OME-TIFF. All are opened here, under the same rules, and each is always the same version of itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use virtualize_bytes::{Budget, ReadError, ReadErrorKind};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::Source;

use crate::open::source_of;
use crate::outside::{is_allowed, same};

/// Files that are opened, or read, at the same time.
pub(crate) const PARALLEL: usize = 8;

/// Most files that are kept open.
const OPEN: usize = 64;

/// The files that the file at `own` names.
pub(crate) struct Sources<'a> {
    own: &'a str,
    options: &'a StoreOptions,
    budget: &'a Budget<'a>,
    /// What each was when it was first opened, by url.
    versions: Mutex<BTreeMap<String, Source>>,
    /// Those that are open, the one used last at the end.
    open: Mutex<VecDeque<Arc<Object>>>,
}

/// Why a file was not opened.
#[derive(Clone, Debug)]
pub(crate) enum Unopened {
    /// There is none.
    Missing(String),
    /// It may not or could not be opened.
    Refused(String),
    /// It is no longer what it was.
    Changed(ReadError),
}

impl Unopened {
    /// The reason, where the file is needed.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Missing(why) | Self::Refused(why) => why.clone(),
            Self::Changed(error) => error.to_string(),
        }
    }
}

impl<'a> Sources<'a> {
    pub(crate) fn new(own: &'a str, options: &'a StoreOptions, budget: &'a Budget<'a>) -> Self {
        Self { own, options, budget, versions: Mutex::default(), open: Mutex::default() }
    }

    /// The url of the file that names them.
    pub(crate) fn own(&self) -> &'a str {
        self.own
    }

    /// Memory that all these files may take.
    pub(crate) fn budget(&self) -> &'a Budget<'a> {
        self.budget
    }

    /// Opens a file. It must be what it was when it was opened first.
    pub(crate) async fn open(&self, url: &str) -> Result<Arc<Object>, Unopened> {
        if let Some(object) = self.kept(url) {
            return Ok(object);
        }
        is_allowed(self.own, url).map_err(Unopened::Refused)?;
        let object = virtualize_store::open(url, self.options).await.map_err(|error| match error.kind() {
            ReadErrorKind::NotFound => Unopened::Missing(error.to_string()),
            _ => Unopened::Refused(error.to_string()),
        })?;
        self.hold_to_version(url, &object)?;
        self.keep(Arc::clone(&object));
        Ok(object)
    }

    /// What a file was when it was opened first, which is now if it was not opened before.
    pub(crate) async fn version(&self, url: &str) -> Result<Source, Unopened> {
        match self.known(url) {
            Some(version) => Ok(version),
            None => self.open(url).await.map(|object| source_of(&object)),
        }
    }

    /// Whether all files that were opened are still what they were, as far as can be told without requests: reads of
    /// remote files are checked one by one.
    pub(crate) async fn verify(&self) -> Result<(), ReadError> {
        let urls: Vec<String> = lock(&self.versions).keys().cloned().collect();
        for url in urls.iter().filter(|url| url.starts_with("file:")) {
            match self.kept(url) {
                Some(object) => object.verify()?,
                None => drop(self.open(url).await.map_err(|unopened| changed(url, unopened.why()))?),
            }
        }
        Ok(())
    }

    fn known(&self, url: &str) -> Option<Source> {
        lock(&self.versions).get(url).cloned()
    }

    /// Notes the version of a file that is opened for the first time; compares that of another.
    fn hold_to_version(&self, url: &str, object: &Object) -> Result<(), Unopened> {
        let now = source_of(object);
        match self.known(url) {
            Some(was) if same(&was, &now) => Ok(()),
            Some(_) => Err(Unopened::Changed(changed(
                object.name(),
                "it is not the version that was opened first".into(),
            ))),
            None => {
                self.budget.add_file(now.size);
                lock(&self.versions).insert(url.to_owned(), now);
                Ok(())
            }
        }
    }

    fn kept(&self, url: &str) -> Option<Arc<Object>> {
        let mut open = lock(&self.open);
        let at = open.iter().position(|object| object.url() == url)?;
        let object = open.remove(at)?;
        open.push_back(Arc::clone(&object));
        Some(object)
    }

    fn keep(&self, object: Arc<Object>) {
        let mut open = lock(&self.open);
        if open.len() >= OPEN {
            open.pop_front();
        }
        open.push_back(object);
    }
}

fn changed(name: &str, why: String) -> ReadError {
    ReadError::new(ReadErrorKind::Changed, format!("{name} changed while it was read: {why}"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
    fn a_file_that_was_replaced_is_no_longer_read() {
        let folder = std::env::temp_dir().join(format!("virtualize-sources-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let path = |n: usize| folder.join(format!("{n}.raw"));
        for n in 0..=OPEN {
            std::fs::write(path(n), b"one").unwrap();
        }
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let (budget, own) = (Budget::new(&limits, None), url(&folder.join("own.h5")));
        let sources = Sources::new(&own, &options, &budget);
        for n in 0..=OPEN {
            block_on(sources.open(&url(&path(n)))).unwrap();
        }
        block_on(sources.verify()).unwrap();
        // The first is closed by now.
        std::fs::write(path(0), b"other").unwrap();
        assert!(matches!(block_on(sources.open(&url(&path(0)))), Err(Unopened::Changed(_))));
        let error = block_on(sources.verify()).unwrap_err();
        assert!(error.to_string().contains("changed while it was read"), "{error}");
        assert_eq!(
            block_on(sources.version(&url(&path(0)))).unwrap().size,
            3,
            "the version is that of the first time"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_files_beside_are_opened() {
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let budget = Budget::new(&limits, None);
        let sources = Sources::new("file:///d/a.h5", &options, &budget);
        assert!(matches!(block_on(sources.open("file:///etc/passwd")), Err(Unopened::Refused(_))));
        assert!(matches!(block_on(sources.open("file:///d/nowhere.raw")), Err(Unopened::Missing(_))));
    }
}
