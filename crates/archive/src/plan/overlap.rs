//! Files whose coordinates overlap in part: each coordinate comes from the first, or the last, of the files that have it.

use std::cmp::Ordering;

use super::{
    extent::{FileExtent, Selection},
    model::{Coordinates, LeftOut, Plan, Source},
    options::OnDuplicate,
    order::Line,
};
use crate::{
    Along, Layout,
    error::{CombineError, Note, Problem},
    values::scalar::Key,
};

/// What becomes of a file that overlaps others.
pub(super) enum Change {
    /// Other files have all of its coordinates.
    LeftOut,
    /// Some elements are selected, and their extent.
    Clipped(FileExtent, Selection),
}

/// Selects from files that overlap along the only dimension the elements that each contributes. Returns the files that
/// change, by their numbers.
///
/// # Errors
/// Files whose coordinates interleave, so that no contiguous selection separates them.
pub(super) fn resolve(
    source: Source<'_>,
    era: &[u32],
    coordinates: &Coordinates<'_>,
    layout: &Layout,
    on_duplicate: OnDuplicate,
) -> Result<Vec<(u32, Change)>, CombineError> {
    let ([Along::Concat(name)], false) = (layout.along.as_slice(), on_duplicate == OnDuplicate::Error) else {
        return Ok(Vec::new());
    };
    let Some(line) = Line::new(name, 0, source, era)? else { return Ok(Vec::new()) };
    let mut selected: Vec<(u32, Option<Selection>)> = Vec::new();
    for cluster in clusters(&line, &line.sorted(false)) {
        if overlaps(&line, cluster)? {
            selected.extend(
                Cluster { name, line: &line, files: cluster, coordinates, on_duplicate }.selections()?,
            );
        }
    }
    selected.sort_unstable_by_key(|(file, _)| *file);
    let mut changes = Vec::new();
    for (file, selection) in selected {
        let number = u32::try_from(line.row(file)).unwrap_or(u32::MAX);
        match selection {
            None => changes.push((number, Change::LeftOut)),
            Some(selection) if selection.start == 0 && selection.end == selection.of => {}
            Some(selection) => {
                let extent = clipped(source, number, selection, name, coordinates);
                let extent = extent.ok_or_else(|| source.misfit(number, missing(name)))?;
                changes.push((number, Change::Clipped(extent, selection)));
            }
        }
    }
    Ok(changes)
}

/// Reports what becomes of files that overlap others.
pub(super) fn report(changes: &[(u32, Change)], source: Source<'_>, name: &str, plan: &mut Plan) {
    for (file, change) in changes {
        let url = source.url(*file);
        match change {
            Change::LeftOut => {
                let reason = format!("other files have all of its coordinates {name}");
                plan.left_out.push(LeftOut { row: (*file).into(), url, reason });
            }
            Change::Clipped(_, Selection { start, end, of }) => {
                let text = format!(
                    "elements {start} to {} of {of} along {name} are taken, others are in other files",
                    end.saturating_sub(1),
                );
                plan.notes.push(Note::new(url, text));
            }
        }
    }
}

/// Returns groups of files of which each overlaps one before it.
fn clusters<'a>(line: &Line<'_>, sorted: &'a [u32]) -> Vec<&'a [u32]> {
    let mut found = Vec::new();
    let (mut start, mut end) = (0, None::<Key>);
    for (n, file) in sorted.iter().enumerate() {
        let Some((low, high)) = line.ends(*file) else { continue };
        if end.as_ref().is_some_and(|end| low.order(end) == Ordering::Greater) {
            found.extend(sorted.get(start..n).filter(|files| files.len() > 1));
            (start, end) = (n, None);
        }
        if end.as_ref().is_none_or(|end| high.order(end) == Ordering::Greater) {
            end = Some(high);
        }
    }
    found.extend(sorted.get(start..));
    found
}

/// Returns whether files overlap other than with the same coordinates.
fn overlaps(line: &Line<'_>, cluster: &[u32]) -> Result<bool, CombineError> {
    for pair in cluster.windows(2) {
        if let [left, right] = pair
            && !line.is_same(*left, *right)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Files that overlap.
struct Cluster<'a, 'b> {
    name: &'a str,
    line: &'a Line<'b>,
    files: &'a [u32],
    coordinates: &'a Coordinates<'a>,
    on_duplicate: OnDuplicate,
}

impl Cluster<'_, '_> {
    /// Returns the selection of each file; `None` if other files have all of its coordinates.
    fn selections(&self) -> Result<Vec<(u32, Option<Selection>)>, CombineError> {
        // Coordinate, number of the file here, and place in the file.
        let mut all: Vec<(Key, usize, u64)> = Vec::new();
        for (n, file) in self.files.iter().enumerate() {
            let keys = self.keys(*file)?;
            all.extend((0..).zip(keys).map(|(at, key)| (key, n, at)));
        }
        all.sort_by(|left, right| {
            let order = self.files.get(left.1).cmp(&self.files.get(right.1));
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
                None => *slot = Some(Selection { start: at, end: at + 1, of: self.line.size(*file) }),
                Some(_) if last.is_some() => return Err(self.between(n, last)),
                Some(taken) if at == taken.end => taken.end += 1,
                Some(taken) if at.checked_add(1) == Some(taken.start) => taken.start = at,
                Some(_) => return Err(self.between(n, last)),
            }
        }
        Ok(self.files.iter().copied().zip(taken).collect())
    }

    /// Returns the keys of all coordinates of a file.
    fn keys(&self, file: u32) -> Result<Vec<Key>, CombineError> {
        let values = (self.coordinates)(self.line.row(file), self.name);
        let keys = values.and_then(|values| self.line.keys(file, &values));
        keys.filter(|keys| keys.len() as u64 == self.line.size(file))
            .ok_or_else(|| CombineError::file(self.line.url(file), missing(self.name)))
    }

    fn between(&self, n: usize, other: Option<usize>) -> CombineError {
        let problem = Problem::Interleaved { name: self.name.to_owned() };
        let other = other.or(if n == 0 { Some(1) } else { Some(n - 1) });
        match (self.files.get(n), other.and_then(|other| self.files.get(other))) {
            (Some(one), Some(other)) => self.line.conflict(*other, *one, problem),
            _ => CombineError::Nothing,
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::OverlapWithMissing { name: name.to_owned() }
}

/// Returns the extent of a selection.
fn clipped(
    source: Source<'_>,
    file: u32,
    selection: Selection,
    name: &str,
    coordinates: &Coordinates<'_>,
) -> Option<FileExtent> {
    let mut clipped = source.files.extent(file)?.clone();
    let values = coordinates(file.into(), name)?;
    let (start, end) = (usize::try_from(selection.start).ok()?, usize::try_from(selection.end).ok()?);
    let extent = clipped.extents_mut().first_mut()?;
    extent.size = selection.end - selection.start;
    extent.range = extent.range.as_ref().and_then(|range| range.part(values.get(start..end)?));
    Some(clipped)
}
