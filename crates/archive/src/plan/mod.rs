//! Gives each file its place.

mod extent;
mod grid;
mod order;
mod overlap;
mod proposal;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use virtualize::{Remedy, segments::Segment, zarr::NodePath};

use crate::{
    Layout,
    compat::{Conversions, DimRole, Signature, form_segments, signature::Stored},
    error::{CombineError, Note, Problem},
    values::{Scalar, index},
};
use grid::{arrange, holes, number};
use overlap::Change;

pub(crate) use extent::{FileExtent, Range, Selection};
pub(crate) use grid::Files;

pub(crate) use extent::coordinates;
pub(crate) use overlap::merge;
pub use proposal::Proposal;
pub(crate) use proposal::Refused;

type Result<T, E = CombineError> = std::result::Result<T, E>;

/// Assigns each file its place: by set, and in each set in the order of the files' coordinates. Sets that differ only in
/// storage or types of numbers which are compatible are merged, if their signatures are known.
///
/// # Errors
/// Files that overlap, are not monotone, have the same coordinates, or are of several sets; empty places.
pub(crate) fn plan(
    mut files: Files,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
) -> Result<Plan> {
    let mut plan = Plan::default();
    let sets = sets(Source { files: &files, url: known.url }, layout, &mut plan);
    let sets = merge(&files, sets, known, layout, options);
    let source = Source { files: &files, url: known.url };
    let is_united = options.on_mismatch == OnMismatch::Combine && layout.along.len() == 1;
    let united = if is_united && !sets.is_empty() { united(source, &sets, known, layout) } else { None };
    let (sets, set_of) = match united {
        Some(United { files, set_of, conversions }) => {
            plan.conversions = conversions;
            (vec![files], Some(set_of))
        }
        None => (select_sets(source, sets, options.on_mismatch, &mut plan)?, None),
    };
    let several = sets.len() > 1;
    for (n, mut set) in sets.into_iter().enumerate() {
        let group = if several { format!("set_{n}") } else { String::new() };
        let source = Source { files: &files, url: known.url };
        let changes = overlap::resolve(source, &set, known.coordinates, layout, options.on_duplicate)?;
        overlap::report(&changes, source, layout, &mut plan);
        let selections: BTreeMap<u32, Selections> = changes
            .iter()
            .filter_map(|(file, change)| match change {
                Change::Clipped(_, selections) => Some((*file, selections.clone())),
                Change::Omitted => None,
            })
            .collect();
        overlap::apply(changes, &mut files, &mut set);
        let source = Source { files: &files, url: known.url };
        let (mut blocks, sizes) = arrange(source, &set, layout, options, &mut plan)?;
        let first_hole = holes(source, &blocks, &sizes, options, layout, &mut plan)?;
        if let (Some(hole), Some(file)) = (first_hole, selections.keys().next()) {
            let text =
                format!("it shares pixels with other files, which would be lost at {hole}, where no file is");
            let remedy = Remedy::advice("combine the files without those that overlap");
            return Err(source.misfit(*file, Problem::new(text).with(remedy)));
        }
        for block in blocks.iter_mut().filter(|_| !selections.is_empty()) {
            block.selection = selections.get(&number(block)).cloned();
        }
        let runs = match (&set_of, sizes.as_slice()) {
            (Some(set_of), [lengths]) => {
                let (runs, segments) = divide(source, blocks, lengths, set_of, known, layout);
                if let [_] = runs.as_slice() {
                    runs.into_iter().map(|run| (String::new(), run.blocks, vec![run.sizes])).collect()
                } else {
                    plan.segments = segments;
                    let runs = runs.into_iter().enumerate();
                    runs.map(|(n, run)| (format!("set_{n}"), run.blocks, vec![run.sizes])).collect()
                }
            }
            _ => vec![(group, blocks, sizes)],
        };
        for (group, blocks, sizes) in runs {
            let first = blocks.first().map(number);
            let signature = first.map(|file| files.signature(file).to_owned()).unwrap_or_default();
            let grids = grids(&files, &blocks, known);
            let text = "coordinates differ by rounding between files: those of the first file are used";
            plan.notes.extend(grids.iter().map(|path| Note::new(path, text)));
            plan.sets.push(PlannedSet { signature, group, sizes, blocks, grids });
        }
    }
    if plan.sets.is_empty() { Err(CombineError::Nothing) } else { Ok(plan) }
}

