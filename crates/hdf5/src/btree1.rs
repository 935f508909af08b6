//! Version 1 B-tree nodes of type 1, which index chunks (specification III.A.1).
//!
//! ```text
//! "TREE" type(1) level entries(2) left-sibling right-sibling  (key child-address)… key
//! key = chunk-size(4) filter-mask(4) offset(8)…   offsets in elements, slowest axis first, then one of the element's bytes
//! ```

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    chunk_index::{ChunkElement, Job, words_of},
    cursor::{Format, Reader},
    io::{Io, Step, Tree, walk},
};

const NODE: &str = "version 1 B-tree node";

/// Fills the chunk tables of the trees.
pub(crate) async fn read_btree1<'a, 'b>(io: &Io<'_>, format: Format, jobs: Vec<&'a mut Job<'b>>) {
    let (most, max_depth) = (u64::from(io.ranks.chunks).saturating_mul(2), io.limits().depth);
    let tree = |job: &'a mut Job<'b>| {
        let coordinates = vec![(0, 0); job.request.shape.len()];
        ChunkTree { job, format, most, max_depth, level: 0, last: Vec::new(), coordinates }
    };
    let mut trees: Vec<_> = jobs.into_iter().map(tree).collect();
    let roots = trees.iter().map(|tree| (tree.node_range(tree.job.address), None)).collect();
    walk(io, NODE, &mut trees, roots).await;
}

/// A tree in progress.
struct ChunkTree<'a, 'b> {
    job: &'a mut Job<'b>,
    format: Format,
    /// Maximum number of entries in a node.
    most: u64,
    max_depth: u32,
    /// Level and offsets of the last key. They ascend along a level: libhdf5 finds chunks by their keys, and shows the fill
    /// value in those that it does not find.
    level: u8,
    last: Vec<[u8; 8]>,
    /// Offset and coordinate along each axis of the last chunk: most are those of the next one, which saves a division.
    coordinates: Vec<(u64, u64)>,
}

impl ChunkTree<'_, '_> {
    fn key_size(&self) -> u64 {
        (self.job.request.shape.len() as u64).saturating_add(2).saturating_mul(8)
    }

    fn entry_size(&self) -> u64 {
        self.key_size().saturating_add(self.format.offset_size.into())
    }

    /// Returns the range of a node, all of which the library reads, however few entries it has.
    fn node_range(&self, address: u64) -> ByteRange {
        let header = u64::from(self.format.offset_size).saturating_mul(2).saturating_add(8);
        let entries = self.most.saturating_mul(self.entry_size());
        ByteRange::new(address, entries.saturating_add(header).saturating_add(self.key_size()))
    }

    /// Adds the chunk of a leaf's entry, unless it is outside of the extent.
    fn add(&mut self, reader: &Reader<'_>, key: &[[u8; 8]], address: u64) -> Result<(), Error> {
        let [sizes, offsets @ .., byte] = key else { return Ok(()) };
        let not_a_multiple = |offset: &[u8; 8]| {
            let offset = u64::from_le_bytes(*offset);
            Err(reader.malformed(format!("chunk offset {offset}, expected a multiple of the chunk shape")))
        };
        if *byte != [0; 8] {
            return not_a_multiple(byte);
        }
        let grid = &self.job.columns.grid;
        let axes = self.job.request.layout.chunk_shape.iter().zip(&grid.counts).zip(&grid.strides);
        let (mut position, mut is_inside) = (0_u64, true);
        for ((last, word), ((length, count), stride)) in self.coordinates.iter_mut().zip(offsets).zip(axes) {
            let offset = u64::from_le_bytes(*word);
            if offset != last.0 {
                *last = (offset, offset.checked_div(*length).unwrap_or(0));
                if last.1.wrapping_mul(*length) != offset {
                    return not_a_multiple(word);
                }
            }
            is_inside &= last.1 < *count;
            position = position.wrapping_add(last.1.wrapping_mul(*stride));
        }
        if is_inside {
            let [size @ .., m0, m1, m2, m3] = *sizes;
            let (size, filter_mask) = (u32::from_le_bytes(size), u32::from_le_bytes([m0, m1, m2, m3]));
            self.job
                .columns
                .push(position, ChunkElement { address, size: Some(size.into()), filter_mask })?;
        }
        Ok(())
    }
}

