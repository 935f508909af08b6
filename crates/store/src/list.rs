//! Listings: files as listed, pages of buckets, and local folders.

use std::{
    collections::BTreeMap,
    fs::{self, DirEntry, File, Metadata},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use object_store::{
    ListResult, ObjectMeta, ObjectStoreExt,
    list::{PaginatedListOptions, PaginatedListResult},
};
use virtualize_bytes::ReadErrorKind;

use crate::{
    Allowed, StoreError, StoreOptions,
    clients::{Purpose, Seen},
    connect::{connect_bucket, in_region},
    link::{Backoff, Failure},
    location::{Location, Service, name_as_text},
    meter::Meter,
};

/// A file as listed. Values that the listing omits are determined when the file is opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listed {
    /// Path or URL.
    pub url: String,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Entity tag, with or without its quotes.
    pub etag: Option<String>,
    /// Modification time, in milliseconds since 1970-01-01T00:00:00Z.
    pub modified: Option<i64>,
}

/// Returns a modification time in milliseconds since 1970-01-01T00:00:00Z, rounded up: clients that compare it accept a
/// file that is not newer.
pub fn milliseconds(time: SystemTime) -> Option<i64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos().div_ceil(1_000_000)).ok()
}

/// Returns whether two times in milliseconds may be equal: HTTP has whole seconds, listings are more precise, and some
/// round down.
fn is_same_time(one: i64, other: i64) -> bool {
    let is_coarse = one % 1000 == 0 || other % 1000 == 0;
    one.abs_diff(other) < if is_coarse { 1000 } else { 2 }
}

