//! The files of an era.

use super::pieces::Place;
use crate::{compat::DimRole, plan::Block};

/// The files of an era, by their index among its blocks.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) blocks: &'a [Block],
    /// Returns the url of a file by its row, for messages.
    pub(super) url_of: &'a dyn Fn(u64) -> String,
}

impl<'a> Files<'a> {
    /// Returns a block.
    pub(super) fn block(&self, n: u32) -> Option<&'a Block> {
        self.blocks.get(usize::try_from(n).ok()?)
    }

    /// Returns the url of a file.
    pub(super) fn url(&self, n: u32) -> String {
        self.block(n).map(|block| (self.url_of)(block.row)).unwrap_or_default()
    }

    /// Returns the place that the part of an array in a file has among the array's parts.
    pub(super) fn place(&self, n: u32, roles: &[DimRole]) -> Place {
        let at = self.block(n).map(|block| block.at.as_slice()).unwrap_or_default();
        let place = |(role, n): (&DimRole, &u32)| if *role == DimRole::Invariant { 0 } else { *n };
        roles.iter().zip(at).map(place).collect()
    }
}
