//! What is recorded of a file that was read: its hierarchy as rows, from which files are combined.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use virtualize::{
    ErrorClass, VirtualStore,
    zarr::{
        Array, ChunkEntry, ChunkManifest, Group, Hierarchy, Node, NodePath, Source, SourceId, ZarrFormat,
        node,
    },
};

use super::codec::{decode_chunks, encode_chunks};
use crate::{Item, file::ParsedNode};

/// A file to read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Work {
    /// Its row.
    pub(crate) id: i64,
    /// The file.
    pub(crate) item: Item,
}

/// Versions of the other files that a file depends on, by url; `None` for those that do not exist.
pub(crate) type Related = BTreeMap<String, Option<Source>>;

/// A file that was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Done {
    /// The file as it was opened.
    pub(crate) opened: Item,
    /// Whether that may differ from the listed version.
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
    /// The other files that it depends on.
    pub(crate) related: Related,
    /// The run's record of the file.
    pub(crate) record: Record,
}

/// Why a file could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Number of attempts.
    pub(crate) attempts: u32,
    /// Class of the error; it decides whether the file is retried.
    pub(crate) class: ErrorClass,
    /// The error in one line, with the file's name and the remedy in the caller's notation.
    pub(crate) error: String,
}

/// How the reading of a file ended.
pub(crate) type Outcome = Result<Box<Done>, Failure>;

/// The URL of a file, and how its reading ended.
pub(crate) type NamedOutcome = (String, Outcome);

/// The record of a file.
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
    Member(Box<FileRecord>),
}

/// The record of a member of a combined dataset.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FileRecord {
    /// [`crate::compat::Signature::storage_digest`].
    pub(crate) storage: String,
    /// The signature, as JSON: the same text for all files of a kind.
    pub(crate) signature: Arc<str>,
    /// The [`crate::plan::FileExtent`], as JSON without row and url.
    pub(crate) extent: String,
    /// Zarr format of the documents.
    pub(crate) format: ZarrFormat,
    /// Groups and arrays, parents before children; the first is the root.
    pub(crate) nodes: Vec<NodeRecord>,
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
pub(crate) struct NodeRecord {
    /// Its path.
    pub(crate) path: NodePath,
    /// Its metadata document: `zarr.json`, or an object of `.zarray` or `.zgroup` and `.zattrs`.
    pub(crate) document: Arc<str>,
    /// Its chunks; empty for a group.
    pub(crate) chunks: Vec<u8>,
    /// Number of its chunks, inline ones included.
    pub(crate) count: u64,
}

impl Default for FileRecord {
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

impl FileRecord {
    /// Packs the hierarchy of a file. Also returns it as it unpacks: all decisions about a file are based on that form.
    /// Everything but nodes and sources is left empty.
    ///
    /// # Errors
    /// A hierarchy that does not survive packing and unpacking.
    pub(crate) fn pack(store: &VirtualStore) -> Result<(Self, Hierarchy), virtualize::Error> {
        let name = store.name();
        let hierarchy = &store.hierarchy;
        // The sources that chunks are in, in the order of their first chunks. Sources of the same url are one.
        let (mut ids, mut sources) = (BTreeMap::new(), Vec::<Source>::new());
        let mut index = |id: SourceId| {
            *ids.entry(id).or_insert_with(|| {
                // A source that is not there is found when the hierarchies are compared.
                let source = hierarchy.sources.get(id.index()).cloned().unwrap_or_default();
                let known = sources.iter().position(|known| known.url == source.url);
                let index = known.unwrap_or_else(|| {
                    sources.push(source);
                    sources.len() - 1
                });
                u32::try_from(index).unwrap_or(u32::MAX)
            })
        };
        let mut nodes = Vec::new();
        for (path, document) in documents(store)? {
            let chunks = hierarchy.array(&path).map(|array| &array.chunks);
            let (chunks, count) = match chunks {
                Some(chunks) => (encode_chunks(chunks, &mut index), chunks.len()),
                None => (Vec::new(), 0),
            };
            nodes.push(NodeRecord { path, document: document.to_string().into(), chunks, count });
        }
        let row = Self { format: hierarchy.format, nodes, sources, ..Self::default() };
        let back = row.hierarchy(name)?;
        compare(hierarchy, &back).map_err(|reason| broken(name, &reason))?;
        Ok((row, back))
    }

