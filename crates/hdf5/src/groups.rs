//! Reads the links of groups, both symbol tables and the new format, all groups of a level together.

use std::collections::BTreeSet;

use futures::future::join;
use virtualize_bytes::Address;

use crate::{
    Error,
    attribute::{DenseStorage, dense_storage},
    btree2::{Btree2Records, read_records},
    cursor::{Format, Reader, text_before_nul},
    fractal_heap::{HeapId, HeapObject, open_heaps, read_heap_objects},
    io::Io,
    model::{Link, LinkTarget},
    object_header::{Header, kind},
    symbol_tables::read_symbol_tables,
};

/// Returns whether an object is a group: only groups have one of these messages.
pub(crate) fn is_group(header: &Header) -> bool {
    header.find(kind::SYMBOL_TABLE).is_some() || header.find(kind::LINK_INFO).is_some()
}

/// Reads the links of each group.
pub(crate) async fn read_links(
    io: &Io<'_>,
    format: Format,
    groups: &[&Header],
) -> Result<Vec<Result<Vec<Link>, Error>>, Error> {
    let storages: Vec<_> = groups.iter().map(|header| Storage::of(io, header, format)).collect();
    let tables: Vec<_> = storages.iter().flatten().filter_map(|storage| storage.table).collect();
    let dense: Vec<_> = storages.iter().flatten().filter_map(|storage| storage.dense).collect();
    let (tables, dense) = futures::future::try_join(
        read_symbol_tables(io, format, &tables),
        read_dense(io, format, DenseKind::Links, &dense),
    )
    .await?;
    let (mut tables, mut dense) = (tables.into_iter(), dense.into_iter());
    let collect = |storage: Result<Storage, Error>| {
        let storage = storage?;
        // Both iterators advance even if one of them yields an error, so that results stay aligned with the requests.
        let table = storage.table.and_then(|_| tables.next());
        let dense = storage.dense.and_then(|_| dense.next());
        let mut links = storage.compact;
        links.extend(table.transpose()?.into_iter().flatten().map(|link| (None, link)));
        for object in dense.transpose()?.into_iter().flatten().filter_map(|(_, object)| object) {
            hold_link(io, object.as_ref().map_or(0, |object| object.bytes.len()))?;
            links.push(or_unreadable(object.and_then(|object| parse(&object.bytes, object.address, format))));
        }
        Ok(in_order(links))
    };
    Ok(storages.into_iter().map(collect).collect())
}

fn or_unreadable(link: Result<OrderedLink, Error>) -> OrderedLink {
    link.unwrap_or_else(|error| (None, Link { name: String::new(), target: LinkTarget::Unreadable(error) }))
}

/// Sorts links by creation order if all of them have one, else by name. libhdf5 opens the first of several links of a name.
fn in_order(mut links: Vec<OrderedLink>) -> Vec<Link> {
    let mut names = BTreeSet::new();
    for (_, link) in links.iter_mut().filter(|(_, link)| !link.name.is_empty()) {
        if !names.insert(link.name.clone()) {
            let problem = format!("a second link {:?}, expected one", link.name);
            link.target = LinkTarget::Unreadable(Error::malformed("group", 0, problem));
        }
    }
    if links.iter().all(|(creation, _)| creation.is_some()) {
        links.sort_by_key(|(creation, _)| *creation)
    } else {
        links.sort_by(|(_, first), (_, second)| first.name.cmp(&second.name))
    }
    links.into_iter().map(|(_, link)| link).collect()
}

/// Locations of a group's links.
struct Storage {
    compact: Vec<OrderedLink>,
    table: Option<SymbolTable>,
    dense: Option<DenseStorage>,
}

impl Storage {
    /// Returns where the library looks for links: a group with a link info message has no symbol table, and one with dense
    /// links no links in its header.
    fn of(io: &Io<'_>, header: &Header, format: Format) -> Result<Self, Error> {
        let (compact, table) = (Vec::new(), None);
        let Some(info) = header.find(kind::LINK_INFO) else {
            let table = header.find(kind::SYMBOL_TABLE);
            let table = table.map(|m| parse_symbol_table(&m.body, m.address, format)).transpose()?;
            return Ok(Self { compact, table, dense: None });
        };
        match parse_link_info(&info.body, info.address, format)? {
            Some(dense) => Ok(Self { compact, table, dense: Some(dense) }),
            None => Ok(Self { compact: compact_links(io, header, format)?, table, dense: None }),
        }
    }
}

