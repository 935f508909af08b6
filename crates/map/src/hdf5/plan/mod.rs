//! Planning of chunks: the file and range that store each chunk of an array, and the chunks that have to be made.
//!
//! [`ChunkPlanner`] holds what a plan depends on; each file of this folder plans one storage layout, or one filter whose
//! chunks cannot be referenced as they are stored.

mod chunk_table;
mod chunked;
mod contiguous;
mod external;
mod filters;
mod lzo;
mod padding;
mod planner;
mod prefixed;
mod skipped;
mod spans;
#[cfg(test)]
mod tests_of_limits;
#[cfg(test)]
mod tests_of_padding;
#[cfg(test)]
mod tests_of_skipped;
#[cfg(test)]
mod tests_of_virtual;
mod virtual_grid;
mod virtual_pieces;
mod virtual_sources;
mod zfp;

use virtualize_hdf5::model::{Dataspace, Layout};

pub(super) use self::padding::Padded;
pub(super) use self::planner::{ChunkPlan, ChunkPlanner, can_encode, is_reference, item_type};
use crate::Result;

impl ChunkPlanner<'_> {
    /// Plans all chunks of the dataset.
    ///
    /// # Errors
    /// The array has to be left out.
    pub(super) fn plan(&self) -> Result<ChunkPlan> {
        match &self.dataset.layout {
            Layout::Unreadable(error) => Err(error.clone().into()),
            _ if matches!(self.dataset.dataspace, Dataspace::Null) => Ok(self.one_missing_chunk()),
            Layout::Compact(bytes) => self.compact(bytes),
            Layout::Contiguous(None) => Ok(self.one_missing_chunk()),
            Layout::Contiguous(Some(range)) => self.contiguous(*range),
            Layout::External(segments) => self.external(segments),
            Layout::Chunked(chunked) => self.chunked(chunked),
            Layout::Virtual(mappings) => self.virtual_sources(mappings),
        }
    }
}
