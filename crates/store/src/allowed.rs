//! URL prefixes that restrict which files may be opened, for programs that open URLs from untrusted users.

use std::{
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use object_store::client::HttpClient;
use percent_encoding::{percent_decode, percent_decode_str};
use reqwest::{
    ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
};
use url::Url;

use crate::{StoreError, clients::client, connect::client_options, error::without_query, location::Location};

/// Allowed URL prefixes; a URL must start with one of them. Cheap to clone.
///
/// URLs are compared in one canonical form and by whole path segments. A URL without a canonical form (`..`, `.`, empty
/// segments, control characters, and of web servers backslashes, user names and queries) is rejected. For a local file, the real path of the
/// opened file is compared, so that no symbolic link escapes the prefix. Connections to web servers use no proxy,
/// follow no redirect, and reach only public addresses, unless a prefix names the address itself (or `localhost`).
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Sets of prefixes; a URL must match at least one prefix of every set.
    sets: Vec<Arc<Vec<Prefix>>>,
    resolver: Resolver,
    /// Client for web servers, created on first use and shared, so that connections are reused.
    client: Arc<OnceLock<HttpClient>>,
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
        let prefix = |text: T| {
            let place = Place::parse_prefix(text.as_ref())?;
            let real = place
                .local_path()
                .map(|path| path.canonicalize().map_err(StoreError::at(&path.display().to_string())));
            Ok(Prefix { real: real.transpose()?, place })
        };
        let set = prefixes.into_iter().map(prefix).collect::<Result<Vec<_>, StoreError>>()?;
        if set.is_empty() {
            let reason = "no prefix is allowed, so that nothing could be opened";
            return Err(StoreError::location("allowed prefixes", reason));
        }
        let resolver = Resolver { localhost: set.iter().any(|prefix| prefix.place.is_localhost()) };
        Ok(Self { sets: vec![Arc::new(set)], resolver, client: Arc::default() })
    }

    /// Returns the intersection: a URL must be allowed by both.
    pub fn and(&self, other: &Self) -> Self {
        Self { sets: self.sets.iter().chain(&other.sets).cloned().collect(), ..self.clone() }
    }

    /// Returns the prefixes, for messages. After [`Allowed::and`], only those of the last and narrowest set.
    pub fn prefixes(&self) -> Vec<&str> {
        self.sets
            .last()
            .into_iter()
            .flat_map(|set| set.iter().map(|prefix| prefix.place.url.as_str()))
            .collect()
    }

    /// Returns the canonical form of an allowed URL, without accessing the file system or the network.
    ///
    /// # Errors
    /// [`StoreError::Location`] for a URL without a canonical form, [`StoreError::NotAllowed`] for one outside the
    /// allowed prefixes.
    pub fn check(&self, url: &str) -> Result<String, StoreError> {
        let place = Place::parse(url)?;
        if self.sets.iter().all(|set| set.iter().any(|prefix| prefix.place.holds(&place))) {
            Ok(place.url)
        } else {
            Err(StoreError::NotAllowed { name: place.url })
        }
    }

    /// Checks that a folder may be created for outputs: the real path of its nearest existing ancestor must be within a
    /// prefix.
    ///
    /// # Errors
    /// [`StoreError::NotAllowed`].
    pub fn check_new_folder(&self, folder: &Path) -> Result<(), StoreError> {
        let refused = || StoreError::NotAllowed { name: folder.display().to_string() };
        let there = folder.ancestors().find(|above| above.symlink_metadata().is_ok()).ok_or_else(refused)?;
        let real = there.canonicalize().map_err(|_| refused())?;
        self.holds_real(&real).then_some(()).ok_or_else(refused)
    }

    /// Returns whether a real path is within a prefix of every set.
    pub(crate) fn holds_real(&self, real: &Path) -> bool {
        let within = |prefix: &Prefix| prefix.real.as_ref().is_some_and(|folder| real.starts_with(folder));
        self.sets.iter().all(|set| set.iter().any(within))
    }

    /// Checks that the files that start with a URL may be listed: the folder that contains all of them must be allowed.
    pub(crate) fn check_listing(&self, start: &str) -> Result<(), StoreError> {
        let folder = start.rsplit_once('/').map_or(start, |(folder, _)| folder);
        let folder = if folder.ends_with('/') { start } else { folder };
        let place = Place::parse_prefix(folder)?;
        let refused = || StoreError::NotAllowed { name: place.url.clone() };
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
        self.sets.iter().all(|set| set.iter().any(within)).then_some(()).ok_or_else(refused)
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
    pub(crate) fn check_file(&self, file: &File, path: &Path) -> Result<(), StoreError> {
        let name = path.display().to_string();
        let real = real_path(file, path).map_err(StoreError::at(&name))?;
        self.holds_real(&real).then_some(()).ok_or(StoreError::NotAllowed { name })
    }

    /// Returns the client for web servers. It follows no redirects, and uses no proxy, since a proxy resolves names itself.
    pub(crate) fn client(&self) -> object_store::Result<HttpClient> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let adapted = |builder: ClientBuilder| builder.no_proxy().dns_resolver(Arc::new(self.resolver));
        let client = client(&client_options().with_allow_http(true), adapted)?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// Returns the real path of an open file, as the kernel reports it.
#[cfg(target_os = "linux")]
fn real_path(file: &File, _path: &Path) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns the real path of an open file: resolves its path again, and fails if that path now leads to another file.
#[cfg(all(unix, not(target_os = "linux")))]
fn real_path(file: &File, path: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let real = path.canonicalize()?;
    let (opened, found) = (file.metadata()?, std::fs::symlink_metadata(&real)?);
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        return Err(io::Error::other("the path leads elsewhere now"));
    }
    Ok(real)
}

