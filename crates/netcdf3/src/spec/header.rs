//! The header.
//!
//! ```text
//! header    = magic numrecs dim_list gatt_list var_list
//! magic     = 'C' 'D' 'F' VERSION
//! VERSION   = 1 (classic) | 2 (64-bit offset) | 5 (64-bit data)
//! numrecs   = NON_NEG | STREAMING
//! STREAMING = all bits set
//! ```

use bytes::Bytes;
use virtualize_bytes::Limits;

use super::attribute::attributes;
use super::dimension::dimension;
use super::layout::{RecordCount, check_order, records};
use super::list::{NC_DIMENSION, NC_VARIABLE, list};
use super::reader::{Reader, Result};
use super::variable::variable;
use crate::{
    Error,
    model::{File, Version},
};

/// Returns whether a file is NetCDF classic, given its first four bytes.
pub fn is_netcdf3(first_bytes: &[u8]) -> bool {
    version(first_bytes).is_some()
}

fn version(first_bytes: &[u8]) -> Option<Version> {
    match first_bytes.get(..4)? {
        b"CDF\x01" => Some(Version::Classic),
        b"CDF\x02" => Some(Version::Offset64),
        b"CDF\x05" => Some(Version::Data64),
        _ => None,
    }
}

/// Parses the header at the start of a file of `size` bytes.
pub(crate) fn parse(bytes: &Bytes, size: u64, limits: &Limits) -> Result<File> {
    let version = version(bytes).ok_or(Error::NotNetcdf3)?;
    let mut reader = Reader::new(bytes, version);
    reader.u32()?;
    reader.enter("numrecs");
    let stated = match (reader.count()?, version) {
        (u64::MAX, Version::Data64) => RecordCount::Streaming,
        (count, Version::Classic | Version::Offset64) if count == u32::MAX.into() => RecordCount::Streaming,
        (count, _) => RecordCount::Known(count),
    };
    let dimensions = list(&mut reader, "dim_list", NC_DIMENSION, limits.objects, dimension)?;
    let attributes = attributes(&mut reader, limits.attributes)?;
    let item = |reader: &mut Reader<'_>| variable(reader, &dimensions, limits.attributes);
    let variables = list(&mut reader, "var_list", NC_VARIABLE, limits.objects, item)?;
    check_order(version, &variables, reader.offset())?;
    let records = records(&variables, stated, size)?;
    Ok(File { version, dimensions, attributes, variables, records })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{DataType, Records},
        spec::Missing,
    };

    /// Written by netCDF-C 4.10: `byte v(t, x)` with t unlimited of length 1 and x of length 3, values 1, 2, 3.
    const CLASSIC: &[u8] =
        b"CDF\x01\0\0\0\x01\0\0\0\x0a\0\0\0\x02\0\0\0\x01t\0\0\0\0\0\0\0\0\0\0\x01x\0\0\0\0\0\0\x03\
        \0\0\0\0\0\0\0\0\0\0\0\x0b\0\0\0\x01\0\0\0\x01v\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\
        \0\0\0\x01\0\0\0\x04\0\0\0\x60\x01\x02\x03";

    fn parsed(bytes: &[u8]) -> Result<File> {
        parse(&Bytes::copy_from_slice(bytes), bytes.len() as u64, &Limits::default())
    }

    #[test]
    fn a_header_of_netcdf_c() {
        let file = parsed(CLASSIC).unwrap();
        assert_eq!(file.version, Version::Classic);
        assert_eq!(file.records, Records { count: 1, stride: 3, is_streamed: false });
        let variable = &file.variables[0];
        assert_eq!((variable.begin, variable.size, variable.data_type), (0x60, 3, DataType::Byte));
        assert_eq!(file.shape(variable), [1, 3]);
    }

    #[test]
    fn every_shorter_header_needs_more_bytes() {
        for length in 4..0x60 {
            assert!(matches!(parsed(&CLASSIC[..length]), Err(Missing::Bytes { .. })), "{length}");
        }
        assert!(matches!(parsed(b"CDF\x03"), Err(Missing::Nothing(Error::NotNetcdf3))));
        assert!(!is_netcdf3(b"CDF") && is_netcdf3(b"CDF\x05\0"));
    }

    #[test]
    fn streamed_records_are_counted_in_the_file() {
        let mut bytes = CLASSIC.to_vec();
        bytes[4..8].fill(0xff);
        bytes.extend([4, 5, 6, 7]);
        let file = parsed(&bytes).unwrap();
        assert_eq!(file.records, Records { count: 2, stride: 3, is_streamed: true });
    }
}
