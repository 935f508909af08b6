//! What is recorded of a file that was read: its hierarchy as rows, from which files are combined.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};
use virtualize::{
    ErrorClass, VirtualStore,
    zarr::{Array, ChunkEntry, ChunkManifest, Hierarchy, NodePath, Source, SourceId, ZarrFormat, node},
};

use super::{
    DONE, FAILED, ITEM, Journal, Result,
    codec::{Dictionary, Reader, Recent, decode_chunks, encode_chunks, put, put_bytes},
    signed, unsigned, work_of,
};
use crate::{
    Item,
    file::{FileChunks, Head, HeadNode, ParsedNode},
};

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
            let mut node = ParsedNode::parse(&row.document, self.format).map_err(|reason| failed(&reason))?;
            if let ParsedNode::Array(array) = &mut node {
                let chunks = Bytes::copy_from_slice(&row.chunks);
                array.chunks =
                    manifest(array, chunks, self.sources.len()).map_err(|reason| failed(&reason))?;
            }
            node.put(&mut hierarchy, &row.path).ok_or_else(|| failed("it is inside an array"))?;
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

/// Maximum number of kinds whose dictionaries are kept.
const KINDS: usize = 64;
/// Maximum length of the documents that are kept.
const DOCUMENTS: usize = 8 << 20;

/// Rows of the tables of nodes, documents and kinds that were used last. Not valid after a transaction was rolled back.
#[derive(Debug)]
pub(super) struct Cache {
    /// Rows of `nodes` by path, and the reverse.
    nodes: HashMap<Arc<str>, i64>,
    paths: HashMap<i64, Arc<str>>,
    /// Rows of `documents`, by node and text.
    documents: Recent<(i64, Arc<str>), i64>,
    /// Dictionary of the documents of each node, with the row of the first.
    firsts: Recent<i64, (i64, Dictionary)>,
    /// Kinds by storage digest, and by row.
    kinds: Recent<String, i64>,
    kinds_by_row: Recent<i64, Kind>,
    /// Parsed documents.
    parsed: Recent<i64, Arc<ParsedNode>>,
}

/// The first extent and record of a kind of files.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) storage: Arc<str>,
    pub(super) signature: Arc<str>,
    pub(super) extent: Dictionary,
    pub(super) record: Dictionary,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            nodes: HashMap::new(),
            paths: HashMap::new(),
            documents: Recent::new(DOCUMENTS),
            firsts: Recent::new(4 * KINDS),
            kinds: Recent::new(KINDS),
            kinds_by_row: Recent::new(KINDS),
            parsed: Recent::new(DOCUMENTS),
        }
    }
}

/// Records how reading a file ended.
pub(super) fn finish(
    connection: &Connection,
    cache: &mut Cache,
    run: i64,
    Work { id, item: listed }: Work,
    outcome: &Outcome,
) -> rusqlite::Result<()> {
    let done = match outcome {
        Ok(done) => done,
        Err(Failure { attempts, class, error }) => {
            let sql = "UPDATE files SET state = ?2, attempts = ?3, class = ?4, error = ?5 WHERE id = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            return statement.execute(params![id, FAILED, attempts, class_name(*class), error]).map(drop);
        }
    };
    let Item { size, etag, modified, .. } = done.opened.clone();
    let item = match done.replaced {
        true => Item { size, etag, modified, ..listed },
        // Fills in only what the listing omitted.
        false => Item {
            size: listed.size.or(size),
            etag: listed.etag.or(etag),
            modified: listed.modified.or(modified),
            ..listed
        },
    };
    let (written, member) = match &done.record {
        Record::Written { name, receipt } => (Some((name, receipt)), None),
        Record::Member(member) => (None, Some(&**member)),
    };
    let sql = "UPDATE files SET size = ?2, etag = ?3, modified = ?4, state = 1, attempts = ?5, class = NULL,
        error = NULL, written = ?6, receipt = ?7, run = ?8 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![
        id,
        item.size.map(signed),
        item.etag,
        item.modified,
        done.attempts,
        written.map(|(name, _)| name),
        written.map(|(_, receipt)| receipt),
        run,
    ])?;
    let (mut kind, mut extent, mut sources, mut record) = (None, None, None, None);
    if let Some(member) = member {
        let encoded = encode(connection, cache, member)?;
        let row = self::kind(connection, cache, member, &encoded)?;
        let dictionaries = cache.kind(connection, row)?;
        record = Some(dictionaries.record.encode(&encoded).map_err(other)?);
        extent = Some(dictionaries.extent.encode(member.extent.as_bytes()).map_err(other)?);
        let versions = member.sources.iter().map(|source| (&source.url, Some(source)));
        sources = (!is_itself(&member.sources, &item)).then(|| versions_text(versions));
        kind = Some(row);
        let sql = "INSERT OR REPLACE INTO chunks (node, file, chunks) VALUES (?1, ?2, ?3)";
        let mut statement = connection.prepare_cached(sql)?;
        for node in member.nodes.iter().filter(|node| !node.chunks.is_empty()) {
            statement.execute(params![cache.node(connection, &node.path)?, id, node.chunks])?;
        }
    }
    let others = done.related.iter().map(|(url, version)| (url, version.as_ref()));
    let related = (!done.related.is_empty()).then(|| versions_text(others));
    let sql = "INSERT OR REPLACE INTO contents (id, requests, bytes, kind, extent, sources, record, related)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        id,
        signed(done.requests),
        signed(done.bytes),
        kind,
        extent,
        sources,
        record,
        related,
    ])?;
    Ok(())
}

