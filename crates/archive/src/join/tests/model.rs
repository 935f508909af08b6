//! Random arrangements of files: each element of the combined array has the bytes that a model computes for it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;
use virtualize::zarr::{
    Array, Chunk, ChunkGrid, ChunkManifest, ChunkReader, Codec, DataType, Endian, FillValue, Hierarchy, Node,
    ReferencesBuilder, Source, SourceId, SourceRef, ZarrFormat, chunk_indices, chunk_position,
};

use super::super::{Combined, JoinedChunks, combine, regions::RegionSizes};
use crate::{
    Along, Item, Layout, Member,
    error::{CombineError, Error, Problem},
    file::{FileChunks, Head, Members},
    join::tests::MemoryMembers,
    plan::{Block, PlannedSet, Selection},
};

/// Size of an element in bytes.
const ELEMENT: u64 = 4;

/// How the chunks of files fit together.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fit {
    /// Whole chunks of one shape.
    Regular,
    /// Slices of uncompressed chunks.
    Sliced,
    /// Chunks of several sizes.
    Rectilinear,
}

/// A file: its array if it has it, and where it is.
struct File {
    block: Block,
    array: Option<Array>,
}

/// Files along some dimensions.
struct Case {
    fit: Fit,
    format: ZarrFormat,
    layout: Layout,
    set: PlannedSet,
    files: Vec<File>,
    /// The axis of the files' array that is each dimension of the layout; `None` for a new one.
    axes: Vec<Option<usize>>,
    /// Size of the files' array along axes that do not grow.
    fixed: Vec<u64>,
}

/// Where the bytes of an element are.
#[derive(Clone, PartialEq, Debug)]
enum Place {
    /// In a compressed chunk, as this element.
    Chunk(String, u64, u64, u64),
    /// In a compressed chunk that is inline, as this element.
    Inline(Bytes, u64),
    /// At an offset.
    At(String, u64),
    /// Inline.
    Value(Bytes),
}

