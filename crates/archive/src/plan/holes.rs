//! Places that no file fills.

use super::{
    arrange::extent_of,
    model::{Block, Plan, Source},
    options::PlanOptions,
};
use crate::{
    Layout,
    error::{CombineError, Note},
};

/// Reports places that no file fills.
///
/// # Errors
/// [`CombineError::Holes`], unless empty places are allowed.
pub(super) fn holes(
    source: Source<'_>,
    blocks: &[Block],
    sizes: &[Vec<u64>],
    options: &PlanOptions,
    layout: &Layout,
    plan: &mut Plan,
) -> Result<(), CombineError> {
    let places = sizes.iter().try_fold(1_u64, |product, sizes| product.checked_mul(sizes.len() as u64));
    let count = places.unwrap_or(u64::MAX).saturating_sub(blocks.len() as u64);
    if count == 0 {
        return Ok(());
    }
    let mut listed = Vec::new();
    let mut at = vec![0; sizes.len()];
    // Blocks are in order of place.
    let mut filled = blocks.iter().peekable();
    loop {
        if filled.next_if(|block| *block.at == *at).is_none() {
            listed.push(place_name(source, &at, blocks, layout));
        }
        if listed.len() >= MOST_LISTED || !step(&mut at, sizes) {
            break;
        }
    }
    let first = listed.first().cloned().unwrap_or_default();
    if !options.allow_holes {
        return Err(CombineError::Holes { count, first });
    }
    plan.notes.extend(listed.into_iter().map(|hole| Note::new(hole, "no file: reads as the fill value")));
    if count > MOST_LISTED as u64 {
        plan.notes.push(Note::new("holes", format!("{count} in all")));
    }
    Ok(())
}

const MOST_LISTED: usize = 20;

/// Advances to the next place, the last dimension fastest; returns false after the last.
fn step(at: &mut [u32], sizes: &[Vec<u64>]) -> bool {
    for (n, sizes) in at.iter_mut().zip(sizes).rev() {
        *n += 1;
        if u64::from(*n) < sizes.len() as u64 {
            return true;
        }
        *n = 0;
    }
    false
}

/// Names an empty place by the coordinates of the files next to it.
fn place_name(source: Source<'_>, at: &[u32], blocks: &[Block], layout: &Layout) -> String {
    let one = |(dimension, n): (usize, &u32)| {
        let name = layout.along.get(dimension).map_or("", |along| along.name());
        let beside = blocks.iter().find(|other| other.at.get(dimension) == Some(n));
        let range = beside.and_then(|block| extent_of(source, block)?.range(dimension));
        match range {
            Some(range) => format!("{name} {}", range.first),
            None => format!("{name}[{n}]"),
        }
    };
    at.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}
