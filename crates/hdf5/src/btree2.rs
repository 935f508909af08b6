//! Version 2 B-trees (specification III.A.2): header, internal nodes and leaf nodes. Records are opaque bytes here.
//!
//! ```text
//! header    "BTHD" version(0) type node-size(4) record-size(2) depth(2) split merge root-address records-in-root(2) records-in-tree(length) checksum
//! internal  "BTIN" version(0) type record… (child-address records-in-child [records-below-child])… checksum
//! leaf      "BTLF" version(0) type record… checksum
//! ```

use std::collections::HashMap;

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    cursor::{Format, Reader},
    io::{Io, Step, Tree, walk},
};

const HEADER: &str = "version 2 B-tree header";
const INTERNAL: &str = "version 2 B-tree internal node";
const LEAF: &str = "version 2 B-tree leaf node";

/// Signature, version, type and checksum of a node, in bytes.
const NODE_OVERHEAD: u64 = 10;

/// The header of a tree, checked for consistency.
#[derive(Clone, Debug)]
pub(crate) struct Btree2Header {
    /// Record type: 1 to 4 huge objects, 5 and 6 links, 7 shared messages, 8 and 9 attributes, 10 and 11 chunks.
    pub(crate) record_type: u8,
    /// Size of a record in bytes.
    pub(crate) record_size: u16,
    /// Depth: number of levels of internal nodes above the leaves.
    pub(crate) depth: u16,
    /// Root node; `None` for an empty tree.
    pub(crate) root: Option<Btree2Child>,
    /// Number of records in the tree.
    pub(crate) total: u64,
    /// Size in bytes of a child's record count.
    count_size: u8,
    /// Size in bytes of the total record count of a child, by depth of the child; 0 for leaves.
    total_sizes: Vec<u8>,
    /// Maximum number of records in a node, by depth.
    most_records: Vec<u64>,
    format: Format,
}

/// A child pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Btree2Child {
    /// Address of the node.
    pub(crate) address: u64,
    /// Number of records in the node.
    pub(crate) records: u64,
    /// Number of records in the subtree.
    pub(crate) total: u64,
}

/// A parsed node: its concatenated records and, for an internal node, its children, one more than there are records.
#[derive(Debug)]
pub(crate) struct Btree2Node<'a> {
    pub(crate) records: &'a [u8],
    pub(crate) children: Vec<Btree2Child>,
}

impl Btree2Header {
    /// Returns the size of a header in bytes.
    pub(crate) fn size(format: Format) -> u64 {
        22_u64.saturating_add(u64::from(format.offset_size)).saturating_add(u64::from(format.length_size))
    }

    /// Parses a header from exactly [`Btree2Header::size`] bytes.
    pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Self, Error> {
        let mut reader = Reader::checked(HEADER, b"BTHD", bytes, address, format)?;
        reader.version(0..=0)?;
        let (record_type, node_size, record_size) = (reader.u8()?, u64::from(reader.u32()?), reader.u16()?);
        let depth = reader.u16()?;
        reader.skip(2)?;
        let (root, root_records, total) = (reader.address()?, reader.u16()?, reader.raw_length()?);
        let leaf = node_size.saturating_sub(NODE_OVERHEAD);
        let Some(leaf) = leaf.checked_div(record_size.into()) else {
            return Err(reader.malformed("record size 0, expected 1 or more"));
        };
        let mut header = Btree2Header {
            record_type,
            record_size,
            depth,
            root: None,
            total,
            count_size: bytes_for(leaf),
            total_sizes: vec![0],
            most_records: vec![leaf],
            format,
        };
        let mut below = leaf;
        for level in 1..=depth {
            let pointer = header.pointer_size(level);
            let room = node_size.saturating_sub(NODE_OVERHEAD.saturating_add(pointer));
            let most = room.checked_div(pointer.saturating_add(record_size.into())).unwrap_or(0);
            let total = most.saturating_add(1).checked_mul(below).and_then(|sum| sum.checked_add(most));
            let Some(total) = total.filter(|_| most > 0) else {
                let problem = format!("depth {depth}, expected less for nodes of {node_size} bytes");
                return Err(reader.malformed(problem));
            };
            header.most_records.push(most);
            header.total_sizes.push(bytes_for(total));
            below = total;
        }
        if total == 0 && root_records == 0 {
            return Ok(header);
        }
        let Some(root) = root else {
            return Err(reader.malformed(format!("{total} records without a root, expected 0")));
        };
        let root = Btree2Child { address: root, records: root_records.into(), total };
        header.check_child(&reader, root, depth)?;
        header.root = Some(root);
        Ok(header)
    }

