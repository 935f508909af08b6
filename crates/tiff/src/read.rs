use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Cursor, Limits, NeedBytes, ReadError, ReadErrorKind, ReadRanges};

use crate::{
    Error, Structure,
    model::{File, Ifd, Value},
    spec::{self, Directory, Entry, Format, Header, RawValue, tag},
};

/// Bytes of the first read: all metadata of most cloud-optimized files.
const FIRST_READ: u64 = 64 << 10;
/// Directories whose values are fetched in one batch.
const BATCH: usize = 4096;
/// Bytes to fetch for a SubIFD, which can be anywhere in the file.
const SUB_WINDOW: u64 = 4 << 10;

/// Reads all directories of a file.
///
/// # Errors
/// The file has no directory, or bytes cannot be fetched. Other errors are recorded in the model, at the affected
/// directory or tag.
pub async fn read(source: &dyn ReadRanges, limits: &Limits) -> Result<File, Error> {
    let mut io = Io::new(source, *limits);
    let first = io.read_and_cache(&[ByteRange::new(0, FIRST_READ)]).await?;
    let first_bytes = first.first().map_or(&[][..], |bytes| bytes);
    let mut header = Header::parse(first_bytes, io.size())?;
    if let Some(ndpi) = header.as_ndpi(first_bytes, io.size()) {
        let found = read_all(&mut io, ndpi.format, &[ndpi.first_directory], SUB_WINDOW).await?.pop();
        let is_ndpi =
            |directory: &Directory| directory.entries.iter().any(|entry| entry.tag == tag::NDPI_VERSION);
        if found.is_some_and(|directory| directory.as_ref().is_ok_and(is_ndpi)) {
            header = ndpi;
        }
    }
    let format = header.format;
    let (directories, chain_error) = follow(&mut io, format, header.first_directory).await?;
    if directories.is_empty() {
        let none =
            || Error::malformed("header", 0, "offset 0 of the first directory, expected a positive one");
        return Err(chain_error.unwrap_or_else(none));
    }
    let ifds = tree(&mut io, format, directories).await?;
    let is_lsm = ifds.first().is_some_and(|ifd| ifd.tags.contains_key(&tag::LSM_INFO));
    Ok(File { endian: format.endian, big: format.big || format.ndpi || is_lsm, ifds, chain_error })
}

/// A directory with its position in the tree, whose values are not read.
struct Pending {
    parent: Option<usize>,
    path: Vec<usize>,
    directory: Directory,
}

/// A directory with its values and the index of its parent.
struct Node {
    parent: Option<usize>,
    ifd: Ifd,
}

