//! Sets of coefficients: boxes that are split in halves along each axis, of which the first is the longer one.

/// A box of coefficients, the fastest axis first.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Set {
    pub(super) start: [u32; 3],
    pub(super) size: [u32; 3],
    /// List of the set.
    pub(super) level: usize,
}

impl Set {
    pub(super) fn elements(&self) -> u64 {
        self.size.iter().map(|size| u64::from(*size)).product()
    }

    /// Splits the set along the axes of `along`. The fastest axis alternates first; some parts may be empty.
    pub(super) fn split(&self, along: [bool; 3]) -> Vec<Self> {
        let mut parts = vec![*self];
        for (axis, _) in along.iter().enumerate().filter(|(_, is_split)| **is_split) {
            let halves = [false, true]
                .into_iter()
                .flat_map(|second| parts.iter().map(move |part| part.half(axis, second)));
            parts = halves.collect();
        }
        parts
    }

    fn half(mut self, axis: usize, second: bool) -> Self {
        if let (Some(start), Some(size)) = (self.start.get_mut(axis), self.size.get_mut(axis)) {
            let (long, short) = (*size - *size / 2, *size / 2);
            if second {
                *start += long;
            }
            *size = if second { short } else { long };
        }
        self
    }

    /// Returns the number of axes of `along` that a split shortens.
    pub(super) fn axes_split(&self, along: [bool; 3]) -> usize {
        self.size.iter().zip(along).filter(|(size, is_split)| *is_split && **size > 1).count()
    }
}

/// Returns how often a wavelet transform halves an axis.
pub(super) fn transforms(mut size: usize) -> usize {
    let mut count = 0;
    while size >= 9 && count < 6 {
        count += 1;
        size -= size / 2;
    }
    count
}

/// Returns how often all axes of a volume are halved together; `None` if planes are transformed apart from columns.
pub(super) fn dyadic([x, y, z]: [usize; 3]) -> Option<usize> {
    let (plane, column) = (transforms(x.min(y)), transforms(z));
    let together = z > 1 && y > 1 && (plane == column || plane.min(column) >= 5);
    together.then_some(plane.min(column))
}

/// Returns the lengths of both parts of an axis after so many transforms.
pub(super) fn parts(size: usize, transforms: usize) -> (usize, usize) {
    (0..transforms).fold((size, 0), |(low, _), _| (low - low / 2, low / 2))
}
