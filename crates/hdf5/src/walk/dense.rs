//! Reads links and attributes in dense storage: a version 2 B-tree indexes them, a fractal heap contains them.

use futures::future::join;

use super::{
    Io,
    btree2::{Btree2Records, read_records},
    fractal_heaps::{HeapId, HeapObject, open_heaps, read_heap_objects},
};
use crate::{
    Error,
    spec::{Format, attribute::DenseStorage},
};

/// Kind of objects in dense storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DenseKind {
    /// B-tree records of type 5: name hash 4, heap id 7.
    Links,
    /// B-tree records of type 8: heap id 8, message flags 1, creation order 4, name hash 4.
    Attributes,
}

/// The record of a link or an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DenseEntry {
    /// Heap id.
    pub(crate) id: HeapId,
    /// Whether the attribute is in the shared message heap instead.
    pub(crate) shared: bool,
    /// Creation order; 0 for links, whose records lack it.
    pub(crate) creation: u32,
    /// Checksum of the name, by which the library finds the entry.
    pub(crate) hash: u32,
}

/// Checks that the library finds a link or an attribute by its name: it looks up the checksum of the name.
pub(super) fn check_hash(
    structure: &'static str,
    address: u64,
    hash: u32,
    expected: u32,
) -> Result<(), Error> {
    if hash == expected {
        return Ok(());
    }
    let problem = format!("checksum {hash:#010x} of the name, expected {expected:#010x} of the index");
    Err(Error::malformed(structure, address, problem))
}

type Entries = Vec<(DenseEntry, Option<Result<HeapObject, Error>>)>;

/// Reads all entries of each storage. The object is `None` for entries in the shared message heap.
pub(crate) async fn read_dense(
    io: &Io<'_>,
    format: Format,
    kind: DenseKind,
    storages: &[DenseStorage],
) -> Result<Vec<Result<Entries, Error>>, Error> {
    let trees: Vec<_> = storages.iter().map(|storage| storage.names).collect();
    let heaps: Vec<_> = storages.iter().map(|storage| storage.heap).collect();
    let (records, heaps) = join(read_records(io, format, &trees), open_heaps(io, format, &heaps)).await;
    let entries: Vec<_> = records
        .into_iter()
        .zip(&trees)
        .map(|(records, &tree)| records.and_then(|records| entries_of(kind, &records, tree)))
        .collect();
    let ids = |entries: &Result<Vec<DenseEntry>, Error>| {
        let own = entries.iter().flatten().filter(|entry| !entry.shared);
        own.map(|entry| entry.id).collect()
    };
    let requests: Vec<Vec<HeapId>> = entries.iter().map(ids).collect();
    let objects = read_heap_objects(io, format, heaps?, &requests).await;
    let with_objects = |(entries, objects): (Result<Vec<DenseEntry>, Error>, Result<Vec<_>, Error>)| {
        let mut objects = objects?.into_iter();
        let with_object = |entry: DenseEntry| {
            let object = if entry.shared { None } else { objects.next() };
            (entry, object)
        };
        Ok(entries?.into_iter().map(with_object).collect())
    };
    Ok(entries.into_iter().zip(objects).map(with_objects).collect())
}

fn entries_of(kind: DenseKind, records: &Btree2Records, tree: u64) -> Result<Vec<DenseEntry>, Error> {
    let (expected, size) = match kind {
        DenseKind::Links => (5, 11),
        DenseKind::Attributes => (8, 17),
    };
    if records.record_type != expected || records.record_size < size {
        let (class, found) = (records.record_type, records.record_size);
        let problem =
            format!("records of type {class} and {found} bytes, expected type {expected} and {size}");
        return Err(Error::malformed("version 2 B-tree header", tree, problem));
    }
    Ok(records
        .records
        .chunks_exact(records.record_size)
        .filter_map(|record| entry_of(kind, record))
        .collect())
}

fn entry_of(kind: DenseKind, record: &[u8]) -> Option<DenseEntry> {
    match (kind, record) {
        (DenseKind::Links, &[h, i, j, k, a, b, c, d, e, f, g, ..]) => {
            let hash = u32::from_le_bytes([h, i, j, k]);
            Some(DenseEntry { id: [a, b, c, d, e, f, g, 0], shared: false, creation: 0, hash })
        }
        (DenseKind::Attributes, &[a, b, c, d, e, f, g, h, flags, w, x, y, z, j, k, l, m, ..]) => {
            let (creation, hash) = (u32::from_le_bytes([w, x, y, z]), u32::from_le_bytes([j, k, l, m]));
            Some(DenseEntry { id: [a, b, c, d, e, f, g, h], shared: flags & 2 != 0, creation, hash })
        }
        _ => None,
    }
}
