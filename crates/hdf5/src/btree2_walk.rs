//! Walks version 2 B-trees: all trees of a call together, one batch of ranges per level.
//!
//! A tree cannot contain a cycle: the depth decreases with each level, and the record counts of the nodes must add up
//! to the total of the header, which is bounded by the size of the file.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    batch::read_whole,
    btree2::{Btree2Child, Btree2Header},
    context::Format,
    io::Io,
};

const HEADER: &str = "version 2 B-tree header";
const NODE: &str = "version 2 B-tree node";

/// Records of a tree, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Btree2Records {
    /// Record type.
    pub(crate) record_type: u8,
    /// Size of a record in bytes, not 0.
    pub(crate) record_size: usize,
    /// Concatenated records.
    pub(crate) records: Vec<u8>,
}

/// Receives the records of trees, level by level.
pub(crate) trait Btree2Sink {
    /// Called before any records of a tree, with its header.
    fn begin(&mut self, tree: usize, header: &Btree2Header, address: u64) -> Result<(), Error>;
    /// Receives consecutive records of a tree. `first` is the index of the first one in the order of the tree.
    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error>;
}

/// Reads all records of the trees with headers at these addresses.
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

/// Passes all records of the trees to `sink`. Returns for each tree whether it could be read completely.
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
        for batch in level.chunks(io.batch()) {
            let ranges: Vec<_> = batch.iter().map(|node| walk.range(io, node)).collect();
            let read = read_whole(io, NODE, &ranges).await;
            for (node, bytes) in batch.iter().zip(read) {
                walk.visit(node, bytes, sink);
            }
        }
        walk.announce(io);
    }
    walk.trees.into_iter().map(|tree| tree.map(drop)).collect()
}

struct Walk {
    format: Format,
    trees: Vec<Result<Btree2Header, Error>>,
    next: Vec<Node>,
}

/// A node to read.
#[derive(Clone, Copy)]
struct Node {
    tree: usize,
    child: Btree2Child,
    depth: u16,
    /// Number of records of the tree before this subtree.
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

    /// Announces the nodes below those of the next level, if their records fill the space between these.
    fn announce(&self, io: &Io<'_>) {
        for nodes in self.next.chunk_by(|first, second| first.tree == second.tree) {
            if let [Node { tree, depth: 1.., .. }, ..] = nodes
                && let Some(Ok(header)) = self.trees.get(*tree)
            {
                let records = nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.child.total));
                let bytes = records.saturating_mul(header.record_size.into());
                io.will_read_below(nodes.iter().map(|node| node.child.address), bytes);
            }
        }
    }

    /// Returns the range of a node with its records. A node that exceeds the file fails as a whole, as in the library.
    fn range(&self, io: &Io<'_>, node: &Node) -> ByteRange {
        let Some(Ok(header)) = self.trees.get(node.tree) else {
            return ByteRange::new(node.child.address, 0);
        };
        let whole = ByteRange::new(node.child.address, header.node_size.into());
        match whole.end() <= io.size() {
            true => ByteRange::new(whole.start, header.node_bytes(node.child, node.depth, self.format)),
            false => whole,
        }
    }

    fn visit(&mut self, node: &Node, bytes: Result<Bytes, Error>, sink: &mut impl Btree2Sink) {
        let Some(Ok(header)) = self.trees.get(node.tree) else { return };
        let result = bytes.and_then(|bytes| visit(header, node, &bytes, self.format, sink, &mut self.next));
        if let (Err(error), Some(tree)) = (result, self.trees.get_mut(node.tree)) {
            *tree = Err(error);
        }
    }
}

/// Passes on the records of a node and adds its children to the next level.
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

/// Every record is stored in the file, so there cannot be more of them than bytes.
fn check_size(io: &Io<'_>, header: &Btree2Header, address: u64) -> Result<(), Error> {
    let bytes = header.total.saturating_mul(header.record_size.into());
    if bytes > io.size() {
        let problem = format!("{} records in a file of {} bytes", header.total, io.size());
        return Err(Error::malformed(HEADER, address, problem));
    }
    if header.depth > 0 && u64::from(header.depth) > u64::from(io.limits().depth) {
        let problem = format!("depth {}, expected at most {}", header.depth, io.limits().depth);
        return Err(Error::limit(HEADER, address, problem));
    }
    Ok(())
}

/// Copies the records of each tree to one buffer, in order.
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
            return Err(Error::malformed(NODE, 0, "more records than in the header"));
        };
        place.copy_from_slice(records);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::{checksum::lookup3, ready::ready};

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    fn put(file: &mut Vec<u8>, address: usize, parts: &[&[u8]]) {
        let mut bytes = parts.concat();
        let sum = lookup3(&bytes).to_le_bytes();
        bytes.extend(sum);
        file.resize(file.len().max(address + bytes.len()), 0);
        file[address..address + bytes.len()].copy_from_slice(&bytes);
    }

    /// A tree with records of one byte: "b" in the root between the leaves "a" and "cd", in nodes of 32 bytes.
    fn tree(total: u64) -> Vec<u8> {
        let mut file = Vec::new();
        let root = [&256_u64.to_le_bytes()[..], &1_u16.to_le_bytes(), &total.to_le_bytes()].concat();
        put(&mut file, 64, &[b"BTHD\0\x05", &32_u32.to_le_bytes(), &[1, 0, 1, 0, 100, 40], &root]);
        let (left, right) = (512_u64.to_le_bytes(), 768_u64.to_le_bytes());
        put(&mut file, 256, &[b"BTIN\0\x05b", &left, &[1], &right, &[2]]);
        put(&mut file, 512, &[b"BTLF\0\x05a"]);
        put(&mut file, 768, &[b"BTLF\0\x05cd"]);
        file.resize(800, 0);
        file
    }

    fn read(file: Vec<u8>, headers: &[u64]) -> Vec<Result<Btree2Records, Error>> {
        let source = MemorySource(file.into());
        ready(read_records(&Io::new(&source, Limits::default()), FORMAT, headers))
    }

    #[test]
    fn records_are_in_order() {
        let found = read(tree(4), &[64, 64]);
        let expected = Btree2Records { record_type: 5, record_size: 1, records: b"abcd".to_vec() };
        assert!(found.into_iter().all(|records| records.unwrap() == expected));
    }

    #[test]
    fn damaged_trees_do_not_affect_others() {
        let mut found = read(tree(4), &[64, 256, 5000]);
        assert!(found.remove(0).is_ok());
        assert!(found.remove(0).unwrap_err().to_string().contains("signature BTIN, expected BTHD"));
        assert!(found.remove(0).unwrap_err().to_string().contains("beyond the end of the file"));
    }

    /// The last node has 12 bytes of 32. libhdf5 reads all of it.
    #[test]
    fn whole_nodes_are_within_the_file() {
        let mut file = tree(4);
        file.truncate(799);
        assert!(read(file, &[64]).remove(0).unwrap_err().to_string().contains("beyond the end of the file"));
    }

    #[test]
    fn rejects_counts_that_do_not_add_up() {
        let error = read(tree(5), &[64]).remove(0).unwrap_err().to_string();
        assert!(error.contains("4 records in the subtree, expected 5"), "{error}");
        let error = read(tree(1 << 40), &[64]).remove(0).unwrap_err().to_string();
        assert!(error.contains("1099511627776 records in a file of"), "{error}");
    }
}
