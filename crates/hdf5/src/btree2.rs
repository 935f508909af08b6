//! Version 2 B-trees (specification III.A.2): header, internal nodes and leaf nodes. Records are opaque bytes here.
//!
//! ```text
//! header    "BTHD" version(0) type node-size(4) record-size(2) depth(2) split merge root-address records-in-root(2) records-in-tree(length) checksum
//! internal  "BTIN" version(0) type record… (child-address records-in-child [records-below-child])… checksum
//! leaf      "BTLF" version(0) type record… checksum
//! ```

use virtualize_bytes::{Cursor, NeedBytes};

use crate::{Error, checksum::checked, context::Format, prefix::expect_prefix};

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
        fields.into_header(address, format)
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

    fn into_header(self, address: u64, format: Format) -> Result<Btree2Header, Error> {
        let leaf = u64::from(self.node_size).saturating_sub(NODE_OVERHEAD);
        let Some(leaf) = leaf.checked_div(self.record_size.into()) else {
            return Err(Error::malformed(HEADER, address, "record size 0, expected 1 or more"));
        };
        let mut header = Btree2Header {
            record_type: self.record_type,
            node_size: self.node_size,
            record_size: self.record_size,
            depth: self.depth,
            root: None,
            total: self.total,
            count_size: bytes_for(leaf),
            total_sizes: vec![0],
            most_records: vec![leaf],
        };
        self.add_levels(&mut header, address, format)?;
        if self.total == 0 && self.root_records == 0 {
            return Ok(header);
        }
        let Some(root) = self.root else {
            return Err(Error::malformed(
                HEADER,
                address,
                format!("{} records without a root, expected 0", self.total),
            ));
        };
        let root = Btree2Child { address: root, records: self.root_records.into(), total: self.total };
        header.check_child(root, self.depth, HEADER, address)?;
        header.root = Some(root);
        Ok(header)
    }

    /// Determines the record counts of each level. The number of records in an internal node depends on the size of its
    /// counts, which depend on the number of records that the subtrees can contain.
    fn add_levels(&self, header: &mut Btree2Header, address: u64, format: Format) -> Result<(), Error> {
        let mut below = header.most_records.first().copied().unwrap_or(0);
        for depth in 1..=self.depth {
            let pointer = header.pointer_size(depth, format);
            let room = u64::from(self.node_size).saturating_sub(NODE_OVERHEAD.saturating_add(pointer));
            let most = room.checked_div(pointer.saturating_add(self.record_size.into())).unwrap_or(0);
            let total = most.saturating_add(1).checked_mul(below).and_then(|sum| sum.checked_add(most));
            let Some(total) = total.filter(|_| most > 0) else {
                let problem =
                    format!("depth {}, expected less for nodes of {} bytes", self.depth, self.node_size);
                return Err(Error::malformed(HEADER, address, problem));
            };
            header.most_records.push(most);
            header.total_sizes.push(bytes_for(total));
            below = total;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum::lookup3, hex::bytes_of};

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
