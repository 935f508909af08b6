//! URL prefixes that restrict which files may be opened, for programs that open URLs from untrusted users.

mod place;
mod web;

use std::{fs::File, path::PathBuf, sync::Arc};

use bytes::Bytes;
use object_store::client::HttpClient;

use crate::{StoreError, location::Location};
use place::Place;

/// Allowed URL prefixes; a URL must start with one of them. Cheap to clone.
///
/// URLs are compared in one canonical form and by whole path segments. A URL without a canonical form (`..`, `.`, empty
/// segments, backslashes, control characters, user names, queries) is rejected. For a local file, the real path of the
/// opened file is compared, so that no symbolic link escapes the prefix. Connections to web servers use no proxy,
/// follow no redirect, and reach only public addresses, unless a prefix names the address itself (or `localhost`).
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Sets of prefixes; a URL must match at least one prefix of every set.
    sets: Vec<Arc<Vec<Prefix>>>,
    /// Shared client for web servers.
    web: web::Web,
}

/// A prefix: a folder, part of a bucket or web server, or a single file.
#[derive(Debug)]
struct Prefix {
    place: Place,
    /// Real path of a local prefix, with symbolic links resolved; `None` for other prefixes.
    real: Option<PathBuf>,
}

impl Allowed {
    /// Parses prefixes such as `s3://bucket/data/`, `https://host/` and `file:///data/`. Local prefixes must exist.
    ///
    /// # Errors
    /// [`StoreError::Location`] for an invalid prefix, or if there are no prefixes.
    pub fn parse<T: AsRef<str>>(prefixes: impl IntoIterator<Item = T>) -> Result<Self, StoreError> {
        let set = prefixes.into_iter().map(|text| Prefix::parse(text.as_ref()));
        let set = set.collect::<Result<Vec<_>, _>>()?;
        if set.is_empty() {
            let reason = "no prefix is allowed, so that nothing could be opened".to_owned();
            return Err(StoreError::Location { name: "allowed prefixes".to_owned(), reason });
        }
        let web = web::Web::new(set.iter().any(|prefix| prefix.place.is_localhost()));
        Ok(Self { sets: vec![Arc::new(set)], web })
    }

    /// Returns the intersection: a URL must be allowed by both.
    pub fn and(&self, other: &Self) -> Self {
        Self { sets: self.sets.iter().chain(&other.sets).cloned().collect(), web: self.web.clone() }
    }

    /// Returns the prefixes, for messages. After [`Allowed::and`], only those of the last and narrowest set.
    pub fn prefixes(&self) -> Vec<&str> {
        self.sets.last().into_iter().flat_map(|set| set.iter().map(|prefix| prefix.place.url())).collect()
    }

    /// Returns the canonical form of an allowed URL, without accessing the file system or the network.
    ///
    /// # Errors
    /// [`StoreError::Location`] for a URL without a canonical form, [`StoreError::NotAllowed`] for one outside the
    /// allowed prefixes.
    pub fn check(&self, url: &str) -> Result<String, StoreError> {
        let place = Place::parse(url)?;
        match self.sets.iter().all(|set| set.iter().any(|prefix| prefix.place.holds(&place))) {
            true => Ok(place.url().to_owned()),
            false => Err(StoreError::NotAllowed { name: place.url().to_owned() }),
        }
    }

