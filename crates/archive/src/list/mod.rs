//! Lists input files: resolves patterns, folders, single files, lists and STAC catalogues into [`Item`]s. Listings are
//! paged, so that memory does not grow with the archive.

mod stac;
mod walk;

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    io::BufRead,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use globset::GlobMatcher;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use virtualize::{ErrorClass, OptionName, Remedy};
use virtualize_store::{Listed, Object, StoreError, StoreOptions, fetch, open_listed, url_of};

use crate::{Error, Event, Item, event::Events, values::calendar};
use stac::resolve;

pub use self::stac::Assets;

type Result<T, E = ListError> = std::result::Result<T, E>;

/// An input that names files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A path or URL of a file, a folder, a key prefix that ends in `/`, or a pattern, see [`list`].
    Files(String),
    /// A list file with one entry per line, or `-` for standard input, see [`list`].
    List(String),
    /// A STAC item, item collection, collection or catalogue.
    Stac(String),
}

impl<T: Into<String>> From<T> for Input {
    fn from(files: T) -> Self {
        Self::Files(files.into())
    }
}

/// Selects among the listed files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// A pattern for file names or, if it contains a `/`, for the ends of URLs, beginning at a `/`.
    pub name: Option<String>,
}

impl Filter {
    /// Returns a filter on names.
    pub fn named(pattern: impl Into<String>) -> Self {
        Self { name: Some(pattern.into()) }
    }

    fn matcher(&self) -> Result<Option<GlobMatcher>> {
        let full = |name: &String| if name.contains('/') { format!("**/{name}") } else { name.clone() };
        self.name.as_ref().map(|name| walk::matcher(&full(name))).transpose()
    }
}

/// Options of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Access to stores.
    pub store: StoreOptions,
    /// Selects the assets of STAC items to read.
    pub assets: Assets,
    /// Whether to return files that are named explicitly even if they do not exist: opening them fails, the listing
    /// does not.
    pub absent: bool,
}

/// Counts of a listing; complete once the stream has ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Number of files returned.
    pub listed: u64,
    /// Number of files that the filter excluded.
    pub filtered: u64,
    /// Files whose URL was listed before; each is returned once.
    pub duplicates: Few,
    /// STAC items without a selected asset.
    pub without_asset: Few,
}

/// A count of occurrences, with the first of them as examples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Few {
    /// Number of occurrences.
    pub count: u64,
    /// The first occurrences, at most three.
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
    /// Returns notes for the user, one line each.
    pub fn notes(&self) -> Vec<String> {
        let note = |few: &Few, what: &str| {
            (few.count > 0).then(|| format!("{} {what}, such as {}", few.count, few.first.join(", ")))
        };
        let notes = [
            note(&self.duplicates, "files are listed more than once; each is read once"),
            note(&self.without_asset, "STAC items have none of the selected assets"),
        ];
        notes.into_iter().flatten().collect()
    }
}

/// An entry that an input yields.
pub(crate) enum Found {
    /// A file.
    File(Item),
    /// A STAC item without an asset to read.
    NoAsset(String),
}

/// Stream of the files of one input.
pub(crate) type Files = BoxStream<'static, Result<Found>>;

/// Stream of listed files; it ends after its first error.
pub struct Listing {
    inputs: VecDeque<Input>,
    options: Arc<ListOptions>,
    filter: Filter,
    matcher: Option<GlobMatcher>,
    current: Option<(String, u64, Files)>,
    /// URLs already returned, as 128-bit hashes.
    seen: HashSet<(u64, u64)>,
    keys: (RandomState, RandomState),
    tally: Tally,
    failed: bool,
}

