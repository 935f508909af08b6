//! Stores members. Documents, paths and signatures are stored once; what differs from file to file is stored as the
//! difference from the first file of its kind.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use virtualize::zarr::Source;

use super::{
    MemberRow,
    dictionary::Dictionary,
    recent::Recent,
    varint::{put, put_bytes},
};
use crate::{Item, head::ParsedNode};

/// Maximum number of kinds whose dictionaries are kept.
const KINDS: usize = 64;
/// Maximum length of the documents that are kept.
const DOCUMENTS: usize = 8 << 20;

/// What is known of the tables of nodes, documents and kinds. Not valid after a transaction was rolled back.
#[derive(Debug)]
pub(super) struct Known {
    /// Rows of `nodes` by path, and the reverse.
    nodes: HashMap<Arc<str>, i64>,
    paths: HashMap<i64, Arc<str>>,
    /// Rows of `documents`, by node and text.
    documents: Recent<(i64, Arc<str>), i64>,
    /// Dictionary of the documents of each node, with the row of the first.
    firsts: Recent<i64, (i64, Dictionary)>,
    /// Kinds by storage digest, and by row.
    kinds: Recent<String, i64>,
    pub(super) dictionaries: Recent<i64, Kind>,
    /// Parsed documents.
    pub(super) parsed: Recent<i64, Arc<ParsedNode>>,
}

/// The first extent and record of a kind of files.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) storage: Arc<str>,
    pub(super) signature: Arc<str>,
    pub(super) extent: Dictionary,
    pub(super) record: Dictionary,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            nodes: HashMap::new(),
            paths: HashMap::new(),
            documents: Recent::new(DOCUMENTS),
            firsts: Recent::new(4 * KINDS),
            kinds: Recent::new(KINDS),
            dictionaries: Recent::new(KINDS),
            parsed: Recent::new(DOCUMENTS),
        }
    }
}

/// What `contents` holds of a member.
pub(super) struct Saved {
    pub(super) kind: i64,
    pub(super) extent: Vec<u8>,
    /// `None` if the file itself is the only source.
    pub(super) sources: Option<Vec<u8>>,
    pub(super) record: Vec<u8>,
}

/// Stores the chunks of a member, and encodes the rest. `item` is the file as its row describes it.
pub(super) fn save(
    connection: &Connection,
    known: &mut Known,
    id: i64,
    item: &Item,
    member: &MemberRow,
) -> rusqlite::Result<Saved> {
    let record = record(connection, known, member)?;
    let kind = kind(connection, known, member, &record)?;
    let of_kind = known.kind(connection, kind)?;
    let record = of_kind.record.encode(&record).map_err(other)?;
    let extent = of_kind.extent.encode(member.extent.as_bytes()).map_err(other)?;
    let sql = "INSERT OR REPLACE INTO chunks (node, file, chunks) VALUES (?1, ?2, ?3)";
    let mut statement = connection.prepare_cached(sql)?;
    for node in member.nodes.iter().filter(|node| !node.chunks.is_empty()) {
        statement.execute(params![known.node(connection, &node.path)?, id, node.chunks])?;
    }
    let sources = (!is_itself(&member.sources, item)).then(|| sources(&member.sources));
    Ok(Saved { kind, extent, sources, record })
}

/// Encodes everything but chunks and sources.
fn record(connection: &Connection, known: &mut Known, member: &MemberRow) -> rusqlite::Result<Vec<u8>> {
    let mut out = vec![match member.format {
        virtualize::zarr::ZarrFormat::V2 => 2,
        virtualize::zarr::ZarrFormat::V3 => 3,
    }];
    let row = |number: i64| number.unsigned_abs();
    put(&mut out, member.nodes.len() as u64);
    for node in &member.nodes {
        let id = known.node(connection, &node.path)?;
        put(&mut out, row(id));
        put(&mut out, row(known.document(connection, id, &node.document)?));
        put(&mut out, node.count);
    }
    put(&mut out, member.values.len() as u64);
    for (path, values) in &member.values {
        put(&mut out, row(known.node(connection, path)?));
        put_bytes(&mut out, values);
    }
    put(&mut out, member.digests.len() as u64);
    for (path, digest) in &member.digests {
        put(&mut out, row(known.node(connection, path)?));
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

fn sources(sources: &[Source]) -> Vec<u8> {
    let one = |source: &Source| json!([source.url, source.etag, source.size, source.modified]);
    sources.iter().map(one).collect::<serde_json::Value>().to_string().into_bytes()
}

/// Decodes sources.
pub(super) fn sources_of(text: &[u8]) -> Option<Vec<Source>> {
    type Parts = (String, Option<String>, u64, Option<i64>);
    let parts: Vec<Parts> = serde_json::from_slice(text).ok()?;
    let one = |(url, etag, size, modified): Parts| Source { url, etag, size, modified };
    Some(parts.into_iter().map(one).collect())
}

/// Returns the row of a member's kind.
fn kind(
    connection: &Connection,
    known: &mut Known,
    member: &MemberRow,
    record: &[u8],
) -> rusqlite::Result<i64> {
    if let Some(id) = known.kinds.get(member.storage.as_str()) {
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
    known.kinds.insert(member.storage.clone(), id, 1);
    Ok(id)
}

impl Known {
    /// Returns the dictionaries of a kind.
    pub(super) fn kind(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<&mut Kind> {
        if self.dictionaries.get(&id).is_none() {
            let sql = "SELECT extent, record, storage, signature FROM kinds WHERE id = ?1";
            let kind = connection.prepare_cached(sql)?.query_row([id], |row| {
                let dictionary =
                    |at: usize| Ok::<_, rusqlite::Error>(Dictionary::new(row.get_ref(at)?.as_blob()?));
                let storage = row.get::<_, String>(2)?.into();
                let signature = row.get::<_, String>(3)?.into();
                Ok(Kind { storage, signature, extent: dictionary(0)?, record: dictionary(1)? })
            })?;
            self.dictionaries.insert(id, kind, 1);
        }
        self.dictionaries.get(&id).ok_or(rusqlite::Error::QueryReturnedNoRows)
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

/// Returns the error of damaged content.
pub(super) fn damaged(what: &str) -> rusqlite::Error {
    other(std::io::Error::other(format!("{what} is damaged")))
}

fn other(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
