//! Combines compatible files, in two passes: [`combine`] reads the metadata of each file, and [`JoinedChunks`] the chunk
//! tables, region by region.

mod attributes;
mod chunks;
mod metadata;
mod regions;
mod segments;
mod tail;
#[cfg(test)]
mod tests;
mod times;
mod values;

use std::{cell::RefCell, collections::BTreeMap};

use virtualize::zarr::{Hierarchy, NodePath};

use crate::{
    Error, Layout,
    compat::roles::text,
    error::{CombineError, Note, Problem},
    file::{HeadNode, Members, ParsedNode},
    plan::PlannedSet,
};
use chunks::Files;
use metadata::{Finish, Joiner};

pub(crate) use attributes::note;
pub(crate) use chunks::{ChunkPlaces, JoinedChunks};
pub(crate) use segments::form_dataset;
pub(crate) use tail::{Extended, extend, tail};

type Result<T, E = Problem> = std::result::Result<T, E>;

/// A combined dataset.
pub(crate) struct Combined<'a> {
    /// Its groups and arrays. Arrays of which values were copied have their chunks; others have none.
    pub(crate) hierarchy: Hierarchy,
    /// Where the chunks of all arrays are.
    pub(crate) chunks: ChunkPlaces<'a>,
    /// Groups whose images are placed side by side, with the attributes of a single image that were dropped.
    pub(crate) moved: BTreeMap<NodePath, Vec<String>>,
    /// Notes for the user.
    pub(crate) notes: Vec<Note>,
}

/// Combines the metadata of the files of a set. Calls `step` before each file.
///
/// # Errors
/// Errors of `members` and `step`; files that are not compatible; chunks that do not fit into one grid.
pub(crate) fn combine<'a>(
    set: &'a PlannedSet,
    layout: &Layout,
    members: &mut dyn Members,
    step: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Combined<'a>, Error> {
    let members = RefCell::new(members);
    let url_of = |row: u64| members.borrow_mut().head(row).map(|head| head.item.url).unwrap_or_default();
    let files = Files { blocks: &set.blocks, url_of: &url_of };
    let mut joiner: Option<Joiner<'_>> = None;
    for (n, block) in (0..).zip(&set.blocks) {
        step()?;
        let head = members.borrow_mut().head(block.row)?;
        let mut tables = BTreeMap::new();
        if block.selection.is_some() {
            for HeadNode { path, node, .. } in &head.nodes {
                if let ParsedNode::Array(_) = &**node {
                    let chunks = members.borrow_mut().chunks(block.row, path)?.chunks;
                    tables.insert(path.as_ref().to_owned(), chunks);
                }
            }
        }
        let joiner = joiner.get_or_insert_with(|| Joiner::new(head.format, set, files, layout));
        joiner.add(n, &head, &mut tables)?;
    }
    let joiner = joiner.ok_or(CombineError::Nothing)?;
    let combined = Finish::new(joiner, &set.blocks).run()?;
    if set.blocks.len() > 1 {
        check_counts(&combined.hierarchy, layout)?;
    }
    Ok(combined)
}

/// Refuses counts of contiguous ragged arrays (CF 9.3.3) that are joined, unless the items that they count are joined too.
fn check_counts(hierarchy: &Hierarchy, layout: &Layout) -> Result<(), CombineError> {
    let is_joined = |name: &str| layout.along.iter().any(|along| along.name() == name);
    for (path, array) in hierarchy.arrays() {
        let Some(sample) = text(&array.attributes, "sample_dimension") else { continue };
        if !is_joined(sample) && array.dimension_names.iter().flatten().any(|name| is_joined(name)) {
            let text = format!(
                "counts items along {sample}, and files with different items cannot be joined along both"
            );
            let problem = Problem::new(text).with(crate::error::var("drop", "omit it, and the items"));
            return Err(CombineError::of(&path, problem));
        }
    }
    Ok(())
}
