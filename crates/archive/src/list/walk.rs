//! Walks folders and buckets, and matches patterns.

use std::{collections::VecDeque, fs, path::Path, sync::Arc};

use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use globset::{GlobBuilder, GlobMatcher};
use virtualize::{ErrorClass, Remedy};
use virtualize_store::{
    Folder, Listed, Page, StoreError, StoreOptions, folder_url, list_page, milliseconds, url_of,
};

use super::{Files, Found, ListError, ListOptions, Result, is_web};
use crate::Item;

/// Number of folders of a bucket listed ahead, so that their round trips overlap.
const AHEAD: usize = 16;
/// A pattern is matched level by level if less than one key in this many matches.
const DENSE: usize = 10;

/// Returns the files of a path, URL, folder or pattern.
pub(super) fn files(text: String, options: Arc<ListOptions>) -> Files {
    stream::once(async move { begin(&text, &options.store).await }).try_flatten().boxed()
}

/// Chooses how to list an input.
async fn begin(text: &str, store: &StoreOptions) -> Result<Files> {
    if is_web(text) {
        // Web servers offer no listing that programs can rely on.
        if text.split(['?', '#']).next().unwrap_or(text).contains(['*', '{']) {
            folder_url(text)?;
        }
        return Ok(one(Item::of(url_of(text)?)));
    }
    let bucket = text.contains("://") && !text.starts_with("file://");
    if !bucket && let Some(files) = local(text, store)? {
        return Ok(files);
    }
    if is_pattern(text) {
        return Ok(Walk::of_pattern(Pattern::parse(text)?, store).await?.stream());
    }
    if !bucket {
        return Err(nothing(text, &url_of(text)?, &[], store).await);
    }
    match name_of(text) {
        "" => Ok(Walk::of_folder(text, store)?.stream()),
        _ if is_named(text) => Ok(one(Item::of(url_of(text)?))),
        _ => looked_up(text, store).await,
    }
}

/// Returns the last segment of the key of a URL.
fn name_of(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    rest.rsplit_once('/').map_or("", |(_, name)| name)
}

/// Returns whether the URL of an object in a bucket is taken for a file without a request.
fn is_named(url: &str) -> bool {
    !is_pattern(url) && name_of(url).contains('.')
}

fn one(item: Item) -> Files {
    stream::iter([Ok(Found::File(item))]).boxed()
}

/// Returns the local file or folder of this name, if it exists; the name may contain special characters of patterns.
fn local(text: &str, store: &StoreOptions) -> Result<Option<Files>> {
    let url = url_of(text)?;
    let path = Path::new(url.strip_prefix("file://").unwrap_or(&url));
    if let Some(allowed) = &store.allowed
        && !is_pattern(text)
    {
        // Outside the allowed locations, not even existence may be revealed.
        allowed.check(url.trim_end_matches('/'))?;
    }
    let Ok(found) = fs::metadata(path) else { return Ok(None) };
    if found.is_dir() {
        return Ok(Some(Walk::of_folder(text, store)?.stream()));
    }
    let modified = found.modified().ok().and_then(milliseconds);
    Ok(Some(one(Item { size: Some(found.len()), modified, ..Item::of(url) })))
}

/// Resolves a key that may be a file or a folder. A caller without permission to list may still be able to read.
async fn looked_up(text: &str, store: &StoreOptions) -> Result<Files> {
    let url = url_of(text)?;
    let page = match list_page(&url, false, None, store).await {
        Err(StoreError::Denied { .. }) => return Ok(one(Item::of(url))),
        page => page?,
    };
    if let Some(file) = page.files.iter().find(|file| file.url == url) {
        return Ok(one(file.clone().into()));
    }
    if page.folders.iter().any(|folder| folder.url.strip_suffix('/') == Some(&url)) {
        return Ok(Walk::of_folder(&url, store)?.stream());
    }
    Err(nothing(text, &url, &[], store).await)
}

/// A walk through folders or keys, in the order of URLs.
struct Walk {
    store: StoreOptions,
    /// The input, for messages.
    sought: String,
    pattern: Option<Pattern>,
    /// Frames from the outermost to the innermost.
    frames: Vec<Frame>,
    found: u64,
    /// First names seen, for the error if nothing matches.
    near: Vec<String>,
}

/// A listing of one prefix.
struct Frame {
    prefix: String,
    depth: Depth,
    entries: VecDeque<Entry>,
    /// Token of the next page.
    next: Option<String>,
}

/// Depth of a listing: a level of the pattern, or all levels below.
type Depth = Option<usize>;

enum Entry {
    File(Listed),
    /// Not listed yet.
    Folder(String, Depth),
    /// Already listed ahead.
    Listed(Frame),
}

