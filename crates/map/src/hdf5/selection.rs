//! Selections of a virtual mapping: which elements of the source become which elements of the destination, axis by axis.

use std::collections::BTreeSet;

use virtualize_hdf5::model::{Selection, Slab};

use crate::{Error, Result};

/// The structure in error messages.
const MAPPING: &str = "virtual mapping";

/// Maximum number of spans of one axis.
const SPANS: u64 = 1_000_000;

/// Elements that are contiguous along an axis of both source and destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// First element in the destination.
    pub(super) to: u64,
    /// First element in the source.
    pub(super) from: u64,
    /// Number of elements.
    pub(super) length: u64,
}

/// An axis of the destination, of the source, or of both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    /// Axis of the destination; `None` for an axis of the source alone.
    pub(super) to: Option<usize>,
    /// Axis of the source; `None` for an axis of the destination alone.
    pub(super) from: Option<usize>,
    /// Spans in order; one element for an axis of one side alone.
    pub(super) spans: Vec<Span>,
}

/// Consecutive elements of an axis: (first, number).
type Run = (u64, u64);

/// Pairs the axes of two selections, within the shapes of their datasets. Elements are mapped in row-major order, so two
/// regular selections agree axis by axis once axes of one element are dropped.
///
/// # Errors
/// A selection is irregular or exceeds its dataset, or the selections differ in shape.
pub(super) fn axes(
    to: &Selection,
    to_shape: &[u64],
    from: &Selection,
    from_shape: &[u64],
) -> Result<Vec<Axis>> {
    let to = runs(to, to_shape)?;
    let from = runs(from, from_shape)?;
    let size = |runs: &Vec<Run>| runs.iter().map(|run| run.1).sum::<u64>();
    if to.iter().map(size).eq(from.iter().map(size)) {
        let pairs = to.iter().zip(&from).enumerate();
        return Ok(pairs.map(|(at, (to, from))| axis(Some((at, to)), Some((at, from)))).collect());
    }
    let (mut axes, mut rest) = (Vec::new(), from.iter().enumerate().peekable());
    for (at, runs) in to.iter().enumerate() {
        if size(runs) == 1 {
            axes.push(axis(Some((at, runs)), None));
            continue;
        }
        while let Some((alone, one)) = rest.next_if(|(_, runs)| size(runs) == 1) {
            axes.push(axis(None, Some((alone, one))));
        }
        match rest.next() {
            Some(source) if size(source.1) == size(runs) => axes.push(axis(Some((at, runs)), Some(source))),
            _ => return Err(malformed("the two selections differ in shape")),
        }
    }
    for (alone, one) in rest {
        if size(one) != 1 {
            return Err(malformed("the two selections differ in shape"));
        }
        axes.push(axis(None, Some((alone, one))));
    }
    Ok(axes)
}

/// An unlimited selection: the axis along which it has no end, and its slabs, one an axis.
pub(super) type Endless<'a> = (usize, &'a [Slab]);

/// Returns the unlimited axis of a selection, if it has one.
pub(super) fn endless(selection: &Selection) -> Option<Endless<'_>> {
    let Selection::Regular(slabs) = selection else { return None };
    let axis = slabs.iter().position(|slab| slab.count.is_none() || slab.block.is_none())?;
    Some((axis, slabs))
}

fn axis(to: Option<(usize, &Vec<Run>)>, from: Option<(usize, &Vec<Run>)>) -> Axis {
    let spans = match (to, from) {
        (Some((_, to)), Some((_, from))) => paired(to, from),
        (Some((_, to)), None) => to.iter().map(|run| Span { to: run.0, from: 0, length: run.1 }).collect(),
        (None, Some((_, from))) => {
            from.iter().map(|run| Span { to: 0, from: run.0, length: run.1 }).collect()
        }
        (None, None) => Vec::new(),
    };
    Axis { to: to.map(|axis| axis.0), from: from.map(|axis| axis.0), spans }
}

/// Splits runs of equal total length wherever one of either side ends.
fn paired(to: &[Run], from: &[Run]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let (mut to, mut from) = (to.iter().copied(), from.iter().copied());
    let (mut here, mut there) = (to.next(), from.next());
    while let (Some((at, left)), Some((source, more))) = (here, there) {
        let length = left.min(more);
        spans.push(Span { to: at, from: source, length });
        here = if left > length { Some((at + length, left - length)) } else { to.next() };
        there = if more > length { Some((source + length, more - length)) } else { from.next() };
    }
    spans
}