    /// Returns the canonical form of a URL that may be written, without its trailing slash. The real path of a local
    /// output's folder must be within a prefix, and the output itself must not be a symbolic link.
    ///
    /// # Errors
    /// As [`Allowed::check`].
    pub fn check_output(&self, url: &str) -> Result<String, StoreError> {
        let canonical = self.check(url.strip_suffix('/').unwrap_or(url))?;
        if let Some(path) = canonical.strip_prefix("file://") {
            self.check_listing(&canonical)?;
            // Rejects symbolic links, and pipes and devices, which would be written directly.
            if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
                return Err(StoreError::NotAllowed { name: canonical });
            }
        }
        Ok(canonical)
    }

    /// Checks that a folder may be created for outputs: the real path of its nearest existing ancestor must be within a
    /// prefix.
    ///
    /// # Errors
    /// [`StoreError::NotAllowed`].
    pub fn check_new_folder(&self, folder: &std::path::Path) -> Result<(), StoreError> {
        let refused = || StoreError::NotAllowed { name: folder.display().to_string() };
        let there = folder.ancestors().find(|above| above.symlink_metadata().is_ok()).ok_or_else(refused)?;
        let real = there.canonicalize().map_err(|_| refused())?;
        self.holds_real(&real).then_some(()).ok_or_else(refused)
    }

    /// Checks that the real path of a temporary file or folder, which will be renamed once complete, is within a
    /// prefix.
    ///
    /// # Errors
    /// As [`Allowed::check`].
    pub(crate) fn check_side(&self, side: &std::path::Path) -> Result<(), StoreError> {
        let name = side.display().to_string();
        self.check_file(&File::open(side).map_err(|error| StoreError::io(&name, &error))?, side)
    }

    /// Returns whether a real path is within a prefix of every set.
    pub(crate) fn holds_real(&self, real: &std::path::Path) -> bool {
        let within = |prefix: &Prefix| prefix.real.as_ref().is_some_and(|folder| real.starts_with(folder));
        self.sets.iter().all(|set| set.iter().any(within))
    }

    /// Checks that the files that start with a URL may be listed: the folder that contains all of them must be allowed.
    pub(crate) fn check_listing(&self, start: &str) -> Result<(), StoreError> {
        let folder = start.rsplit_once('/').map_or(start, |(folder, _)| folder);
        let folder = if folder.ends_with('/') { start } else { folder };
        let place = Place::parse_prefix(folder)?;
        let refused = || StoreError::NotAllowed { name: place.url().to_owned() };
        let real = match place.local_path() {
            Some(path) => Some(path.canonicalize().map_err(|_| refused())?),
            None => None,
        };
        let within = |prefix: &Prefix| {
            let really = match (&real, &prefix.real) {
                (Some(real), Some(folder)) => real.starts_with(folder),
                (None, None) => true,
                _ => false,
            };
            really && prefix.place.holds(&place)
        };
        match self.sets.iter().all(|set| set.iter().any(within)) {
            true => Ok(()),
            false => Err(refused()),
        }
    }

    /// Checks that a parsed location is still allowed.
    pub(crate) fn check_location(&self, location: &Location) -> Result<(), StoreError> {
        match location {
            // Checked by real path once the file is open.
            Location::Local(_) => Ok(()),
            other => self.check(&other.url()).map(drop),
        }
    }

    /// Checks that the real path of an open local file is within a prefix.
    pub(crate) fn check_file(&self, file: &File, path: &std::path::Path) -> Result<(), StoreError> {
        let name = || path.display().to_string();
        let real = real_path(file, path).map_err(|error| StoreError::io(&name(), &error))?;
        match self.holds_real(&real) {
            true => Ok(()),
            false => Err(StoreError::NotAllowed { name: name() }),
        }
    }

    /// Returns the canonical form of a URL that may be posted to, which may end in a slash.
    ///
    /// # Errors
    /// As [`Allowed::check`].
    pub fn check_post(&self, url: &str) -> Result<String, StoreError> {
        let canonical = self.check(url.strip_suffix('/').unwrap_or(url))?;
        let is_slash_missing = url.ends_with('/') && !canonical.ends_with('/');
        Ok(if is_slash_missing { canonical + "/" } else { canonical })
    }

    /// Posts a body to an allowed URL on a web server, and returns the status. The connection is made as for reading:
    /// to a permitted address, without a proxy, and following no redirect.
    ///
    /// # Errors
    /// As [`Allowed::check`], and [`StoreError::Unavailable`] if there is no response.
    pub async fn post(&self, url: &str, headers: &[(&str, &str)], body: Bytes) -> Result<u16, StoreError> {
        let url = self.check_post(url)?;
        self.web
            .post(&url, headers, body)
            .await
            .map_err(|error| StoreError::Unavailable { name: url, reason: error.without_url().to_string() })
    }

    /// Returns the client for web servers.
    pub(crate) fn client(&self) -> object_store::Result<HttpClient> {
        self.web.client()
    }
}

impl Prefix {
    fn parse(text: &str) -> Result<Self, StoreError> {
        let place = Place::parse_prefix(text)?;
        let real = place.local_path().map(|path| {
            path.canonicalize().map_err(|error| StoreError::io(&path.display().to_string(), &error))
        });
        Ok(Self { real: real.transpose()?, place })
    }
}

/// Returns the real path of an open file, as the kernel reports it.
#[cfg(target_os = "linux")]
fn real_path(file: &File, _path: &std::path::Path) -> std::io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns the real path of an open file: resolves its path again, and fails if that path now leads to another file.
#[cfg(all(unix, not(target_os = "linux")))]
fn real_path(file: &File, path: &std::path::Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let real = path.canonicalize()?;
    let (opened, found) = (file.metadata()?, std::fs::symlink_metadata(&real)?);
    match (opened.dev(), opened.ino()) == (found.dev(), found.ino()) {
        true => Ok(real),
        false => Err(std::io::Error::other("the path leads elsewhere now")),
    }
}

