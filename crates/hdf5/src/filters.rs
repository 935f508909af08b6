//! Reverses the filters of metadata blocks in fractal heaps. Chunks of datasets are decoded elsewhere.

use std::io::Read;

use bytes::Bytes;

use crate::{
    Error,
    cursor::{Format, Reader, text_before_nul},
    io::Io,
    model::Filter,
};

const STRUCTURE: &str = "filtered heap block";
const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;

/// Reverses `filters`, last first, except for those whose bit is set in `mask`. The result must have `size` bytes.
pub(crate) fn decode(
    io: &Io<'_>,
    filters: &[Filter],
    mask: u32,
    bytes: Bytes,
    size: u64,
    address: u64,
) -> Result<Bytes, Error> {
    if size > io.limits().structure_bytes {
        let problem = format!("{size} bytes, expected at most {}", io.limits().structure_bytes);
        return Err(Error::limit(STRUCTURE, address, problem));
    }
    let applied = filters.iter().enumerate().filter(|(bit, _)| mask >> (*bit).min(31) & 1 == 0);
    let mut bytes = bytes.to_vec();
    for (_, filter) in applied.rev() {
        bytes = match filter.id {
            DEFLATE => {
                // The deflated data may include a checksum of four bytes.
                let (limit, mut plain) = (size.saturating_add(16), Vec::new());
                match flate2::read::ZlibDecoder::new(&*bytes).take(limit).read_to_end(&mut plain) {
                    Ok(_) => Ok(plain),
                    Err(error) => Err(Error::malformed(STRUCTURE, address, format!("deflate: {error}"))),
                }
            }
            SHUFFLE => Ok(unshuffle(&bytes, filter.parameters.first().copied().unwrap_or(1))),
            FLETCHER32 => checked(bytes, address),
            id => Err(Error::unsupported(
                STRUCTURE,
                address,
                format!("filter {id}, expected deflate, shuffle or fletcher32"),
            )),
        }?;
    }
    if bytes.len() as u64 == size {
        Ok(bytes.into())
    } else {
        Err(Error::malformed(STRUCTURE, address, format!("{} bytes, expected {size}", bytes.len())))
    }
}

/// Verifies and removes the Fletcher-32 checksum. Like libhdf5, accepts the byte-swapped checksums that HDF5 before
/// 1.6.3 wrote on little-endian machines.
fn checked(mut bytes: Vec<u8>, address: u64) -> Result<Vec<u8>, Error> {
    let Some((data, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::malformed(STRUCTURE, address, "block shorter than its checksum"));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), fletcher32(data));
    let turned = ((computed & 0x00ff_00ff) << 8) | ((computed >> 8) & 0x00ff_00ff);
    if stored != computed && stored != turned {
        let problem = format!("Fletcher-32 checksum {stored:#010x}, expected {computed:#010x}");
        return Err(Error::malformed(STRUCTURE, address, problem));
    }
    bytes.truncate(data.len());
    Ok(bytes)
}

/// Returns the sums over big-endian 16-bit words (an odd last byte is a high byte), reduced every 360 words as in
/// libhdf5.
fn fletcher32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff).wrapping_add(sum >> 16);
    let (mut first, mut second) = (0_u32, 0_u32);
    for block in bytes.chunks(720) {
        for word in block.chunks(2) {
            let value = match word {
                [high, low] => u16::from_be_bytes([*high, *low]),
                [high] => u16::from_be_bytes([*high, 0]),
                _ => 0,
            };
            first = first.wrapping_add(value.into());
            second = second.wrapping_add(first);
        }
        (first, second) = (fold(first), fold(second));
    }
    (fold(second) << 16) | fold(first)
}

fn unshuffle(bytes: &[u8], element: u32) -> Vec<u8> {
    let element = usize::try_from(element).unwrap_or(1).max(1);
    let count = bytes.len().checked_div(element).unwrap_or(0);
    let (planes, rest) = bytes.split_at_checked(count.saturating_mul(element)).unwrap_or((bytes, &[]));
    let mut plain = vec![0; planes.len()];
    for (at, plane) in planes.chunks_exact(count.max(1)).enumerate() {
        let places = plain.iter_mut().skip(at).step_by(element);
        places.zip(plane).for_each(|(place, byte)| *place = *byte);
    }
    plain.extend(rest);
    plain
}

// Filter Pipeline message, 0x000B (specification IV.A.2.l).
//
// ```text
// version 1: 1 | filters | - 6 | per filter: id 2, name length 2, flags 2, parameters 2, name (filled to 8), parameters 4×n (filled to 8)
// version 2: 2 | filters | per filter: id 2, (id ≥ 256) name length 2, flags 2, parameters 2, name, parameters 4×n
// ```

