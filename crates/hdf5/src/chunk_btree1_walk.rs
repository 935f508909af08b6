//! Walks version 1 B-trees that index chunks. The level must decrease by one from parent to child, which excludes
//! cycles. No node may occur twice in a level, which keeps a small file from describing a huge tree.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    batch::read_whole,
    chunk_btree1::{Bounds, Btree1Axis, Btree1Format, Btree1Node},
    chunk_element::ChunkElement,
    chunk_request::Job,
    context::Format,
    io::Io,
};

const NODE: &str = "version 1 B-tree node";

/// A tree in progress.
struct Tree<'a> {
    job: Job<'a>,
    sizes: Btree1Format,
    axes: Vec<Btree1Axis>,
    /// Level and last key of the previous node.
    last: (u8, Vec<u64>),
    result: Result<(), Error>,
}

/// A node to read.
struct Node {
    tree: usize,
    address: u64,
    /// Expected level and keys; `None` for the root.
    expected: Option<(u8, Bounds)>,
}

/// Fills the chunk tables of the trees.
pub(super) async fn read_btree1<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let mut level: Vec<_> =
        (0..).zip(&jobs).map(|(tree, job)| Node { tree, address: job.address, expected: None }).collect();
    let mut trees: Vec<_> = jobs.into_iter().map(|job| Tree::new(job, io, format)).collect();
    while !level.is_empty() {
        let mut next = Vec::new();
        for batch in level.chunks(io.batch()) {
            for (node, bytes) in batch.iter().zip(read_nodes(io, &trees, batch).await) {
                if let Some(tree) = trees.get_mut(node.tree) {
                    tree.visit(io, node, bytes, &mut next);
                }
            }
        }
        refuse_repetition(&mut trees, &next);
        announce(io, &trees, &next);
        level = next;
    }
    trees.into_iter().map(|tree| (tree.job, tree.result)).collect()
}

/// Announces the nodes below those of the next level, if there are so many that they fill the space between these.
fn announce(io: &Io<'_>, trees: &[Tree<'_>], next: &[Node]) {
    for nodes in next.chunk_by(|first, second| first.tree == second.tree) {
        if let [Node { tree, expected: Some((level @ 1.., _)), .. }, ..] = nodes
            && let Some(tree) = trees.get(*tree)
        {
            let most = tree.sizes.full_tree_size(nodes.len() as u64, *level);
            let chunks = tree.job.columns.grid().total;
            let bytes = tree.sizes.full_leaf_bytes(chunks).min(most);
            io.will_read_below(nodes.iter().map(|node| node.address), bytes);
        }
    }
}

async fn read_nodes(io: &Io<'_>, trees: &[Tree<'_>], nodes: &[Node]) -> Vec<Result<Bytes, Error>> {
    let size = |node: &Node| trees.get(node.tree).map_or(0, |tree| tree.sizes.node_size());
    let ranges: Vec<_> = nodes.iter().map(|node| ByteRange::new(node.address, size(node))).collect();
    read_whole(io, NODE, &ranges).await
}

impl<'a> Tree<'a> {
    fn new(job: Job<'a>, io: &Io<'_>, format: Format) -> Self {
        let sizes = Btree1Format::new(format, job.request.chunk_shape.len(), io.ranks().chunks);
        let axes = Btree1Axis::all(job.columns.grid(), &job.request.chunk_shape);
        Self { job, sizes, axes, last: (0, Vec::new()), result: Ok(()) }
    }

    /// Adds the chunks of a leaf to the table, or the children of an internal node to the next level.
    fn visit(&mut self, io: &Io<'_>, node: &Node, bytes: Result<Bytes, Error>, next: &mut Vec<Node>) {
        if self.result.is_err() {
            return;
        }
        self.result = bytes.and_then(|bytes| self.read_node(io, node, &bytes, next));
    }

    fn read_node(
        &mut self,
        io: &Io<'_>,
        node: &Node,
        bytes: &[u8],
        next: &mut Vec<Node>,
    ) -> Result<(), Error> {
        let parsed = self.sizes.parse(bytes, node.address)?;
        check_level(io, node, &parsed)?;
        let (level, last) = &mut self.last;
        if *level != parsed.level {
            (*level, *last) = (parsed.level, Vec::new());
        }
        parsed.check_order(self.sizes, last)?;
        if let Some((_, bounds)) = &node.expected {
            parsed.check_bounds(self.sizes, bounds, last)?;
        }
        let request = self.job.request;
        let chunk: Vec<u64> =
            request.chunk_shape.iter().copied().chain([request.element_size.into()]).collect();
        parsed.check_multiples(self.sizes, &chunk)?;
        let count = parsed.len(self.sizes) as u64;
        let Some(below) = parsed.level.checked_sub(1) else {
            self.job.budget.take(count, node.address)?;
            return self.list(&parsed);
        };
        for (child, bounds) in parsed.children(self.sizes).zip(parsed.bounds(self.sizes)) {
            next.push(Node { tree: node.tree, address: child?, expected: Some((below, bounds)) });
        }
        if below == 0 {
            self.job.columns.reserve(count.saturating_mul(32));
        }
        Ok(())
    }

    fn list(&mut self, leaf: &Btree1Node<'_>) -> Result<(), Error> {
        let columns = &mut self.job.columns;
        leaf.chunks(self.sizes, &mut self.axes, |chunk| match chunk.position {
            Some(position) => {
                let (address, size) = (chunk.address, Some(chunk.size.into()));
                columns.push(position, ChunkElement { address, size, filter_mask: chunk.filter_mask })
            }
            None => Ok(()),
        })
    }
}

