//! Relocation of source urls, for references that are written next to the data and published elsewhere.

use std::collections::HashMap;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use virtualize_store::url_of;
use virtualize_zarr::Source;

use crate::error::Error;

/// Characters of a key or path that are escaped in an HTTP url.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'=')
    .remove(b',')
    .remove(b'@')
    .remove(b':');

/// How the urls of sources are written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relocation {
    /// Unchanged.
    #[default]
    Keep,
    /// With replaced prefixes. The rule with the longest matching prefix applies; every rule must match a source.
    Rewrite(Vec<Rewrite>),
    /// Relative to the folder of an output, given by its path or url.
    RelativeTo(String),
}

/// Rule that replaces a prefix of urls.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Rewrite {
    from: String,
    to: String,
}

impl Rewrite {
    /// Returns the rule between two urls or paths; a path stands for its `file` url. A prefix matches whole names
    /// only.
    ///
    /// # Errors
    /// [`Error::Relocation`] if either is neither a url nor a path, or `to` is not absolute.
    pub fn new(from: &str, to: &str) -> Result<Self, Error> {
        if from.is_empty() || !is_place(to) {
            let expected = "expected a url or path, and a url or absolute path";
            return Err(Error::Relocation(format!("{from:?} to {to:?}: {expected}")));
        }
        let from = match scheme(from) {
            Some(_) => from.to_owned(),
            None => {
                let path = std::path::absolute(Path::new(from))
                    .map_err(|error| Error::Relocation(format!("{from}: {error}")))?;
                format!("file://{}", path.display())
            }
        };
        let to = if scheme(to).is_some() { to.to_owned() } else { format!("file://{to}") };
        let without_slash = |url: String| url.strip_suffix('/').unwrap_or(&url).to_owned();
        Ok(Self { from: without_slash(from), to: without_slash(to) })
    }

    /// Parses `FROM=TO`. FROM may contain equals signs: the text is split at the first one that precedes a url or an
    /// absolute path.
    ///
    /// # Errors
    /// As [`Rewrite::new`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut splits =
            text.match_indices('=').filter_map(|(at, _)| Some((text.get(..at)?, text.get(at + 1..)?)));
        match splits.find(|(_, to)| is_place(to)) {
            Some((from, to)) => Self::new(from, to),
            None => Err(Error::Relocation(format!(
                "{text:?}: expected FROM=TO, where TO is a url or an absolute path"
            ))),
        }
    }

    /// Returns the part of a url after the prefix.
    fn rest<'a>(&self, url: &'a str) -> Option<&'a str> {
        url.strip_prefix(&self.from).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the new url of a source, given the part after the prefix.
    fn apply(&self, url: &str, rest: &str) -> Result<String, Error> {
        if rest.is_empty() {
            return Ok(self.to.clone());
        }
        let fail =
            |why: &str| Err(Error::Relocation(format!("{} cannot be rewritten: {why}", without_query(url))));
        match (is_http(&self.from), is_http(&self.to)) {
            (_, true) if self.to.contains(['?', '#']) => {
                fail(&format!("{} has a query", without_query(&self.to)))
            }
            (false, true) => Ok(format!("{}{}", self.to, utf8_percent_encode(rest, ESCAPED))),
            (true, false) if rest.contains('?') => fail("its url has a query"),
            (true, false) => match percent_decode_str(rest).decode_utf8() {
                Ok(rest) => Ok(format!("{}{rest}", self.to)),
                Err(_) => fail("its url is not UTF-8"),
            },
            _ => Ok(format!("{}{rest}", self.to)),
        }
    }
}

/// Changes the urls of sources, one after the other.
#[derive(Debug)]
pub(crate) struct Relocator<'a> {
    relocation: &'a Relocation,
    /// Folder of the output, if urls are relative to it.
    folder: String,
    /// Whether each rule has matched a source.
    used: Vec<bool>,
    /// Url of the first source.
    first: Option<String>,
    /// Digests of the urls before and after rewriting, by the latter.
    known: HashMap<[u8; 16], [u8; 16]>,
}

