//! Reads members back.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};
use virtualize::zarr::{Source, ZarrFormat};

use super::{
    Journal, JournalError, MemberRow, NodeRow, chunk_table,
    saved::{Known, damaged, sources_of},
    varint::Reader,
    work::{ITEM, known_of, unsigned},
};
use crate::{
    Item,
    head::{FileChunks, Head, HeadNode, Members, ParsedNode},
};

/// Reads the members of a journal by their rows in `files`.
impl Members for Journal {
    type Error = JournalError;

    fn head(&mut self, row: u64) -> Result<Head, JournalError> {
        let known = &mut self.known.borrow_mut();
        head(&self.connection, known, signed_row(row)).map_err(|error| self.failed_at(row, error))
    }

    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks, JournalError> {
        let known = &mut self.known.borrow_mut();
        chunks(&self.connection, known, signed_row(row), path).map_err(|error| self.failed_at(row, error))
    }
}

impl Journal {
    /// Returns the record of a member of the combined dataset, with all that it is planned and joined from.
    pub(super) fn record(&self, id: i64) -> rusqlite::Result<(Item, MemberRow)> {
        let known = &mut self.known.borrow_mut();
        let (item, member) = member(&self.connection, known, id)?;
        let mut statement =
            self.connection.prepare_cached("SELECT kind, extent FROM contents WHERE id = ?1")?;
        statement.query_row([id], |row| {
            let kind = known.kind(&self.connection, row.get(0)?)?;
            let extent = kind.extent.decode(row.get_ref(1)?.as_blob()?);
            let extent = extent.and_then(|extent| String::from_utf8(extent).ok());
            let extent = extent.ok_or_else(|| damaged("an extent"))?;
            let (storage, signature) = (kind.storage.to_string(), Arc::clone(&kind.signature));
            Ok((item, MemberRow { storage, signature, extent, ..member }))
        })
    }

    /// Returns a member of the combined dataset.
    pub(crate) fn member(&self, id: i64) -> Result<(Item, MemberRow), JournalError> {
        let known = &mut self.known.borrow_mut();
        member(&self.connection, known, id).map_err(|error| self.failed_at(unsigned(id), error))
    }

    fn failed_at(&self, row: u64, error: rusqlite::Error) -> JournalError {
        match self.failed(error) {
            JournalError::Failed { path, reason } => {
                JournalError::Failed { path, reason: format!("row {row}: {reason}") }
            }
            error => error,
        }
    }
}

fn signed_row(row: u64) -> i64 {
    i64::try_from(row).unwrap_or(i64::MAX)
}

/// The record of a member, decoded.
struct Fields {
    item: Item,
    format: ZarrFormat,
    /// Rows of path and document, and number of chunks.
    nodes: Vec<(i64, i64, u64)>,
    values: Vec<(i64, Bytes)>,
    digests: Vec<(i64, String)>,
    given: BTreeMap<String, serde_json::Value>,
}

fn fields(connection: &Connection, known: &mut Known, id: i64) -> rusqlite::Result<Fields> {
    let item = item(connection, id)?;
    let mut statement = connection.prepare_cached("SELECT kind, record FROM contents WHERE id = ?1")?;
    let decoded = statement.query_row([id], |row| {
        let dictionary = &mut known.kind(connection, row.get(0)?)?.record;
        Ok(dictionary.decode(row.get_ref(1)?.as_blob()?))
    })?;
    decoded.and_then(|record| decode(item, record)).ok_or_else(|| damaged("its record"))
}

