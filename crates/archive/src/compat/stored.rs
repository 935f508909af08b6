//! How files store what they hold: what need not agree in an era, as long as parts can stand beside each other.

use serde::{Deserialize, Serialize};
use virtualize::zarr::{Array, ChunkGrid};

use super::{
    role::Place,
    storage::{is_plain, may_be_copied},
};
use crate::Layout;

/// How an array that grows is stored in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// How it varies along each dimension of the layout.
    pub places: Vec<Place>,
    /// Elements along the axes; nothing along those that grow, where it has as many as the file has of the dimension.
    pub shape: Vec<Option<u64>>,
    /// Elements of a chunk along the axes; nothing where it is all of the file's. Nothing at all where sizes vary.
    pub chunks: Option<Vec<Option<u64>>>,
    /// Codecs with all parameters that decoding depends on.
    pub codecs: Vec<String>,
    /// Bytes of an element; 0 where they vary.
    pub element: u64,
    /// Whether chunks are plain elements.
    pub is_plain: bool,
    /// Whether its values were read, so that they can be copied.
    pub is_read: bool,
}

impl Stored {
    /// `extents` are the file's elements along each dimension of the layout.
    pub(super) fn of(
        array: &Array,
        places: &[Place],
        layout: &Layout,
        codecs: Vec<String>,
        extents: &[u64],
    ) -> Self {
        let is_read = may_be_copied(array, places, layout);
        let grown = |axis: usize| places.iter().position(|place| *place == Place::Axis(axis));
        let usual = |axis| grown(axis).and_then(|dimension| extents.get(dimension).copied());
        let shape = array.shape.iter().enumerate();
        let shape: Vec<_> = shape.map(|(axis, n)| (usual(axis) != Some(*n)).then_some(*n)).collect();
        // Large compressed chunks as long as the file are told by their length, which others must have too.
        let may_be_long = is_read || is_plain(array) || layout.rectilinear;
        let chunk = |(axis, (chunk, n)): (usize, (&u64, &u64))| {
            let is_all = may_be_long && grown(axis).is_some() && chunk == n;
            (!is_all).then_some(*chunk)
        };
        let chunks = match &array.chunk_grid {
            ChunkGrid::Regular(sizes) => {
                Some(sizes.iter().zip(&array.shape).enumerate().map(chunk).collect())
            }
            ChunkGrid::Rectilinear(_) => None,
        };
        Self {
            places: places.to_vec(),
            shape,
            chunks,
            codecs,
            element: array.data_type.size().unwrap_or(0),
            is_plain: is_plain(array),
            is_read,
        }
    }
}