/// Returns the links in a header.
fn compact_links(io: &Io<'_>, header: &Header, format: Format) -> Result<Vec<OrderedLink>, Error> {
    let mut links = Vec::new();
    for message in header.all(kind::LINK) {
        hold_link(io, message.body.len())?;
        links.push(or_unreadable(parse(&message.body, message.address, format)));
    }
    Ok(links)
}

// Structures of symbol-table groups: the Symbol Table message, 0x0011 (specification IV.A.2.r), group B-tree nodes
// (version 1, type 0; III.A.1), symbol table nodes and entries (III.B, III.C) and local heaps (III.D); and the Link
// Info message, 0x0002, of new groups (IV.A.2.c).
//
// ```text
// symbol table message: B-tree O | local heap O
// B-tree node: "TREE" | type | level | entries 2 | left O | right O | (key L, child O)×entries, key L
// symbol table node: "SNOD" | 1 | - | symbols 2 | entries …
//   entry: name offset O | object header O | cache type 4 | - 4 | scratch 16 (cache type 2: offset of a soft link's path 4)
// local heap: "HEAP" | 0 | - 3 | data size L | free list L | data O
// link info: 0 | flags | (flag 0) largest creation index 8 | fractal heap O | name B-tree O | (flag 1) creation B-tree O
// ```

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
    reader.raw_length()?;
    let mut children = Vec::new();
    for _ in 0..entries {
        children.push(reader.defined_address()?);
        reader.raw_length()?;
    }
    Ok(TreeNode { level, children })
}

fn check_entries(reader: &Reader<'_>, entries: u16, rank: u16) -> Result<(), Error> {
    let most = u32::from(rank).saturating_mul(2);
    if u32::from(entries) <= most {
        Ok(())
    } else {
        Err(reader.malformed(format!("{entries} entries, expected at most {most}")))
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
    let entry = u64::from(format.offset_size).saturating_add(format.length_size.into()).saturating_add(24);
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
    // Called an offset by the specification, it has the size of lengths in libhdf5 (H5G__ent_decode).
    let name = reader.uint(reader.format().length_size)?;
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

const HEAP: &str = "local heap";

/// Parses a local heap header.
pub(crate) fn parse_local_heap(bytes: &[u8], address: u64, format: Format) -> Result<LocalHeap, Error> {
    let mut reader = Reader::new(HEAP, bytes, address, format);
    reader.signature(b"HEAP")?;
    reader.version(0..=0)?;
    reader.skip(3)?;
    let length = reader.raw_length()?;
    reader.raw_length()?;
    Ok(LocalHeap { data: reader.defined_address()?, length })
}

/// Returns the text at an offset of a local heap's data segment.
pub(crate) fn heap_text(data: &[u8], offset: u64, heap: u64) -> Result<String, Error> {
    let rest = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)).unwrap_or_default();
    match rest.iter().position(|byte| *byte == 0).and_then(|end| rest.get(..end)) {
        Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        None => Err(Error::malformed(
            HEAP,
            heap,
            format!("no text at offset {offset}, expected an offset below {}", data.len()),
        )),
    }
}

// Reads links and attributes in dense storage: a version 2 B-tree indexes them, a fractal heap contains them.

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
    let entry = |record: &[u8]| match (kind, record) {
        (DenseKind::Links, &[_, _, _, _, a, b, c, d, e, f, g, ..]) => {
            Some(DenseEntry { id: [a, b, c, d, e, f, g, 0], shared: false, creation: 0 })
        }
        (DenseKind::Attributes, &[a, b, c, d, e, f, g, h, flags, w, x, y, z, ..]) => {
            let creation = u32::from_le_bytes([w, x, y, z]);
            Some(DenseEntry { id: [a, b, c, d, e, f, g, h], shared: flags & 2 != 0, creation })
        }
        _ => None,
    };
    Ok(records.records.chunks_exact(records.record_size).filter_map(entry).collect())
}

// Link message, 0x0006 (specification IV.A.2.g), in an object header or in a fractal heap.
//
// ```text
// 1 | flags | (flag 3) type | (flag 2) creation order 8 | (flag 4) character set | name length 1, 2, 4 or 8 | name | target
// target: hard: address O | soft: length 2, path | 64 external: length 2, version and flags, file NUL, path NUL
// ```