impl Listed {
    /// Creates an entry with only a URL.
    pub fn of(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Creates the entry of a local file.
    pub(crate) fn of_metadata(url: &str, found: &Metadata) -> Self {
        let modified = found.modified().ok().and_then(milliseconds);
        Self { size: Some(found.len()), modified, ..Self::of(url) }
    }

    /// Creates the entry of an object of a store.
    pub(crate) fn of_object(url: impl Into<String>, found: &ObjectMeta) -> Self {
        Self {
            url: url.into(),
            size: Some(found.size),
            etag: found.e_tag.clone().filter(|tag| !tag.is_empty()),
            modified: Some(found.last_modified.timestamp_millis()).filter(|time| *time > 0),
        }
    }

    /// Returns whether two entries may describe the same version of a file. Missing values count as equal; times are
    /// compared only without tags.
    pub fn agrees(&self, other: &Self) -> bool {
        self.compare("", other).is_ok()
    }

    /// Returns the entity tag for `If-Match`; weak tags never match (RFC 9110, section 13.1.1).
    pub(crate) fn demanded(&self) -> Option<String> {
        self.etag.as_deref().filter(|tag| !tag.starts_with("W/")).map(quoted)
    }

    /// Checks that a file is the listed version, as [`Listed::agrees`] does.
    pub(crate) fn compare(&self, name: &str, found: &Self) -> Result<(), StoreError> {
        let tags = self.etag.as_deref().zip(found.etag.as_deref());
        let sizes = self.size.zip(found.size);
        let times = self.modified.zip(found.modified).filter(|_| tags.is_none());
        let reason = if tags.is_some_and(|(was, is)| opaque_tag(was) != opaque_tag(is)) {
            "its etag is not the one that was listed".to_owned()
        } else if let Some((was, is)) = sizes.filter(|(was, is)| was != is) {
            format!("{is} bytes, {was} were listed")
        } else if times.is_some_and(|(was, is)| !is_same_time(was, is)) {
            "its modification time is not the one that was listed".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::Changed { name: name.to_owned(), reason })
    }
}

/// Returns an entity tag without its quotes and without the mark of weak tags, which proxies add.
pub fn opaque_tag(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// Adds the quotes of an entity tag if they are missing; Azure's listings and users omit them.
fn quoted(tag: &str) -> String {
    if tag.ends_with('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

/// A page of a listing, ordered by URL (a folder's URL ends in `/`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Files.
    pub files: Vec<Listed>,
    /// Folders, if a single level is listed.
    pub folders: Vec<Folder>,
    /// Continuation token of the next page; `None` for the last page.
    pub next: Option<String>,
}

/// A folder, or a common prefix of keys that ends in `/`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    /// URL with a trailing `/`.
    pub url: String,
    /// Whether it is a symbolic link on a local disk, which may form a cycle.
    pub is_link: bool,
}

/// Returns the absolute URL of a folder or key prefix, with a trailing `/`. Fails for web servers, which have no
/// folders.
pub fn folder_url(folder: &str) -> Result<String, StoreError> {
    let location = Location::parse_prefix(folder)?;
    if let Location::Http(_) = location {
        return Err(no_listing(&location));
    }
    let url = location.url();
    Ok(if url.ends_with('/') { url } else { format!("{url}/") })
}

/// Lists the files whose URL starts with a prefix such as `s3://bucket/era5/20` or `file:///data/`. Returns a page of
/// at most a thousand keys of a bucket, or one local folder. With `deep`, a bucket's page covers all levels; a local
/// disk is always listed one folder at a time. `after` is [`Page::next`] of the previous page.
pub async fn list_page(
    prefix: &str,
    deep: bool,
    after: Option<&str>,
    options: &StoreOptions,
) -> Result<Page, StoreError> {
    if let Some(allowed) = &options.allowed {
        allowed.check_listing(prefix)?;
    }
    if let Some(path) = prefix.strip_prefix("file://") {
        return local(path);
    }
    match Location::parse_prefix(prefix)? {
        Location::Bucket { service, bucket, key } => {
            bucket_page((service, &bucket), &key, Pages { deep, after, most: None }, options).await
        }
        location => Err(no_listing(&location)),
    }
}

/// Builds the error for a web server, which has no listing.
pub(crate) fn no_listing(location: &Location) -> StoreError {
    let reason = "a web server has no listing: give urls of files, a list of them, or a STAC catalogue";
    StoreError::location(location.name(), reason)
}

/// Which keys of a bucket a page contains.
pub(crate) struct Pages<'a> {
    /// Whether it covers all levels.
    pub(crate) deep: bool,
    /// Continuation token of the previous page.
    pub(crate) after: Option<&'a str>,
    /// Maximum number of keys; `None` for the default of the store.
    pub(crate) most: Option<usize>,
}

/// Lists a page of a bucket, with retries, and follows the bucket to its region once.
pub(crate) async fn bucket_page(
    (service, bucket): (Service, &str),
    prefix: &str,
    wanted: Pages<'_>,
    options: &StoreOptions,
) -> Result<Page, StoreError> {
    let meter = &Meter::new(options);
    meter.listing();
    let (name, wanted) = (&format!("{bucket}/{prefix}"), &wanted);
    let location = &Location::Bucket { service, bucket: bucket.to_owned(), key: prefix.to_owned() };
    let pool = options.pool();
    let _slot = pool.slot(name).await?;
    let found = in_region(location, options, || async move {
        let pages = connect_bucket(service, bucket, prefix, Purpose::Reading, options)?.pages;
        let mut backoff = Backoff::of(options);
        loop {
            let seen = Seen::default();
            let mut how = PaginatedListOptions {
                delimiter: (!wanted.deep).then(|| "/".into()),
                page_token: wanted.after.map(str::to_owned),
                max_keys: wanted.most,
                ..PaginatedListOptions::default()
            };
            how.extensions.insert(seen.clone());
            let error = match pages.list_paginated(Some(prefix).filter(|it| !it.is_empty()), how).await {
                Ok(page) => return Ok(page),
                Err(object_store::Error::InvalidPath { source }) => {
                    let reason = format!("the listing has a key that is not read here: {source}");
                    return Err(StoreError::location(name, reason).into());
                }
                Err(error) => error,
            };
            if let Some(region) = seen.region() {
                return Err(StoreError::Region { name: name.clone(), region }.into());
            }
            let described = match (StoreError::remote(name, &error), seen.status()) {
                (StoreError::Unavailable { name, reason }, 401 | 403) => {
                    StoreError::Denied { name, reason, identity: None }
                }
                (StoreError::Unavailable { name, .. }, 404) => StoreError::NotFound { name },
                (other, _) => other,
            };
            let described = described.with_identity(|| options.access_to(location).1.identity(location));
            let broken = matches!(seen.status(), 200..=299);
            if described.kind() != ReadErrorKind::Unavailable || !(broken || seen.is_passing()) {
                return Err(described.into());
            }
            backoff.wait(described, &seen, meter).await?;
        }
    });
    let found = found.await.map_err(|failure| match failure {
        Failure::Other(error) | Failure::PastEnd(error) => error,
        Failure::NoRanges => no_listing(location),
    })?;
    let mut page = page(bucket, name, found);
    drop_empty_folders(&mut page, (service, bucket), prefix, options).await?;
    Ok(page)
}

/// Converts a page to URLs, sorts it, and drops folder markers.
fn page(bucket: &str, name: &str, found: PaginatedListResult) -> Page {
    let PaginatedListResult { result: ListResult { objects, common_prefixes, .. }, page_token } = found;
    let file = |object: &ObjectMeta| Listed::of_object(format!("{bucket}/{}", object.location), object);
    let mut files: Vec<_> = objects.iter().map(file).collect();
    let folder = |prefix| Folder { url: format!("{bucket}/{prefix}/"), is_link: false };
    let mut folders: Vec<_> = common_prefixes.into_iter().map(folder).collect();
    files.sort_unstable_by(|one, other| one.url.cmp(&other.url));
    folders.sort_unstable_by(|one, other| one.url.cmp(&other.url));
    drop_markers(&mut files, name);
    Page { files, folders, next: page_token }
}

/// Drops the markers of folders without files: empty objects that do not exist by their listed name, from which
/// `object_store` removes the `/` at the end.
async fn drop_empty_folders(
    page: &mut Page,
    (service, bucket): (Service, &str),
    prefix: &str,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let store = connect_bucket(service, bucket, prefix, Purpose::Writing, options)?.objects;
    let mut kept = Vec::with_capacity(page.files.len());
    for file in std::mem::take(&mut page.files) {
        let key = file.url.get(bucket.len() + 1..).unwrap_or_default();
        let is_marker = file.size == Some(0) && {
            let found = async { store.head(&object_store::path::Path::parse(key)?).await };
            matches!(found.await, Err(object_store::Error::NotFound { .. }))
        };
        if !is_marker {
            kept.push(file);
        }
    }
    page.files = kept;
    Ok(())
}

/// Drops folder markers: empty objects below which there are other objects, or that the listed prefix names.
fn drop_markers(files: &mut Vec<Listed>, prefix: &str) {
    let is_above = |url: &str, other: &str| other.strip_prefix(url).is_some_and(|rest| rest.starts_with('/'));
    let is_marker = |at: usize, file: &Listed| {
        let mut alike = files.iter().skip(at + 1).take_while(|next| next.url.starts_with(&file.url));
        file.size == Some(0)
            && (is_above(&file.url, prefix) || alike.any(|next| is_above(&file.url, &next.url)))
    };
    let markers: Vec<_> = files.iter().enumerate().map(|(at, file)| is_marker(at, file)).collect();
    let mut markers = markers.into_iter();
    files.retain(|_| !markers.next().unwrap_or_default());
}

/// Lists the entries of a local folder whose names start with a prefix.
fn local(path: &str) -> Result<Page, StoreError> {
    Location::Local(path.into()).check_text()?;
    let (folder, start) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = format!("{folder}/");
    let failed = StoreError::at(&folder);
    let mut page = Page::default();
    for entry in fs::read_dir(Path::new(&folder)).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        let is_text = name.to_str().is_some();
        let name = name_as_text(&name);
        // Others are listed, so that opening or listing them fails with the reason.
        if name.starts_with(start) || !is_text {
            add(&mut page, &entry, format!("file://{folder}{name}"));
        }
    }
    page.files.sort_unstable_by(|one, other| one.url.cmp(&other.url));
    page.folders.sort_unstable_by(|one, other| one.url.cmp(&other.url));
    Ok(page)
}

