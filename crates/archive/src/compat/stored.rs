//! How files store their arrays: files that differ only in this are compatible if their parts form one grid.

use serde::{Deserialize, Serialize};
use virtualize::zarr::{Array, ChunkGrid};

use super::{
    copying::{is_plain, may_be_copied},
    role::DimRole,
    storage::ChunkLayout,
};
use crate::Layout;

/// How an array that grows is stored in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// How it varies along each dimension of the layout.
    #[serde(rename = "places")]
    pub roles: Vec<DimRole>,
    /// Size along each axis; `None` along an axis that grows, if it equals the file's length of that dimension.
    pub shape: Vec<Option<u64>>,
    /// Chunk size along each axis; `None` if one chunk has all of the file's elements. `None` altogether if sizes vary.
    pub chunks: Option<Vec<Option<u64>>>,
    /// Codecs with all parameters that decoding depends on.
    pub codecs: Vec<String>,
    /// Size of an element in bytes; 0 if it varies.
    pub element: u64,
    /// Whether chunks are plain elements.
    pub is_plain: bool,
    /// Whether its values were read, so that they can be copied.
    pub is_read: bool,
}

impl Stored {
    /// Describes an array; `lengths` are the file's elements along each dimension of the layout.
    pub(super) fn of(
        array: &Array,
        roles: &[DimRole],
        layout: &Layout,
        codecs: Vec<String>,
        lengths: &[u64],
    ) -> Self {
        let is_read = may_be_copied(array, roles, layout);
        let dimension = |axis: usize| roles.iter().position(|role| *role == DimRole::Axis(axis));
        let length = |axis| dimension(axis).and_then(|dimension| lengths.get(dimension).copied());
        let shape = array.shape.iter().enumerate();
        let shape: Vec<_> = shape.map(|(axis, n)| (length(axis) != Some(*n)).then_some(*n)).collect();
        // Large compressed chunks as long as the file are described by their length, which others must share.
        let may_be_long = is_read || is_plain(array) || layout.rectilinear;
        let chunk = |(axis, (chunk, n)): (usize, (&u64, &u64))| {
            let is_all = may_be_long && dimension(axis).is_some() && chunk == n;
            (!is_all).then_some(*chunk)
        };
        let chunks = match &array.chunk_grid {
            ChunkGrid::Regular(sizes) => {
                Some(sizes.iter().zip(&array.shape).enumerate().map(chunk).collect())
            }
            ChunkGrid::Rectilinear(_) => None,
        };
        Self {
            roles: roles.to_vec(),
            shape,
            chunks,
            codecs,
            element: array.data_type.size().unwrap_or(0),
            is_plain: is_plain(array),
            is_read,
        }
    }

    /// Returns the part of the array in a file that has these lengths along the dimensions of the layout. Returns `None`
    /// if a length is missing.
    pub(crate) fn chunk_layout(&self, lengths: &[u64], fits: bool) -> Option<ChunkLayout> {
        let length = |axis: usize| {
            let dimension = self.roles.iter().position(|role| *role == DimRole::Axis(axis))?;
            lengths.get(dimension).copied()
        };
        let shape = self.shape.iter().enumerate().map(|(axis, n)| n.or_else(|| length(axis)));
        let shape: Vec<u64> = shape.collect::<Option<_>>()?;
        let chunk = self
            .chunks
            .as_ref()
            .map(|chunks| chunks.iter().zip(&shape).map(|(chunk, n)| chunk.unwrap_or(*n)).collect());
        Some(ChunkLayout { shape, chunk, fits, is_read: self.is_read })
    }
}
