//! Orders files along one dimension by their coordinates.

use std::{cmp::Ordering, collections::BTreeMap};

use virtualize::{OptionName, Remedy};

use super::{
    Omitted, OnDuplicate, Plan, Result, Source,
    extent::{Direction, Range},
};
use crate::{
    error::{CombineError, Note, Problem},
    values::{Key, Scalar, index, snap},
};

type Placed = (Option<Vec<u32>>, Vec<Note>);

/// Returns the place of each file of a set along dimension number `dimension`, and notes on irregular steps; no places if
/// no file has coordinates.
pub(super) fn place(name: &str, dimension: usize, source: Source<'_>, set: &[u32]) -> Result<Placed> {
    let Some(line) = Line::new(name, dimension, source, set)? else { return Ok((None, Vec::new())) };
    let down = line.direction()? == Direction::Decreasing;
    let mut places = vec![0; set.len()];
    let mut at = 0;
    let order = line.sorted(down);
    // The first file of each place.
    let mut firsts: Vec<u32> = Vec::with_capacity(order.len());
    for file in order {
        match firsts.last() {
            Some(last) if line.is_same(*last, file)? => {}
            Some(last) => {
                line.check_apart(*last, file, down)?;
                at += 1;
                firsts.push(file);
            }
            None => firsts.push(file),
        }
        if let Some(place) = places.get_mut(index(file)) {
            *place = at;
        }
    }
    let notes = line.gaps(&firsts);
    Ok((Some(places), notes))
}

/// The files of a set along one dimension, on which all have coordinates that can be compared. A file is given by its
/// place in the set.
pub(super) struct Line<'a> {
    name: &'a str,
    dimension: usize,
    source: Source<'a>,
    set: &'a [u32],
    comparison: Comparison,
    /// Lowest and highest coordinate of each file, if they are compared as times.
    times: Vec<(Key, Key)>,
    /// Ends of files, and the numbers that they are but for rounding; those that are not here are themselves.
    snapped: BTreeMap<u64, f64>,
}

impl<'a> Line<'a> {
    /// Prepares the comparison of files; `None` if no file has coordinates.
    ///
    /// # Errors
    /// Files of which only some have coordinates; coordinates that cannot be compared.
    pub(super) fn new(
        name: &'a str,
        dimension: usize,
        source: Source<'a>,
        set: &'a [u32],
    ) -> Result<Option<Self>> {
        let comparison = Comparison::Plain;
        let snapped = BTreeMap::new();
        let mut line = Self { name, dimension, source, set, comparison, times: Vec::new(), snapped };
        let count = u32::try_from(set.len()).unwrap_or(u32::MAX);
        let Some(first) = (0..count).find(|file| line.range(*file).is_some()) else { return Ok(None) };
        if let Some(bare) = (0..count).find(|file| line.range(*file).is_none()) {
            return Err(line.conflict(
                first,
                bare,
                Problem::new(format!(
                    "the second file has no coordinate {name}; cannot determine the file order"
                )),
            ));
        }
        line.comparison = line.comparison();
        line.check(count, first)?;
        line.snap(count);
        Ok(Some(line))
    }

    /// Finds the ends of files that differ by rounding, if all files are evenly spaced by the same step, as pixels are.
    fn snap(&mut self, count: u32) {
        let mut ends = Vec::new();
        let (mut step, mut largest, mut is_grid) = (f64::INFINITY, 0_f64, false);
        for file in 0..count {
            let Some(Range {
                first: Scalar::Float(first), last: Scalar::Float(last), units, is_even, ..
            }) = self.range(file)
            else {
                return;
            };
            if units.as_ref().is_some_and(|units| units.of_times().is_some()) {
                return;
            }
            let size = self.size(file);
            if size > 2 && !is_even {
                return;
            }
            is_grid |= is_even;
            if size > 1 {
                #[expect(clippy::cast_precision_loss, reason = "steps are compared roughly")]
                let own = (last - first).abs() / (size - 1) as f64;
                (step, largest) = (step.min(own), largest.max(own));
            }
            ends.extend([*first, *last]);
        }
        // Steps of binary32 coordinates differ by more than a millionth.
        if self.comparison != Comparison::Plain || !is_grid || largest > step * 1.01 {
            return;
        }
        ends.sort_by(f64::total_cmp);
        let canonical = snap(&ends, step);
        let moved = ends.iter().zip(canonical).filter(|(end, canonical)| *end != canonical);
        self.snapped = moved.map(|(end, canonical)| (end.to_bits(), canonical)).collect();
    }

