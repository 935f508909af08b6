//! Selections of the elements of an array.

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

/// Reason why a selection does not fit an array.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectionError {
    /// The number of axes differs.
    #[error("a selection along {found} axes, and the array has {rank}")]
    Rank {
        /// Number of axes of the array.
        rank: usize,
        /// Number of axes of the selection.
        found: usize,
    },
    /// An index is out of bounds.
    #[error("index {index} is out of bounds for axis {axis} with size {size}")]
    OutOfBounds {
        /// The axis, slowest first.
        axis: usize,
        /// The index. It saturates.
        index: u64,
        /// Number of elements along the axis.
        size: u64,
    },
    /// The step of a range is 0.
    #[error("the step along axis {axis} is 0, expected at least 1")]
    Step {
        /// The axis, slowest first.
        axis: usize,
    },
    /// The lists of coordinates differ in length.
    #[error("lists of {found:?} coordinates, expected equal numbers")]
    Points {
        /// Number of coordinates for each axis.
        found: Vec<usize>,
    },
    /// The selection has too many elements.
    #[error("a selection of {shape:?} elements is too large")]
    TooLarge {
        /// Number of elements along each axis.
        shape: Vec<u64>,
    },
    /// The buffer for the elements has the wrong length.
    #[error("a buffer of {found} bytes for a selection of {expected} bytes")]
    Buffer {
        /// Length of the selected elements in bytes.
        expected: u64,
        /// Length of the buffer in bytes.
        found: u64,
    },
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
    pub(crate) fn lengths(&self) -> Result<Vec<usize>, SelectionError> {
        let shape = self.shape();
        let lengths: Result<Vec<usize>, _> = shape.iter().map(|count| usize::try_from(*count)).collect();
        lengths.map_err(|_| SelectionError::TooLarge { shape })
    }

    /// Checks that the selection fits an array of a shape, and returns its number of elements.
    ///
    /// # Errors
    /// See [`SelectionError`].
    pub fn check(&self, shape: &[u64]) -> Result<u64, SelectionError> {
        let found = match self {
            Self::Axes(axes) => axes.len(),
            Self::Points(lists) => lists.len(),
        };
        if found != shape.len() {
            return Err(SelectionError::Rank { rank: shape.len(), found });
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
                    return Err(SelectionError::Points { found: counts });
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
        elements.ok_or(SelectionError::TooLarge { shape: counts })
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

    fn check(&self, axis: usize, size: u64) -> Result<(), SelectionError> {
        match self {
            Self::Range { step: 0, .. } => Err(SelectionError::Step { axis }),
            Self::Range { count: 0, .. } => Ok(()),
            Self::Range { start, step, count } => {
                let last = count.saturating_sub(1).saturating_mul(*step).saturating_add(*start);
                check_indices(&[last], axis, size)
            }
            Self::Indices(indices) => check_indices(indices, axis, size),
        }
    }
}

fn check_indices(indices: &[u64], axis: usize, size: u64) -> Result<(), SelectionError> {
    match indices.iter().find(|index| **index >= size) {
        Some(index) => Err(SelectionError::OutOfBounds { axis, index: *index, size }),
        None => Ok(()),
    }
}