impl Walk {
    fn new(sought: &str, pattern: Option<Pattern>, store: &StoreOptions) -> Self {
        let sought = sought.to_owned();
        Self { store: store.clone(), sought, pattern, frames: Vec::new(), found: 0, near: Vec::new() }
    }

    fn of_folder(text: &str, store: &StoreOptions) -> Result<Self> {
        let mut walk = Self::new(text, None, store);
        walk.frames.push(Frame::new(folder_url(text)?, None, Some(String::new())));
        Ok(walk)
    }

    /// Starts the walk of a pattern. The first page of keys below several folders is listed recursively: it may be
    /// complete, or most of its keys may match.
    async fn of_pattern(pattern: Pattern, store: &StoreOptions) -> Result<Self> {
        let start = format!("{}{}", pattern.base, pattern.start);
        let (prefix, depth) =
            descend(&pattern.levels, pattern.base.clone(), 0).unwrap_or_else(|| (start.clone(), None));
        let is_bucket = !pattern.base.starts_with("file://");
        let by_levels = matches!(depth, Some(level) if level + 1 < pattern.levels.len());
        let mut walk = Self::new(&pattern.text.clone(), Some(pattern), store);
        if is_bucket && by_levels {
            let page = list_page(&start, true, None, store).await?;
            let matching = page.files.iter().filter(|file| walk.matches(&file.url)).count();
            if page.next.is_none() || matching.saturating_mul(DENSE) >= page.files.len() {
                let mut frame = Frame::new(start, None, None);
                walk.note(&page);
                frame.fill(page, walk.pattern.as_ref());
                walk.frames.push(frame);
                return Ok(walk);
            }
        }
        walk.frames.push(Frame::new(prefix, depth, Some(String::new())));
        Ok(walk)
    }

    fn matches(&self, url: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(url))
    }

    fn stream(self) -> Files {
        let next = |mut walk: Self| async move {
            let found = walk.next().await?;
            Ok(found.map(|file| (Found::File(file.into()), walk)))
        };
        stream::try_unfold(self, next).boxed()
    }

    /// Returns the next file; at the end, fails if nothing was found.
    async fn next(&mut self) -> Result<Option<Listed>> {
        while let Some(frame) = self.frames.last_mut() {
            match frame.entries.pop_front() {
                Some(Entry::File(file)) => {
                    self.found += 1;
                    return Ok(Some(file));
                }
                Some(Entry::Listed(frame)) => self.frames.push(frame),
                Some(folder @ Entry::Folder(..)) => {
                    frame.entries.push_front(folder);
                    self.list_ahead().await?;
                }
                None => match frame.next.take() {
                    Some(after) => self.more(&after).await?,
                    None => drop(self.frames.pop()),
                },
            }
        }
        if self.found > 0 {
            return Ok(None);
        }
        let prefix = match &self.pattern {
            Some(pattern) => format!("{}{}", pattern.base, pattern.start),
            None => folder_url(&self.sought)?,
        };
        Err(nothing(&self.sought, &prefix, &self.near, &self.store).await)
    }

    /// Fetches another page of the innermost frame.
    async fn more(&mut self, after: &str) -> Result<()> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let after = Some(after).filter(|after| !after.is_empty());
        let page = page(&frame.prefix, frame.depth, after, &self.store).await?;
        frame.fill(page.clone(), self.pattern.as_ref());
        self.note(&page);
        Ok(())
    }

    /// Lists the next folders of the innermost frame ahead.
    async fn list_ahead(&mut self) -> Result<()> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let ahead = if frame.prefix.starts_with("file://") { 1 } else { AHEAD };
        let folders = frame.entries.iter_mut().filter(|entry| matches!(entry, Entry::Folder(..)));
        let (store, pattern) = (&self.store, self.pattern.as_ref());
        let listings = folders.take(ahead).map(|entry| async move {
            if let Entry::Folder(prefix, depth) = entry {
                let page = page(prefix, *depth, None, store).await?;
                let mut listed = Frame::new(std::mem::take(prefix), *depth, None);
                listed.fill(page.clone(), pattern);
                *entry = Entry::Listed(listed);
                return Ok(page);
            }
            Ok::<_, ListError>(Page::default())
        });
        for page in try_join_all(listings).await? {
            self.note(&page);
        }
        Ok(())
    }

    /// Records the first names, for the error if nothing matches.
    fn note(&mut self, page: &Page) {
        if self.found == 0 && self.near.is_empty() {
            self.near = names(page);
        }
    }
}

impl Frame {
    /// Returns an empty frame. `next` is the token of its next page: an empty one for the first page.
    fn new(prefix: String, depth: Depth, next: Option<String>) -> Self {
        Self { prefix, depth, entries: VecDeque::new(), next }
    }