/// Returns the real path of an open file: resolves its path again.
#[cfg(not(unix))]
fn real_path(_file: &File, path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Maximum length of a URL in bytes.
const LONGEST: usize = 4096;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    /// Scheme, host and port, or scheme and bucket; `file://` alone.
    origin: String,
    /// Path segments: percent-decoded for web servers and local disks, verbatim for buckets.
    segments: Vec<Vec<u8>>,
    /// Canonical form.
    url: String,
}

impl Place {
    /// Parses the URL of a file.
    fn parse(url: &str) -> Result<Self, StoreError> {
        let place = Self::read(url).map_err(|reason| invalid(url, reason))?;
        if place.segments.is_empty() && !place.origin.starts_with("http") {
            return Err(invalid(url, "names no file"));
        }
        Ok(place)
    }

    /// Parses a prefix of URLs. A trailing slash has no meaning.
    fn parse_prefix(prefix: &str) -> Result<Self, StoreError> {
        let text = match prefix.split_once("://") {
            Some(("file", "/")) => prefix,
            Some((_, rest)) if rest.contains('/') => prefix.strip_suffix('/').unwrap_or(prefix),
            _ => prefix,
        };
        Self::read(text).map_err(|reason| invalid(prefix, reason))
    }

    /// Returns whether another place is equal to this one or below it.
    fn holds(&self, other: &Self) -> bool {
        self.origin == other.origin && other.segments.starts_with(&self.segments)
    }

    /// Returns whether the place is on a web server named `localhost`.
    fn is_localhost(&self) -> bool {
        let host = self.origin.strip_prefix("http://").or_else(|| self.origin.strip_prefix("https://"));
        host.is_some_and(|host| host == "localhost" || host.starts_with("localhost:"))
    }

    /// Returns the path of a local place, verbatim; `None` for other places.
    fn local_path(&self) -> Option<PathBuf> {
        (self.origin == "file://").then(|| PathBuf::from(self.url.trim_start_matches("file://")))
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("longer than 4096 bytes");
        }
        if text.contains(char::is_control) {
            return Err("contains a control character");
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("not an absolute URL, such as s3://bucket/key or file:///folder/file")?;
        match scheme.to_ascii_lowercase().as_str() {
            "file" => local(rest),
            scheme @ ("http" | "https") => web_place(scheme, rest),
            "s3" | "s3a" => bucket("s3", rest),
            "gs" | "gcs" => bucket("gs", rest),
            "az" | "azure" | "adl" => bucket("az", rest),
            scheme @ ("abfs" | "abfss") => bucket(scheme, rest),
            _ => Err("unknown scheme, expected file, http, https, s3, gs, az, abfs or abfss"),
        }
    }
}

fn local(rest: &str) -> Result<Place, &'static str> {
    let path = rest.strip_prefix('/').ok_or("expected file:/// and an absolute path")?;
    let segments = segments(path, if cfg!(unix) { Names::Any } else { Names::Web })?;
    Ok(Place { origin: "file://".to_owned(), segments, url: format!("file:///{path}") })
}

fn bucket(scheme: &str, rest: &str) -> Result<Place, &'static str> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let may_have_account = scheme.starts_with("abfs");
    if bucket.is_empty() || (bucket.contains('@') && !may_have_account) {
        return Err("expected a bucket and the key of an object");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if !bucket.chars().all(plain) || matches!(bucket, "." | "..") {
        return Err("no name of a bucket");
    }
    let origin = format!("{scheme}://{bucket}");
    let url = if key.is_empty() { origin.clone() } else { format!("{origin}/{key}") };
    // Keys are compared verbatim.
    segments(key, Names::Any)?;
    let segments = key.split('/').filter(|_| !key.is_empty()).map(|name| name.as_bytes().to_vec()).collect();
    Ok(Place { segments, origin, url })
}