    /// Returns the key by which a coordinate is compared, unless it is compared as a time.
    fn plain_key(&self, value: &Scalar) -> Option<Key> {
        match value {
            Scalar::Float(number) if !self.snapped.is_empty() => {
                Some(Key::Float(*self.snapped.get(&number.to_bits()).unwrap_or(number) + 0.0))
            }
            _ => plain_key(value, self.comparison),
        }
    }

    /// Checks that all coordinates can be compared with those of the first file.
    fn check(&mut self, count: u32, first: u32) -> Result<()> {
        let mut kind: Option<Key> = None;
        for file in 0..count {
            let Some(range) = self.range(file) else { continue };
            let ends = self.keys(file, &[range.first.clone(), range.last.clone()]);
            let Some([left, right]) = ends.and_then(|ends| <[Key; 2]>::try_from(ends).ok()) else {
                let problem = if self.comparison == Comparison::Times {
                    let units = range.units().unwrap_or_default();
                    Problem::new(format!("{} has units \"{units}\", which cannot be compared", self.name))
                } else {
                    self.kinds_differ()
                };
                return Err(self.source.misfit(self.file(file), problem));
            };
            if kind.as_ref().is_some_and(|kind| !kind.same_kind(&left)) || !left.same_kind(&right) {
                return Err(self.conflict(first, file, self.kinds_differ()));
            }
            if kind.is_none() {
                kind = Some(left.clone());
            }
            if self.comparison == Comparison::Times {
                self.times.push(ascending(left, right));
            }
        }
        Ok(())
    }

    fn kinds_differ(&self) -> Problem {
        Problem::new(format!("coordinates {} of different kinds", self.name))
    }

    fn file(&self, file: u32) -> u32 {
        self.set.get(index(file)).copied().unwrap_or(u32::MAX)
    }

    /// Returns the row of a file.
    pub(super) fn row(&self, file: u32) -> u64 {
        self.file(file).into()
    }

