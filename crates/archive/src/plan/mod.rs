//! Gives each file its place.

mod arrange;
mod duplicates;
mod extent;
mod files;
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
pub use extent::{Direction, Extent, FileExtent, Range, Selection, Units};
pub use files::Files;
pub(crate) use merge::merge;
pub use model::{Block, Known, LeftOut, Plan, PlannedEra, Signatures};
pub use options::{OnDuplicate, OnMismatch, PlanOptions};

use crate::{Layout, error::CombineError};
use arrange::{arrange, number};
use holes::holes;
use model::{Era, Source};
use overlap::Change;

/// Assigns each file its place: by era, and in each era in the order of the files' coordinates. Eras that differ only in
/// storage or types of numbers which are compatible are merged, if their signatures are known.
///
/// # Errors
/// Files that overlap, are not monotone, have the same coordinates, or are of several eras; empty places.
pub fn plan(
    mut files: Files,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
) -> Result<Plan, CombineError> {
    let mut plan = Plan::default();
    let eras = eras(Source { files: &files, url: known.url }, layout, &mut plan);
    let eras = merge(&files, eras, known, layout, options);
    let eras = select_eras(Source { files: &files, url: known.url }, eras, options.on_mismatch, &mut plan)?;
    let several = eras.len() > 1;
    for (n, mut era) in eras.into_iter().enumerate() {
        let group = if several { format!("era_{n}") } else { String::new() };
        let signature = era.first().map(|file| files.signature(*file).to_owned()).unwrap_or_default();
        let selections = select(&mut files, &mut era, known, layout, options, &mut plan)?;
        let source = Source { files: &files, url: known.url };
        let (mut blocks, sizes) = arrange(source, &era, layout, options, &mut plan)?;
        holes(source, &blocks, &sizes, options, layout, &mut plan)?;
        for block in blocks.iter_mut().filter(|_| !selections.is_empty()) {
            block.selection = selections.get(&number(block)).copied().map(Box::new);
        }
        plan.eras.push(PlannedEra { signature, group, sizes, blocks });
    }
    if plan.eras.is_empty() { Err(CombineError::Nothing) } else { Ok(plan) }
}

/// Groups files by their signatures, in the order of the first files. Leaves out files without elements.
fn eras(source: Source<'_>, layout: &Layout, plan: &mut Plan) -> Vec<Era> {
    let first_kinds = source.files.first_kinds();
    let mut eras: BTreeMap<u32, Era> = BTreeMap::new();
    for file in source.files.numbers() {
        let Some(extent) = source.files.extent(file) else { continue };
        let empty = layout.along.iter().zip(extent.extents()).find(|(_, extent)| extent.size == 0);
        if let Some((along, _)) = empty {
            let reason = format!("dimension {} has length 0", along.name());
            plan.left_out.push(LeftOut { row: file.into(), url: source.url(file), reason });
            continue;
        }
        let kind = source.files.kind_of(file);
        let kind = usize::try_from(kind).ok().and_then(|kind| first_kinds.get(kind)).copied().unwrap_or(kind);
        eras.entry(kind).or_default().push(file);
    }
    let mut eras: Vec<Era> = eras.into_values().collect();
    eras.sort_by_key(|era| era.first().copied());
    eras
}

/// Applies [`OnMismatch`] to several eras.
fn select_eras(
    source: Source<'_>,
    eras: Vec<Era>,
    on_mismatch: OnMismatch,
    plan: &mut Plan,
) -> Result<Vec<Era>, CombineError> {
    if eras.len() < 2 || on_mismatch == OnMismatch::Split {
        return Ok(eras);
    }
    if on_mismatch == OnMismatch::Stop {
        let first = |era: &Era| era.first().map(|file| source.url(*file)).unwrap_or_default();
        let eras = eras.iter().map(|era| (era.len() as u64, first(era))).collect();
        return Err(CombineError::Eras { eras });
    }
    let most = eras.iter().map(Vec::len).max();
    let mut kept = None;
    for era in eras {
        if kept.is_none() && Some(era.len()) == most {
            kept = Some(era);
        } else {
            let out = |file: u32| LeftOut {
                row: file.into(),
                url: source.url(file),
                reason: "it is not compatible with the largest era".to_owned(),
            };
            plan.left_out.extend(era.into_iter().map(out));
        }
    }
    Ok(kept.into_iter().collect())
}

/// Separates files that overlap in part. Returns the selections of those that are clipped.
fn select(
    files: &mut Files,
    era: &mut Era,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<BTreeMap<u32, Selection>, CombineError> {
    let source = Source { files, url: known.url };
    let changes = overlap::resolve(source, era, known.coordinates, layout, options.on_duplicate)?;
    let name = layout.along.first().map_or("", |along| along.name());
    overlap::report(&changes, source, name, plan);
    let selection = |(file, change): &(u32, Change)| match change {
        Change::Clipped(_, selection) => Some((*file, *selection)),
        Change::LeftOut => None,
    };
    let selections = changes.iter().filter_map(selection).collect();
    merge::apply(changes, files, era);
    Ok(selections)
}