/// Lists files in a fixed order: inputs in the order given, and the files of each sorted by URL. Lists and catalogues
/// keep their own order. A file that occurs twice is returned once.
///
/// - Patterns support `*` and `?` (within a name), `[a-z]`, `[!a]`, `{a,b}`, and `**` for any number of folders.
///   Brackets escape a special character: `[*]`. Keys are listed from the longest literal prefix, and level by level
///   where that saves requests.
/// - Folders, and key prefixes that end in `/`, yield all files below them. Symbolic links to folders are followed
///   where a pattern names them, but not below `**` or a folder.
/// - A list has one path or URL per line; empty lines and lines that start with `#` are skipped. Lines that start with
///   `{` are JSON objects with `url` and, if known, `size`, `etag` and `modified` (RFC 3339 text, or milliseconds since
///   1970); other members, and those of the member `properties`, become properties. Relative paths resolve against the working directory, those of a remote
///   list against the location of the list.
///
/// An input without files is an error; its message names files nearby.
///
/// ```
/// # futures::executor::block_on(async {
/// use futures::TryStreamExt;
/// use virtualize_archive::list::{Filter, Input, ListOptions, list};
///
/// let filter = Filter::named("*.rs");
/// let inputs = vec![Input::Files("src/**".to_owned())];
/// let items: Vec<_> = list(inputs, filter, ListOptions::default())?.try_collect().await?;
/// assert!(items.iter().any(|item| item.url.ends_with("src/list/mod.rs")));
/// # Ok::<_, virtualize_archive::list::ListError>(()) }).unwrap();
/// ```
///
/// # Errors
/// [`ListError::Invalid`] if the filter's pattern is invalid.
pub fn list(inputs: Vec<Input>, filter: Filter, options: ListOptions) -> Result<Listing> {
    Ok(Listing {
        inputs: inputs.into(),
        options: Arc::new(options),
        matcher: filter.matcher()?,
        filter,
        current: None,
        seen: HashSet::new(),
        keys: Default::default(),
        tally: Tally::default(),
        failed: false,
    })
}

impl Listing {
    /// Returns the counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the error of an input that ended without files, if that is one.
    fn end(&mut self, name: String, count: u64) -> Option<ListError> {
        if count == 0 && self.tally.without_asset.count == 0 {
            return Some(ListError::invalid(ErrorClass::NotFound, format!("{name}: lists no files"), None));
        }
        if !self.inputs.is_empty() || self.tally.listed > 0 {
            return None;
        }
        let (filtered, without_asset) = (self.tally.filtered, self.tally.without_asset.count);
        let filter = self.filter.name.as_deref().unwrap_or_default();
        let message = format!(
            "no file is selected: {filtered} do not match {filter:?}, {without_asset} STAC items have no selected asset"
        );
        let name_assets =
            || Remedy::turn_on(OptionName::Asset, "name assets").or(Remedy::advice("widen the filter"));
        Some(ListError::invalid(ErrorClass::NotFound, message, (without_asset > 0).then(name_assets)))
    }

    /// Returns whether a file passes the filter and is new.
    fn admit(&mut self, item: &Item) -> bool {
        let path = item.url.split_once("://").map_or(item.url.as_str(), |(_, path)| path);
        let path = if is_web(&item.url) { path.split('?').next().unwrap_or(path) } else { path };
        let is_path = self.filter.name.as_ref().is_some_and(|name| name.contains('/'));
        let name = if is_path { path } else { path.rsplit('/').next().unwrap_or(path) };
        if self.matcher.as_ref().is_some_and(|matcher| !matcher.is_match(name)) {
            self.tally.filtered += 1;
            return false;
        }
        let hash = (self.keys.0.hash_one(&item.url), self.keys.1.hash_one(&item.url));
        if !self.seen.insert(hash) {
            self.tally.duplicates.add(&item.url);
            return false;
        }
        self.tally.listed += 1;
        true
    }
}