    pub(super) fn range(&self, file: u32) -> Option<&'a Range> {
        self.source.files.extent(self.file(file))?.range(self.dimension)
    }

    /// Returns the number of elements of a file.
    pub(super) fn size(&self, file: u32) -> u64 {
        self.source.files.extent(self.file(file)).map_or(0, |extent| extent.size(self.dimension))
    }

    pub(super) fn url(&self, file: u32) -> String {
        self.source.url(self.file(file))
    }

    pub(super) fn conflict(&self, left: u32, right: u32, problem: Problem) -> CombineError {
        self.source.conflict(self.file(left), self.file(right), problem)
    }

    /// Returns the lowest and the highest coordinate of a file.
    pub(super) fn ends(&self, file: u32) -> Option<(Key, Key)> {
        if self.comparison == Comparison::Times {
            return self.times.get(index(file)).cloned();
        }
        let range = self.range(file)?;
        let key = |value| self.plain_key(value);
        Some(ascending(key(&range.first)?, key(&range.last)?))
    }

    /// Returns the files in order of their lowest coordinates, in descending order if `down`; equal ones in the order of
    /// their rows.
    pub(super) fn sorted(&self, down: bool) -> Vec<u32> {
        let low = |file: u32| self.ends(file).map(|(low, _)| low);
        let compare = |left: u32, right: u32| match (low(left), low(right)) {
            (Some(left), Some(right)) => left.order(&right),
            _ => Ordering::Equal,
        };
        let mut order: Vec<u32> = (0..u32::try_from(self.set.len()).unwrap_or(u32::MAX)).collect();
        // The sort is stable, and fast for files that are listed in order.
        order.sort_by(|left, right| {
            let order = compare(*left, *right);
            if down { order.reverse() } else { order }
        });
        order
    }

    /// Returns how the coordinates are compared.
    fn comparison(&self) -> Comparison {
        let ranges = || (0..).map_while(|file| self.range(file));
        let mut units = ranges().map(|range| &range.units);
        let first = units.next();
        let ends = || ranges().flat_map(|range| [&range.first, &range.last]);
        let is_float = |end: &Scalar| matches!(end, Scalar::Float(_));
        if !units.all(|other| Some(other) == first) {
            Comparison::Times
        } else if !ends().any(is_float) || ends().all(is_float) {
            Comparison::Plain
        } else if ends().all(|end| end.whole_key().is_some()) {
            Comparison::Whole
        } else {
            Comparison::Floats
        }
    }

    /// Returns the keys of coordinates of a file; `None` if some have none.
    pub(super) fn keys(&self, file: u32, values: &[Scalar]) -> Option<Vec<Key>> {
        let range = self.range(file)?;
        if self.comparison != Comparison::Times {
            return values.iter().map(|value| self.plain_key(value)).collect();
        }
        let units = range.units.as_ref()?.of_times()?;
        values.iter().map(|value| value.time_key(&units)).collect()
    }

    /// Returns the direction of all files: increasing, unless files of more than one element decrease.
    fn direction(&self) -> Result<Direction> {
        let mut found: Option<(u32, Direction)> = None;
        for (file, range) in (0..).map_while(|file| Some((file, self.range(file)?))) {
            let own = range.direction;
            if own == Direction::Neither {
                let problem =
                    Problem::new(format!("{} neither increases nor decreases throughout", self.name));
                return Err(self.source.misfit(self.file(file), problem));
            }
            match found {
                None if own != Direction::Single => found = Some((file, own)),
                Some((first, before)) if own != Direction::Single && own != before => {
                    let text = format!("{} increases in one of them and decreases in the other", self.name);
                    return Err(self.conflict(first, file, Problem::new(text)));
                }
                _ => {}
            }
        }
        Ok(found.map_or(Direction::Increasing, |(_, direction)| direction))
    }

    /// Returns whether two files have the same coordinates.
    pub(super) fn is_same(&self, left: u32, right: u32) -> Result<bool> {
        if self.ends(left) != self.ends(right) || self.size(left) != self.size(right) {
            return Ok(false);
        }
        let (Some(one), Some(other)) = (self.range(left), self.range(right)) else { return Ok(true) };
        // Whether coordinates between equal ends agree is checked when the files are joined.
        if one.digest != other.digest && self.snapped.is_empty() {
            let (name, ends) = (self.name, self.shown(left));
            let text = format!("{name} covers the same range ({ends}) in both files, with different values");
            return Err(self.conflict(left, right, Problem::new(text)));
        }
        Ok(true)
    }

    /// Groups files in sorted order by their coordinates.
    pub(super) fn columns(&self, sorted: &[u32]) -> Result<Vec<Vec<u32>>> {
        let mut columns: Vec<Vec<u32>> = Vec::new();
        for file in sorted {
            let last = columns.last().and_then(|column| column.first().copied());
            let is_same = last.map(|last| self.is_same(last, *file)).transpose()?.unwrap_or_default();
            match columns.last_mut().filter(|_| is_same) {
                Some(column) => column.push(*file),
                None => columns.push(vec![*file]),
            }
        }
        Ok(columns)
    }

    /// Checks that two files do not overlap.
    fn check_apart(&self, left: u32, right: u32, down: bool) -> Result<()> {
        let (below, above) = if down { (right, left) } else { (left, right) };
        let (Some((_, high)), Some((low, _))) = (self.ends(below), self.ends(above)) else { return Ok(()) };
        if high.order(&low) == Ordering::Less {
            return Ok(());
        }
        let text = format!("{} overlaps: {} and {}", self.name, self.shown(left), self.shown(right));
        Err(self.conflict(left, right, Problem::new(text).with(choose_one())))
    }

    /// Returns first and last coordinate as text: dates, or numbers with their units.
    fn shown(&self, file: u32) -> String {
        let Some(range) = self.range(file) else { return String::new() };
        let Range { first, last, .. } = range;
        let units = range.units().map(|units| format!(" {units}")).unwrap_or_default();
        match (range.date(first), range.date(last)) {
            (Some(from), Some(_)) if first == last => from,
            (Some(from), Some(to)) => format!("{from} to {to}"),
            _ if first == last => format!("{first}{units}"),
            _ => format!("{first} to {last}{units}"),
        }
    }

    /// Returns notes on steps from file to file that differ from the usual one.
    fn gaps(&self, files: &[u32]) -> Vec<Note> {
        let ends = |file: u32| {
            let (low, high) = self.ends(file)?;
            Some((low.as_f64()?, high.as_f64()?))
        };
        let step = |pair: &[u32]| match pair {
            [left, right] => {
                let ((low, high), (next_low, next_high)) = (ends(*left)?, ends(*right)?);
                Some((next_low - high).max(low - next_high))
            }
            _ => None,
        };
        let own = files.iter().filter_map(|file| {
            let ((low, high), size) = (ends(*file)?, self.size(*file));
            #[expect(clippy::cast_precision_loss, reason = "steps are compared roughly")]
            (size > 1).then(|| (high - low) / (size - 1) as f64)
        });
        let Some(usual) = usual(own.chain(files.windows(2).filter_map(step))) else { return Vec::new() };
        let odd = |step: f64| !(0.75..=1.25).contains(&(step / usual));
        let (mut notes, mut count) = (Vec::new(), 0);
        for pair in files.windows(2) {
            let ([left, right], Some(step)) = (pair, step(pair).filter(|step| odd(*step))) else { continue };
            count += 1;
            if count <= MAX_LISTED {
                let ratio = (step / usual * 1e3).round() / 1e3;
                let [left, right] = [*left, *right].map(|file| (self.shown(file), self.url(file)));
                let text = format!(
                    "{ratio} times the usual step between {} ({}) and {} ({})",
                    left.0, left.1, right.0, right.1
                );
                notes.push(Note::new(self.name, text));
            }
        }
        if count > MAX_LISTED {
            notes.push(Note::new(self.name, format!("{count} irregular steps in all")));
        }
        notes
    }
}