/// Identifiers from here on are registered with The HDF Group. Version 2 does not store the names of other filters.
const FIRST_REGISTERED: u16 = 256;
/// Maximum number of filters, that of bits in a chunk's filter mask.
const MAX_FILTERS: u8 = 32;

pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Vec<Filter>, Error> {
    let mut reader = Reader::new("filter pipeline message", bytes, address, format);
    let version = reader.version(1..=2)?;
    let count = reader.u8()?;
    if count > MAX_FILTERS {
        return Err(reader.malformed(format!("{count} filters, expected at most {MAX_FILTERS}")));
    }
    reader.skip(if version == 1 { 6 } else { 0 })?;
    (0..count).map(|_| filter(&mut reader, version)).collect()
}

fn filter(reader: &mut Reader<'_>, version: u8) -> Result<Filter, Error> {
    let id = reader.u16()?;
    let named = version == 1 || id >= FIRST_REGISTERED;
    let name_length = if named { u64::from(reader.u16()?) } else { 0 };
    let flags = reader.u16()?;
    let count = reader.u16()?;
    if version == 1 && !name_length.is_multiple_of(8) {
        return Err(reader.malformed(format!("filter name of {name_length} bytes, expected a multiple of 8")));
    }
    // The library takes the name to end at a NUL, which may be after its length.
    if name_length > 0 {
        reader.clone().text()?;
    }
    let name = Some(text_before_nul(reader.take(name_length)?)).filter(|name| !name.is_empty());
    let parameters = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
    reader.skip(if version == 1 && count % 2 == 1 { 4 } else { 0 })?;
    Ok(Filter { id, name, optional: flags & 1 == 1, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected checksums are those of libhdf5.
    #[test]
    fn wrong_checksums_are_rejected() {
        assert_eq!((fletcher32(&[0, 1, 2, 3]), fletcher32(b"abcde")), (0x0205_0204, 0x4ff0_29c7));
        assert_eq!(checked(vec![0, 1, 2, 3, 4, 2, 5, 2], 0).unwrap(), [0, 1, 2, 3]);
        assert_eq!(checked(vec![0, 1, 2, 3, 2, 4, 2, 5], 0).unwrap(), [0, 1, 2, 3], "byte-swapped");
        let error = checked(vec![0, 1, 2, 4, 4, 2, 5, 2], 64).unwrap_err().to_string();
        assert!(error.contains("Fletcher-32 checksum 0x02050204"), "{error}");
        assert!(checked(vec![1, 2, 3], 0).is_err());
    }

    #[test]
    fn unshuffles_and_keeps_trailing_bytes() {
        assert_eq!(unshuffle(&[1, 3, 2, 4, 9], 2), [1, 2, 3, 4, 9]);
        assert_eq!(unshuffle(&[], 4), [0_u8; 0]);
    }

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    #[test]
    fn both_versions() {
        let mut old = vec![1, 2, 0, 0, 0, 0, 0, 0];
        old.extend([2, 0, 8, 0, 1, 0, 1, 0]);
        old.extend(*b"shuffle\0");
        old.extend([4, 0, 0, 0, 0, 0, 0, 0]);
        old.extend([1, 0, 0, 0, 0, 0, 2, 0, 6, 0, 0, 0, 7, 0, 0, 0]);
        let shuffle = Filter { id: 2, name: Some("shuffle".into()), optional: true, parameters: vec![4] };
        let deflate = Filter { id: 1, name: None, optional: false, parameters: vec![6, 7] };
        assert_eq!(parse(&old, 0, FORMAT).unwrap(), [shuffle, deflate.clone()]);
        let new = [&[2, 2, 1, 0, 0, 0, 2, 0, 6, 0, 0, 0, 7, 0, 0, 0][..], b"\x04\x7d\x04\0\x01\0\0\0lzf\0"]
            .concat();
        let lzf = Filter { id: 32004, name: Some("lzf".into()), optional: true, parameters: vec![] };
        assert_eq!(parse(&new, 0, FORMAT).unwrap(), [deflate, lzf]);
    }

    #[test]
    fn rejects_what_the_library_does_not_decode() {
        assert!(parse(&[2, 33], 0, FORMAT).is_err(), "too many filters");
        assert!(parse(b"\x02\x01\x04\x7d\x03\0\x01\0\0\0lzf", 0, FORMAT).is_err(), "no NUL");
        let old = |length| [&[1, 1, 0, 0, 0, 0, 0, 0, 2, 0, length, 0, 0, 0, 0, 0][..], &[0; 8]].concat();
        assert!(parse(&old(8), 0, FORMAT).is_ok() && parse(&old(7), 0, FORMAT).is_err(), "name of 7 bytes");
    }
}
