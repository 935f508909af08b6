//! Walks version 2 B-trees that index chunks: records of type 10 (unfiltered) and 11 (filtered).
//!
//! ```text
//! type 10  chunk-address scaled-offset(8)…
//! type 11  chunk-address chunk-size filter-mask(4) scaled-offset(8)…
//! ```

use super::{
    Io,
    btree2::{Btree2Sink, walk_trees},
    chunk_request::Job,
};
use crate::{
    Error,
    spec::{Format, btree2::Btree2Header, chunk_element::ElementFormat},
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
        tree.job.columns.make_places(usize::try_from(header.total).unwrap_or(usize::MAX));
        Ok(())
    }

    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let Some(element) = tree.element else { return Ok(()) };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        // Records arrive level by level, not in order.
        for (place, record) in (first..).zip(records.chunks_exact(tree.record_size.max(1))) {
            let (head, scaled) = record.split_at_checked(element.size()).unwrap_or_default();
            let (scaled, _) = scaled.as_chunks::<8>();
            let scaled = scaled.iter().map(|word| u64::from_le_bytes(*word));
            let chunk = tree.job.columns.grid().position(scaled).zip(element.parse(head));
            tree.job.columns.place(place, chunk)?;
        }
        Ok(())
    }
}
