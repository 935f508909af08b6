//! Combines the references of compatible files.

mod accumulate;
mod attributes;
mod coordinate;
mod finish;
mod grid;
mod inline;
mod joiner;
mod missing;
mod numbers;
mod references;
mod selection;
#[cfg(test)]
mod tests;
mod times;

use virtualize::zarr::Hierarchy;

use crate::{
    Layout, Member,
    error::{CombineError, Note},
    plan::{PlanOptions, PlannedEra},
};
use finish::Finish;
use joiner::Joiner;

/// Combines the references of the files of an era. Calls `members` with each row once, in order, to load the file.
///
/// # Errors
/// Errors of `members`; files that are not compatible; chunks that do not fit into one grid.
pub fn combine<E: From<CombineError>>(
    era: &PlannedEra,
    layout: &Layout,
    options: &PlanOptions,
    members: &mut dyn FnMut(u64) -> Result<Member, E>,
) -> Result<(Hierarchy, Vec<Note>), E> {
    let mut joiner: Option<Joiner<'_>> = None;
    for block in &era.blocks {
        let member = members(block.row)?;
        let joiner = joiner.get_or_insert_with(|| Joiner::new(&member, era, layout));
        joiner.add(block, member)?;
    }
    let joiner = joiner.ok_or(CombineError::Nothing)?;
    Ok(Finish::new(joiner, options).run()?)
}
