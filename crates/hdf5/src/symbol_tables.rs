//! Reads the links of symbol-table groups: B-tree, symbol table nodes and local heap, all groups of a level together.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::future::try_join;
use virtualize_bytes::{Address, ByteRange};

use crate::{
    Error,
    cursor::Format,
    groups::{
        LocalHeap, Symbol, SymbolTable, SymbolTarget, TreeNode, heap_text, hold_link, parse_local_heap,
        parse_symbol_node, parse_tree_node, symbol_node_length, tree_node_length,
    },
    io::{Io, read_whole},
    model::{Link, LinkTarget},
};

/// Size of a local heap header and its default data, which usually follows immediately.
const HEAP_GUESS: u64 = 32 + 256;

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
    let trees = async {
        let mut walks: Vec<_> = tables.iter().map(Walk::new).collect();
        while descend(io, format, &mut walks).await {}
        let symbols = read_symbols(io, format, &walks).await?;
        Ok((walks, symbols))
    };
    let (heaps, (walks, symbols)) = try_join(read_local_heaps(io, format, &heaps), trees).await?;
    let links = walks.iter().zip(heaps).zip(symbols);
    Ok(links.map(|((walk, heap), nodes)| links_of(io, walk, &nodes?, &heap?)).collect())
}

/// A group's B-tree in progress.
struct Walk {
    /// Address of the local heap.
    heap: u64,
    /// Addresses of the nodes on the next level, in key order.
    level: Vec<u64>,
    /// Level of the previous nodes, once known.
    depth: Option<u8>,
    /// Addresses of the nodes so far.
    nodes: BTreeSet<u64>,
    /// Addresses of the symbol table nodes in key order, or the error of the group.
    leaves: Result<Vec<u64>, Error>,
}

/// Symbol table nodes of a group by their addresses.
type SymbolNodes = BTreeMap<u64, Vec<Symbol>>;

impl Walk {
    fn new(table: &SymbolTable) -> Self {
        let (level, nodes) = (vec![table.btree], BTreeSet::new());
        Self { heap: table.heap, level, depth: None, nodes, leaves: Ok(Vec::new()) }
    }

    fn visit(&mut self, address: u64, node: &TreeNode) -> Result<(), Error> {
        let unexpected = self.depth.is_some_and(|depth| depth != node.level);
        if unexpected || !self.nodes.insert(address) {
            return Err(Error::malformed(
                "group B-tree node",
                address,
                "a node of another level or with a second parent",
            ));
        }
        self.depth = Some(node.level);
        match &mut self.leaves {
            Ok(leaves) if node.level == 0 => leaves.extend(&node.children),
            _ => self.level.extend(&node.children),
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.level.clear();
        self.leaves = Err(error);
    }
}

/// Reads one level of all B-trees. Returns whether there was one.
async fn descend(io: &Io<'_>, format: Format, walks: &mut [Walk]) -> bool {
    let mut wanted = Vec::new();
    for (index, walk) in walks.iter_mut().enumerate() {
        wanted.extend(std::mem::take(&mut walk.level).into_iter().map(|address| (index, address)));
    }
    let rank = io.ranks.groups;
    let length = tree_node_length(rank, format);
    let ranges: Vec<_> = wanted.iter().map(|(_, address)| ByteRange::new(*address, length)).collect();
    let nodes = read_whole(io, "group B-tree node", &ranges).await;
    let mut before = None;
    for ((index, address), node) in wanted.iter().zip(nodes) {
        let Some(walk) = walks.get_mut(*index) else { continue };
        if before.replace(index) != Some(index) {
            walk.depth = walk.depth.map(|depth| depth.saturating_sub(1));
        }
        if walk.leaves.is_err() {
            continue;
        }
        let node = node.and_then(|bytes| parse_tree_node(&bytes, *address, rank, format));
        if let Err(error) = node.and_then(|node| walk.visit(*address, &node)) {
            walk.fail(error);
        }
    }
    !wanted.is_empty()
}

/// Reads the symbol table nodes of each group.
async fn read_symbols(
    io: &Io<'_>,
    format: Format,
    walks: &[Walk],
) -> Result<Vec<Result<SymbolNodes, Error>>, Error> {
    let rank = io.ranks.symbols;
    let length = symbol_node_length(rank, format);
    let leaves = walks.iter().flat_map(|walk| walk.leaves.iter().flatten());
    let ranges: Vec<_> = leaves.map(|address| ByteRange::new(*address, length)).collect();
    let mut nodes = read_whole(io, "symbol table node", &ranges).await.into_iter();
    let symbols = |walk: &Walk| {
        let leaves = walk.leaves.as_ref().map_err(Clone::clone)?;
        let nodes: Vec<_> = leaves.iter().zip(nodes.by_ref()).collect();
        let mut symbols = SymbolNodes::new();
        for (address, node) in nodes {
            let node = parse_symbol_node(&node?, *address, rank, format)?;
            io.hold("symbol table nodes", (node.len() as u64).saturating_mul(size_of::<Symbol>() as u64))?;
            symbols.insert(*address, node);
        }
        Ok(symbols)
    };
    Ok(walks.iter().map(symbols).collect())
}

/// Returns the links of a group in key order.
fn links_of(io: &Io<'_>, walk: &Walk, nodes: &SymbolNodes, heap: &[u8]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    let symbols = walk.leaves.iter().flatten().filter_map(|address| nodes.get(address)).flatten();
    for symbol in symbols {
        let link = link_of(symbol, heap, walk.heap);
        // All links may refer to the same text in the heap.
        let target = if let LinkTarget::Soft(path) = &link.target { path.len() } else { 0 };
        hold_link(io, link.name.len().saturating_add(target))?;
        links.push(link);
    }
    Ok(links)
}

fn link_of(symbol: &Symbol, heap: &[u8], heap_address: u64) -> Link {
    let name = match heap_text(heap, symbol.name, heap_address) {
        Ok(name) => name,
        Err(error) => return Link { name: String::new(), target: LinkTarget::Unreadable(error) },
    };
    let target = match symbol.target {
        SymbolTarget::Object(address) => LinkTarget::Hard(Address(address)),
        SymbolTarget::Soft(offset) => match heap_text(heap, offset, heap_address) {
            Ok(path) => LinkTarget::Soft(path),
            Err(error) => LinkTarget::Unreadable(error),
        },
        SymbolTarget::Undefined => {
            LinkTarget::Unreadable(Error::malformed("symbol table entry", heap_address, "undefined address"))
        }
    };
    Link { name, target }
}

/// Reads the data of local heaps.
pub(crate) async fn read_local_heaps(
    io: &Io<'_>,
    format: Format,
    addresses: &[u64],
) -> Result<Vec<Result<Bytes, Error>>, Error> {
    let ranges: Vec<_> = addresses.iter().map(|&address| ByteRange::new(address, HEAP_GUESS)).collect();
    let headers = io.read(&ranges).await?;
    let headers: Vec<_> = headers
        .iter()
        .zip(addresses)
        .map(|(bytes, &address)| parse_local_heap(bytes, address, format))
        .collect();
    let range = |heap: &LocalHeap| ByteRange::new(heap.data, heap.length);
    let ranges: Vec<_> = headers.iter().flatten().map(range).collect();
    let mut data = read_whole(io, "local heap", &ranges).await.into_iter();
    let next =
        |header: Result<LocalHeap, Error>| header.and_then(|_| data.next().unwrap_or(Ok(Bytes::new())));
    Ok(headers.into_iter().map(next).collect())
}
