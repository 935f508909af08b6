//! Files whose coordinates overlap in part: each coordinate comes from the first, or the last, of the files that have it.

use std::cmp::Ordering;

use super::{
    extent::{FileExtent, Selection, conflict},
    model::{LeftOut, Plan},
    options::OnDuplicate,
    order::{Comparison, Span, comparison_of, is_same, key_of, spans},
};
use crate::{
    Along, Layout,
    error::{CombineError, Note, Problem},
    values::{Scalar, scalar::Key},
};

/// Returns all coordinates of a file (by its row) along a dimension, if they are known.
pub(super) type Coordinates<'a> = dyn Fn(u64, &str) -> Option<Vec<Scalar>> + 'a;

/// Selects from files that overlap along the only dimension the elements that each contributes, and returns the extents of
/// these selections; `None` if no files overlap.
///
/// # Errors
/// Files whose coordinates interleave, so that no contiguous selection separates them.
pub(super) fn resolve(
    briefs: &[&FileExtent],
    coordinates: &Coordinates<'_>,
    layout: &Layout,
    on_duplicate: OnDuplicate,
    plan: &mut Plan,
) -> Result<Option<Vec<FileExtent>>, CombineError> {
    let ([Along::Concat(name)], false) = (layout.along.as_slice(), on_duplicate == OnDuplicate::Error) else {
        return Ok(None);
    };
    let Some(mut spans) = spans(name, 0, briefs)? else { return Ok(None) };
    let comparison = comparison_of(0, briefs);
    spans.sort_by(|left, right| left.low.order(&right.low));
    let mut changed: Vec<(usize, Option<Selection>)> = Vec::new();
    for cluster in clusters(&spans) {
        if overlaps(name, cluster)? {
            changed.extend(
                Cluster { name, files: cluster, comparison, coordinates, on_duplicate }.selections()?,
            );
        }
    }
    if changed.is_empty() {
        return Ok(None);
    }
    let mut of_file = vec![Some(None); briefs.len()];
    for (index, taken) in changed {
        if let Some(slot) = of_file.get_mut(index) {
            *slot = taken.map(Some);
        }
    }
    let files = briefs.iter().zip(of_file);
    let clip = |(brief, taken): (&&FileExtent, _)| clipped((*brief).clone(), taken, name, coordinates, plan);
    Ok(Some(files.filter_map(clip).collect()))
}

/// Returns groups of files of which each overlaps one before it.
fn clusters<'a, 'b>(spans: &'a [Span<'b>]) -> Vec<&'a [Span<'b>]> {
    let mut found = Vec::new();
    let (mut start, mut end) = (0, None::<&Key>);
    for (n, span) in spans.iter().enumerate() {
        if end.is_some_and(|end| span.low.order(end) == Ordering::Greater) {
            found.extend(spans.get(start..n));
            (start, end) = (n, None);
        }
        if end.is_none_or(|end| span.high.order(end) == Ordering::Greater) {
            end = Some(&span.high);
        }
    }
    found.extend(spans.get(start..));
    found
}

/// Returns whether files overlap other than with the same coordinates.
fn overlaps(name: &str, cluster: &[Span<'_>]) -> Result<bool, CombineError> {
    for pair in cluster.windows(2) {
        if let [left, right] = pair
            && !is_same(name, left, right)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Files that overlap.
struct Cluster<'a, 'b> {
    name: &'a str,
    files: &'a [Span<'b>],
    comparison: Comparison,
    coordinates: &'a Coordinates<'a>,
    on_duplicate: OnDuplicate,
}

impl Cluster<'_, '_> {
    /// Returns the selection of each file, with the file's index; `None` if other files have all of its coordinates.
    fn selections(&self) -> Result<Vec<(usize, Option<Selection>)>, CombineError> {
        // Coordinate, number of the file here, and place in the file.
        let mut all: Vec<(Key, usize, u64)> = Vec::new();
        for (n, file) in self.files.iter().enumerate() {
            let keys = self.keys(file)?;
            all.extend((0..).zip(keys).map(|(at, key)| (key, n, at)));
        }
        let row = |n: usize| self.files.get(n).map(|file| file.brief.row);
        all.sort_by(|left, right| {
            let order = row(left.1).cmp(&row(right.1));
            let order = if self.on_duplicate == OnDuplicate::Last { order.reverse() } else { order };
            left.0.order(&right.0).then(order)
        });
        all.dedup_by(|later, first| later.0.order(&first.0) == Ordering::Equal);
        let mut taken: Vec<Option<Selection>> = vec![None; self.files.len()];
        let mut before: Option<usize> = None;
        for (_, n, at) in all {
            let (Some(slot), Some(file)) = (taken.get_mut(n), self.files.get(n)) else { continue };
            let last = before.replace(n).filter(|last| *last != n);
            match slot {
                None => *slot = Some(Selection { start: at, end: at + 1, of: file.size }),
                Some(_) if last.is_some() => return Err(self.between(n, last)),
                Some(taken) if at == taken.end => taken.end += 1,
                Some(taken) if at.checked_add(1) == Some(taken.start) => taken.start = at,
                Some(_) => return Err(self.between(n, last)),
            }
        }
        Ok(self.files.iter().map(|file| file.index).zip(taken).collect())
    }

    /// Returns the keys of all coordinates of a file.
    fn keys(&self, file: &Span<'_>) -> Result<Vec<Key>, CombineError> {
        let values = (self.coordinates)(file.brief.row, self.name);
        let key = |value: &Scalar| key_of(value, file.range, self.comparison);
        let keys: Option<Vec<Key>> = values.and_then(|values| values.iter().map(key).collect());
        keys.filter(|keys| keys.len() as u64 == file.size).ok_or_else(|| {
            CombineError::file(&file.brief.url, Problem::OverlapWithMissing { name: self.name.to_owned() })
        })
    }

    fn between(&self, n: usize, other: Option<usize>) -> CombineError {
        let problem = Problem::Interleaved { name: self.name.to_owned() };
        let other = other.or(if n == 0 { Some(1) } else { Some(n - 1) });
        match (self.files.get(n), other.and_then(|other| self.files.get(other))) {
            (Some(one), Some(other)) => conflict(other.brief, one.brief, problem),
            _ => CombineError::Nothing,
        }
    }
}

/// Returns the extent of a selection; `None` if nothing is selected.
fn clipped(
    mut brief: FileExtent,
    taken: Option<Option<Selection>>,
    name: &str,
    coordinates: &Coordinates<'_>,
    plan: &mut Plan,
) -> Option<FileExtent> {
    let Some(taken) = taken else {
        let reason = format!("other files have all of its coordinates {name}");
        plan.left_out.push(LeftOut { row: brief.row, url: brief.url, reason });
        return None;
    };
    let Some(taken) = taken.filter(|taken| *taken != Selection { start: 0, end: taken.of, of: taken.of })
    else {
        return Some(brief);
    };
    let values = coordinates(brief.row, name)?;
    let (start, end) = (usize::try_from(taken.start).ok()?, usize::try_from(taken.end).ok()?);
    let extent = brief.extents.first_mut()?;
    extent.size = taken.end - taken.start;
    extent.range = extent.range.as_ref().and_then(|range| range.part(values.get(start..end)?));
    let text = format!(
        "elements {} to {} of {} along {name} are taken, others are in other files",
        taken.start,
        taken.end.saturating_sub(1),
        taken.of
    );
    plan.notes.push(Note::new(&brief.url, text));
    brief.selection = Some(taken);
    Some(brief)
}