// Each statement reads one table: SQLite would prepare a join anew for each file.
fn item(connection: &Connection, id: i64) -> rusqlite::Result<Item> {
    let sql = format!("SELECT {ITEM} FROM files WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id], |row| Ok(known_of(row)?.item))
}

fn decode(item: Item, record: Vec<u8>) -> Option<Fields> {
    let mut reader = Reader(record.into());
    let format = match reader.byte()? {
        2 => ZarrFormat::V2,
        3 => ZarrFormat::V3,
        _ => return None,
    };
    let row = |reader: &mut Reader| i64::try_from(reader.number()?).ok();
    let nodes = (0..reader.count()?)
        .map(|_| Some((row(&mut reader)?, row(&mut reader)?, reader.number()?)))
        .collect::<Option<_>>()?;
    let values =
        (0..reader.count()?).map(|_| Some((row(&mut reader)?, reader.bytes()?))).collect::<Option<_>>()?;
    let digests =
        (0..reader.count()?).map(|_| Some((row(&mut reader)?, reader.text()?))).collect::<Option<_>>()?;
    let given = match reader.0.as_ref() {
        [] => BTreeMap::new(),
        text => serde_json::from_slice(text).ok()?,
    };
    Some(Fields { item, format, nodes, values, digests, given })
}

fn head(connection: &Connection, known: &mut Known, id: i64) -> rusqlite::Result<Head> {
    let Fields { item, format, nodes, values, digests, given } = fields(connection, known, id)?;
    let nodes = nodes
        .into_iter()
        .map(|(path, document, count)| {
            let node = parsed(connection, known, document, format)?;
            Ok(HeadNode { path: known.path(connection, path)?, node, count })
        })
        .collect::<rusqlite::Result<_>>()?;
    let mut path = |id: i64| Ok::<_, rusqlite::Error>(known.path(connection, id)?.to_string());
    Ok(Head {
        item,
        format,
        nodes,
        values: values
            .into_iter()
            .map(|(id, values)| Ok((path(id)?, values)))
            .collect::<rusqlite::Result<_>>()?,
        digests: digests
            .into_iter()
            .map(|(id, digest)| Ok((path(id)?, digest)))
            .collect::<rusqlite::Result<_>>()?,
        given,
    })
}

/// Returns the parsed document of a row. All files with that document share it.
fn parsed(
    connection: &Connection,
    known: &mut Known,
    id: i64,
    format: ZarrFormat,
) -> rusqlite::Result<Arc<ParsedNode>> {
    if let Some(node) = known.parsed.get(&id) {
        return Ok(Arc::clone(node));
    }
    let text = known.text(connection, id)?;
    let node = ParsedNode::parse(&text, format).map_err(|reason| damaged(&reason))?;
    let node = Arc::new(node);
    known.parsed.insert(id, Arc::clone(&node), text.len());
    Ok(node)
}

fn chunks(connection: &Connection, known: &mut Known, id: i64, path: &str) -> rusqlite::Result<FileChunks> {
    let sources = sources(connection, id)?;
    let node = known.find_node(connection, path)?.unwrap_or(-1);
    let mut statement =
        connection.prepare_cached("SELECT chunks FROM chunks WHERE node = ?1 AND file = ?2")?;
    let chunks: Option<Vec<u8>> = statement.query_row([node, id], |row| row.get(0)).optional()?;
    let chunks = chunk_table::decode(chunks.unwrap_or_default().into(), sources.len());
    let chunks = chunks.ok_or_else(|| damaged(&format!("the chunks of {path}")))?;
    Ok(FileChunks { chunks, sources: sources.into_iter().map(Arc::new).collect() })
}

/// Returns the sources of a file.
fn sources(connection: &Connection, id: i64) -> rusqlite::Result<Vec<Source>> {
    let mut statement = connection.prepare_cached("SELECT sources FROM contents WHERE id = ?1")?;
    let sources: Option<Vec<u8>> = statement.query_row([id], |row| row.get(0))?;
    if let Some(text) = sources {
        return sources_of(&text).ok_or_else(|| damaged("its sources"));
    }
    let mut statement =
        connection.prepare_cached("SELECT url, size, etag, modified FROM files WHERE id = ?1")?;
    statement.query_row([id], |row| {
        let size = row.get::<_, Option<i64>>(1)?.map(unsigned).unwrap_or_default();
        Ok(vec![Source { url: row.get(0)?, size, etag: row.get(2)?, modified: row.get(3)? }])
    })
}

fn member(connection: &Connection, known: &mut Known, id: i64) -> rusqlite::Result<(Item, MemberRow)> {
    let Fields { item, format, nodes, values, digests, given } = fields(connection, known, id)?;
    let mut rows = Vec::with_capacity(nodes.len());
    let sql = "SELECT chunks FROM chunks WHERE node = ?1 AND file = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    for (node, document, count) in nodes {
        let path = known.path(connection, node)?.to_string();
        let document = known.text(connection, document)?.into();
        let chunks = match count {
            0 => Vec::new(),
            _ => statement.query_row([node, id], |row| row.get(0))?,
        };
        rows.push(NodeRow { path, document, chunks, count });
    }
    let sources = sources(connection, id)?;
    let mut path = |id: i64| Ok::<_, rusqlite::Error>(known.path(connection, id)?.to_string());
    let values =
        values.into_iter().map(|(id, values)| Ok((path(id)?, values))).collect::<rusqlite::Result<_>>()?;
    let digests =
        digests.into_iter().map(|(id, digest)| Ok((path(id)?, digest))).collect::<rusqlite::Result<_>>()?;
    Ok((item, MemberRow { format, nodes: rows, sources, values, digests, given, ..MemberRow::default() }))
}
