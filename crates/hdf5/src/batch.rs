use bytes::Bytes;
use virtualize_bytes::{ByteRange, NeedBytes};

use crate::{Error, io::Io};

/// Reads all ranges in one batch. A range that exceeds the file or the limit on the size of a structure fails alone; a
/// failed request fails all of them.
pub(crate) async fn read_whole(
    io: &Io<'_>,
    structure: &'static str,
    ranges: &[ByteRange],
) -> Vec<Result<Bytes, Error>> {
    if ranges.is_empty() {
        return Vec::new();
    }
    let checks: Vec<_> = ranges.iter().map(|range| check(io, structure, *range)).collect();
    if checks.iter().all(Result::is_ok) {
        return match io.read(ranges).await {
            Ok(parts) => parts.into_iter().map(Ok).collect(),
            Err(error) => ranges.iter().map(|_| Err(error.clone())).collect(),
        };
    }
    let good: Vec<_> =
        ranges.iter().zip(&checks).filter_map(|(range, ok)| ok.is_ok().then_some(*range)).collect();
    match io.read(&good).await {
        Ok(parts) => {
            let mut parts = parts.into_iter();
            checks.into_iter().map(|check| check.map(|()| parts.next().unwrap_or_default())).collect()
        }
        Err(error) => ranges.iter().map(|_| Err(error.clone())).collect(),
    }
}

fn check(io: &Io<'_>, structure: &'static str, range: ByteRange) -> Result<(), Error> {
    if range.length > io.limits().structure_bytes {
        let problem = format!("{} bytes, expected at most {}", range.length, io.limits().structure_bytes);
        return Err(Error::limit(structure, range.start, problem));
    }
    let there = range.clamp_to(io.size()).length;
    if there < range.length {
        return Err(Error::truncated(structure, range.start)(NeedBytes { range, available: there }));
    }
    Ok(())
}
