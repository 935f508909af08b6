use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Budget, ByteRange, Limits, ReadRanges};

use crate::{Error, btree1::TreeRanks, cursor::slice, model::File};

/// Size in bytes up to which a page of metadata is read whole.
pub(crate) const LARGEST_PAGE: u64 = 16 << 20;

/// A file with its limits and its memory budget.
pub(crate) struct Io<'a> {
    source: &'a dyn ReadRanges,
    /// Size in bytes: that of the source, or what the superblock declares of it.
    size: u64,
    limits: Limits,
    budget: Budget<'a>,
    /// Start of the file, from which reads are served.
    pub(crate) head: Bytes,
    /// Structures from the metadata cache image, by address.
    overlay: BTreeMap<u64, Bytes>,
    /// Size in bytes of the longest structure in the overlay.
    longest: u64,
    /// Start of the first page, and the size of pages in bytes, if the file keeps metadata in pages of its own, which are then
    /// read whole.
    pub(crate) pages: Option<(u64, u64)>,
    /// Sizes of version 1 B-trees.
    pub(crate) ranks: TreeRanks,
}

impl<'a> Io<'a> {
    pub(crate) fn new(source: &'a dyn ReadRanges, limits: Limits) -> Self {
        Self {
            source,
            size: source.size(),
            limits,
            budget: Budget::of_file(&limits, source.size()),
            head: Bytes::new(),
            overlay: BTreeMap::new(),
            longest: 0,
            pages: None,
            ranks: TreeRanks::DEFAULT,
        }
    }

    /// Opens a file again to read further structures, such as global heaps.
    pub(crate) fn of_file(source: &'a dyn ReadRanges, limits: Limits, file: &File) -> Self {
        let mut io = Self::new(source, limits);
        io.set_end(file.end.0);
        io.add_overlay(file.cached.clone());
        io
    }

    /// Ends the file where the superblock declares its end: libhdf5 reads nothing past it.
    pub(crate) fn set_end(&mut self, end: u64) {
        self.size = self.size.min(end);
    }

    /// Adds structures that replace the bytes of the file at their addresses.
    pub(crate) fn add_overlay(&mut self, structures: impl IntoIterator<Item = (u64, Bytes)>) {
        self.overlay.extend(structures);
        self.longest = self.overlay.values().map(|bytes| bytes.len() as u64).max().unwrap_or(0);
    }

    /// Returns the structures that replace the bytes of the file, by address.
    pub(crate) fn overlay(&self) -> &BTreeMap<u64, Bytes> {
        &self.overlay
    }

    /// Charges memory for parsed metadata, in addition to the bytes of the file. An error must fail the whole file.
    pub(crate) fn hold(&self, what: &str, bytes: u64) -> Result<(), Error> {
        self.budget.take(what, bytes)?;
        Ok(self.source.hold(what, bytes)?)
    }

    /// Returns the remaining memory in bytes.
    pub(crate) fn left(&self) -> u64 {
        self.budget.left()
    }

    /// Returns the number of nodes or pages to read in one batch, which bounds their memory. A remote file takes a round trip
    /// for each batch.
    pub(crate) fn batch(&self) -> usize {
        if self.source.is_local() { 1024 } else { 16_384 }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Suggests ranges that may be read soon. They are not computed for a local file.
    pub(crate) fn may_read(&self, ranges: impl Iterator<Item = ByteRange>) {
        if !self.source.is_local() {
            self.source.may_read(&ranges.collect::<Vec<_>>());
        }
    }

    /// Announces ranges that will be read soon. They are not computed for a local file.
    pub(crate) fn will_read(&self, ranges: impl Iterator<Item = ByteRange>) {
        if !self.source.is_local() {
            self.source.will_read(&ranges.collect::<Vec<_>>());
        }
    }

    /// Reads all ranges together. A range beyond the end of the file yields the bytes that exist.
    pub(crate) async fn read(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        let within: Vec<_> = ranges.iter().map(|range| range.clamp_to(self.size)).collect();
        let lengths = within.iter().map(|range| range.length);
        self.budget.take("bytes of the file", lengths.fold(0, u64::saturating_add))?;
        let known: Vec<_> = within.iter().map(|range| slice(&self.head, range.start, range.end())).collect();
        let unknown = within.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(range, _)| *range).collect();
        let mut fetched = self.fetch(&unknown).await?.into_iter();
        let parts = known.into_iter().map(|known| known.or_else(|| fetched.next()).unwrap_or_default());
        if self.overlay.is_empty() {
            return Ok(parts.collect());
        }
        // Applies all structures of the overlay that overlap a part.
        let overlaid = ranges.iter().zip(parts).map(|(&ByteRange { start, .. }, part)| {
            let end = start.saturating_add(part.len() as u64);
            let touching = self.overlay.range(start.saturating_sub(self.longest)..end);
            let touching = touching.filter(|(at, bytes)| at.saturating_add(bytes.len() as u64) > start);
            let mut copy = part.to_vec();
            for (&at, bytes) in touching {
                let skipped = usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
                let passed = usize::try_from(start.saturating_sub(at)).unwrap_or(usize::MAX);
                let replaced = copy.iter_mut().skip(skipped).zip(bytes.iter().skip(passed));
                replaced.for_each(|(old, new)| *old = *new);
            }
            copy.into()
        });
        Ok(overlaid.collect())
    }

    async fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Error> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        if let Some((first, size)) = self.pages {
            let page = |range: &ByteRange| {
                let within = range.start.saturating_sub(first).checked_rem(size)?;
                Some(ByteRange::new(range.start.saturating_sub(within), size))
            };
            self.will_read(ranges.iter().filter_map(page));
        }
        Ok(self.source.read_ranges(ranges).await?)
    }
}