    /// Returns the number of used bytes, including the checksum, of a node at `depth` (0 for a leaf).
    pub(crate) fn node_bytes(&self, child: Btree2Child, depth: u16) -> u64 {
        let records = child.records.saturating_mul(u64::from(self.record_size));
        let pointers = match depth {
            0 => 0,
            _ => child.records.saturating_add(1).saturating_mul(self.pointer_size(depth)),
        };
        NODE_OVERHEAD.saturating_add(records).saturating_add(pointers)
    }

    fn pointer_size(&self, depth: u16) -> u64 {
        let counts = self.count_size.saturating_add(self.total_size(depth));
        u64::from(self.format.offset_size).saturating_add(counts.into())
    }

    /// Returns the size in bytes of the total count in the child pointers of a node at `depth`.
    fn total_size(&self, depth: u16) -> u8 {
        let below = usize::from(depth).checked_sub(1);
        below.and_then(|below| self.total_sizes.get(below)).copied().unwrap_or(0)
    }

    /// Parses the node at `child` from exactly [`Btree2Header::node_bytes`] bytes.
    pub(crate) fn parse_node<'a>(
        &self,
        bytes: &'a [u8],
        child: Btree2Child,
        depth: u16,
    ) -> Result<Btree2Node<'a>, Error> {
        let (structure, signature) = if depth == 0 { (LEAF, b"BTLF") } else { (INTERNAL, b"BTIN") };
        let mut reader = Reader::checked(structure, signature, bytes, child.address, self.format)?;
        reader.version(0..=0)?;
        let record_type = reader.u8()?;
        if record_type != self.record_type {
            let problem = format!("record type {record_type}, expected {}", self.record_type);
            return Err(reader.malformed(problem));
        }
        let records = reader.take(child.records.saturating_mul(self.record_size.into()))?;
        let mut children = Vec::new();
        let Some(below) = depth.checked_sub(1) else { return Ok(Btree2Node { records, children }) };
        let mut total = child.records;
        for _ in 0..=child.records {
            let (address, records) = (reader.defined_address()?, reader.uint(self.count_size)?);
            let size = self.total_size(depth);
            let child =
                Btree2Child { address, records, total: if size == 0 { records } else { reader.uint(size)? } };
            self.check_child(&reader, child, below)?;
            total = total.saturating_add(child.total);
            children.push(child);
        }
        if total != child.total {
            return Err(reader.malformed(format!("{total} records in the subtree, expected {}", child.total)));
        }
        Ok(Btree2Node { records, children })
    }

    /// Every node contains a record, so a tree has at most as many nodes as records.
    fn check_child(&self, reader: &Reader<'_>, child: Btree2Child, depth: u16) -> Result<(), Error> {
        let most = self.most_records.get(usize::from(depth)).copied().unwrap_or(0);
        let Btree2Child { records, total, .. } = child;
        if records == 0 || records > most {
            return Err(reader.malformed(format!("{records} records in a node, expected 1 to {most}")));
        }
        if depth == 0 && total != records {
            let problem = format!("{total} records in the subtree of a leaf, expected {records}");
            return Err(reader.malformed(problem));
        }
        Ok(())
    }
}

/// Returns the size in bytes of a number of at most `most`.
fn bytes_for(most: u64) -> u8 {
    let log2 = most.checked_ilog2().unwrap_or(0) / 8;
    u8::try_from(log2).unwrap_or(8).saturating_add(1)
}

// Reads version 2 B-trees: all trees of a call together, one batch of ranges per level.
//
// A tree cannot contain a cycle: the depth decreases with each level, and the record counts of the nodes must add up
// to the total of the header, which is bounded by the size of the file.

/// Records of a tree, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Btree2Records {
    /// Record type.
    pub(crate) record_type: u8,
    /// Size of a record in bytes, not 0.
    pub(crate) record_size: usize,
    /// Concatenated records.
    pub(crate) records: Vec<u8>,
}

/// Reads all records of the trees with headers at these addresses.
pub(crate) async fn read_records(
    io: &Io<'_>,
    format: Format,
    headers: &[u64],
) -> Vec<Result<Btree2Records, Error>> {
    let mut all = vec![Btree2Records::default(); headers.len()];
    let trees = headers.iter().zip(&mut all).map(|(address, tree)| {
        (*address, |header: &Btree2Header, records: &[u8]| {
            if records.is_empty() {
                let size = header.total.saturating_mul(header.record_size.into());
                io.hold("records of version 2 B-trees", size)?;
                (tree.record_type, tree.record_size) = (header.record_type, header.record_size.into());
                tree.records.reserve(usize::try_from(size).unwrap_or(0));
            }
            tree.records.extend_from_slice(records);
            Ok(())
        })
    });
    let results = visit_records(io, format, trees).await;
    results.into_iter().zip(all).map(|(result, records)| result.map(|()| records)).collect()
}

