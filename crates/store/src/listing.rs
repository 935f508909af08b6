use std::{
    fs::{self, DirEntry},
    path::Path,
};

use object_store::{
    ListResult, ObjectStoreExt,
    list::{PaginatedListOptions, PaginatedListResult},
};
use virtualize_bytes::ReadErrorKind;

use crate::{
    Listed, StoreError, StoreOptions,
    clients::{Purpose, Seen},
    connect::connect_bucket,
    location::{Location, Service, name_as_text},
    meter::Meter,
    region,
    retry::Backoff,
};

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
    let reason =
        "a web server has no listing: give urls of files, a list of them, or a STAC catalogue".to_owned();
    StoreError::Location { name: location.name(), reason }
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
    let name = format!("{bucket}/{prefix}");
    let location = Location::Bucket { service, bucket: bucket.to_owned(), key: prefix.to_owned() };
    let region = region::of(&location, options);
    let mut pages = connect_bucket(service, bucket, Purpose::Reading, options)?.pages;
    let pool = options.pool();
    let _slot = pool.slot(&name).await?;
    let mut backoff = Backoff::of(options);
    let mut moved = false;
    let found = loop {
        let seen = Seen::default();
        let how = page_options(&wanted, &seen);
        let error = match pages.list_paginated(Some(prefix).filter(|it| !it.is_empty()), how).await {
            Ok(page) => break page,
            Err(object_store::Error::InvalidPath { source }) => {
                let reason = format!("the listing has a key that is not read here: {source}");
                return Err(StoreError::Location { name, reason });
            }
            Err(error) => error,
        };
        if let Some(elsewhere) = seen.region() {
            let error = StoreError::Region { name: name.clone(), region: elsewhere };
            if moved || !region::follow(&location, &error, region.as_deref(), options) {
                return Err(error);
            }
            moved = true;
            pages = connect_bucket(service, bucket, Purpose::Reading, options)?.pages;
            continue;
        }
        let described = StoreError::answered(&name, &error, seen.status());
        let broken = matches!(seen.status(), 200..=299);
        if described.kind() != ReadErrorKind::Unavailable || !(broken || seen.is_passing()) {
            return Err(described);
        }
        backoff.wait(described, &seen, meter).await?;
    };
    let mut page = page(bucket, &name, found);
    drop_empty_folders(&mut page, bucket, service, options).await?;
    Ok(page)
}

/// Converts a page to URLs, sorts it, and drops folder markers.
fn page(bucket: &str, name: &str, found: PaginatedListResult) -> Page {
    let PaginatedListResult { result: ListResult { objects, common_prefixes, .. }, page_token } = found;
    let mut files: Vec<_> = objects
        .into_iter()
        .map(|object| Listed {
            url: format!("{bucket}/{}", object.location),
            size: Some(object.size),
            etag: object.e_tag.filter(|tag| !tag.is_empty()),
            modified: Some(object.last_modified.timestamp_millis()).filter(|time| *time > 0),
        })
        .collect();
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
    bucket: &str,
    service: Service,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let store = connect_bucket(service, bucket, Purpose::Writing, options)?.objects;
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

/// Returns the options of a request for a page.
fn page_options(wanted: &Pages<'_>, seen: &Seen) -> PaginatedListOptions {
    let mut how = PaginatedListOptions {
        delimiter: (!wanted.deep).then(|| "/".into()),
        page_token: wanted.after.map(str::to_owned),
        max_keys: wanted.most,
        ..PaginatedListOptions::default()
    };
    how.extensions.insert(seen.clone());
    how
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
    let failed = |error: &std::io::Error| StoreError::io(&folder, error);
    let mut page = Page::default();
    for entry in fs::read_dir(Path::new(&folder)).map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_folders_are_no_files() {
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
}
