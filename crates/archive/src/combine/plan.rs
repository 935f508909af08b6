//! Gives each file its place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Brief, CombineError, Direction, Note, Scalar, Taken, alike::merge, along, natural::natural, overlap,
};
use crate::{Layout, eras::Signature};

/// What to do where files disagree. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnMismatch {
    /// An error that says in what they differ
    #[default]
    Stop,
    /// Each era (files that agree) is a group
    Split,
    /// The era of most files is kept, the others are left out and listed
    Skip,
}

/// What to do where files have the same coordinates, all or some of them. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnDuplicate {
    /// An error that names both
    #[default]
    Error,
    /// The one that was listed first is kept
    First,
    /// The one that was listed last is kept
    Last,
}

/// How a plan is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanOptions {
    /// Files that disagree.
    pub on_mismatch: OnMismatch,
    /// Files with the same coordinates.
    pub on_duplicate: OnDuplicate,
    /// Places of an n-dimensional arrangement may have no file; they read as the fill value.
    pub allow_holes: bool,
    /// Parts that no file has may read as a value that does not mean "missing", where an array has no such value.
    pub fill_without_sentinel: bool,
    /// Most bytes of the values of an array that are copied into the references.
    pub most_inline: u64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            on_mismatch: OnMismatch::Stop,
            on_duplicate: OnDuplicate::Error,
            allow_holes: false,
            fill_without_sentinel: false,
            most_inline: 1 << 30,
        }
    }
}

/// Signatures of the kinds of files that there are, by their digests ([`Brief::kind`]).
pub type Kinds = BTreeMap<String, Signature>;

/// What is known of files beside their briefs.
pub struct Known<'a> {
    /// Their kinds.
    pub kinds: Kinds,
    /// All coordinates of a file, by its row, along a dimension; nothing where they are not known. It is asked of files
    /// that overlap.
    pub coordinates: &'a dyn Fn(u64, &str) -> Option<Vec<Scalar>>,
}

impl Known<'_> {
    /// Nothing is known.
    pub fn nothing() -> Self {
        Self { kinds: Kinds::new(), coordinates: &|_, _| None }
    }
}

/// Where each file goes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Eras in the order of their first files.
    pub eras: Vec<PlannedEra>,
    /// Files that are left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// What is to be known.
    pub notes: Vec<Note>,
}

/// A file that is not part of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its row in the journal.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Why.
    pub reason: String,
}

/// Files that agree.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedEra {
    /// Digest of their signature.
    pub era: String,
    /// Path of the group that they become; "" where there is only one era.
    pub group: String,
    /// Number of elements of each place along each dimension, in the layout's order.
    pub sizes: Vec<Vec<u64>>,
    /// The files in order of place, the last dimension fastest.
    pub blocks: Vec<Block>,
}

/// A file in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its row in the journal.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// Its place along each dimension, from 0, in the layout's order.
    pub at: Vec<usize>,
    /// What is taken of it along the only dimension, where that is not all.
    pub taken: Option<Taken>,
}

/// Gives each file its place: eras apart, and in each the files in the order of their coordinates. Eras that can be put
/// together, since they differ only in how parts are stored that can stand beside each other, or in types of numbers, are
/// one; kinds of which nothing is known are not.
///
/// # Errors
/// Files that overlap, that are not monotone, that have the same coordinates, that are of several eras; holes.
pub fn plan(
    briefs: Vec<Brief>,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
) -> Result<Plan, CombineError> {
    let mut plan = Plan::default();
    let mut eras: BTreeMap<String, Vec<Brief>> = BTreeMap::new();
    for brief in briefs {
        let empty = layout.along.iter().zip(&brief.extents).find(|(_, extent)| extent.size == 0);
        if let Some((along, _)) = empty {
            let reason = format!("dimension {} has length 0", along.name());
            plan.left_out.push(LeftOut { row: brief.row, url: brief.url, reason });
        } else {
            eras.entry(brief.era.clone()).or_default().push(brief);
        }
    }
    let mut eras: Vec<_> = eras.into_iter().collect();
    for (_, briefs) in &mut eras {
        briefs.sort_by_key(|brief| brief.row);
    }
    eras.sort_by_key(|(_, briefs)| briefs.first().map(|brief| brief.row));
    let eras = merge(eras, known, layout, options);
    let eras = settle(eras, options.on_mismatch, &mut plan)?;
    let several = eras.len() > 1;
    for (n, (era, briefs)) in eras.into_iter().enumerate() {
        let group = if several { format!("era_{n}") } else { String::new() };
        let all: Vec<&Brief> = briefs.iter().collect();
        let cut = overlap::resolve(&all, known.coordinates, layout, options.on_duplicate, &mut plan)?;
        let briefs = cut.unwrap_or(briefs);
        let planned = plan_era(era, group, briefs, layout, options, &mut plan)?;
        plan.eras.push(planned);
    }
    if plan.eras.is_empty() { Err(CombineError::Nothing) } else { Ok(plan) }
}

