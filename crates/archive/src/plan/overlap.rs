//! Files whose coordinates overlap in part: each coordinate comes from the first, or the last, of the files that have it.

use std::{
    cell::RefCell,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use virtualize::Remedy;

use super::{
    Block, Coordinates, FileSet, Known, Omitted, OnDuplicate, Plan, PlanOptions, Result, Selections, Source,
    extent::{FileExtent, Selection},
    grid::{Files, arrange, extent_of, number},
    order::Line,
};
use crate::{
    Along, Layout,
    compat::{
        DimRole, MAX_KEPT, Signature, numbers_agree,
        roles::Geometry,
        signature::{ArrayParts, ChunkLayout},
    },
    error::{CombineError, Note, Problem},
    values::{Key, Scalar},
};

/// What becomes of a file that overlaps others.
pub(super) enum Change {
    /// Other files have all of its coordinates.
    Omitted,
    /// Some elements are selected along some of the dimensions, and their extent.
    Clipped(FileExtent, Selections),
}

/// Selects from files that overlap along existing dimensions the elements that each contributes. Along one of several
/// dimensions, files with the same coordinates share a selection. Returns the files that change, by their numbers.
///
/// # Errors
/// Files whose coordinates interleave, so that no contiguous selection separates them; files of which others have all
/// coordinates along one of several dimensions.
pub(super) fn resolve(
    source: Source<'_>,
    set: &[u32],
    coordinates: &Coordinates<'_>,
    layout: &Layout,
    on_duplicate: OnDuplicate,
) -> Result<Vec<(u32, Change)>> {
    let mut changes: BTreeMap<u32, Change> = BTreeMap::new();
    if on_duplicate == OnDuplicate::Error {
        return Ok(Vec::new());
    }
    let is_only = layout.along.len() == 1;
    let mut lines = Vec::new();
    for (dimension, along) in layout.along.iter().enumerate() {
        let line = Line::new(along.name(), dimension, source, set)?;
        let sorted = line.as_ref().map(|line| line.sorted(false));
        let sorted = sorted.unwrap_or_else(|| (0..).zip(set).map(|(file, _)| file).collect());
        let columns: Vec<Vec<u32>> = match &line {
            Some(line) if !is_only => line.columns(&sorted)?,
            _ => sorted.iter().map(|file| vec![*file]).collect(),
        };
        lines.push((along, line, columns));
    }
    for (dimension, (along, line, columns)) in lines.iter().enumerate() {
        let (Along::Concat(name), Some(line)) = (along, line) else { continue };
        let others = lines.iter().enumerate().filter(|(other, _)| *other != dimension);
        let others: Vec<&Vec<Vec<u32>>> = others.map(|(_, (.., columns))| columns).collect();
        // The file of each column that was listed first or last stands for the others.
        let stands = |column: &Vec<u32>| match on_duplicate {
            OnDuplicate::Last => column.iter().max().copied(),
            OnDuplicate::First | OnDuplicate::Error => column.iter().min().copied(),
        };
        let column_of: BTreeMap<u32, &Vec<u32>> =
            columns.iter().filter_map(|column| Some((stands(column)?, column))).collect();
        let standing: Vec<u32> = columns.iter().filter_map(stands).collect();
        let mut selected: Vec<(u32, Option<Selection>)> = Vec::new();
        for cluster in clusters(line, &standing) {
            if overlaps(line, cluster)? {
                let of_cluster = cluster.iter().filter_map(|file| Some((*file, *column_of.get(file)?)));
                check_order(line, name, of_cluster, &others)?;
                selected
                    .extend(Cluster { name, line, files: cluster, coordinates, on_duplicate }.selections()?);
            }
        }
        for (file, selection) in selected {
            for file in column_of.get(&file).copied().into_iter().flatten() {
                let number = u32::try_from(line.row(*file)).unwrap_or(u32::MAX);
                match selection {
                    None if !is_only => {
                        let text = format!("other files have all of its coordinates along {name}");
                        return Err(source.misfit(number, Problem::new(text)));
                    }
                    None => drop(changes.insert(number, Change::Omitted)),
                    Some(selection) if selection.start == 0 && selection.end == selection.of => {}
                    Some(selection) => {
                        let known = changes.remove(&number);
                        let clipped =
                            clip(source, number, (dimension, selection), known, (name, coordinates));
                        let clipped = clipped.ok_or_else(|| source.misfit(number, missing(name)))?;
                        changes.insert(number, clipped);
                    }
                }
            }
        }
    }
    Ok(changes.into_iter().collect())
}

/// Checks that files with the same coordinates along the `others` are listed in the order of the files that stand for their
/// columns, so that each takes from its neighbours what its column does.
fn check_order<'a>(
    line: &Line<'_>,
    name: &str,
    columns: impl Iterator<Item = (u32, &'a Vec<u32>)>,
    others: &[&Vec<Vec<u32>>],
) -> Result<()> {
    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
    for columns in others {
        for (n, column) in columns.iter().enumerate() {
            column.iter().for_each(|file| places.entry(*file).or_default().push(n));
        }
    }
    let mut rows: BTreeMap<Vec<usize>, Vec<(u32, u32)>> = BTreeMap::new();
    for (stands, column) in columns {
        for file in column {
            rows.entry(places.get(file).cloned().unwrap_or_default()).or_default().push((stands, *file));
        }
    }
    for row in rows.values_mut() {
        row.sort_unstable();
        for pair in row.windows(2) {
            if let [(_, one), (_, other)] = pair
                && one > other
            {
                let text = format!(
                    "{name} overlaps, and other files with these coordinates are listed in another order"
                );
                let problem = Problem::new(text).with(Remedy::advice("list the files row by row"));
                return Err(line.conflict(*one, *other, problem));
            }
        }
    }
    Ok(())
}

/// Reports what becomes of files that overlap others.
pub(super) fn report(changes: &[(u32, Change)], source: Source<'_>, layout: &Layout, plan: &mut Plan) {
    let names = || layout.along.iter().map(Along::name);
    for (file, change) in changes {
        let url = source.url(*file);
        match change {
            Change::Omitted => {
                let name = names().next().unwrap_or_default();
                let reason = format!("other files have all of its coordinates {name}");
                plan.omitted.push(Omitted { row: (*file).into(), url, reason });
            }
            Change::Clipped(_, selections) => {
                let taken = |(name, selection): (&str, &Option<Selection>)| {
                    let Selection { start, end, of } = (*selection)?;
                    Some(format!("{start} to {} of {of} along {name}", end.saturating_sub(1)))
                };
                let taken: Vec<_> = names().zip(selections).filter_map(taken).collect();
                let text = format!("elements {} are used; other files have the others", taken.join(" and "));
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
fn overlaps(line: &Line<'_>, cluster: &[u32]) -> Result<bool> {
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
    fn selections(&self) -> Result<Vec<(u32, Option<Selection>)>> {
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
    fn keys(&self, file: u32) -> Result<Vec<Key>> {
        let values = (self.coordinates)(self.line.row(file), self.name);
        let keys = values.and_then(|values| self.line.keys(file, &values));
        keys.filter(|keys| keys.len() as u64 == self.line.size(file))
            .ok_or_else(|| CombineError::of(self.line.url(file), missing(self.name)))
    }

    fn between(&self, n: usize, other: Option<usize>) -> CombineError {
        let problem = Problem::new(format!(
            "{} overlaps, and their coordinates interleave, so that no contiguous selection \
             separates them",
            self.name
        ));
        let other = other.or(if n == 0 { Some(1) } else { Some(n - 1) });
        match (self.files.get(n), other.and_then(|other| self.files.get(other))) {
            (Some(one), Some(other)) => self.line.conflict(*other, *one, problem),
            _ => CombineError::Nothing,
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::new(format!("{name} overlaps that of other files, and some of its values are missing"))
}

/// Returns the change of a file by a further selection along a dimension.
fn clip(
    source: Source<'_>,
    file: u32,
    (dimension, selection): (usize, Selection),
    known: Option<Change>,
    (name, coordinates): (&str, &Coordinates<'_>),
) -> Option<Change> {
    let (mut extent, mut selections) = match known {
        Some(Change::Clipped(extent, selections)) => (extent, selections),
        _ => {
            let extent = source.files.extent(file)?.clone();
            let none = vec![None; extent.0.len()];
            (extent, none.into_boxed_slice())
        }
    };
    let values = coordinates(file.into(), name)?;
    let (start, end) = (usize::try_from(selection.start).ok()?, usize::try_from(selection.end).ok()?);
    let along = extent.0.get_mut(dimension)?;
    along.size = selection.end - selection.start;
    along.range = along.range.as_ref().and_then(|range| range.part(values.get(start..end)?));
    *selections.get_mut(dimension)? = Some(selection);
    Some(Change::Clipped(extent, selections))
}

/// Maximum number of sets for which merging is tried.
const MAX_SETS: usize = 1024;

/// Maximum number of files whose coordinates are cached.
const MAX_COORDINATES: usize = 10_000;

/// Merges sets whose files differ only in what the files' places, or conversion of numbers, can reconcile.
pub(crate) fn merge(
    files: &Files,
    sets: Vec<FileSet>,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
) -> Vec<FileSet> {
    if sets.len() < 2 || sets.len() > MAX_SETS || layout.along.is_empty() {
        return sets;
    }
    // The core digest that all files of a set share.
    let common_core = |set: &FileSet| {
        let mut found =
            of_kinds(files, set).map(|file| known.signature(files, file).map(Signature::core_digest));
        let first = found.next()??;
        found.all(|other| other.as_ref() == Some(&first)).then_some(first)
    };
    let mut of_core: BTreeMap<String, Vec<FileSet>> = BTreeMap::new();
    let mut merged = Vec::new();
    for set in sets {
        match common_core(&set) {
            Some(core) => of_core.entry(core).or_default().push(set),
            None => merged.push(set),
        }
    }
    let merging = Merging { files, known, layout, options, coordinates: RefCell::default() };
    merged.extend(of_core.into_values().flat_map(|sets| merging.merge(sets)));
    merged.sort_by_key(|set| set.first().copied());
    merged
}

/// Returns a file of each kind that a set has.
pub(super) fn of_kinds(files: &Files, set: &FileSet) -> impl Iterator<Item = u32> {
    let kinds: BTreeMap<u32, u32> = set.iter().map(|file| (files.kind_of(*file), *file)).collect();
    kinds.into_values()
}

type RowAndDimension = (u64, String);

/// Merges sets of one core digest.
struct Merging<'a> {
    files: &'a Files,
    known: &'a Known<'a>,
    layout: &'a Layout,
    options: &'a PlanOptions,
    /// Coordinates of files that overlap others, by row and dimension; each file is read once.
    coordinates: RefCell<HashMap<RowAndDimension, Option<Vec<Scalar>>>>,
}

impl Merging<'_> {
    /// Merges all sets if they are compatible; otherwise each half by itself, and then one half's sets with the other's.
    fn merge(&self, mut sets: Vec<FileSet>) -> Vec<FileSet> {
        if sets.len() < 2 || self.is_possible(&sets.iter().collect::<Vec<_>>()) {
            return sets.into_iter().reduce(concatenated).into_iter().collect();
        }
        let others = sets.split_off(sets.len().div_ceil(2));
        let mut merged = self.merge(sets);
        for set in self.merge(others) {
            match merged
                .iter()
                .position(|there| self.may_be_possible(there, &set) && self.is_possible(&[there, &set]))
            {
                Some(at) => {
                    let there = merged.remove(at);
                    merged.insert(at, concatenated(there, set));
                }
                None => merged.push(set),
            }
        }
        merged
    }

    /// Returns false if the first signatures of two sets rule it out, wherever the files are placed.
    fn may_be_possible(&self, one: &FileSet, other: &FileSet) -> bool {
        let signature = |set: &FileSet| self.known.signature(self.files, *set.first()?);
        signature(one).zip(signature(other)).is_some_and(|(one, other)| one.may_share_storage(other))
    }

    fn is_possible(&self, sets: &[&FileSet]) -> bool {
        let mut set: FileSet = sets.iter().copied().flatten().copied().collect();
        set.sort_unstable();
        let source = Source { files: self.files, url: self.known.url };
        let coordinates = |row: u64, name: &str| self.coordinates(row, name);
        // Files that no selection separates are refused later, with the reason, if nothing else distinguishes them.
        let changes = resolve(source, &set, &coordinates, self.layout, self.options.on_duplicate);
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return self.fit(self.files, &set).is_some();
        }
        let mut files = self.files.clone();
        apply(changes, &mut files, &mut set);
        self.fit(&files, &set).is_some()
    }

    fn coordinates(&self, row: u64, name: &str) -> Option<Vec<Scalar>> {
        let key = (row, name.to_owned());
        if let Some(known) = self.coordinates.borrow().get(&key) {
            return known.clone();
        }
        let found = (self.known.coordinates)(row, name);
        let mut kept = self.coordinates.borrow_mut();
        if kept.len() < MAX_COORDINATES {
            kept.insert(key, found.clone());
        }
        found
    }
}

/// Applies changes to files that overlap others.
pub(super) fn apply(changes: Vec<(u32, Change)>, files: &mut Files, set: &mut FileSet) {
    let mut omitted = BTreeSet::new();
    for (file, change) in changes {
        match change {
            Change::Omitted => drop(omitted.insert(file)),
            Change::Clipped(extent, _) => files.set_extent(file, extent),
        }
    }
    set.retain(|file| !omitted.contains(file));
}

fn concatenated(mut set: FileSet, mut other: FileSet) -> FileSet {
    set.append(&mut other);
    set.sort_unstable();
    set
}

impl Merging<'_> {
    /// Returns `Some` if all arrays can be joined.
    fn fit(&self, files: &Files, set: &FileSet) -> Option<()> {
        let source = Source { files, url: self.known.url };
        let signatures = of_kinds(files, set).map(|file| self.known.signature(files, file));
        let signatures: Vec<&Signature> = signatures.collect::<Option<_>>()?;
        let first = signatures.first()?;
        if !signatures.iter().all(|other| first.grids_agree(other)) {
            return None;
        }
        if !first.numbers.keys().all(|path| numbers_agree(path, &signatures)) {
            return None;
        }
        // If all arrays are stored alike, joining the files reports the reason why that fails.
        let differing: Vec<&String> =
            first.stored.keys().filter(|path| !Signature::is_stored_alike(path, &signatures)).collect();
        if differing.is_empty() {
            return Some(());
        }
        let arranged = arrange(source, set, self.layout, self.options, &mut Plan::default());
        let (blocks, sizes) = arranged.ok()?;
        let mut fit = differing.into_iter().map(|path| self.fit_array(path, source, &blocks, &sizes));
        fit.all(|fits| fits.is_some()).then_some(())
    }

    fn fit_array(&self, path: &str, source: Source<'_>, blocks: &[Block], sizes: &[Vec<u64>]) -> Option<()> {
        let mut sizes = sizes.to_vec();
        let mut parts: BTreeMap<Vec<usize>, ChunkLayout> = BTreeMap::new();
        let (mut first, mut bytes) = (None, 0_u64);
        for block in blocks {
            let at: Vec<usize> =
                block.at.iter().map(|n| usize::try_from(*n)).collect::<Result<_, _>>().ok()?;
            let signature = self.known.signature(source.files, number(block))?;
            let stored = signature.stored.get(path)?;
            let (leading, _) = *first.get_or_insert((stored, signature.arrays.get(path)?));
            let extent = extent_of(source, block)?;
            let lengths: Vec<u64> = extent.0.iter().map(|extent| extent.size).collect();
            let part = stored.chunk_layout(&lengths, stored.codecs == leading.codecs)?;
            for ((role, n), sizes) in stored.roles.iter().zip(&at).zip(&mut sizes) {
                if let DimRole::Axis(axis) = role {
                    *sizes.get_mut(*n)? = *part.shape.get(*axis)?;
                }
            }
            bytes =
                bytes.saturating_add(part.shape.iter().fold(stored.element, |all, n| all.saturating_mul(*n)));
            let at = stored.roles.iter().zip(at);
            let at = at.map(|(role, n)| if *role == DimRole::Invariant { 0 } else { n }).collect();
            parts.insert(at, part);
        }
        if bytes > MAX_KEPT {
            parts.values_mut().for_each(|part| part.is_read = false);
        }
        let (stored, signed) = first?;
        let shape = parts.values().next()?.shape.clone();
        let names: Vec<String> = self.layout.along.iter().map(|along| along.name().to_owned()).collect();
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = Geometry::new(&stored.roles, &shape, &signed.dimensions, &names, &sizes)?;
        let layouts = parts.values().collect();
        let parts = ArrayParts { always_copied: false, is_plain: stored.is_plain, layouts };
        parts.storage(&geometry, self.layout.rectilinear).ok().map(drop)
    }
}