    /// Queues the matches of a page, in the order of URLs.
    fn fill(&mut self, page: Page, pattern: Option<&Pattern>) {
        let wanted = |file: &Listed| pattern.is_none_or(|pattern| pattern.matches(&file.url));
        let files = page.files.into_iter().filter(wanted).map(|file| (file.url.clone(), Entry::File(file)));
        let depth = self.depth;
        let folders = page.folders.into_iter().filter_map(|folder| {
            let key = folder.url.clone();
            let (prefix, depth) = below(folder, depth, pattern)?;
            Some((key, Entry::Folder(prefix, depth)))
        });
        let mut all: Vec<_> = files.chain(folders).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.entries.extend(all.into_iter().map(|(_, entry)| entry));
        self.next = page.next;
    }
}

/// Returns the listing of a folder that was found; `None` if the pattern excludes it.
fn below(folder: Folder, depth: Depth, pattern: Option<&Pattern>) -> Option<(String, Depth)> {
    let Some(level) = depth else {
        return (!folder.is_link).then_some((folder.url, None));
    };
    let levels = &pattern?.levels;
    let name = folder.url.strip_suffix('/').unwrap_or(&folder.url).rsplit('/').next()?;
    match levels.get(level)? {
        Level::Names(_, names) if names.is_match(name) => descend(levels, folder.url, level + 1),
        _ => None,
    }
}

/// Returns the listing for a level of a pattern, or for the first level below it that is not a plain name.
fn descend(levels: &[Level], mut folder: String, mut at: usize) -> Option<(String, Depth)> {
    loop {
        match levels.get(at)? {
            Level::Any => return Some((folder, None)),
            Level::Names(start, _) => return Some((folder + start, Some(at))),
            Level::Name(name) if at + 1 == levels.len() => return Some((folder + name, Some(at))),
            Level::Name(name) => folder = folder + name + "/",
        }
        at += 1;
    }
}

/// Lists a page; a local folder that does not exist is empty.
async fn page(prefix: &str, depth: Depth, after: Option<&str>, store: &StoreOptions) -> Result<Page> {
    match list_page(prefix, depth.is_none(), after, store).await {
        Err(StoreError::NotFound { .. }) if prefix.starts_with("file://") => Ok(Page::default()),
        page => Ok(page?),
    }
}

/// Returns the first three names of a page, with a slash after folders.
fn names(page: &Page) -> Vec<String> {
    let files = page.files.iter().map(|file| file.url.as_str());
    let mut all: Vec<_> =
        files.chain(page.folders.iter().map(|folder| folder.url.as_str())).take(100).collect();
    all.sort_unstable();
    all.into_iter().take(3).map(str::to_owned).collect()
}

/// Returns the error for an input without matches. It names files nearby: under the same prefix, else in the nearest
/// folder above with any.
async fn nothing(sought: &str, prefix: &str, near: &[String], store: &StoreOptions) -> ListError {
    let error = |near: String| ListError::Nothing { sought: sought.to_owned(), near };
    if !near.is_empty() {
        return error(format!("near it are {}", near.join(", ")));
    }
    let mut folder = prefix.to_owned();
    while let Some(above) = above(&folder) {
        folder = above;
        match page(&folder, Some(0), None, store).await.map(|page| names(&page)) {
            Ok(near) if near.is_empty() => {}
            Ok(near) => return error(format!("near it are {}", near.join(", "))),
            Err(_) => break,
        }
    }
    error("and nothing near it".to_owned())
}

/// Returns the parent folder of a URL.
fn above(url: &str) -> Option<String> {
    let (scheme, path) = url.split_once("://")?;
    let (folder, _) = path.trim_end_matches('/').rsplit_once('/')?;
    Some(format!("{scheme}://{folder}/"))
}

/// A pattern of paths or keys, split into the levels to list.
#[derive(Clone, Debug)]
struct Pattern {
    /// The pattern as the caller wrote it.
    text: String,
    /// URL of the folder that the pattern starts from; ends in `/`.
    base: String,
    /// Literal prefix, after the base, of everything that matches.
    start: String,
    /// Matcher for the part of a URL after the base.
    whole: GlobMatcher,
    /// Levels of the pattern; empty if braces span several.
    levels: Vec<Level>,
}

/// A level of a pattern.
#[derive(Clone, Debug)]
enum Level {
    /// One name.
    Name(String),
    /// Names with this prefix that match.
    Names(String, GlobMatcher),
    /// `**`: any number of levels.
    Any,
}

const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

/// Returns whether text contains a special character of patterns.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(SPECIAL)
}

/// Returns the literal prefix of text.
fn literal(text: &str) -> &str {
    text.split(SPECIAL).next().unwrap_or_default()
}

