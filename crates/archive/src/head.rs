//! Metadata of a file, without its chunks: what a combined dataset is planned and joined from.
#![allow(dead_code, reason = "the join and the journal are moved to it")]

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize::zarr::{Array, ChunkManifest, NodePath, Source, ZarrFormat};

use crate::{Error, Item};

/// Metadata of a file, without its chunks. Documents of the same text share one [`ParsedNode`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Head {
    /// The file.
    pub(crate) item: Item,
    /// Zarr format of its documents.
    pub(crate) format: ZarrFormat,
    /// Its groups and arrays, parents before children; the first is the root.
    pub(crate) nodes: Vec<HeadNode>,
    /// Decoded values of the arrays in [`crate::Wanted::values`].
    pub(crate) values: BTreeMap<NodePath, Bytes>,
    /// SHA-256 of type, shape and decoded values, in hexadecimal, of the arrays in [`crate::Wanted::digests`].
    pub(crate) digests: BTreeMap<NodePath, String>,
    /// Coordinates along dimensions from names, paths or catalogues, by dimension.
    pub(crate) given: BTreeMap<String, Value>,
}

/// A group or array of a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HeadNode {
    /// Its path.
    pub(crate) path: Arc<str>,
    /// Its metadata.
    pub(crate) node: Arc<ParsedNode>,
    /// Number of its chunks, inline ones included.
    pub(crate) count: u64,
}

/// A metadata document.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ParsedNode {
    /// The attributes of a group.
    Group(Map<String, Value>),
    /// An array, with an empty manifest.
    Array(Array),
}

/// Supplies the files of a combined dataset, by row.
pub(crate) trait Members: Send {
    /// Returns the metadata of a file.
    ///
    /// # Errors
    /// [`Error`] if the file's record cannot be read.
    fn head(&mut self, row: u64) -> Result<Head, Error>;

    /// Returns the chunks of an array of a file. Their source IDs are indices into the returned sources.
    ///
    /// # Errors
    /// As [`Members::head`].
    fn chunks(&mut self, row: u64, path: &str) -> Result<(ChunkManifest, Arc<[Arc<Source>]>), Error>;
}
