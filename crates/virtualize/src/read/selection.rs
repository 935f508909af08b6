//! Selections of the elements of an array, and the chunks that they touch along each axis.

use crate::error::ArrayError;

/// Elements of an array that are read together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// Indices along each axis, slowest axis first: all their combinations are read (orthogonal or outer indexing).
    Axes(Vec<AxisSelection>),
    /// Coordinates of single elements (vectorized indexing): one list for each axis, slowest axis first. All lists are
    /// equally long.
    Points(Vec<Vec<u64>>),
}

/// Indices along one axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AxisSelection {
    /// `start`, `start + step`, …
    Range {
        /// First index.
        start: u64,
        /// Distance between two indices, at least 1.
        step: u64,
        /// Number of indices.
        count: u64,
    },
    /// Indices in any order, possibly repeated.
    Indices(Vec<u64>),
}

impl Selection {
    /// Returns the selection of all elements of an array.
    pub fn all(shape: &[u64]) -> Self {
        let whole = |size: &u64| AxisSelection::Range { start: 0, step: 1, count: *size };
        Self::Axes(shape.iter().map(whole).collect())
    }

    /// Returns the shape of the selected elements, slowest axis first. Points have one axis.
    pub fn shape(&self) -> Vec<u64> {
        match self {
            Self::Axes(axes) => axes.iter().map(AxisSelection::count).collect(),
            Self::Points(lists) => vec![lists.first().map_or(1, |list| list.len() as u64)],
        }
    }

    /// Returns the shape of the selected elements in memory.
    pub(crate) fn lengths(&self) -> Result<Vec<usize>, ArrayError> {
        let shape = self.shape();
        let lengths: Result<Vec<usize>, _> = shape.iter().map(|count| usize::try_from(*count)).collect();
        lengths.map_err(|_| too_large(&shape))
    }

    /// Checks that the selection fits an array of a shape, and returns its number of elements.
    ///
    /// # Errors
    /// The selection does not fit.
    pub fn check(&self, shape: &[u64]) -> Result<u64, ArrayError> {
        let found = match self {
            Self::Axes(axes) => axes.len(),
            Self::Points(lists) => lists.len(),
        };
        if found != shape.len() {
            let rank = shape.len();
            return Err(ArrayError::invalid(format!(
                "a selection along {found} axes, and the array has {rank}"
            )));
        }
        match self {
            Self::Axes(axes) => {
                for (axis, (selected, size)) in axes.iter().zip(shape).enumerate() {
                    selected.check(axis, *size)?;
                }
            }
            Self::Points(lists) => {
                let counts: Vec<usize> = lists.iter().map(Vec::len).collect();
                if counts.windows(2).any(|pair| pair.first() != pair.last()) {
                    let text = format!("lists of {counts:?} coordinates, expected equal numbers");
                    return Err(ArrayError::invalid(text));
                }
                for (axis, (list, size)) in lists.iter().zip(shape).enumerate() {
                    check_indices(list, axis, *size)?;
                }
            }
        }
        let counts = self.shape();
        let elements = counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count));
        // Zero elements along any axis are zero elements in all.
        let elements = if counts.contains(&0) { Some(0) } else { elements };
        elements.ok_or_else(|| too_large(&counts))
    }
}

impl AxisSelection {
    /// Returns the number of indices.
    pub fn count(&self) -> u64 {
        match self {
            Self::Range { count, .. } => *count,
            Self::Indices(indices) => indices.len() as u64,
        }
    }

    fn check(&self, axis: usize, size: u64) -> Result<(), ArrayError> {
        match self {
            Self::Range { step: 0, .. } => {
                Err(ArrayError::invalid(format!("the step along axis {axis} is 0, expected at least 1")))
            }
            Self::Range { count: 0, .. } => Ok(()),
            Self::Range { start, step, count } => {
                let last = count.saturating_sub(1).saturating_mul(*step).saturating_add(*start);
                check_indices(&[last], axis, size)
            }
            Self::Indices(indices) => check_indices(indices, axis, size),
        }
    }
}

fn check_indices(indices: &[u64], axis: usize, size: u64) -> Result<(), ArrayError> {
    match indices.iter().find(|index| **index >= size) {
        Some(index) => {
            let text = format!("index {index} is out of bounds for axis {axis} with size {size}");
            Err(ArrayError::invalid(text))
        }
        None => Ok(()),
    }
}

pub(super) fn too_large(shape: &[u64]) -> ArrayError {
    ArrayError::invalid(format!("a selection of {shape:?} elements is too large"))
}

/// Selected indices along one axis of an array, grouped by the chunks that contain them.
pub(super) struct Axis<'a> {
    sizes: Sizes<'a>,
    selected: Selected,
    groups: Groups,
}