/// Returns the indices of all elements of a shape, row-major.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let count = shape.iter().product();
    (0..count).filter_map(|n| chunk_indices(n, shape))
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let rank = rng.usize(1..=3);
        let concat = rng.usize(..rank);
        let axes = match rng.u8(..4) {
            0 => vec![Some(concat)],
            1 => vec![None, Some(concat)],
            2 => vec![None],
            _ if rank > 1 => vec![Some(concat), Some((concat + 1) % rank)],
            _ => vec![Some(concat)],
        };
        let grows = axes.iter().flatten().count();
        let fit = match rng.u8(..3) {
            0 if grows == 1 => Fit::Sliced,
            1 if grows == 1 => Fit::Rectilinear,
            _ => Fit::Regular,
        };
        let chunk: Vec<u64> = (0..rank)
            .map(|axis| if fit == Fit::Sliced && axis < concat { 1 } else { rng.u64(1..=3) })
            .collect();
        let whole = |rng: &mut Rng, axis: usize| chunk[axis] * rng.u64(1..=3);
        let fixed = (0..rank)
            .map(|axis| if fit == Fit::Rectilinear { whole(rng, axis) } else { rng.u64(1..=5) })
            .collect::<Vec<_>>();
        let sizes = axes.iter().map(|axis| {
            let places = rng.u32(1..=5);
            let size = |n| match (axis, fit) {
                (None, _) => 1,
                (Some(axis), Fit::Regular) if n + 1 < places => whole(rng, *axis),
                _ => rng.u64(1..=6),
            };
            (0..places).map(size).collect::<Vec<u64>>()
        });
        let sizes: Vec<Vec<u64>> = sizes.collect();
        let dimension = |(n, axis): (usize, &Option<usize>)| match axis {
            Some(axis) => Along::Concat(format!("a{axis}")),
            None => Along::Stack(format!("s{n}")),
        };
        let layout = Layout {
            rectilinear: fit == Fit::Rectilinear,
            inline_limit: 0,
            optional: rng.bool().then(|| "v".to_owned()).into_iter().collect(),
            ..Layout::along(axes.iter().enumerate().map(dimension).collect())
        };
        let format = if fit == Fit::Rectilinear || rng.bool() { ZarrFormat::V3 } else { ZarrFormat::V2 };
        let set = PlannedSet { sizes, ..PlannedSet::default() };
        let mut case = Self { fit, format, layout, set, files: Vec::new(), axes, fixed };
        case.add_files(&chunk, rng);
        case
    }

    fn add_files(&mut self, chunk: &[u64], rng: &mut Rng) {
        let places: Vec<u64> = self.set.sizes.iter().map(|sizes| sizes.len() as u64).collect();
        for at in indices(&places) {
            if self.axes.len() > 1 && rng.u8(..6) == 0 {
                continue;
            }
            let row = self.files.len() as u64;
            let file = self.file(row, &at, chunk, rng);
            self.files.push(file);
        }
        self.set.blocks = self.files.iter().map(|file| file.block.clone()).collect();
    }

    fn file(&self, row: u64, at: &[u64], chunk: &[u64], rng: &mut Rng) -> File {
        let mut shape = self.fixed.clone();
        let mut chunk = chunk.to_vec();
        for ((axis, n), sizes) in self.axes.iter().zip(at).zip(&self.set.sizes) {
            let Some(axis) = *axis else { continue };
            shape[axis] = sizes[usize::try_from(*n).unwrap()];
            chunk[axis] = match self.fit {
                Fit::Regular => chunk[axis],
                Fit::Sliced => rng.u64(1..=4),
                Fit::Rectilinear => {
                    let divisors: Vec<u64> =
                        (1..=shape[axis]).filter(|n| shape[axis].is_multiple_of(*n)).collect();
                    divisors[rng.usize(..divisors.len())]
                }
            };
        }
        let selection = self.selection(&mut shape, &chunk, rng);
        let at = at.iter().map(|n| u32::try_from(*n).unwrap()).collect();
        let is_there = self.layout.optional.is_empty() || rng.u8(..4) > 0;
        let array = is_there.then(|| self.array(row, shape, chunk, rng));
        File { block: Block { row, at, selection: selection.map(|it| vec![Some(it)].into()) }, array }
    }

    /// Selects a part of a longer file, along the only dimension.
    fn selection(&self, shape: &mut [u64], chunk: &[u64], rng: &mut Rng) -> Option<Selection> {
        let &[Some(axis)] = self.axes.as_slice() else { return None };
        if self.fit == Fit::Rectilinear || rng.bool() {
            return None;
        }
        let start = chunk[axis] * rng.u64(..3);
        let end = start + shape[axis];
        shape[axis] = end + rng.u64(..3);
        Some(Selection { start, end, of: shape[axis] })
    }

    fn array(&self, row: u64, shape: Vec<u64>, chunk: Vec<u64>, rng: &mut Rng) -> Array {
        let plain = Codec::Bytes { endian: Some(Endian::Little) };
        let bytes = ELEMENT * chunk.iter().product::<u64>();
        let grid = ChunkGrid::Regular(chunk);
        let mut columns = [ReferencesBuilder::default(), ReferencesBuilder::default()];
        let mut chunks = ChunkManifest::default();
        for position in 0..grid.counts(&shape).iter().product() {
            let length = if self.fit == Fit::Sliced { bytes } else { 10 + position };
            match rng.u8(..8) {
                0 => {}
                1 => {
                    let length = usize::try_from(length).unwrap();
                    let content = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
                    chunks.inline.insert(position, content);
                }
                n => columns[usize::from(n % 2)].push(position, 1000 * (row + 1) + 100 * position, length),
            }
        }
        let columns = (0..).zip(columns).flat_map(|(n, column)| column.finish(SourceId(n)));
        chunks.references = columns.collect();
        Array {
            data_type: DataType::Float32,
            fill_value: FillValue::from_f64(&DataType::Float32, f64::NAN).value(),
            codecs: if self.fit == Fit::Sliced { vec![plain] } else { vec![plain, Codec::Zlib { level: 1 }] },
            dimension_names: (0..shape.len()).map(|axis| Some(format!("a{axis}"))).collect(),
            attributes: serde_json::Map::new(),
            chunk_grid: grid,
            chunks,
            shape,
        }
    }

    fn members(&self) -> Counting {
        let member = |file: &File| {
            let mut hierarchy = Hierarchy::new(self.format);
            if let Some(array) = &file.array {
                hierarchy.root.children.insert("v".to_owned(), Node::Array(Box::new(array.clone())));
            }
            let source = |n| Source { url: format!("{} {n}", file.block.row), ..Source::default() };
            hierarchy.sources = (0..2).map(source).collect();
            let item = Item::of(file.block.row.to_string());
            Member {
                item,
                hierarchy,
                values: BTreeMap::new(),
                digests: BTreeMap::new(),
                grids: BTreeMap::new(),
                given: BTreeMap::new(),
                omitted: std::collections::BTreeSet::new(),
            }
        };
        Counting { members: MemoryMembers::new(self.files.iter().map(member)), loaded: Vec::new() }
    }

    /// Returns whether files at the same place along an existing dimension have chunks of different sizes.
    fn has_conflict(&self) -> bool {
        let mut known = BTreeMap::new();
        let arrays = self.files.iter().filter_map(|file| Some((&file.block.at, file.array.as_ref()?)));
        let mut grids =
            arrays.flat_map(|(at, array)| self.axes.iter().zip(at).map(move |(axis, n)| (axis, n, array)));
        self.fit == Fit::Rectilinear
            && grids.any(|(axis, n, array)| match (axis, &array.chunk_grid) {
                (Some(axis), ChunkGrid::Regular(chunk)) => {
                    *known.entry((*axis, *n)).or_insert(chunk[*axis]) != chunk[*axis]
                }
                _ => false,
            })
    }

    /// Returns the place of an element of the combined array, found without any chunk grid of the combined array.
    fn expected(&self, index: &[u64]) -> Option<Place> {
        let new = self.axes.iter().filter(|axis| axis.is_none()).count();
        let (mut at, mut own) = (Vec::new(), index[new..].to_vec());
        let mut stacked = index.iter();
        for (axis, sizes) in self.axes.iter().zip(&self.set.sizes) {
            let Some(axis) = *axis else {
                at.push(u32::try_from(*stacked.next()?).ok()?);
                continue;
            };
            let mut place = 0;
            while own[axis] >= sizes[place] {
                own[axis] -= sizes[place];
                place += 1;
            }
            at.push(u32::try_from(place).ok()?);
        }
        let file = self.files.iter().find(|file| file.block.at.as_slice() == at)?;
        if let (Some(selection), &[Some(axis)]) = (&file.block.selection, self.axes.as_slice()) {
            own[axis] += selection[0].unwrap().start;
        }
        let array = file.array.as_ref()?;
        let ChunkGrid::Regular(shape) = &array.chunk_grid else { return None };
        let counts = array.chunk_grid.counts(&array.shape);
        let chunk = chunk_position(own.iter().zip(shape).map(|(n, c)| n / c), &counts)?;
        let within = chunk_position(own.iter().zip(shape).map(|(n, c)| n % c), shape)?;
        let is_plain = self.fit == Fit::Sliced;
        if let Some(bytes) = array.chunks.inline.get(&chunk) {
            return Some(inline_place(bytes, within, is_plain));
        }
        let found = array.chunks.references.iter().find_map(|column| column.find(chunk))?;
        let url = format!("{} {}", file.block.row, found.source.0);
        Some(match is_plain {
            true => Place::At(url, found.offset + within * ELEMENT),
            false => Place::Chunk(url, found.offset, found.length, within),
        })
    }
}

