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
    Ok(out)
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
}
