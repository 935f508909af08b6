//! Bytes and bits in another order.

/// HDF5's shuffle: byte 0 of all elements, then byte 1 of all, …; bytes behind the last whole element stay at the end.
pub(crate) fn encode(bytes: &[u8], element_size: u32) -> Vec<u8> {
    let size = usize::try_from(element_size).unwrap_or(0).max(1);
    let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % size);
    let mut out = Vec::with_capacity(bytes.len());
    for plane in 0..size {
        out.extend(whole.iter().skip(plane).step_by(size));
    }
    out.extend_from_slice(rest);
    out
}

/// Undoes [`encode`].
pub(crate) fn decode(bytes: &[u8], element_size: u32) -> Vec<u8> {
    let size = usize::try_from(element_size).unwrap_or(0).max(1);
    let count = bytes.len() / size;
    let mut out = bytes.to_vec();
    if count > 0 {
        for (plane, values) in bytes.chunks_exact(count).take(size).enumerate() {
            for (target, value) in out.iter_mut().skip(plane).step_by(size).zip(values) {
                *target = *value;
            }
        }
    }
    out
}

/// TIFF's FillOrder 2.
pub(crate) fn reverse_bits(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.reverse_bits()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_of_bytes_with_a_rest() {
        let shuffled = encode(&[1, 2, 3, 4, 5, 6, 7], 3);
        assert_eq!(shuffled, [1, 4, 2, 5, 3, 6, 7]);
        assert_eq!(decode(&shuffled, 3), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(decode(&[1, 2], 3), [1, 2]);
    }
}
