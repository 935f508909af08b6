//! Orders files along one dimension by their coordinates.

use std::cmp::Ordering;

use super::extent::{Direction, FileExtent, Range, conflict};
use crate::{
    error::{CombineError, Note, Problem},
    values::{Scalar, calendar::TimeUnits, dates::date_of, scalar::Key},
};

/// A file's range along the dimension, ready for comparison.
pub(super) struct Span<'a> {
    pub(super) index: usize,
    pub(super) brief: &'a FileExtent,
    pub(super) range: &'a Range,
    pub(super) size: u64,
    pub(super) low: Key,
    pub(super) high: Key,
}

type Placed = (Option<Vec<usize>>, Vec<Note>);

/// Returns the place of each file along dimension number `dimension`, and notes on irregular steps; no places if no file has
/// coordinates.
pub(super) fn place(name: &str, dimension: usize, briefs: &[&FileExtent]) -> Result<Placed, CombineError> {
    let Some(mut spans) = spans(name, dimension, briefs)? else { return Ok((None, Vec::new())) };
    let down = direction(name, &spans)? == Direction::Decreasing;
    spans.sort_by(|left, right| {
        let order = left.low.order(&right.low);
        if down { order.reverse() } else { order }.then(left.index.cmp(&right.index))
    });
    let mut places = vec![0; briefs.len()];
    let mut at = 0;
    let mut notes = Vec::new();
    let mut firsts: Vec<&Span<'_>> = Vec::new();
    for span in &spans {
        if let Some(last) = firsts.last() {
            if !is_same(name, last, span)? {
                apart(name, last, span, down)?;
                at += 1;
                firsts.push(span);
            }
        } else {
            firsts.push(span);
        }
        if let Some(place) = places.get_mut(span.index) {
            *place = at;
        }
    }
    notes.extend(gaps(name, &firsts));
    Ok((Some(places), notes))
}

pub(super) fn spans<'a>(
    name: &str,
    dimension: usize,
    briefs: &[&'a FileExtent],
) -> Result<Option<Vec<Span<'a>>>, CombineError> {
    let range = |brief: &'a FileExtent| brief.extents.get(dimension).and_then(|extent| extent.range.as_ref());
    let Some(first) = briefs.iter().copied().find(|brief| range(brief).is_some()) else { return Ok(None) };
    if let Some(bare) = briefs.iter().copied().find(|brief| range(brief).is_none()) {
        return Err(conflict(first, bare, Problem::NoCoordinate { name: name.to_owned() }));
    }
    let comparison = comparison_of(dimension, briefs);
    let mut spans: Vec<Span<'a>> = Vec::with_capacity(briefs.len());
    for (index, brief) in briefs.iter().copied().enumerate() {
        let Some(range) = range(brief) else { continue };
        let Some((left, right)) = keys(range, comparison) else {
            let units = range.units.clone().unwrap_or_default();
            return Err(conflict(first, brief, Problem::UnitsNotComparable { name: name.to_owned(), units }));
        };
        if spans.first().is_some_and(|span| !span.low.same_kind(&left)) || !left.same_kind(&right) {
            return Err(conflict(first, brief, Problem::CoordinateKinds { name: name.to_owned() }));
        }
        let (low, high) = if left.order(&right) == Ordering::Greater { (right, left) } else { (left, right) };
        let size = brief.extents.get(dimension).map_or(0, |extent| extent.size);
        spans.push(Span { index, brief, range, size, low, high });
    }
    Ok(Some(spans))
}

/// How coordinates are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    /// As they are stored.
    Plain,
    /// As floats, because some are floats.
    Floats,
    /// As whole numbers, because all are whole though some are stored as floats.
    Whole,
    /// As times.
    Times,
}

impl Comparison {
    fn of<'a, R: Iterator<Item = &'a Range>>(ranges: impl Fn() -> R, one_unit: bool) -> Self {
        let ends = || ranges().flat_map(|range| [&range.first, &range.last]);
        let any_float = ends().any(|end| matches!(end, Scalar::Float(_)));
        match one_unit {
            false => Self::Times,
            true if any_float && !ends().all(|end| matches!(end, Scalar::Float(_))) => {
                if ends().all(|end| end.whole_key().is_some()) { Self::Whole } else { Self::Floats }
            }
            true => Self::Plain,
        }
    }
}

/// Returns how the coordinates of files along a dimension are compared.
pub(super) fn comparison_of(dimension: usize, briefs: &[&FileExtent]) -> Comparison {
    let ranges = || briefs.iter().filter_map(|brief| brief.extents.get(dimension)?.range.as_ref());
    let mut units = ranges().map(|range| (range.units.as_deref(), range.calendar.as_deref()));
    let first = units.next();
    Comparison::of(ranges, units.all(|other| Some(other) == first))
}

fn keys(range: &Range, comparison: Comparison) -> Option<(Key, Key)> {
    Some((key_of(&range.first, range, comparison)?, key_of(&range.last, range, comparison)?))
}