/// Returns the coordinates whose values are not the same in all files.
fn grids(files: &Files, blocks: &[Block], known: &Known<'_>) -> BTreeSet<NodePath> {
    let set: FileSet = blocks.iter().map(number).collect();
    let signatures = overlap::of_kinds(files, &set).filter_map(|file| known.signature(files, file));
    let signatures: Vec<&Signature> = signatures.collect();
    let Some((first, others)) = signatures.split_first() else { return BTreeSet::new() };
    let values =
        |signature: &Signature, path: &str| signature.arrays.get(path).map(|array| array.values.clone());
    let differs = |path: &&NodePath| others.iter().any(|other| values(other, path) != values(first, path));
    first.grids.keys().filter(differs).cloned().collect()
}

/// Groups files by their signatures, in the order of the first files. Leaves out files without elements.
fn sets(source: Source<'_>, layout: &Layout, plan: &mut Plan) -> Vec<FileSet> {
    let first_kinds = source.files.first_kinds();
    let mut sets: BTreeMap<u32, FileSet> = BTreeMap::new();
    for file in source.files.numbers() {
        let Some(extent) = source.files.extent(file) else { continue };
        let empty = layout.along.iter().zip(&extent.0).find(|(_, extent)| extent.size == 0);
        if let Some((along, _)) = empty {
            let reason = format!("dimension {} has length 0", along.name());
            plan.omitted.push(Omitted { row: file.into(), url: source.url(file), reason });
            continue;
        }
        let kind = source.files.kind_of(file);
        let kind = usize::try_from(kind).ok().and_then(|kind| first_kinds.get(kind)).copied().unwrap_or(kind);
        sets.entry(kind).or_default().push(file);
    }
    let mut sets: Vec<FileSet> = sets.into_values().collect();
    sets.sort_by_key(|set| set.first().copied());
    sets
}

/// Applies [`OnMismatch`] to several sets.
fn select_sets(
    source: Source<'_>,
    sets: Vec<FileSet>,
    on_mismatch: OnMismatch,
    plan: &mut Plan,
) -> Result<Vec<FileSet>> {
    if sets.len() < 2 || on_mismatch == OnMismatch::Split {
        return Ok(sets);
    }
    if matches!(on_mismatch, OnMismatch::Stop | OnMismatch::Combine) {
        let first = |set: &FileSet| set.first().map(|file| source.url(*file)).unwrap_or_default();
        let sets = sets.iter().map(|set| (set.len() as u64, first(set))).collect();
        return Err(CombineError::Sets { sets });
    }
    let most = sets.iter().map(Vec::len).max();
    let mut kept = None;
    for set in sets {
        if kept.is_none() && Some(set.len()) == most {
            kept = Some(set);
        } else {
            let out = |file: u32| Omitted {
                row: file.into(),
                url: source.url(file),
                reason: "it is not compatible with the largest set".to_owned(),
            };
            plan.omitted.extend(set.into_iter().map(out));
        }
    }
    Ok(kept.into_iter().collect())
}

/// The signatures of files, by [`Signature::storage_digest`].
pub(crate) type Signatures = BTreeMap<String, Signature>;

/// Returns all coordinates of a file (by its row) along a dimension, if they are known.
pub(super) type Coordinates<'a> = dyn Fn(u64, &str) -> Option<Vec<Scalar>> + 'a;

/// What is known of the files besides their extents.
pub(crate) struct Known<'a> {
    /// Their signatures.
    pub signatures: Signatures,
    /// Returns all coordinates of a file (by its row) along a dimension, if they are known. Called for files that overlap.
    pub coordinates: &'a dyn Fn(u64, &str) -> Option<Vec<Scalar>>,
    /// Returns the url of a file (by its row). Called for files that are named in errors and notes, and for all files if
    /// they have no coordinates.
    pub url: &'a dyn Fn(u64) -> String,
}

impl Known<'_> {
    /// Returns the signature of a file, if it is known.
    pub(super) fn signature(&self, files: &Files, file: u32) -> Option<&Signature> {
        self.signatures.get(&files.kinds().get(index(files.kind_of(file)))?.storage)
    }

    /// Knows nothing.
    pub(crate) fn nothing() -> Self {
        Self { signatures: Signatures::new(), coordinates: &|_, _| None, url: &|row| row.to_string() }
    }

    /// Returns the same with other signatures.
    pub(crate) fn with(&self, signatures: Signatures) -> Self {
        Self { signatures, ..*self }
    }
}