/// What the parent of a node declares of it.
pub(crate) struct Expected {
    level: u8,
    /// Offsets of its first key.
    start: Vec<[u8; 8]>,
    /// Offsets of the first key of the next node.
    end: Vec<[u8; 8]>,
}

/// The level must decrease by one from parent to child, which excludes cycles.
impl Tree for ChunkTree<'_, '_> {
    /// `None` for the root.
    type Part = Option<Expected>;

    fn result(&mut self) -> &mut Result<(), Error> {
        &mut self.job.result
    }

    fn visit(
        &mut self,
        range: ByteRange,
        expected: &Option<Expected>,
        bytes: &Bytes,
    ) -> Result<Vec<(ByteRange, Option<Expected>)>, Error> {
        let mut reader = Reader::new(NODE, bytes, range.start, self.format);
        reader.signature(b"TREE")?;
        let (kind, level, count) = (reader.u8()?, reader.u8()?, u64::from(reader.u16()?));
        if kind != 1 {
            return Err(reader.malformed(format!("type {kind}, expected 1 (chunks)")));
        }
        if count > self.most {
            return Err(reader.malformed(format!("{count} entries, expected at most {}", self.most)));
        }
        match expected {
            Some(expected) if expected.level != level => {
                return Err(reader.malformed(format!("level {level}, expected {}", expected.level)));
            }
            None if u32::from(level) > self.max_depth => {
                let problem = format!("level {level}, expected at most {}", self.max_depth);
                return Err(Error::limit(NODE, range.start, problem));
            }
            _ => {}
        }
        reader.address()?;
        reader.address()?;
        if level == 0 {
            self.job.budget.take(count, range.start)?;
        }
        if self.level != level {
            (self.level, self.last) = (level, Vec::new());
        }
        let saved = std::mem::take(&mut self.last);
        let mut last: &[[u8; 8]] = &saved;
        let mut first: Option<&[[u8; 8]]> = None;
        let mut children: Vec<(ByteRange, Option<Expected>)> = Vec::new();
        let key_size = self.key_size();
        for n in 0..=count {
            // A node ends with a key, which the next node may start with.
            let key = reader.take(key_size)?.as_chunks::<8>().0;
            let offsets = key.get(1..).unwrap_or_default();
            if count > 0 && words_of(last).ge(words_of(offsets)) {
                let [found, last] = [offsets, last].map(|words| Vec::from_iter(words_of(words)));
                return Err(
                    reader.malformed(format!("key {found:?} after {last:?}, expected ascending keys"))
                );
            }
            if let Some((_, Some(child))) = children.last_mut() {
                child.end = offsets.to_vec();
            }
            if count > 0 && (level > 0 || n == count) {
                let layout = self.job.request.layout;
                let lengths = layout.chunk_shape.iter().chain([&layout.element_size]);
                let is_multiple = |(offset, length): (u64, &u64)| offset.checked_rem(*length) == Some(0);
                if !words_of(offsets).zip(lengths).all(is_multiple) {
                    let found = Vec::from_iter(words_of(offsets));
                    return Err(
                        reader.malformed(format!("key {found:?}, expected multiples of the chunk shape"))
                    );
                }
            }
            if n == count {
                break;
            }
            first.get_or_insert(offsets);
            last = offsets;
            let address = reader.defined_address()?;
            match level.checked_sub(1) {
                None => self.add(&reader, key, address)?,
                Some(level) => {
                    let child = Expected { level, start: offsets.to_vec(), end: Vec::new() };
                    children.push((self.node_range(address), Some(child)));
                }
            }
        }
        // libhdf5 searches a child only for chunks between these keys.
        if let (Some(Expected { start, end, .. }), Some(first)) = (expected, first)
            && (words_of(first).lt(words_of(start)) || words_of(last).ge(words_of(end)))
        {
            let [first, last, start, end] =
                [first, last, start, end].map(|words| Vec::from_iter(words_of(words)));
            let problem =
                format!("keys {first:?} to {last:?}, expected those from {start:?} to below {end:?}");
            return Err(reader.malformed(problem));
        }
        self.last = last.to_vec();
        if level == 1 {
            self.job.columns.reserve(count.saturating_mul(32));
        }
        Ok(children)
    }

