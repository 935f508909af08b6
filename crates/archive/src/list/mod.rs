//! Which files: patterns, folders, single files, lists and STAC catalogues become [`Item`]s, in pages, so that memory does
//! not grow with the archive.

mod document;
mod error;
mod filter;
mod lines;
mod pattern;
mod stac;
mod walk;

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, stream::BoxStream};
use virtualize_store::{Listed, Object, StoreError, StoreOptions, open_listed};

use self::filter::Sieve;
pub use self::{
    error::ListError,
    filter::{Filter, parse_time},
    stac::Assets,
};
use crate::Item;

/// Something that names files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A path or url of a file; a folder, or the start of keys up to a `/`; or a pattern, see [`list`].
    Files(String),
    /// A file of lines, or `-` for standard input, see [`list`].
    List(String),
    /// A STAC item, item collection, collection or catalogue.
    Stac(String),
}

impl<T: Into<String>> From<T> for Input {
    fn from(files: T) -> Self {
        Self::Files(files.into())
    }
}

/// How to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// How stores are reached.
    pub store: StoreOptions,
    /// Which assets of STAC items are files to read.
    pub assets: Assets,
    /// Files that are named, and are not there, are handed out too: they fail where they are opened, and end no listing.
    pub absent: bool,
}

/// What came up while listing; complete when the stream has ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Files handed out.
    pub listed: u64,
    /// Files that did not pass the filter.
    pub filtered: u64,
    /// Files that were there already, by their urls; they are handed out once.
    pub duplicates: Few,
    /// STAC items without a wanted asset.
    pub without_asset: Few,
}

/// How many there are, and the first of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Few {
    /// How many.
    pub count: u64,
    /// At most three.
    pub first: Vec<String>,
}

impl Few {
    pub(crate) fn add(&mut self, name: &str) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < 3 {
            self.first.push(name.to_owned());
        }
    }
}

impl Tally {
    /// What the user should know, a line each.
    pub fn notes(&self) -> Vec<String> {
        let note = |few: &Few, what: &str| {
            (few.count > 0).then(|| format!("{} {what}, such as {}", few.count, few.first.join(", ")))
        };
        let notes = [
            note(&self.duplicates, "files were named more than once and are taken once"),
            note(&self.without_asset, "STAC items have none of the wanted assets"),
        ];
        notes.into_iter().flatten().collect()
    }
}

/// What an input hands out.
pub(crate) enum Found {
    /// A file.
    File(Item),
    /// A STAC item that has no asset to read.
    NoAsset(String),
}

/// The files of one input.
pub(crate) type Files = BoxStream<'static, Result<Found, ListError>>;

/// Files, one after the other; a stream of items that ends after its first error.
pub struct Listing {
    inputs: VecDeque<Input>,
    options: Arc<ListOptions>,
    sieve: Sieve,
    current: Option<(String, u64, Files)>,
    seen: Seen,
    tally: Tally,
    failed: bool,
}

/// Lists files in a fixed order: inputs as given, each sorted by url but for lists and catalogues, which keep their own
/// order. A file that comes twice is handed out once.
///
/// - Patterns have `*` and `?` (within a name), `[a-z]`, `[!a]`, `{a,b}`, and `**` for any number of folders; what stands
///   for itself is written in brackets: `[*]`. Keys are listed from the longest start without these, and level by level
///   where that saves requests.
/// - Folders, and starts of keys that end in `/`, give all files below. Links to folders are followed where a pattern names
///   them, but not below `**` or a folder.
/// - A list has a path or url a line; empty lines and those that start with `#` are skipped. Lines that start with `{` are
///   JSON objects with `url`, and, where known, `size`, `etag` and `modified` (text of RFC 3339, or milliseconds since 1970);
///   other members are kept as properties. Paths start from the working directory, in remote lists from where the list lies.
///
/// An input without files is an error, which says what lies near it.
///
/// ```
/// # futures::executor::block_on(async {
/// use futures::TryStreamExt;
/// use virtualize_archive::list::{Filter, Input, ListOptions, list};
///
/// let filter = Filter { name: Some("*.rs".to_owned()), ..Filter::default() };
/// let inputs = vec![Input::Files("src/**".to_owned())];
/// let items: Vec<_> = list(inputs, filter, ListOptions::default())?.try_collect().await?;
/// assert!(items.iter().any(|item| item.url.ends_with("src/list/mod.rs")));
/// # Ok::<_, virtualize_archive::list::ListError>(()) }).unwrap();
/// ```
///
/// # Errors
/// [`ListError::Pattern`] where the filter's pattern is none.
pub fn list(inputs: Vec<Input>, filter: Filter, options: ListOptions) -> Result<Listing, ListError> {
    let sieve = Sieve::new(filter)?;
    Ok(Listing {
        inputs: inputs.into(),
        options: Arc::new(options),
        sieve,
        current: None,
        seen: Seen::default(),
        tally: Tally::default(),
        failed: false,
    })
}

