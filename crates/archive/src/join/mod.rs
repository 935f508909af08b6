//! Combines compatible files, in two passes: [`combine`] reads the metadata of each file, and [`JoinedChunks`] the chunk
//! tables, region by region.

mod attributes;
mod chunks;
#[cfg(test)]
mod memory;
mod metadata;
mod regions;
mod tail;
#[cfg(test)]
mod tests;
mod times;
mod values;

use std::{cell::RefCell, collections::BTreeMap};

use virtualize::zarr::{ChunkManifest, Hierarchy, NodePath};

use crate::{
    Layout,
    error::{CombineError, Note},
    file::{Head, Members, ParsedNode},
    plan::{PlanOptions, PlannedEra},
};
use chunks::Files;
pub(crate) use chunks::{ChunkPlaces, JoinedChunks, collect};
#[cfg(test)]
pub(crate) use memory::MemoryMembers;
use metadata::{Finish, Joiner};
pub(crate) use tail::{extend, tail};

/// A combined dataset.
pub(crate) struct Combined<'a> {
    /// Its groups and arrays. Arrays of which values were copied have their chunks; others have none.
    pub(crate) hierarchy: Hierarchy,
    /// Where the chunks of all arrays are.
    pub(crate) chunks: ChunkPlaces<'a>,
    /// Notes for the user.
    pub(crate) notes: Vec<Note>,
}

/// Combines the metadata of the files of an era. Calls `step` before each file.
///
/// # Errors
/// Errors of `members` and `step`; files that are not compatible; chunks that do not fit into one grid.
pub(crate) fn combine<'a, M: Members, E: From<CombineError> + From<M::Error>>(
    era: &'a PlannedEra,
    layout: &Layout,
    options: &PlanOptions,
    members: &mut M,
    step: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Combined<'a>, E> {
    let members = RefCell::new(members);
    let url_of = |row: u64| members.borrow_mut().head(row).map(|head| head.item.url).unwrap_or_default();
    let files = Files { blocks: &era.blocks, url_of: &url_of };
    let mut joiner: Option<Joiner<'_>> = None;
    for (n, block) in (0..).zip(&era.blocks) {
        step()?;
        let head = members.borrow_mut().head(block.row)?;
        let mut tables = match &block.selection {
            Some(_) => tables(&mut **members.borrow_mut(), block.row, &head)?,
            None => BTreeMap::new(),
        };
        let joiner = joiner.get_or_insert_with(|| Joiner::new(head.format, era, files, layout));
        joiner.add(n, &head, &mut tables)?;
    }
    let joiner = joiner.ok_or(CombineError::Nothing)?;
    Ok(Finish::new(joiner, &era.blocks, options).run()?)
}

/// Reads the chunks of all arrays of a file.
fn tables<M: Members>(
    members: &mut M,
    row: u64,
    head: &Head,
) -> Result<BTreeMap<NodePath, ChunkManifest>, M::Error> {
    let mut tables = BTreeMap::new();
    for node in &head.nodes {
        if let ParsedNode::Array(_) = &*node.node {
            tables.insert(node.path.as_ref().to_owned(), members.chunks(row, &node.path)?.chunks);
        }
    }
    Ok(tables)
}
