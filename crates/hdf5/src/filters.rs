//! Undoes the filters of metadata blocks in fractal heaps. (Chunks of datasets are not decoded here.)

use std::io::Read;

use bytes::Bytes;

use crate::{Error, model::Filter, walk::Io};

const STRUCTURE: &str = "filtered heap block";
const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;

/// Undoes `filters`, the last first, those aside whose bit is set in `mask`. The result must be `size` bytes.
pub(crate) fn decode(
    io: &Io<'_>,
    filters: &[Filter],
    mask: u32,
    bytes: Bytes,
    size: u64,
    address: u64,
) -> Result<Bytes, Error> {
    if size > io.limits().structure_bytes {
        let problem = format!("{size} bytes, the limit is {}", io.limits().structure_bytes);
        return Err(Error::limit(STRUCTURE, address, problem));
    }
    let applied = filters.iter().enumerate().filter(|(bit, _)| mask >> (*bit).min(31) & 1 == 0);
    let mut bytes = bytes.to_vec();
    for (_, filter) in applied.rev() {
        bytes = undo(filter, bytes, size, address)?;
    }
    match bytes.len() as u64 == size {
        true => Ok(bytes.into()),
        false => Err(Error::malformed(STRUCTURE, address, format!("{} bytes, expected {size}", bytes.len()))),
    }
}

fn undo(filter: &Filter, bytes: Vec<u8>, size: u64, address: u64) -> Result<Vec<u8>, Error> {
    match filter.id {
        DEFLATE => inflate(&bytes, size, address),
        SHUFFLE => Ok(unshuffle(&bytes, filter.parameters.first().copied().unwrap_or(1))),
        FLETCHER32 => Ok(bytes.get(..bytes.len().saturating_sub(4)).unwrap_or_default().to_vec()),
        id => Err(Error::unsupported(
            STRUCTURE,
            address,
            format!("filter {id}, expected deflate, shuffle or fletcher32"),
        )),
    }
}

fn inflate(bytes: &[u8], size: u64, address: u64) -> Result<Vec<u8>, Error> {
    // A checksum of four bytes may follow the data that were deflated after it.
    let most = size.saturating_add(16);
    let mut plain = Vec::new();
    match flate2::read::ZlibDecoder::new(bytes).take(most).read_to_end(&mut plain) {
        Ok(_) => Ok(plain),
        Err(error) => Err(Error::malformed(STRUCTURE, address, format!("deflate: {error}"))),
    }
}

fn unshuffle(bytes: &[u8], element: u32) -> Vec<u8> {
    let element = usize::try_from(element).unwrap_or(1).max(1);
    let count = bytes.len() / element;
    let (planes, rest) = bytes.split_at_checked(count.saturating_mul(element)).unwrap_or((bytes, &[]));
    let mut plain = vec![0; planes.len()];
    for (at, plane) in planes.chunks_exact(count.max(1)).enumerate() {
        let places = plain.iter_mut().skip(at).step_by(element);
        places.zip(plane).for_each(|(place, byte)| *place = *byte);
    }
    plain.extend(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unshuffles_and_keeps_the_rest() {
        assert_eq!(unshuffle(&[1, 3, 2, 4, 9], 2), [1, 2, 3, 4, 9]);
        assert_eq!(unshuffle(&[], 4), [0_u8; 0]);
    }
}
