//! Arranges files in a grid.

use std::collections::BTreeMap;

use super::{
    duplicates::resolve_duplicates,
    extent::{FileExtent, conflict},
    model::Plan,
    natural::natural,
    options::PlanOptions,
    order,
};
use crate::{
    Layout,
    error::{CombineError, Problem},
};

/// Files by place, and the number of elements of each place along each dimension.
pub(super) type Arranged<'a> = (BTreeMap<Vec<usize>, &'a FileExtent>, Vec<Vec<u64>>);

/// Arranges files by their coordinates along each dimension.
pub(super) fn arrange<'a>(
    briefs: &[&'a FileExtent],
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<Arranged<'a>, CombineError> {
    let mut known = Vec::with_capacity(layout.along.len());
    for (n, dimension) in layout.along.iter().enumerate() {
        let (placed, notes) = order::place(dimension.name(), n, briefs)?;
        plan.notes.extend(notes);
        known.push(placed);
    }
    let cells = cells(briefs, &known, layout)?;
    let mut blocks = BTreeMap::new();
    for (at, files) in cells {
        let kept = resolve_duplicates(&files, briefs, options.on_duplicate, plan)?;
        if let Some(brief) = kept {
            blocks.insert(at, brief);
        }
    }
    let sizes = sizes(&blocks, layout.along.len())?;
    Ok((blocks, sizes))
}

type Cells = BTreeMap<Vec<usize>, Vec<usize>>;

/// Returns the files (as indexes) at each place. Along a dimension without coordinates, files are ordered by name.
fn cells(
    briefs: &[&FileExtent],
    known: &[Option<Vec<usize>>],
    layout: &Layout,
) -> Result<Cells, CombineError> {
    let unknown: Vec<usize> =
        known.iter().enumerate().filter(|(_, placed)| placed.is_none()).map(|(n, _)| n).collect();
    if let [left, right, ..] = unknown.as_slice() {
        let name = |n: &usize| layout.along.get(*n).map_or("", |along| along.name());
        let option = format!("dimensions {} and {}", name(left), name(right));
        return Err(CombineError::option(option, Problem::NoOrder));
    }
    let mut cells = Cells::new();
    for n in 0..briefs.len() {
        let at = known.iter().map(|placed| placed.as_ref().and_then(|placed| placed.get(n)).copied());
        cells.entry(at.map(Option::unwrap_or_default).collect()).or_default().push(n);
    }
    let Some(dimension) = unknown.first() else { return Ok(cells) };
    let mut spread = Cells::new();
    for (at, mut files) in cells {
        files.sort_by_cached_key(|n| briefs.get(*n).map(|brief| natural(&brief.url)).unwrap_or_default());
        for (place, n) in files.into_iter().enumerate() {
            let mut at = at.clone();
            if let Some(own) = at.get_mut(*dimension) {
                *own = place;
            }
            spread.insert(at, vec![n]);
        }
    }
    Ok(spread)
}

/// Returns the number of elements at each place along each dimension, on which all files must agree.
fn sizes(
    blocks: &BTreeMap<Vec<usize>, &FileExtent>,
    dimensions: usize,
) -> Result<Vec<Vec<u64>>, CombineError> {
    let mut found: Vec<BTreeMap<usize, (u64, &FileExtent)>> = vec![BTreeMap::new(); dimensions];
    for (at, brief) in blocks {
        for ((places, n), extent) in found.iter_mut().zip(at).zip(&brief.extents) {
            let (size, first) = *places.entry(*n).or_insert((extent.size, brief));
            if size != extent.size {
                let problem = Problem::UnequalSizes { left: size, right: extent.size };
                return Err(conflict(first, brief, problem));
            }
        }
    }
    Ok(found.into_iter().map(|places| places.into_values().map(|(size, _)| size).collect()).collect())
}