/// Parses a link. Returns its creation order, if the group tracks it, and the link. A link whose target cannot be referenced
/// keeps its name.
fn parse(bytes: &[u8], address: u64, format: Format) -> Result<OrderedLink, Error> {
    let mut reader = Reader::new("link message", bytes, address, format);
    reader.version(1..=1)?;
    let flags = reader.u8()?;
    let class = if flags & 8 == 0 { 0 } else { reader.u8()? };
    let creation = if flags & 4 == 0 { None } else { Some(reader.u64()?) };
    let charset = if flags & 16 == 0 { 0 } else { reader.u8()? };
    let length = reader.uint(1 << (flags & 3))?;
    if flags > 0x1F || charset > 1 || length == 0 {
        let problem = format!("flags {flags:#04x}, character set {charset}, name of {length} bytes");
        return Err(reader.malformed(format!("{problem}; expected at most 0x1f, at most 1, and 1 or more")));
    }
    let name = text_before_nul(reader.take(length)?);
    Ok((creation, Link { name, target: target(&mut reader, class)? }))
}

fn target(reader: &mut Reader<'_>, class: u8) -> Result<LinkTarget, Error> {
    if class == 0 {
        let undefined = || reader.malformed("undefined address, expected a defined one");
        let address = reader.clone().address()?;
        return Ok(
            address.map_or_else(|| LinkTarget::Unreadable(undefined()), |at| LinkTarget::Hard(Address(at)))
        );
    }
    let length = u64::from(reader.u16()?);
    let value = reader.take(length)?;
    match class {
        1 if length > 0 => Ok(LinkTarget::Soft(text_before_nul(value))),
        64 if length > 2 => Ok(external(reader, value).unwrap_or_else(LinkTarget::Unreadable)),
        65.. => Ok(LinkTarget::UserDefined(class)),
        _ => Err(reader
            .malformed(format!("link of type {class} with {length} bytes, expected 0, 1 or from 64 on"))),
    }
}

fn external(reader: &Reader<'_>, value: &[u8]) -> Result<LinkTarget, Error> {
    let mut parts = value.get(1..).unwrap_or_default().split(|&byte| byte == 0);
    match (value.first(), parts.next(), parts.next()) {
        (Some(0), Some(file), Some(path)) => {
            Ok(LinkTarget::External { file: text_before_nul(file), path: text_before_nul(path) })
        }
        (Some(0), ..) => Err(reader.malformed("empty external link, expected a file and a path")),
        (version, ..) => {
            Err(reader.unsupported(format!("external link version and flags {version:?}, expected 0")))
        }
    }
}

// Links of one group before they are sorted.

/// A link with its creation order, if the group tracks it.
pub(super) type OrderedLink = (Option<u64>, Link);

/// Charges one link whose names take `names` bytes to the memory budget.
pub(super) fn hold_link(io: &Io<'_>, names: usize) -> Result<(), Error> {
    io.hold("links", (size_of::<OrderedLink>() as u64).saturating_add(names as u64))
}

#[cfg(test)]
mod tests {

    mod groups {
        use virtualize_bytes::Address;

        use super::super::*;

        fn names(links: &[(Option<u64>, &str)]) -> Vec<String> {
            let link = |(creation, name): &(Option<u64>, &str)| {
                (*creation, Link { name: (*name).to_owned(), target: LinkTarget::Hard(Address(0)) })
            };
            in_order(links.iter().map(link).collect()).into_iter().map(|link| link.name).collect()
        }

        /// libhdf5 opens the first.
        #[test]
        fn the_second_link_of_a_name_is_unreadable() {
            let link = |at| (Some(at), Link { name: "a".to_owned(), target: LinkTarget::Hard(Address(at)) });
            let links = in_order(vec![link(2), link(1)]);
            let readable: Vec<_> =
                links.iter().filter(|link| matches!(link.target, LinkTarget::Hard(Address(2)))).collect();
            assert_eq!((links.len(), readable.len()), (2, 1));
        }

        #[test]
        fn links_are_sorted_by_creation_order_if_all_have_one() {
            assert_eq!(names(&[(Some(2), "a"), (Some(1), "b"), (Some(3), "")]), ["b", "a", ""]);
            assert_eq!(names(&[(Some(2), "c"), (None, "b"), (Some(1), "a")]), ["a", "b", "c"]);
        }

