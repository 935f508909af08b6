//! Joins the references of files that agree.

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

/// Joins the references of the files of an era: `members` gives the file of a row, and is asked for each once, in order.
///
/// # Errors
/// What `members` returns; files that do not agree; chunks that cannot stand beside each other.
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