/// Reads all ranges in one batch. A range that exceeds the file or the limit on the size of a structure fails alone; a
/// failed request fails all of them.
pub(crate) async fn read_whole(
    io: &Io<'_>,
    structure: &'static str,
    ranges: &[ByteRange],
) -> Vec<Result<Bytes, Error>> {
    let check = |range: &ByteRange| {
        let (most, available) = (io.limits().structure_bytes, range.clamp_to(io.size()).length);
        if range.length > most {
            let problem = format!("{} bytes, expected at most {most}", range.length);
            Err(Error::limit(structure, range.start, problem))
        } else if available < range.length {
            Err(Error::Truncated { structure, address: range.start, range: *range })
        } else {
            Ok(*range)
        }
    };
    let checked: Vec<_> = ranges.iter().map(check).collect();
    let valid: Vec<_> = checked.iter().flatten().copied().collect();
    match io.read(&valid).await {
        Ok(parts) => {
            let mut parts = parts.into_iter();
            checked.into_iter().map(|range| range.map(|_| parts.next().unwrap_or_default())).collect()
        }
        Err(error) => ranges.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// Reads the structure at each address: `guess` bytes of each in one batch, then, in a second one, those that are
/// longer according to `length`.
pub(crate) async fn read_sized(
    io: &Io<'_>,
    structure: &'static str,
    addresses: &[u64],
    guess: u64,
    length: impl Fn(&[u8], u64) -> Result<u64, Error>,
) -> Result<Vec<Result<Bytes, Error>>, Error> {
    let guesses: Vec<_> = addresses.iter().map(|&address| ByteRange::new(address, guess)).collect();
    let mut whole = Vec::with_capacity(addresses.len());
    let mut longer = Vec::new();
    for (bytes, &address) in io.read(&guesses).await?.into_iter().zip(addresses) {
        let length = length(&bytes, address);
        let known = bytes.len() as u64;
        if let Ok(length @ 1..) = length
            && length > known
        {
            longer.push((whole.len(), ByteRange::new(address, length)));
        }
        whole.push(length.map(|_| bytes));
    }
    let ranges: Vec<_> = longer.iter().map(|(_, range)| *range).collect();
    for ((index, _), bytes) in longer.iter().zip(read_whole(io, structure, &ranges).await) {
        if let Some(place) = whole.get_mut(*index) {
            *place = bytes;
        }
    }
    Ok(whole)
}

/// A structure to read in [`walk`].
pub(crate) struct Step<P> {
    /// Index of the tree.
    tree: usize,
    pub(crate) range: ByteRange,
    /// What the structure is.
    pub(crate) part: P,
}

/// A tree of structures that refer to others, such as a B-tree or an array of blocks.
pub(crate) trait Tree {
    /// What a structure of the tree is.
    type Part;

    /// Parses a structure. Returns those to which it refers.
    fn visit(
        &mut self,
        range: ByteRange,
        part: &Self::Part,
        bytes: &Bytes,
    ) -> Result<Vec<(ByteRange, Self::Part)>, Error>;

    /// The error after which nothing of the tree is read.
    fn result(&mut self) -> &mut Result<(), Error>;

    /// Returns the approximate number of bytes of all structures below those of the next level; 0 if it is unknown.
    fn bytes_below(&self, _level: &[Step<Self::Part>]) -> u64 {
        0
    }
}

/// Reads trees from their roots, one level of all trees together. No structure may occur twice in a level, which keeps a
/// small file from describing a huge tree.
pub(crate) async fn walk<T: Tree>(
    io: &Io<'_>,
    structure: &'static str,
    trees: &mut [T],
    roots: Vec<(ByteRange, T::Part)>,
) {
    let step = |tree, (range, part)| Step { tree, range, part };
    let mut level: Vec<_> = roots.into_iter().enumerate().map(|(tree, root)| step(tree, root)).collect();
    while !level.is_empty() {
        let mut next = Vec::new();
        for batch in level.chunks(io.batch()) {
            let ranges: Vec<_> = batch.iter().map(|step| step.range).collect();
            for (visited, bytes) in batch.iter().zip(read_whole(io, structure, &ranges).await) {
                let Some(tree) = trees.get_mut(visited.tree) else { continue };
                if tree.result().is_err() {
                    continue;
                }
                match bytes.and_then(|bytes| tree.visit(visited.range, &visited.part, &bytes)) {
                    Ok(below) => next.extend(below.into_iter().map(|below| step(visited.tree, below))),
                    Err(error) => *tree.result() = Err(error),
                }
            }
        }
        let mut starts: Vec<_> = next.iter().map(|step| (step.tree, step.range.start)).collect();
        starts.sort_unstable();
        for [first, second] in starts.array_windows() {
            if let Some(tree) = trees.get_mut(first.0).filter(|_| first == second) {
                *tree.result() = Err(Error::malformed(structure, first.1, "a second parent, expected one"));
            }
        }
        for steps in next.chunk_by(|first, second| first.tree == second.tree) {
            let tree = steps.first().and_then(|step| trees.get(step.tree));
            let bytes = tree.map_or(0, |tree| tree.bytes_below(steps));
            // Announces all bytes between the structures, if those below them fill at least a quarter: pages without a
            // structure are then rare.
            let starts = || steps.iter().map(|step| step.range.start);
            if bytes > 0
                && !io.source.is_local()
                && let (Some(first), Some(last)) = (starts().min(), starts().max())
                && bytes.saturating_mul(4) >= last.saturating_sub(first)
            {
                io.source.will_read(&[ByteRange::new(first, last.saturating_sub(first))]);
            }
        }
        level = next;
    }
}
