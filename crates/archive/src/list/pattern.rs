use globset::{GlobBuilder, GlobMatcher};
use virtualize_store::folder_url;

use super::ListError;

/// A pattern of paths or keys, split into the levels to list.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The pattern as the caller wrote it.
    pub(super) text: String,
    /// URL of the folder that the pattern starts from; ends in `/`.
    pub(super) base: String,
    /// Literal prefix, after the base, of everything that matches.
    pub(super) start: String,
    /// Matcher for the part of a URL after the base.
    whole: GlobMatcher,
    /// Levels of the pattern; empty if braces span several.
    pub(super) levels: Vec<Level>,
}

/// A level of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Level {
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

/// Compiles a pattern: `*` and `?` do not match a slash, and only brackets escape.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, ListError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(false).build();
    let reason = |error: globset::Error| ListError::Pattern {
        pattern: pattern.to_owned(),
        reason: error.kind().to_string(),
    };
    Ok(glob.map_err(reason)?.compile_matcher())
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, ListError> {
        let literal = literal(text);
        let folder = literal.rfind('/').map_or("", |at| text.get(..=at).unwrap_or_default());
        if folder.ends_with("://") {
            let reason = "the name of a bucket cannot have wildcards".to_owned();
            return Err(ListError::Pattern { pattern: text.to_owned(), reason });
        }
        let base = folder_url(if folder.is_empty() { "." } else { folder })?;
        let rest = text.get(folder.len()..).unwrap_or_default();
        let start = literal.get(folder.len()..).unwrap_or_default().to_owned();
        let levels = levels(rest).into_iter().map(level).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), base, start, whole: matcher(rest)?, levels })
    }

    /// Returns whether the URL of a file matches.
    pub(super) fn matches(&self, url: &str) -> bool {
        url.strip_prefix(&self.base).is_some_and(|rest| self.whole.is_match(rest))
    }
}

/// Parses one level of a pattern.
fn level(text: &str) -> Result<Level, ListError> {
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
    fn what_is_no_pattern_is_refused() {
        for text in ["s3://b/[a", "s3://b/{a,b", "s3://*/a", "https://host/*.nc", "s3://b/[z-a]"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
