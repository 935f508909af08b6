//! Version 2 B-trees (specification III.A.2): header, internal nodes and leaf nodes. Records are opaque bytes here.
//!
//! ```text
//! header    "BTHD" version(0) type node-size(4) record-size(2) depth(2) split merge root-address records-in-root(2) records-in-tree(length) checksum
//! internal  "BTIN" version(0) type record… (child-address records-in-child [records-below-child])… checksum
//! leaf      "BTLF" version(0) type record… checksum
//! ```

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Cursor, NeedBytes};

use crate::{
    Error,
    cursor::{Format, checked},
    io::{Io, read_whole},
    object_header::expect_prefix,
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
    /// Size of a node in bytes, however few records it has.
    pub(crate) node_size: u32,
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
        let mut cursor = Cursor::little(bytes, address);
        expect_prefix(&mut cursor, HEADER, *b"BTHD", 0)?;
        checked(HEADER, address, bytes)?;
        let fields = Fields::parse(&mut cursor, format).map_err(Error::truncated(HEADER, address))?;
        let leaf = u64::from(fields.node_size).saturating_sub(NODE_OVERHEAD);
        let Some(leaf) = leaf.checked_div(fields.record_size.into()) else {
            return Err(Error::malformed(HEADER, address, "record size 0, expected 1 or more"));
        };
        let mut header = Btree2Header {
            record_type: fields.record_type,
            node_size: fields.node_size,
            record_size: fields.record_size,
            depth: fields.depth,
            root: None,
            total: fields.total,
            count_size: bytes_for(leaf),
            total_sizes: vec![0],
            most_records: vec![leaf],
        };
        let mut below = header.most_records.first().copied().unwrap_or(0);
        for depth in 1..=fields.depth {
            let pointer = header.pointer_size(depth, format);
            let room = u64::from(fields.node_size).saturating_sub(NODE_OVERHEAD.saturating_add(pointer));
            let most = room.checked_div(pointer.saturating_add(fields.record_size.into())).unwrap_or(0);
            let total = most.saturating_add(1).checked_mul(below).and_then(|sum| sum.checked_add(most));
            let Some(total) = total.filter(|_| most > 0) else {
                let problem =
                    format!("depth {}, expected less for nodes of {} bytes", fields.depth, fields.node_size);
                return Err(Error::malformed(HEADER, address, problem));
            };
            header.most_records.push(most);
            header.total_sizes.push(bytes_for(total));
            below = total;
        }
        if fields.total == 0 && fields.root_records == 0 {
            return Ok(header);
        }
        let Some(root) = fields.root else {
            return Err(Error::malformed(
                HEADER,
                address,
                format!("{} records without a root, expected 0", fields.total),
            ));
        };
        let root = Btree2Child { address: root, records: fields.root_records.into(), total: fields.total };
        header.check_child(root, fields.depth, HEADER, address)?;
        header.root = Some(root);
        Ok(header)
    }

    /// Returns the number of used bytes, including the checksum, of a node at `depth` (0 for a leaf).
    pub(crate) fn node_bytes(&self, child: Btree2Child, depth: u16, format: Format) -> u64 {
        let records = child.records.saturating_mul(u64::from(self.record_size));
        let pointers = match depth {
            0 => 0,
            _ => child.records.saturating_add(1).saturating_mul(self.pointer_size(depth, format)),
        };
        NODE_OVERHEAD.saturating_add(records).saturating_add(pointers)
    }

    fn pointer_size(&self, depth: u16, format: Format) -> u64 {
        pointer_size(format, self.count_size, self.total_size(depth))
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
        format: Format,
    ) -> Result<Btree2Node<'a>, Error> {
        let (structure, signature) = if depth == 0 { (LEAF, *b"BTLF") } else { (INTERNAL, *b"BTIN") };
        let truncated = Error::truncated(structure, child.address);
        let mut cursor = Cursor::little(bytes, child.address);
        expect_prefix(&mut cursor, structure, signature, 0)?;
        checked(structure, child.address, bytes)?;
        let record_type = cursor.u8().map_err(&truncated)?;
        if record_type != self.record_type {
            let problem = format!("record type {record_type}, expected {}", self.record_type);
            return Err(Error::malformed(structure, child.address, problem));
        }
        let size = child.records.saturating_mul(u64::from(self.record_size));
        let records = cursor.take_u64(size).map_err(&truncated)?;
        let children = match depth {
            0 => Vec::new(),
            _ => self.parse_children(&mut cursor, child, depth, format)?,
        };
        Ok(Btree2Node { records, children })
    }

    fn parse_children(
        &self,
        cursor: &mut Cursor<'_>,
        node: Btree2Child,
        depth: u16,
        format: Format,
    ) -> Result<Vec<Btree2Child>, Error> {
        let below = depth.saturating_sub(1);
        let mut children = Vec::new();
        let mut total = node.records;
        for _ in 0..=node.records {
            let child = self.parse_child(cursor, depth, format);
            let (child, undefined) = child.map_err(Error::truncated(INTERNAL, node.address))?;
            if undefined {
                return Err(Error::malformed(
                    INTERNAL,
                    node.address,
                    "undefined child address, expected a defined one",
                ));
            }
            self.check_child(child, below, INTERNAL, node.address)?;
            total = total.saturating_add(child.total);
            children.push(child);
        }
        if total != node.total {
            let problem = format!("{total} records in the subtree, expected {}", node.total);
            return Err(Error::malformed(INTERNAL, node.address, problem));
        }
        Ok(children)
    }

    fn parse_child(
        &self,
        cursor: &mut Cursor<'_>,
        depth: u16,
        format: Format,
    ) -> Result<(Btree2Child, bool), NeedBytes> {
        let address = format.address(cursor)?;
        let records = cursor.uint(usize::from(self.count_size))?;
        let total = match self.total_size(depth) {
            0 => records,
            size => cursor.uint(usize::from(size))?,
        };
        Ok((Btree2Child { address: address.unwrap_or(0), records, total }, address.is_none()))
    }

    /// Every node contains a record, so a tree has at most as many nodes as records.
    fn check_child(
        &self,
        child: Btree2Child,
        depth: u16,
        structure: &'static str,
        address: u64,
    ) -> Result<(), Error> {
        let most = self.most_records.get(usize::from(depth)).copied().unwrap_or(0);
        if child.records == 0 || child.records > most {
            let problem = format!("{} records in a node, expected 1 to {most}", child.records);
            return Err(Error::malformed(structure, address, problem));
        }
        if depth == 0 && child.total != child.records {
            let problem =
                format!("{} records in the subtree of a leaf, expected {}", child.total, child.records);
            return Err(Error::malformed(structure, address, problem));
        }
        Ok(())
    }
}