/// Its digest, and its files in the order of rows.
pub(super) type Era = (String, Vec<Brief>);

fn settle(eras: Vec<Era>, on_mismatch: OnMismatch, plan: &mut Plan) -> Result<Vec<Era>, CombineError> {
    if eras.len() < 2 || on_mismatch == OnMismatch::Split {
        return Ok(eras);
    }
    if on_mismatch == OnMismatch::Stop {
        let first = |briefs: &[Brief]| briefs.first().map(|brief| brief.url.clone()).unwrap_or_default();
        let eras = eras.iter().map(|(_, briefs)| (briefs.len() as u64, first(briefs))).collect();
        return Err(CombineError::Eras { eras });
    }
    let most = eras.iter().map(|(_, briefs)| briefs.len()).max();
    let mut kept = None;
    for (era, briefs) in eras {
        if kept.is_none() && Some(briefs.len()) == most {
            kept = Some((era, briefs));
        } else {
            let out = |brief: Brief| LeftOut {
                row: brief.row,
                url: brief.url,
                reason: "it disagrees with the files that are most".to_owned(),
            };
            plan.left_out.extend(briefs.into_iter().map(out));
        }
    }
    Ok(kept.into_iter().collect())
}

fn plan_era(
    era: String,
    group: String,
    briefs: Vec<Brief>,
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<PlannedEra, CombineError> {
    let briefs: Vec<&Brief> = briefs.iter().collect();
    let (blocks, sizes) = arrange(&briefs, layout, options, plan)?;
    holes(&blocks, &sizes, options, layout, plan)?;
    let block = |(at, brief): (Vec<usize>, &Brief)| Block {
        row: brief.row,
        url: brief.url.clone(),
        at,
        taken: brief.taken,
    };
    Ok(PlannedEra { era, group, sizes, blocks: blocks.into_iter().map(block).collect() })
}

/// Files by place, and the elements of each place along each dimension.
pub(super) type Arranged<'a> = (BTreeMap<Vec<usize>, &'a Brief>, Vec<Vec<u64>>);

/// Puts files at their places.
pub(super) fn arrange<'a>(
    briefs: &[&'a Brief],
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<Arranged<'a>, CombineError> {
    let mut known = Vec::with_capacity(layout.along.len());
    for (n, dimension) in layout.along.iter().enumerate() {
        let (placed, notes) = along::place(dimension.name(), n, briefs)?;
        plan.notes.extend(notes);
        known.push(placed);
    }
    let cells = cells(briefs, &known, layout)?;
    let mut blocks = BTreeMap::new();
    for (at, files) in cells {
        let kept = one(&files, briefs, options.on_duplicate, plan)?;
        if let Some(brief) = kept {
            blocks.insert(at, brief);
        }
    }
    let sizes = sizes(&blocks, layout.along.len())?;
    Ok((blocks, sizes))
}

type Cells = BTreeMap<Vec<usize>, Vec<usize>>;