/// Adds an entry to the page. Follows symbolic links; a dangling link counts as a file without metadata. Skips pipes
/// and devices.
fn add(page: &mut Page, entry: &DirEntry, url: String) {
    let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
    match fs::metadata(entry.path()) {
        Ok(found) if found.is_dir() => page.folders.push(Folder { url: format!("{url}/"), is_link }),
        Ok(found) if found.is_file() => {
            page.files.push(Listed::of_metadata(&url, &found));
        }
        Ok(_) => {}
        Err(_) => page.files.push(Listed::of(url)),
    }
}

/// Maximum number of entries of a local folder: each page reads all of them.
const LARGEST: usize = 1_000_000;

/// Lists one level of a folder or key prefix: a page of at most `most` files and folders that can be opened and, unless
/// `hidden`, whose names do not start with a dot. Symbolic links that lead outside the allowed prefixes are omitted.
/// `after` is [`Page::next`] of the previous page. Blocks while it reads a local folder.
///
/// # Errors
/// [`StoreError::Location`] for a web server, which has no listing; errors of the store.
pub async fn list_folder(
    folder: &str,
    most: usize,
    after: Option<&str>,
    hidden: bool,
    options: &StoreOptions,
) -> Result<Page, StoreError> {
    let folder = format!("{}/", folder.strip_suffix('/').unwrap_or(folder));
    let allowed = options.allowed.as_ref();
    let is_listed = |url: &str| {
        let url = url.trim_end_matches('/');
        let name = url.rsplit('/').next().unwrap_or_default();
        (hidden || !name.starts_with('.')) && allowed.is_none_or(|allowed| allowed.check(url).is_ok())
    };
    let mut page = match Location::parse_prefix(&folder)? {
        Location::Local(path) => {
            // Without the slash at the end, for which a file does not exist.
            let path: PathBuf = path.components().collect();
            if let Some(allowed) = allowed {
                check_local(&folder, &path, allowed)?;
            }
            return local_folder(&path, most.max(1), after.unwrap_or_default(), allowed, is_listed);
        }
        Location::Bucket { service, bucket, key } => {
            if let Some(allowed) = allowed {
                allowed.check_listing(&folder)?;
            }
            bucket_page((service, &bucket), &key, Pages { deep: false, after, most: Some(most) }, options)
                .await?
        }
        location => return Err(no_listing(&location)),
    };
    page.files.retain(|file| is_listed(&file.url));
    page.folders.retain(|folder| is_listed(&folder.url));
    Ok(page)
}

