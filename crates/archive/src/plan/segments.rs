//! Divides files into segments of one dataset: groups of files whose chunks form one grid, in the order of the files.

use std::collections::{BTreeMap, HashMap};

use smallvec::smallvec;
use virtualize::{segments::Segment, zarr::NodePath};

use super::{Block, FileSet, Known, Source, grid::number};
use crate::{
    Layout,
    compat::{Conversions, DimRole, Signature, form_segments, signature::Stored},
    values::index,
};

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