/// Returns the real path of an open file: resolves its path again.
#[cfg(not(unix))]
fn real_path(_file: &File, path: &std::path::Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_compared_by_segments() {
        let allowed = Allowed::parse(["https://Host:443/data", "s3://bucket/a/", "s3a://all"]).unwrap();
        for (url, canonical) in [
            ("https://host/data/x.nc", "https://host/data/x.nc"),
            ("HTTPS://HOST:443/data/a%20b", "https://host/data/a%20b"),
            ("https://host/d%61ta/x", "https://host/d%61ta/x"),
            ("https://host/data", "https://host/data"),
            ("s3a://bucket/a/x y?.nc", "s3://bucket/a/x y?.nc"),
            ("s3://all/x", "s3://all/x"),
        ] {
            assert_eq!(allowed.check(url).as_deref(), Ok(canonical), "{url}");
        }
        for url in [
            "https://host/database/x",
            "https://host/",
            "https://host:8443/data/x",
            "http://host/data/x",
            "https://host.evil/data/x",
            "https://host./data/x",
            "s3://bucket/ab",
            "s3://bucket2/a/x",
            "s3://allx/x",
            "gs://bucket/a/x",
            "file:///data/x",
        ] {
            assert!(matches!(allowed.check(url), Err(StoreError::NotAllowed { .. })), "{url}");
        }
    }

    #[test]
    fn what_has_no_canonical_form_is_refused() {
        let allowed = Allowed::parse(["https://host/data/", "s3://bucket", "file:///"]).unwrap();
        for url in [
            "https://host/data/../x",
            "https://host/data/%2e%2e/x",
            "https://host/data/%2E./x",
            "https://host/data/./x",
            "https://host/data//x",
            "https://host/data/..%2fx",
            "https://host/data/a%5c..%5cx",
            "https://host/data\\x",
            "https://host/data/x%00",
            "https://host/data/x\0",
            "https://host/data/\nx",
            "https://me@host/data/x",
            "https://me:pass@host/data/x",
            "https://@host/data/x",
            "https://host/data/x?sig=1",
            "https://host/data/x#y",
            " https://host/data/x",
            "https:///host/data/x",
            "https:/host/data/x",
            "s3://bucket/a/../b",
            "s3://bucket/a//b",
            "s3://bucket//b",
            "s3://bucket/%2e%2e/b",
            "s3://bucket",
            "s3://bucket/a/",
            "s3://me@bucket/a",
            "file:///a/../b",
            "file:///a/%2e%2e/b",
            "file://host/a",
            "file://localhost/a",
            "file:////a",
            "file:///a?b",
            "file:///a#b",
            "/etc/passwd",
            "a.nc",
            "",
            "ftp://host/a",
            "data:,x",
        ] {
            assert!(matches!(allowed.check(url), Err(StoreError::Location { .. })), "{url:?}");
        }
        let long = format!("https://host/data/{}", "x".repeat(5000));
        assert!(allowed.check(&long).is_err());
    }

    #[test]
    fn folders_are_listed_where_all_of_them_is_allowed() {
        let allowed = Allowed::parse(["s3://bucket/a/", "s3://all"]).unwrap();
        for start in ["s3://bucket/a/", "s3://bucket/a/20", "s3://bucket/a/b/", "s3://all/", "s3://all/x"] {
            assert_eq!(allowed.check_listing(start), Ok(()), "{start}");
        }
        for start in [
            "s3://bucket/",
            "s3://bucket/a",
            "s3://bucket/ab/",
            "s3://bucket/a/../",
            "s3://other/",
            "file:///",
        ] {
            assert!(allowed.check_listing(start).is_err(), "{start}");
        }
    }

    #[test]
    fn both_of_two_must_allow() {
        let all = Allowed::parse(["s3://bucket/"]).unwrap();
        let some = all.and(&Allowed::parse(["s3://bucket/a/", "s3://other/"]).unwrap());
        assert!(some.check("s3://bucket/a/x").is_ok());
        assert!(some.check("s3://bucket/b/x").is_err());
        assert!(some.check("s3://other/x").is_err());
    }

    #[test]
    fn names_for_messages_hold_no_secrets() {
        let allowed = Allowed::parse(["s3://bucket/"]).unwrap();
        let said = |url| allowed.check(url).unwrap_err().to_string();
        for url in ["https://me:secret@host/a", "https://host/a?X-Signature=secret"] {
            assert!(!said(url).contains("secret"), "{}", said(url));
        }
    }

    #[test]
    fn nothing_allowed_is_an_error() {
        assert!(Allowed::parse([""; 0]).is_err());
        for prefix in [
            "",
            "/data",
            "data",
            "https://",
            "s3://",
            "file:///no/such/folder",
            "ftp://host/",
            "https://host/?a",
        ] {
            assert!(Allowed::parse([prefix]).is_err(), "{prefix:?}");
        }
    }
}
