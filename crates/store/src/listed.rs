use std::time::{SystemTime, UNIX_EPOCH};

use object_store::ObjectMeta;

use crate::StoreError;

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
    pub(crate) fn of_metadata(url: &str, found: &std::fs::Metadata) -> Self {
        let modified = found.modified().ok().and_then(milliseconds);
        Self { size: Some(found.len()), modified, ..Self::of(url) }
    }

    /// Returns whether two entries may describe the same version of a file. Missing values count as equal; times are
    /// compared only without tags.
    pub fn agrees(&self, other: &Self) -> bool {
        let sizes = self.size.zip(other.size).is_none_or(|(one, other)| one == other);
        let tags = self.etag.as_deref().zip(other.etag.as_deref());
        let times = || self.modified.zip(other.modified).is_none_or(|(one, other)| is_same_time(one, other));
        sizes && tags.map_or_else(times, |(one, other)| opaque_tag(one) == opaque_tag(other))
    }

    /// Returns the entity tag for `If-Match`; weak tags never match (RFC 9110, section 13.1.1).
    pub(crate) fn demanded(&self) -> Option<String> {
        self.etag.as_deref().filter(|tag| !tag.starts_with("W/")).map(quoted)
    }

    /// Checks that a response belongs to the listed version.
    pub(crate) fn check(&self, name: &str, found: &ObjectMeta) -> Result<(), StoreError> {
        let modified = Some(found.last_modified.timestamp_millis()).filter(|time| *time > 0);
        self.compare(name, found.size, found.e_tag.as_deref(), modified)
    }

    /// Checks that values from another source belong to the listed version. Times are compared only without tags.
    pub(crate) fn compare(
        &self,
        name: &str,
        size: u64,
        etag: Option<&str>,
        modified: Option<i64>,
    ) -> Result<(), StoreError> {
        let tags = self.etag.as_deref().zip(etag).map(|(was, is)| (opaque_tag(was), opaque_tag(is)));
        let times = self.modified.zip(modified).filter(|_| tags.is_none());
        let reason = if tags.is_some_and(|(was, is)| was != is) {
            "its etag is not the one that was listed".to_owned()
        } else if let Some(was) = self.size.filter(|was| *was != size) {
            format!("{size} bytes, {was} were listed")
        } else if times.is_some_and(|(was, is)| !is_same_time(was, is)) {
            "its modification time is not the one that was listed".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::Changed { name: name.to_owned(), reason })
    }
}

/// Returns an entity tag without its quotes and without the mark of weak tags, which proxies add.
pub(crate) fn opaque_tag(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// Adds the quotes of an entity tag if they are missing; Azure's listings and users omit them.
fn quoted(tag: &str) -> String {
    if tag.ends_with('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said() {
        let listed = Listed {
            size: Some(5),
            etag: Some("\"one\"".to_owned()),
            modified: Some(10_000),
            ..Listed::of("a")
        };
        let compare = |size, etag, modified| {
            listed.compare("a", size, etag, modified).map_err(|error| error.to_string())
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
}