/// Encodes everything but chunks and sources.
fn encode(connection: &Connection, cache: &mut Cache, member: &FileRecord) -> rusqlite::Result<Vec<u8>> {
    let mut out = vec![match member.format {
        virtualize::zarr::ZarrFormat::V2 => 2,
        virtualize::zarr::ZarrFormat::V3 => 3,
    }];
    let row = |number: i64| number.unsigned_abs();
    put(&mut out, member.nodes.len() as u64);
    for node in &member.nodes {
        let id = cache.node(connection, &node.path)?;
        put(&mut out, row(id));
        put(&mut out, row(cache.document(connection, id, &node.document)?));
        put(&mut out, node.count);
    }
    put(&mut out, member.values.len() as u64);
    for (path, values) in &member.values {
        put(&mut out, row(cache.node(connection, path)?));
        put_bytes(&mut out, values);
    }
    put(&mut out, member.digests.len() as u64);
    for (path, digest) in &member.digests {
        put(&mut out, row(cache.node(connection, path)?));
        put_bytes(&mut out, digest.as_bytes());
    }
    if !member.given.is_empty() {
        out.extend(json!(member.given).to_string().into_bytes());
    }
    Ok(out)
}

/// Returns whether the file itself is the only source.
fn is_itself(sources: &[Source], item: &Item) -> bool {
    let [Source { url, etag, size, modified }] = sources else { return false };
    *url == item.url
        && *etag == item.etag
        && Some(*size) == item.size
        && *modified == item.modified
        && i64::try_from(*size).is_ok()
}

/// Encodes files: url, entity tag, size and modification time of each; of one that does not exist, the url alone.
fn versions_text<'a>(files: impl Iterator<Item = (&'a String, Option<&'a Source>)>) -> String {
    let row = |(url, version): (&String, Option<&Source>)| {
        let etag = version.and_then(|version| version.etag.as_ref());
        json!([url, etag, version.map(|version| version.size), version.and_then(|version| version.modified)])
    };
    files.map(row).collect::<Value>().to_string()
}

/// Decodes files; `None` for each that does not exist.
pub(super) fn versions<C: FromIterator<(String, Option<Source>)>>(text: &str) -> rusqlite::Result<C> {
    type Row = (String, Option<String>, Option<u64>, Option<i64>);
    let rows: Vec<Row> = serde_json::from_str(text).map_err(|_| damaged("a list of files"))?;
    let one = |(url, etag, size, modified): Row| {
        (url.clone(), size.map(|size| Source { url, etag, size, modified }))
    };
    Ok(rows.into_iter().map(one).collect())
}

/// Returns the row of a member's kind.
fn kind(
    connection: &Connection,
    cache: &mut Cache,
    member: &FileRecord,
    record: &[u8],
) -> rusqlite::Result<i64> {
    if let Some(id) = cache.kinds.get(member.storage.as_str()) {
        return Ok(*id);
    }
    let found = connection
        .prepare_cached("SELECT id FROM kinds WHERE storage = ?1")?
        .query_row([&member.storage], |row| row.get(0))
        .optional()?;
    let id = match found {
        Some(id) => id,
        None => {
            let (extent, record) = (Dictionary::new(member.extent.as_bytes()), Dictionary::new(record));
            let sql = "INSERT INTO kinds (storage, signature, extent, record) VALUES (?1, ?2, ?3, ?4)";
            let values = params![member.storage, member.signature, extent.base(), record.base()];
            connection.prepare_cached(sql)?.insert(values)?
        }
    };
    cache.kinds.insert(member.storage.clone(), id, 1);
    Ok(id)
}