fn inline_place(bytes: &Bytes, within: u64, is_plain: bool) -> Place {
    let start = usize::try_from(within * ELEMENT).unwrap();
    match is_plain {
        true => Place::Value(bytes.slice(start..start + 4)),
        false => Place::Inline(bytes.clone(), within),
    }
}

/// Files that record whose chunks are read.
struct Counting {
    members: MemoryMembers,
    loaded: Vec<u64>,
}

impl Members for &mut Counting {
    fn head(&mut self, row: u64) -> Result<Head, Error> {
        self.members.head(row)
    }

    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks, Error> {
        self.loaded.push(row);
        self.members.chunks(row, path)
    }
}

/// Returns the index of the chunk of an element along an axis, the element's index in it, and the chunk's size.
fn divided(grid: &ChunkGrid, axis: usize, n: u64) -> (u64, u64, u64) {
    match grid {
        ChunkGrid::Regular(chunk) => (n / chunk[axis], n % chunk[axis], chunk[axis]),
        ChunkGrid::Rectilinear(edges) => {
            let (mut rest, mut chunk) = (n, 0);
            while rest >= edges[axis][chunk] {
                rest -= edges[axis][chunk];
                chunk += 1;
            }
            (chunk as u64, rest, edges[axis][chunk])
        }
    }
}

