//! Fetches the header. Its length is not known before it is parsed.

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadRanges};

use crate::{
    Error,
    header::{Missing, parse},
    model::File,
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
            Ok(file) => {
                source.hold("dimensions, attributes and variables", weight(&file))?;
                return Ok(file);
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

/// Returns the memory of a parsed header in bytes, without the values of attributes, which are those of the file.
fn weight(file: &File) -> u64 {
    const ITEM: u64 = 96;
    let of_attributes = |attributes: &[crate::model::Attribute]| {
        attributes
            .iter()
            .fold(0_u64, |sum, one| sum.saturating_add(ITEM).saturating_add(one.name.len() as u64))
    };
    let dimensions = file.dimensions.iter().map(|one| ITEM.saturating_add(one.name.len() as u64));
    let variables = file.variables.iter().map(|one| {
        let ids = (one.dimensions.len() as u64).saturating_mul(8);
        let names = ITEM.saturating_mul(2).saturating_add(one.name.len() as u64);
        ids.saturating_add(names).saturating_add(of_attributes(&one.attributes))
    });
    dimensions.chain(variables).fold(of_attributes(&file.attributes), u64::saturating_add)
}
