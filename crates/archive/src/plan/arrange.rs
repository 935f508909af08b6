//! Arranges files in a grid.

use super::{
    duplicates::resolve_duplicates,
    model::{Block, Plan, Source},
    natural,
    options::PlanOptions,
    order,
};
use crate::{
    Layout,
    error::{CombineError, Problem},
};

/// Files in order of place, and the number of elements of each place along each dimension.
pub(super) type Arranged = (Vec<Block>, Vec<Vec<u64>>);

/// Arranges files by their coordinates along each dimension.
pub(super) fn arrange(
    source: Source<'_>,
    era: &[u32],
    layout: &Layout,
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<Arranged, CombineError> {
    let mut known = Vec::with_capacity(layout.along.len());
    for (n, dimension) in layout.along.iter().enumerate() {
        let (placed, notes) = order::place(dimension.name(), n, source, era)?;
        plan.notes.extend(notes);
        known.push(placed);
    }
    let cells = Cells::new(source, era, known, layout)?;
    let mut blocks = Vec::with_capacity(era.len());
    let mut there = Vec::new();
    for places in cells.order.chunk_by(|one, other| cells.is_same(*one, *other)) {
        there.clear();
        there.extend(places.iter().filter_map(|place| era.get(index(*place))));
        let kept = resolve_duplicates(&there, source, options.on_duplicate, plan)?;
        if let (Some(kept), Some(place)) = (kept, places.first()) {
            blocks.push(Block { row: kept.into(), at: cells.at(*place).collect(), selection: None });
        }
    }
    drop(cells);
    let sizes = sizes(source, &blocks, layout.along.len())?;
    Ok((blocks, sizes))
}

/// The place of each file of an era. Files are numbers of places in the era.
struct Cells {
    /// Place along each dimension, by file.
    places: Vec<Vec<u32>>,
    /// The files in order of place, those of one place in order of their rows.
    order: Vec<u32>,
}

impl Cells {
    /// Orders files by their places. Along a dimension without coordinates, files are ordered by name.
    fn new(
        source: Source<'_>,
        era: &[u32],
        known: Vec<Option<Vec<u32>>>,
        layout: &Layout,
    ) -> Result<Self, CombineError> {
        let mut unknown = known.iter().enumerate().filter(|(_, placed)| placed.is_none()).map(|(n, _)| n);
        let (without, another) = (unknown.next(), unknown.next());
        if let (Some(left), Some(right)) = (without, another) {
            let name = |n: usize| layout.along.get(n).map_or("", |along| along.name());
            let option = format!("dimensions {} and {}", name(left), name(right));
            return Err(CombineError::option(option, Problem::NoOrder));
        }
        let count = u32::try_from(era.len()).unwrap_or(u32::MAX);
        let places = known.into_iter().map(|placed| placed.unwrap_or_else(|| vec![0; era.len()])).collect();
        let mut cells = Self { places, order: (0..count).collect() };
        cells.sort();
        if let Some(dimension) = without {
            cells.spread(dimension, source, era);
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
    fn spread(&mut self, dimension: usize, source: Source<'_>, era: &[u32]) {
        let mut order = std::mem::take(&mut self.order);
        for files in order.chunk_by_mut(|one, other| self.is_same(*one, *other)) {
            natural::sort(files, |file| {
                era.get(index(file)).map(|file| source.url(*file)).unwrap_or_default()
            });
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

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Marks a place at which no file was seen yet.
const UNKNOWN: u64 = u64::MAX;

/// Returns the number of elements at each place along each dimension, on which all files must agree.
fn sizes(source: Source<'_>, blocks: &[Block], dimensions: usize) -> Result<Vec<Vec<u64>>, CombineError> {
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
                let problem = Problem::UnequalSizes { left: *slot, right: size };
                return Err(source.conflict(number(first), number(block), problem));
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
