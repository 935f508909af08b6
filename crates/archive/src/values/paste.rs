//! Copies boxes of elements into larger arrays.

/// Copies a box of elements into an array. Shapes and places are in elements, slowest axis first; both buffers are in
/// row-major order. Returns `None` if the box exceeds the array or its own buffer.
pub(crate) fn paste(
    into: &mut [u8],
    shape: &[u64],
    at: &[u64],
    from: &[u8],
    from_shape: &[u64],
    size: u64,
) -> Option<()> {
    let inside = shape
        .iter()
        .zip(at)
        .zip(from_shape)
        .all(|((n, at), own)| at.checked_add(*own).is_some_and(|end| end <= *n));
    if !inside || shape.len() != at.len() || at.len() != from_shape.len() {
        return None;
    }
    let Some((row, outer)) = from_shape.split_last() else {
        let size = usize::try_from(size).ok()?;
        into.get_mut(..size)?.copy_from_slice(from.get(..size)?);
        return Some(());
    };
    let bytes = usize::try_from(row.checked_mul(size)?).ok()?;
    if bytes == 0 || outer.contains(&0) {
        return Some(());
    }
    let mut index = vec![0; outer.len()];
    for row in from.chunks_exact(bytes) {
        let start = usize::try_from(position(shape, at, &index)?.checked_mul(size)?).ok()?;
        into.get_mut(start..start.checked_add(bytes)?)?.copy_from_slice(row);
        if !advance(&mut index, outer) {
            return Some(());
        }
    }
    None
}

/// Returns the row-major position of the element at `at` + `index` (0 along the axes that `index` lacks).
fn position(shape: &[u64], at: &[u64], index: &[u64]) -> Option<u64> {
    let steps = index.iter().copied().chain(std::iter::repeat(0));
    shape
        .iter()
        .zip(at)
        .zip(steps)
        .try_fold(0_u64, |sum, ((n, at), step)| sum.checked_mul(*n)?.checked_add(at.checked_add(step)?))
}

/// Advances to the next index, the last axis fastest; returns false after the last.
pub(crate) fn advance(index: &mut [u64], shape: &[u64]) -> bool {
    for (at, n) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *n {
            return true;
        }
        *at = 0;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_goes_to_its_place() {
        let mut into = vec![0; 12];
        paste(&mut into, &[3, 4], &[1, 2], &[1, 2, 3, 4], &[2, 2], 1).unwrap();
        assert_eq!(into, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4]);
        assert!(paste(&mut into, &[3, 4], &[2, 2], &[1, 2, 3, 4], &[2, 2], 1).is_none());
        let mut one = vec![0; 2];
        paste(&mut one, &[], &[], &[7, 8], &[], 2).unwrap();
        assert_eq!(one, [7, 8]);
    }
}