impl<'a> Relocator<'a> {
    pub(crate) fn new(relocation: &'a Relocation) -> Result<Self, Error> {
        let folder = match relocation {
            Relocation::RelativeTo(output) => {
                let output = url_of(output.trim_end_matches('/'))?;
                output.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned())
            }
            _ => String::new(),
        };
        let rules = match relocation {
            Relocation::Rewrite(rules) => rules.len(),
            _ => 0,
        };
        Ok(Self { relocation, folder, used: vec![false; rules], first: None, known: HashMap::new() })
    }

    /// Returns the new url of a source. Sources may come repeatedly.
    ///
    /// # Errors
    /// A source that has no such url, or whose url is that of another source.
    pub(crate) fn url(&mut self, url: &str) -> Result<String, Error> {
        match self.relocation {
            Relocation::Keep => Ok(url.to_owned()),
            Relocation::Rewrite(rules) => self.rewrite(url, rules),
            Relocation::RelativeTo(_) => self.relative(url),
        }
    }

    fn rewrite(&mut self, url: &str, rules: &[Rewrite]) -> Result<String, Error> {
        self.first.get_or_insert_with(|| url.to_owned());
        let matching =
            rules.iter().zip(&mut self.used).filter_map(|(rule, used)| Some((rule, used, rule.rest(url)?)));
        let new = match matching.max_by_key(|(rule, ..)| rule.from.len()) {
            Some((rule, used, rest)) => {
                *used = true;
                rule.apply(url, rest)?
            }
            None => url.to_owned(),
        };
        let digest = |url: &str| Sha256::digest(url).first_chunk().copied().unwrap_or_default();
        let before = digest(url);
        if *self.known.entry(digest(&new)).or_insert(before) != before {
            return Err(Error::Relocation("two sources would have one url".to_owned()));
        }
        Ok(new)
    }

    /// Returns a url relative to the folder of the output. Fails for a source outside that folder.
    fn relative(&self, url: &str) -> Result<String, Error> {
        let rest = url.strip_prefix(&self.folder).and_then(|rest| rest.strip_prefix('/'));
        let is_plain = |rest: &&str| {
            !rest.contains("://") && rest.split('/').all(|name| !matches!(name, "" | "." | ".."))
        };
        rest.filter(is_plain).map(str::to_owned).ok_or_else(|| {
            let (url, folder) = (without_query(url), &self.folder);
            Error::Relocation(format!("{url} is outside {folder}, the folder of the output"))
        })
    }

    /// Checks, after the last source, that every rule has matched one.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let Relocation::Rewrite(rules) = self.relocation else { return Ok(()) };
        match rules.iter().zip(&self.used).find(|(_, used)| !**used) {
            None => Ok(()),
            Some((rule, _)) => {
                let first = self.first.as_deref().map_or("none", without_query);
                let from = without_query(&rule.from);
                Err(Error::Relocation(format!("{from} is a prefix of no source; the first is {first}")))
            }
        }
    }
}

/// Changes the urls of all sources, or none if one fails. With `is_complete`, every rule must match a source.
pub(crate) fn relocate(
    sources: &mut [Source],
    relocation: &Relocation,
    is_complete: bool,
) -> Result<(), Error> {
    let mut relocator = Relocator::new(relocation)?;
    let urls: Vec<String> =
        sources.iter().map(|source| relocator.url(&source.url)).collect::<Result<_, _>>()?;
    if is_complete {
        relocator.finish()?;
    }
    for (source, url) in sources.iter_mut().zip(urls).filter(|(source, url)| source.url != *url) {
        // The version is that of the file at its old url.
        *source = Source { url, size: source.size, ..Source::default() };
    }
    Ok(())
}

/// Returns whether a text is a url or an absolute path.
fn is_place(text: &str) -> bool {
    text.starts_with('/') || scheme(text).is_some()
}

/// Returns the scheme of a url; `None` if the text is not a url.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(known)).then_some(scheme)
}

fn is_http(url: &str) -> bool {
    matches!(scheme(url), Some("http" | "https"))
}

