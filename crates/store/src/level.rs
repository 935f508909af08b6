use std::{
    collections::BinaryHeap,
    fs::{self, DirEntry, File},
    path::{Path, PathBuf},
};

use crate::{
    Allowed, Listed, StoreError, StoreOptions,
    listing::{Folder, Page, Pages, bucket_page, folder_url, no_listing},
    location::Location,
};

/// Maximum number of entries of a local folder: each page reads all of them.
const LARGEST: usize = 1_000_000;

/// Lists one level of a folder or key prefix: a page of at most `most` files and folders that can be opened and whose
/// names do not start with a dot. Symbolic links that lead outside the allowed prefixes are omitted. `after` is
/// [`Page::next`] of the previous page. Blocks while it reads a local folder.
///
/// # Errors
/// [`StoreError::Location`] for a web server, which has no listing; errors of the store.
pub async fn list_folder(
    folder: &str,
    most: usize,
    after: Option<&str>,
    options: &StoreOptions,
) -> Result<Page, StoreError> {
    let folder = format!("{}/", folder.strip_suffix('/').unwrap_or(folder));
    let allowed = options.allowed.as_ref();
    let is_listed = |url: &str| {
        let url = url.trim_end_matches('/');
        let name = url.rsplit('/').next().unwrap_or_default();
        !name.starts_with('.') && allowed.is_none_or(|allowed| allowed.check(url).is_ok())
    };
    let mut page = match Location::parse_prefix(&folder)? {
        Location::Local(path) => {
            // Without the slash at the end, for which a file does not exist.
            let path: PathBuf = path.components().collect();
            if let Some(allowed) = allowed {
                check_local(&folder, &path, allowed)?;
            }
            return local(&path, most.max(1), after.unwrap_or_default(), allowed, is_listed);
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
    match is_missing && allowed.check_new_folder(path).is_ok() {
        true => Err(StoreError::NotFound { name: path.display().to_string() }),
        false => Err(refused),
    }
}

/// Opens a folder and returns a path that leads to exactly this folder, whatever happens to its own path meanwhile.
#[cfg(target_os = "linux")]
fn opened(path: &Path, allowed: Option<&Allowed>) -> Result<(File, PathBuf), StoreError> {
    use std::os::fd::AsRawFd;
    let folder = File::open(path).map_err(|error| StoreError::io(&path.display().to_string(), &error))?;
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

/// An entry of a page, ordered by name. The name of a folder ends in `/`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    name: String,
    is_link: bool,
    size: u64,
    modified: Option<i64>,
}

/// Lists the first entries of a local folder after a name, in memory for a page.
fn local(
    path: &Path,
    most: usize,
    after: &str,
    allowed: Option<&Allowed>,
    is_listed: impl Fn(&str) -> bool,
) -> Result<Page, StoreError> {
    let name = path.display().to_string();
    let failed = |error: &std::io::Error| StoreError::io(&name, error);
    let url = folder_url(&name)?;
    if !fs::metadata(path).map_err(|error| failed(&error))?.is_dir() {
        return Err(StoreError::Location { name, reason: "not a folder".to_owned() });
    }
    let (_open, same) = opened(path, allowed)?;
    let mut first = BinaryHeap::new();
    for (at, entry) in fs::read_dir(&same).map_err(|error| failed(&error))?.enumerate() {
        if at >= LARGEST {
            let reason = format!("the folder has more than {LARGEST} entries, which are too many to list");
            return Err(StoreError::Location { name, reason });
        }
        let entry = entry.map_err(|error| failed(&error))?;
        let Some(entry) = entry_of(&entry, allowed) else { continue };
        if entry.name.as_str() > after && is_listed(&format!("{url}{}", entry.name)) {
            first.push(entry);
        }
        if first.len() > most.saturating_add(1) {
            first.pop();
        }
    }
    let mut entries = first.into_sorted_vec();
    let is_last = entries.len() <= most;
    entries.truncate(most);
    let next = entries.last().filter(|_| !is_last).map(|entry| entry.name.clone());
    let mut page = Page { next, ..Page::default() };
    for entry in entries {
        let url = format!("{url}{}", entry.name);
        match entry.name.ends_with('/') {
            true => page.folders.push(Folder { url, is_link: entry.is_link }),
            false => page.files.push(Listed {
                size: Some(entry.size),
                modified: entry.modified,
                ..Listed::of(url)
            }),
        }
    }
    Ok(page)
}

/// Returns a file or folder; `None` for pipes and devices, names that are not UTF-8, and symbolic links that lead
/// nowhere or outside the allowed prefixes.
fn entry_of(entry: &DirEntry, allowed: Option<&Allowed>) -> Option<Entry> {
    let mut name = entry.file_name().into_string().ok()?;
    let is_link = entry.file_type().ok()?.is_symlink();
    if is_link {
        let real = entry.path().canonicalize().ok()?;
        if allowed.is_some_and(|allowed| !allowed.holds_real(&real)) {
            return None;
        }
    }
    let found = if is_link { fs::metadata(entry.path()) } else { entry.metadata() }.ok()?;
    match (found.is_dir(), found.is_file()) {
        (true, _) => name.push('/'),
        (_, true) => {}
        _ => return None,
    }
    let Listed { modified, .. } = Listed::of_metadata("", &found);
    Some(Entry { name, is_link, size: found.len(), modified })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let whole = list_folder(&url, 10, None, &options).await.unwrap();
        assert_eq!((names(&whole), whole.next.as_deref()), (vec!["a", "a.nc", "c.nc", "d e.nc"], None));
        assert_eq!(whole.files.first().and_then(|file| file.size), Some(4));
        let (mut all, mut after) = (Vec::new(), None);
        for _ in 0..4 {
            let page = list_folder(&url, 1, after.as_deref(), &options).await.unwrap();
            all.extend(names(&page).into_iter().map(str::to_owned));
            after = page.next;
        }
        assert_eq!((all, after), (["a.nc", "a", "c.nc", "d e.nc"].map(str::to_owned).to_vec(), None));
        let file = list_folder(&format!("{url}/a.nc"), 1, None, &options).await.unwrap_err();
        assert!(matches!(file, StoreError::Location { .. }), "{file}");
        let missing = list_folder(&format!("{url}/none/"), 1, None, &options).await.unwrap_err();
        assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
        let outside = list_folder("file:///", 1, None, &options).await.unwrap_err();
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
        let page = list_folder(&url, 10, None, &options).await.unwrap();
        assert_eq!(names(&page), ["a.nc", "in.nc"]);
        for below in ["out/", "out/none/"] {
            let error = list_folder(&format!("{url}{below}"), 10, None, &options).await.unwrap_err();
            assert!(matches!(error, StoreError::NotAllowed { .. }), "{error}");
        }
    }
}