impl Stream for Listing {
    type Item = Result<Item>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.failed {
                return Poll::Ready(None);
            }
            let Some((_, count, files)) = &mut this.current else {
                let Some(input) = this.inputs.pop_front() else { return Poll::Ready(None) };
                let name = input.name().to_owned();
                let options = Arc::clone(&this.options);
                let files = match input {
                    Input::Files(text) => walk::files(text, options),
                    Input::List(location) => of_list(location, options),
                    Input::Stac(location) => stac::files(location, options),
                };
                this.current = Some((name, 0, files));
                continue;
            };
            match std::task::ready!(files.as_mut().poll_next(context)) {
                Some(Ok(Found::NoAsset(name))) => this.tally.without_asset.add(&name),
                Some(Ok(Found::File(item))) => {
                    *count += 1;
                    if this.admit(&item) {
                        return Poll::Ready(Some(Ok(item)));
                    }
                }
                Some(Err(ListError::Nothing { sought, .. }))
                    if this.options.absent && !sought.ends_with('/') && !walk::is_pattern(&sought) =>
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

/// Maximum number of files that [`each_page`] passes on at once.
const PAGE: usize = 1000;

/// Lists files, and passes them on in portions.
pub(crate) async fn each_page(
    inputs: Vec<Input>,
    filter: &Filter,
    options: ListOptions,
    (cancel, events): (&CancellationToken, &Events),
    mut take: impl FnMut(Vec<Item>) -> crate::Result<()>,
) -> crate::Result<()> {
    let mut pages = list(inputs, filter.clone(), options)?.ready_chunks(PAGE);
    let mut files = 0;
    loop {
        let page = cancel.run_until_cancelled(pages.next()).await;
        let Some(page) = page.ok_or(Error::Stopped { done: 0, files })? else { break };
        files += page.len() as u64;
        take(page.into_iter().collect::<Result<Vec<_>>>()?)?;
    }
    for text in pages.get_ref().tally().notes() {
        events.tell(Event::Note { text });
    }
    Ok(())
}

/// Returns whether text is a URL of a web server.
fn is_web(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, _)| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)))
}

impl Input {
    fn name(&self) -> &str {
        match self {
            Self::Files(name) | Self::List(name) | Self::Stac(name) => name,
        }
    }
}

impl Item {
    /// Returns a file with only its URL known.
    pub(crate) fn of(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Returns what the store's listing reports about the file.
    pub fn listed(&self) -> Listed {
        let Self { url, size, etag, modified, .. } = self.clone();
        Listed { url, size, etag, modified }
    }

    /// Opens the file with one request, which fetches all of a small file. Fails if the file has changed since it was
    /// listed.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read.
    pub async fn open(&self, options: &StoreOptions) -> Result<Arc<Object>, StoreError> {
        open_listed(&self.listed(), options).await
    }
}

impl From<Listed> for Item {
    fn from(Listed { url, size, etag, modified }: Listed) -> Self {
        Self { url, size, etag, modified, ..Self::default() }
    }
}

/// Errors of a listing. Each message is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListError {
    /// A request to a store failed or was denied.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No file matches a pattern, or exists at or below a path or prefix.
    #[error("{sought}: no such file; {near}")]
    Nothing {
        /// The pattern or prefix.
        sought: String,
        /// Names that exist nearby.
        near: String,
    },
    /// A pattern, a list or a catalogue is invalid, or selects no files.
    #[error("{message}")]
    Invalid {
        /// Class of the error.
        class: ErrorClass,
        /// One line.
        message: String,
        /// What the user can do.
        remedy: Option<Remedy>,
    },
}

impl ListError {
    pub(crate) fn invalid(class: ErrorClass, message: String, remedy: impl Into<Option<Remedy>>) -> Self {
        Self::Invalid { class, message, remedy: remedy.into() }
    }

    /// Returns the remedy to suggest to the user, if any.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Nothing { .. } => {
                Some(Remedy::advice("check the pattern; * does not match a slash, ** does"))
            }
            Self::Invalid { remedy, .. } => remedy.clone(),
        }
    }
}

/// Maximum size of a list in bytes, unless it is standard input or a local file.
const LARGEST: u64 = 2 << 30;
/// Maximum size of a line in bytes.
const LONGEST: usize = 1 << 20;

/// Returns the files that a list names.
pub(super) fn of_list(location: String, options: Arc<ListOptions>) -> Files {
    let lines = async move { begin(location, &options).await };
    stream::once(lines).try_flatten().boxed()
}