/// Lengths of the chunks along an axis.
enum Sizes<'a> {
    Even(u64),
    Each { starts: Vec<u64>, sizes: &'a [u64] },
}

enum Selected {
    Range {
        start: u64,
        step: u64,
        count: u64,
    },
    /// Index in the array and in the result, in ascending order.
    List(Vec<(u64, u64)>),
}

enum Groups {
    /// A range of a regular grid: its groups are computed, since there may be as many as elements.
    Regular,
    Each(Vec<Group>),
}

/// Consecutive selected indices that are in one chunk.
#[derive(Clone, Copy)]
struct Group {
    chunk: u64,
    first: u64,
    count: u64,
}

/// The selected indices in one chunk, or in part of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisPart<'a> {
    /// Index of the chunk in the grid.
    pub(super) chunk: u64,
    /// First index of the part, in the array.
    pub(super) base: u64,
    /// Length of the part.
    pub(super) size: u64,
    pub(super) steps: Steps<'a>,
}

/// Indices in the array, and their indices in the result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Steps<'a> {
    /// Evenly spaced ones, with consecutive indices in the result.
    Even { from: u64, step: u64, count: u64, to: u64 },
    /// Pairs in ascending order.
    Each(&'a [(u64, u64)]),
}

impl<'a> Axis<'a> {
    /// Groups indices along an axis of a regular grid.
    pub(super) fn regular(selection: &AxisSelection, size: u64) -> Result<Self, ArrayError> {
        if size == 0 {
            return Err(ArrayError::TOO_FEW_ELEMENTS);
        }
        Self::new(selection, Sizes::Even(size))
    }

    /// Groups indices along an axis of a rectilinear grid.
    pub(super) fn rectilinear(selection: &AxisSelection, sizes: &'a [u64]) -> Result<Self, ArrayError> {
        let sum = |sum: &mut u64, size: &u64| Some(std::mem::replace(sum, sum.saturating_add(*size)));
        let starts = sizes.iter().scan(0, sum).collect();
        Self::new(selection, Sizes::Each { starts, sizes })
    }

    fn new(selection: &AxisSelection, sizes: Sizes<'a>) -> Result<Self, ArrayError> {
        let selected = match selection {
            AxisSelection::Range { start, step, count } => {
                Selected::Range { start: *start, step: (*step).max(1), count: *count }
            }
            AxisSelection::Indices(indices) => {
                let mut pairs: Vec<(u64, u64)> = indices.iter().copied().zip(0..).collect();
                pairs.sort_unstable();
                Selected::List(pairs)
            }
        };
        let mut axis = Self { sizes, selected, groups: Groups::Regular };
        if !matches!((&axis.sizes, &axis.selected), (Sizes::Even(_), Selected::Range { .. })) {
            axis.groups = Groups::Each(axis.grouped()?);
        }
        Ok(axis)
    }

    /// Groups the selected indices chunk by chunk.
    fn grouped(&self) -> Result<Vec<Group>, ArrayError> {
        let mut groups = Vec::new();
        let mut first = 0;
        while let Some((index, _)) = self.pair(first) {
            let chunk = self.chunk_of(index);
            let (base, size) = self.extent(chunk).ok_or(ArrayError::TOO_FEW_ELEMENTS)?;
            let end = base.saturating_add(size);
            if index >= end {
                return Err(ArrayError::TOO_FEW_ELEMENTS);
            }
            let next = match &self.selected {
                Selected::Range { start, step, count } => (end - start).div_ceil(*step).min(*count),
                Selected::List(pairs) => pairs.partition_point(|(index, _)| *index < end) as u64,
            };
            groups.push(Group { chunk, first, count: next - first });
            first = next;
        }
        Ok(groups)
    }

    /// Returns the number of chunks that contain selected indices.
    pub(super) fn touched(&self) -> u64 {
        match (&self.groups, &self.selected, &self.sizes) {
            (Groups::Each(groups), ..) => groups.len() as u64,
            (_, Selected::Range { count: 0, .. }, _) => 0,
            (_, Selected::Range { start, step, count }, Sizes::Even(size)) if step <= size => {
                let last = start + (count - 1) * step;
                last / size - start / size + 1
            }
            (_, Selected::Range { count, .. }, _) => *count,
            (_, Selected::List(pairs), _) => pairs.len() as u64,
        }
    }

