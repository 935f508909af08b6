//! Identity of a listing.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Item;

/// Number and digest of listed files: two listings are the same if both are equal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ListingId {
    /// Number of files.
    pub(crate) files: u64,
    /// SHA-256 of the files' lines ([`line`]), in order, in hexadecimal.
    pub(crate) sha256: String,
}

/// Computes a [`ListingId`].
#[derive(Clone, Default)]
pub(crate) struct ListingDigest {
    files: u64,
    hasher: Sha256,
}

impl ListingDigest {
    /// Adds the next file.
    pub(crate) fn add(&mut self, item: &Item) {
        self.files += 1;
        self.hasher.update(line(item));
    }

    pub(crate) fn finish(self) -> ListingId {
        ListingId { files: self.files, sha256: hex::encode(self.hasher.finalize()) }
    }
}

/// Returns a file as one line of JSON: URL, size, entity tag, time of modification, properties.
pub(crate) fn line(item: &Item) -> Vec<u8> {
    let Item { url, size, etag, modified, properties } = item;
    // Text and numbers have a representation in JSON.
    let mut line = serde_json::to_vec(&(url, size, etag, modified, properties)).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Parses a [`line`].
pub(crate) fn parse_line(line: &[u8]) -> Option<Item> {
    let (url, size, etag, modified, properties) = serde_json::from_slice(line).ok()?;
    Some(Item { url, size, etag, modified, properties })
}
