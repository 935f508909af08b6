//! Reads the links of symbol-table groups: B-tree, symbol table nodes and local heap, all groups of a level together.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::try_join;
use virtualize_bytes::{Address, ByteRange};

use super::{Io, batch::read_whole, links::hold_link, sized::read_sized};
use crate::{
    Error,
    model::{Link, LinkTarget},
    spec::{
        Format,
        group::{
            LocalHeap, Symbol, SymbolTable, SymbolTarget, TreeNode, heap_text, parse_local_heap,
            parse_symbol_node, parse_tree_node, symbol_node_length, tree_node_length,
        },
    },
};

/// Default size of a B-tree node in bytes (K = 16, 8-byte addresses).
const TREE_GUESS: u64 = 544;
/// Default size of a symbol table node in bytes (K = 4).
const SYMBOLS_GUESS: u64 = 328;
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
        while descend(io, format, &mut walks).await? {}
        read_symbols(io, format, &walks).await
    };
    let (heaps, symbols) = try_join(read_local_heaps(io, format, &heaps), trees).await?;
    let links = tables.iter().zip(heaps).zip(symbols);
    Ok(links.map(|((table, heap), symbols)| links_of(io, &symbols?, &heap?, table.heap)).collect())
}

/// A group's B-tree in progress.
struct Walk {
    /// Addresses of the nodes on the next level, in key order.
    level: Vec<u64>,
    /// Level of the previous nodes, once known.
    depth: Option<u8>,
    seen: BTreeSet<u64>,
    /// Addresses of the symbol table nodes in key order, or the error of the group.
    leaves: Result<Vec<u64>, Error>,
}

impl Walk {
    fn new(table: &SymbolTable) -> Self {
        Self { level: vec![table.btree], depth: None, seen: BTreeSet::new(), leaves: Ok(Vec::new()) }
    }

    fn visit(&mut self, address: u64, node: TreeNode) -> Result<(), Error> {
        let unexpected = self.depth.is_some_and(|depth| depth != node.level);
        if unexpected || !self.seen.insert(address) {
            return Err(Error::malformed(
                "group B-tree node",
                address,
                "a node of another level or with a second parent",
            ));
        }
        self.depth = Some(node.level);
        match &mut self.leaves {
            Ok(leaves) if node.level == 0 => leaves.extend(node.children),
            _ => self.level.extend(node.children),
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.level.clear();
        self.leaves = Err(error);
    }
}

/// Reads one level of all B-trees. Returns whether there was one.
async fn descend(io: &Io<'_>, format: Format, walks: &mut [Walk]) -> Result<bool, Error> {
    let mut wanted = Vec::new();
    for (index, walk) in walks.iter_mut().enumerate() {
        wanted.extend(std::mem::take(&mut walk.level).into_iter().map(|address| (index, address)));
    }
    let addresses: Vec<_> = wanted.iter().map(|(_, address)| *address).collect();
    let length = |bytes: &[u8], address| tree_node_length(bytes, address, format);
    let nodes = read_sized(io, "group B-tree node", &addresses, TREE_GUESS, length).await?;
    let mut before = None;
    for ((index, address), node) in wanted.iter().zip(nodes) {
        let Some(walk) = walks.get_mut(*index) else { continue };
        if before.replace(index) != Some(index) {
            walk.depth = walk.depth.map(|depth| depth.saturating_sub(1));
        }
        if walk.leaves.is_err() {
            continue;
        }
        let node = node.and_then(|bytes| parse_tree_node(&bytes, *address, format));
        if let Err(error) = node.and_then(|node| walk.visit(*address, node)) {
            walk.fail(error);
        }
    }
    Ok(!wanted.is_empty())
}

/// Reads the symbols of each group, in key order.
async fn read_symbols(
    io: &Io<'_>,
    format: Format,
    walks: &[Walk],
) -> Result<Vec<Result<Vec<Symbol>, Error>>, Error> {
    let leaves: Vec<_> = walks.iter().flat_map(|walk| walk.leaves.iter().flatten().copied()).collect();
    let length = |bytes: &[u8], address| symbol_node_length(bytes, address, format);
    let nodes = read_sized(io, "symbol table node", &leaves, SYMBOLS_GUESS, length).await?;
    let mut nodes = nodes.into_iter();
    let symbols = |walk: &Walk| {
        let leaves = walk.leaves.as_ref().map_err(Clone::clone)?;
        let nodes: Vec<_> = leaves.iter().zip(nodes.by_ref()).collect();
        let mut symbols = Vec::new();
        for (address, node) in nodes {
            let node = parse_symbol_node(&node?, *address, format)?;
            io.hold("symbol table nodes", (node.len() as u64).saturating_mul(size_of::<Symbol>() as u64))?;
            symbols.extend(node);
        }
        Ok(symbols)
    };
    Ok(walks.iter().map(symbols).collect())
}

fn links_of(io: &Io<'_>, symbols: &[Symbol], heap: &[u8], heap_address: u64) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for symbol in symbols {
        let link = link_of(symbol, heap, heap_address);
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
