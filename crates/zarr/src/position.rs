//! Conversion between indices of chunks in the grid and their row-major position.

/// Returns the indices of the chunk at a row-major position, slowest axis first, in a grid of `counts` chunks along
/// each axis. `None` outside the grid.
pub fn chunk_indices(position: u64, counts: &[u64]) -> Option<Vec<u64>> {
    let mut rest = position;
    let mut indices = vec![0; counts.len()];
    for (index, count) in indices.iter_mut().zip(counts).rev() {
        *index = rest.checked_rem(*count)?;
        rest = rest.checked_div(*count)?;
    }
    (rest == 0).then_some(indices)
}

/// Returns the row-major position of the chunk with these indices, slowest axis first. `None` outside the grid.
pub fn chunk_position(indices: impl IntoIterator<Item = u64>, counts: &[u64]) -> Option<u64> {
    let mut counts = counts.iter();
    let mut position = 0_u64;
    for index in indices {
        let count = *counts.next()?;
        position = position.checked_mul(count)?.checked_add(index).filter(|_| index < count)?;
    }
    counts.next().is_none().then_some(position)
}

/// Returns the greatest common divisor; the other number if one is 0.
pub fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_row_major() {
        for (position, indices) in [(0, [0, 0, 0]), (3, [0, 0, 3]), (4, [0, 1, 0]), (23, [1, 2, 3])] {
            assert_eq!(chunk_indices(position, &[2, 3, 4]).as_deref(), Some(&indices[..]));
            assert_eq!(chunk_position(indices, &[2, 3, 4]), Some(position));
        }
    }

    #[test]
    fn positions_and_indices_are_inverse() {
        for position in 0..24 {
            let indices = chunk_indices(position, &[2, 3, 4]).unwrap();
            assert_eq!(chunk_position(indices, &[2, 3, 4]), Some(position));
        }
    }

    #[test]
    fn outside_the_grid_is_nothing() {
        assert_eq!(chunk_indices(24, &[2, 3, 4]), None);
        assert_eq!(chunk_indices(0, &[2, 0]), None);
        assert_eq!(chunk_position([0, 3], &[2, 3]), None);
        assert_eq!(chunk_position([1], &[2, 3]), None);
        assert_eq!(chunk_position([1, 1, 0], &[2, 3]), None);
        assert_eq!(chunk_position([u64::MAX - 1, 5], &[u64::MAX, 6]), None);
    }

    #[test]
    fn a_scalar_has_one_chunk() {
        assert_eq!(chunk_indices(0, &[]), Some(Vec::new()));
        assert_eq!(chunk_indices(1, &[]), None);
        assert_eq!(chunk_position([], &[]), Some(0));
    }

    #[test]
    fn common_divisors() {
        for (left, right, greatest) in [(12, 18, 6), (18, 12, 6), (9, 15, 3), (7, 5, 1), (0, 4, 4), (4, 0, 4)]
        {
            assert_eq!(greatest_common_divisor(left, right), greatest);
        }
    }
}
