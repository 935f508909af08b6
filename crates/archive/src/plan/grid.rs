//! Arranges files in a grid.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Block, Plan, PlanOptions, Result, Source,
    extent::{FileExtent, Units, order_by_name},
    order::{self, resolve_duplicates},
};
use crate::{
    Layout,
    error::{CombineError, Note, Problem},
    values::{index, variable::advance},
};

/// Files in order of place, and the number of elements of each place along each dimension.
pub(super) type Arranged = (Vec<Block>, Vec<Vec<u64>>);

/// Arranges files by their coordinates along each dimension.
pub(super) fn arrange(
    source: Source<'_>,
    set: &[u32],
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<Arranged> {
    let mut known = Vec::with_capacity(layout.along.len());
    for (n, dimension) in layout.along.iter().enumerate() {
        let (placed, notes) = order::place(dimension.name(), n, source, set)?;
        plan.notes.extend(notes);
        known.push(placed);
    }
    let cells = Cells::new(source, set, known, layout)?;
    let mut blocks = Vec::with_capacity(set.len());
    let mut there = Vec::new();
    for places in cells.order.chunk_by(|one, other| cells.is_same(*one, *other)) {
        there.clear();
        there.extend(places.iter().filter_map(|place| set.get(index(*place))));
        let kept = resolve_duplicates(&there, source, options.on_duplicate, plan)?;
        if let (Some(kept), Some(place)) = (kept, places.first()) {
            blocks.push(Block { row: kept.into(), at: cells.at(*place).collect(), selection: None });
        }
    }
    drop(cells);
    let sizes = sizes(source, &blocks, layout.along.len())?;
    Ok((blocks, sizes))
}

/// The place of each file of a set. Files are numbers of places in the set.
struct Cells {
    /// Place along each dimension, by file.
    places: Vec<Vec<u32>>,
    /// The files in order of place, those of one place in order of their rows.
    order: Vec<u32>,
}

impl Cells {
    /// Orders files by their places. Along a dimension without coordinates, files are ordered by name.
    fn new(source: Source<'_>, set: &[u32], known: Vec<Option<Vec<u32>>>, layout: &Layout) -> Result<Self> {
        let mut unknown = known.iter().enumerate().filter(|(_, placed)| placed.is_none()).map(|(n, _)| n);
        let (without, another) = (unknown.next(), unknown.next());
        if let (Some(left), Some(right)) = (without, another) {
            let name = |n: usize| layout.along.get(n).map_or("", |along| along.name());
            let problem = Problem::of("neither file has a coordinate; cannot determine the file order");
            let option = format!("dimensions {} and {}", name(left), name(right));
            return Err(CombineError::of(option, problem.with(order_by_name())));
        }
        let count = u32::try_from(set.len()).unwrap_or(u32::MAX);
        let places = known.into_iter().map(|placed| placed.unwrap_or_else(|| vec![0; set.len()])).collect();
        let mut cells = Self { places, order: (0..count).collect() };
        cells.sort();
        if let Some(dimension) = without {
            cells.spread(dimension, source, set);
            cells.sort();
        }
        Ok(cells)
    }

    fn sort(&mut self) {
        let Self { places, order } = self;
        order.sort_unstable_by(|one, other| {
            let along = places.iter().map(|places| places.get(index(*one)).cmp(&places.get(index(*other))));
            along.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).then(one.cmp(other))
        });
    }

    /// Gives the files of each cell places along a dimension, in the order of their names.
    fn spread(&mut self, dimension: usize, source: Source<'_>, set: &[u32]) {
        let mut order = std::mem::take(&mut self.order);
        for files in order.chunk_by_mut(|one, other| self.is_same(*one, *other)) {
            order::sort(files, |file| set.get(index(file)).map(|file| source.url(*file)).unwrap_or_default());
        }
        let mut places = vec![0; order.len()];
        for files in order.chunk_by(|one, other| self.is_same(*one, *other)) {
            for (place, file) in (0..).zip(files) {
                if let Some(slot) = places.get_mut(index(*file)) {
                    *slot = place;
                }
            }
        }
        if let Some(slot) = self.places.get_mut(dimension) {
            *slot = places;
        }
        self.order = order;
    }

    fn at(&self, file: u32) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().map(move |places| places.get(index(file)).copied().unwrap_or_default())
    }

    fn is_same(&self, one: u32, other: u32) -> bool {
        self.at(one).eq(self.at(other))
    }
}