/// Opens a list. Standard input and local files are streamed, unless access is restricted; anything else is fetched
/// whole.
async fn begin(location: String, options: &ListOptions) -> Result<Files> {
    let guarded = options.store.allowed.is_some();
    if location == "-" && !guarded {
        return Ok(Lines::new("standard input", None, std::io::BufReader::new(std::io::stdin())).stream());
    }
    let url = url_of(&location)?;
    if let Some(path) = url.strip_prefix("file://").filter(|_| !guarded) {
        let file = std::fs::File::open(path).map_err(|error| StoreError::io(&location, &error))?;
        return Ok(Lines::new(&location, None, std::io::BufReader::new(file)).stream());
    }
    let bytes: Bytes = fetch(&url, LARGEST, &options.store).await?;
    let name = url.split('?').next().unwrap_or(&url).to_owned();
    let from = Some(url);
    Ok(Lines::new(&name, from, std::io::Cursor::new(bytes)).stream())
}

/// Lines that are read one at a time.
struct Lines<R> {
    name: String,
    /// Base of relative paths; `None` for the working directory.
    from: Option<String>,
    reader: R,
    line: u64,
}

impl<R: BufRead + Send + 'static> Lines<R> {
    fn new(name: &str, from: Option<String>, reader: R) -> Self {
        Self { name: name.to_owned(), from, reader, line: 0 }
    }

    fn stream(mut self) -> Files {
        stream::iter(std::iter::from_fn(move || self.next().transpose())).boxed()
    }

    /// Returns the file of the next line that is neither empty nor a comment.
    fn next(&mut self) -> Result<Option<Found>> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = std::io::Read::take(&mut self.reader, LONGEST as u64);
            let count =
                limited.read_until(b'\n', &mut bytes).map_err(|error| self.failed(error.to_string()))?;
            self.line += 1;
            if count == 0 {
                return Ok(None);
            }
            if count == LONGEST {
                return Err(self.failed(format!("longer than {LONGEST} bytes")));
            }
            let text = String::from_utf8(bytes).map_err(|_| self.failed("is not UTF-8".to_owned()))?;
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() && !text.starts_with('#') {
                let item = item(text, self.from.as_deref()).map_err(|reason| self.failed(reason))?;
                return Ok(Some(Found::File(item)));
            }
        }
    }

    fn failed(&self, reason: String) -> ListError {
        let remedy = Remedy::advice("write a path, a url, or a JSON object with \"url\" on each line");
        let message = format!("{}, line {}: {reason}", self.name, self.line);
        ListError::invalid(ErrorClass::Conflict, message, remedy)
    }
}

/// Parses a line that is not empty.
fn item(text: &str, from: Option<&str>) -> Result<Item, String> {
    let item = match text.starts_with('{') {
        true => object(serde_json::from_str(text).map_err(|error| error.to_string())?)?,
        false => Item::of(text),
    };
    if item.url.ends_with('/') && !is_web(&item.url) && !from.is_some_and(is_web) {
        return Err(format!("{:?} is a folder, expected a file", item.url));
    }
    let url = match from {
        Some(from) => resolve(from, &item.url)?,
        None => item.url.clone(),
    };
    let url = url_of(&url).map_err(|error| error.to_string())?;
    Ok(Item { url, ..item })
}

