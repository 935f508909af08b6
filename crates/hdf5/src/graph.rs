//! Reads the object graph, one level of hard links at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Error,
    cursor::Format,
    groups::{is_group, read_links},
    io::Io,
    model::{Link, LinkTarget},
    object_header::{Header, read_headers},
};

/// An object header and, for a group, its links.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) header: Header,
    pub(crate) links: Option<Vec<Link>>,
}

/// Objects by the address of their headers.
pub(crate) type Graph = BTreeMap<u64, Result<Node, Error>>;

/// Reads all objects that hard links reach from the group at `root`.
pub(crate) async fn read_graph(io: &Io<'_>, format: Format, root: u64) -> Result<Graph, Error> {
    let mut graph = Graph::new();
    let mut level = vec![root];
    while !level.is_empty() {
        let (count, most) = (graph.len().saturating_add(level.len()) as u64, io.limits().objects);
        if count > most {
            let problem = format!("at least {count} objects, expected at most {most}");
            return Err(Error::limit("group", level.first().copied().unwrap_or(0), problem));
        }
        let headers = read_headers(io, format, &level).await?;
        let groups: Vec<_> = headers.iter().flatten().filter(|header| is_group(header)).collect();
        let mut links = read_links(io, format, &groups).await?.into_iter();
        let mut next = BTreeSet::new();
        for (address, header) in level.into_iter().zip(headers) {
            let node = header.and_then(|header| {
                let links = if is_group(&header) { links.next().transpose()? } else { None };
                next.extend(links.iter().flatten().filter_map(|link| match link.target {
                    LinkTarget::Hard(address) => Some(address.0),
                    _ => None,
                }));
                Ok(Node { header, links })
            });
            graph.insert(address, node);
        }
        next.retain(|address| !graph.contains_key(address));
        level = next.into_iter().collect();
    }
    Ok(graph)
}