/// Checks that a local folder may be listed, and that it exists.
fn check_local(url: &str, path: &Path, allowed: &Allowed) -> Result<(), StoreError> {
    let Err(refused) = allowed.check_listing(url) else { return Ok(()) };
    let is_missing = allowed.check(url.trim_end_matches('/')).is_ok() && !path.exists();
    if is_missing && allowed.check_new_folder(path).is_ok() {
        return Err(StoreError::NotFound { name: path.display().to_string() });
    }
    Err(refused)
}

/// Opens a folder and returns a path that leads to exactly this folder, whatever happens to its own path meanwhile.
#[cfg(target_os = "linux")]
fn opened(path: &Path, allowed: Option<&Allowed>) -> Result<(File, PathBuf), StoreError> {
    use std::os::fd::AsRawFd;
    let folder = File::open(path).map_err(StoreError::at(&path.display().to_string()))?;
    if let Some(allowed) = allowed {
        allowed.check_file(&folder, path)?;
    }
    let same = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    Ok((folder, same))
}

#[cfg(not(target_os = "linux"))]
fn opened(path: &Path, _allowed: Option<&Allowed>) -> Result<((), PathBuf), StoreError> {
    Ok(((), path.to_owned()))
}

/// Lists the first entries of a local folder after a name, in memory for a page.
fn local_folder(
    path: &Path,
    most: usize,
    after: &str,
    allowed: Option<&Allowed>,
    is_listed: impl Fn(&str) -> bool,
) -> Result<Page, StoreError> {
    let name = path.display().to_string();
    let failed = StoreError::at(&name);
    let url = folder_url(&name)?;
    if !fs::metadata(path).map_err(&failed)?.is_dir() {
        return Err(StoreError::Location { name, reason: "not a folder".to_owned() });
    }
    let (_open, same) = opened(path, allowed)?;
    // By name; that of a folder ends in `/`.
    let mut first = BTreeMap::new();
    for (at, entry) in fs::read_dir(&same).map_err(&failed)?.enumerate() {
        if at >= LARGEST {
            let reason = format!("the folder has more than {LARGEST} entries, which are too many to list");
            return Err(StoreError::Location { name, reason });
        }
        let entry = entry.map_err(&failed)?;
        let Some((name, is_link, found)) = entry_of(&entry, allowed) else { continue };
        if name.as_str() > after && is_listed(&format!("{url}{name}")) {
            first.insert(name, (is_link, found));
        }
        if first.len() > most.saturating_add(1) {
            first.pop_last();
        }
    }
    let mut page = Page::default();
    if first.len() > most {
        first.pop_last();
        page.next = first.last_key_value().map(|(name, _)| name.clone());
    }
    for (name, (is_link, found)) in first {
        let url = format!("{url}{name}");
        if found.is_dir() {
            page.folders.push(Folder { url, is_link });
        } else {
            page.files.push(Listed::of_metadata(&url, &found));
        }
    }
    Ok(page)
}

