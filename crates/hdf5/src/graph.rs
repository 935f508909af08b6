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
        check_count(io, &graph, &level)?;
        let headers = read_headers(io, format, &level).await?;
        let groups: Vec<_> = headers.iter().flatten().filter(|header| is_group(header)).collect();
        let mut links = read_links(io, format, &groups).await?.into_iter();
        let mut next = BTreeSet::new();
        for (address, header) in level.into_iter().zip(headers) {
            let node = header.and_then(|header| {
                let links = if is_group(&header) { links.next().transpose()? } else { None };
                next.extend(links.iter().flatten().filter_map(hard_target));
                Ok(Node { header, links })
            });
            graph.insert(address, node);
        }
        next.retain(|address| !graph.contains_key(address));
        level = next.into_iter().collect();
    }
    refuse_shared_blocks(&mut graph);
    Ok(graph)
}

/// Fails objects whose headers share a block. The library opens those that it meets first, and not the others.
fn refuse_shared_blocks(graph: &mut Graph) {
    let mut owners: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (address, node) in &*graph {
        for block in node.iter().flat_map(|node| &node.header.blocks) {
            owners.entry(*block).or_default().push(*address);
        }
    }
    for (block, mut objects) in owners {
        objects.extend(graph.get_key_value(&block).map(|(address, _)| *address));
        for address in objects.iter().filter(|_| objects.len() > 1) {
            let problem = format!("a block at {block:#x} of another header as well");
            graph.insert(*address, Err(Error::malformed("object header", *address, problem)));
        }
    }
}

fn hard_target(link: &Link) -> Option<u64> {
    match link.target {
        LinkTarget::Hard(address) => Some(address.0),
        _ => None,
    }
}

fn check_count(io: &Io<'_>, graph: &Graph, level: &[u64]) -> Result<(), Error> {
    let count = graph.len().saturating_add(level.len()) as u64;
    if count <= io.limits().objects {
        return Ok(());
    }
    let address = level.first().copied().unwrap_or(0);
    Err(Error::limit(
        "group",
        address,
        format!("at least {count} objects, expected at most {}", io.limits().objects),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_share_a_block_are_refused() {
        let node = |address, blocks: &[u64]| {
            let header = Header { address, blocks: blocks.iter().copied().collect(), messages: Vec::new() };
            (address, Ok(Node { header, links: None }))
        };
        let mut graph =
            Graph::from([node(1, &[10, 11]), node(2, &[11]), node(3, &[12]), node(4, &[5]), node(5, &[])]);
        refuse_shared_blocks(&mut graph);
        let read: Vec<_> =
            graph.iter().filter(|(_, node)| node.is_ok()).map(|(address, _)| *address).collect();
        assert_eq!(read, [3]);
    }
}