/// Marks a place at which no file was seen yet.
const UNKNOWN: u64 = u64::MAX;

/// Returns the number of elements at each place along each dimension, on which all files must agree.
fn sizes(source: Source<'_>, blocks: &[Block], dimensions: usize) -> Result<Vec<Vec<u64>>> {
    let place = |block: &Block, dimension| block.at.get(dimension).copied().map_or(0, index);
    let places = |dimension| blocks.iter().map(|block| place(block, dimension) + 1).max().unwrap_or(0);
    let mut all: Vec<Vec<u64>> = (0..dimensions).map(|dimension| vec![UNKNOWN; places(dimension)]).collect();
    for block in blocks {
        for (dimension, sizes) in all.iter_mut().enumerate() {
            let size = extent_of(source, block).map_or(0, |extent| extent.size(dimension));
            let Some(slot) = sizes.get_mut(place(block, dimension)) else { continue };
            if *slot != UNKNOWN && *slot != size {
                let is_there = |first: &&Block| place(first, dimension) == place(block, dimension);
                let first = blocks.iter().find(is_there).unwrap_or(block);
                let text = format!("files at the same position have different lengths: {slot} and {size}");
                return Err(source.conflict(number(first), number(block), Problem::new(text)));
            }
            *slot = size;
        }
    }
    Ok(all)
}

/// Returns the number of a block's file.
pub(super) fn number(block: &Block) -> u32 {
    u32::try_from(block.row).unwrap_or(u32::MAX)
}

/// Returns the extent of a block's file.
pub(super) fn extent_of<'a>(source: Source<'a>, block: &Block) -> Option<&'a super::FileExtent> {
    source.files.extent(number(block))
}

/// Planned files. Each takes 80 bytes, unless its coordinates are text or its units differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    files: Vec<File>,
    kinds: Vec<Kind>,
    of_storage: HashMap<String, u32>,
    units: HashSet<Arc<Units>>,
}

#[derive(Clone, Debug)]
struct File {
    kind: u32,
    extent: FileExtent,
}

/// Files that equal each other in all but their values and places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    /// [`crate::compat::Signature::digest`]: files of equal signatures are compatible.
    pub(super) signature: String,
    /// [`crate::compat::Signature::storage_digest`]: how files store their arrays decides whether files of different
    /// signatures are compatible.
    pub(super) storage: String,
}

impl Files {
    /// Declares a kind of files by the storage digest and the digest of their signature, and returns its number.
    pub(crate) fn kind(&mut self, storage: &str, signature: impl FnOnce() -> String) -> u32 {
        if let Some(known) = self.of_storage.get(storage) {
            return *known;
        }
        let number = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        self.kinds.push(Kind { signature: signature(), storage: storage.to_owned() });
        self.of_storage.insert(storage.to_owned(), number);
        number
    }

    /// Adds the next file.
    pub(crate) fn push(&mut self, kind: u32, mut extent: FileExtent) {
        for extent in &mut extent.0 {
            if let Some(units) = extent.range.as_mut().and_then(|range| range.units.as_mut()) {
                // Files share equal units.
                match self.units.get(units) {
                    Some(known) => *units = Arc::clone(known),
                    None => drop(self.units.insert(Arc::clone(units))),
                }
            }
        }
        self.files.push(File { kind, extent });
    }