    /// Returns the selected indices in the `n`-th touched chunk.
    pub(super) fn part(&self, n: u64) -> Option<AxisPart<'_>> {
        let group = match &self.groups {
            Groups::Each(groups) => *groups.get(usize::try_from(n).ok()?)?,
            Groups::Regular => self.regular_group(n)?,
        };
        let (base, size) = self.extent(group.chunk)?;
        let steps = match &self.selected {
            Selected::Range { start, step, .. } => Steps::Even {
                from: start + group.first * step,
                step: *step,
                count: group.count,
                to: group.first,
            },
            Selected::List(pairs) => {
                let first = usize::try_from(group.first).ok()?;
                Steps::Each(pairs.get(first..first.checked_add(usize::try_from(group.count).ok()?)?)?)
            }
        };
        Some(AxisPart { chunk: group.chunk, base, size, steps })
    }

    fn regular_group(&self, n: u64) -> Option<Group> {
        let (Selected::Range { start, step, count }, Sizes::Even(size)) = (&self.selected, &self.sizes)
        else {
            return None;
        };
        if step > size {
            return Some(Group { chunk: (start + n * step) / size, first: n, count: 1 });
        }
        let chunk = start / size + n;
        let first_at =
            |chunk: u64| chunk.saturating_mul(*size).saturating_sub(*start).div_ceil(*step).min(*count);
        let first = first_at(chunk);
        Some(Group { chunk, first, count: first_at(chunk + 1) - first })
    }

    /// Returns whether one chunk spans a whole contiguous selection.
    pub(super) fn is_whole(&self) -> bool {
        let part = self.part(0).filter(|_| self.touched() == 1);
        part.is_some_and(|part| match part.steps {
            Steps::Even { step: 1, count, .. } => count == part.size,
            _ => false,
        })
    }

    /// Returns how many selected indices are in the first chunk and in each other one, for ranges without gaps in
    /// chunks of one length.
    pub(super) fn run(&self) -> Option<(usize, usize)> {
        match (&self.selected, &self.sizes) {
            (Selected::Range { start, step: 1, .. }, Sizes::Even(size)) => {
                Some((usize::try_from(size - start % size).ok()?, usize::try_from(*size).ok()?))
            }
            _ => None,
        }
    }

    fn pair(&self, n: u64) -> Option<(u64, u64)> {
        match &self.selected {
            Selected::Range { start, step, count } => (n < *count).then(|| (start + n * step, n)),
            Selected::List(pairs) => pairs.get(usize::try_from(n).ok()?).copied(),
        }
    }

    /// Returns the chunk that contains an index.
    pub(super) fn chunk_of(&self, index: u64) -> u64 {
        match &self.sizes {
            Sizes::Even(size) => index / size,
            Sizes::Each { starts, .. } => {
                (starts.partition_point(|start| *start <= index) as u64).saturating_sub(1)
            }
        }
    }

    /// Returns start and length of a chunk.
    pub(super) fn extent(&self, chunk: u64) -> Option<(u64, u64)> {
        match &self.sizes {
            Sizes::Even(size) => Some((chunk.checked_mul(*size)?, *size)),
            Sizes::Each { starts, sizes } => {
                let at = usize::try_from(chunk).ok()?;
                Some((*starts.get(at)?, *sizes.get(at)?))
            }
        }
    }
}

impl<'a> AxisPart<'a> {
    /// Returns the number of selected indices.
    pub(super) fn count(&self) -> u64 {
        match self.steps {
            Steps::Even { count, .. } => count,
            Steps::Each(pairs) => pairs.len() as u64,
        }
    }

    /// Returns the first and last selected index.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        match self.steps {
            Steps::Even { count: 0, .. } => None,
            Steps::Even { from, step, count, .. } => Some((from, from + (count - 1) * step)),
            Steps::Each(pairs) => Some((pairs.first()?.0, pairs.last()?.0)),
        }
    }

    /// Returns the part that is one selected index.
    pub(super) fn single(&self, n: u64) -> Option<Self> {
        let steps = match self.steps {
            Steps::Even { from, step, to, .. } => {
                Steps::Even { from: from + n * step, step: 1, count: 1, to: to + n }
            }
            Steps::Each(pairs) => {
                let at = usize::try_from(n).ok()?;
                Steps::Each(pairs.get(at..at.checked_add(1)?)?)
            }
        };
        let base = Self { steps, ..*self }.bounds()?.0;
        Some(Self { base, size: 1, steps, ..*self })
    }

    /// Returns the part from `start` on, of at most `size` indices of the array. Indices outside are not selected.
    pub(super) fn narrowed(&self, start: u64, size: u64) -> Self {
        let end = start.saturating_add(size);
        let steps = match self.steps {
            Steps::Even { from, step, count, to } => {
                let before = |index: u64| index.saturating_sub(from).div_ceil(step).min(count);
                let (first, after) = (before(start), before(end));
                Steps::Even { from: from + first * step, step, count: after - first, to: to + first }
            }
            Steps::Each(pairs) => {
                let before = |index: u64| pairs.partition_point(|(at, _)| *at < index);
                Steps::Each(pairs.get(before(start)..before(end)).unwrap_or_default())
            }
        };
        Self { base: start, size, steps, ..*self }
    }
}