    /// Returns the size of the leaves of full nodes, or of those of all chunks.
    fn bytes_below(&self, level: &[Step<Option<Expected>>]) -> u64 {
        let Some(Step { part: Some(Expected { level: height @ 1.., .. }), range, .. }) = level.first() else {
            return 0;
        };
        let below = self.most.saturating_pow((*height).into()).saturating_mul(level.len() as u64);
        let leaves = below.min(self.job.columns.grid.total.div_ceil(self.most.max(1)));
        leaves.saturating_mul(range.length)
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
    mod chunk_btree1_walk {
        use virtualize_bytes::{Limits, MemorySource};

        use super::super::*;
        use crate::{
            chunk_index::{ChunkRequest, read_chunk_tables},
            layout::ChunkedLayout,
            model::{ChunkIndexKind, ChunkSizes, ChunkTable},
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
            io.ranks = TreeRanks { chunks: 150, ..TreeRanks::DEFAULT };
            let layout = ChunkedLayout {
                version: 3,
                chunk_shape: vec![1],
                element_size: 1,
                unfiltered_edges: false,
                index: ChunkIndexKind::BTree1,
                single: None,
                address: Some(nodes[0].0 as u64),
            };
            let (shape, max_shape) = (&[shape][..], vec![Some(shape)]);
            let request = ChunkRequest { layout: &layout, shape, max_shape, filtered: false };
            ready(read_chunk_tables(&io, FORMAT, vec![Ok(request)])).remove(0)
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

        /// libhdf5 shows the fill value in chunks that it does not find by their keys.
        #[test]
        fn rejects_keys_that_do_not_ascend() {
            let again = [(64, node(1, &[(0, 4096), (3, 8192)])), (4096, leaf(0..3)), (8192, leaf(2..4))];
            let outside = [(64, node(0, &[(0, 0x9000), (100, 0x9001), (2, 0x9002)]))];
            let mut last = node(0, &[(0, 0x9000), (100, 0x9001)]);
            let end = last.len() - 16;
            last[end] = 2;
            for nodes in [&again[..], &outside, &[(64, last)]] {
                let message = table(9, 1000, nodes).unwrap_err().to_string();
                assert!(message.ends_with("expected ascending keys"), "{message}");
            }
        }

        #[test]
        fn rejects_invalid_leaves() {
            let message = |bytes: &[u8]| table(9, 1000, &[(64, bytes.to_vec())]).unwrap_err().to_string();
            assert!(message(&node(0, &[(0, u64::MAX)])).contains("undefined address"));
            assert!(message(b"TREE\x00\x00\x00\x00").contains("type 0, expected 1"));
            assert!(message(b"TREF\x01\x00\x00\x00").contains("signature TREF"));
            assert!(message(b"TREE\x01\x00\x2d\x01").contains("301 entries, expected at most 300"));
            let mut bytes = node(0, &[(0, 0x9000)]);
            bytes[40] = 1;
            assert!(message(&bytes).contains("chunk offset 1, expected a multiple"));
        }

        /// libhdf5 2.0 shows the fill value in chunks that it does not find by the keys of the parent.
        #[test]
        fn rejects_keys_outside_of_those_in_the_parent() {
            for (first, second) in [(leaf(0..4), leaf(4..5)), (leaf(0..2), leaf(2..5))] {
                let nodes = [(64, node(1, &[(0, 16384), (3, 8192)])), (16384, first), (8192, second)];
                let error = table(9, 1000, &nodes).unwrap_err().to_string();
                assert!(error.contains("expected those from"), "{error}");
            }
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
