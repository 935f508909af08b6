//! Version 1 B-tree nodes of type 1, which index chunks (specification III.A.1).
//!
//! ```text
//! "TREE" type(1) level entries(2) left-sibling right-sibling  (key child-address)… key
//! key = chunk-size(4) filter-mask(4) offset(8)…   offsets in elements, slowest axis first, then one of the element's bytes
//! ```

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Cursor};

use crate::{
    Error,
    chunk_index::{ChunkElement, ChunkGrid, Job, uint},
    cursor::{Format, Reader},
    io::{Io, read_whole},
};

const NODE: &str = "version 1 B-tree node";

/// Sizes in bytes of the parts of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Btree1Format {
    format: Format,
    /// Number of axes.
    rank: usize,
    /// Maximum number of entries in a node.
    most: u64,
}

/// A node whose header is valid and whose entries are complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Btree1Node<'a> {
    /// Level; 0 for a leaf.
    pub(crate) level: u8,
    entries: &'a [u8],
    /// The key after the last entry.
    end: &'a [u8],
    address: u64,
}

/// A chunk in a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Btree1Chunk {
    /// Row-major position in the grid; `None` outside of the extent.
    pub(crate) position: Option<u64>,
    pub(crate) address: u64,
    pub(crate) size: u32,
    pub(crate) filter_mask: u32,
}

impl Btree1Format {
    /// `half` is half of the most entries in a node.
    pub(crate) fn new(format: Format, rank: usize, half: u16) -> Self {
        Self { format, rank, most: u64::from(half).saturating_mul(2) }
    }

    fn header_size(self) -> usize {
        usize::from(self.format.offset_size).saturating_mul(2).saturating_add(8)
    }

    fn key_size(self) -> usize {
        self.rank.saturating_add(2).saturating_mul(8)
    }

    fn entry_size(self) -> usize {
        self.key_size().saturating_add(self.format.offset_size.into())
    }

    /// Returns the size in bytes of a node, all of which the library reads.
    pub(crate) fn node_size(self) -> u64 {
        let entries = self.most.saturating_mul(self.entry_size() as u64);
        entries.saturating_add(self.header_size() as u64).saturating_add(self.key_size() as u64)
    }

    /// Parses a node from [`Btree1Format::node_size`] bytes.
    pub(crate) fn parse(self, bytes: &[u8], address: u64) -> Result<Btree1Node<'_>, Error> {
        let truncated = Error::truncated(NODE, address);
        let mut cursor = Cursor::little(bytes, address);
        let signature = cursor.array::<4>().map_err(&truncated)?;
        if &signature != b"TREE" {
            let problem = format!("signature {}, expected TREE", signature.escape_ascii());
            return Err(Error::malformed(NODE, address, problem));
        }
        let [kind, level] = cursor.array().map_err(&truncated)?;
        if kind != 1 {
            return Err(Error::malformed(NODE, address, format!("type {kind}, expected 1 (chunks)")));
        }
        let entries = usize::from(cursor.u16().map_err(&truncated)?);
        if entries as u64 > self.most {
            let problem = format!("{entries} entries, expected at most {}", self.most);
            return Err(Error::malformed(NODE, address, problem));
        }
        cursor.skip(self.header_size().saturating_sub(8)).map_err(&truncated)?;
        let entries = cursor.take(entries.saturating_mul(self.entry_size())).map_err(&truncated)?;
        let end = cursor.take(self.key_size()).map_err(&truncated)?;
        Ok(Btree1Node { level, entries, end, address })
    }
}

impl<'a> Btree1Node<'a> {
    /// Checks that keys are in ascending order, starting after `last`, the last key of the previous node, and updates
    /// `last`. The library finds chunks by their keys, and could not find all of them otherwise.
    pub(crate) fn check_order(&self, sizes: Btree1Format, last: &mut Vec<u64>) -> Result<(), Error> {
        for key in self.keys(sizes) {
            if !last.iter().copied().lt(key.clone()) {
                let found: Vec<u64> = key.collect();
                let problem = format!("key {found:?} after {last:?}, expected ascending keys");
                return Err(Error::malformed(NODE, self.address, problem));
            }
            last.clear();
            last.extend(key);
        }
        let end = self.end(sizes);
        if self.entries.is_empty() || last.iter().copied().lt(end.clone()) {
            return Ok(());
        }
        let problem = format!("last key {:?} after {last:?}, expected a larger one", end.collect::<Vec<_>>());
        Err(Error::malformed(NODE, self.address, problem))
    }

