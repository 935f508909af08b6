//! Filter Pipeline message, 0x000B (specification IV.A.2.l).
//!
//! ```text
//! version 1: 1 | filters | - 6 | per filter: id 2, name length 2, flags 2, parameters 2, name (filled to 8), parameters 4×n (filled to 8)
//! version 2: 2 | filters | per filter: id 2, (id ≥ 256) name length 2, flags 2, parameters 2, name, parameters 4×n
//! ```

use crate::{Error, context::Format, model::Filter, reader::Reader};

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
    let name = reader.take(name_length)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let parameters = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
    reader.skip(if version == 1 && count % 2 == 1 { 4 } else { 0 })?;
    let name = (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned());
    Ok(Filter { id, name, optional: flags & 1 == 1, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

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
