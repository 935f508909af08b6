//! Divides files into segments of one dataset: groups of files whose chunks form one grid, in the order of the files.

use std::collections::HashMap;

use smallvec::smallvec;
use virtualize::segments::Segment;

use super::{Block, Era, Known, Source, grid::number};
use crate::{
    Layout,
    compat::{Conversions, DimRole, Signature, form_segments},
    values::index,
};

/// The files of one group.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) blocks: Vec<Block>,
    /// Number of elements of each file along the dimension.
    pub(super) sizes: Vec<u64>,
    total: u64,
}

/// Files that become one dataset.
pub(super) struct United {
    pub(super) files: Era,
    /// The set of compatible files that each file belongs to, if there are several.
    pub(super) era_of: HashMap<u32, usize>,
    pub(super) conversions: Conversions,
}

/// Unites all files, if their arrays can be segments of one dataset.
pub(super) fn united(source: Source<'_>, eras: &[Era], known: &Known<'_>, layout: &Layout) -> Option<United> {
    let signature = |era: &Era| {
        let kind = source.files.kinds().get(index(source.files.kind_of(*era.first()?)))?;
        known.signatures.get(&kind.storage)
    };
    let mut conversions = Conversions::new();
    if eras.len() > 1 {
        let signatures: Vec<&Signature> = eras.iter().map(signature).collect::<Option<_>>()?;
        conversions = form_segments(&signatures, layout).ok()?;
    }
    let era_of = eras.iter().enumerate().flat_map(|(n, era)| era.iter().map(move |file| (*file, n)));
    let era_of: HashMap<u32, usize> = if eras.len() > 1 { era_of.collect() } else { HashMap::new() };
    let mut files: Era = eras.concat();
    files.sort_unstable();
    Some(United { files, era_of, conversions })
}

/// Divides files, which are in order, into runs: a file continues the last run of its set unless that one ends within a chunk.
/// Returns the runs, and the segments in order; their groups are numbers of runs.
pub(super) fn divide(
    source: Source<'_>,
    blocks: Vec<Block>,
    sizes: &[u64],
    era_of: &HashMap<u32, usize>,
    known: &Known<'_>,
    layout: &Layout,
) -> (Vec<Run>, Vec<Segment>) {
    let kinds = source.files.kinds().iter();
    let lengths: Vec<Vec<u64>> = kinds
        .map(|kind| {
            known.signatures.get(&kind.storage).map(|one| chunk_lengths(one, layout)).unwrap_or_default()
        })
        .collect();
    let mut runs: Vec<Run> = Vec::new();
    let mut last: HashMap<usize, usize> = HashMap::new();
    let mut segments: Vec<(usize, u64, u64)> = Vec::new();
    for (block, size) in blocks.into_iter().zip(sizes) {
        let file = number(&block);
        let era = era_of.get(&file).copied().unwrap_or(0);
        let lengths = lengths.get(index(source.files.kind_of(file))).map(Vec::as_slice).unwrap_or_default();
        let fits = |run: &Run| lengths.iter().all(|length| run.total.is_multiple_of((*length).max(1)));
        let n = match last.get(&era).copied().filter(|n| runs.get(*n).is_some_and(fits)) {
            Some(n) => n,
            None => {
                runs.push(Run::default());
                last.insert(era, runs.len() - 1);
                runs.len() - 1
            }
        };
        let Some(run) = runs.get_mut(n) else { continue };
        match segments.last_mut().filter(|(run, ..)| *run == n) {
            Some((_, _, length)) => *length += size,
            None => segments.push((n, run.total, *size)),
        }
        let at = smallvec![u32::try_from(run.blocks.len()).unwrap_or(u32::MAX)];
        run.blocks.push(Block { at, ..block });
        run.sizes.push(*size);
        run.total += size;
    }
    let segments = segments.into_iter();
    let segments = segments.map(|(n, start, length)| Segment { group: format!("era_{n}"), start, length });
    (runs, segments.collect())
}

/// Returns the lengths of chunks, along the dimension, within which no file but the last of a group may end.
fn chunk_lengths(signature: &Signature, layout: &Layout) -> Vec<u64> {
    let mut lengths = Vec::new();
    for stored in signature.stored.values() {
        let Some(DimRole::Axis(axis)) = stored.roles.first().copied() else { continue };
        let Some(chunks) = &stored.chunks else { continue };
        let is_run = stored.is_plain && chunks.iter().take(axis).all(|chunk| *chunk == Some(1));
        if stored.is_read || is_run || layout.rectilinear {
            continue;
        }
        lengths.extend(chunks.get(axis).copied().flatten());
    }
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}