/// The files that are planned, and their names.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) files: &'a Files,
    pub(super) url: &'a dyn Fn(u64) -> String,
}

impl Source<'_> {
    /// Returns the url of a file.
    pub(super) fn url(&self, file: u32) -> String {
        (self.url)(file.into())
    }

    /// Returns the error of a file that cannot be placed.
    pub(super) fn misfit(&self, file: u32, problem: Problem) -> CombineError {
        CombineError::of(self.url(file), problem)
    }

    /// Returns the error of two files that exclude each other.
    pub(super) fn conflict(&self, left: u32, right: u32, problem: Problem) -> CombineError {
        CombineError::of(format!("{} and {}", self.url(left), self.url(right)), problem)
    }
}

/// The place of each file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Plan {
    /// The sets, in the order of their first files.
    pub sets: Vec<PlannedSet>,
    /// How the sets form one dataset, if there are several.
    pub segments: Vec<Segment>,
    /// Types that the elements of arrays are converted to.
    pub conversions: Conversions,
    /// Omitted files, with reasons.
    pub omitted: Vec<Omitted>,
    /// Notes for the user.
    pub notes: Vec<Note>,
}

/// A file that is not part of the combined dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Omitted {
    /// Its row.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Why.
    pub reason: String,
}

/// Compatible files, in their places.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PlannedSet {
    /// Digest of their signature; that of the first files, if several signatures are compatible.
    pub signature: String,
    /// Path of the group that they become; "" if there is only one set.
    pub group: String,
    /// Number of elements of each place along each dimension, in the layout's order.
    pub sizes: Vec<Vec<u64>>,
    /// The files in order of place, the last dimension fastest.
    pub blocks: Vec<Block>,
    /// Coordinates that agree but for rounding: those of the first file are used.
    pub grids: BTreeSet<NodePath>,
}

/// A file and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Its row.
    pub row: u64,
    /// Its place along each dimension, from 0, in the layout's order.
    pub at: SmallVec<[u32; 2]>,
    /// The elements that are selected along each dimension; `None` for all.
    pub selection: Option<Selections>,
}

/// The elements of a file that are selected along each dimension of the layout; `None` for all.
pub(crate) type Selections = Box<[Option<Selection>]>;

/// A set while it is planned: the numbers of its files, ascending.
pub(super) type FileSet = Vec<u32>;

/// How files that are not compatible are treated. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnMismatch {
    /// Write a group for each set of files that are stored alike, and describe how the groups form one dataset; fail if their
    /// values cannot be combined
    #[default]
    Combine,
    /// Fail, and print the differences
    Stop,
    /// Write each set of compatible files to its own group
    Split,
    /// Keep the set with the most files, and list the other files
    Skip,
}

/// How files with the same coordinates, all or some of them, are treated. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnDuplicate {
    /// Fail, and name both files
    #[default]
    Error,
    /// Keep the file that was listed first
    First,
    /// Keep the file that was listed last
    Last,
}

/// How files that disagree are treated.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Combining options"))]
pub struct PlanOptions {
    /// How to treat files that are not compatible
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "combine", value_name = "ACTION"))]
    pub on_mismatch: OnMismatch,
    /// How to treat files whose coordinates are equal or partly overlap
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "error", value_name = "ACTION"))]
    pub on_duplicate: OnDuplicate,
    /// Allow positions without a file in an arrangement of several dimensions; they read as the fill value
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    pub allow_holes: bool,
}

/// The files of one group.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) blocks: Vec<Block>,
    /// Number of elements of each file along the dimension.
    pub(super) sizes: Vec<u64>,
    total: u64,
    /// For each array whose chunks cannot be divided: whether the values of all files were read, and whether all files but
    /// the last end with a chunk.
    arrays: BTreeMap<NodePath, (bool, bool)>,
}

/// Files that become one dataset.
pub(super) struct United {
    pub(super) files: FileSet,
    /// The set of compatible files that each file belongs to, if there are several.
    pub(super) set_of: HashMap<u32, usize>,
    pub(super) conversions: Conversions,
}

