//! Fill Value messages, 0x0005 and the old 0x0004 (specification IV.A.2.e and f).
//!
//! ```text
//! old:            size 4 | value
//! versions 1, 2:  version | allocation time | write time | defined | (if defined) size 4 | value
//! version 3:      3 | flags: 0-1 allocation time, 2-3 write time, 4 undefined, 5 has value | (flag 5) size 4 | value
//! ```

use crate::{
    Error,
    cursor::{Format, Reader},
    model::{Datatype, FillMessage, FillTime, FillValue},
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
    let (allocation_time, write_time, value) = if version == 3 {
        let flags = reader.u8()?;
        let value = match (flags & 0x10 != 0, flags & 0x20 != 0) {
            _ if flags & 0xC0 != 0 => {
                return Err(reader.malformed(format!("flags {flags:#04x}, expected no reserved ones")));
            }
            (true, true) => {
                let problem = "flags for both an undefined value and a value, expected one of them";
                return Err(reader.malformed(problem));
            }
            (true, false) => FillValue::Undefined,
            (false, false) => FillValue::Default,
            (false, true) => {
                let size = reader.u32()?;
                FillValue::User(reader.bytes(size.into())?)
            }
        };
        (flags & 3, flags >> 2 & 3, value)
    } else {
        let (allocation_time, write_time, is_defined) = (reader.u8()?, reader.u8()?, reader.u8()? != 0);
        let value = match if is_defined { reader.u32()? } else { u32::MAX } {
            0 => FillValue::Default,
            // Size -1 also means that the value is undefined.
            u32::MAX => FillValue::Undefined,
            size if size > 0x7FFF_FFFF => return Err(reader.malformed(format!("value of {size:#x} bytes"))),
            size => FillValue::User(reader.bytes(size.into())?),
        };
        (allocation_time, write_time, value)
    };
    let write_time = match write_time {
        0 => FillTime::Allocation,
        1 => FillTime::Never,
        2 => FillTime::IfSet,
        code => return Err(reader.malformed(format!("write time {code}, expected 0 to 2"))),
    };
    Ok(FillMessage { version: Some(version), write_time, allocation_time, value })
}

/// Checks the size of a value, and returns it. The library converts one of variable length before it opens the dataset, and
/// refuses it if it is too short. Otherwise, one of 0 bytes is the default.
pub(crate) fn checked(value: FillValue, datatype: &Datatype, header: u64) -> Result<FillValue, Error> {
    let FillValue::User(bytes) = &value else { return Ok(value) };
    let (size, expected) = (bytes.len() as u64, datatype.size());
    if size < expected && has_variable_length(datatype) {
        let problem = format!("value of {size} bytes, expected {expected} as in the datatype");
        return Err(Error::malformed("fill value message", header, problem));
    }
    Ok(if bytes.is_empty() { FillValue::Default } else { value })
}

fn has_variable_length(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::VariableString { .. } | Datatype::Sequence { .. } => true,
        Datatype::Array { base, .. } => has_variable_length(base),
        Datatype::Compound { members, .. } => {
            members.iter().any(|member| has_variable_length(&member.datatype))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{CharacterSet, Member, StringPadding};

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

    /// Of the same size, and of another one, for a type with and without pointers.
    #[test]
    fn values_of_variable_length_have_the_size_of_the_type() {
        let (padding, charset) = (StringPadding::NullTerminated, CharacterSet::Ascii);
        let text = Datatype::VariableString { size: 16, padding, charset };
        let member = Member { name: "m".to_owned(), offset: 0, datatype: text.clone() };
        let compound = Datatype::Compound { size: 16, members: vec![member] };
        let array = Datatype::Array { base: Box::new(text.clone()), shape: vec![1] };
        let fixed = Datatype::String { size: 16, padding, charset };
        let check = |datatype: &Datatype, size| checked(FillValue::User(vec![0; size].into()), datatype, 0);
        for datatype in [&text, &compound, &array] {
            assert!(check(datatype, 16).is_ok() && check(datatype, 17).is_ok(), "{datatype:?}");
            assert!(check(datatype, 15).is_err() && check(datatype, 0).is_err(), "{datatype:?}");
        }
        assert!(check(&fixed, 15).is_ok() && checked(FillValue::Default, &text, 0).is_ok());
        assert_eq!(check(&fixed, 0).unwrap(), FillValue::Default);
    }

    #[test]
    fn write_times_and_truncation() {
        let fill = parse(&[3, 0x05], 0, FORMAT).unwrap();
        assert_eq!((fill.allocation_time, fill.write_time), (1, FillTime::Never));
        assert!(matches!(parse(&[3, 0x20, 4, 0, 0, 0, 1], 0, FORMAT), Err(Error::Truncated { .. })));
        assert!(parse(&[4, 0], 0, FORMAT).is_err());
    }
}