/// Reads the directories of the main chain with their values and all SubIFDs, level by level.
async fn tree(io: &mut Io<'_>, format: Format, chain: Vec<Directory>) -> Result<Vec<Ifd>, Error> {
    let mut seen: BTreeSet<u64> = chain.iter().map(|directory| directory.offset).collect();
    let pending = |(index, directory)| Pending { parent: None, path: vec![index], directory };
    let mut level: Vec<Pending> = chain.into_iter().enumerate().map(pending).collect();
    let mut nodes: Vec<Node> = Vec::new();
    for depth in 0..=io.limits().depth {
        let first = nodes.len();
        interpret(io, format, level, &mut nodes).await?;
        let links = links(nodes.get_mut(first..).unwrap_or_default(), first, &mut seen);
        let mut directories = Vec::new();
        if depth < io.limits().depth {
            let room = io.limits().objects.saturating_sub(nodes.len() as u64);
            if links.len() as u64 > room {
                let problem = format!("more directories than the limit of {}", io.limits().objects);
                return Err(Error::limit(Structure::Tag(tag::SUB_IFDS), 0, problem));
            }
            let offsets: Vec<u64> = links.iter().map(|link| link.offset).collect();
            directories = read_all(io, format, &offsets, SUB_WINDOW).await?;
        }
        let mut directories = directories.into_iter();
        level = Vec::new();
        for link in links {
            let Some(parent) = nodes.get_mut(link.parent) else { continue };
            match directories.next() {
                Some(Ok(directory)) => {
                    let path = [&parent.ifd.path[..], &[link.index]].concat();
                    level.push(Pending { parent: Some(link.parent), path, directory });
                }
                Some(Err(error)) => parent.ifd.unreadable_sub_ifds.push(error),
                None => {
                    let problem = format!("SubIFDs nested deeper than the limit of {depth} levels");
                    let error = Error::limit(Structure::Tag(tag::SUB_IFDS), parent.ifd.offset, problem);
                    parent.ifd.unreadable_sub_ifds.push(error);
                }
            }
        }
        if level.is_empty() {
            break;
        }
    }
    let main_chain = nodes.iter_mut().filter(|node| node.parent.is_none()).map(|node| &mut node.ifd);
    spec::unwrap_lsm(main_chain.collect(), format.endian, io.size());
    // Attaches each node to its parent. Parents precede their children, and children are in order. Refuses images with
    // strips or tiles beyond the end of the file.
    let (size, mut roots) = (io.size(), Vec::new());
    while let Some(Node { parent, mut ifd }) = nodes.pop() {
        ifd.sub_ifds.reverse();
        ifd.image = ifd.image.and_then(|image| spec::check_end(&image, size, ifd.offset).map(|()| image));
        match parent.and_then(|at| nodes.get_mut(at)) {
            Some(parent) => parent.ifd.sub_ifds.push(ifd),
            None => roots.push(ifd),
        }
    }
    roots.reverse();
    Ok(roots)
}

/// Fetches the values of directories in large batches and appends the directories to `nodes`.
async fn interpret(
    io: &mut Io<'_>,
    format: Format,
    level: Vec<Pending>,
    nodes: &mut Vec<Node>,
) -> Result<(), Error> {
    let mut level = level.into_iter().peekable();
    while level.peek().is_some() {
        let batch: Vec<Pending> = level.by_ref().take(BATCH).collect();
        let directories = batch.iter().map(|pending| &pending.directory);
        let plans: Vec<Vec<Plan>> =
            directories.map(|directory| plan(io, format, directory)).collect::<Result<_, _>>()?;
        let range = |plan: &Plan| match plan {
            Plan::Fetch(range) => Some(*range),
            Plan::Ready(_) => None,
        };
        let ranges: Vec<ByteRange> = plans.iter().flatten().filter_map(range).collect();
        let mut parts = io.read(&ranges).await?.into_iter();
        for (Pending { parent, path, directory }, plan) in batch.into_iter().zip(plans) {
            // The fetched ranges are in the order of the plans.
            let value = |plan| match plan {
                Plan::Ready(value) => value,
                Plan::Fetch(_) => Ok(parts.next().unwrap_or_default()),
            };
            let raw: Vec<RawValue> = plan.into_iter().map(value).collect();
            let ifd = spec::build(path, directory, raw, format.endian, io.size(), io.limits());
            io.spend(memory(&ifd))?;
            nodes.push(Node { parent, ifd });
        }
    }
    Ok(())
}

/// Source of an entry's value.
enum Plan {
    Ready(RawValue),
    Fetch(ByteRange),
}

/// Plans the values of a directory. An error fails the whole file.
fn plan(io: &mut Io<'_>, format: Format, directory: &Directory) -> Result<Vec<Plan>, Error> {
    let far_table = |entry: &Entry| tag::is_table(entry.tag) && entry.range().is_some();
    let mut pieces = u64::MAX;
    if directory.entries.iter().any(far_table) {
        pieces = spec::pieces(directory, format.endian, io.limits()).unwrap_or(u64::MAX);
    }
    directory.entries.iter().map(|entry| plan_entry(io, *entry, pieces, directory.offset)).collect()
}