/// Returns the runs of a selection along each axis of `shape`.
fn runs(selection: &Selection, shape: &[u64]) -> Result<Vec<Vec<Run>>> {
    match selection {
        Selection::All => Ok(shape.iter().map(|n| vec![(0, *n)]).collect()),
        Selection::Regular(slabs) => slabs_runs(slabs, None, shape),
        Selection::Clipped { slabs, elements } => slabs_runs(slabs, Some(*elements), shape),
        Selection::None => Err(malformed("an empty selection")),
        Selection::Blocks(blocks) => {
            let mut axes = block_runs(blocks, shape)?;
            let rest = shape.get(axes.len()..).unwrap_or_default();
            axes.extend(rest.iter().map(|n| vec![(0, *n)]));
            Ok(axes)
        }
        Selection::Points(_) => Err(unsupported("selections of points are not supported")),
    }
}

/// Returns the runs along each axis of blocks that are all combinations of such runs, which a single block always is.
fn block_runs(blocks: &[(Vec<u64>, Vec<u64>)], shape: &[u64]) -> Result<Vec<Vec<Run>>> {
    let irregular = || unsupported("irregular selections are not supported");
    let rank = blocks.first().map_or(0, |(first, _)| first.len());
    let all: BTreeSet<_> = blocks.iter().collect();
    let is_sound = |(first, last): &(Vec<u64>, Vec<u64>)| first.len() == rank && last.len() == rank;
    if rank == 0 || rank > shape.len() || !blocks.iter().all(is_sound) || all.len() != blocks.len() {
        return Err(irregular());
    }
    let mut axes = Vec::new();
    for (axis, extent) in shape.iter().take(rank).enumerate() {
        let along = |(first, last): &(Vec<u64>, Vec<u64>)| Some((*first.get(axis)?, *last.get(axis)?));
        let runs: BTreeSet<_> = blocks.iter().filter_map(along).collect();
        let apart = runs.iter().zip(runs.iter().skip(1)).all(|(one, next)| one.1 < next.0);
        if !apart || runs.iter().any(|(first, last)| first > last || last >= extent) {
            return Err(irregular());
        }
        axes.push(runs);
    }
    let count = axes.iter().try_fold(1_usize, |n, runs| n.checked_mul(runs.len()));
    if count == Some(blocks.len()) { Ok(axes.into_iter().map(joined).collect()) } else { Err(irregular()) }
}

/// Converts (first, last) to runs, and joins those that follow each other.
fn joined(runs: BTreeSet<(u64, u64)>) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for (first, last) in runs {
        match all.last_mut() {
            Some((start, length)) if *start + *length == first => *length += last - first + 1,
            _ => all.push((first, last - first + 1)),
        }
    }
    all
}

/// Returns the runs along each axis of a regular selection. Axes of array types come after those of the dataspace.
fn slabs_runs(slabs: &[Slab], elements: Option<u64>, shape: &[u64]) -> Result<Vec<Vec<Run>>> {
    let Some(rest) = shape.get(slabs.len()..) else {
        return Err(malformed(format!("a selection has {} axes, not {}", slabs.len(), shape.len())));
    };
    let runs = slabs.iter().zip(shape).map(|(slab, extent)| match elements {
        Some(elements) if slab.count.is_none() || slab.block.is_none() => {
            clipped_runs(slab, *extent, elements)
        }
        _ => slab_runs(slab, *extent),
    });
    runs.chain(rest.iter().map(|n| Ok(vec![(0, *n)]))).collect()
}

/// Returns the runs of an unlimited slab, which ends after `elements` elements.
fn clipped_runs(slab: &Slab, extent: u64, elements: u64) -> Result<Vec<Run>> {
    let block = match (slab.count, slab.block) {
        (None, Some(block)) if slab.stride > block && block > 0 => block,
        _ => elements.max(1),
    };
    let (count, rest) = (elements / block, elements % block);
    let whole = Slab { count: Some(count), block: Some(block), ..*slab };
    let mut runs = if count > 0 { slab_runs(&whole, extent)? } else { Vec::new() };
    if rest > 0 {
        let start = count.checked_mul(slab.stride).and_then(|n| n.checked_add(slab.start));
        let last = Slab { start: start.unwrap_or(u64::MAX), count: Some(1), block: Some(rest), ..*slab };
        runs.extend(slab_runs(&last, extent)?);
    }
    Ok(runs)
}

