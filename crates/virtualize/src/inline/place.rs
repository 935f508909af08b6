use virtualize_map::Piece;

use super::Failure;

/// Copies the used part of a piece into a chunk, both in C order, `element` bytes an element.
pub(super) fn lay(
    chunk: &mut [u8],
    chunk_shape: &[u64],
    elements: &[u8],
    piece: &Piece,
    element: usize,
) -> Result<(), Failure> {
    check(chunk_shape, piece)?;
    let Some((&row, outer)) = piece.extent.split_last() else {
        return copy(chunk, 0, elements, 0, element);
    };
    if piece.extent.contains(&0) {
        return Ok(());
    }
    let bytes = bytes_of(row, element)?;
    let mut at = vec![0_u64; outer.len()];
    loop {
        let from = bytes_of(flat(&piece.shape, &piece.from, &at), element)?;
        let to = bytes_of(flat(chunk_shape, &piece.to, &at), element)?;
        copy(chunk, to, elements, from, bytes)?;
        if !next(&mut at, outer) {
            return Ok(());
        }
    }
}

/// The part lies within the piece, and its place within the chunk.
fn check(chunk_shape: &[u64], piece: &Piece) -> Result<(), Failure> {
    let rank = chunk_shape.len();
    let ranks = [&piece.shape, &piece.from, &piece.to, &piece.extent].map(Vec::len);
    let within = |shape: &[u64], start: &[u64]| {
        shape
            .iter()
            .zip(start)
            .zip(&piece.extent)
            .all(|((size, start), extent)| start.checked_add(*extent).is_some_and(|end| end <= *size))
    };
    if ranks == [rank; 4] && within(&piece.shape, &piece.from) && within(chunk_shape, &piece.to) {
        return Ok(());
    }
    Err(Failure::Chunk(format!(
        "a piece of {:?} elements from {:?} does not fit at {:?} of {chunk_shape:?}",
        piece.extent, piece.from, piece.to
    )))
}

/// Row-major position of the row that starts at `start` plus `at` (which lacks the last axis).
fn flat(shape: &[u64], start: &[u64], at: &[u64]) -> u64 {
    let steps = at.iter().copied().chain(std::iter::once(0));
    shape.iter().zip(start).zip(steps).fold(0, |sum: u64, ((size, start), step)| {
        sum.saturating_mul(*size).saturating_add(start.saturating_add(step))
    })
}

/// Moves to the next row; false after the last.
fn next(at: &mut [u64], extent: &[u64]) -> bool {
    for (step, size) in at.iter_mut().zip(extent).rev() {
        *step += 1;
        if *step < *size {
            return true;
        }
        *step = 0;
    }
    false
}

fn bytes_of(elements: u64, element: usize) -> Result<usize, Failure> {
    let count = usize::try_from(elements).ok().and_then(|count| count.checked_mul(element));
    count.ok_or_else(|| Failure::Chunk("a chunk is too large to be inlined".to_owned()))
}

fn copy(chunk: &mut [u8], to: usize, elements: &[u8], from: usize, bytes: usize) -> Result<(), Failure> {
    let source = from.checked_add(bytes).and_then(|end| elements.get(from..end));
    let target = to.checked_add(bytes).and_then(|end| chunk.get_mut(to..end));
    match (source, target) {
        (Some(source), Some(target)) => {
            target.copy_from_slice(source);
            Ok(())
        }
        _ => Err(Failure::Chunk("a piece does not fit its chunk".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::ByteRange;
    use virtualize_map::{ElementTransform, PieceBytes};
    use virtualize_zarr::SourceId;

    use super::*;

    fn piece(shape: &[u64], from: &[u64], to: &[u64], extent: &[u64]) -> Piece {
        Piece {
            source: SourceId(0),
            bytes: PieceBytes::At(ByteRange::new(0, 1)),
            codecs: vec![],
            shape: shape.to_vec(),
            from: from.to_vec(),
            to: to.to_vec(),
            extent: extent.to_vec(),
            transform: ElementTransform::None,
        }
    }

    #[test]
    fn a_part_of_a_piece_goes_to_its_place() {
        let mut chunk = *b"............";
        let part = piece(&[2, 3], &[0, 1], &[1, 2], &[2, 2]);
        lay(&mut chunk, &[3, 4], b"abcdef", &part, 1).unwrap();
        assert_eq!(&chunk, b"......bc..ef");
    }

    #[test]
    fn elements_of_several_bytes_in_three_dimensions() {
        let mut chunk = *b"................";
        let part = piece(&[2, 1, 2], &[0, 0, 1], &[0, 1, 0], &[2, 1, 1]);
        lay(&mut chunk, &[2, 2, 2], b"aabbccdd", &part, 2).unwrap();
        assert_eq!(&chunk, b"....bb......dd..");
    }

    #[test]
    fn scalars_and_nothing() {
        let mut chunk = *b"..";
        lay(&mut chunk, &[], b"ab", &piece(&[], &[], &[], &[]), 2).unwrap();
        assert_eq!(&chunk, b"ab");
        lay(&mut chunk, &[2], b"cd", &piece(&[2], &[0], &[0], &[0]), 1).unwrap();
        assert_eq!(&chunk, b"ab");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut chunk = *b"....";
        for part in [
            piece(&[2], &[1], &[0], &[2]),
            piece(&[2], &[0], &[3], &[2]),
            piece(&[2], &[u64::MAX], &[0], &[2]),
            piece(&[2, 1], &[0, 0], &[0, 0], &[1, 1]),
        ] {
            assert!(lay(&mut chunk, &[4], b"ab", &part, 1).is_err(), "{part:?}");
        }
    }
}