/// Returns a url for messages, without its query, which may contain a signature.
fn without_query(url: &str) -> &str {
    if is_http(url) { url.split_once('?').map_or(url, |(url, _)| url) } else { url }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(urls: &[&str]) -> Vec<Source> {
        urls.iter().map(|url| Source { url: (*url).to_owned(), ..Source::default() }).collect()
    }

    fn after(urls: &[&str], relocation: &Relocation) -> Result<Vec<String>, String> {
        let mut sources = sources(urls);
        relocate(&mut sources, relocation, true).map_err(|error| error.to_string())?;
        Ok(sources.into_iter().map(|source| source.url).collect())
    }

    fn rewrite(rules: &[&str], urls: &[&str]) -> Result<Vec<String>, String> {
        after(urls, &Relocation::Rewrite(rules.iter().map(|rule| Rewrite::parse(rule).unwrap()).collect()))
    }

    #[test]
    fn a_prefix_ends_where_a_name_ends_and_the_longest_is_taken() {
        for (rules, url, expected) in [
            (&["/data=s3://b"][..], "file:///data/x.nc", "s3://b/x.nc"),
            (&["/data/=s3://b/p/"], "file:///data/x.nc", "s3://b/p/x.nc"),
            (&["file:///=s3://b/"], "file:///data/x.nc", "s3://b/data/x.nc"),
            (&["/=/mnt"], "file:///data/x.nc", "file:///mnt/data/x.nc"),
            (&["s3://=gs://"], "s3://b/x.nc", "gs://b/x.nc"),
            (&["s3://b/x.nc=https://h/a?sig=1"], "s3://b/x.nc", "https://h/a?sig=1"),
            (&["s3://b/y=1=s3://c/y=2"], "s3://b/y=1/x.nc", "s3://c/y=2/x.nc"),
            (&["/data=https://h/d"], "file:///data/a b+%20é.nc", "https://h/d/a%20b%2B%2520%C3%A9.nc"),
            (&["https://h=s3://b"], "https://h/a%20b.nc", "s3://b/a b.nc"),
            (&["https://h=http://i"], "https://h/a%20b.nc?x=1", "http://i/a%20b.nc?x=1"),
        ] {
            assert_eq!(rewrite(rules, &[url]), Ok(vec![expected.to_owned()]), "{rules:?}");
        }
        let both = ["/d=s3://a", "/d/e=s3://b"];
        let urls = ["file:///d/x", "file:///d/e/x", "file:///other"];
        assert_eq!(rewrite(&both, &urls).unwrap(), ["s3://a/x", "s3://b/x", "file:///other"]);
    }

    #[test]
    fn what_cannot_be_meant_is_an_error() {
        for (rules, urls) in [
            (&["/data=s3://b"][..], &["file:///data2/x.nc"][..]),
            (&["/data=s3://b", "/none=s3://c"], &["file:///data/x.nc"]),
            (&["https://h=s3://b"], &["https://h/x.nc?sig=1"]),
            (&["https://h=s3://b"], &["https://h/%ff"]),
            (&["/data=https://h/?sig=1"], &["file:///data/x.nc"]),
            (&["/a=s3://b", "/c=s3://b"], &["file:///a/x", "file:///c/x"]),
        ] {
            assert!(rewrite(rules, urls).is_err(), "{rules:?}");
        }
        for text in ["", "a", "a=", "=s3://b", "a=b", "a=b/c"] {
            assert!(Rewrite::parse(text).is_err(), "{text}");
        }
        let error = rewrite(&["https://h/d=s3://b"], &["https://h/x?secret"]).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn relative_urls_are_below_the_folder_of_the_output() {
        let relative = |output: &str, url: &str| after(&[url], &Relocation::RelativeTo(output.to_owned()));
        assert_eq!(relative("/d/refs.json", "file:///d/e/x.nc"), Ok(vec!["e/x.nc".to_owned()]));
        assert_eq!(relative("s3://b/d/store.zarr/", "s3://b/d/x.nc"), Ok(vec!["x.nc".to_owned()]));
        for url in ["file:///x.nc", "file:///dd/x.nc", "s3://b/d/x.nc", "file:///d/a://b", "file:///d//x"] {
            assert!(relative("/d/refs.json", url).is_err(), "{url}");
        }
    }
}