/// Passes the records of trees, given by the addresses of their headers, to a function each: first none, then all records
/// in order.
pub(crate) async fn visit_records<V>(
    io: &Io<'_>,
    format: Format,
    trees: impl Iterator<Item = (u64, V)>,
) -> Vec<Result<(), Error>>
where
    V: FnMut(&Btree2Header, &[u8]) -> Result<(), Error>,
{
    let size = Btree2Header::size(format);
    let tree = |(address, visitor)| {
        let tree = RecordTree { io, format, header: None, above: HashMap::new(), visitor, result: Ok(()) };
        (tree, (ByteRange::new(address, size), None))
    };
    let (mut trees, roots): (Vec<_>, Vec<_>) = trees.map(tree).unzip();
    walk(io, "version 2 B-tree", &mut trees, roots).await;
    trees.into_iter().map(|tree| tree.result).collect()
}

/// A tree in progress.
struct RecordTree<'a, 'b, V> {
    io: &'a Io<'b>,
    format: Format,
    header: Option<Btree2Header>,
    /// Records of internal nodes, by the number of records before the leaf that follows each.
    above: HashMap<u64, Vec<u8>>,
    visitor: V,
    result: Result<(), Error>,
}

/// A node to read.
#[derive(Clone, Copy)]
struct Node {
    child: Btree2Child,
    depth: u16,
    /// Number of records of the tree before this subtree.
    first: u64,
}

impl<V: FnMut(&Btree2Header, &[u8]) -> Result<(), Error>> Tree for RecordTree<'_, '_, V> {
    /// `None` for the header.
    type Part = Option<Node>;

    fn result(&mut self) -> &mut Result<(), Error> {
        &mut self.result
    }

    fn visit(
        &mut self,
        range: ByteRange,
        part: &Option<Node>,
        bytes: &Bytes,
    ) -> Result<Vec<(ByteRange, Option<Node>)>, Error> {
        let step = |header: &Btree2Header, node: Node| {
            let length = header.node_bytes(node.child, node.depth);
            (ByteRange::new(node.child.address, length), Some(node))
        };
        let (Some(header), Some(node)) = (&self.header, part) else {
            let header = Btree2Header::parse(bytes, range.start, self.format)?;
            let (size, limits) = (header.total.saturating_mul(header.record_size.into()), self.io.limits());
            if size > self.io.size() {
                let problem = format!("{} records in a file of {} bytes", header.total, self.io.size());
                return Err(Error::malformed(HEADER, range.start, problem));
            }
            if u32::from(header.depth) > limits.depth {
                let problem = format!("depth {}, expected at most {}", header.depth, limits.depth);
                return Err(Error::limit(HEADER, range.start, problem));
            }
            (self.visitor)(&header, &[])?;
            let root = header.root.map(|child| step(&header, Node { child, depth: header.depth, first: 0 }));
            self.header = Some(header);
            return Ok(root.into_iter().collect());
        };
        let parsed = header.parse_node(bytes, node.child, node.depth)?;
        let Some(depth) = node.depth.checked_sub(1) else {
            // All leaves have the same depth, so they come in order.
            if let Some(record) = self.above.remove(&node.first) {
                (self.visitor)(header, &record)?;
            }
            (self.visitor)(header, parsed.records)?;
            return Ok(Vec::new());
        };
        let (mut first, mut below) = (node.first, Vec::new());
        let mut records = parsed.records.chunks_exact(usize::from(header.record_size).max(1));
        for child in parsed.children {
            below.push(step(header, Node { child, depth, first }));
            first = first.saturating_add(child.total);
            if let Some(record) = records.next() {
                first = first.saturating_add(1);
                self.above.insert(first, record.to_vec());
            }
        }
        Ok(below)
    }

    fn bytes_below(&self, level: &[Step<Option<Node>>]) -> u64 {
        let nodes = level.iter().filter_map(|step| step.part).filter(|node| node.depth > 0);
        let records = nodes.fold(0_u64, |sum, node| sum.saturating_add(node.child.total));
        records.saturating_mul(self.header.as_ref().map_or(0, |header| header.record_size.into()))
    }
}

#[cfg(test)]
mod tests {

    mod btree2 {
        use super::super::*;
        use crate::{cursor::lookup3, testing::bytes_of};

        const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

        /// Header and only leaf of a dataset with two chunks, as written by libhdf5 2.0.
        const HEADER_HEX: &str =
            "42544844 00 0a 00080000 1800 0000 64 28 0010000000000000 0200 0200000000000000 e2f7ca2f";
        const LEAF_HEX: &str = "42544c46 00 0a 0008000000000000 0000000000000000 0000000000000000 \
                                0408000000000000 0000000000000000 0100000000000000 bc09e3be";

        fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
            let sum = lookup3(&bytes).to_le_bytes();
            bytes.extend(sum);
            bytes
        }

        fn header(depth: u16, records: u16, total: u64) -> Result<Btree2Header, Error> {
            let mut bytes = bytes_of(HEADER_HEX);
            bytes.truncate(34);
            bytes[12..14].copy_from_slice(&depth.to_le_bytes());
            bytes[24..26].copy_from_slice(&records.to_le_bytes());
            bytes[26..34].copy_from_slice(&total.to_le_bytes());
            Btree2Header::parse(&with_checksum(bytes), 0x40, FORMAT)
        }

        #[test]
        fn parses_a_leaf() {
            let bytes = bytes_of(HEADER_HEX);
            assert_eq!(Btree2Header::size(FORMAT), bytes.len() as u64);
            let header = Btree2Header::parse(&bytes, 0x1bf, FORMAT).unwrap();
            let root = Btree2Child { address: 0x1000, records: 2, total: 2 };
            assert_eq!((header.record_type, header.record_size, header.root), (10, 24, Some(root)));
            let leaf = bytes_of(LEAF_HEX);
            assert_eq!(header.node_bytes(root, 0), leaf.len() as u64);
            let node = header.parse_node(&leaf, root, 0).unwrap();
            assert_eq!((node.records, node.children.len()), (&leaf[6..54], 0));
        }

        /// A leaf of 2048 bytes has 84 records of 24 bytes, so counts take one byte. One level above, a pointer takes 9
        /// bytes, and a node has (2048 - 10 - 9) / 33 = 61 records and 62 leaves.
        #[test]
        fn parses_an_internal_node() {
            let header = header(1, 1, 4).unwrap();
            let root = header.root.unwrap();
            assert_eq!(header.most_records, [84, 61]);
            let mut bytes = b"BTIN\0\x0a".to_vec();
            bytes.extend([7; 24]);
            for (address, records) in [(0x100_u64, 2_u8), (0x200, 1)] {
                bytes.extend(address.to_le_bytes());
                bytes.push(records);
            }
            let bytes = with_checksum(bytes);
            assert_eq!(header.node_bytes(root, 1), bytes.len() as u64);
            let node = header.parse_node(&bytes, root, 1).unwrap();
            let child = |address, records| Btree2Child { address, records, total: records };
            assert_eq!((node.records.len(), node.children), (24, vec![child(0x100, 2), child(0x200, 1)]));
            let wrong = Btree2Child { total: 5, ..root };
            let error = header.parse_node(&bytes, wrong, 1).unwrap_err().to_string();
            assert!(error.contains("4 records in the subtree, expected 5"), "{error}");
        }

        #[test]
        fn an_empty_tree_has_no_root() {
            assert_eq!(header(0, 0, 0).unwrap().root, None);
        }

        #[test]
        fn rejects_inconsistent_headers() {
            let message = |header: Result<Btree2Header, Error>| header.unwrap_err().to_string();
            assert!(message(header(0, 85, 85)).contains("85 records in a node, expected 1 to 84"));
            assert!(message(header(0, 2, 0)).contains("0 records in the subtree of a leaf, expected 2"));
            assert!(message(header(0, 2, 3)).contains("3 records in the subtree of a leaf, expected 2"));
            assert!(message(header(400, 1, 1)).contains("expected less for nodes"));
            assert!(message(header(1, 0, 1)).contains("0 records in a node"));
            let mut bytes = bytes_of(HEADER_HEX);
            bytes.truncate(34);
            bytes[4] = 1;
            let version = with_checksum(bytes.clone());
            assert!(message(Btree2Header::parse(&version, 0, FORMAT)).contains("version 1, expected 0"));
            let mut bytes = bytes_of(HEADER_HEX);
            bytes[20] ^= 1;
            assert!(message(Btree2Header::parse(&bytes, 0, FORMAT)).contains("checksum"));
        }
    }

    mod btree2_walk {
        use virtualize_bytes::{Limits, MemorySource};

        use super::super::*;
        use crate::{cursor::lookup3, testing::ready};

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

        #[test]
        fn rejects_counts_that_do_not_add_up() {
            let error = read(tree(5), &[64]).remove(0).unwrap_err().to_string();
            assert!(error.contains("4 records in the subtree, expected 5"), "{error}");
            let error = read(tree(1 << 40), &[64]).remove(0).unwrap_err().to_string();
            assert!(error.contains("1099511627776 records in a file of"), "{error}");
        }
    }
}