fn check_level(io: &Io<'_>, node: &Node, parsed: &Btree1Node<'_>) -> Result<(), Error> {
    let found = parsed.level;
    match node.expected {
        Some((expected, _)) if expected != found => {
            Err(Error::malformed(NODE, node.address, format!("level {found}, expected {expected}")))
        }
        None if u32::from(found) > io.limits().depth => {
            let problem = format!("level {found}, expected at most {}", io.limits().depth);
            Err(Error::limit(NODE, node.address, problem))
        }
        _ => Ok(()),
    }
}

/// Fails every tree in which a node occurs twice in a level.
fn refuse_repetition(trees: &mut [Tree<'_>], level: &[Node]) {
    let mut nodes: Vec<_> = level.iter().map(|node| (node.tree, node.address)).collect();
    nodes.sort_unstable();
    for pair in nodes.windows(2) {
        let [first, second] = pair else { continue };
        if let Some(tree) = trees.get_mut(first.0).filter(|_| first == second) {
            tree.result = Err(Error::malformed(NODE, first.1, "a second parent, expected one"));
        }
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::{
        chunk_request::{ChunkIndex, ChunkRequest},
        chunks::read_chunk_tables,
        model::{ChunkSizes, ChunkTable},
        ready::ready,
        tree_ranks::TreeRanks,
    };

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    /// Encodes a node of one-dimensional chunks of one byte: (first element, address of the chunk or the child).
    fn node(level: u8, entries: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = b"TREE\x01".to_vec();
        bytes.push(level);
        bytes.extend(u16::try_from(entries.len()).unwrap().to_le_bytes());
        bytes.extend([0xff; 16]);
        for (offset, address) in entries {
            bytes.extend([1_u64, *offset, 0, *address].into_iter().flat_map(u64::to_le_bytes));
        }
        let end = entries.last().map_or(0, |(offset, _)| offset + 100 * u64::from(level));
        bytes.extend([0, end, 1].into_iter().flat_map(u64::to_le_bytes));
        bytes
    }

    /// Reads a file with nodes at the given addresses, of which the first is the root.
    fn table(shape: u64, chunks: u64, nodes: &[(usize, Vec<u8>)]) -> Result<ChunkTable, Error> {
        let mut file = Vec::new();
        for (address, node) in nodes {
            file.resize(file.len().max(address + node.len()), 0);
            file[*address..address + node.len()].copy_from_slice(node);
        }
        file.resize(file.len() + (1 << 14), 0);
        let source = MemorySource(file.into());
        let mut io = Io::new(&source, Limits { chunks, ..Limits::default() });
        io.set_ranks(TreeRanks { chunks: 150, ..TreeRanks::DEFAULT });
        let request = ChunkRequest {
            index: ChunkIndex::BTree1 { address: Some(nodes[0].0 as u64) },
            shape: vec![shape],
            max_shape: vec![Some(shape)],
            chunk_shape: vec![1],
            element_size: 1,
            version: 3,
            filtered: false,
        };
        ready(read_chunk_tables(&io, FORMAT, vec![request])).remove(0)
    }

    fn leaf(chunks: std::ops::Range<u64>) -> Vec<u8> {
        node(0, &chunks.map(|number| (number, 0x9000 + number)).collect::<Vec<_>>())
    }

    #[test]
    fn nodes_have_the_size_of_the_file() {
        let found = table(300, 1000, &[(64, leaf(0..300))]).unwrap();
        assert_eq!(*found.addresses, (0x9000..0x9000 + 300).collect::<Vec<_>>());
        assert_eq!((found.positions, found.sizes), (None, ChunkSizes::Uniform(1)));
    }

    #[test]
    fn leaves_are_in_key_order() {
        let nodes = [(64, node(1, &[(0, 8192), (3, 4096)])), (4096, leaf(3..5)), (8192, leaf(0..2))];
        let found = table(5, 1000, &nodes).unwrap();
        assert_eq!(found.positions, Some(vec![0, 1, 3, 4].into()));
        assert_eq!(*found.addresses, [0x9000, 0x9001, 0x9003, 0x9004]);
    }

    #[test]
    fn chunks_outside_of_the_extent_are_omitted() {
        assert_eq!(*table(2, 1000, &[(64, leaf(0..4))]).unwrap().addresses, [0x9000, 0x9001]);
    }

    #[test]
    fn rejects_cycles_and_excessive_trees() {
        let message = |chunks, nodes: &[(usize, Vec<u8>)]| table(9, chunks, nodes).unwrap_err().to_string();
        let own_child = [(64, node(1, &[(0, 64)]))];
        assert!(message(1000, &own_child).ends_with("at 0x40: level 1, expected 0"));
        let twice = [(64, node(1, &[(0, 4096), (3, 4096)])), (4096, leaf(0..3))];
        assert!(message(1000, &twice).ends_with("at 0x1000: a second parent, expected one"));
        assert!(message(1000, &[(64, node(65, &[(0, 64)]))]).ends_with("level 65, expected at most 64"));
        assert!(message(3, &[(64, leaf(0..4))]).ends_with("more than 3 chunks"));
        let again = [(64, node(1, &[(0, 4096), (3, 8192)])), (4096, leaf(0..3)), (8192, leaf(2..4))];
        assert!(message(1000, &again).ends_with("expected ascending keys"));
        let outside = [(64, node(1, &[(0, 16384), (3, 8192)])), (16384, leaf(0..4)), (8192, leaf(4..5))];
        assert!(message(1000, &outside).ends_with("expected those from [0, 0] to below [3, 0]"));
        let past_the_end = [(64, node(1, &[(0, 1 << 40)]))];
        assert!(message(1000, &past_the_end).contains("beyond the end of the file"));
    }
}
