//! Random virtual datasets against a model. The model lists the elements of both selections in row-major order, which is how
//! HDF5 pairs them; later mappings cover earlier ones. `RANDOM_VIRTUAL=100000` tries more.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Budget, ByteRange, Limits};
use virtualize_hdf5::model::{
    Dataset, Datatype, FillValue as Stored, Layout, Selection, Slab, VirtualMapping,
};
use virtualize_zarr::{Array, ChunkEntry, ChunkGrid, Codec, FillValue, Source, ZarrFormat, chunk_indices};

use super::{chunked, dataset, file, filter, int};
use crate::hdf5::{OtherFile, OtherFiles, map_file_among};
use crate::{ChunkContent, ElementPart, ElementTransform, MapOptions, Mapped, Piece, PieceBytes};

/// Size of an element.
const SIZE: u64 = 4;
/// Stored bytes of a compressed chunk.
const COMPRESSED: u64 = 7;

/// An element: its place in a file, or its bytes.
#[derive(Clone, PartialEq, Debug)]
enum Element {
    /// Url, and the byte at which the element starts in the decoded chunk or array that is stored there.
    At(String, u64),
    Here(Vec<u8>),
}

/// A source file of one dataset `x`, with its elements; `None` if it does not exist.
type SourceFile = Option<(Dataset, Vec<Element>)>;

fn url(name: &str) -> String {
    format!("file:///data/{name}")
}

fn row_major(index: &[u64], shape: &[u64]) -> u64 {
    index.iter().zip(shape).fold(0, |at, (index, size)| at * size + index)
}

fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    (0..shape.iter().product()).map(|at| chunk_indices(at, shape).unwrap())
}

/// Lists the selected elements.
fn selected(selection: &Selection, shape: &[u64]) -> Vec<Vec<u64>> {
    let is_in_slab = |(at, slab): (&u64, &Slab)| {
        let past = at.checked_sub(slab.start);
        past.is_some_and(|n| n / slab.stride < slab.count.unwrap() && n % slab.stride < slab.block.unwrap())
    };
    let is_selected = |index: &Vec<u64>| match selection {
        Selection::All => true,
        Selection::Regular(slabs) => index.iter().zip(slabs).all(is_in_slab),
        Selection::Blocks(blocks) => blocks.iter().any(|(first, last)| {
            index.iter().zip(first).all(|(at, n)| at >= n) && index.iter().zip(last).all(|(at, n)| at <= n)
        }),
        other => panic!("{other:?}"),
    };
    indices(shape).filter(is_selected).collect()
}

/// Returns a slab along an axis, in multiples of `unit` but for blocks at the end of the axis.
fn slab(random: &mut fastrand::Rng, extent: u64, unit: u64) -> Slab {
    let start = random.u64(0..extent.div_ceil(unit)) * unit;
    let block = (random.u64(1..=3) * unit).min(extent - start);
    let stride = block + random.u64(0..3) * unit;
    let most = (extent - start - block) / stride + 1;
    Slab { start, stride, count: Some(random.u64(1..=most)), block: Some(block) }
}

/// Returns an axis that is longer than `length`, and a slab of so many elements in it.
fn slab_of(random: &mut fastrand::Rng, length: u64, unit: u64) -> (u64, Slab) {
    let divisors: Vec<u64> = (1..=length).filter(|n| length.is_multiple_of(*n)).collect();
    let block = divisors[random.usize(0..divisors.len())];
    let (start, stride) = (random.u64(0..3) * unit, block + random.u64(0..2) * unit);
    let slab = Slab { start, stride, count: Some(length / block), block: Some(block) };
    (start + (length / block - 1) * stride + block + random.u64(0..3), slab)
}

/// Returns the same selection as a list of blocks.
fn as_blocks(slabs: &[Slab]) -> Selection {
    let counts: Vec<u64> = slabs.iter().map(|slab| slab.count.unwrap()).collect();
    let corner = |index: &[u64], end: u64| {
        let at = |(n, slab): (&u64, &Slab)| slab.start + n * slab.stride + end * (slab.block.unwrap() - 1);
        index.iter().zip(slabs).map(at).collect()
    };
    Selection::Blocks(indices(&counts).map(|index| (corner(&index, 0), corner(&index, 1))).collect())
}

fn selection(random: &mut fastrand::Rng, slabs: Vec<Slab>) -> Selection {
    if random.u8(0..4) == 0 { as_blocks(&slabs) } else { Selection::Regular(slabs) }
}