impl Listing {
    /// What came up so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What the end of an input's files means.
    fn end(&mut self, name: String, count: u64) -> Option<ListError> {
        if count == 0 && self.tally.without_asset.count == 0 {
            return Some(ListError::Empty { name });
        }
        let nothing = self.inputs.is_empty() && self.tally.listed == 0;
        let tally = &self.tally;
        nothing.then(|| ListError::AllLeftOut {
            filtered: tally.filtered,
            without_asset: tally.without_asset.count,
            filter: self.sieve.filter.to_string(),
        })
    }

    /// Whether a file is handed out.
    fn admit(&mut self, item: &Item) -> bool {
        if !self.sieve.admits(item) {
            self.tally.filtered += 1;
            return false;
        }
        if !self.seen.insert(&item.url) {
            self.tally.duplicates.add(&item.url);
            return false;
        }
        self.tally.listed += 1;
        true
    }

    fn take(&mut self, found: Found) -> Option<Item> {
        match found {
            Found::NoAsset(name) => {
                self.tally.without_asset.add(&name);
                None
            }
            Found::File(item) => self.admit(&item).then_some(item),
        }
    }
}

impl Stream for Listing {
    type Item = Result<Item, ListError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.failed {
                return Poll::Ready(None);
            }
            let Some((_, count, files)) = &mut this.current else {
                let Some(input) = this.inputs.pop_front() else { return Poll::Ready(None) };
                let name = input.name().to_owned();
                this.current = Some((name, 0, files_of(input, this.options.clone())));
                continue;
            };
            match std::task::ready!(files.as_mut().poll_next(context)) {
                Some(Ok(found)) => {
                    *count += u64::from(matches!(found, Found::File(_)));
                    if let Some(item) = this.take(found) {
                        return Poll::Ready(Some(Ok(item)));
                    }
                }
                Some(Err(ListError::Nothing { sought, .. }))
                    if this.options.absent && names_a_file(&sought) =>
                {
                    this.current = None;
                    let item = virtualize_store::url_of(&sought).ok().map(Item::of);
                    if let Some(item) = item.filter(|item| this.admit(item)) {
                        return Poll::Ready(Some(Ok(item)));
                    }
                }
                Some(Err(error)) => {
                    this.failed = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    let ended = this.current.take().and_then(|(name, count, _)| this.end(name, count));
                    if let Some(error) = ended {
                        this.failed = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
        }
    }
}

/// Whether text names one file, rather than a folder or what a pattern matches.
fn names_a_file(text: &str) -> bool {
    !text.ends_with('/') && !pattern::is_pattern(text)
}

impl Input {
    fn name(&self) -> &str {
        match self {
            Self::Files(name) | Self::List(name) | Self::Stac(name) => name,
        }
    }
}

fn files_of(input: Input, options: Arc<ListOptions>) -> Files {
    match input {
        Input::Files(text) => walk::files(text, options),
        Input::List(location) => lines::files(location, options),
        Input::Stac(location) => stac::files(location, options),
    }
}

/// Urls that were handed out, as 128 bits each.
#[derive(Default)]
struct Seen {
    urls: HashSet<(u64, u64)>,
    keys: (RandomState, RandomState),
}

impl Seen {
    /// Whether it is new.
    fn insert(&mut self, url: &str) -> bool {
        self.urls.insert((self.keys.0.hash_one(url), self.keys.1.hash_one(url)))
    }
}

impl Item {
    /// A file of which only the url is known.
    pub(crate) fn of(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// What a store says of it.
    pub fn listed(&self) -> Listed {
        let Self { url, size, etag, modified, .. } = self.clone();
        Listed { url, size, etag, modified }
    }

    /// Opens the file with one request, which brings all of it where it is small; it is refused as changed where it is
    /// no longer what was listed.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be read.
    pub async fn open(&self, options: &StoreOptions) -> Result<Arc<Object>, StoreError> {
        open_listed(&self.listed(), options).await
    }
}

impl From<Listed> for Item {
    fn from(Listed { url, size, etag, modified }: Listed) -> Self {
        Self { url, size, etag, modified, ..Self::default() }
    }
}
