use std::collections::BTreeSet;

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Cursor, NeedBytes};

use super::io::Io;
use crate::{
    Error,
    spec::{Directory, Format},
};

/// Bytes to fetch for a directory: usually all of it, and sometimes the next one.
const WINDOW: u64 = 8 << 10;
/// Limit to which the window grows while directories are close to each other, in bytes.
const MAX_WINDOW: u64 = 1 << 20;

/// Follows the main chain. Returns its directories and the error that ended it early. Each directory takes a round trip
/// unless it is already fetched.
pub(crate) async fn follow(
    io: &mut Io<'_>,
    format: Format,
    first: u64,
) -> Result<(Vec<Directory>, Option<Error>), Error> {
    let (mut directories, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut next, mut window) = (first, WINDOW);
    while next != 0 {
        if !seen.insert(next) {
            return Ok((directories, Some(cycle(next))));
        }
        if directories.len() as u64 >= io.limits().objects {
            let problem = format!("more directories than the limit of {}", io.limits().objects);
            return Ok((directories, Some(Error::limit("directory", next, problem))));
        }
        let directory = read_all(io, format, &[next], window).await?.pop();
        match directory {
            Some(Ok(directory)) => {
                window = next_window(directory.next, next, window);
                next = directory.next;
                directories.push(directory);
            }
            Some(Err(error)) => return Ok((directories, Some(error))),
            None => break,
        }
    }
    Ok((directories, None))
}

fn cycle(offset: u64) -> Error {
    Error::malformed("directory", offset, "linked twice, expected a chain without cycles")
}

fn next_window(next: u64, here: u64, window: u64) -> u64 {
    let near = next > here && next.saturating_sub(here) <= window.saturating_mul(2);
    if near { window.saturating_mul(2).min(MAX_WINDOW) } else { WINDOW }
}

/// Reads the directories at all offsets together. The outer error is one of fetching bytes.
pub(crate) async fn read_all(
    io: &mut Io<'_>,
    format: Format,
    offsets: &[u64],
    window: u64,
) -> Result<Vec<Result<Directory, Error>>, Error> {
    let mut results: Vec<Attempt> =
        offsets.iter().map(|&offset| attempt(io, format, offset, &io.cached_from(offset))).collect();
    for _ in 0..MAX_ATTEMPTS {
        let lacking: Vec<ByteRange> = results.iter().filter_map(|attempt| attempt.lacking(window)).collect();
        if lacking.is_empty() {
            break;
        }
        let mut parts = io.read_and_cache(&lacking).await?.into_iter();
        for (result, &offset) in results.iter_mut().zip(offsets) {
            if matches!(result, Attempt::Lacks(_)) {
                let part = parts.next().unwrap_or_default();
                *result = attempt(io, format, offset, &part);
            }
        }
    }
    results.into_iter().map(|attempt| attempt.finish(io)).collect()
}

/// The number of entries, the entries, and the offset of the next directory can each be missing once.
const MAX_ATTEMPTS: usize = 4;

/// Result of parsing a directory from the available bytes.
enum Attempt {
    Done(Result<Directory, Error>),
    /// The range from the start of the directory to the end of the missing bytes.
    Lacks(ByteRange),
}

fn attempt(io: &Io<'_>, format: Format, offset: u64, bytes: &Bytes) -> Attempt {
    match Directory::parse(Cursor::new(bytes, offset, format.endian), format, io.limits(), io.size()) {
        Ok(result) => Attempt::Done(result),
        Err(NeedBytes { range, .. }) if range.end() > io.size() => {
            Attempt::Done(Err(Error::truncated("directory", offset, range, io.size())))
        }
        Err(NeedBytes { range, .. }) => {
            Attempt::Lacks(ByteRange::new(offset, range.end().saturating_sub(offset)))
        }
    }
}

impl Attempt {
    fn lacking(&self, window: u64) -> Option<ByteRange> {
        match self {
            Self::Done(_) => None,
            Self::Lacks(range) => Some(ByteRange::new(range.start, range.length.max(window))),
        }
    }

    fn finish(self, io: &mut Io<'_>) -> Result<Result<Directory, Error>, Error> {
        match self {
            Self::Done(Ok(directory)) => {
                io.spend(directory.length)?;
                Ok(Ok(directory))
            }
            Self::Done(Err(error)) => Ok(Err(error)),
            Self::Lacks(range) => Ok(Err(Error::truncated("directory", range.start, range, io.size()))),
        }
    }
}