fn invalid(pattern: &str, reason: &dyn std::fmt::Display) -> ListError {
    let remedy =
        Remedy::advice("write patterns with * ? [a-z] {a,b} and **; [*] matches the character itself");
    ListError::invalid(ErrorClass::Usage, format!("pattern {pattern}: {reason}"), remedy)
}

/// Compiles a pattern: `*` and `?` do not match a slash, and only brackets escape.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(false).build();
    let invalid = |error: globset::Error| invalid(pattern, error.kind());
    Ok(glob.map_err(invalid)?.compile_matcher())
}

impl Pattern {
    fn parse(text: &str) -> Result<Self> {
        let literal = literal(text);
        let folder = literal.rfind('/').map_or("", |at| text.get(..=at).unwrap_or_default());
        if folder.ends_with("://") {
            return Err(invalid(text, &"the name of a bucket cannot have wildcards"));
        }
        let base = folder_url(if folder.is_empty() { "." } else { folder })?;
        let rest = text.get(folder.len()..).unwrap_or_default();
        let start = literal.get(folder.len()..).unwrap_or_default().to_owned();
        let levels = levels(rest).into_iter().map(level).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), base, start, whole: matcher(rest)?, levels })
    }

    /// Returns whether the URL of a file matches.
    fn matches(&self, url: &str) -> bool {
        url.strip_prefix(&self.base).is_some_and(|rest| self.whole.is_match(rest))
    }
}

/// Parses one level of a pattern.
fn level(text: &str) -> Result<Level> {
    match text {
        "**" => Ok(Level::Any),
        name if !is_pattern(name) => Ok(Level::Name(name.to_owned())),
        names => Ok(Level::Names(literal(names).to_owned(), matcher(names)?)),
    }
}

/// Splits a pattern at its slashes; empty if a slash occurs within braces.
fn levels(text: &str) -> Vec<&str> {
    let (mut depth, mut spans) = (0_i64, false);
    for character in text.chars() {
        depth += i64::from(character == '{') - i64::from(character == '}');
        spans |= character == '/' && depth > 0;
    }
    if spans { Vec::new() } else { text.split('/').collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, url: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(url)
    }

    #[test]
    fn patterns_match_as_shells_do() {
        for (pattern, url) in [
            ("s3://b/*.nc", "s3://b/a.nc"),
            ("s3://b/era5/**/*.nc", "s3://b/era5/a.nc"),
            ("s3://b/era5/**/*.nc", "s3://b/era5/2020/01/a.nc"),
            ("s3://b/era5/**", "s3://b/era5/2020/01/a.nc"),
            ("s3://b/20?[0-4]/x[!a].{nc,h5}", "s3://b/2014/xb.h5"),
            ("s3://b/{a/b,c}/*.nc", "s3://b/a/b/x.nc"),
            ("s3a://b/a*", "s3://b/a b#%20.nc"),
            ("s3://b/a[*]b[[]c", "s3://b/a*b[c"),
            ("/data/*/a.nc", "file:///data/x/a.nc"),
            ("file:///data/*.nc", "file:///data/.hidden.nc"),
            (r"s3://b/a\*", r"s3://b/a\b"),
        ] {
            assert!(matches(pattern, url), "{pattern} {url}");
        }
        for (pattern, url) in [
            ("s3://b/*.nc", "s3://b/x/a.nc"),
            ("s3://b/a?c", "s3://b/a/c"),
            ("s3://b/[a-z].nc", "s3://b/A.nc"),
            ("s3://b/era5/**/*.nc", "s3://b/era5/a.nc4"),
            ("s3://b/era5*", "s3://c/era5"),
        ] {
            assert!(!matches(pattern, url), "{pattern} {url}");
        }
    }

    #[test]
    fn the_longest_literal_start_is_found() {
        let parts = |text| {
            let pattern = Pattern::parse(text).unwrap();
            (pattern.base.clone(), pattern.start.clone(), pattern.levels.len())
        };
        let of = |base: &str, start: &str, levels: usize| (base.to_owned(), start.to_owned(), levels);
        assert_eq!(parts("s3://b/era5/20*/x.nc"), of("s3://b/era5/", "20", 2));
        assert_eq!(parts("s3://b/era5/2020_*.nc"), of("s3://b/era5/", "2020_", 1));
        assert_eq!(parts("s3://b/*/**/x.nc"), of("s3://b/", "", 3));
        assert_eq!(parts("gs://b/{a/b,c}/*.nc"), of("gs://b/", "", 0));
        let here = std::env::current_dir().unwrap();
        assert_eq!(parts("data/a*.nc").0, format!("file://{}/data/", here.display()));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for text in ["s3://b/[a", "s3://b/{a,b", "s3://*/a", "https://host/*.nc", "s3://b/[z-a]"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