/// Returns what can be done about files with the same coordinates.
fn choose_one() -> Remedy {
    let effect = "take each coordinate from the file that was listed first";
    Remedy::set(OptionName::OnDuplicate, "first", effect).or(Remedy::set(
        OptionName::OnDuplicate,
        "last",
        "take it from the one that was listed last",
    ))
}

fn ascending(left: Key, right: Key) -> (Key, Key) {
    if left.order(&right) == Ordering::Greater { (right, left) } else { (left, right) }
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

/// Returns the key by which a coordinate is compared, unless it is compared as a time.
fn plain_key(value: &Scalar, comparison: Comparison) -> Option<Key> {
    match comparison {
        Comparison::Plain => value.key(),
        Comparison::Floats => value.float_key(),
        Comparison::Whole => value.whole_key(),
        Comparison::Times => None,
    }
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

const MAX_LISTED: usize = 20;

/// A name as texts and numbers by turns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Natural(Vec<(String, usize, String)>, String);

/// Sorts items by their names. Asks for each name once if the items are in order already.
pub(super) fn sort(items: &mut [u32], name: impl Fn(u32) -> String) {
    let mut before = None;
    let is_sorted = items.iter().all(|item| {
        let own = natural(&name(*item));
        let follows = before.as_ref().is_none_or(|before| *before <= own);
        before = Some(own);
        follows
    });
    if !is_sorted {
        items.sort_by_cached_key(|item| natural(&name(*item)));
    }
}

/// Returns the key by which a name is sorted.
fn natural(name: &str) -> Natural {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits_at);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(end);
        let number = digits.trim_start_matches('0');
        parts.push((text.to_owned(), number.len(), number.to_owned()));
        rest = tail;
    }
    // Names that differ by zeros alone still have an order.
    Natural(parts, name.to_owned())
}

/// Returns which of the files at a place is kept, and reports the others.
pub(super) fn resolve_duplicates(
    there: &[u32],
    source: Source<'_>,
    on_duplicate: OnDuplicate,
    plan: &mut Plan,
) -> Result<Option<u32>> {
    let split = match on_duplicate {
        OnDuplicate::Last => there.split_last(),
        OnDuplicate::First | OnDuplicate::Error => there.split_first(),
    };
    let Some((kept, others)) = split else { return Ok(None) };
    for other in others {
        let digests = |file: u32| -> Vec<u64> {
            let extents = source.files.extent(file).map(|extent| &*extent.0).unwrap_or_default();
            extents.iter().filter_map(|extent| Some(extent.range.as_ref()?.digest)).collect()
        };
        if on_duplicate != OnDuplicate::Error && digests(*kept) != digests(*other) {
            let text = "coordinates cover the same range in both files, with different values";
            return Err(source.conflict(*kept, *other, Problem::of(text)));
        }
        if on_duplicate == OnDuplicate::Error {
            return Err(source.conflict(
                *kept,
                *other,
                Problem::of("duplicate coordinates").with(choose_one()),
            ));
        }
        let reason = format!("it has the same coordinates as {}", source.url(*kept));
        plan.omitted.push(Omitted { row: (*other).into(), url: source.url(*other), reason });
    }
    Ok(Some(*kept))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

    use super::sort;

    #[test]
    fn numbers_count_as_numbers() {
        let names = ["b10", "b9", "a", "b010", "b1x2", "b1x10", "b99999999999999999999999"];
        let mut order: Vec<u32> = (0..7).collect();
        sort(&mut order, |item| names[item as usize].to_owned());
        let names: Vec<_> = order.into_iter().map(|item| names[item as usize]).collect();
        assert_eq!(names, ["a", "b1x2", "b1x10", "b9", "b010", "b10", "b99999999999999999999999"]);
        let mut descending = [2, 1, 0];
        sort(&mut descending, |item| item.to_string());
        assert_eq!(descending, [0, 1, 2]);
    }
}
