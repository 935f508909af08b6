//! Reads the links of groups, both symbol tables and the new format, all groups of a level together.

use std::collections::BTreeSet;

use futures::future::join;
use virtualize_bytes::Address;

use crate::{
    Error,
    attribute::{DenseStorage, dense_storage},
    btree2::{Btree2Records, read_records},
    cursor::{Format, Reader, text_before_nul},
    fractal_heap::{HeapId, open_heaps, read_heap_objects},
    io::Io,
    model::{Link, LinkTarget},
    object_header::{Body, Header, kind},
    symbol_tables::{self, SymbolTable, read_symbol_tables},
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
    let storage = |header: &&Header| {
        if let Some(dense) = header.parsed(kind::LINK_INFO, format, parse_link_info)? {
            return Ok(dense.map_or(Storage::Compact, Storage::Dense));
        }
        let table = header.parsed(kind::SYMBOL_TABLE, format, symbol_tables::parse)?;
        Ok(table.map_or(Storage::Compact, Storage::Table))
    };
    let storages: Vec<_> = groups.iter().map(storage).collect();
    let (mut tables, mut dense) = (Vec::new(), Vec::new());
    for storage in storages.iter().flatten() {
        match storage {
            Storage::Compact => {}
            Storage::Dense(storage) => dense.push(*storage),
            Storage::Table(table) => tables.push(*table),
        }
    }
    let (tables, dense) = futures::future::try_join(
        read_symbol_tables(io, format, &tables),
        read_dense(io, format, DenseKind::Links, &dense),
    )
    .await?;
    let (mut tables, mut dense) = (tables.into_iter(), dense.into_iter());
    let parsed = |body: Result<Body, Error>| {
        hold_link(io, body.as_ref().map_or(0, |body| body.bytes.len()))?;
        let link = body.and_then(|body| parse(&body.bytes, body.address, format));
        let unreadable = |error| Link { name: String::new(), target: LinkTarget::Unreadable(error) };
        Ok(link.unwrap_or_else(|error| (None, unreadable(error))))
    };
    let collect = |(storage, header): (Result<Storage, Error>, &&Header)| {
        let links = match storage? {
            Storage::Compact => {
                let messages = header.all(kind::LINK);
                messages.map(|message| parsed(Ok(message.body.clone()))).collect::<Result<_, Error>>()?
            }
            Storage::Table(_) => {
                let links = tables.next().transpose()?.into_iter().flatten();
                links.map(|link| (None, link)).collect()
            }
            Storage::Dense(_) => {
                let objects =
                    dense.next().transpose()?.into_iter().flatten().filter_map(|(_, object)| object);
                objects.map(parsed).collect::<Result<_, Error>>()?
            }
        };
        Ok(in_order(links))
    };
    Ok(storages.into_iter().zip(groups).map(collect).collect())
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

/// Where the library looks for the links of a group: a group with a link info message has no symbol table, and one with
/// dense links no links in its header.
enum Storage {
    Compact,
    Dense(DenseStorage),
    Table(SymbolTable),
}

// Link Info message, 0x0002 (specification IV.A.2.c).
//
// ```text
// 0 | flags | (flag 0) largest creation index 8 | fractal heap O | name B-tree O | (flag 1) creation B-tree O
// ```

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DenseEntry {
    /// Heap id.
    pub(crate) id: HeapId,
    /// Whether the attribute is in the shared message heap instead.
    pub(crate) shared: bool,
    /// Creation order; 0 for links, whose records lack it.
    pub(crate) creation: u32,
}

type Entries = Vec<(DenseEntry, Option<Result<Body, Error>>)>;

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
    let (expected, size) = match kind {
        DenseKind::Links => (5, 11),
        DenseKind::Attributes => (8, 17),
    };
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
    let entries = |(records, &tree): (Result<Btree2Records, Error>, &u64)| {
        let Btree2Records { record_type, record_size, records } = records?;
        if record_type != expected || record_size < size {
            let found = format!("records of type {record_type} and {record_size} bytes");
            let problem = format!("{found}, expected type {expected} and {size}");
            return Err(Error::malformed("version 2 B-tree header", tree, problem));
        }
        Ok(records.chunks_exact(record_size).filter_map(entry).collect())
    };
    let entries: Vec<Result<Vec<DenseEntry>, Error>> = records.into_iter().zip(&trees).map(entries).collect();
    let ids = |entries: &Result<Vec<DenseEntry>, Error>| {
        let own = entries.iter().flatten().filter(|entry| !entry.shared);
        own.map(|entry| entry.id).collect()
    };
    let requests: Vec<Vec<HeapId>> = entries.iter().map(ids).collect();
    let objects = read_heap_objects(io, format, heaps?, &requests).await;
    let with_objects = |(entries, objects): (Result<Vec<DenseEntry>, Error>, Result<Vec<_>, Error>)| {
        let mut objects = objects?.into_iter();
        let object = |entry: DenseEntry| (entry, (!entry.shared).then(|| objects.next()).flatten());
        Ok(entries?.into_iter().map(object).collect())
    };
    Ok(entries.into_iter().zip(objects).map(with_objects).collect())
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

/// A link with its creation order, if the group tracks it.
type OrderedLink = (Option<u64>, Link);

/// Charges one link whose names take `names` bytes to the memory budget.
pub(crate) fn hold_link(io: &Io<'_>, names: usize) -> Result<(), Error> {
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