    /// Reserves memory for further files.
    pub(crate) fn reserve(&mut self, files: usize) {
        self.files.reserve_exact(files);
    }

    /// Returns the number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the numbers of all files.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.files.len()).unwrap_or(u32::MAX)
    }

    /// Returns the extent of a file.
    pub(super) fn extent(&self, file: u32) -> Option<&FileExtent> {
        self.get(file).map(|file| &file.extent)
    }

    /// Replaces the extent of a file.
    pub(super) fn set_extent(&mut self, file: u32, extent: FileExtent) {
        if let Some(slot) = self.files.get_mut(index(file)) {
            slot.extent = extent;
        }
    }

    /// Returns the number of a file's kind.
    pub(super) fn kind_of(&self, file: u32) -> u32 {
        self.get(file).map_or(u32::MAX, |file| file.kind)
    }

    /// Returns the kinds; their numbers are their places.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the digest of a file's signature.
    pub(super) fn signature(&self, file: u32) -> &str {
        self.kinds.get(index(self.kind_of(file))).map_or("", |kind| &kind.signature)
    }

    /// Returns the number of the first kind with the same signature, for each kind.
    pub(super) fn first_kinds(&self) -> Vec<u32> {
        let mut first: BTreeMap<&str, u32> = BTreeMap::new();
        let kinds = (0_u32..).zip(&self.kinds);
        kinds.map(|(number, kind)| *first.entry(&kind.signature).or_insert(number)).collect()
    }

    fn get(&self, file: u32) -> Option<&File> {
        self.files.get(index(file))
    }
}

/// Reports places that no file fills, and returns the first one.
///
/// # Errors
/// [`CombineError::Holes`], unless empty places are allowed.
pub(super) fn holes(
    source: Source<'_>,
    blocks: &[Block],
    sizes: &[Vec<u64>],
    options: &PlanOptions,
    layout: &Layout,
    plan: &mut Plan,
) -> Result<Option<String>> {
    let places = sizes.iter().try_fold(1_u64, |product, sizes| product.checked_mul(sizes.len() as u64));
    let count = places.unwrap_or(u64::MAX).saturating_sub(blocks.len() as u64);
    if count == 0 {
        return Ok(None);
    }
    let mut listed = Vec::new();
    let mut at = vec![0; sizes.len()];
    let shape: Vec<u32> = sizes.iter().map(|sizes| u32::try_from(sizes.len()).unwrap_or(u32::MAX)).collect();
    // Blocks are in order of place.
    let mut filled = blocks.iter().peekable();
    loop {
        if filled.next_if(|block| *block.at == *at).is_none() {
            listed.push(place_name(source, &at, blocks, layout));
        }
        if listed.len() >= MAX_LISTED || !advance(&mut at, &shape) {
            break;
        }
    }
    let first = listed.first().cloned().unwrap_or_default();
    if !options.allow_holes {
        return Err(CombineError::Holes { count, first });
    }
    plan.notes.extend(listed.into_iter().map(|hole| Note::new(hole, "no file: reads as the fill value")));
    if count > MAX_LISTED as u64 {
        plan.notes.push(Note::new("holes", format!("{count} in all")));
    }
    Ok(Some(first))
}

const MAX_LISTED: usize = 20;

/// Names an empty place by the coordinates of the files next to it.
fn place_name(source: Source<'_>, at: &[u32], blocks: &[Block], layout: &Layout) -> String {
    let one = |(dimension, n): (usize, &u32)| {
        let name = layout.along.get(dimension).map_or("", |along| along.name());
        let beside = blocks.iter().find(|other| other.at.get(dimension) == Some(n));
        let range = beside.and_then(|block| extent_of(source, block)?.range(dimension));
        match range {
            Some(range) => {
                format!("{name} {}", range.date(&range.first).unwrap_or_else(|| range.first.to_string()))
            }
            None => format!("{name}[{n}]"),
        }
    };
    at.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}
