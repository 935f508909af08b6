//! Reads the links of groups, both symbol tables and the new format, all groups of a level together.

use std::collections::BTreeSet;

use crate::{
    Error,
    attribute::DenseStorage,
    checksum::lookup3,
    context::Format,
    dense::{DenseEntry, DenseKind, read_dense},
    fractal_heaps::HeapObject,
    group::{SymbolTable, parse_link_info, parse_symbol_table},
    headers::Header,
    io::Io,
    link,
    links::{OrderedLink, hold_link},
    model::{Link, LinkTarget},
    object_header::{Message, kind},
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
        for (entry, object) in dense.transpose()?.into_iter().flatten() {
            let Some(object) = object else { continue };
            hold_link(io, object.as_ref().map_or(0, |object| object.bytes.len()))?;
            let link = object.and_then(|object| findable(&entry, &object, format));
            links.push(or_unreadable(link));
        }
        Ok(in_order(links))
    };
    Ok(storages.into_iter().map(collect).collect())
}

/// Returns a link, without its target if the library does not find it by its name.
fn findable(entry: &DenseEntry, object: &HeapObject, format: Format) -> Result<OrderedLink, Error> {
    let (name, creation, link) = link::parse(&object.bytes, object.address, format)?;
    Ok(match entry.name.check("link", object.address, lookup3(name)) {
        Ok(()) => (creation, link),
        Err(error) => (creation, Link { target: LinkTarget::Unreadable(error), ..link }),
    })
}

fn or_unreadable(link: Result<OrderedLink, Error>) -> OrderedLink {
    link.unwrap_or_else(|error| (None, Link { name: String::new(), target: LinkTarget::Unreadable(error) }))
}

/// Sorts links by creation order if all of them have one, else by name.
fn in_order(mut links: Vec<OrderedLink>) -> Vec<Link> {
    match links.iter().all(|(creation, _)| creation.is_some()) {
        true => links.sort_by_key(|(creation, _)| *creation),
        false => links.sort_by(|(_, first), (_, second)| first.name.cmp(&second.name)),
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

fn second_link(message: &Message) -> Error {
    Error::malformed("link message", message.address, "second link of a name, expected one")
}

/// Returns the links in a header. The library reads them one after the other until it finds a name, so it opens no link
/// after one that it cannot decode.
fn compact_links(io: &Io<'_>, header: &Header, format: Format) -> Result<Vec<OrderedLink>, Error> {
    let (mut links, mut damaged, mut names) = (Vec::new(), None, BTreeSet::new());
    for message in header.all(kind::LINK) {
        hold_link(io, message.body.len())?;
        let link = link::parse(&message.body, message.address, format);
        let link = link.map(|(name, creation, link)| match names.insert(name) {
            true => (creation, link),
            false => (creation, Link { target: LinkTarget::Unreadable(second_link(message)), ..link }),
        });
        if let (None, Err(error)) = (&damaged, &link) {
            damaged = Some(error.clone().within("a link before it"));
        }
        links.push(match (link, &damaged) {
            (Ok((creation, link)), Some(error)) => {
                (creation, Link { target: LinkTarget::Unreadable(error.clone()), ..link })
            }
            (link, _) => or_unreadable(link),
        });
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::Address;

    use super::*;
    use crate::dense::IndexedName;

    fn names(links: &[(Option<u64>, &str)]) -> Vec<String> {
        let link = |(creation, name): &(Option<u64>, &str)| {
            (*creation, Link { name: (*name).to_owned(), target: LinkTarget::Hard(Address(0)) })
        };
        in_order(links.iter().map(link).collect()).into_iter().map(|link| link.name).collect()
    }

    #[test]
    fn links_with_another_checksum_are_unreadable() {
        let format = Format { base: 0, offset_size: 4, length_size: 4 };
        let target = |letter: u8, hash| {
            let name = IndexedName { hash, is_in_order: true };
            let entry = DenseEntry { id: [0; 8], shared: false, creation: 0, name };
            let bytes = bytes::Bytes::copy_from_slice(&[1, 0, 1, letter, 8, 0, 0, 0]);
            findable(&entry, &HeapObject { address: 0, bytes }, format).unwrap().1.target
        };
        assert!(matches!(target(b'a', lookup3(b"a")), LinkTarget::Hard(_)));
        assert!(matches!(target(0xE9, lookup3(b"\xe9")), LinkTarget::Hard(_)), "a name that is not UTF-8");
        assert!(matches!(target(b'a', lookup3(b"b")), LinkTarget::Unreadable(_)));
    }

    /// libhdf5 opens the links before the damaged one.
    #[test]
    fn links_after_a_damaged_one_are_unreadable() {
        let format = Format { base: 0, offset_size: 4, length_size: 4 };
        let source = virtualize_bytes::MemorySource(bytes::Bytes::new());
        let io = Io::new(&source, virtualize_bytes::Limits::default());
        let bodies: [&'static [u8]; 4] = [
            &[1, 0, 1, b'a', 8, 0, 0, 0],
            &[1, 0, 1, b'a', 8, 0, 0, 0],
            &[1, 0, 0, 8, 0, 0, 0],
            &[1, 0, 1, b'c', 8, 0, 0, 0],
        ];
        let message = |body| Message {
            kind: kind::LINK,
            shared: false,
            address: 0,
            body: bytes::Bytes::from_static(body),
        };
        let header = Header { address: 0, blocks: BTreeSet::new(), messages: bodies.map(message).to_vec() };
        let links = compact_links(&io, &header, format).unwrap();
        let found = links.iter().map(|(_, link)| (&*link.name, matches!(link.target, LinkTarget::Hard(_))));
        assert_eq!(found.collect::<Vec<_>>(), [("a", true), ("a", false), ("", false), ("c", false)]);
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