        /// Files can store the creation order of some links only. Sorting must not panic, whatever the order.
        #[test]
        fn partial_creation_order_does_not_panic() {
            let mut state = 1_u64;
            let mut random = |most: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % most
            };
            for _ in 0..300 {
                let links: Vec<_> = (0..21 + random(60))
                    .map(|_| (Some(random(50)).filter(|n| n % 3 > 0), format!("{}", random(50))))
                    .collect();
                let links: Vec<_> = links.iter().map(|(creation, name)| (*creation, name.as_str())).collect();
                assert_eq!(names(&links).len(), links.len());
            }
        }
    }

    mod group {
        use super::super::*;

        const FORMAT: Format = Format { base: 0x10, offset_size: 4, length_size: 4 };

        #[test]
        fn tree_nodes() {
            let mut bytes = b"TREE\0\x01\x02\0".to_vec();
            bytes.extend([0xFF; 8]);
            bytes.extend([0, 0, 0, 0, 0x20, 0, 0, 0, 8, 0, 0, 0, 0x30, 0, 0, 0, 16, 0, 0, 0]);
            assert_eq!(tree_node_length(1, FORMAT), bytes.len() as u64);
            let node = parse_tree_node(&bytes, 0, 1, FORMAT).unwrap();
            assert_eq!(node, TreeNode { level: 1, children: vec![0x30, 0x40] });
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
            assert_eq!(parse_local_heap(bytes, 0, FORMAT).unwrap(), LocalHeap { data: 0x90, length: 0x58 });
            assert_eq!(heap_text(b"\0abc\0", 1, 0).unwrap(), "abc");
            assert!(heap_text(b"\0abc", 1, 0).is_err() && heap_text(b"\0abc", 4, 0).is_err());
        }

        #[test]
        fn link_info() {
            let dense =
                parse_link_info(&[0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0], 0, FORMAT).unwrap();
            assert_eq!(dense, Some(DenseStorage { heap: 0x18, names: 0x20 }));
        }
    }

    mod link {
        use super::super::*;

        const FORMAT: Format = Format { base: 0x10, offset_size: 4, length_size: 8 };

        #[test]
        fn hard_soft_and_external() {
            let (creation, link) =
                parse(&[1, 4, 9, 0, 0, 0, 0, 0, 0, 0, 1, b'a', 0x20, 0, 0, 0], 0, FORMAT).unwrap();
            assert_eq!((creation, &*link.name), (Some(9), "a"));
            assert!(matches!(link.target, LinkTarget::Hard(Address(0x30))));
            let (_, link) = parse(&[1, 0x18, 1, 1, 1, b'b', 2, 0, b'/', b'x'], 0, FORMAT).unwrap();
            assert!(matches!(link.target, LinkTarget::Soft(path) if path == "/x"));
            let (_, link) =
                parse(b"\x01\x08\x40\x01c\x07\0\0f.h5\0/\0", 0, FORMAT).unwrap_or_else(|e| panic!("{e}"));
            assert!(
                matches!(link.target, LinkTarget::External { file, path } if file == "f.h5" && path == "/")
            );
        }

        #[test]
        fn names_end_at_a_nul() {
            let (_, link) = parse(b"\x01\0\x03a\0b\x20\0\0\0", 0, FORMAT).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(link.name, "a");
        }

        #[test]
        fn undefined_targets_keep_their_names() {
            let (_, link) = parse(&[1, 0, 1, b'a', 0xFF, 0xFF, 0xFF, 0xFF], 0, FORMAT).unwrap();
            assert!(link.name == "a" && matches!(link.target, LinkTarget::Unreadable(_)));
        }

        /// libhdf5 opens no link of a group after one of these.
        #[test]
        fn rejects_what_the_library_does_not_decode() {
            let invalid: [(&[u8], &str); 7] = [
                (&[1, 0, 2, b'a'], "truncated name"),
                (&[1, 0, 0, 0x20, 0, 0, 0], "no name"),
                (&[1, 0x20, 1, b'a', 0x20, 0, 0, 0], "flags"),
                (&[1, 0x10, 2, 1, b'a', 0x20, 0, 0, 0], "character set"),
                (&[1, 8, 2, 1, b'a', 0, 0], "type"),
                (&[1, 8, 1, 1, b'a', 0, 0], "empty soft link"),
                (&[1, 8, 64, 1, b'a', 2, 0, 0, 0], "short external link"),
            ];
            for (bytes, what) in invalid {
                assert!(parse(bytes, 0, FORMAT).is_err(), "{what}");
            }
        }
    }
}