/// Returns the name of a file or folder, whether it is a symbolic link, and its metadata; `None` for pipes and devices, names
/// that are not UTF-8, and symbolic links that are dangling or lead outside the allowed prefixes.
fn entry_of(entry: &DirEntry, allowed: Option<&Allowed>) -> Option<(String, bool, Metadata)> {
    let mut name = entry.file_name().into_string().ok()?;
    let is_link = entry.file_type().ok()?.is_symlink();
    if is_link {
        let real = entry.path().canonicalize().ok()?;
        if allowed.is_some_and(|allowed| !allowed.holds_real(&real)) {
            return None;
        }
    }
    let found = if is_link { fs::metadata(entry.path()) } else { entry.metadata() }.ok()?;
    if found.is_dir() {
        name.push('/');
    }
    (found.is_dir() || found.is_file()).then_some((name, is_link, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_reported() {
        let listed = Listed {
            size: Some(5),
            etag: Some("\"one\"".to_owned()),
            modified: Some(10_000),
            ..Listed::of("a")
        };
        let compare = |size, etag: Option<&str>, modified| {
            let found =
                Listed { size: Some(size), etag: etag.map(str::to_owned), modified, ..Listed::default() };
            listed.compare("a", &found).map_err(|error| error.to_string())
        };
        assert_eq!(compare(5, Some("\"one\""), Some(70_000)), Ok(()), "the tag suffices");
        assert_eq!(compare(5, Some("one"), None), Ok(()), "with or without quotes");
        assert_eq!(compare(5, None, Some(10_999)), Ok(()));
        assert!(is_same_time(10_999, 10_000), "one of whole seconds");
        assert!(is_same_time(10_999, 10_998) && !is_same_time(10_999, 10_997), "rounded up or down");
        assert!(compare(5, None, Some(11_000)).unwrap_err().contains("time"));
        assert!(compare(5, Some("\"two\""), Some(10_000)).unwrap_err().contains("etag"));
        assert!(compare(6, Some("\"one\""), None).unwrap_err().contains("6 bytes, 5 were listed"));
    }

    #[test]
    fn weak_tags_are_not_demanded() {
        let of = |tag: &str| Listed { etag: Some(tag.to_owned()), ..Listed::of("a") }.demanded();
        assert_eq!(of("0x8D"), Some("\"0x8D\"".to_owned()));
        assert_eq!(of("\"a\""), Some("\"a\"".to_owned()));
        assert_eq!(of("W/\"a\""), None);
    }

    #[test]
    fn markers_of_folders_are_not_files() {
        let file = |(url, size): &(&str, u64)| Listed { size: Some(*size), ..Listed::of(*url) };
        let keys =
            [("s3://b/a", 0), ("s3://b/a.nc", 5), ("s3://b/a/x.nc", 5), ("s3://b/c", 0), ("s3://b/d", 1)];
        let mut files: Vec<_> = keys.iter().map(file).collect();
        drop_markers(&mut files, "s3://b/");
        let kept: Vec<_> = files.iter().map(|file| file.url.as_str()).collect();
        assert_eq!(kept, ["s3://b/a.nc", "s3://b/a/x.nc", "s3://b/c", "s3://b/d"]);
        let mut own = vec![file(&("s3://b/a", 0))];
        drop_markers(&mut own, "s3://b/a/");
        assert!(own.is_empty());
    }

    #[test]
    fn urls_of_folders() {
        assert_eq!(folder_url("s3a://b").unwrap(), "s3://b/");
        assert_eq!(folder_url("s3://b/x y/20").unwrap(), "s3://b/x y/20/");
        assert_eq!(folder_url("/data/").unwrap(), "file:///data/");
        assert_eq!(folder_url("/").unwrap(), "file:///");
        assert!(folder_url("https://host/a/").unwrap_err().to_string().contains("no listing"));
    }

    fn names(page: &Page) -> Vec<&str> {
        let urls =
            page.folders.iter().map(|folder| &folder.url).chain(page.files.iter().map(|file| &file.url));
        urls.map(|url| url.trim_end_matches('/').rsplit('/').next().unwrap()).collect()
    }

    #[tokio::test]
    async fn pages_have_each_entry_once_and_nothing_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::write(folder.path().join(name), name).unwrap();
        ["c.nc", "a.nc", ".hidden", ".virtualize-c.nc.lock", "b?.nc", "d e.nc"].into_iter().for_each(file);
        fs::create_dir(folder.path().join("a")).unwrap();
        let url = format!("file://{}", folder.path().display());
        let options =
            StoreOptions { allowed: Some(Allowed::parse([&url]).unwrap()), ..StoreOptions::default() };
        let whole = list_folder(&url, 10, None, false, &options).await.unwrap();
        assert_eq!(
            (names(&whole), whole.next.as_deref()),
            (vec!["a", "a.nc", "b?.nc", "c.nc", "d e.nc"], None)
        );
        assert_eq!(whole.files.first().and_then(|file| file.size), Some(4));
        let (mut all, mut after) = (Vec::new(), None);
        for _ in 0..5 {
            let page = list_folder(&url, 1, after.as_deref(), false, &options).await.unwrap();
            all.extend(names(&page).into_iter().map(str::to_owned));
            after = page.next;
        }
        assert_eq!(
            (all, after),
            (["a.nc", "a", "b?.nc", "c.nc", "d e.nc"].map(str::to_owned).to_vec(), None)
        );
        let file = list_folder(&format!("{url}/a.nc"), 1, None, false, &options).await.unwrap_err();
        assert!(matches!(file, StoreError::Location { .. }), "{file}");
        let missing = list_folder(&format!("{url}/none/"), 1, None, false, &options).await.unwrap_err();
        assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
        let outside = list_folder("file:///", 1, None, false, &options).await.unwrap_err();
        assert!(matches!(outside, StoreError::NotAllowed { .. }), "{outside}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_that_lead_outside_are_omitted() {
        use std::os::unix::fs::symlink;
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("secret.nc"), "").unwrap();
        fs::write(folder.path().join("a.nc"), "").unwrap();
        for (target, name) in [
            (other.path().to_owned(), "out"),
            (other.path().join("secret.nc"), "out.nc"),
            (folder.path().join("a.nc"), "in.nc"),
            (folder.path().join("gone"), "gone"),
        ] {
            symlink(target, folder.path().join(name)).unwrap();
        }
        let url = format!("file://{}/", folder.path().display());
        let options =
            StoreOptions { allowed: Some(Allowed::parse([&url]).unwrap()), ..StoreOptions::default() };
        let page = list_folder(&url, 10, None, false, &options).await.unwrap();
        assert_eq!(names(&page), ["a.nc", "in.nc"]);
        for below in ["out/", "out/none/"] {
            let error = list_folder(&format!("{url}{below}"), 10, None, false, &options).await.unwrap_err();
            assert!(matches!(error, StoreError::NotAllowed { .. }), "{error}");
        }
    }
}