fn plan_entry(io: &mut Io<'_>, entry: Entry, pieces: u64, offset: u64) -> Result<Plan, Error> {
    let table = tag::is_table(entry.tag);
    let is_byte_counts = matches!(entry.tag, tag::STRIP_BYTE_COUNTS | tag::TILE_BYTE_COUNTS);
    if is_byte_counts && entry.range().is_some_and(|range| range.end() > io.size()) {
        // Byte counts that look wrong are derived, but only for files without a table.
        let problem = if entry.count > pieces {
            format!("{} values, expected {pieces}, beyond the end of the file", entry.count)
        } else {
            format!("{} values beyond the end of the file", entry.count)
        };
        return Ok(Plan::Ready(Err(Error::malformed(Structure::Tag(entry.tag), offset, problem))));
    }
    let entry = Entry { count: if table { entry.count.min(pieces) } else { entry.count }, ..entry };
    let Some(range) = entry.range() else {
        return Ok(Plan::Ready(Ok(Bytes::copy_from_slice(entry.inline().unwrap_or_default()))));
    };
    // The part of a table beyond the end of the file is treated as missing.
    let range = if table { range.clamp_to(io.size()) } else { range };
    let most = io.limits().structure_bytes;
    if range.start.checked_add(range.length).is_none_or(|end| end > io.size()) {
        return Ok(Plan::Ready(Err(Error::truncated(Structure::Tag(entry.tag), offset, range, io.size()))));
    }
    if range.length > most {
        let problem = format!("{} bytes, expected at most {most}", range.length);
        return Ok(Plan::Ready(Err(Error::limit(Structure::Tag(entry.tag), offset, problem))));
    }
    io.spend(range.length)?;
    Ok(Plan::Fetch(range))
}

/// Returns the memory in bytes for properties that an entry can repeat: per sample, and per strip or tile.
fn memory(ifd: &Ifd) -> u64 {
    let Ok(image) = &ifd.image else { return 0 };
    let pieces = (image.offsets.len() as u64).saturating_mul(16);
    pieces.saturating_add(u64::from(image.samples_per_pixel).saturating_mul(8))
}

/// A SubIFD to read.
struct Link {
    parent: usize,
    index: usize,
    offset: u64,
}

/// Collects the SubIFDs of `level`, whose first node has the index `first`. Further links to a directory are recorded
/// as errors.
fn links(level: &mut [Node], first: usize, seen: &mut BTreeSet<u64>) -> Vec<Link> {
    let mut links = Vec::new();
    for (at, node) in level.iter_mut().enumerate() {
        let Some(Value::Unsigned(offsets)) = node.ifd.tags.get(&tag::SUB_IFDS) else { continue };
        let mut again = Vec::new();
        for (index, &offset) in offsets.iter().enumerate().filter(|&(_, &offset)| offset != 0) {
            if seen.insert(offset) {
                links.push(Link { parent: first.saturating_add(at), index, offset });
            } else if again.len() < MAX_REPORTED {
                let problem = format!("directory at {offset:#x} is linked twice");
                again.push(Error::malformed(Structure::Tag(tag::SUB_IFDS), node.ifd.offset, problem));
            }
        }
        node.ifd.unreadable_sub_ifds.append(&mut again);
    }
    links
}

/// Limit on the number of such errors per directory.
const MAX_REPORTED: usize = 100;

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
            let problem = "linked twice, expected a chain without cycles";
            return Ok((directories, Some(Error::malformed("directory", next, problem))));
        }
        if directories.len() as u64 >= io.limits().objects {
            let problem = format!("more directories than the limit of {}", io.limits().objects);
            return Ok((directories, Some(Error::limit("directory", next, problem))));
        }
        let directory = read_all(io, format, &[next], window).await?.pop();
        match directory {
            Some(Ok(directory)) => {
                let distance = directory.next.saturating_sub(next);
                let is_near = distance > 0 && distance <= window.saturating_mul(2);
                window = if is_near { window.saturating_mul(2).min(MAX_WINDOW) } else { WINDOW };
                next = directory.next;
                directories.push(directory);
            }
            Some(Err(error)) => return Ok((directories, Some(error))),
            None => break,
        }
    }
    Ok((directories, None))
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
    let mut directories = Vec::with_capacity(results.len());
    for attempt in results {
        directories.push(match attempt {
            Attempt::Done(directory) => {
                io.spend(directory.as_ref().map_or(0, |directory| directory.length))?;
                directory
            }
            Attempt::Lacks(range) => Err(Error::truncated("directory", range.start, range, io.size())),
        });
    }
    Ok(directories)
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
}