/// Returns the key by which a coordinate is compared.
pub(super) fn key_of(value: &Scalar, range: &Range, comparison: Comparison) -> Option<Key> {
    match comparison {
        Comparison::Plain => return value.key(),
        Comparison::Floats => return value.float_key(),
        Comparison::Whole => return value.whole_key(),
        Comparison::Times => {}
    }
    let units = TimeUnits::parse(range.units.as_deref()?, range.calendar.as_deref())?;
    value.time_key(&units)
}

/// Returns the direction of all files: increasing, unless files of more than one element decrease.
fn direction(name: &str, spans: &[Span<'_>]) -> Result<Direction, CombineError> {
    let mut found: Option<&Span<'_>> = None;
    for span in spans {
        let own = span.range.direction;
        if !own.is_monotone() {
            let problem = Problem::NotMonotone { name: name.to_owned() };
            return Err(CombineError::file(&span.brief.url, problem));
        }
        match found {
            None if own != Direction::Single => found = Some(span),
            Some(first) if own != Direction::Single && own != first.range.direction => {
                let problem = Problem::Directions { name: name.to_owned() };
                return Err(conflict(first.brief, span.brief, problem));
            }
            _ => {}
        }
    }
    Ok(found.map_or(Direction::Increasing, |span| span.range.direction))
}

/// Returns whether two files have the same coordinates.
pub(super) fn is_same(name: &str, left: &Span<'_>, right: &Span<'_>) -> Result<bool, CombineError> {
    if left.low != right.low || left.high != right.high || left.size != right.size {
        return Ok(false);
    }
    let comparable = left.range.units == right.range.units;
    if comparable && left.range.digest != right.range.digest {
        let problem = Problem::SameEnds { name: name.to_owned(), ends: shown(left) };
        return Err(conflict(left.brief, right.brief, problem));
    }
    Ok(true)
}

/// Checks that two files do not overlap.
fn apart(name: &str, left: &Span<'_>, right: &Span<'_>, down: bool) -> Result<(), CombineError> {
    let (below, above) = if down { (right, left) } else { (left, right) };
    match below.high.order(&above.low) {
        Ordering::Less => Ok(()),
        _ => {
            let (name, [left_end, right_end]) = (name.to_owned(), [left, right].map(shown));
            let problem = Problem::Overlap { name, left: left_end, right: right_end };
            Err(conflict(left.brief, right.brief, problem))
        }
    }
}

/// Returns first and last coordinate as text: dates, or numbers with their units.
fn shown(span: &Span<'_>) -> String {
    let Range { first, last, units, calendar, .. } = span.range;
    let date = |value| date_of(value, units.as_deref()?, calendar.as_deref());
    let units = units.as_deref().map(|units| format!(" {units}")).unwrap_or_default();
    match (date(first), date(last)) {
        (Some(from), Some(_)) if first == last => from,
        (Some(from), Some(to)) => format!("{from} to {to}"),
        _ if first == last => format!("{first}{units}"),
        _ => format!("{first} to {last}{units}"),
    }
}

/// Returns notes on steps from file to file that differ from the usual one.
fn gaps(name: &str, spans: &[&Span<'_>]) -> Vec<Note> {
    let ends: Vec<(f64, f64)> =
        spans.iter().filter_map(|span| Some((span.low.as_f64()?, span.high.as_f64()?))).collect();
    let between = |pair: &[(f64, f64)]| match pair {
        [left, right] => (right.0 - left.1).max(left.0 - right.1),
        _ => 0.0,
    };
    let steps: Vec<f64> = ends.windows(2).map(between).collect();
    let own = spans.iter().zip(&ends).filter(|(span, _)| span.size > 1);
    #[expect(clippy::cast_precision_loss, reason = "steps are compared roughly")]
    let own = own.map(|(span, (low, high))| (high - low) / (span.size - 1) as f64);
    let Some(usual) = usual(own.chain(steps.iter().copied())) else { return Vec::new() };
    let odd = |step: &f64| !(0.75..=1.25).contains(&(step / usual));
    let mut notes = Vec::new();
    let pairs = spans.windows(2).zip(&steps).filter(|(_, step)| odd(step));
    let count = pairs.clone().count();
    for (pair, step) in pairs.take(MOST_LISTED) {
        if let [left, right] = pair {
            let ratio = (step / usual * 1e3).round() / 1e3;
            let text = format!(
                "{ratio} usual steps between {} ({}) and {} ({})",
                shown(left),
                left.brief.url,
                shown(right),
                right.brief.url
            );
            notes.push(Note::new(name, text));
        }
    }
    if count > MOST_LISTED {
        notes.push(Note::new(name, format!("{count} irregular steps in all")));
    }
    notes
}

/// Returns the most frequent step, counting steps within a quarter of each other as equal; of several the shortest.
fn usual(steps: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = steps.filter(|step| *step > 0.0).collect();
    all.sort_by(f64::total_cmp);
    let (mut most, mut end) = ((0, 0), 0);
    for (first, least) in all.iter().enumerate() {
        while all.get(end).is_some_and(|step| *step <= least * 1.25) {
            end += 1;
        }
        if end - first > most.1 {
            most = (first, end - first);
        }
    }
    all.get(most.0 + most.1.saturating_sub(1) / 2).copied()
}

const MOST_LISTED: usize = 20;
