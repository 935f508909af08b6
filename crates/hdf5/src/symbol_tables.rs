//! Symbol-table groups: the Symbol Table message, 0x0011 (specification IV.A.2.r), group B-tree nodes (version 1, type 0;
//! III.A.1), symbol table nodes and entries (III.B, III.C) and local heaps (III.D). All groups of a level are read together.
//!
//! ```text
//! symbol table message: B-tree O | local heap O
//! B-tree node: "TREE" | type | level | entries 2 | left O | right O | (key L, child O)×entries, key L
//! symbol table node: "SNOD" | 1 | - | symbols 2 | entries …
//!   entry: name offset O | object header O | cache type 4 | - 4 | scratch 16 (cache type 2: offset of a soft link's path 4)
//! local heap: "HEAP" | 0 | - 3 | data size L | free list L | data O
//! ```

use bytes::Bytes;
use futures::future::try_join;
use virtualize_bytes::{Address, ByteRange};

use crate::{
    Error,
    cursor::{Format, Reader},
    groups::hold_link,
    io::{Io, Tree, read_whole, walk},
    model::{Link, LinkTarget},
};

const NODE: &str = "group B-tree node";
const SYMBOLS: &str = "symbol table node";
const HEAP: &str = "local heap";

/// Size of a local heap header and its default data, which usually follows immediately.
const HEAP_GUESS: u64 = 32 + 256;

/// Locations of a symbol-table group's B-tree and heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SymbolTable {
    pub(crate) btree: u64,
    pub(crate) heap: u64,
}

/// Parses a Symbol Table message.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<SymbolTable, Error> {
    let mut reader = Reader::new("symbol table message", bytes, address, format);
    Ok(SymbolTable { btree: reader.defined_address()?, heap: reader.defined_address()? })
}

/// Reads the links of each symbol table, in the order of their names.
pub(crate) async fn read_symbol_tables(
    io: &Io<'_>,
    format: Format,
    tables: &[SymbolTable],
) -> Result<Vec<Result<Vec<Link>, Error>>, Error> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let heaps: Vec<_> = tables.iter().map(|table| table.heap).collect();
    let nodes = async {
        let rank = io.ranks.groups;
        let tree = |_| GroupTree { rank, format, leaves: Vec::new(), result: Ok(()) };
        let mut trees: Vec<_> = tables.iter().map(tree).collect();
        let roots = tables.iter().map(|table| (node_range(table.btree, rank, format), None)).collect();
        walk(io, NODE, &mut trees, roots).await;
        let length = symbol_node_length(io.ranks.symbols, format);
        let leaves = trees.iter().flat_map(|tree| &tree.leaves);
        let ranges: Vec<_> = leaves.map(|address| ByteRange::new(*address, length)).collect();
        Ok((trees, read_whole(io, SYMBOLS, &ranges).await))
    };
    let (heaps, (trees, nodes)) = try_join(read_local_heaps(io, format, &heaps), nodes).await?;
    let mut nodes = nodes.into_iter();
    let links = |(tree, heap): (GroupTree, Result<LocalHeap, Error>)| {
        let nodes: Vec<_> = tree.leaves.iter().zip(nodes.by_ref()).collect();
        tree.result?;
        let (heap, mut links) = (heap?, Vec::new());
        for (address, node) in nodes {
            for link in parse_symbol_node(&node?, *address, io.ranks.symbols, format, &heap)? {
                // All links may refer to the same text in the heap.
                let target = if let LinkTarget::Soft(path) = &link.target { path.len() } else { 0 };
                hold_link(io, link.name.len().saturating_add(target))?;
                links.push(link);
            }
        }
        Ok(links)
    };
    Ok(trees.into_iter().zip(heaps).map(links).collect())
}

/// A group's B-tree in progress.
struct GroupTree {
    /// Half of the most entries in a node.
    rank: u16,
    format: Format,
    /// Addresses of the symbol table nodes in key order.
    leaves: Vec<u64>,
    result: Result<(), Error>,
}

impl Tree for GroupTree {
    /// Expected level; `None` for the root.
    type Part = Option<u8>;

    fn result(&mut self) -> &mut Result<(), Error> {
        &mut self.result
    }

