use std::fmt;

use chrono::{DateTime, NaiveDate};
use globset::GlobMatcher;

use super::{ListError, pattern::matcher};
use crate::Item;

/// Selects among the listed files. A criterion that a listing gives no value for does not exclude a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// A pattern for file names or, if it contains a `/`, for the ends of URLs, beginning at a `/`.
    pub name: Option<String>,
    /// Minimum size in bytes.
    pub min_size: Option<u64>,
    /// Maximum size in bytes.
    pub max_size: Option<u64>,
    /// Earliest time of modification, inclusive, in milliseconds since 1970-01-01T00:00:00Z, see [`parse_time`].
    pub since: Option<i64>,
    /// Latest time of modification, exclusive.
    pub before: Option<i64>,
}

/// A filter with its pattern compiled.
#[derive(Debug)]
pub(super) struct Sieve {
    /// The filter as the caller gave it.
    pub(super) filter: Filter,
    matcher: Option<GlobMatcher>,
}

impl Filter {
    /// Returns a filter on names alone.
    pub fn named(pattern: impl Into<String>) -> Self {
        Self { name: Some(pattern.into()), ..Self::default() }
    }
}

impl Sieve {
    pub(super) fn new(filter: Filter) -> Result<Self, ListError> {
        let full = |name: &String| if name.contains('/') { format!("**/{name}") } else { name.clone() };
        let matcher = filter.name.as_ref().map(|name| matcher(&full(name))).transpose()?;
        Ok(Self { filter, matcher })
    }

    /// Returns whether the filter selects a file.
    pub(super) fn admits(&self, item: &Item) -> bool {
        let filter = &self.filter;
        let path = item.url.split_once("://").map_or(item.url.as_str(), |(_, path)| path);
        let path = match item.url.starts_with("http") {
            true => path.split('?').next().unwrap_or(path),
            false => path,
        };
        let whole = filter.name.as_ref().is_some_and(|name| name.contains('/'));
        let tested = if whole { path } else { path.rsplit('/').next().unwrap_or(path) };
        self.matcher.as_ref().is_none_or(|matcher| matcher.is_match(tested))
            && within(item.size, filter.min_size, filter.max_size)
            && within(item.modified, filter.since, filter.before.map(|before| before.saturating_sub(1)))
    }
}

fn within<T: PartialOrd>(value: Option<T>, least: Option<T>, most: Option<T>) -> bool {
    value
        .is_none_or(|value| least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most))
}

/// Describes the selection in words.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            |time: i64| DateTime::from_timestamp_millis(time).map_or(time.to_string(), |it| it.to_rfc3339());
        let parts = [
            self.name.as_ref().map(|name| format!("name {name}")),
            self.min_size.map(|size| format!("at least {size} bytes")),
            self.max_size.map(|size| format!("at most {size} bytes")),
            self.since.map(|since| format!("modified since {}", time(since))),
            self.before.map(|before| format!("modified before {}", time(before))),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// Parses an RFC 3339 time, or a date (midnight UTC), as milliseconds since 1970-01-01T00:00:00Z.
///
/// # Errors
/// One line that describes the expected formats.
pub fn parse_time(text: &str) -> Result<i64, String> {
    if let Ok(date) = text.parse::<NaiveDate>() {
        return Ok(date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis());
    }
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| {
        format!("{text:?} is no time, expected a time such as 2024-02-29 or 2024-02-29T12:00:00Z (RFC 3339)")
    })?;
    Ok(time.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(filter: Filter, item: &Item) -> bool {
        Sieve::new(filter).unwrap().admits(item)
    }

    #[test]
    fn names_are_matched_alone_or_with_their_folders() {
        let item = Item::of("s3://bucket/era5/2020/t2m.nc");
        for name in ["*.nc", "t2m.*", "{t2m,u10}.nc", "2020/*.nc", "era5/**/*.nc", "bucket/**"] {
            assert!(admits(Filter::named(name), &item), "{name}");
        }
        for name in ["*.tif", "T2M.nc", "era5/*.nc", "020/t2m.nc"] {
            assert!(!admits(Filter::named(name), &item), "{name}");
        }
        assert!(admits(Filter::named("*.nc"), &Item::of("https://host/a.nc?sig=1.tif")));
    }

    #[test]
    fn sizes_and_times_are_ranges_and_unknown_ones_pass() {
        let item = Item { size: Some(10), modified: Some(1000), ..Item::of("a") };
        let size = |min_size, max_size| Filter { min_size, max_size, ..Filter::default() };
        assert!(admits(size(Some(10), Some(10)), &item));
        assert!(!admits(size(Some(11), None), &item) && !admits(size(None, Some(9)), &item));
        let time = |since, before| Filter { since, before, ..Filter::default() };
        assert!(admits(time(Some(1000), Some(1001)), &item));
        assert!(!admits(time(Some(1001), None), &item) && !admits(time(None, Some(1000)), &item));
        assert!(admits(size(Some(11), None), &Item::of("a")));
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("1970-01-02"), Ok(86_400_000));
        assert_eq!(parse_time("1970-01-01T01:00:00.5+01:00"), Ok(500));
        assert!(parse_time("yesterday").unwrap_err().contains("RFC 3339"));
        assert!(parse_time("2023-02-29").is_err());
    }
}
