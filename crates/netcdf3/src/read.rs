//! Fetches the header. Its length is not known before it is parsed.

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadRanges};
use virtualize_hdf5::model::File;

use crate::{
    Error,
    header::{Missing, parse},
};

/// Bytes of the first request: all of most headers.
const FIRST: u64 = 64 << 10;

/// Factor by which the requested bytes grow while the header is not complete.
const GROWTH: u64 = 4;

/// Reads the header of a file, but no data.
///
/// # Errors
/// The file is not NetCDF classic, its header is damaged or exceeds a limit, or bytes cannot be fetched. Like netCDF-C,
/// refuses a file whose variables overlap each other or the header.
pub async fn read(source: &dyn ReadRanges, limits: &Limits) -> Result<File, Error> {
    let size = source.size();
    let mut header = Bytes::new();
    let mut wanted = FIRST;
    loop {
        let here = header.len() as u64;
        let rest = ByteRange::new(here, wanted.saturating_sub(here));
        let more = source.read_ranges(&[rest]).await?.pop().unwrap_or_default();
        header = if header.is_empty() { more } else { [header, more].concat().into() };
        match parse(&header, size, limits) {
            Ok(header) => {
                source.hold("dimensions, attributes and variables", header.weight())?;
                return Ok(header.into_file());
            }
            Err(Missing::Bytes { structure, offset, range }) => {
                let is_all = (header.len() as u64) < wanted || range.end() > size;
                if is_all {
                    return Err(Error::Truncated { structure, offset, range, size });
                }
                wanted = range.end().max(wanted.saturating_mul(GROWTH)).min(size);
                if range.end() > limits.structure_bytes {
                    let problem = format!("more than {} bytes, the limit", limits.structure_bytes);
                    return Err(Error::limit("header", 0, problem));
                }
            }
            Err(Missing::Nothing(error)) => return Err(error),
        }
    }
}