    fn visit(
        &mut self,
        range: ByteRange,
        expected: &Option<u8>,
        bytes: &Bytes,
    ) -> Result<Vec<(ByteRange, Option<u8>)>, Error> {
        let (level, children) = parse_node(bytes, range.start, self.rank, self.format)?;
        if expected.is_some_and(|expected| expected != level) {
            return Err(Error::malformed(NODE, range.start, format!("level {level}, expected {expected:?}")));
        }
        let Some(below) = level.checked_sub(1) else {
            self.leaves.extend(children);
            return Ok(Vec::new());
        };
        let step = |child| (node_range(child, self.rank, self.format), Some(below));
        Ok(children.into_iter().map(step).collect())
    }
}

/// Returns the range of a B-tree node. `rank` is half of its most entries.
fn node_range(address: u64, rank: u16, format: Format) -> ByteRange {
    let (offset, length) = (u64::from(format.offset_size), u64::from(format.length_size));
    let entries = u64::from(rank).saturating_mul(2).saturating_mul(offset.saturating_add(length));
    let header = offset.saturating_mul(2).saturating_add(8).saturating_add(length);
    ByteRange::new(address, header.saturating_add(entries))
}

/// Parses a B-tree node. Returns its level, 0 if the children are symbol table nodes, and the addresses of the children.
fn parse_node(bytes: &[u8], address: u64, rank: u16, format: Format) -> Result<(u8, Vec<u64>), Error> {
    let mut reader = Reader::new(NODE, bytes, address, format);
    reader.signature(b"TREE")?;
    let class = reader.u8()?;
    if class != 0 {
        return Err(reader.malformed(format!("node type {class}, expected 0 (group)")));
    }
    let level = reader.u8()?;
    let entries = read_count(&mut reader, rank)?;
    reader.address()?;
    reader.address()?;
    let child = |_| {
        reader.raw_length()?;
        reader.defined_address()
    };
    Ok((level, (0..entries).map(child).collect::<Result<_, _>>()?))
}

/// Reads the number of entries of a node.
fn read_count(reader: &mut Reader<'_>, rank: u16) -> Result<u16, Error> {
    let (count, most) = (reader.u16()?, u32::from(rank).saturating_mul(2));
    if u32::from(count) > most {
        return Err(reader.malformed(format!("{count} entries, expected at most {most}")));
    }
    Ok(count)
}

/// Returns the size of a symbol table node in bytes. `rank` is half of its most symbols.
fn symbol_node_length(rank: u16, format: Format) -> u64 {
    let entry = u64::from(format.offset_size).saturating_add(format.length_size.into()).saturating_add(24);
    entry.saturating_mul(u64::from(rank)).saturating_mul(2).saturating_add(8)
}

/// Parses a symbol table node to links.
fn parse_symbol_node(
    bytes: &[u8],
    address: u64,
    rank: u16,
    format: Format,
    heap: &LocalHeap,
) -> Result<Vec<Link>, Error> {
    let mut reader = Reader::new(SYMBOLS, bytes, address, format);
    reader.signature(b"SNOD")?;
    reader.version(1..=1)?;
    reader.skip(1)?;
    let symbols = read_count(&mut reader, rank)?;
    let link = |_| {
        // Called an offset by the specification, it has the size of lengths in libhdf5 (H5G__ent_decode).
        let (name, object, cache_type) = (reader.raw_length()?, reader.address()?, reader.u32()?);
        reader.skip(4)?;
        let path = reader.u32()?;
        reader.skip(12)?;
        let target = match (cache_type, object) {
            (2, _) => heap.text(path.into()).map(LinkTarget::Soft),
            (0 | 1, Some(object)) => Ok(LinkTarget::Hard(Address(object))),
            (0 | 1, None) => Err(Error::malformed("symbol table entry", heap.address, "undefined address")),
            (other, _) => return Err(reader.malformed(format!("cache type {other}, expected 0 to 2"))),
        };
        let (name, target) = match heap.text(name) {
            Ok(name) => (name, target),
            Err(error) => (String::new(), Err(error)),
        };
        Ok(Link { name, target: target.unwrap_or_else(LinkTarget::Unreadable) })
    };
    (0..symbols).map(link).collect()
}

