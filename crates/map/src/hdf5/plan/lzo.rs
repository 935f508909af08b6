//! LZO chunks (filter 305, PyTables). The filter stores plain LZO1X streams, whose decoder must know the decoded length. Such
//! chunks are inlined with the header that imagecodecs reads before the stream: 0xF0, then the decoded length in 4 bytes,
//! most significant first.

use virtualize_hdf5::model::{Chunked, Filter};
use virtualize_zarr::Codec;

use super::filters::Pipeline;
use super::planner::{ChunkPlan, ChunkPlanner};
use super::prefixed::PrefixedFilter;
use crate::{Error, Result};

/// Number of the filter in the registry of the HDF Group.
pub(super) const LZO: u16 = 305;

/// The filter in error messages.
const NAME: &str = "LZO (305)";

impl ChunkPlanner<'_> {
    /// Plans chunks whose last filter is LZO; `before` are the filters before it.
    pub(super) fn lzo(&self, chunked: &Chunked, before: &[Filter]) -> Result<ChunkPlan> {
        let chunk_shape = self.chunk_shape(chunked)?;
        if self.is_empty() || chunked.chunks.addresses.is_empty() {
            return Ok(ChunkPlan { chunk_shape, ..self.one_missing_chunk() });
        }
        let mut applied = Pipeline::new(before)?.applied(0);
        let changed = applied.iter().any(|codec| !matches!(codec, Codec::Shuffle { .. }));
        if changed || !self.element.is_stored_as_it_is() || self.must_be_made().is_some() {
            return Err(Error::undecodable(
                NAME,
                "only shuffle may come before it, and elements must not be converted",
            ));
        }
        let bytes = self.stored_bytes(&chunk_shape).ok_or(Error::Overflow("a chunk"))?;
        let length =
            u32::try_from(bytes).map_err(|_| Error::undecodable(NAME, format!("chunks of {bytes} bytes")))?;
        let configuration = serde_json::Map::from_iter([("header".to_owned(), true.into())]);
        applied.push(Codec::Lzo { configuration });
        self.clients_decode(&applied, &chunk_shape, bytes)?;
        let filter = PrefixedFilter {
            name: NAME,
            reason: "clients need the decoded length before LZO chunks",
            prefix: [0xF0].into_iter().chain(length.to_be_bytes()).collect(),
            prefix_bits: 40,
            word: 1,
        };
        self.prefixed(chunked, chunk_shape, self.chain(applied), &filter)
    }
}