/// Returns a source of this shape. `axes` are those of its array type, `units` a likely chunk shape.
fn source(random: &mut fastrand::Rng, name: &str, shape: &[u64], axes: &[u64], units: &[u64]) -> SourceFile {
    let url = url(name);
    let full = [shape, axes].concat();
    let fill = vec![random.u8(0..2) * 9, 0, 0, 0];
    let mut data = dataset(datatype(axes), shape);
    data.fill.value =
        Stored::User(fill.repeat(usize::try_from(axes.iter().product::<u64>()).unwrap()).into());
    let count = full.iter().product::<u64>();
    let at = |start: u64, n: u64| Element::At(url.clone(), start + SIZE * n);
    let elements = match random.u8(0..8) {
        0 => return None,
        1 => {
            data.layout = Layout::Contiguous(None);
            vec![Element::Here(fill); usize::try_from(count).unwrap()]
        }
        2 => {
            let bytes: Vec<u8> = (0..count * SIZE).map(|n| u8::try_from(n % 251).unwrap()).collect();
            data.layout = Layout::Compact(Bytes::from(bytes.clone()));
            bytes.chunks(4).map(|element| Element::Here(element.to_vec())).collect()
        }
        3 | 4 => (0..count).map(|n| at(4096, n)).collect(),
        kind => {
            let own = |random: &mut fastrand::Rng| shape.iter().map(|_| random.u64(1..4)).collect();
            let chunk =
                if units.len() == shape.len() && random.bool() { units.to_vec() } else { own(random) };
            let grid = ChunkGrid::Regular(chunk.clone()).counts(shape);
            let there: Vec<u64> = (0..grid.iter().product()).filter(|_| random.u8(0..5) > 0).collect();
            let chunk_shape = [&chunk[..], axes].concat();
            let bytes = u32::try_from(chunk_shape.iter().product::<u64>() * SIZE).unwrap();
            let size = if kind == 5 { bytes } else { u32::try_from(COMPRESSED).unwrap() };
            data.filters = if kind == 5 { Vec::new() } else { vec![filter(1, &[6])] };
            let mut layout = chunked(&chunk, &grid, Some(there.clone()), &vec![size; there.len()]);
            layout.chunks.addresses = there.iter().map(|n| 10_000 * (n + 1)).collect::<Vec<_>>().into();
            data.layout = Layout::Chunked(layout);
            let grid = [&grid[..], &vec![1; axes.len()]].concat();
            let element = |index: Vec<u64>| {
                let chunk: Vec<u64> = index.iter().zip(&chunk_shape).map(|(n, size)| n / size).collect();
                let inside: Vec<u64> = index.iter().zip(&chunk_shape).map(|(n, size)| n % size).collect();
                match row_major(&chunk, &grid) {
                    n if there.contains(&n) => at(10_000 * (n + 1), row_major(&inside, &chunk_shape)),
                    _ => Element::Here(fill.clone()),
                }
            };
            indices(&full).map(element).collect()
        }
    };
    Some((data, elements))
}

fn datatype(axes: &[u64]) -> Datatype {
    match axes {
        [] => int(4, true),
        shape => Datatype::Array { base: Box::new(int(4, true)), shape: shape.to_vec() },
    }
}

/// What a mapped array shows.
struct Shown<'a> {
    mapped: &'a Mapped,
    array: &'a Array,
    compressed: &'a [String],
}

