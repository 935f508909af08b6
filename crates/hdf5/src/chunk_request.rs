//! Requests for chunk tables, and the state of each while it is read.

use crate::{
    Error,
    chunk_columns::{ChunkBudget, ChunkColumns},
    chunk_element::ElementFormat,
    chunk_grid::ChunkNumbering,
    context::Format,
};

/// Type and address of a chunk index. The address is undefined for a dataset without chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkIndex {
    /// Version 1 B-tree.
    BTree1 { address: Option<u64> },
    /// A single chunk. Size and filter mask apply to filtered chunks only.
    Single { address: Option<u64>, size: u64, filter_mask: u32 },
    /// Implicit: consecutive chunks.
    Implicit { address: Option<u64> },
    /// Fixed array.
    FixedArray { address: Option<u64> },
    /// Extensible array.
    ExtensibleArray { address: Option<u64> },
    /// Version 2 B-tree.
    BTree2 { address: Option<u64> },
}

impl ChunkIndex {
    /// Returns the address of the index; `None` for a dataset without chunks.
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

/// A dataset whose chunks are requested. Shapes are in elements, slowest axis first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRequest {
    pub(crate) index: ChunkIndex,
    /// Current shape.
    pub(crate) shape: Vec<u64>,
    /// Maximum shape, `None` for unlimited axes.
    pub(crate) max_shape: Vec<Option<u64>>,
    /// Chunk shape, without the trailing element size of old layout messages.
    pub(crate) chunk_shape: Vec<u64>,
    /// Size of an element in bytes.
    pub(crate) element_size: u32,
    /// Version of the layout message.
    pub(crate) version: u8,
    /// Whether the dataset has filters.
    pub(crate) filtered: bool,
}

impl ChunkRequest {
    /// Checks that a dataset with an extensible array has an unlimited axis, without which the library does not open it.
    pub(super) fn check_unlimited(&self) -> Result<(), Error> {
        if matches!(self.index, ChunkIndex::ExtensibleArray { .. }) && !self.max_shape.contains(&None) {
            let problem = format!("maximum shape {:?}, expected an unlimited axis", self.max_shape);
            return Err(Error::malformed("extensible array", 0, problem));
        }
        Ok(())
    }

    /// Returns the bytes of a stored size in indexes of versions 4 and 5; 0 without filters.
    pub(super) fn size_width(&self, format: Format) -> usize {
        if !self.filtered {
            return 0;
        }
        if self.version > 4 {
            return format.length_size.into();
        }
        let bytes =
            self.chunk_shape.iter().fold(u64::from(self.element_size), |bytes, n| bytes.saturating_mul(*n));
        // One byte more than the size of a chunk needs.
        usize::try_from(bytes.checked_ilog2().unwrap_or(0) / 8)
            .map_or(8, |width| width.saturating_add(2).min(8))
    }
}

/// A chunk index in progress.
pub(super) struct Job<'a> {
    pub(super) request: &'a ChunkRequest,
    pub(super) address: u64,
    pub(super) columns: ChunkColumns,
    pub(super) budget: &'a ChunkBudget<'a>,
    /// Index of the request.
    pub(super) place: usize,
}

impl Job<'_> {
    pub(super) fn numbering(&self, extensible: bool) -> Result<ChunkNumbering, Error> {
        let new = if extensible { ChunkNumbering::extensible } else { ChunkNumbering::bounded };
        new(self.columns.grid(), &self.request.max_shape, &self.request.chunk_shape)
    }

    /// Adds the chunks of consecutive array elements to the table. `first` is the index of the first element.
    pub(super) fn list(
        &mut self,
        first: u64,
        content: &[u8],
        elements: ElementFormat,
        numbering: &ChunkNumbering,
    ) -> Result<(), Error> {
        let entries = content.chunks_exact(elements.size().max(1));
        self.budget.take(entries.len() as u64, self.address)?;
        self.columns.reserve(entries.len() as u64);
        for (number, entry) in (first..).zip(entries) {
            let Some(chunk) = elements.parse(entry) else { continue };
            if let Some(position) = numbering.position(number) {
                self.columns.push(position, chunk)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: u8, length: u64, filtered: bool) -> ChunkRequest {
        ChunkRequest {
            index: ChunkIndex::ExtensibleArray { address: None },
            shape: vec![length],
            max_shape: vec![Some(length)],
            chunk_shape: vec![length],
            element_size: 1,
            version,
            filtered,
        }
    }

    #[test]
    fn extensible_arrays_need_an_unlimited_axis() {
        let bounded = request(4, 0, false);
        assert!(bounded.check_unlimited().is_err());
        assert!(ChunkRequest { max_shape: vec![None], ..bounded }.check_unlimited().is_ok());
    }

    /// The widths are those of `H5D_FARRAY_FILT_COMPUTE_CHUNK_SIZE_LEN` and its siblings in libhdf5.
    #[test]
    fn stored_sizes_have_the_width_of_the_layout() {
        let format = Format { base: 0, offset_size: 8, length_size: 8 };
        let width = |version, length, filtered| request(version, length, filtered).size_width(format);
        assert_eq!([1, 255, 256, 65536].map(|length| width(4, length, true)), [2, 2, 3, 4]);
        assert_eq!([width(4, u64::MAX, true), width(5, 1, true), width(5, 1, false)], [8, 8, 0]);
    }
}
