//! Rows of `files`, and the record of each file that is done.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::Value;
use virtualize::{
    ErrorClass,
    zarr::{NodePath, Source, ZarrFormat},
};

use crate::Item;

/// State of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not read yet.
    Pending = 0,
    /// Read successfully.
    Done = 1,
    /// Failed.
    Failed = 2,
}

impl State {
    pub(crate) fn of(number: i64) -> Self {
        match number {
            1 => Self::Done,
            2 => Self::Failed,
            _ => Self::Pending,
        }
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::Done => 1,
            Self::Failed => 2,
        }
    }
}

/// A file to read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Work {
    /// Its row.
    pub(crate) id: i64,
    /// The file.
    pub(crate) item: Item,
}

/// Counts of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Listing {
    /// Number of files listed so far.
    pub(crate) files: u64,
    /// Number of those that have to be read.
    pub(crate) pending: u64,
    /// Number of listed items: a file may be listed repeatedly.
    pub(crate) items: u64,
    /// Positions of the items that have to be read.
    pub(super) unread: Vec<Range<u64>>,
}

impl Listing {
    /// Returns the positions of the items that have to be read: all, if the run starts over.
    pub(crate) fn unread(&self, restart: bool) -> Vec<Range<u64>> {
        if restart { std::iter::once(0..self.items).collect() } else { self.unread.clone() }
    }

    /// Counts the next item: whether it is a new file, and whether that has to be read.
    pub(super) fn count(&mut self, is_new: bool, is_pending: bool) {
        let position = self.items;
        self.items += 1;
        self.files += u64::from(is_new);
        if is_new && is_pending {
            self.pending += 1;
            match self.unread.last_mut() {
                Some(last) if last.end == position => last.end += 1,
                _ => self.unread.push(position..position + 1),
            }
        }
    }
}

/// A change to a file since it was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Found {
    /// It no longer exists.
    Gone,
    /// It was replaced by this version.
    Another(Item),
}

/// The result of reading a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Done<R = Record> {
    /// The file as it was opened.
    pub(crate) opened: Item,
    /// Whether that differs from the listed version.
    pub(crate) replaced: bool,
    /// Number of attempts.
    pub(crate) attempts: u32,
    /// Duration in seconds, including all attempts.
    pub(crate) seconds: f64,
    /// Number of requests.
    pub(crate) requests: u64,
    /// Number of requests that were sent again after failures of the store.
    pub(crate) retries: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Warnings for the user, one line each.
    pub(crate) warnings: Vec<String>,
    /// The run's record of the file.
    pub(crate) record: R,
}

/// The record of a file that was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Record {
    /// An output of its own.
    Written {
        /// Name relative to the output folder.
        name: String,
        /// Receipt of the output, see [`virtualize_store::Receipt`].
        receipt: String,
    },
    /// A member of a combined dataset.
    Member(Box<MemberRow>),
}

/// The record of a member of a combined dataset.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MemberRow {
    /// [`crate::compat::Signature::storage_digest`].
    pub(crate) storage: String,
    /// The signature, as JSON: the same text for all files of a kind.
    pub(crate) signature: Arc<str>,
    /// The [`crate::plan::FileExtent`], as JSON without row and url.
    pub(crate) extent: String,
    /// Zarr format of the documents.
    pub(crate) format: ZarrFormat,
    /// Groups and arrays, parents before children; the first is the root.
    pub(crate) nodes: Vec<NodeRow>,
    /// The files that contain the chunks.
    pub(crate) sources: Vec<Source>,
    /// Decoded values of the arrays in [`crate::Wanted::values`].
    pub(crate) values: BTreeMap<NodePath, Bytes>,
    /// Digests of the arrays in [`crate::Wanted::digests`].
    pub(crate) digests: BTreeMap<NodePath, String>,
    /// Coordinates along new dimensions.
    pub(crate) given: BTreeMap<String, Value>,
}

/// A group or array of a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NodeRow {
    /// Its path.
    pub(crate) path: NodePath,
    /// Its metadata document: `zarr.json`, or an object of `.zarray` or `.zgroup` and `.zattrs`.
    pub(crate) document: Arc<str>,
    /// Its chunks; empty for a group.
    pub(crate) chunks: Vec<u8>,
    /// Number of its chunks, inline ones included.
    pub(crate) count: u64,
}

impl Default for MemberRow {
    fn default() -> Self {
        Self {
            storage: String::new(),
            signature: "".into(),
            extent: String::new(),
            format: ZarrFormat::V3,
            nodes: Vec::new(),
            sources: Vec::new(),
            values: BTreeMap::new(),
            digests: BTreeMap::new(),
            given: BTreeMap::new(),
        }
    }
}

/// The failure of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failed {
    /// Number of attempts.
    pub(crate) attempts: u32,
    /// Class of the error.
    pub(crate) class: ErrorClass,
    /// The error in one line.
    pub(crate) error: String,
}

/// How the reading of a file ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome<R = Record> {
    /// Read successfully.
    Done(Box<Done<R>>),
    /// Failed after the last attempt.
    Failed(Failed),
}

/// Number of files of this run's listing by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Not read yet.
    pub(crate) pending: u64,
    /// Read successfully.
    pub(crate) done: u64,
    /// Failed.
    pub(crate) failed: u64,
}

impl Counts {
    pub(crate) fn all(self) -> u64 {
        self.pending + self.done + self.failed
    }
}

/// The classes of failures of files, by their names in journals and events.
const CLASSES: [(ErrorClass, &str); 8] = [
    (ErrorClass::Usage, "usage"),
    (ErrorClass::Conflict, "conflict"),
    (ErrorClass::NotFound, "not-found"),
    (ErrorClass::Denied, "denied"),
    (ErrorClass::Changed, "changed"),
    (ErrorClass::Unavailable, "unavailable"),
    (ErrorClass::File, "file"),
    (ErrorClass::BrokenPipe, "broken-pipe"),
];

/// Returns the name of a class in journals and events.
pub(crate) fn class_name(class: ErrorClass) -> &'static str {
    CLASSES.iter().find(|(one, _)| *one == class).map_or("file", |(_, name)| name)
}

/// Returns the class with a name.
pub(crate) fn class_named(name: &str) -> Option<ErrorClass> {
    CLASSES.iter().find(|(_, one)| *one == name).map(|(class, _)| *class)
}
