//! Gives each file its place.

mod arrange;
mod duplicates;
mod extent;
mod holes;
mod merge;
mod model;
mod natural;
mod options;
mod order;
mod overlap;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use extent::coordinates;
pub use extent::{Direction, Extent, FileExtent, Range, Selection};
pub(crate) use merge::merge;
pub use model::{Block, Known, LeftOut, Plan, PlannedEra, Signatures};
pub use options::{OnDuplicate, OnMismatch, PlanOptions};

use crate::{Layout, error::CombineError};
use arrange::arrange;
use holes::holes;
use model::Era;

/// Assigns each file its place: by era, and in each era in the order of the files' coordinates. Eras that differ only in
/// storage or types of numbers which are compatible are merged, if their signatures are known.
///
/// # Errors
/// Files that overlap, are not monotone, have the same coordinates, or are of several eras; empty places.
pub fn plan(
    briefs: Vec<FileExtent>,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
) -> Result<Plan, CombineError> {
    let mut plan = Plan::default();
    let mut eras: BTreeMap<String, Vec<FileExtent>> = BTreeMap::new();
    for brief in briefs {
        let empty = layout.along.iter().zip(&brief.extents).find(|(_, extent)| extent.size == 0);
        if let Some((along, _)) = empty {
            let reason = format!("dimension {} has length 0", along.name());
            plan.left_out.push(LeftOut { row: brief.row, url: brief.url, reason });
        } else {
            eras.entry(brief.signature.clone()).or_default().push(brief);
        }
    }
    let mut eras: Vec<_> = eras.into_iter().collect();
    for (_, briefs) in &mut eras {
        briefs.sort_by_key(|brief| brief.row);
    }
    eras.sort_by_key(|(_, briefs)| briefs.first().map(|brief| brief.row));
    let eras = merge(eras, known, layout, options);
    let eras = select_eras(eras, options.on_mismatch, &mut plan)?;
    let several = eras.len() > 1;
    for (n, (signature, briefs)) in eras.into_iter().enumerate() {
        let group = if several { format!("era_{n}") } else { String::new() };
        let all: Vec<&FileExtent> = briefs.iter().collect();
        let cut = overlap::resolve(&all, known.coordinates, layout, options.on_duplicate, &mut plan)?;
        let briefs = cut.unwrap_or(briefs);
        let planned = plan_era(signature, group, briefs, layout, options, &mut plan)?;
        plan.eras.push(planned);
    }
    if plan.eras.is_empty() { Err(CombineError::Nothing) } else { Ok(plan) }
}

/// Applies [`OnMismatch`] to several eras.
fn select_eras(eras: Vec<Era>, on_mismatch: OnMismatch, plan: &mut Plan) -> Result<Vec<Era>, CombineError> {
    if eras.len() < 2 || on_mismatch == OnMismatch::Split {
        return Ok(eras);
    }
    if on_mismatch == OnMismatch::Stop {
        let first = |briefs: &[FileExtent]| briefs.first().map(|brief| brief.url.clone()).unwrap_or_default();
        let eras = eras.iter().map(|(_, briefs)| (briefs.len() as u64, first(briefs))).collect();
        return Err(CombineError::Eras { eras });
    }
    let most = eras.iter().map(|(_, briefs)| briefs.len()).max();
    let mut kept = None;
    for (era, briefs) in eras {
        if kept.is_none() && Some(briefs.len()) == most {
            kept = Some((era, briefs));
        } else {
            let out = |brief: FileExtent| LeftOut {
                row: brief.row,
                url: brief.url,
                reason: "it disagrees with the files that are most".to_owned(),
            };
            plan.left_out.extend(briefs.into_iter().map(out));
        }
    }
    Ok(kept.into_iter().collect())
}

fn plan_era(
    signature: String,
    group: String,
    briefs: Vec<FileExtent>,
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<PlannedEra, CombineError> {
    let briefs: Vec<&FileExtent> = briefs.iter().collect();
    let (blocks, sizes) = arrange(&briefs, layout, options, plan)?;
    holes(&blocks, &sizes, options, layout, plan)?;
    let block = |(at, brief): (Vec<usize>, &FileExtent)| Block {
        row: brief.row,
        url: brief.url.clone(),
        at,
        selection: brief.selection,
    };
    Ok(PlannedEra { signature, group, sizes, blocks: blocks.into_iter().map(block).collect() })
}
