//! Structures of symbol-table groups: the Symbol Table message, 0x0011 (specification IV.A.2.r), group B-tree nodes
//! (version 1, type 0; III.A.1), symbol table nodes and entries (III.B, III.C) and local heaps (III.D); and the Link
//! Info message, 0x0002, of new groups (IV.A.2.c).
//!
//! ```text
//! symbol table message: B-tree O | local heap O
//! B-tree node: "TREE" | type | level | entries 2 | left O | right O | (key L, child O)×entries, key L
//! symbol table node: "SNOD" | 1 | - | symbols 2 | entries …
//!   entry: name offset O | object header O | cache type 4 | - 4 | scratch 16 (cache type 2: offset of a soft link's path 4)
//! local heap: "HEAP" | 0 | - 3 | data size L | free list L | data O
//! link info: 0 | flags | (flag 0) largest creation index 8 | fractal heap O | name B-tree O | (flag 1) creation B-tree O
//! ```

use crate::{
    Error,
    attribute::{DenseStorage, dense_storage},
    context::Format,
    reader::Reader,
};

/// Locations of a symbol-table group's B-tree and heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SymbolTable {
    pub(crate) btree: u64,
    pub(crate) heap: u64,
}

/// Parses a Symbol Table message.
pub(crate) fn parse_symbol_table(bytes: &[u8], address: u64, format: Format) -> Result<SymbolTable, Error> {
    let mut reader = Reader::new("symbol table message", bytes, address, format);
    Ok(SymbolTable { btree: reader.defined_address()?, heap: reader.defined_address()? })
}

/// Parses a Link Info message. Returns `None` if all links are in the object header.
pub(crate) fn parse_link_info(
    bytes: &[u8],
    address: u64,
    format: Format,
) -> Result<Option<DenseStorage>, Error> {
    let mut reader = Reader::new("link info message", bytes, address, format);
    reader.version(0..=0)?;
    let flags = reader.u8()?;
    let newest = if flags & 1 == 0 { 0 } else { reader.u64()? };
    if flags > 3 || newest > i64::MAX.cast_unsigned() {
        return Err(reader.malformed(format!("flags {flags:#04x}, creation index {newest}")));
    }
    dense_storage(&mut reader, flags)
}

/// A node of a group's B-tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TreeNode {
    /// Level; 0 if the children are symbol table nodes.
    pub(crate) level: u8,
    /// Offsets of names in the local heap: those of a child are after its key and not after the next one.
    pub(crate) keys: Vec<u64>,
    /// Addresses of the children.
    pub(crate) children: Vec<u64>,
}

const TREE: &str = "group B-tree node";

/// Returns the size of a B-tree node in bytes. `rank` is half of its most entries.
pub(crate) fn tree_node_length(rank: u16, format: Format) -> u64 {
    let (offset, length) = (u64::from(format.offset_size), u64::from(format.length_size));
    let entries = u64::from(rank).saturating_mul(2).saturating_mul(offset.saturating_add(length));
    offset.saturating_mul(2).saturating_add(8).saturating_add(length).saturating_add(entries)
}

/// Parses a B-tree node.
pub(crate) fn parse_tree_node(
    bytes: &[u8],
    address: u64,
    rank: u16,
    format: Format,
) -> Result<TreeNode, Error> {
    let mut reader = Reader::new(TREE, bytes, address, format);
    reader.signature(b"TREE")?;
    let class = reader.u8()?;
    if class != 0 {
        return Err(reader.malformed(format!("node type {class}, expected 0 (group)")));
    }
    let (level, entries) = (reader.u8()?, reader.u16()?);
    check_entries(&reader, entries, rank)?;
    reader.address()?;
    reader.address()?;
    let (mut keys, mut children) = (vec![reader.raw_length()?], Vec::new());
    for _ in 0..entries {
        children.push(reader.defined_address()?);
        keys.push(reader.raw_length()?);
    }
    Ok(TreeNode { level, keys, children })
}

fn check_entries(reader: &Reader<'_>, entries: u16, rank: u16) -> Result<(), Error> {
    let most = u32::from(rank).saturating_mul(2);
    match u32::from(entries) <= most {
        true => Ok(()),
        false => Err(reader.malformed(format!("{entries} entries, expected at most {most}"))),
    }
}

