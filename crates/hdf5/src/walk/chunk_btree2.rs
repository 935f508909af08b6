//! Version 2 B-trees of chunks: records of type 10 (unfiltered) and 11 (filtered).
//!
//! ```text
//! type 10  chunk-address scaled-offset(8)…
//! type 11  chunk-address chunk-size filter-mask(4) scaled-offset(8)…
//! ```

use super::{
    Io,
    btree2::{Btree2Sink, walk_trees},
    chunks::Job,
};
use crate::{
    Error,
    spec::{
        Format,
        btree2::Btree2Header,
        chunk_element::{ChunkElement, ElementFormat},
    },
};

const HEADER: &str = "version 2 B-tree header";

/// Fills the tables of the trees.
pub(super) async fn read_btree2<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let headers: Vec<_> = jobs.iter().map(|job| job.address).collect();
    let trees =
        jobs.into_iter().map(|job| Tree { job, element: None, record_size: 1, listed: Vec::new() }).collect();
    let mut sink = Sink { format, trees };
    let results = walk_trees(io, format, &headers, &mut sink).await;
    let finish = |(tree, result): (Tree<'a>, Result<(), Error>)| tree.finish(result);
    sink.trees.into_iter().zip(results).map(finish).collect()
}

struct Sink<'a> {
    format: Format,
    trees: Vec<Tree<'a>>,
}

struct Tree<'a> {
    job: Job<'a>,
    element: Option<ElementFormat>,
    record_size: usize,
    /// Chunks by the number of their record: nodes come level by level, records in another order.
    listed: Vec<(u64, ChunkElement)>,
}

/// Position of a record that is not read yet, or whose chunk lies outside the extent.
const NOWHERE: (u64, ChunkElement) = (u64::MAX, ChunkElement { address: 0, size: None, filter_mask: 0 });

impl Btree2Sink for Sink<'_> {
    fn begin(&mut self, tree: usize, header: &Btree2Header, address: u64) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let filtered = tree.job.request.filtered;
        let expected = if filtered { 11 } else { 10 };
        if header.record_type != expected {
            let problem = format!("record type {}, expected {expected}", header.record_type);
            return Err(Error::malformed(HEADER, address, problem));
        }
        tree.record_size = header.record_size.into();
        let scaled = tree.job.request.chunk_shape.len().saturating_mul(8);
        tree.element =
            Some(ElementFormat::new(self.format, filtered, tree.record_size, scaled, HEADER, address)?);
        tree.job.budget.take(header.total, address)?;
        tree.listed = vec![NOWHERE; usize::try_from(header.total).unwrap_or(0)];
        Ok(())
    }

    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let Some(element) = tree.element else { return Ok(()) };
        let places = usize::try_from(first).ok().and_then(|first| tree.listed.get_mut(first..));
        let records = records.chunks_exact(tree.record_size.max(1));
        for (record, place) in records.zip(places.unwrap_or_default()) {
            let (head, scaled) = record.split_at_checked(element.size()).unwrap_or_default();
            let (scaled, _) = scaled.as_chunks::<8>();
            let scaled = scaled.iter().map(|word| u64::from_le_bytes(*word));
            if let (Some(position), Some(chunk)) =
                (tree.job.columns.grid().position(scaled), element.parse(head))
            {
                *place = (position, chunk);
            }
        }
        Ok(())
    }
}

impl<'a> Tree<'a> {
    fn finish(mut self, result: Result<(), Error>) -> (Job<'a>, Result<(), Error>) {
        let columns = &mut self.job.columns;
        columns.reserve(self.listed.len() as u64);
        let chunks = self.listed.iter().filter(|(position, _)| *position != u64::MAX);
        let result = result.and_then(|()| {
            chunks.into_iter().try_for_each(|(position, chunk)| columns.push(*position, *chunk))
        });
        (self.job, result)
    }
}