impl Shown<'_> {
    fn element(&self, index: &[u64]) -> Element {
        let ChunkGrid::Regular(chunk) = &self.array.chunk_grid else { panic!() };
        let counts = self.array.chunk_grid.counts(&self.array.shape);
        let position =
            row_major(&index.iter().zip(chunk).map(|(n, size)| n / size).collect::<Vec<_>>(), &counts);
        let inside: Vec<u64> = index.iter().zip(chunk).map(|(n, size)| n % size).collect();
        let n = row_major(&inside, chunk);
        let task = self.mapped.tasks.iter().find(|task| task.positions.contains(&position));
        match (self.array.chunks.get(position), task) {
            (Some(ChunkEntry::Reference(found)), None) => {
                let range = ByteRange::new(found.offset, found.length);
                let url = &self.mapped.hierarchy.sources[found.source.index()].url;
                self.check(url, &self.array.codecs, range, chunk.iter().product());
                Element::At(url.clone(), found.offset + SIZE * n)
            }
            (Some(ChunkEntry::Inline(bytes)), None) => {
                Element::Here(bytes[4 * usize::try_from(n).unwrap()..][..4].to_vec())
            }
            (None, Some(task)) => self.made(&task.content, &inside),
            (None, None) => match &self.array.fill_value {
                Some(FillValue::Fixed(bytes)) => Element::Here(bytes.to_vec()),
                other => panic!("{other:?}"),
            },
            (Some(_), Some(_)) => panic!("chunk {position} is stored and made"),
        }
    }

    /// Checks that the content of a file is decoded as it is stored, and has all elements that are used.
    fn check(&self, url: &str, codecs: &[Codec], range: ByteRange, elements: u64) {
        let is_compressed = self.compressed.iter().any(|other| other == url);
        assert_eq!(codecs.iter().any(|codec| matches!(codec, Codec::Zlib { .. })), is_compressed);
        match is_compressed {
            true => assert_eq!(range.length, COMPRESSED),
            false => assert!(range.length >= elements * SIZE, "{range} has no {elements} elements"),
        }
    }

    fn made(&self, content: &ChunkContent, inside: &[u64]) -> Element {
        let ChunkContent::Assemble { background, pieces, .. } = content else { panic!("{content:?}") };
        let covering = pieces.iter().rev().find_map(|piece| self.of_piece(piece, inside));
        covering.unwrap_or_else(|| Element::Here(background.to_vec()))
    }

    fn of_piece(&self, piece: &Piece, inside: &[u64]) -> Option<Element> {
        let axes = inside.iter().zip(&piece.to).zip(&piece.extent).zip(&piece.from);
        let index = axes.map(|(((at, to), extent), from)| {
            at.checked_sub(*to).filter(|past| past < extent).map(|past| past + from)
        });
        let n = row_major(&index.collect::<Option<Vec<u64>>>()?, &piece.shape);
        let (stored, at) = match &piece.transform {
            ElementTransform::None => (SIZE, 0),
            ElementTransform::Repack { stored_size, parts } => match &parts[..] {
                [ElementPart { from, to: 0, size: 4, .. }] => (u64::from(*stored_size), u64::from(*from)),
                _ => panic!("{parts:?}"),
            },
            other => panic!("{other:?}"),
        };
        let at = n * stored + at;
        Some(match &piece.bytes {
            PieceBytes::At(range) => {
                let url = &self.mapped.hierarchy.sources[piece.source.index()].url;
                self.check(url, &piece.codecs, *range, piece.shape.iter().product::<u64>() * stored / SIZE);
                Element::At(url.clone(), range.start + at)
            }
            PieceBytes::Here(bytes) => Element::Here(bytes[usize::try_from(at).unwrap()..][..4].to_vec()),
        })
    }
}

/// A virtual dataset and its sources.
#[derive(Default)]
struct Case {
    shape: Vec<u64>,
    /// Axes of its array type.
    axes: Vec<u64>,
    units: Vec<u64>,
    mappings: Vec<VirtualMapping>,
    others: OtherFiles,
    /// Urls of sources whose chunks are compressed.
    compressed: Vec<String>,
    /// Elements that mappings cover.
    elements: BTreeMap<Vec<u64>, Element>,
}

