//! LZO chunks (filter 305, PyTables). The filter stores plain LZO1X streams, whose decoder must know the decoded length. Such
//! chunks are inlined with the header that imagecodecs reads before the stream: 0xF0, then the decoded length in 4 bytes,
//! most significant first.

use bytes::Bytes;
use virtualize_hdf5::model::{Chunked, Filter};
use virtualize_zarr::{Codec, SourceId};

use super::chunk_table::{check_table, entries, furthest_end, mismatched_shape};
use super::filters::Pipeline;
use super::planner::{ChunkPlan, ChunkPlanner, INLINE_CHUNKS};
use crate::{ChunkContent, Error, Result};

/// Number of the filter in the registry of the HDF Group.
pub(super) const LZO: u16 = 305;

/// The filter in error messages.
const NAME: &str = "LZO (305)";

const REASON: &str = "clients need the decoded length before LZO chunks";

impl ChunkPlanner<'_> {
    /// Plans chunks whose last filter is LZO; `before` are the filters before it.
    pub(super) fn lzo(&self, chunked: &Chunked, before: &[Filter]) -> Result<ChunkPlan> {
        let chunk_shape: Vec<u64> = chunked.chunk_shape.iter().chain(&self.element.axes).copied().collect();
        if chunk_shape.contains(&0) || self.shape.len() != chunk_shape.len() {
            return Err(mismatched_shape(&chunk_shape, self.shape));
        }
        if self.is_empty() || chunked.chunks.addresses.is_empty() {
            return Ok(ChunkPlan { chunk_shape, ..self.one_missing_chunk() });
        }
        let mut applied = Pipeline::new(before)?.applied(0);
        let changed = applied.iter().any(|codec| !matches!(codec, Codec::Shuffle { .. }));
        let table = &chunked.chunks;
        if changed || !self.element.is_stored_as_it_is() || self.must_be_made().is_some() {
            return Err(Error::undecodable(
                NAME,
                "only shuffle may come before it, and elements must not be converted",
            ));
        }
        if chunked.unfiltered_edges || !table.filter_masks.is_empty() {
            return Err(Error::undecodable(NAME, "some chunks skipped the filter"));
        }
        let bytes = self.stored_bytes(&chunk_shape).ok_or(Error::Overflow("a chunk"))?;
        let length =
            u32::try_from(bytes).map_err(|_| Error::undecodable(NAME, format!("chunks of {bytes} bytes")))?;
        let configuration = serde_json::Map::from_iter([("header".to_owned(), true.into())]);
        applied.push(Codec::Lzo { configuration });
        self.clients_decode(&applied, &chunk_shape, bytes)?;
        let grid: Vec<u64> =
            self.shape.iter().zip(&chunk_shape).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        check_table(table, &grid)?;
        self.check_end(furthest_end(table))?;
        let stored = entries(table).fold(0, |sum: u64, (_, range)| sum.saturating_add(range.length));
        if stored > self.options.inline_limit || table.addresses.len() as u64 > INLINE_CHUNKS {
            return Err(Error::InlineLimit {
                reason: REASON.into(),
                content: format!("{stored} bytes"),
                limit: self.options.inline_limit,
            });
        }
        let prefix: Bytes = [0xF0].into_iter().chain(length.to_be_bytes()).collect();
        let made = |(position, range)| {
            let prefix = prefix.clone();
            (
                position,
                ChunkContent::Prefixed { source: SourceId(0), range, prefix, prefix_bits: 40, word: 1 },
            )
        };
        Ok(ChunkPlan {
            codecs: self.chain(applied),
            inline: entries(table).map(made).collect(),
            inline_reason: Some(REASON.to_owned()),
            chunk_shape,
            ..self.one_missing_chunk()
        })
    }
}