/// Returns the place of an element according to the chunks of the combined array.
fn found(array: &Array, chunks: &BTreeMap<u64, Chunk<'_>>, index: &[u64], is_plain: bool) -> Option<Place> {
    let parts: Vec<_> =
        index.iter().enumerate().map(|(axis, n)| divided(&array.chunk_grid, axis, *n)).collect();
    let position =
        chunk_position(parts.iter().map(|part| part.0), &array.chunk_grid.counts(&array.shape)).unwrap();
    let shape: Vec<u64> = parts.iter().map(|part| part.2).collect();
    let within = chunk_position(parts.iter().map(|part| part.1), &shape).unwrap();
    Some(match chunks.get(&position)? {
        Chunk::Inline(bytes) => inline_place(bytes, within, is_plain),
        Chunk::Reference { source, offset, .. } if is_plain => {
            Place::At(source.url.clone(), offset + within * ELEMENT)
        }
        Chunk::Reference { source, offset, length } => {
            Place::Chunk(source.url.clone(), *offset, *length, within)
        }
    })
}

/// Reads the chunks from a position on.
fn read(reader: &mut dyn ChunkReader, start: u64) -> Vec<(u64, Chunk<'static>)> {
    let owned = |chunk: Chunk<'_>| match chunk {
        Chunk::Inline(bytes) => Chunk::Inline(bytes),
        Chunk::Reference { source, offset, length } => {
            let source = SourceRef::Shared(Source::clone(&source).into());
            Chunk::Reference { source, offset, length }
        }
    };
    reader.chunks("v", start).unwrap().map(Result::unwrap).map(|(at, chunk)| (at, owned(chunk))).collect()
}

/// Compares a combination of files with the model. Returns whether there was anything to compare.
fn check(case: &Case, rng: &mut Rng) -> bool {
    let mut members = case.members();
    let go_on = &mut || Ok(());
    let combined = combine(&case.set, &case.layout, &mut &mut members, go_on);
    let Combined { hierarchy, chunks: places, .. } = match combined {
        Ok(combined) => combined,
        Err(Error::Combine(CombineError::Nothing)) if case.files.is_empty() => return false,
        Err(Error::Combine(CombineError::Subject { problem, .. })) if case.has_conflict() => {
            assert_eq!(*problem, Problem::GRID);
            return false;
        }
        Err(error) => panic!("{error}"),
    };
    let Some(array) = hierarchy.array("v") else {
        assert!(case.files.iter().all(|file| file.array.is_none()));
        return false;
    };
    members.loaded.clear();
    let sizes = RegionSizes { enough: rng.usize(1..=6), most: rng.usize(1..=20) };
    let mut reader = JoinedChunks::new(&mut members, places).with_sizes(sizes);
    let count = reader.count("v").unwrap();
    let all = read(&mut reader, 0);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "positions ascend");
    assert_eq!(all.len() as u64, count);
    let start = rng.u64(..=all.last().map_or(0, |last| last.0) + 1);
    let later = read(&mut reader, start);
    let expected: Vec<_> = all.iter().filter(|chunk| chunk.0 >= start).cloned().collect();
    assert_eq!(later, expected, "from {start}");
    let chunks: BTreeMap<u64, Chunk<'_>> = all.into_iter().collect();
    for index in indices(&array.shape) {
        let found = found(array, &chunks, &index, case.fit == Fit::Sliced);
        assert_eq!(found, case.expected(&index), "element {index:?}");
    }
    true
}

#[test]
fn elements_of_random_arrangements_have_the_bytes_of_their_files() {
    let cases = std::env::var("ARRANGEMENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let mut compared = BTreeMap::new();
    for seed in 0..cases {
        let mut rng = Rng::with_seed(seed);
        let case = Case::random(&mut rng);
        let name = format!("{:?} {:?}", case.fit, case.axes.len());
        let is_compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&case, &mut rng)));
        let is_compared = is_compared.unwrap_or_else(|_| panic!("seed {seed}: {name}"));
        *compared.entry(name).or_insert(0) += u32::from(is_compared);
    }
    assert!(compared.values().all(|count| *count > 10), "{compared:?}");
    assert!(compared.keys().map(|name| name.split(' ').next()).collect::<BTreeSet<_>>().len() == 3);
}
