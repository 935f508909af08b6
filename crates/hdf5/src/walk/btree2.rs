//! Walks version 2 B-trees, all trees of a call together, one batch of ranges a level.
//!
//! A tree cannot loop: depth falls with each step, and the counts in the pointers must add up to the header's total,
//! which the size of the file bounds.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use super::{Io, batch::read_whole};
use crate::{
    Error,
    spec::{
        Format,
        btree2::{Btree2Child, Btree2Header},
    },
};

const HEADER: &str = "version 2 B-tree header";
const NODE: &str = "version 2 B-tree node";

/// The records of a tree, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Btree2Records {
    /// Kind of record.
    pub(crate) record_type: u8,
    /// Size of a record in bytes, never 0.
    pub(crate) record_size: usize,
    /// All records, one after the other.
    pub(crate) records: Vec<u8>,
}

/// Takes the records of trees as they are found, level by level.
pub(crate) trait Btree2Sink {
    /// A tree's header was read: `total` records will come. Called before any of its records.
    fn begin(&mut self, tree: usize, header: &Btree2Header, address: u64) -> Result<(), Error>;
    /// Consecutive records of a tree, the first of which is number `first` in order.
    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error>;
}

/// Reads all records of the trees whose headers lie at `headers`.
pub(crate) async fn read_records(
    io: &Io<'_>,
    format: Format,
    headers: &[u64],
) -> Vec<Result<Btree2Records, Error>> {
    let mut copies = Copies { io, trees: headers.iter().map(|_| None).collect() };
    let results = walk_trees(io, format, headers, &mut copies).await;
    let missing = |tree: usize| Error::malformed(HEADER, headers.get(tree).copied().unwrap_or(0), "not read");
    let pairs = results.into_iter().zip(copies.trees).enumerate();
    pairs
        .map(|(tree, (result, records))| result.and_then(|()| records.ok_or_else(|| missing(tree))))
        .collect()
}

/// Hands all records of the trees to `sink`. Says of each tree whether it was read to its end.
pub(crate) async fn walk_trees(
    io: &Io<'_>,
    format: Format,
    headers: &[u64],
    sink: &mut impl Btree2Sink,
) -> Vec<Result<(), Error>> {
    let mut walk = Walk { format, trees: Vec::new(), next: Vec::new() };
    let size = Btree2Header::size(format);
    let ranges: Vec<_> = headers.iter().map(|&address| ByteRange::new(address, size)).collect();
    for (tree, bytes) in read_whole(io, HEADER, &ranges).await.into_iter().enumerate() {
        walk.begin(io, tree, bytes, headers.get(tree).copied().unwrap_or(0), sink);
    }
    while !walk.next.is_empty() {
        let level = std::mem::take(&mut walk.next);
        for batch in level.chunks(BATCH) {
            let ranges: Vec<_> = batch.iter().map(|node| walk.range(node)).collect();
            let read = read_whole(io, NODE, &ranges).await;
            for (node, bytes) in batch.iter().zip(read) {
                walk.visit(node, bytes, sink);
            }
        }
    }
    walk.trees.into_iter().map(|tree| tree.map(drop)).collect()
}

/// Nodes of one batch: bounds the memory that holds them, at no cost in latency that one would notice.
const BATCH: usize = 16_384;

struct Walk {
    format: Format,
    trees: Vec<Result<Btree2Header, Error>>,
    next: Vec<Node>,
}

/// A node to be read.
#[derive(Clone, Copy)]
struct Node {
    tree: usize,
    child: Btree2Child,
    depth: u16,
    /// Records of the tree that come before this node and all below it.
    first: u64,
}

impl Walk {
    fn begin(
        &mut self,
        io: &Io<'_>,
        tree: usize,
        bytes: Result<Bytes, Error>,
        address: u64,
        sink: &mut impl Btree2Sink,
    ) {
        let header = bytes.and_then(|bytes| {
            let header = Btree2Header::parse(&bytes, address, self.format)?;
            check_size(io, &header, address)?;
            sink.begin(tree, &header, address)?;
            Ok(header)
        });
        if let Ok(Btree2Header { root: Some(child), depth, .. }) = &header {
            self.next.push(Node { tree, child: *child, depth: *depth, first: 0 });
        }
        self.trees.push(header);
    }

    fn range(&self, node: &Node) -> ByteRange {
        let length = match self.trees.get(node.tree) {
            Some(Ok(header)) => header.node_bytes(node.child, node.depth, self.format),
            _ => 0,
        };
        ByteRange::new(node.child.address, length)
    }

    fn visit(&mut self, node: &Node, bytes: Result<Bytes, Error>, sink: &mut impl Btree2Sink) {
        let Some(Ok(header)) = self.trees.get(node.tree) else { return };
        let result = bytes.and_then(|bytes| visit(header, node, &bytes, self.format, sink, &mut self.next));
        if let (Err(error), Some(tree)) = (result, self.trees.get_mut(node.tree)) {
            *tree = Err(error);
        }
    }
}

