//! HDF5's shuffle filter: byte 0 of all elements, then byte 1 of all, and so on. Bytes after the last whole element
//! stay at the end.

use crate::CodecFailure;

pub(super) fn encode(bytes: &[u8], element_size: u32) -> Result<Vec<u8>, CodecFailure> {
    let size = usize::try_from(element_size).unwrap_or(0).max(1);
    let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % size);
    let mut out = Vec::with_capacity(bytes.len());
    for plane in 0..size {
        out.extend(whole.iter().skip(plane).step_by(size));
    }
    out.extend_from_slice(rest);
    Ok(out)
}

pub(super) fn decode(bytes: &[u8], element_size: u32) -> Result<Vec<u8>, CodecFailure> {
    let mut out = vec![0; bytes.len()];
    decode_into(bytes, &mut out, usize::try_from(element_size).unwrap_or(0));
    Ok(out)
}

/// Decodes to memory of the same length.
pub(crate) fn decode_into(bytes: &[u8], out: &mut [u8], size: usize) {
    let whole = bytes.len() / size.max(1) * size;
    let (planes, rest) = bytes.split_at(whole);
    let (elements, end) = out.split_at_mut(whole);
    end.copy_from_slice(rest);
    interleave(planes, elements, size, false);
}

// Elements from planes: byte 0 of all elements, then byte 1 of all, and so on.

/// Elements per step: as many bytes as a vector register has.
const TILE: usize = 16;

/// Writes elements of `size` bytes from as many bytes of planes, the last plane first if they are reversed.
pub(super) fn interleave(planes: &[u8], elements: &mut [u8], size: usize, is_reversed: bool) {
    match size {
        _ if planes.is_empty() => {}
        1 => elements.copy_from_slice(planes),
        2 => tiles::<2>(planes, elements, is_reversed),
        4 => tiles::<4>(planes, elements, is_reversed),
        8 => tiles::<8>(planes, elements, is_reversed),
        _ => {
            for (at, plane) in planes.chunks_exact(planes.len() / size).enumerate() {
                let at = if is_reversed { size - 1 - at } else { at };
                let targets = elements.iter_mut().skip(at).step_by(size);
                targets.zip(plane).for_each(|(target, byte)| *target = *byte);
            }
        }
    }
}

fn tiles<const N: usize>(planes: &[u8], elements: &mut [u8], is_reversed: bool) {
    let count = planes.len() / N;
    let mut each: [&[u8]; N] = [&[]; N];
    for (plane, bytes) in each.iter_mut().zip(planes.chunks_exact(count)) {
        *plane = bytes;
    }
    if is_reversed {
        each.reverse();
    }
    let (elements, _) = elements.as_chunks_mut::<N>();
    let (tiles, rest) = elements.as_chunks_mut::<TILE>();
    let columns = each.map(|plane| plane.as_chunks::<TILE>());
    for (at, tile) in tiles.iter_mut().enumerate() {
        let from = columns.map(|(column, _)| column.get(at).copied().unwrap_or([0; TILE]));
        *tile = transposed(from);
    }
    for (at, element) in rest.iter_mut().enumerate() {
        *element = columns.map(|(_, rest)| rest.get(at).copied().unwrap_or(0));
    }
}

/// Returns the elements of a tile. The compiler turns this into shuffles of vectors.
#[expect(clippy::indexing_slicing, reason = "arrays of constant length")]
fn transposed<const N: usize>(from: [[u8; TILE]; N]) -> [[u8; N]; TILE] {
    std::array::from_fn(|element| std::array::from_fn(|plane| from[plane][element]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_after_the_last_element_stay_at_the_end() {
        let shuffled = encode(&[1, 2, 3, 4, 5, 6, 7], 3).unwrap();
        assert_eq!(shuffled, [1, 4, 2, 5, 3, 6, 7]);
        assert_eq!(decode(&shuffled, 3).unwrap(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(decode(&[1, 2], 3).unwrap(), [1, 2]);
    }

    #[test]
    fn planes_become_elements() {
        for size in [1, 2, 3, 4, 5, 8, 16] {
            for count in [1, 2, 15, 16, 17, 40] {
                let planes: Vec<u8> = (0..size * count).map(|n| u8::try_from(n % 251).unwrap()).collect();
                for is_reversed in [false, true] {
                    let mut elements = vec![0; planes.len()];
                    interleave(&planes, &mut elements, size, is_reversed);
                    for element in 0..count {
                        for byte in 0..size {
                            let plane = if is_reversed { size - 1 - byte } else { byte };
                            assert_eq!(elements[element * size + byte], planes[plane * count + element]);
                        }
                    }
                }
            }
        }
    }
}