    /// Checks that keys, which end with `last`, are within those of the parent.
    pub(crate) fn check_bounds(
        &self,
        sizes: Btree1Format,
        bounds: &Bounds,
        last: &[u64],
    ) -> Result<(), Error> {
        let first = self.keys(sizes).next();
        let is_after = first.is_none_or(|first| bounds.0.iter().copied().le(first));
        if is_after && (self.entries.is_empty() || last.iter().lt(&bounds.1)) {
            return Ok(());
        }
        let problem = format!("keys to {last:?}, expected those from {:?} to below {:?}", bounds.0, bounds.1);
        Err(Error::malformed(NODE, self.address, problem))
    }

    /// Checks that keys are multiples of the chunk shape, which the library needs for all of them. [`Btree1Node::chunks`]
    /// checks the entries of leaves.
    pub(crate) fn check_multiples(&self, sizes: Btree1Format, chunk: &[u64]) -> Result<(), Error> {
        let is_multiple = |(offset, chunk): (u64, &u64)| offset.checked_rem(*chunk) == Some(0);
        let keys = (self.level > 0).then(|| self.keys(sizes)).into_iter().flatten();
        let mut keys = keys.chain((!self.entries.is_empty()).then(|| self.end(sizes)));
        match keys.find(|key| !key.clone().zip(chunk).all(is_multiple)) {
            Some(key) => Err(Problem::Offset(key.max().unwrap_or(0)).at(self.address)),
            None => Ok(()),
        }
    }

    /// Returns the keys of the entries.
    fn keys(&self, sizes: Btree1Format) -> impl Iterator<Item = Key<'a>> + use<'a> {
        let entries = self.entries.chunks_exact(sizes.entry_size().max(1));
        entries.map(move |entry| key(entry, sizes.rank))
    }

    /// Returns the key after the last entry.
    fn end(&self, sizes: Btree1Format) -> Key<'a> {
        key(self.end, sizes.rank)
    }

    /// Returns the keys of each child and of the next one.
    pub(crate) fn bounds(&self, sizes: Btree1Format) -> impl Iterator<Item = Bounds> {
        let ends = self.keys(sizes).skip(1).chain([self.end(sizes)]);
        self.keys(sizes).zip(ends).map(|(start, end)| (start.collect(), end.collect()))
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self, sizes: Btree1Format) -> usize {
        self.entries.len().checked_div(sizes.entry_size()).unwrap_or(0)
    }

    /// Returns the addresses of an internal node's children.
    pub(crate) fn children(&self, sizes: Btree1Format) -> impl Iterator<Item = Result<u64, Error>> + 'a {
        let (address, key) = (self.address, sizes.key_size());
        self.entries.chunks_exact(sizes.entry_size().max(1)).map(move |entry| {
            let child = entry.get(key..).unwrap_or_default();
            child_address(child, sizes.format).ok_or_else(|| undefined(address))
        })
    }

    /// Passes each chunk of a leaf to `take`.
    pub(crate) fn chunks(
        &self,
        sizes: Btree1Format,
        axes: &mut [Btree1Axis],
        mut take: impl FnMut(Btree1Chunk) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for entry in self.entries.chunks_exact(sizes.entry_size().max(1)) {
            let chunk = entry_chunk(entry, sizes, axes).map_err(|problem| problem.at(self.address))?;
            take(chunk)?;
        }
        Ok(())
    }
}

/// Keys of a child: the first one, and the one after the last.
pub(crate) type Bounds = (Vec<u64>, Vec<u64>);

type Key<'a> = std::iter::Map<std::slice::Iter<'a, [u8; 8]>, fn(&[u8; 8]) -> u64>;

/// Returns the offsets of a key, after the size and filter mask of the chunk: one for each axis, then one of the element's
/// bytes.
fn key(bytes: &[u8], rank: usize) -> Key<'_> {
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.get(1..=rank.saturating_add(1)).unwrap_or_default();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// What is wrong with an entry. Converted to an error only when needed.
enum Problem {
    Short,
    Undefined,
    Offset(u64),
}