impl Case {
    fn new(random: &mut fastrand::Rng) -> Self {
        let axes = if random.u8(0..4) == 0 { vec![2] } else { Vec::new() };
        let shape: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(1..8)).collect();
        let units = shape.iter().map(|_| random.u64(1..4)).collect();
        let mut case = Self { shape, axes, units, ..Self::default() };
        (0..random.usize(1..4)).for_each(|n| case.add(random, &format!("s{n}.h5")));
        case
    }

    /// Adds a mapping from a file of this name.
    fn add(&mut self, random: &mut fastrand::Rng, name: &str) {
        let to: Vec<Slab> =
            self.shape.iter().zip(&self.units).map(|(extent, unit)| slab(random, *extent, *unit)).collect();
        let (there, from, units) = self.source_side(random, &to);
        let to = selection(random, to);
        let (destination, origin) = (selected(&to, &self.shape), selected(&from, &there));
        assert_eq!(destination.len(), origin.len());
        let source = match random.u8(0..5) {
            0 => Some(self.nested(random, name, &there)),
            _ => source(random, name, &there, &self.axes, &units),
        };
        self.mappings.push(VirtualMapping {
            file: name.to_owned(),
            dataset: "x".to_owned(),
            source: from,
            destination: to,
        });
        let Some((data, stored)) = source else {
            self.others.files.insert(url(name), OtherFile::Missing);
            return;
        };
        for (to, from) in destination.iter().zip(origin) {
            for item in indices(&self.axes) {
                let from = row_major(&[&from[..], &item].concat(), &[&there[..], &self.axes].concat());
                let element = stored[usize::try_from(from).unwrap()].clone();
                self.elements.insert([&to[..], &item].concat(), element);
            }
        }
        self.insert(name, data);
    }

    fn insert(&mut self, name: &str, data: Dataset) {
        if !data.filters.is_empty() {
            self.compressed.push(url(name));
        }
        let source = Source { url: url(name), ..Source::default() };
        let read = OtherFile::Read(Box::new(file(vec![("x", data)])), source);
        self.others.files.insert(url(name), read);
    }

    /// Returns a source that is a virtual dataset itself, with its elements.
    fn nested(&mut self, random: &mut fastrand::Rng, name: &str, shape: &[u64]) -> (Dataset, Vec<Element>) {
        let to: Vec<Slab> = shape.iter().map(|extent| slab(random, *extent, 1)).collect();
        let inner: Vec<u64> = to.iter().map(|slab| slab.count.unwrap() * slab.block.unwrap()).collect();
        let inner_name = format!("inner_{name}");
        let to = Selection::Regular(to);
        let full = [shape, &self.axes].concat();
        let fill = vec![random.u8(0..2) * 9, 0, 0, 0];
        let mut data = dataset(datatype(&self.axes), shape);
        let count = usize::try_from(self.axes.iter().product::<u64>()).unwrap();
        data.fill.value = Stored::User(fill.repeat(count).into());
        let mut elements = vec![Element::Here(fill); usize::try_from(full.iter().product::<u64>()).unwrap()];
        match source(random, &inner_name, &inner, &self.axes, &[]) {
            None => drop(self.others.files.insert(url(&inner_name), OtherFile::Missing)),
            Some((source, stored)) => {
                self.insert(&inner_name, source);
                let mut stored = stored.into_iter();
                for index in selected(&to, shape) {
                    for item in indices(&self.axes) {
                        let at = row_major(&[&index[..], &item].concat(), &full);
                        elements[usize::try_from(at).unwrap()] = stored.next().unwrap();
                    }
                }
            }
        }
        data.layout = Layout::Virtual(vec![VirtualMapping {
            file: inner_name,
            dataset: "x".to_owned(),
            source: Selection::All,
            destination: to,
        }]);
        (data, elements)
    }

    /// Returns the shape of a source, a selection with as many elements along each axis as `to`, and a likely chunk shape. Axes
    /// of one element may be on one side alone.
    fn source_side(&self, random: &mut fastrand::Rng, to: &[Slab]) -> (Vec<u64>, Selection, Vec<u64>) {
        let lengths = to.iter().map(|slab| slab.count.unwrap() * slab.block.unwrap());
        if random.u8(0..3) == 0 {
            return (lengths.collect(), Selection::All, self.units.clone());
        }
        let keeps_axes = random.bool();
        let (mut there, mut from, mut units) = (Vec::new(), Vec::new(), Vec::new());
        for (length, unit) in lengths.zip(&self.units) {
            let first = usize::from(length == 1 && !keeps_axes && random.bool());
            let last = if keeps_axes { 1 } else { random.usize(1..3) };
            for length in [length, 1].into_iter().take(last).skip(first) {
                let (extent, slab) = slab_of(random, length, *unit);
                there.push(extent);
                from.push(slab);
                units.push(*unit);
            }
        }
        let from = if from.is_empty() { Selection::All } else { selection(random, from) };
        (there, from, units)
    }
}

/// Tries one virtual dataset; returns the numbers of its stored and of its made chunks.
fn try_one(seed: u64) -> (u64, u64) {
    let random = &mut fastrand::Rng::with_seed(seed);
    let Case { shape, axes, mappings, others, compressed, elements, .. } = Case::new(random);
    let mut data = dataset(datatype(&axes), &shape);
    let fill = [random.u8(0..2) * 9, 0, 0, 0];
    data.fill.value = Stored::User(fill.repeat(if axes.is_empty() { 1 } else { 2 }).into());
    data.layout = Layout::Virtual(mappings);
    let options = MapOptions { format: ZarrFormat::V3, ..MapOptions::default() };
    let budget = Budget::of_file(&Limits::default(), 0);
    let own = Source { url: url("v.h5"), ..Source::default() };
    let mapped = map_file_among(&file(vec![("v", data)]), own, &others, &options, &budget);
    let array = mapped.hierarchy.array("v").unwrap_or_else(|| panic!("{:?}", mapped.report.diagnostics));
    let shown = Shown { mapped: &mapped, array, compressed: &compressed };
    for index in indices(&array.shape) {
        let expected = elements.get(&index).cloned().unwrap_or(Element::Here(fill.to_vec()));
        assert_eq!(shown.element(&index), expected, "seed {seed}, element {index:?}");
    }
    (array.chunks.len(), mapped.tasks.iter().map(|task| task.positions.len() as u64).sum())
}

#[test]
fn elements_are_those_of_the_model() {
    let most = std::env::var("RANDOM_VIRTUAL").map_or(200, |text| text.parse().unwrap());
    let counts = (0..most).map(try_one);
    let (stored, made) = counts.fold((0, 0), |(a, b), (stored, made)| (a + stored, b + made));
    assert!(stored > 0 && made > 0, "{stored} chunks are referenced, {made} are made");
}
