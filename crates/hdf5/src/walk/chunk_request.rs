//! Requests for chunk tables, and the state of the ones that are being read.

use super::chunk_columns::{ChunkBudget, ChunkColumns};
use crate::{Error, spec::chunk_grid::ChunkNumbering};

/// Where the index of a dataset's chunks lies. An undefined address is a dataset without chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkIndex {
    /// Version 1 B-tree.
    BTree1 { address: Option<u64> },
    /// The whole dataset is one chunk. Size and mask count for filtered chunks only.
    Single { address: Option<u64>, size: u64, filter_mask: u32 },
    /// Chunks one after the other.
    Implicit { address: Option<u64> },
    /// Fixed array.
    FixedArray { address: Option<u64> },
    /// Extensible array.
    ExtensibleArray { address: Option<u64> },
    /// Version 2 B-tree.
    BTree2 { address: Option<u64> },
}

impl ChunkIndex {
    /// Address of the index; `None` for a dataset without chunks.
    pub(super) fn address(self) -> Option<u64> {
        match self {
            Self::BTree1 { address }
            | Self::Single { address, .. }
            | Self::Implicit { address }
            | Self::FixedArray { address }
            | Self::ExtensibleArray { address }
            | Self::BTree2 { address } => address,
        }
    }
}

/// A dataset whose chunks are to be listed. Axes are slowest first, sizes in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRequest {
    pub(crate) index: ChunkIndex,
    /// Current extent.
    pub(crate) shape: Vec<u64>,
    /// Largest extent, `None` for unlimited.
    pub(crate) max_shape: Vec<Option<u64>>,
    /// Shape of a chunk, without the element-size "dimension" of old layout messages.
    pub(crate) chunk_shape: Vec<u64>,
    /// Bytes of an element.
    pub(crate) element_size: u32,
    /// The dataset has a filter.
    pub(crate) filtered: bool,
}

/// A chunk index that is being read, with the chunks found so far.
pub(super) struct Job<'a> {
    pub(super) request: &'a ChunkRequest,
    pub(super) address: u64,
    pub(super) columns: ChunkColumns,
    pub(super) budget: &'a ChunkBudget<'a>,
    /// Index of the request among all requests.
    pub(super) place: usize,
}

impl Job<'_> {
    pub(super) fn numbering(&self, extensible: bool) -> Result<ChunkNumbering, Error> {
        let new = if extensible { ChunkNumbering::extensible } else { ChunkNumbering::bounded };
        new(self.columns.grid(), &self.request.max_shape, &self.request.chunk_shape)
    }
}