impl Problem {
    fn at(self, address: u64) -> Error {
        match self {
            Self::Short => Error::malformed(NODE, address, "incomplete entry"),
            Self::Undefined => undefined(address),
            Self::Offset(offset) => {
                let problem = format!("chunk offset {offset}, expected a multiple of the chunk shape");
                Error::malformed(NODE, address, problem)
            }
        }
    }
}

fn undefined(address: u64) -> Error {
    Error::malformed(NODE, address, "undefined child address, expected a defined one")
}

fn entry_chunk(entry: &[u8], sizes: Btree1Format, axes: &mut [Btree1Axis]) -> Result<Btree1Chunk, Problem> {
    let (key, child) = entry.split_at_checked(sizes.key_size()).ok_or(Problem::Short)?;
    let (words, _) = key.as_chunks::<8>();
    let [sizes_word, offsets @ .., last] = words else { return Err(Problem::Short) };
    if *last != [0; 8] {
        return Err(Problem::Offset(u64::from_le_bytes(*last)));
    }
    let [s0, s1, s2, s3, m0, m1, m2, m3] = *sizes_word;
    let (mut position, mut inside) = (0_u64, true);
    for (axis, offset) in axes.iter_mut().zip(offsets) {
        let coordinate = axis.coordinate(u64::from_le_bytes(*offset))?;
        inside &= coordinate < axis.count;
        position = position.wrapping_add(coordinate.wrapping_mul(axis.stride));
    }
    let address = child_address(child, sizes.format).ok_or(Problem::Undefined)?;
    Ok(Btree1Chunk {
        position: inside.then_some(position),
        address,
        size: u32::from_le_bytes([s0, s1, s2, s3]),
        filter_mask: u32::from_le_bytes([m0, m1, m2, m3]),
    })
}

fn child_address(bytes: &[u8], format: Format) -> Option<u64> {
    let undefined = bytes.iter().all(|byte| *byte == 0xff);
    (!undefined).then(|| uint(bytes).saturating_add(format.base))
}

/// An axis of the grid and the last offset along it. Entries are ordered, so nearly every offset is the last one or its
/// successor, which needs no division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Btree1Axis {
    chunk: u64,
    count: u64,
    stride: u64,
    offset: u64,
    coordinate: u64,
}

impl Btree1Axis {
    /// The axes of a grid.
    pub(crate) fn all(grid: &ChunkGrid, chunk_shape: &[u64]) -> Vec<Self> {
        let axes = chunk_shape.iter().zip(&grid.counts).zip(&grid.strides);
        axes.map(|((&chunk, &count), &stride)| Self { chunk, count, stride, offset: 0, coordinate: 0 })
            .collect()
    }

    fn coordinate(&mut self, offset: u64) -> Result<u64, Problem> {
        if offset == self.offset {
            return Ok(self.coordinate);
        }
        let coordinate = match offset.checked_sub(self.offset) {
            Some(step) if step == self.chunk => self.coordinate.wrapping_add(1),
            _ if offset == 0 => 0,
            _ if offset.checked_rem(self.chunk) == Some(0) => offset.checked_div(self.chunk).unwrap_or(0),
            _ => return Err(Problem::Offset(offset)),
        };
        (self.offset, self.coordinate) = (offset, coordinate);
        Ok(coordinate)
    }
}

// Walks version 1 B-trees that index chunks. The level must decrease by one from parent to child, which excludes
// cycles. No node may occur twice in a level, which keeps a small file from describing a huge tree.

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
            let size = |node: &Node| trees.get(node.tree).map_or(0, |tree| tree.sizes.node_size());
            let ranges: Vec<_> = batch.iter().map(|node| ByteRange::new(node.address, size(node))).collect();
            for (node, bytes) in batch.iter().zip(read_whole(io, NODE, &ranges).await) {
                if let Some(tree) = trees.get_mut(node.tree) {
                    tree.visit(io, node, bytes, &mut next);
                }
            }
        }
        let mut nodes: Vec<_> = next.iter().map(|node| (node.tree, node.address)).collect();
        nodes.sort_unstable();
        for pair in nodes.windows(2) {
            let [first, second] = pair else { continue };
            if let Some(tree) = trees.get_mut(first.0).filter(|_| first == second) {
                tree.result = Err(Error::malformed(NODE, first.1, "a second parent, expected one"));
            }
        }
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
            // Leaves of full nodes below these, or those of all chunks.
            let most = tree.sizes.most;
            let below = most.saturating_pow((*level).into()).saturating_mul(nodes.len() as u64);
            let leaves = below.min(tree.job.columns.grid().total.div_ceil(most.max(1)));
            let bytes = leaves.saturating_mul(tree.sizes.node_size());
            io.will_read_below(nodes.iter().map(|node| node.address), bytes);
        }
    }
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
        }?;
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

