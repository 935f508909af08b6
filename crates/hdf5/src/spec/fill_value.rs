//! Fill Value messages, 0x0005 and the old 0x0004 (specification IV.A.2.e and f).
//!
//! ```text
//! old:            size 4 | value
//! versions 1, 2:  version | allocation time | write time | defined | (if defined) size 4 | value
//! version 3:      3 | flags: 0-1 allocation time, 2-3 write time, 4 undefined, 5 has value | (flag 5) size 4 | value
//! ```

use bytes::Bytes;

use super::{Format, Reader};
use crate::{
    Error,
    model::{FillMessage, FillTime, FillValue},
};

/// The fill value of a header without either message, as in the library.
pub(crate) const ABSENT: FillMessage = FillMessage {
    version: None,
    write_time: FillTime::IfSet,
    allocation_time: 0,
    value: FillValue::Undefined,
};

/// Parses the old Fill Value message, 0x0004.
pub(crate) fn parse_old(bytes: &[u8], address: u64, format: Format) -> Result<FillMessage, Error> {
    let mut reader = Reader::new("old fill value message", bytes, address, format);
    let value = match reader.u32()? {
        0 => FillValue::Undefined,
        size => FillValue::User(reader.bytes(u64::from(size))?),
    };
    Ok(FillMessage { version: Some(0), write_time: FillTime::IfSet, allocation_time: 0, value })
}

/// Parses the Fill Value message, 0x0005.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<FillMessage, Error> {
    let mut reader = Reader::new("fill value message", bytes, address, format);
    let version = reader.version(1..=3)?;
    let (allocation_time, write_time, value) = match version {
        3 => {
            let flags = reader.u8()?;
            (flags & 3, flags >> 2 & 3, flagged_value(&mut reader, flags)?)
        }
        _ => (reader.u8()?, reader.u8()?, counted_value(&mut reader)?),
    };
    let write_time = match write_time {
        0 => FillTime::Allocation,
        1 => FillTime::Never,
        2 => FillTime::IfSet,
        code => return Err(reader.malformed(format!("write time {code}, expected 0 to 2"))),
    };
    Ok(FillMessage { version: Some(version), write_time, allocation_time, value })
}

/// Reads the value of versions 1 and 2. Size -1 also means that the value is undefined.
fn counted_value(reader: &mut Reader<'_>) -> Result<FillValue, Error> {
    if reader.u8()? == 0 {
        return Ok(FillValue::Undefined);
    }
    match reader.u32()? {
        0 => Ok(FillValue::Default),
        u32::MAX => Ok(FillValue::Undefined),
        size if size > 0x7FFF_FFFF => Err(reader.malformed(format!("value of {size:#x} bytes"))),
        size => reader.bytes(u64::from(size)).map(FillValue::User),
    }
}

fn flagged_value(reader: &mut Reader<'_>, flags: u8) -> Result<FillValue, Error> {
    match (flags & 0x10 != 0, flags & 0x20 != 0) {
        _ if flags & 0xC0 != 0 => {
            Err(reader.malformed(format!("flags {flags:#04x}, expected no reserved ones")))
        }
        (true, true) => {
            Err(reader.malformed("flags for both an undefined value and a value, expected one of them"))
        }
        (true, false) => Ok(FillValue::Undefined),
        (false, false) => Ok(FillValue::Default),
        (false, true) => {
            let size = u64::from(reader.u32()?);
            let value = reader.bytes(size)?;
            Ok(if value == Bytes::new() { FillValue::Default } else { FillValue::User(value) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    fn value(bytes: &[u8]) -> FillValue {
        parse(bytes, 0, FORMAT).unwrap().value
    }

    fn user(bytes: &'static [u8]) -> FillValue {
        FillValue::User(Bytes::from_static(bytes))
    }

    #[test]
    fn three_states_of_version_3() {
        assert_eq!(value(&[3, 0x1A]), FillValue::Undefined);
        assert_eq!(value(&[3, 0x0A]), FillValue::Default);
        assert_eq!(value(&[3, 0x2A, 2, 0, 0, 0, 7, 9]), user(&[7, 9]));
        assert!(parse(&[3, 0x3A], 0, FORMAT).is_err());
    }

    #[test]
    fn three_states_of_version_2() {
        assert_eq!(value(&[2, 2, 2, 0]), FillValue::Undefined);
        assert_eq!(value(&[2, 2, 2, 1, 0, 0, 0, 0]), FillValue::Default);
        assert_eq!(value(&[2, 2, 2, 1, 2, 0, 0, 0, 7, 9]), user(&[7, 9]));
        assert_eq!(value(&[1, 2, 2, 1, 0xFF, 0xFF, 0xFF, 0xFF]), FillValue::Undefined);
        assert!(parse(&[1, 2, 2, 1, 0xFE, 0xFF, 0xFF, 0xFF], 0, FORMAT).is_err());
    }

    #[test]
    fn the_old_message_has_no_default() {
        assert_eq!(parse_old(&[0; 4], 0, FORMAT).unwrap().value, FillValue::Undefined);
        assert_eq!(parse_old(&[1, 0, 0, 0, 5], 0, FORMAT).unwrap().value, user(&[5]));
    }

    #[test]
    fn write_times_and_truncation() {
        let fill = parse(&[3, 0x05], 0, FORMAT).unwrap();
        assert_eq!((fill.allocation_time, fill.write_time), (1, FillTime::Never));
        assert!(matches!(parse(&[3, 0x20, 4, 0, 0, 0, 1], 0, FORMAT), Err(Error::Truncated { .. })));
        assert!(parse(&[4, 0], 0, FORMAT).is_err());
    }
}