/// An entry of a symbol table node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Symbol {
    /// Offset of the name in the local heap.
    pub(crate) name: u64,
    /// Target.
    pub(crate) target: SymbolTarget,
}

/// Target of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SymbolTarget {
    /// Address of an object header.
    Object(u64),
    /// Soft link: offset of the path in the local heap.
    Soft(u64),
    /// Undefined address.
    Undefined,
}

const SYMBOLS: &str = "symbol table node";

/// Returns the size of a symbol table node in bytes. `rank` is half of its most symbols.
pub(crate) fn symbol_node_length(rank: u16, format: Format) -> u64 {
    let entry = u64::from(format.offset_size).saturating_mul(2).saturating_add(24);
    entry.saturating_mul(u64::from(rank)).saturating_mul(2).saturating_add(8)
}

/// Parses a symbol table node.
pub(crate) fn parse_symbol_node(
    bytes: &[u8],
    address: u64,
    rank: u16,
    format: Format,
) -> Result<Vec<Symbol>, Error> {
    let mut reader = Reader::new(SYMBOLS, bytes, address, format);
    reader.signature(b"SNOD")?;
    reader.version(1..=1)?;
    reader.skip(1)?;
    let symbols = reader.u16()?;
    check_entries(&reader, symbols, rank)?;
    (0..symbols).map(|_| symbol(&mut reader)).collect()
}

fn symbol(reader: &mut Reader<'_>) -> Result<Symbol, Error> {
    let name = reader.uint(reader.format().offset_size)?;
    let object = reader.address()?;
    let cache_type = reader.u32()?;
    reader.skip(4)?;
    let path = reader.u32()?;
    reader.skip(12)?;
    let target = match (cache_type, object) {
        (2, _) => SymbolTarget::Soft(u64::from(path)),
        (0 | 1, Some(object)) => SymbolTarget::Object(object),
        (0 | 1, None) => SymbolTarget::Undefined,
        (other, _) => {
            return Err(reader.malformed(format!("cache type {other}, expected 0 to 2")));
        }
    };
    Ok(Symbol { name, target })
}

/// The header of a local heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalHeap {
    /// Address of the data segment.
    pub(crate) data: u64,
    /// Size of the data segment in bytes.
    pub(crate) length: u64,
    /// Offset of the first free block in the data segment; 1 if there is none.
    free: u64,
}

impl LocalHeap {
    /// Checks the list of free blocks, without which the library does not open the heap.
    pub(crate) fn check_free(self, data: &[u8], format: Format) -> Result<(), Error> {
        let problem = |at: u64| {
            Error::malformed(HEAP, self.data, format!("free block at {at}, out of bounds or repeated"))
        };
        let smallest = u64::from(format.length_size).saturating_mul(2);
        let mut at = self.free;
        // Blocks may overlap, but more of them than fit are a cycle.
        for _ in 0..=self.length.checked_div(smallest).unwrap_or(0) {
            if at == 1 {
                return Ok(());
            }
            let block =
                usize::try_from(at).ok().and_then(|start| data.get(start..)).ok_or_else(|| problem(at))?;
            let mut reader = Reader::new(HEAP, block, self.data.saturating_add(at), format);
            let (next, size) = (reader.raw_length()?, reader.raw_length()?);
            if next == 0 || at.saturating_add(size) > self.length {
                return Err(problem(at));
            }
            at = next;
        }
        Err(problem(at))
    }
}

const HEAP: &str = "local heap";

/// Parses a local heap header.
pub(crate) fn parse_local_heap(bytes: &[u8], address: u64, format: Format) -> Result<LocalHeap, Error> {
    let mut reader = Reader::new(HEAP, bytes, address, format);
    reader.signature(b"HEAP")?;
    reader.version(0..=0)?;
    reader.skip(3)?;
    let (length, free) = (reader.raw_length()?, reader.raw_length()?);
    Ok(LocalHeap { data: reader.defined_address()?, length, free })
}