/// Hands on the records of a node and notes its children.
fn visit(
    header: &Btree2Header,
    node: &Node,
    bytes: &[u8],
    format: Format,
    sink: &mut impl Btree2Sink,
    next: &mut Vec<Node>,
) -> Result<(), Error> {
    let parsed = header.parse_node(bytes, node.child, node.depth, format)?;
    if node.depth == 0 {
        return sink.records(node.tree, node.first, parsed.records);
    }
    let mut first = node.first;
    let mut records = parsed.records.chunks_exact(header.record_size.into());
    for child in parsed.children {
        next.push(Node { tree: node.tree, child, depth: node.depth.saturating_sub(1), first });
        first = first.saturating_add(child.total);
        if let Some(record) = records.next() {
            sink.records(node.tree, first, record)?;
            first = first.saturating_add(1);
        }
    }
    Ok(())
}

/// All records lie in the file, so that it cannot hold more of them than bytes.
fn check_size(io: &Io<'_>, header: &Btree2Header, address: u64) -> Result<(), Error> {
    let bytes = header.total.saturating_mul(header.record_size.into());
    if bytes > io.size() {
        let problem = format!("{} records in a file of {} bytes", header.total, io.size());
        return Err(Error::malformed(HEADER, address, problem));
    }
    if header.depth > 0 && u64::from(header.depth) > u64::from(io.limits().depth) {
        let problem = format!("depth {}, the limit is {}", header.depth, io.limits().depth);
        return Err(Error::limit(HEADER, address, problem));
    }
    Ok(())
}

/// Copies the records of each tree to their places in one buffer.
struct Copies<'a> {
    io: &'a Io<'a>,
    trees: Vec<Option<Btree2Records>>,
}

impl Btree2Sink for Copies<'_> {
    fn begin(&mut self, tree: usize, header: &Btree2Header, address: u64) -> Result<(), Error> {
        let record_size = usize::from(header.record_size);
        let size = usize::try_from(header.total).ok().and_then(|total| total.checked_mul(record_size));
        let size = size.ok_or_else(|| Error::limit(HEADER, address, format!("{} records", header.total)))?;
        if let Some(place) = self.trees.get_mut(tree) {
            self.io.hold("records of version 2 B-trees", size as u64)?;
            let records = vec![0; size];
            *place = Some(Btree2Records { record_type: header.record_type, record_size, records });
        }
        Ok(())
    }

    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error> {
        let Some(Some(copy)) = self.trees.get_mut(tree) else { return Ok(()) };
        let start = usize::try_from(first).ok().and_then(|first| first.checked_mul(copy.record_size));
        let place = start.and_then(|start| copy.records.get_mut(start..start.checked_add(records.len())?));
        let Some(place) = place else {
            return Err(Error::malformed(NODE, 0, "more records than the header says"));
        };
        place.copy_from_slice(records);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::{spec::checksum::lookup3, walk::ready::ready};

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    fn put(file: &mut Vec<u8>, address: usize, parts: &[&[u8]]) {
        let mut bytes = parts.concat();
        let sum = lookup3(&bytes).to_le_bytes();
        bytes.extend(sum);
        file.resize(file.len().max(address + bytes.len()), 0);
        file[address..address + bytes.len()].copy_from_slice(&bytes);
    }

    /// A tree of records of one byte: "b" in the root between leaves "a" and "cd", in nodes of 32 bytes.
    fn tree(total: u64) -> Vec<u8> {
        let mut file = Vec::new();
        let root = [&256_u64.to_le_bytes()[..], &1_u16.to_le_bytes(), &total.to_le_bytes()].concat();
        put(&mut file, 64, &[b"BTHD\0\x05", &32_u32.to_le_bytes(), &[1, 0, 1, 0, 100, 40], &root]);
        let (left, right) = (512_u64.to_le_bytes(), 768_u64.to_le_bytes());
        put(&mut file, 256, &[b"BTIN\0\x05b", &left, &[1], &right, &[2]]);
        put(&mut file, 512, &[b"BTLF\0\x05a"]);
        put(&mut file, 768, &[b"BTLF\0\x05cd"]);
        file
    }

    fn read(file: Vec<u8>, headers: &[u64]) -> Vec<Result<Btree2Records, Error>> {
        let source = MemorySource(file.into());
        ready(read_records(&Io::new(&source, Limits::default()), FORMAT, headers))
    }

    #[test]
    fn records_come_in_order() {
        let found = read(tree(4), &[64, 64]);
        let expected = Btree2Records { record_type: 5, record_size: 1, records: b"abcd".to_vec() };
        assert!(found.into_iter().all(|records| records.unwrap() == expected));
    }

    #[test]
    fn a_damaged_tree_spoils_no_other() {
        let mut found = read(tree(4), &[64, 256, 5000]);
        assert!(found.remove(0).is_ok());
        assert!(found.remove(0).unwrap_err().to_string().contains("signature BTIN, expected BTHD"));
        assert!(found.remove(0).unwrap_err().to_string().contains("the file ends"));
    }

    #[test]
    fn counts_must_add_up() {
        let error = read(tree(5), &[64]).remove(0).unwrap_err().to_string();
        assert!(error.contains("4 records in and below it, expected 5"), "{error}");
        let error = read(tree(1 << 40), &[64]).remove(0).unwrap_err().to_string();
        assert!(error.contains("1099511627776 records in a file of"), "{error}");
    }
}
