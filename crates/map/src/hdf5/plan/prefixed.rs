//! Chunks that a filter stores without a header that clients need. They are inlined with the header before the stored
//! bytes.

use bytes::Bytes;
use virtualize_hdf5::model::Chunked;
use virtualize_zarr::{ChunkGrid, Codec, SourceId};

use super::chunk_table::{check_table, entries, furthest_end};
use super::planner::{ChunkPlan, ChunkPlanner, INLINE_CHUNKS};
use crate::{ChunkContent, Error, Result};

/// A filter, and the header of its chunks.
pub(super) struct PrefixedFilter {
    /// The filter in error messages.
    pub(super) name: &'static str,
    /// Why its chunks are inlined.
    pub(super) reason: &'static str,
    /// The header.
    pub(super) prefix: Bytes,
    /// Bits of the header that belong to the stream.
    pub(super) prefix_bits: u32,
    /// Bytes of a word, to which the stream is padded.
    pub(super) word: u32,
}

impl ChunkPlanner<'_> {
    /// Plans chunks that all went through the filter, the last one of `codecs`.
    ///
    /// # Errors
    /// Some chunks skipped the filter, or the stored chunks exceed the inline limit.
    pub(super) fn prefixed(
        &self,
        chunked: &Chunked,
        chunk_shape: Vec<u64>,
        codecs: Vec<Codec>,
        filter: &PrefixedFilter,
    ) -> Result<ChunkPlan> {
        let table = &chunked.chunks;
        check_table(table, &ChunkGrid::Regular(chunk_shape.clone()).counts(self.shape))?;
        self.check_end(furthest_end(table))?;
        if chunked.unfiltered_edges || !table.filter_masks.is_empty() {
            return Err(Error::undecodable(filter.name, "some chunks skipped the filter"));
        }
        let bytes = entries(table).fold(0, |sum: u64, (_, range)| sum.saturating_add(range.length));
        let limit = self.options.inline_limit;
        if bytes > limit || table.addresses.len() as u64 > INLINE_CHUNKS {
            let content = format!("{bytes} bytes");
            return Err(Error::InlineLimit { reason: filter.reason.into(), content, limit });
        }
        let content = |(position, range)| {
            let (source, prefix) = (SourceId(0), filter.prefix.clone());
            let PrefixedFilter { prefix_bits, word, .. } = *filter;
            (position, ChunkContent::Prefixed { source, range, prefix, prefix_bits, word })
        };
        Ok(ChunkPlan {
            chunk_shape,
            codecs,
            inline: entries(table).map(content).collect(),
            inline_reason: Some(filter.reason.to_owned()),
            ..self.one_missing_chunk()
        })
    }
}