/// Returns the text at an offset of a local heap's data segment.
pub(crate) fn heap_text(data: &[u8], offset: u64, heap: u64) -> Result<String, Error> {
    match heap_name(data, offset).filter(|text| text.len() < data.len().saturating_sub(offset_of(offset))) {
        Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        None => Err(Error::malformed(
            HEAP,
            heap,
            format!("no text at offset {offset}, expected an offset below {}", data.len()),
        )),
    }
}

/// Returns the bytes at an offset of a local heap's data segment, up to a NUL or the end.
pub(crate) fn heap_name(data: &[u8], offset: u64) -> Option<&[u8]> {
    data.get(offset_of(offset)..).filter(|rest| !rest.is_empty())?.split(|byte| *byte == 0).next()
}

fn offset_of(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0x10, offset_size: 4, length_size: 4 };

    #[test]
    fn tree_nodes() {
        let mut bytes = b"TREE\0\x01\x02\0".to_vec();
        bytes.extend([0xFF; 8]);
        bytes.extend([0, 0, 0, 0, 0x20, 0, 0, 0, 8, 0, 0, 0, 0x30, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(tree_node_length(1, FORMAT), bytes.len() as u64);
        let node = parse_tree_node(&bytes, 0, 1, FORMAT).unwrap();
        assert_eq!(node, TreeNode { level: 1, keys: vec![0, 8, 16], children: vec![0x30, 0x40] });
        assert!(parse_tree_node(&bytes, 0, 0, FORMAT).is_err(), "too many entries");
        bytes[4] = 1;
        assert!(parse_tree_node(&bytes, 0, 1, FORMAT).is_err(), "a chunk's B-tree");
    }

    #[test]
    fn symbols_hard_and_soft() {
        let mut bytes = b"SNOD\x01\0\x02\0".to_vec();
        bytes.extend([8, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0; 16]);
        bytes.extend([16, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 24]);
        bytes.extend([0; 15]);
        assert_eq!(symbol_node_length(1, FORMAT), bytes.len() as u64);
        let hard = Symbol { name: 8, target: SymbolTarget::Object(0x70) };
        let soft = Symbol { name: 16, target: SymbolTarget::Soft(24) };
        assert_eq!(parse_symbol_node(&bytes, 0, 1, FORMAT).unwrap(), [hard, soft]);
        assert!(parse_symbol_node(&bytes, 0, 0, FORMAT).is_err(), "too many symbols");
    }

    #[test]
    fn local_heaps() {
        let bytes = b"HEAP\0\0\0\0\x58\0\0\0\x01\0\0\0\x80\0\0\0";
        assert_eq!(
            parse_local_heap(bytes, 0, FORMAT).unwrap(),
            LocalHeap { data: 0x90, length: 0x58, free: 1 }
        );
        assert_eq!(heap_text(b"\0abc\0", 1, 0).unwrap(), "abc");
        assert!(heap_text(b"\0abc", 1, 0).is_err() && heap_text(b"\0abc", 4, 0).is_err());
        assert_eq!((heap_name(b"\0abc", 1), heap_name(b"\0abc", 4)), (Some(&b"abc"[..]), None));
    }

    #[test]
    fn free_blocks_of_local_heaps() {
        let check = |free: u64, numbers: [u32; 4]| {
            let heap = LocalHeap { data: 0, length: 16, free };
            heap.check_free(&numbers.map(u32::to_le_bytes).concat(), FORMAT)
        };
        check(1, [0; 4]).unwrap();
        check(0, [8, 8, 1, 8]).unwrap();
        assert!(check(0, [8, 8, 1, 9]).is_err(), "too long");
        assert!(check(8, [1, 8, 0, 8]).is_err(), "no end");
        assert!(check(0, [8, 8, 8, 8]).is_err(), "a cycle");
        assert!(check(16, [0; 4]).is_err() && check(12, [1; 4]).is_err(), "past the end");
    }

    #[test]
    fn link_info() {
        let dense =
            parse_link_info(&[0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0], 0, FORMAT).unwrap();
        assert_eq!(dense, Some(DenseStorage { heap: 0x18, names: 0x20 }));
    }
}
