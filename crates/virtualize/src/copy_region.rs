//! Copying of boxes of elements between arrays in memory.

/// Box of elements in an array: its start, and the distance between its elements along each axis.
pub(crate) struct Region {
    /// Index of the first element in the buffer.
    start: u64,
    /// Distance between consecutive elements along each axis.
    strides: Vec<u64>,
}

/// Reason why a box was not copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a piece does not fit its chunk")]
pub(crate) struct RegionError;

impl Region {
    /// Returns the box that starts at an index of an array in row-major order.
    pub(crate) fn new(shape: &[u64], start: &[u64]) -> Self {
        let order: Vec<usize> = (0..shape.len()).collect();
        Self::permuted(shape, &order, start)
    }

    /// Returns the box that starts at an index of an array whose axis `order[i]` is axis `i` of its row-major buffer.
    pub(crate) fn permuted(shape: &[u64], order: &[usize], start: &[u64]) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut step = 1_u64;
        for axis in order.iter().rev() {
            if let (Some(stride), Some(size)) = (strides.get_mut(*axis), shape.get(*axis)) {
                *stride = step;
                step = step.saturating_mul(*size);
            }
        }
        Self { start: Self { start: 0, strides: strides.clone() }.offset(start), strides }
    }

    /// Returns the index in the buffer of an element of the box.
    fn offset(&self, at: &[u64]) -> u64 {
        let steps = at.iter().zip(&self.strides).map(|(at, step)| at.saturating_mul(*step));
        steps.fold(self.start, u64::saturating_add)
    }
}

/// Copies a box of `extent` elements, of `element` bytes each.
///
/// # Errors
/// Part of the box is outside its buffer. Rows that were copied before remain.
pub(crate) fn copy_region(
    target: (&mut [u8], &Region),
    source: (&[u8], &Region),
    extent: &[u64],
    element: usize,
) -> Result<(), RegionError> {
    if extent.contains(&0) {
        return Ok(());
    }
    let ((target, to), (source, from)) = (target, source);
    // A row is copied in one piece if its elements are adjacent in both buffers.
    let is_adjacent = |region: &Region| region.strides.last() == Some(&1);
    let (rows, run) = match extent.split_last() {
        Some((row, outer)) if is_adjacent(from) && is_adjacent(to) => (outer, *row),
        _ => (extent, 1),
    };
    let mut at = vec![0_u64; rows.len()];
    loop {
        copy(target, to.offset(&at), source, from.offset(&at), run, element).ok_or(RegionError)?;
        if !advance(&mut at, rows) {
            return Ok(());
        }
    }
}

/// Moves to the next index in row-major order. Returns `false` after the last.
fn advance(at: &mut [u64], extent: &[u64]) -> bool {
    at.iter_mut().zip(extent).rev().any(|(at, size)| {
        *at = at.saturating_add(1);
        let is_inside = *at < *size;
        if !is_inside {
            *at = 0;
        }
        is_inside
    })
}

fn copy(target: &mut [u8], to: u64, source: &[u8], from: u64, count: u64, element: usize) -> Option<()> {
    let bytes = |elements: u64| usize::try_from(elements).ok()?.checked_mul(element);
    let (to, from, length) = (bytes(to)?, bytes(from)?, bytes(count)?);
    let target = target.get_mut(to..to.checked_add(length)?)?;
    target.copy_from_slice(source.get(from..from.checked_add(length)?)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_box_goes_to_its_place() {
        let mut chunk = *b"............";
        let (to, from) = (Region::new(&[3, 4], &[1, 2]), Region::new(&[2, 3], &[0, 1]));
        copy_region((&mut chunk, &to), (b"abcdef", &from), &[2, 2], 1).unwrap();
        assert_eq!(&chunk, b"......bc..ef");
    }

    #[test]
    fn elements_of_several_bytes_in_three_dimensions() {
        let mut chunk = *b"................";
        let (to, from) = (Region::new(&[2, 2, 2], &[0, 1, 0]), Region::new(&[2, 1, 2], &[0, 0, 1]));
        copy_region((&mut chunk, &to), (b"aabbccdd", &from), &[2, 1, 1], 2).unwrap();
        assert_eq!(&chunk, b"....bb......dd..");
    }

    #[test]
    fn scalars_and_nothing() {
        let mut chunk = *b"..";
        let scalar = Region::new(&[], &[]);
        copy_region((&mut chunk, &scalar), (b"ab", &scalar), &[], 2).unwrap();
        assert_eq!(&chunk, b"ab");
        let vector = Region::new(&[2], &[0]);
        copy_region((&mut chunk, &vector), (b"cd", &vector), &[0], 1).unwrap();
        assert_eq!(&chunk, b"ab");
    }

    #[test]
    fn axes_change_their_order() {
        let mut rows = *b"......";
        let (to, from) = (Region::new(&[2, 3], &[0, 0]), Region::permuted(&[2, 3], &[1, 0], &[0, 0]));
        copy_region((&mut rows, &to), (b"adbecf", &from), &[2, 3], 1).unwrap();
        assert_eq!(&rows, b"abcdef");
    }

    #[test]
    fn buffers_that_are_too_short_are_refused() {
        let mut chunk = *b"....";
        let (to, from) = (Region::new(&[4], &[3]), Region::new(&[2], &[0]));
        assert_eq!(copy_region((&mut chunk, &to), (b"ab", &from), &[2], 1), Err(RegionError));
        let far = Region::new(&[2], &[u64::MAX]);
        assert_eq!(copy_region((&mut chunk, &from), (b"ab", &far), &[2], 1), Err(RegionError));
    }
}
