//! Chunks to be committed: their order, the locations and checksums of virtual ones, and what their stores accept.

use std::collections::HashMap;

use icechunk::{
    format::{
        ChunkIndices,
        manifest::{Checksum, SecondsSinceEpoch, VirtualChunkLocation, VirtualChunkRef},
    },
    storage::ETag,
};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use virtualize_store::{Condition, Listed, StoreError, StoreOptions, Stores, open_listed, probe};
use virtualize_zarr::{Source, chunk_indices};

use crate::{
    IcechunkError, Result,
    container::{Containers, root},
    error::one_line,
    storage::Settings,
};

/// Characters with a special meaning in urls. Source urls contain paths and keys verbatim, Icechunk wants them escaped.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// Returns the location of a source.
///
/// # Errors
/// See [`encode_url`].
pub(crate) fn location(source: &Source) -> Result<VirtualChunkLocation> {
    let url = encode_url(&source.url)?;
    VirtualChunkLocation::from_url(&url)
        .map_err(|error| IcechunkError::Source { url: source.url.clone(), reason: one_line(&error) })
}

/// Returns the url of a file with its path percent-encoded.
///
/// # Errors
/// The url is relative, has a query or a fragment, or Icechunk does not support its scheme.
pub(crate) fn encode_url(url: &str) -> Result<String> {
    let refuse = |reason: String| Err(IcechunkError::Source { url: url.to_owned(), reason });
    let Some((scheme, rest)) = url.split_once("://") else { return refuse("not an absolute url".to_owned()) };
    match scheme {
        "http" | "https" if rest.contains(['?', '#']) => {
            refuse("Icechunk does not store the query of a url".to_owned())
        }
        "http" | "https" => Ok(url.to_owned()),
        "file" | "s3" | "gs" | "az" | "abfs" => {
            Ok(format!("{scheme}://{}", utf8_percent_encode(rest, ESCAPED)))
        }
        _ => refuse(format!("Icechunk has no virtual chunk containers for {scheme}:// urls")),
    }
}

/// Reverses [`encode_url`].
pub(crate) fn decode_url(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if !matches!(scheme, "http" | "https") => {
            format!("{scheme}://{}", percent_decode_str(rest).decode_utf8_lossy())
        }
        _ => url.to_owned(),
    }
}

/// Returns what readers could compare to detect that a file changed, the best first: a strong entity tag (weak ones never
/// match), and the modification time in seconds, rounded up. Readers send tags without their quotes; web servers that follow
/// RFC 9110 reject these.
pub(crate) fn checksums(source: &Source) -> Vec<Checksum> {
    let strong = source.etag.clone().filter(|etag| !etag.starts_with("W/"));
    let tag = strong.map(|etag| Checksum::ETag(ETag(etag)));
    let seconds = source.modified.and_then(|time| u32::try_from(time.checked_add(999)? / 1000).ok());
    let time = seconds.map(|seconds| Checksum::LastModified(SecondsSinceEpoch(seconds)));
    let is_web = source.url.starts_with("http");
    let order = if is_web { [time, tag] } else { [tag, time] };
    order.into_iter().flatten().collect()
}

/// Kind of a checksum.
type Kind = std::mem::Discriminant<Checksum>;

/// Converts the sources of chunks, and collects the containers that they need.
pub(crate) struct Sources {
    /// The containers of all sources so far.
    pub(crate) containers: Containers,
    store: StoreOptions,
    /// Whether the store at a url accepts requests with a kind of checksum, or with none.
    accepted: HashMap<(String, Option<Kind>), bool>,
    /// The url of a source of which readers cannot tell whether it changed, if there is one.
    pub(crate) unchecked: Option<String>,
    /// The last source, and the location and checksum that its chunks record.
    last: Option<(Source, VirtualChunkLocation, Option<Checksum>)>,
}

impl Sources {
    pub(crate) fn new(containers: Containers, options: &StoreOptions) -> Self {
        let store = StoreOptions { retries: options.retries.min(1), ..options.clone() };
        Self { containers, store, accepted: HashMap::new(), unchecked: None, last: None }
    }

    /// Returns the reference to a chunk.
    pub(crate) async fn reference(
        &mut self,
        source: &Source,
        offset: u64,
        length: u64,
    ) -> Result<VirtualChunkRef> {
        let (_, location, checksum) = match self.last.take().filter(|(last, ..)| last == source) {
            Some(last) => self.last.insert(last),
            None => {
                let location = location(source)?;
                self.containers.add(location.url(), source)?;
                let checksum = self.checksum(source, offset).await?;
                if checksum.is_none() {
                    self.unchecked.get_or_insert_with(|| source.url.clone());
                }
                self.last.insert((source.clone(), location, checksum))
            }
        };
        let (location, checksum) = (location.clone(), checksum.clone());
        Ok(VirtualChunkRef { location, offset, length, checksum })
    }