fn malformed(problem: impl Into<String>) -> Error {
    Error::malformed(MAPPING, problem)
}

fn unsupported(problem: &'static str) -> Error {
    Error::unsupported(MAPPING, problem)
}

fn slab_runs(slab: &Slab, extent: u64) -> Result<Vec<Run>> {
    let (Some(count), Some(block)) = (slab.count, slab.block) else {
        return Err(unsupported("unlimited selections are not supported here"));
    };
    if count == 0 || block == 0 || (count > 1 && slab.stride < block) {
        return Err(malformed("a selection is empty, or its blocks overlap"));
    }
    let last = (count - 1).checked_mul(slab.stride).and_then(|n| n.checked_add(slab.start));
    if last.and_then(|last| last.checked_add(block)).is_none_or(|end| end > extent) {
        return Err(malformed(format!("a selection passes the extent ({extent}) of its dataset")));
    }
    match count {
        _ if slab.stride == block => Ok(vec![(slab.start, count * block)]),
        _ if count > SPANS => Err(Error::limit("blocks in a selection", SPANS)),
        _ => Ok((0..count).map(|n| (slab.start + n * slab.stride, block)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab(start: u64, stride: u64, count: u64, block: u64) -> Slab {
        Slab { start, stride, count: Some(count), block: Some(block) }
    }

    #[test]
    fn axes_of_one_element_have_no_partner() {
        let to = Selection::Regular(vec![slab(3, 1, 1, 1), slab(0, 1, 1, 100)]);
        let axes = axes(&to, &[5, 100], &Selection::All, &[100]).unwrap();
        assert_eq!(
            axes,
            [
                Axis { to: Some(0), from: None, spans: vec![Span { to: 3, from: 0, length: 1 }] },
                Axis { to: Some(1), from: Some(0), spans: vec![Span { to: 0, from: 0, length: 100 }] },
            ]
        );
    }

    #[test]
    fn strides_cut_spans() {
        let to = Selection::Regular(vec![slab(1, 4, 2, 2)]);
        let axes = axes(&to, &[8], &Selection::All, &[4]).unwrap();
        assert_eq!(axes[0].spans, [Span { to: 1, from: 0, length: 2 }, Span { to: 5, from: 2, length: 2 }]);
    }

    #[test]
    fn blocks_are_taken_where_they_are_all_combinations() {
        let shape = [6, 6];
        let block = |first: [u64; 2], last: [u64; 2]| (first.to_vec(), last.to_vec());
        let four =
            [block([0, 0], [0, 1]), block([0, 4], [0, 5]), block([2, 0], [3, 1]), block([2, 4], [3, 5])];
        assert_eq!(block_runs(&four, &shape).unwrap(), [[(0, 1), (2, 2)], [(0, 2), (4, 2)]]);
        assert_eq!(block_runs(&four[..2], &shape).unwrap(), [vec![(0, 1)], vec![(0, 2), (4, 2)]]);
        let adjacent = [block([1, 0], [2, 0]), block([3, 0], [4, 0])];
        assert_eq!(block_runs(&adjacent, &shape).unwrap(), [[(1, 4)], [(0, 1)]]);
        for refused in [
            &four[..3],
            &[block([0, 0], [0, 6])],
            &[(vec![0, 0], vec![0])],
            &[(vec![0; 3], vec![0; 3])],
            &[(vec![], vec![])],
            &[block([0, 0], [1, 1]), block([1, 0], [2, 1])],
            &[block([1, 0], [0, 1])],
            &[block([0, 0], [2, 1]), block([1, 0], [3, 1])],
            &[four[0].clone(), four[0].clone()],
            &[four[0].clone(), four[1].clone(), four[2].clone(), four[2].clone()],
        ] {
            assert!(block_runs(refused, &shape).is_err(), "{refused:?}");
        }
    }

    /// Expected values: the elements that each selection lists, as runs.
    #[test]
    fn unlimited_slabs_end_after_a_number_of_elements() {
        let along = |start, stride, block: Option<u64>, elements, extent: u64| {
            let slabs = vec![Slab { start, stride, count: None, block }];
            runs(&Selection::Clipped { slabs, elements }, &[extent]).map(|axes| axes[0].clone()).ok()
        };
        assert_eq!(along(1, 5, Some(2), 5, 12), Some(vec![(1, 2), (6, 2), (11, 1)]));
        assert_eq!(along(1, 5, Some(2), 4, 8), Some(vec![(1, 2), (6, 2)]));
        assert_eq!(along(1, 5, Some(2), 1, 2), Some(vec![(1, 1)]));
        assert_eq!(along(1, 5, Some(2), 5, 11), None, "past the extent");
        // Blocks that follow each other are one run, as is a block without end.
        assert_eq!(along(3, 2, Some(2), 5, 8), Some(vec![(3, 5)]));
        assert_eq!(along(3, 1, None, 5, 8), Some(vec![(3, 5)]));
        assert_eq!(along(3, 1, Some(1), 5, 7), None);
        assert_eq!(along(0, 3, Some(0), 2, 9), Some(vec![(0, 2)]));
        let both = Selection::Clipped { slabs: vec![slab(2, 1, 1, 3), slab(0, 1, 1, 1)], elements: 9 };
        assert_eq!(runs(&both, &[5, 1, 4]).unwrap(), [[(2, 3)], [(0, 1)], [(0, 4)]], "an axis with an end");
        assert!(runs(&both, &[5]).is_err(), "two slabs for an axis");
    }

    #[test]
    fn selections_are_runs_along_each_axis() {
        let regular = |slabs: &[Slab], shape: &[u64]| runs(&Selection::Regular(slabs.to_vec()), shape).ok();
        assert_eq!(regular(&[slab(1, 2, 3, 2)], &[7]), Some(vec![vec![(1, 6)]]), "adjacent blocks");
        assert_eq!(regular(&[slab(1, 3, 2, 2)], &[6]), Some(vec![vec![(1, 2), (4, 2)]]));
        assert_eq!(regular(&[slab(4, 1, 1, 2)], &[6, 3]), Some(vec![vec![(4, 2)], vec![(0, 3)]]));
        assert_eq!(regular(&[slab(0, 1, 1, 1); 2], &[6]), None, "more axes than the dataset");
        assert_eq!(regular(&[slab(0, 1, 0, 1)], &[6]), None, "no blocks");
        assert_eq!(regular(&[slab(0, 1, 1, 0)], &[6]), None, "empty blocks");
        let most = regular(&[slab(0, 2, SPANS, 1)], &[2 * SPANS]).unwrap();
        assert_eq!(most[0].len() as u64, SPANS);
        assert_eq!(regular(&[slab(0, 2, SPANS + 1, 1)], &[2 * SPANS + 1]), None, "too many blocks");
        let along = |slabs: Vec<Slab>| endless(&Selection::Regular(slabs)).map(|(axis, _)| axis);
        assert_eq!(along(vec![Slab { block: None, ..slab(0, 1, 1, 1) }]), Some(0));
        assert_eq!(along(vec![slab(0, 1, 1, 1), Slab { count: None, ..slab(0, 1, 1, 1) }]), Some(1));
        assert_eq!(along(vec![slab(0, 1, 1, 1)]), None);
        assert_eq!(endless(&Selection::All), None);
        for refused in [Selection::None, Selection::Points(vec![vec![1]]), Selection::Blocks(Vec::new())] {
            assert!(runs(&refused, &[6]).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |to: Vec<Slab>, from: &[u64]| {
            axes(&Selection::Regular(to), &[8], &Selection::All, from).unwrap_err().to_string()
        };
        assert!(refused(vec![slab(1, 4, 2, 2)], &[5]).contains("differ in shape"));
        assert!(refused(vec![slab(1, 4, 2, 2)], &[4, 2]).contains("differ in shape"));
        assert!(refused(vec![slab(5, 1, 1, 4)], &[4]).contains("passes the extent"));
        assert!(refused(vec![slab(u64::MAX, 2, 2, 1)], &[2]).contains("passes the extent"));
        assert!(refused(vec![Slab { count: None, ..slab(0, 1, 1, 1) }], &[8]).contains("unlimited"));
        assert!(refused(vec![slab(0, 1, 2, 2)], &[4]).contains("overlap"));
    }
}