/// A local heap.
#[derive(Clone, Debug)]
pub(crate) struct LocalHeap {
    pub(crate) address: u64,
    pub(crate) data: Bytes,
}

impl LocalHeap {
    /// Returns the text at an offset of the data segment.
    pub(crate) fn text(&self, offset: u64) -> Result<String, Error> {
        let rest =
            usize::try_from(offset).ok().and_then(|offset| self.data.get(offset..)).unwrap_or_default();
        match rest.iter().position(|byte| *byte == 0).and_then(|end| rest.get(..end)) {
            Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            None => {
                let length = self.data.len();
                let problem = format!("no text at offset {offset}, expected an offset below {length}");
                Err(Error::malformed(HEAP, self.address, problem))
            }
        }
    }
}

/// Parses a local heap header. Returns the range of the data segment.
fn parse_local_heap(bytes: &[u8], address: u64, format: Format) -> Result<ByteRange, Error> {
    let mut reader = Reader::new(HEAP, bytes, address, format);
    reader.signature(b"HEAP")?;
    reader.version(0..=0)?;
    reader.skip(3)?;
    let length = reader.raw_length()?;
    reader.raw_length()?;
    Ok(ByteRange::new(reader.defined_address()?, length))
}

/// Reads local heaps.
pub(crate) async fn read_local_heaps(
    io: &Io<'_>,
    format: Format,
    addresses: &[u64],
) -> Result<Vec<Result<LocalHeap, Error>>, Error> {
    let guesses: Vec<_> = addresses.iter().map(|&address| ByteRange::new(address, HEAP_GUESS)).collect();
    let headers = io.read(&guesses).await?;
    let headers = headers.iter().zip(addresses).map(|(bytes, &at)| parse_local_heap(bytes, at, format));
    let headers: Vec<_> = headers.collect();
    let ranges: Vec<_> = headers.iter().flatten().copied().collect();
    let mut data = read_whole(io, HEAP, &ranges).await.into_iter();
    let heap = |(header, &address): (Result<_, Error>, &u64)| {
        let data = header.and_then(|_| data.next().unwrap_or(Ok(Bytes::new())))?;
        Ok(LocalHeap { address, data })
    };
    Ok(headers.into_iter().zip(addresses).map(heap).collect())
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
        assert_eq!(node_range(0, 1, FORMAT).length, bytes.len() as u64);
        assert_eq!(parse_node(&bytes, 0, 1, FORMAT).unwrap(), (1, vec![0x30, 0x40]));
        assert!(parse_node(&bytes, 0, 0, FORMAT).is_err(), "too many entries");
        bytes[4] = 1;
        assert!(parse_node(&bytes, 0, 1, FORMAT).is_err(), "a chunk's B-tree");
    }

    #[test]
    fn symbols_hard_and_soft() {
        let heap = LocalHeap { address: 0, data: Bytes::from_static(b"\0a\0b\0/c\0") };
        let mut bytes = b"SNOD\x01\0\x02\0".to_vec();
        bytes.extend([1, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0; 16]);
        bytes.extend([3, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
        bytes.extend([0; 15]);
        assert_eq!(symbol_node_length(1, FORMAT), bytes.len() as u64);
        let links = parse_symbol_node(&bytes, 0, 1, FORMAT, &heap).unwrap();
        assert!(matches!(&links[0], Link { name, target: LinkTarget::Hard(Address(0x70)) } if name == "a"));
        assert!(
            matches!(&links[1], Link { name, target: LinkTarget::Soft(path) } if name == "b" && path == "/c")
        );
        assert!(parse_symbol_node(&bytes, 0, 0, FORMAT, &heap).is_err(), "too many symbols");
    }

    #[test]
    fn local_heaps() {
        let bytes = b"HEAP\0\0\0\0\x58\0\0\0\x01\0\0\0\x80\0\0\0";
        assert_eq!(parse_local_heap(bytes, 0, FORMAT).unwrap(), ByteRange::new(0x90, 0x58));
        let text = |data, offset| LocalHeap { address: 0, data: Bytes::from_static(data) }.text(offset);
        assert_eq!(text(b"\0abc\0", 1).unwrap(), "abc");
        assert!(text(b"\0abc", 1).is_err() && text(b"\0abc", 4).is_err());
    }
}