// Sizes of version 1 B-trees and symbol table nodes: B-tree 'K' Values message, 0x0013, of the superblock extension
// (specification IV.A.2.t).
//
// ```text
// 0 | chunks 2 | groups 2 | symbols 2
// ```

/// Half of the most entries in a node. The library reads whole nodes, however few entries they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeRanks {
    /// Symbol table nodes ("leaf node K").
    pub(crate) symbols: u16,
    /// B-tree nodes of groups.
    pub(crate) groups: u16,
    /// B-tree nodes of chunks.
    pub(crate) chunks: u16,
}

impl TreeRanks {
    pub(crate) const DEFAULT: Self = Self { symbols: 4, groups: 16, chunks: 32 };
}

/// Parses the message.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<TreeRanks, Error> {
    let mut reader = Reader::new("B-tree K values message", bytes, address, format);
    reader.version(0..=0)?;
    let (chunks, groups) = (reader.u16()?, reader.u16()?);
    Ok(TreeRanks { symbols: reader.u16()?, groups, chunks })
}

#[cfg(test)]
mod tests {

    mod chunk_btree1 {
        use super::super::*;

        const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

        /// Encodes a leaf of a one-dimensional dataset with chunks of 10 elements.
        fn leaf(entries: &[(u32, u32, u64, u64)]) -> Vec<u8> {
            let mut bytes = b"TREE\x01\x00".to_vec();
            bytes.extend(u16::try_from(entries.len()).unwrap().to_le_bytes());
            bytes.extend([0xff; 16]);
            for (size, mask, offset, address) in entries {
                bytes.extend(size.to_le_bytes());
                bytes.extend(mask.to_le_bytes());
                bytes.extend(offset.to_le_bytes());
                bytes.extend([0; 8]);
                bytes.extend(address.to_le_bytes());
            }
            let end = entries.last().map_or(0, |(_, _, offset, _)| *offset);
            bytes.extend([0, end, 1].into_iter().flat_map(u64::to_le_bytes));
            bytes
        }

        fn chunks(bytes: &[u8]) -> Result<Vec<Btree1Chunk>, Error> {
            let sizes = Btree1Format::new(FORMAT, 1, 32);
            let grid = ChunkGrid::new(&[25], &[10], 1).unwrap();
            let mut found = Vec::new();
            let node = sizes.parse(bytes, 0x800)?;
            node.chunks(sizes, &mut Btree1Axis::all(&grid, &[10]), |chunk| {
                found.push(chunk);
                Ok(())
            })?;
            Ok(found)
        }

        #[test]
        fn parses_a_leaf() {
            let bytes = leaf(&[(7, 0, 0, 0x100), (8, 1, 20, 0x200), (9, 0, 30, 0x300)]);
            let found = chunks(&bytes).unwrap();
            let chunk =
                |position, address, size, filter_mask| Btree1Chunk { position, address, size, filter_mask };
            assert_eq!(
                found,
                [chunk(Some(0), 0x100, 7, 0), chunk(Some(2), 0x200, 8, 1), chunk(None, 0x300, 9, 0)]
            );
            assert_eq!(Btree1Format::new(FORMAT, 1, 0).node_size(), 48);
            assert_eq!(Btree1Format::new(FORMAT, 1, 2).node_size(), bytes.len() as u64 + 32);
            assert!(Btree1Format::new(FORMAT, 1, 1).parse(&bytes, 0).is_err(), "too many entries");
        }

