//! An entry of a reference set: a key with inline bytes, or with their location.

use std::borrow::Cow;

use bytes::Bytes;

use crate::ReferencesError;

/// Bytes of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    /// The url in the document, with templates rendered.
    pub url: Cow<'a, str>,
    /// Offset and length in bytes; `None` for the whole file.
    pub part: Option<(u64, u64)>,
}

/// The value of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// Bytes in the document itself.
    Inline(Bytes),
    /// Bytes in a file.
    Place(Place<'a>),
}

/// Receives the entries of a document in their order.
pub trait ReferenceSink {
    /// Receives one entry.
    ///
    /// # Errors
    /// Entries that do not fit the hierarchy, which end reading.
    fn entry(&mut self, key: &str, entry: Entry<'_>) -> Result<(), ReferencesError>;
}