    /// Returns the best checksum that a reader can use. Each bucket and web server is requested once for each kind, with the
    /// condition that the reader sends.
    ///
    /// # Errors
    /// The source has changed, or readers cannot read ranges of it.
    async fn checksum(&mut self, source: &Source, offset: u64) -> Result<Option<Checksum>> {
        let checksums = checksums(source);
        if source.url.starts_with("file:") {
            return Ok(checksums.into_iter().next());
        }
        for checksum in checksums.into_iter().map(Some).chain([None]) {
            let key = (root(&source.url), checksum.as_ref().map(std::mem::discriminant));
            let is_accepted = match self.accepted.get(&key) {
                Some(accepted) => *accepted,
                None => self.probe(source, offset, checksum.as_ref()).await?,
            };
            self.accepted.insert(key, is_accepted);
            if is_accepted {
                return Ok(checksum);
            }
        }
        Ok(None)
    }

    /// Requests a byte of a source as a reader would. If the store cannot be reached, tags count as rejected and times as
    /// accepted.
    async fn probe(&self, source: &Source, offset: u64, checksum: Option<&Checksum>) -> Result<bool> {
        let refuse = |error: &dyn std::fmt::Display| {
            let reason = error.to_string();
            let reason = reason.strip_prefix(&format!("{}: ", source.url)).unwrap_or(&reason).to_owned();
            Err(IcechunkError::Source { url: source.url.clone(), reason })
        };
        let condition = checksum.map(|checksum| match checksum {
            Checksum::ETag(tag) => Condition::Tag(tag.0.trim_matches('"').to_owned()),
            Checksum::LastModified(seconds) => Condition::NotModifiedSince(i64::from(seconds.0)),
        });
        let mut options = self.store.clone();
        let pays = source.url.starts_with("s3:") && Settings::of(&source.url, &self.store).requester_pays();
        if pays {
            options.access = options.access(&source.url).clone();
            options.access.values.push(("aws_request_payer".to_owned(), "false".to_owned()));
            options.stores = Stores::default();
        }
        match probe(&source.url, offset, condition.as_ref(), &options).await {
            Ok(()) => Ok(true),
            Err(error @ StoreError::Unreadable { .. }) => refuse(&error),
            Err(StoreError::Denied { .. }) if pays => {
                refuse(&"Icechunk's readers cannot read virtual chunks from requester-pays buckets")
            }
            Err(StoreError::Changed { .. }) => {
                let Source { url, etag, size, modified } = source.clone();
                let listed = Listed { url, size: Some(size).filter(|size| *size > 0), etag, modified };
                match open_listed(&listed, &self.store).await {
                    Err(error @ StoreError::Changed { .. }) => refuse(&error),
                    _ => Ok(false),
                }
            }
            Err(_) => Ok(!matches!(checksum, Some(Checksum::ETag(_)))),
        }
    }
}

/// Converts a row-major position in the chunk grid to indices along each axis.
pub(crate) fn indices(position: u64, counts: &[u64]) -> Option<ChunkIndices> {
    let indices = chunk_indices(position, counts)?.into_iter().map(|index| u32::try_from(index).ok());
    indices.collect::<Option<_>>().map(ChunkIndices)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn paths_are_percent_encoded() {
        let source = |url: &str| Source { url: url.to_owned(), ..Source::default() };
        for (given, expected) in [
            ("file:///d/a b%20#?.nc", "file:///d/a%20b%2520%23%3F.nc"),
            ("s3://bucket/k//x%2F.tif", "s3://bucket/k//x%252F.tif"),
            // Parsers of urls take a backslash for a slash.
            ("file:///d/a\\b.nc", "file:///d/a%5Cb.nc"),
            ("https://host/a%20b.tif", "https://host/a%20b.tif"),
        ] {
            assert_eq!(location(&source(given)).unwrap().url(), expected);
        }
        assert!(location(&source("https://host/a?signature=1")).is_err());
    }

    #[test]
    fn weak_entity_tags_are_ignored_and_seconds_rounded_up() {
        let time = Checksum::LastModified(SecondsSinceEpoch(2));
        let tag = Checksum::ETag(ETag("\"1\"".to_owned()));
        let weak = Source {
            url: "s3://b/a".to_owned(),
            etag: Some("W/\"1\"".to_owned()),
            modified: Some(1_001),
            ..Source::default()
        };
        assert_eq!(checksums(&weak), std::slice::from_ref(&time));
        let strong = Source { etag: Some("\"1\"".to_owned()), ..weak };
        assert_eq!(checksums(&strong), [tag.clone(), time.clone()]);
        assert_eq!(checksums(&Source { url: "https://h/a".to_owned(), ..strong }), [time, tag]);
    }

    #[test]
    fn positions_are_row_major() {
        let of = |position, counts: &[u64]| indices(position, counts).map(|indices| indices.0);
        assert_eq!(of(5, &[2, 3]), Some(vec![1, 2]));
        assert_eq!(of(6, &[2, 3]), None);
        assert_eq!(of(0, &[]), Some(vec![]));
    }
}