impl Cache {
    /// Returns the dictionaries of a kind.
    pub(super) fn kind(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<&mut Kind> {
        if self.kinds_by_row.get(&id).is_none() {
            let sql = "SELECT extent, record, storage, signature FROM kinds WHERE id = ?1";
            let kind = connection.prepare_cached(sql)?.query_row([id], |row| {
                let dictionary =
                    |at: usize| Ok::<_, rusqlite::Error>(Dictionary::new(row.get_ref(at)?.as_blob()?));
                let storage = row.get::<_, String>(2)?.into();
                let signature = row.get::<_, String>(3)?.into();
                Ok(Kind { storage, signature, extent: dictionary(0)?, record: dictionary(1)? })
            })?;
            self.kinds_by_row.insert(id, kind, 1);
        }
        self.kinds_by_row.get(&id).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Returns the row of a path.
    fn node(&mut self, connection: &Connection, path: &str) -> rusqlite::Result<i64> {
        match self.find_node(connection, path)? {
            Some(id) => Ok(id),
            None => {
                let id = connection.prepare_cached("INSERT INTO nodes (path) VALUES (?1)")?.insert([path])?;
                self.nodes.insert(path.into(), id);
                Ok(id)
            }
        }
    }

    /// Returns the row of a path, if there is one.
    pub(super) fn find_node(&mut self, connection: &Connection, path: &str) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.nodes.get(path) {
            return Ok(Some(*id));
        }
        let mut statement = connection.prepare_cached("SELECT id FROM nodes WHERE path = ?1")?;
        let id = statement.query_row([path], |row| row.get(0)).optional()?;
        if let Some(id) = id {
            self.nodes.insert(path.into(), id);
        }
        Ok(id)
    }

    /// Returns the path of a row.
    pub(super) fn path(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<Arc<str>> {
        if let Some(path) = self.paths.get(&id) {
            return Ok(Arc::clone(path));
        }
        let mut statement = connection.prepare_cached("SELECT path FROM nodes WHERE id = ?1")?;
        let path: Arc<str> = statement.query_row([id], |row| row.get::<_, String>(0))?.into();
        self.paths.insert(id, Arc::clone(&path));
        Ok(path)
    }

    /// Returns the row of a document.
    fn document(&mut self, connection: &Connection, node: i64, text: &Arc<str>) -> rusqlite::Result<i64> {
        let key = (node, Arc::clone(text));
        if let Some(id) = self.documents.get(&key) {
            return Ok(*id);
        }
        let id = match self.first(connection, node)? {
            Some((first, dictionary)) if dictionary.is_first(text.as_bytes()) => *first,
            Some((first, dictionary)) => {
                let encoded = dictionary.encode(text.as_bytes()).map_err(other)?;
                let sql = "INSERT INTO documents (node, first, text) VALUES (?1, ?2, ?3)";
                connection.prepare_cached(sql)?.insert(params![node, *first, encoded])?
            }
            None => {
                let sql = "INSERT INTO documents (node, first, text) VALUES (?1, NULL, ?2)";
                connection.prepare_cached(sql)?.insert(params![node, text.as_bytes()])?
            }
        };
        self.documents.insert(key, id, text.len());
        Ok(id)
    }

    /// Returns the first document of a node, with its row.
    fn first(
        &mut self,
        connection: &Connection,
        node: i64,
    ) -> rusqlite::Result<Option<&mut (i64, Dictionary)>> {
        if self.firsts.get(&node).is_none() {
            let sql = "SELECT id, text FROM documents WHERE node = ?1 AND first IS NULL";
            let found = connection
                .prepare_cached(sql)?
                .query_row([node], |row| Ok((row.get(0)?, Dictionary::new(row.get_ref(1)?.as_blob()?))));
            if let Some(first) = found.optional()? {
                self.firsts.insert(node, first, 1);
            }
        }
        Ok(self.firsts.get(&node))
    }

    /// Returns the text of a document.
    pub(super) fn text(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<String> {
        let sql = "SELECT node, first, text FROM documents WHERE id = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (node, first, text): (i64, Option<i64>, Vec<u8>) = statement.query_row([id], row)?;
        let text = match first {
            None => Some(text),
            Some(_) => self.first(connection, node)?.and_then(|(_, dictionary)| dictionary.decode(&text)),
        };
        text.and_then(|text| String::from_utf8(text).ok()).ok_or_else(|| damaged("a metadata document"))
    }
}

/// Reads a record. `node` turns path, row of the document, and number of chunks of a node into what is needed of it.
fn head<N>(
    connection: &Connection,
    cache: &mut Cache,
    id: i64,
    mut node: impl FnMut(&mut Cache, ZarrFormat, (i64, i64, u64)) -> rusqlite::Result<N>,
) -> rusqlite::Result<Head<N>> {
    let mut statement = connection.prepare_cached("SELECT kind, record FROM contents WHERE id = ?1")?;
    let record = statement.query_row([id], |row| {
        let dictionary = &mut cache.kind(connection, row.get(0)?)?.record;
        Ok(dictionary.decode(row.get_ref(1)?.as_blob()?))
    })?;
    let broken = || damaged("its record");
    let mut reader = Reader(record.ok_or_else(broken)?.into());
    let row =
        |reader: &mut Reader| reader.number().and_then(|row| i64::try_from(row).ok()).ok_or_else(broken);
    let format = match reader.byte() {
        Some(2) => ZarrFormat::V2,
        Some(3) => ZarrFormat::V3,
        _ => return Err(broken()),
    };
    let count = |reader: &mut Reader| reader.count().ok_or_else(broken);
    let mut nodes = Vec::new();
    for _ in 0..count(&mut reader)? {
        let found = (row(&mut reader)?, row(&mut reader)?, reader.number().ok_or_else(broken)?);
        nodes.push(node(cache, format, found)?);
    }
    let (mut values, mut digests) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..count(&mut reader)? {
        let path = cache.path(connection, row(&mut reader)?)?.to_string();
        values.insert(path, reader.bytes().ok_or_else(broken)?);
    }
    for _ in 0..count(&mut reader)? {
        let path = cache.path(connection, row(&mut reader)?)?.to_string();
        digests.insert(path, reader.text().ok_or_else(broken)?);
    }
    let given = match reader.0.as_ref() {
        [] => BTreeMap::new(),
        text => serde_json::from_slice(text).map_err(|_| broken())?,
    };
    Ok(Head { item: item(connection, id)?, format, nodes, values, digests, given })
}

// Each statement reads one table: SQLite would prepare a join again for each file.
fn item(connection: &Connection, id: i64) -> rusqlite::Result<Item> {
    let sql = format!("SELECT {ITEM} FROM files WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id], |row| Ok(work_of(row)?.item))
}

/// Returns the parsed document of a row. All files with that document share it.
fn parsed(
    connection: &Connection,
    cache: &mut Cache,
    id: i64,
    format: ZarrFormat,
) -> rusqlite::Result<Arc<ParsedNode>> {
    if let Some(node) = cache.parsed.get(&id) {
        return Ok(Arc::clone(node));
    }
    let text = cache.text(connection, id)?;
    let node = ParsedNode::parse(&text, format).map_err(|reason| damaged(&reason))?;
    let node = Arc::new(node);
    cache.parsed.insert(id, Arc::clone(&node), text.len());
    Ok(node)
}

/// Returns the sources of a file.
fn sources_of_file(connection: &Connection, id: i64) -> rusqlite::Result<Vec<Source>> {
    let mut statement = connection.prepare_cached("SELECT sources FROM contents WHERE id = ?1")?;
    let sources: Option<String> = statement.query_row([id], |row| row.get(0))?;
    if let Some(text) = sources {
        return Ok(versions::<Vec<_>>(&text)?.into_iter().filter_map(|(_, source)| source).collect());
    }
    let mut statement =
        connection.prepare_cached("SELECT url, size, etag, modified FROM files WHERE id = ?1")?;
    statement.query_row([id], |row| {
        let size = row.get::<_, Option<i64>>(1)?.map(unsigned).unwrap_or_default();
        Ok(vec![Source { url: row.get(0)?, size, etag: row.get(2)?, modified: row.get(3)? }])
    })
}

/// Returns the file of a row with its record.
pub(super) fn member(
    connection: &Connection,
    cache: &mut Cache,
    id: i64,
) -> rusqlite::Result<(Item, FileRecord)> {
    let mut statement =
        connection.prepare_cached("SELECT chunks FROM chunks WHERE node = ?1 AND file = ?2")?;
    let Head { item, format, nodes, values, digests, given } =
        head(connection, cache, id, |cache, _, (path, document, count)| {
            let chunks = match count {
                0 => Vec::new(),
                _ => statement.query_row([path, id], |row| row.get(0))?,
            };
            let document = cache.text(connection, document)?.into();
            Ok(NodeRecord { path: cache.path(connection, path)?.to_string(), document, chunks, count })
        })?;
    let sources = sources_of_file(connection, id)?;
    let mut statement = connection.prepare_cached("SELECT kind, extent FROM contents WHERE id = ?1")?;
    statement.query_row([id], |row| {
        let kind = cache.kind(connection, row.get(0)?)?;
        let extent = kind.extent(row.get_ref(1)?.as_blob()?)?;
        let (storage, signature) = (kind.storage.to_string(), Arc::clone(&kind.signature));
        Ok((item, FileRecord { storage, signature, extent, format, nodes, sources, values, digests, given }))
    })
}

impl Kind {
    /// Decodes an extent.
    pub(super) fn extent(&mut self, encoded: &[u8]) -> rusqlite::Result<String> {
        let extent = self.extent.decode(encoded).and_then(|extent| String::from_utf8(extent).ok());
        extent.ok_or_else(|| damaged("an extent"))
    }
}

impl Journal {
    /// Returns the metadata of a member.
    pub(crate) fn head(&self, row: u64) -> Result<Head> {
        let (connection, cache, id) = (&self.connection, &mut self.cache.borrow_mut(), signed(row));
        let head = head(connection, cache, id, |cache, format, (path, document, count)| {
            let node = parsed(connection, cache, document, format)?;
            Ok(HeadNode { path: cache.path(connection, path)?, node, count })
        });
        head.map_err(|error| self.failed(error).at(row))
    }

    /// Returns the chunks of an array of a member.
    pub(crate) fn chunks(&self, row: u64, path: &str) -> Result<FileChunks> {
        let (connection, cache, id) = (&self.connection, &mut self.cache.borrow_mut(), signed(row));
        let mut chunks = || -> rusqlite::Result<FileChunks> {
            let sources = sources_of_file(connection, id)?;
            let node = cache.find_node(connection, path)?.unwrap_or(-1);
            let sql = "SELECT chunks FROM chunks WHERE node = ?1 AND file = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let chunks: Option<Vec<u8>> = statement.query_row([node, id], |row| row.get(0)).optional()?;
            let chunks = decode_chunks(chunks.unwrap_or_default().into(), sources.len());
            let chunks = chunks.ok_or_else(|| damaged(&format!("the chunks of {path}")))?;
            Ok(FileChunks { chunks, sources: sources.into_iter().map(Arc::new).collect() })
        };
        chunks().map_err(|error| self.failed(error).at(row))
    }

    /// Returns a file.
    pub(crate) fn item(&self, id: i64) -> Result<Item> {
        self.query(|connection| item(connection, id))
    }

    /// Returns how reading the files after a row ended, at most `most`: rows, urls and outcomes.
    pub(super) fn outcomes(&self, after: i64, most: u64) -> Result<Vec<(i64, NamedOutcome)>> {
        let sql = "SELECT files.id, state, attempts, class, error, url, requests, bytes, related
            FROM files LEFT JOIN contents ON contents.id = files.id WHERE files.id > ?1 ORDER BY files.id LIMIT ?2";
        self.all(sql, params![after, signed(most)], |row| {
            let (id, state, attempts): (i64, i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let outcome = if state == DONE {
                let (opened, record) = member(&self.connection, &mut self.cache.borrow_mut(), id)?;
                let related: Option<String> = row.get(8)?;
                Ok(Box::new(Done {
                    opened,
                    replaced: false,
                    attempts,
                    seconds: 0.0,
                    requests: unsigned(row.get(6)?),
                    retries: 0,
                    bytes: unsigned(row.get(7)?),
                    warnings: Vec::new(),
                    related: related.map(|text| versions(&text)).transpose()?.unwrap_or_default(),
                    record: Record::Member(Box::new(record)),
                }))
            } else {
                let class = class_named(&row.get::<_, String>(3)?);
                let class = class.ok_or_else(|| damaged("a class of errors"))?;
                Err(Failure { attempts, class, error: row.get(4)? })
            };
            Ok((id, (row.get(5)?, outcome)))
        })
    }
}

/// Returns the error of damaged content.
pub(super) fn damaged(what: &str) -> rusqlite::Error {
    other(std::io::Error::other(format!("{what} is damaged")))
}

fn other(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