/// A file as a JSON line of a list.
#[derive(Serialize, Deserialize)]
struct JsonLine {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<Time>,
    /// Properties whose names may be those of the members above.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    properties: Map<String, Value>,
    /// Other members, which are properties, too.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "modified is neither a time nor a number of milliseconds")]
enum Time {
    Milliseconds(i64),
    Text(String),
}

/// Converts a JSON line into an item.
fn object(line: JsonLine) -> Result<Item, String> {
    let JsonLine { url, size, etag, modified, properties, others: mut all } = line;
    let modified = match modified {
        Some(Time::Text(text)) => Some(parse_time(&text)?),
        Some(Time::Milliseconds(milliseconds)) => Some(milliseconds),
        None => None,
    };
    all.extend(properties);
    Ok(Item { url, size, etag, modified, properties: all })
}

/// Returns a file as the line of a list.
pub(crate) fn line(item: &Item) -> Vec<u8> {
    let Item { url, size, etag, modified, properties } = item.clone();
    let (modified, others) = (modified.map(Time::Milliseconds), Map::new());
    let line = json!(JsonLine { url, size, etag, modified, properties, others });
    format!("{line}\n").into_bytes()
}

/// Parses an RFC 3339 time, or a date (midnight UTC), as milliseconds since 1970-01-01T00:00:00Z.
fn parse_time(text: &str) -> Result<i64, String> {
    let time = calendar::parse_time(text).and_then(|time| i64::try_from(time.div_euclid(1_000_000)).ok());
    time.ok_or_else(|| {
        format!(
            "{text:?} is not a time, expected a time such as 2024-02-29 or 2024-02-29T12:00:00Z (RFC 3339)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &'static str, from: Option<&str>) -> Vec<Result<Item, String>> {
        let mut lines = Lines::new("list", from.map(str::to_owned), text.as_bytes());
        let next = || lines.next().transpose();
        let found = std::iter::from_fn(next).take(20).map(|found| match found {
            Ok(Found::File(item)) => Ok(item),
            Ok(Found::NoAsset(_)) => Err("asset".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        found.collect()
    }

    #[test]
    fn lines_are_paths_urls_or_objects() {
        let text = "\u{feff}# a list\r\n\r\ns3://b/a b[1].nc\r\n  https://host/a.nc?x=1  \n\
                    {\"url\": \"s3://b/c.nc\", \"size\": 7, \"etag\": \"e\", \"modified\": \"1970-01-02\", \"run\": 3}";
        let items: Vec<_> = items(text, None).into_iter().map(Result::unwrap).collect();
        assert_eq!(items[0], Item::of("s3://b/a b[1].nc"));
        assert_eq!(items[1], Item::of("https://host/a.nc?x=1"));
        let properties = Map::from_iter([("run".to_owned(), Value::from(3))]);
        let etag = Some("e".to_owned());
        let expected =
            Item { size: Some(7), etag, modified: Some(86_400_000), properties, ..Item::of("s3://b/c.nc") };
        assert_eq!(items[2], expected);
        assert_eq!(items.len(), 3);
    }

    #[test]
    fn files_are_lines() {
        let properties =
            ["url", "size", "properties"].map(|name| (name.to_owned(), json!({ "a": [1, "x"] })));
        let (etag, properties) = (Some("\"e\"".to_owned()), Map::from_iter(properties));
        let whole = Item { size: Some(7), etag, modified: Some(-5), properties, ..Item::of("s3://b/c d.nc") };
        for item in [Item::of("file:///a"), whole] {
            assert_eq!(object(serde_json::from_slice(&line(&item)).unwrap()), Ok(item.clone()));
            let text = String::from_utf8(line(&item)).unwrap();
            assert_eq!(self::item(text.trim_end(), None), Ok(item));
        }
    }

    #[test]
    fn relative_paths_start_where_they_should() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(items("a.nc", None)[0], Ok(Item::of(format!("file://{}/a.nc", here.display()))));
        assert_eq!(items("../a b.nc", Some("s3://b/x/list.txt"))[0], Ok(Item::of("s3://b/a b.nc")));
        assert_eq!(items("y/a.nc", Some("https://h/x/list.txt?q"))[0], Ok(Item::of("https://h/x/y/a.nc")));
    }

    #[test]
    fn invalid_entries_name_their_line() {
        for (text, expected) in [
            ("\n{\"size\": 3}", "list, line 2: missing field `url`"),
            ("{\"url\": \"s3://b/a\", \"size\": -1}", "expected u64 at line 1 column"),
            ("{\"url\": \"s3://b/a\", \"modified\": \"soon\"}", "RFC 3339"),
            ("{\"url\": \"s3://b/a\", \"modified\": true}", "modified is neither"),
            ("{", "line 1"),
            ("s3://b/x/", "is a folder"),
            ("ftp://b/x", "ftp"),
            ("s3://b", "expected a bucket and the key"),
        ] {
            let error = items(text, None).remove(0).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