fn web_place(scheme: &str, rest: &str) -> Result<Place, &'static str> {
    if rest.contains(['?', '#']) {
        return Err("urls with a query or fragment are not taken: they may hold credentials");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || authority.contains('@') {
        return Err("expected a host without a user name");
    }
    if authority.contains('\\') {
        return Err("contains a backslash");
    }
    let segments = segments(path, Names::Web)?;
    let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| "not a url")?;
    let (host, port) = (url.host_str().ok_or("not a url")?, url.port());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let origin = format!("{scheme}://{host}{port}");
    Ok(Place { origin, segments, url: url.to_string() })
}

/// Names that a path may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Those of local files and of keys: a backslash and an escaped slash are ordinary characters.
    Any,
    /// Those without a backslash and without an escaped slash, which a web server may take for a slash.
    Web,
}

/// Splits a path into segments, percent-decoded. Rejects a segment that is not a plain name after zero, one or two rounds
/// of percent-decoding. Servers may take a backslash or an escaped slash for a slash, and ignore path parameters, which
/// follow a semicolon, so none of what these separate may be `.` or `..`.
fn segments(path: &str, names: Names) -> Result<Vec<Vec<u8>>, &'static str> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let is_name = |name: &[u8]| {
        let is_step = |part: &[u8]| matches!(part, b"." | b"..");
        let is_refused =
            |byte: &u8| matches!(byte, 0..0x20 | 0x7f) || names == Names::Web && matches!(byte, b'/' | b'\\');
        !name.is_empty()
            && !name.iter().any(is_refused)
            && !name.split(|byte| matches!(byte, b'/' | b'\\' | b';')).any(is_step)
    };
    let segment = |segment: &str| {
        let decoded: Vec<u8> = percent_decode_str(segment).collect();
        let twice: Vec<u8> = percent_decode(&decoded).collect();
        let is_plain = is_name(segment.as_bytes()) && is_name(&decoded) && is_name(&twice);
        let reason = "contains an empty segment, a step such as `..`, or an escaped slash";
        is_plain.then_some(decoded).ok_or(reason)
    };
    path.split('/').map(segment).collect()
}

/// Builds the error for an invalid URL, and omits parts of the URL that may be secret.
fn invalid(url: &str, reason: &str) -> StoreError {
    let shown = match url.split_once("://").and_then(|(_, rest)| rest.split('/').next()) {
        Some(authority) if authority.contains('@') => "url",
        _ => without_query(url).split('#').next().unwrap_or_default(),
    };
    let shown: String = shown.chars().filter(|c| !c.is_control()).take(200).collect();
    StoreError::location(if shown.is_empty() { "url".to_owned() } else { shown }, reason)
}

/// DNS resolver that returns only permitted addresses. The client connects to the addresses that were checked, so that
/// a second DNS answer cannot substitute others. Hosts given as IP addresses bypass it: a prefix must name them.
#[derive(Clone, Copy, Debug)]
struct Resolver {
    localhost: bool,
}

impl Resolver {
    fn is_allowed(self, name: &str, address: SocketAddr) -> bool {
        is_public(address.ip()) || (self.localhost && name == "localhost" && address.ip().is_loopback())
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let this = *self;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let kept: Vec<SocketAddr> =
                found.filter(|address| this.is_allowed(name.as_str(), *address)).collect();
            if kept.is_empty() {
                let reason =
                    "the host's addresses are not of the public network, and no allowed prefix names them";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

/// Returns whether an address belongs to the public network. Rejects loopback, link-local (where clouds serve instance
/// metadata), private and reserved addresses (IANA special-purpose address registries).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

/// Accepts global unicast addresses (2000::/3). Addresses that embed an IPv4 address (IPv4-mapped, NAT64, 6to4) are
/// classified by the embedded address; other special-purpose ranges are rejected.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(joined(high, low)),
        [0x2002, high, low, ..] => is_public_v4(joined(high, low)),
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Assembles an IPv4 address from two 16-bit groups of an IPv6 address.
fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))
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
            ("s3://bucket/a/b#\\c%2Fd;v=1.nc", "s3://bucket/a/b#\\c%2Fd;v=1.nc"),
            ("https://host/data/x;v=1", "https://host/data/x;v=1"),
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
            "file:///a/..;x/b",
            "file:///a/x\\..\\b",
            "file:///a/..%2fb",
            "s3://bucket/a/..;/b",
            "s3://bucket/a/x\\..\\b",
            "https://host/data/..;/x",
            "https://host/data/.;a=1/x",
            "https://host/data/%2e%2e;/x",
            "https://host/data/..%3bx/y",
            "https://host/data/%252e%252e%253b/x",
            "https://host/data/a;/../x",
            "https://host\\@other/data/x",
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
        let refusal = |url| allowed.check(url).unwrap_err().to_string();
        for url in ["https://me:secret@host/a", "https://host/a?X-Signature=secret"] {
            assert!(!refusal(url).contains("secret"), "{}", refusal(url));
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

    #[test]
    fn addresses_are_judged_by_what_they_reach() {
        for public in
            ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.1.2.3",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }
}
