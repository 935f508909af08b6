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

use super::{Format, Reader, attribute::DenseStorage, attribute::dense_storage};
use crate::Error;

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
    reader.skip(if flags & 1 == 0 { 0 } else { 8 })?;
    dense_storage(&mut reader)
}

/// A node of a group's B-tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TreeNode {
    /// Level; 0 if the children are symbol table nodes.
    pub(crate) level: u8,
    /// Addresses of the children.
    pub(crate) children: Vec<u64>,
}

const TREE: &str = "group B-tree node";

/// Returns the size of a B-tree node in bytes, given its first eight bytes.
pub(crate) fn tree_node_length(bytes: &[u8], address: u64, format: Format) -> Result<u64, Error> {
    let mut reader = Reader::new(TREE, bytes, address, format);
    let (_, entries) = tree_node_head(&mut reader)?;
    let (offset, length) = (u64::from(format.offset_size), u64::from(format.length_size));
    let entry = offset.saturating_add(length);
    let head = offset.saturating_mul(2).saturating_add(8).saturating_add(length);
    Ok(head.saturating_add(entry.saturating_mul(u64::from(entries))))
}

/// Parses a B-tree node.
pub(crate) fn parse_tree_node(bytes: &[u8], address: u64, format: Format) -> Result<TreeNode, Error> {
    let mut reader = Reader::new(TREE, bytes, address, format);
    let (level, entries) = tree_node_head(&mut reader)?;
    reader.address()?;
    reader.address()?;
    let child = |_| reader.raw_length().and_then(|_key| reader.defined_address());
    Ok(TreeNode { level, children: (0..entries).map(child).collect::<Result<_, _>>()? })
}

/// Reads level and number of entries.
fn tree_node_head(reader: &mut Reader<'_>) -> Result<(u8, u16), Error> {
    reader.signature(b"TREE")?;
    match reader.u8()? {
        0 => Ok((reader.u8()?, reader.u16()?)),
        class => Err(reader.malformed(format!("node type {class}, expected 0 (group)"))),
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

/// Returns the size of a symbol table node in bytes, given its first eight bytes.
pub(crate) fn symbol_node_length(bytes: &[u8], address: u64, format: Format) -> Result<u64, Error> {
    let mut reader = Reader::new(SYMBOLS, bytes, address, format);
    let symbols = symbol_node_head(&mut reader)?;
    let entry = u64::from(format.offset_size).saturating_mul(2).saturating_add(24);
    Ok(entry.saturating_mul(u64::from(symbols)).saturating_add(8))
}

/// Parses a symbol table node.
pub(crate) fn parse_symbol_node(bytes: &[u8], address: u64, format: Format) -> Result<Vec<Symbol>, Error> {
    let mut reader = Reader::new(SYMBOLS, bytes, address, format);
    let symbols = symbol_node_head(&mut reader)?;
    (0..symbols).map(|_| symbol(&mut reader)).collect()
}

fn symbol_node_head(reader: &mut Reader<'_>) -> Result<u16, Error> {
    reader.signature(b"SNOD")?;
    reader.version(1..=1)?;
    reader.skip(1)?;
    reader.u16()
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
}

/// Parses a local heap header.
pub(crate) fn parse_local_heap(bytes: &[u8], address: u64, format: Format) -> Result<LocalHeap, Error> {
    let mut reader = Reader::new("local heap", bytes, address, format);
    reader.signature(b"HEAP")?;
    reader.version(0..=0)?;
    reader.skip(3)?;
    let length = reader.raw_length()?;
    reader.raw_length()?;
    Ok(LocalHeap { data: reader.defined_address()?, length })
}

/// Returns the text at an offset of a local heap's data segment.
pub(crate) fn heap_text(data: &[u8], offset: u64, heap: u64) -> Result<String, Error> {
    let rest = usize::try_from(offset).ok().and_then(|offset| data.get(offset..));
    let text = rest.and_then(|rest| rest.split_at_checked(rest.iter().position(|&byte| byte == 0)?));
    match text {
        Some((text, _)) => Ok(String::from_utf8_lossy(text).into_owned()),
        None => Err(Error::malformed(
            "local heap",
            heap,
            format!("no text at offset {offset}, expected an offset below {}", data.len()),
        )),
    }
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
        assert_eq!(tree_node_length(&bytes[..8], 0, FORMAT).unwrap(), bytes.len() as u64);
        let node = parse_tree_node(&bytes, 0, FORMAT).unwrap();
        assert_eq!(node, TreeNode { level: 1, children: vec![0x30, 0x40] });
        bytes[4] = 1;
        assert!(parse_tree_node(&bytes, 0, FORMAT).is_err(), "a chunk's B-tree");
    }

    #[test]
    fn symbols_hard_and_soft() {
        let mut bytes = b"SNOD\x01\0\x02\0".to_vec();
        bytes.extend([8, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0; 16]);
        bytes.extend([16, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 24]);
        bytes.extend([0; 15]);
        assert_eq!(symbol_node_length(&bytes, 0, FORMAT).unwrap(), bytes.len() as u64);
        let hard = Symbol { name: 8, target: SymbolTarget::Object(0x70) };
        let soft = Symbol { name: 16, target: SymbolTarget::Soft(24) };
        assert_eq!(parse_symbol_node(&bytes, 0, FORMAT).unwrap(), [hard, soft]);
    }

    #[test]
    fn local_heaps() {
        let bytes = b"HEAP\0\0\0\0\x58\0\0\0\x01\0\0\0\x80\0\0\0";
        assert_eq!(parse_local_heap(bytes, 0, FORMAT).unwrap(), LocalHeap { data: 0x90, length: 0x58 });
        assert_eq!(heap_text(b"\0abc\0", 1, 0).unwrap(), "abc");
        assert!(heap_text(b"\0abc", 1, 0).is_err());
    }

    #[test]
    fn link_info() {
        let dense =
            parse_link_info(&[0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0], 0, FORMAT).unwrap();
        assert_eq!(dense, Some(DenseStorage { heap: 0x18, names: 0x20 }));
    }
}