        #[test]
        fn rejects_keys_that_do_not_ascend() {
            let order = |entries: &[(u32, u32, u64, u64)], last: &mut Vec<u64>| {
                let (bytes, sizes) = (leaf(entries), Btree1Format::new(FORMAT, 1, 32));
                sizes.parse(&bytes, 0x800)?.check_order(sizes, last)
            };
            let mut last = Vec::new();
            order(&[(7, 0, 0, 0), (7, 0, 20, 0)], &mut last).unwrap();
            order(&[(7, 0, 30, 0)], &mut last).unwrap();
            let message = order(&[(7, 0, 30, 0)], &mut last).unwrap_err().to_string();
            assert!(
                message.contains("at 0x800: key [30, 0] after [30, 0], expected ascending keys"),
                "{message}"
            );
            assert!(order(&[(7, 0, 20, 0), (7, 0, 10, 0)], &mut Vec::new()).is_err());
        }

        /// libhdf5 2.0 shows the fill value in the last chunk of such a leaf.
        #[test]
        fn rejects_a_last_key_that_excludes_the_last_chunk() {
            let sizes = Btree1Format::new(FORMAT, 1, 32);
            let mut bytes = leaf(&[(7, 0, 0, 0), (7, 0, 20, 0)]);
            let end = bytes.len() - 16;
            bytes[end..].copy_from_slice(&[20_u64, 0].map(u64::to_le_bytes).concat());
            let error = sizes.parse(&bytes, 0x800).unwrap().check_order(sizes, &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains("last key [20, 0] after [20, 0]"), "{error}");
            let multiples = |bytes: &[u8]| sizes.parse(bytes, 0x800)?.check_multiples(sizes, &[10, 1]);
            multiples(&bytes).unwrap();
            bytes[end..end + 8].copy_from_slice(&25_u64.to_le_bytes());
            let error = multiples(&bytes).unwrap_err().to_string();
            assert!(error.contains("chunk offset 25, expected a multiple"), "{error}");
        }

        /// libhdf5 does not find the chunks of a leaf that are outside of the keys in its parent.
        #[test]
        fn rejects_keys_outside_of_those_in_the_parent() {
            let sizes = Btree1Format::new(FORMAT, 1, 32);
            let bytes = leaf(&[(7, 0, 10, 0), (7, 0, 20, 0)]);
            let node = sizes.parse(&bytes, 0x800).unwrap();
            assert_eq!(
                node.bounds(sizes).collect::<Vec<_>>(),
                [(vec![10, 0], vec![20, 0]), (vec![20, 0], vec![20, 1])]
            );
            let check = |start: [u64; 2], end: [u64; 2]| {
                node.check_bounds(sizes, &(start.to_vec(), end.to_vec()), &[20, 0]).is_ok()
            };
            assert!(check([0, 0], [30, 0]) && check([10, 0], [20, 1]));
            assert!(!check([11, 0], [30, 0]) && !check([10, 0], [20, 0]));
            assert!(!check([10, 1], [30, 0]), "an offset of the element's bytes");
        }

        #[test]
        fn rejects_invalid_leaves() {
            let message = |bytes: &[u8]| chunks(bytes).unwrap_err().to_string();
            assert!(message(&leaf(&[(7, 0, 5, 0)])).contains("chunk offset 5, expected a multiple"));
            assert!(message(&leaf(&[(7, 0, 0, u64::MAX)])).contains("undefined child address"));
            assert!(message(b"TREE\x00\x00\x00\x00").contains("type 0, expected 1"));
            assert!(message(b"TREF\x01\x00\x00\x00").contains("signature TREF"));
            assert!(message(&leaf(&[(7, 0, 0, 0)])[..30]).contains("beyond the end of the file"));
        }
    }

    mod chunk_btree1_walk {
        use virtualize_bytes::{Limits, MemorySource};

        use super::super::*;
        use crate::{
            chunk_index::read_chunk_tables,
            chunk_index::{ChunkIndex, ChunkRequest},
            model::{ChunkSizes, ChunkTable},
            testing::ready,
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
            let message =
                |chunks, nodes: &[(usize, Vec<u8>)]| table(9, chunks, nodes).unwrap_err().to_string();
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

    mod tree_ranks {
        use super::super::*;

        #[test]
        fn ranks() {
            let format = Format { base: 0, offset_size: 8, length_size: 8 };
            let ranks = TreeRanks { symbols: 5, groups: 16, chunks: 33 };
            assert_eq!(parse(&[0, 33, 0, 16, 0, 5, 0], 0, format).unwrap(), ranks);
            assert!(parse(&[1, 33, 0, 16, 0, 5, 0], 0, format).is_err());
        }
    }
}