    /// Returns the hierarchy.
    ///
    /// # Errors
    /// A damaged record.
    pub(crate) fn hierarchy(&self, name: &str) -> Result<Hierarchy, virtualize::Error> {
        let mut hierarchy = Hierarchy::new(self.format);
        hierarchy.sources.clone_from(&self.sources);
        for row in &self.nodes {
            let failed = |reason: &str| {
                broken(name, &format!("{} cannot be stored in the journal: {reason}", row.path))
            };
            let parsed = ParsedNode::parse(&row.document, self.format).map_err(|reason| failed(&reason))?;
            let (parent, own) = node::split(&row.path);
            let place = |group: Option<&mut Group>, node| match group {
                Some(group) => {
                    group.children.insert(own.to_owned(), node);
                    Ok(())
                }
                None => Err(failed("it is inside an array")),
            };
            match parsed {
                ParsedNode::Group(attributes) if row.path.is_empty() => {
                    hierarchy.root.attributes = attributes
                }
                ParsedNode::Group(attributes) => {
                    let group = Group { attributes, ..Group::default() };
                    place(hierarchy.root.group_mut(parent), Node::Group(group))?;
                }
                ParsedNode::Array(mut array) => {
                    let chunks = Bytes::copy_from_slice(&row.chunks);
                    array.chunks =
                        manifest(&array, chunks, self.sources.len()).map_err(|reason| failed(&reason))?;
                    place(hierarchy.root.group_mut(parent), Node::Array(array))?;
                }
            }
        }
        Ok(hierarchy)
    }
}

/// Returns the documents of all nodes, parents first.
fn documents(store: &VirtualStore) -> Result<Vec<(NodePath, Value)>, virtualize::Error> {
    let mut nodes: Vec<(NodePath, Value)> = Vec::new();
    for (key, mut document) in virtualize::metadata(store)? {
        let (path, name) = node::split(&key);
        match name {
            ".zmetadata" => {}
            ".zattrs" => {
                if let Some(node) = nodes.last_mut().and_then(|(_, node)| node.as_object_mut()) {
                    node.insert(name.to_owned(), document);
                }
            }
            ".zgroup" | ".zarray" => nodes.push((path.to_owned(), json!({ name: document }))),
            _ => {
                if let Some(document) = document.as_object_mut() {
                    document.remove("consolidated_metadata");
                }
                nodes.push((path.to_owned(), document));
            }
        }
    }
    Ok(nodes)
}

/// Decodes the chunks of an array, and checks that they are in its grid.
fn manifest(array: &Array, chunks: Bytes, sources: usize) -> Result<ChunkManifest, String> {
    let chunks = decode_chunks(chunks, sources).ok_or("its chunks are damaged")?;
    let counts = array.chunk_grid.counts(&array.shape);
    let cells = counts.iter().fold(1_u64, |product, count| product.saturating_mul(*count));
    let mut next = 0;
    for (position, _) in chunks.iter() {
        if position < next || position >= cells {
            return Err(format!("chunk {position} is repeated, or outside its grid of {counts:?} chunks"));
        }
        next = position.saturating_add(1);
    }
    Ok(chunks)
}

/// Checks that a hierarchy came back as it was.
fn compare(whole: &Hierarchy, back: &Hierarchy) -> Result<(), String> {
    let (arrays, others) = (whole.arrays(), back.arrays());
    if arrays.len() != others.len() {
        return Err("arrays are lost".to_owned());
    }
    for ((path, array), (_, other)) in arrays.into_iter().zip(others) {
        let counts = |array: &Array| array.chunk_grid.counts(&array.shape);
        if array.shape != other.shape || counts(array) != counts(other) {
            return Err(format!("{path} has another shape after unpacking"));
        }
        if array.chunks.len() != other.chunks.len() || !are_equal(&array.chunks, &other.chunks, (whole, back))
        {
            return Err(format!("{path} has other chunks after unpacking"));
        }
    }
    Ok(())
}

/// Returns whether two manifests of the same length, each of its hierarchy, have the same chunks.
fn are_equal(one: &ChunkManifest, other: &ChunkManifest, of: (&Hierarchy, &Hierarchy)) -> bool {
    one.iter().zip(other.iter()).all(|((at, one), (other_at, other))| {
        at == other_at
            && match (one, other) {
                (ChunkEntry::Inline(one), ChunkEntry::Inline(other)) => one == other,
                (ChunkEntry::Reference(one), ChunkEntry::Reference(other)) => {
                    let sources = of.0.source(one.source).zip(of.1.source(other.source));
                    sources.is_some_and(|(one, other)| one.url == other.url)
                        && (one.offset, one.length) == (other.offset, other.length)
                }
                _ => false,
            }
    })
}

/// Returns a value as JSON, for a record.
pub(crate) fn json_text(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::of_file(format!("journal: {error}")))
}

fn broken(name: &str, reason: &str) -> virtualize::Error {
    virtualize::Error::References { name: name.to_owned(), reason: format!("journal: {reason}") }
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
