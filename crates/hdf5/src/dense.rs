//! Reads links and attributes in dense storage: a version 2 B-tree indexes them, a fractal heap contains them.

use futures::future::join;

use crate::{
    Error,
    attribute::DenseStorage,
    btree2_walk::{Btree2Records, read_records},
    context::Format,
    fractal_heaps::{HeapId, HeapObject, open_heaps, read_heap_objects},
    io::Io,
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
    /// How the library finds the entry.
    pub(crate) name: IndexedName,
}

/// A name in an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexedName {
    /// Checksum of the name.
    pub(crate) hash: u32,
    /// Whether no checksum before it is larger, and none after it smaller.
    pub(crate) is_in_order: bool,
}

impl IndexedName {
    /// Checks that the library finds a link or an attribute, whose name has the checksum `hash`: it does a binary search for
    /// the checksum.
    pub(super) fn check(self, structure: &'static str, address: u64, hash: u32) -> Result<(), Error> {
        let expected = self.hash;
        let problem = match self.is_in_order {
            true if hash == expected => return Ok(()),
            true => format!("checksum {hash:#010x} of the name, expected {expected:#010x} of the index"),
            false => format!("checksum {expected:#010x} of the index, which is out of order"),
        };
        Err(Error::malformed(structure, address, problem))
    }
}

/// Marks the names that a binary search can miss.
fn mark_disorder(entries: &mut [DenseEntry]) {
    let (mut highest, mut lowest) = (0, u32::MAX);
    for DenseEntry { name, .. } in entries.iter_mut() {
        name.is_in_order = name.hash >= highest;
        highest = highest.max(name.hash);
    }
    for DenseEntry { name, .. } in entries.iter_mut().rev() {
        name.is_in_order &= name.hash <= lowest;
        lowest = lowest.min(name.hash);
    }
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
    let records = records.records.chunks_exact(records.record_size);
    let mut entries: Vec<_> = records.filter_map(|record| entry_of(kind, record)).collect();
    mark_disorder(&mut entries);
    Ok(entries)
}

fn entry_of(kind: DenseKind, record: &[u8]) -> Option<DenseEntry> {
    match (kind, record) {
        (DenseKind::Links, &[h, i, j, k, a, b, c, d, e, f, g, ..]) => {
            let name = IndexedName { hash: u32::from_le_bytes([h, i, j, k]), is_in_order: true };
            Some(DenseEntry { id: [a, b, c, d, e, f, g, 0], shared: false, creation: 0, name })
        }
        (DenseKind::Attributes, &[a, b, c, d, e, f, g, h, flags, w, x, y, z, j, k, l, m, ..]) => {
            let (creation, hash) = (u32::from_le_bytes([w, x, y, z]), u32::from_le_bytes([j, k, l, m]));
            let name = IndexedName { hash, is_in_order: true };
            Some(DenseEntry { id: [a, b, c, d, e, f, g, h], shared: flags & 2 != 0, creation, name })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libhdf5 finds the second entry, or not: that depends on the node size. It finds the first and the last one.
    #[test]
    fn entries_are_in_the_order_of_their_checksums() {
        let records =
            [10_u32, 90, 30, 40, 95].map(|hash| [&hash.to_le_bytes()[..], &[0; 7]].concat()).concat();
        let records = Btree2Records { record_type: 5, record_size: 11, records };
        let entries = entries_of(DenseKind::Links, &records, 0).unwrap();
        let found = |entry: &DenseEntry| entry.name.check("link", 0, entry.name.hash).is_ok();
        assert_eq!(entries.iter().map(found).collect::<Vec<_>>(), [true, false, false, false, true]);
    }
}
