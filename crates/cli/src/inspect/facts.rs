//! Numbers of a file and its arrays.

use virtualize::{
    describe::{Counts, counts},
    zarr::{Array, Codec, Group, Lengths, Node},
};

/// Sizes and chunk counts of an array, or of all arrays together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Facts {
    pub(super) groups: u64,
    pub(super) arrays: u64,
    /// Positions of the chunk grid.
    pub(super) chunks: u64,
    /// Chunks that are inline or in a file.
    pub(super) stored: u64,
    pub(super) inline: u64,
    /// Decoded bytes of all arrays whose elements have a fixed size.
    pub(super) decoded: u64,
    /// Arrays whose elements vary in size, such as text.
    pub(super) variable: u64,
    /// Decoded and stored bytes of the arrays that have all their chunks in files.
    pub(super) compared: (u64, u64),
}

impl Facts {
    pub(super) fn of_array(array: &Array) -> Self {
        let Counts { grid, stored, inline } = counts(array);
        let product = |factors: &[u64]| factors.iter().fold(1_u64, |all, each| all.saturating_mul(*each));
        let size = array.data_type.size();
        let decoded = size.map_or(0, |size| product(&array.shape).saturating_mul(size));
        let (chunks, inline) = (product(&grid), inline as u64);
        let is_whole = size.is_some() && inline == 0 && stored == chunks;
        let is_plain = array.codecs.iter().all(|codec| matches!(codec, Codec::Bytes { .. }));
        let compared = match (is_whole, is_plain) {
            (false, _) => (0, 0),
            // Chunks at edges may be stored whole, which is not compression.
            (true, true) => (decoded, decoded),
            (true, false) => (decoded, stored_bytes(array)),
        };
        Self {
            groups: 0,
            arrays: 1,
            chunks,
            stored,
            inline,
            decoded,
            variable: u64::from(size.is_none()),
            compared,
        }
    }

    /// Returns the sums over a group and all that is in it.
    pub(super) fn of_group(group: &Group) -> Self {
        let one = Self { groups: 1, ..Self::default() };
        group.children.values().fold(one, |all, node| {
            all.plus(match node {
                Node::Group(child) => Self::of_group(child),
                Node::Array(child) => Self::of_array(child),
            })
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            groups: self.groups + other.groups,
            arrays: self.arrays + other.arrays,
            chunks: self.chunks.saturating_add(other.chunks),
            stored: self.stored.saturating_add(other.stored),
            inline: self.inline.saturating_add(other.inline),
            decoded: self.decoded.saturating_add(other.decoded),
            variable: self.variable + other.variable,
            compared: (
                self.compared.0.saturating_add(other.compared.0),
                self.compared.1.saturating_add(other.compared.1),
            ),
        }
    }

    /// Returns the number of positions without a chunk.
    pub(super) fn missing(&self) -> u64 {
        self.chunks.saturating_sub(self.stored)
    }
}

/// Returns the bytes that the referenced chunks of an array take in files.
pub(super) fn stored_bytes(array: &Array) -> u64 {
    let columns = array.chunks.references.iter().map(|column| match &column.lengths {
        Lengths::Uniform(length) => length.saturating_mul(column.offsets.len() as u64),
        Lengths::Each(lengths) => lengths.iter().map(|length| u64::from(*length)).sum(),
    });
    columns.fold(0, u64::saturating_add)
}