/// Files (by index) at each place. Along a dimension without coordinates they follow in the order of their names.
fn cells(briefs: &[&Brief], known: &[Option<Vec<usize>>], layout: &Layout) -> Result<Cells, CombineError> {
    let unknown: Vec<usize> =
        known.iter().enumerate().filter(|(_, placed)| placed.is_none()).map(|(n, _)| n).collect();
    if let [left, right, ..] = unknown.as_slice() {
        let name = |n: &usize| layout.along.get(*n).map_or("", |along| along.name());
        let option = format!("dimensions {} and {}", name(left), name(right));
        let what = "neither has a coordinate, so that files have no place; --coord-from-name gives them one";
        return Err(CombineError::Option { option, what: what.to_owned() });
    }
    let mut cells = Cells::new();
    for n in 0..briefs.len() {
        let at = known.iter().map(|placed| placed.as_ref().and_then(|placed| placed.get(n)).copied());
        cells.entry(at.map(Option::unwrap_or_default).collect()).or_default().push(n);
    }
    let Some(dimension) = unknown.first() else { return Ok(cells) };
    let mut spread = Cells::new();
    for (at, mut files) in cells {
        files.sort_by_cached_key(|n| briefs.get(*n).map(|brief| natural(&brief.url)).unwrap_or_default());
        for (place, n) in files.into_iter().enumerate() {
            let mut at = at.clone();
            if let Some(own) = at.get_mut(*dimension) {
                *own = place;
            }
            spread.insert(at, vec![n]);
        }
    }
    Ok(spread)
}

/// The one of the files at a place that is kept.
fn one<'a>(
    files: &[usize],
    briefs: &[&'a Brief],
    on_duplicate: OnDuplicate,
    plan: &mut Plan,
) -> Result<Option<&'a Brief>, CombineError> {
    let mut there: Vec<&Brief> = files.iter().filter_map(|n| briefs.get(*n).copied()).collect();
    let kept = match on_duplicate {
        OnDuplicate::Last => there.pop(),
        OnDuplicate::First | OnDuplicate::Error => (!there.is_empty()).then(|| there.remove(0)),
    };
    let Some(kept) = kept else { return Ok(None) };
    for other in there {
        if on_duplicate == OnDuplicate::Error {
            let what = "they have the same coordinates; --on-duplicate first or last keeps one of them";
            return Err(two(kept, other, what.to_owned()));
        }
        let reason = format!("it has the same coordinates as {}", kept.url);
        plan.left_out.push(LeftOut { row: other.row, url: other.url.clone(), reason });
    }
    Ok(Some(kept))
}

/// Sizes at each place of each dimension, on which all files must agree.
fn sizes(blocks: &BTreeMap<Vec<usize>, &Brief>, dimensions: usize) -> Result<Vec<Vec<u64>>, CombineError> {
    let mut found: Vec<BTreeMap<usize, (u64, &Brief)>> = vec![BTreeMap::new(); dimensions];
    for (at, brief) in blocks {
        for ((places, n), extent) in found.iter_mut().zip(at).zip(&brief.extents) {
            let (size, first) = *places.entry(*n).or_insert((extent.size, brief));
            if size != extent.size {
                let what = format!("{size} and {} elements at the same place", extent.size);
                return Err(two(first, brief, what));
            }
        }
    }
    Ok(found.into_iter().map(|places| places.into_values().map(|(size, _)| size).collect()).collect())
}

fn holes(
    blocks: &BTreeMap<Vec<usize>, &Brief>,
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
    loop {
        if !blocks.contains_key(&at) {
            listed.push(place_name(&at, blocks, layout));
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

/// The next place, the last dimension fastest.
fn step(at: &mut [usize], sizes: &[Vec<u64>]) -> bool {
    for (n, sizes) in at.iter_mut().zip(sizes).rev() {
        *n += 1;
        if *n < sizes.len() {
            return true;
        }
        *n = 0;
    }
    false
}

/// A place by the coordinates that files beside it have.
fn place_name(at: &[usize], blocks: &BTreeMap<Vec<usize>, &Brief>, layout: &Layout) -> String {
    let one = |(dimension, n): (usize, &usize)| {
        let name = layout.along.get(dimension).map_or("", |along| along.name());
        let beside = blocks.iter().find(|(other, _)| other.get(dimension) == Some(n));
        let range = beside.and_then(|(_, brief)| brief.extents.get(dimension)?.range.as_ref());
        match range {
            Some(range) => format!("{name} {}", range.first),
            None => format!("{name}[{n}]"),
        }
    };
    at.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

pub(super) fn two(left: &Brief, right: &Brief, what: String) -> CombineError {
    CombineError::Files { left: left.url.clone(), right: right.url.clone(), what }
}

impl Direction {
    pub(super) fn is_monotone(self) -> bool {
        self != Self::Neither
    }
}
