//! Walks version 2 B-trees that index chunks: records of type 10 (unfiltered) and 11 (filtered).
//!
//! ```text
//! type 10  chunk-address scaled-offset(8)…
//! type 11  chunk-address chunk-size filter-mask(4) scaled-offset(8)…
//! ```

use crate::{
    Error,
    btree2::Btree2Header,
    btree2_walk::{Btree2Sink, walk_trees},
    chunk_element::ElementFormat,
    chunk_request::Job,
    context::Format,
    io::Io,
};

const HEADER: &str = "version 2 B-tree header";

/// Fills the chunk tables of the trees.
pub(super) async fn read_btree2<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let headers: Vec<_> = jobs.iter().map(|job| job.address).collect();
    let trees = jobs.into_iter().map(|job| Tree { job, element: None, record_size: 1 }).collect();
    let mut sink = Sink { format, trees };
    let results = walk_trees(io, format, &headers, &mut sink).await;
    sink.trees.into_iter().map(|tree| tree.job).zip(results).collect()
}

struct Sink<'a> {
    format: Format,
    trees: Vec<Tree<'a>>,
}

struct Tree<'a> {
    job: Job<'a>,
    element: Option<ElementFormat>,
    record_size: usize,
}

impl Btree2Sink for Sink<'_> {
    fn begin(&mut self, tree: usize, header: &Btree2Header, address: u64) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let filtered = tree.job.request.filtered;
        let size_width = tree.job.request.size_width(self.format);
        let expected = if filtered { 11 } else { 10 };
        if header.record_type != expected {
            let problem = format!("record type {}, expected {expected}", header.record_type);
            return Err(Error::malformed(HEADER, address, problem));
        }
        tree.record_size = header.record_size.into();
        let scaled = tree.job.request.chunk_shape.len().saturating_mul(8);
        tree.element =
            Some(ElementFormat::new(self.format, size_width, tree.record_size, scaled, HEADER, address)?);
        tree.job.budget.take(header.total, address)?;
        tree.job.columns.make_places(usize::try_from(header.total).unwrap_or(usize::MAX));
        Ok(())
    }

    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let Some(element) = tree.element else { return Ok(()) };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let mut last: Option<&[u8]> = None;
        // Records arrive level by level, not in order.
        for (place, record) in (first..).zip(records.chunks_exact(tree.record_size.max(1))) {
            let (head, scaled) = record.split_at_checked(element.size()).unwrap_or_default();
            if last.is_some_and(|last| offsets(last).ge(offsets(scaled))) {
                return Err(Error::malformed(HEADER, tree.job.address, "chunks of a node out of order"));
            }
            last = Some(scaled);
            let chunk = tree.job.columns.grid().position(offsets(scaled)).zip(element.parse(head));
            tree.job.columns.place(place, chunk)?;
        }
        Ok(())
    }
}

/// Returns the scaled offsets of a record. The library finds chunks by binary search.
fn offsets(scaled: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = scaled.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::{
        checksum::lookup3,
        chunk_request::{ChunkIndex, ChunkRequest},
        chunks::read_chunk_tables,
        hex::bytes_of,
        model::ChunkTable,
        ready::ready,
    };

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };
    /// Header of a tree with two records, as written by libhdf5 2.0.
    const HEADER_HEX: &str =
        "42544844 00 0a 00080000 1800 0000 64 28 0010000000000000 0200 0200000000000000 e2f7ca2f";

    /// Reads a tree whose only leaf has two chunks, (0, 0) and this one.
    fn table(second: u64) -> Result<ChunkTable, Error> {
        let mut leaf = b"BTLF\0\x0a".to_vec();
        leaf.extend([0x800, 0, 0, 0x804, 0, second].into_iter().flat_map(u64::to_le_bytes));
        leaf.extend(lookup3(&leaf).to_le_bytes());
        let mut file = vec![0; 0x2000];
        let header = bytes_of(HEADER_HEX);
        file[0x40..0x40 + header.len()].copy_from_slice(&header);
        file[0x1000..0x1000 + leaf.len()].copy_from_slice(&leaf);
        let source = MemorySource(file.into());
        let request = ChunkRequest {
            index: ChunkIndex::BTree2 { address: Some(0x40) },
            shape: vec![1, 4],
            max_shape: vec![None, None],
            chunk_shape: vec![1, 4],
            element_size: 1,
            version: 4,
            filtered: false,
        };
        ready(read_chunk_tables(&Io::new(&source, Limits::default()), FORMAT, vec![request])).remove(0)
    }

    /// libhdf5 would not find the first chunk, and show fill values.
    #[test]
    fn chunks_are_in_ascending_order() {
        assert_eq!(*table(1).unwrap().addresses, [0x800], "the second one is outside of the extent");
        let error = table(0).unwrap_err().to_string();
        assert!(error.ends_with("chunks of a node out of order"), "{error}");
    }
}