/// Bytes to keep because they may contain more metadata.
const MAX_CACHED: u64 = 64 << 20;
/// Factor by which interpreted metadata may exceed the size of the file. Larger values only occur in attacks.
const MAX_REPETITION: u64 = 16;
/// Bytes of metadata that a file of any size may have.
const MIN_METADATA: u64 = 16 << 20;

/// A file, its fetched blocks, and the amount of metadata that was interpreted.
pub(crate) struct Io<'a> {
    source: &'a dyn ReadRanges,
    limits: Limits,
    cached: BTreeMap<u64, Bytes>,
    cached_bytes: u64,
    interpreted: u64,
}

impl<'a> Io<'a> {
    pub(crate) fn new(source: &'a dyn ReadRanges, limits: Limits) -> Self {
        Self { source, limits, cached: BTreeMap::new(), cached_bytes: 0, interpreted: 0 }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.source.size()
    }

    /// Returns the fetched bytes from `offset` on; none if no block covers it.
    pub(crate) fn cached_from(&self, offset: u64) -> Bytes {
        let Some((start, block)) = self.cached.range(..=offset).next_back() else { return Bytes::new() };
        match usize::try_from(offset.saturating_sub(*start)) {
            Ok(skip) if skip < block.len() => block.slice(skip..),
            _ => Bytes::new(),
        }
    }

    /// Reads all ranges; those that are not available are fetched together. A range beyond the end of the file yields
    /// the bytes that exist.
    pub(crate) async fn read(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        let mut parts: Vec<Bytes> = ranges.iter().map(|&range| self.cached(range)).collect();
        let lacking =
            |(range, part): &(&ByteRange, &Bytes)| (part.len() as u64) < range.clamp_to(self.size()).length;
        let missing: Vec<ByteRange> =
            ranges.iter().zip(&parts).filter(lacking).map(|(range, _)| *range).collect();
        if missing.is_empty() {
            return Ok(parts);
        }
        let mut fetched = self.source.read_ranges(&missing).await?.into_iter();
        for (range, part) in ranges.iter().zip(&mut parts) {
            if lacking(&(range, part)) {
                *part = fetched.next().unwrap_or_default();
            }
        }
        Ok(parts)
    }

    /// Reads ranges like [`Io::read`] and keeps the bytes.
    pub(crate) async fn read_and_cache(&mut self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        let parts = self.read(ranges).await?;
        for (range, part) in ranges.iter().zip(&parts) {
            self.cached_bytes = self.cached_bytes.saturating_add(part.len() as u64);
            if self.cached_bytes <= MAX_CACHED && self.cached_from(range.start).len() < part.len() {
                self.cached.insert(range.start, part.clone());
            }
        }
        Ok(parts)
    }

    fn cached(&self, range: ByteRange) -> Bytes {
        let mut part = self.cached_from(range.start);
        part.truncate(usize::try_from(range.length).unwrap_or(usize::MAX));
        part
    }

    /// Counts interpreted metadata. Overlapping directories and values could otherwise make a small file describe any
    /// amount of it.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Error> {
        self.interpreted = self.interpreted.saturating_add(bytes);
        let most = self.size().saturating_mul(MAX_REPETITION).saturating_add(MIN_METADATA);
        let most = most.min(self.limits.metadata_bytes);
        if self.interpreted > most {
            return Err(ReadError::new(
                ReadErrorKind::Limit,
                format!("metadata exceeds the limit of {most} bytes"),
            )
            .into());
        }
        Ok(())
    }
}
