//! Links of groups, old and new, all groups of a level together.

use super::{
    Io,
    dense::{DenseKind, read_dense},
    headers::Header,
    symbol_tables::read_symbol_tables,
};
use crate::{
    Error,
    model::{Link, LinkTarget},
    spec::{
        Format,
        attribute::DenseStorage,
        group::{SymbolTable, parse_link_info, parse_symbol_table},
        link,
        object_header::kind,
    },
};

/// Whether the object is a group: only groups have one of these messages.
pub(crate) fn is_group(header: &Header) -> bool {
    header.find(kind::SYMBOL_TABLE).is_some() || header.find(kind::LINK_INFO).is_some()
}

/// A link and its place in the order of creation, where that is tracked.
type OrderedLink = (Option<u64>, Link);

/// The links of each group.
pub(crate) async fn read_links(
    io: &Io<'_>,
    format: Format,
    groups: &[&Header],
) -> Result<Vec<Result<Vec<Link>, Error>>, Error> {
    let storages: Vec<_> = groups.iter().map(|header| Storage::of(header, format)).collect();
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
        // Both iterators advance whatever happens, so that answers stay with their questions.
        let table = storage.table.and_then(|_| tables.next());
        let dense = storage.dense.and_then(|_| dense.next());
        let mut links = storage.compact;
        links.extend(table.transpose()?.into_iter().flatten().map(|link| (None, link)));
        for (_, object) in dense.transpose()?.into_iter().flatten() {
            let parsed = object.map(|object| object.and_then(|o| link::parse(&o.bytes, o.address, format)));
            links.extend(parsed.map(or_unreadable));
        }
        Ok(in_order(links))
    };
    Ok(storages.into_iter().map(collect).collect())
}

fn or_unreadable(link: Result<OrderedLink, Error>) -> OrderedLink {
    link.unwrap_or_else(|error| (None, Link { name: String::new(), target: LinkTarget::Unreadable(error) }))
}

fn in_order(mut links: Vec<OrderedLink>) -> Vec<Link> {
    links.sort_by(|(a, first), (b, second)| match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        _ => first.name.cmp(&second.name),
    });
    links.into_iter().map(|(_, link)| link).collect()
}

/// Where a group keeps its links.
struct Storage {
    compact: Vec<OrderedLink>,
    table: Option<SymbolTable>,
    dense: Option<DenseStorage>,
}

impl Storage {
    fn of(header: &Header, format: Format) -> Result<Self, Error> {
        let table = header.find(kind::SYMBOL_TABLE);
        let table = table.map(|m| parse_symbol_table(&m.body, m.address, format)).transpose()?;
        let dense = header.find(kind::LINK_INFO);
        let dense = dense.map(|m| parse_link_info(&m.body, m.address, format)).transpose()?.flatten();
        let compact = header.all(kind::LINK).map(|m| link::parse(&m.body, m.address, format));
        Ok(Self { compact: compact.map(or_unreadable).collect(), table, dense })
    }
}