/// Unites all files, if their arrays can be segments of one dataset.
pub(super) fn united(
    source: Source<'_>,
    sets: &[FileSet],
    known: &Known<'_>,
    layout: &Layout,
) -> Option<United> {
    let signature = |set: &FileSet| known.signature(source.files, *set.first()?);
    let mut conversions = Conversions::new();
    if sets.len() > 1 {
        let signatures: Vec<&Signature> = sets.iter().map(signature).collect::<Option<_>>()?;
        conversions = form_segments(&signatures, layout).ok()?;
    }
    let set_of = sets.iter().enumerate().flat_map(|(n, set)| set.iter().map(move |file| (*file, n)));
    let set_of: HashMap<u32, usize> = if sets.len() > 1 { set_of.collect() } else { HashMap::new() };
    let mut files: FileSet = sets.concat();
    files.sort_unstable();
    Some(United { files, set_of, conversions })
}

/// Divides files, which are in order, into runs: a file continues the last run of its set unless that one ends within a chunk.
/// Returns the runs, and the segments in order; their groups are numbers of runs.
pub(super) fn divide(
    source: Source<'_>,
    blocks: Vec<Block>,
    sizes: &[u64],
    set_of: &HashMap<u32, usize>,
    known: &Known<'_>,
    layout: &Layout,
) -> (Vec<Run>, Vec<Segment>) {
    let kinds = source.files.kinds().iter();
    let strict: Vec<BTreeMap<&str, Strict>> = kinds
        .map(|kind| {
            known.signatures.get(&kind.storage).map(|one| strict_arrays(one, layout)).unwrap_or_default()
        })
        .collect();
    let none = BTreeMap::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut last: HashMap<usize, usize> = HashMap::new();
    let mut segments: Vec<(usize, u64, u64)> = Vec::new();
    for (block, size) in blocks.into_iter().zip(sizes) {
        let file = number(&block);
        let set = set_of.get(&file).copied().unwrap_or(0);
        let arrays = strict.get(index(source.files.kind_of(file))).unwrap_or(&none);
        let n =
            match last.get(&set).copied().filter(|n| runs.get_mut(*n).is_some_and(|run| run.takes(arrays))) {
                Some(n) => n,
                None => {
                    let arrays = arrays.iter().map(|(path, one)| ((*path).to_owned(), (one.is_read, true)));
                    runs.push(Run { arrays: arrays.collect(), ..Run::default() });
                    last.insert(set, runs.len() - 1);
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
    let segments = segments.map(|(n, start, length)| Segment { group: format!("set_{n}"), start, length });
    (runs, segments.collect())
}

/// An array whose chunks cannot be divided.
struct Strict {
    /// Length of its chunks along the dimension; `None` if one chunk has all elements of a file.
    chunk: Option<u64>,
    /// Whether its values were read, so that they can be copied if those of all files were.
    is_read: bool,
}

impl Run {
    /// Returns whether a further file with these arrays leaves all arrays in one grid, and notes it if so.
    fn takes(&mut self, arrays: &BTreeMap<&str, Strict>) -> bool {
        let mut after = Vec::with_capacity(arrays.len());
        for (path, Strict { chunk, is_read }) in arrays {
            let (all_read, is_aligned) = self.arrays.get(*path).copied().unwrap_or((true, true));
            let fits = chunk.is_some_and(|chunk| self.total.is_multiple_of(chunk.max(1)));
            let (all_read, is_aligned) = (all_read && *is_read, is_aligned && fits);
            if !all_read && !is_aligned {
                return false;
            }
            after.push((*path, (all_read, is_aligned)));
        }
        for (path, state) in after {
            match self.arrays.get_mut(path) {
                Some(slot) => *slot = state,
                None => drop(self.arrays.insert(path.to_owned(), state)),
            }
        }
        true
    }
}

/// Returns the arrays of which only the last file of a group may end within a chunk, unless their values are copied.
fn strict_arrays<'a>(signature: &'a Signature, layout: &Layout) -> BTreeMap<&'a str, Strict> {
    let one = |(path, stored): (&'a NodePath, &Stored)| {
        let Some(DimRole::Axis(axis)) = stored.roles.first().copied() else { return None };
        let chunks = stored.chunks.as_ref()?;
        let is_run = stored.is_plain && chunks.iter().take(axis).all(|chunk| *chunk == Some(1));
        if is_run || layout.rectilinear {
            return None;
        }
        Some((path.as_str(), Strict { chunk: chunks.get(axis).copied().flatten(), is_read: stored.is_read }))
    };
    signature.stored.iter().filter_map(one).collect()
}