/// Header fields as stored.
struct Fields {
    record_type: u8,
    node_size: u32,
    record_size: u16,
    depth: u16,
    root: Option<u64>,
    root_records: u16,
    total: u64,
}

impl Fields {
    fn parse(cursor: &mut Cursor<'_>, format: Format) -> Result<Self, NeedBytes> {
        let record_type = cursor.u8()?;
        let node_size = cursor.u32()?;
        let record_size = cursor.u16()?;
        let depth = cursor.u16()?;
        cursor.skip(2)?;
        let root = format.address(cursor)?;
        let root_records = cursor.u16()?;
        let total = cursor.uint(usize::from(format.length_size))?;
        Ok(Self { record_type, node_size, record_size, depth, root, root_records, total })
    }
}

fn pointer_size(format: Format, count_size: u8, total_size: u8) -> u64 {
    u64::from(format.offset_size).saturating_add(count_size.into()).saturating_add(total_size.into())
}

/// Returns the size in bytes of a number of at most `most`.
pub(crate) fn bytes_for(most: u64) -> u8 {
    let log2 = most.checked_ilog2().unwrap_or(0) / 8;
    u8::try_from(log2).unwrap_or(8).saturating_add(1)
}

// Walks version 2 B-trees: all trees of a call together, one batch of ranges per level.
//
// A tree cannot contain a cycle: the depth decreases with each level, and the record counts of the nodes must add up
// to the total of the header, which is bounded by the size of the file.

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
            let bytes = header.total.saturating_mul(header.record_size.into());
            if bytes > io.size() {
                let problem = format!("{} records in a file of {} bytes", header.total, io.size());
                return Err(Error::malformed(HEADER, address, problem));
            }
            if header.depth > 0 && u64::from(header.depth) > u64::from(io.limits().depth) {
                let problem = format!("depth {}, expected at most {}", header.depth, io.limits().depth);
                return Err(Error::limit(HEADER, address, problem));
            }
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
        if whole.end() <= io.size() {
            ByteRange::new(whole.start, header.node_bytes(node.child, node.depth, self.format))
        } else {
            whole
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
            assert_eq!(header.node_bytes(root, 0, FORMAT), leaf.len() as u64);
            let node = header.parse_node(&leaf, root, 0, FORMAT).unwrap();
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
            assert_eq!(header.node_bytes(root, 1, FORMAT), bytes.len() as u64);
            let node = header.parse_node(&bytes, root, 1, FORMAT).unwrap();
            let child = |address, records| Btree2Child { address, records, total: records };
            assert_eq!((node.records.len(), node.children), (24, vec![child(0x100, 2), child(0x200, 1)]));
            let wrong = Btree2Child { total: 5, ..root };
            let error = header.parse_node(&bytes, wrong, 1, FORMAT).unwrap_err().to_string();
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
            bytes[4] = 1;
            assert!(message(Btree2Header::parse(&bytes, 0, FORMAT)).contains("version 1, expected 0"));
            bytes[4] = 0;
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

        /// The last node has 12 bytes of 32. libhdf5 reads all of it.
        #[test]
        fn whole_nodes_are_within_the_file() {
            let mut file = tree(4);
            file.truncate(799);
            assert!(
                read(file, &[64]).remove(0).unwrap_err().to_string().contains("beyond the end of the file")
            );
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
