//! Random selections of random arrays, against a model that computes every element from its index.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Map;
use virtualize::zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, Field, FillValue, Group, Hierarchy, Lengths,
    Node, References, Source, SourceId, ZarrFormat, chunk_indices,
};
use virtualize::{
    ArrayReader, AxisSelection, ByteRange, ChunkAddress, Selection, StoreOptions, VirtualStore, read_array,
};

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// An array whose elements are computed.
struct Model {
    array: Array,
    /// Bytes of the files of its chunks.
    files: Vec<Vec<u8>>,
    seed: u64,
}

const FILL: u64 = 0x0102_0304_0506_0708;

impl Model {
    fn size(&self) -> usize {
        self.array.data_type.size().unwrap() as usize
    }

    /// Returns a stored element, little-endian.
    fn element(&self, index: u64) -> Vec<u8> {
        let noise = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(self.seed as u32 % 64);
        let smooth = index / 3;
        let number = if self.seed.is_multiple_of(2) { noise } else { smooth };
        number.to_le_bytes().repeat(2)[..self.size()].to_vec()
    }

    fn fill(&self) -> Vec<u8> {
        FILL.to_le_bytes().repeat(2)[..self.size()].to_vec()
    }

    /// Returns the element at a place of the array, as it is read.
    fn read(&self, at: &[u64]) -> Vec<u8> {
        let (position, _) = self.chunk_of(at);
        match self.array.chunks.get(position) {
            None => self.fill(),
            Some(_) => self.element(linear(at, &self.array.shape)),
        }
    }

    /// Returns the position of the chunk of an element, and the start of the chunk.
    fn chunk_of(&self, at: &[u64]) -> (u64, Vec<u64>) {
        let counts = self.array.chunk_grid.counts(&self.array.shape);
        let (mut indices, mut starts) = (Vec::new(), Vec::new());
        for (axis, at) in at.iter().enumerate() {
            let sizes = sizes(&self.array, axis);
            let (mut index, mut start) = (0, 0);
            while start + sizes(index) <= *at {
                start += sizes(index);
                index += 1;
            }
            indices.push(index);
            starts.push(start);
        }
        (linear(&indices, &counts), starts)
    }
}

/// Returns the lengths of chunks along an axis.
fn sizes(array: &Array, axis: usize) -> impl Fn(u64) -> u64 {
    let (regular, edges) = match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => (chunk[axis], Vec::new()),
        ChunkGrid::Rectilinear(edges) => (0, edges[axis].clone()),
    };
    move |index| if edges.is_empty() { regular } else { edges[index as usize] }
}

fn linear(at: &[u64], shape: &[u64]) -> u64 {
    at.iter().zip(shape).fold(0, |all, (at, size)| all * size + at)
}

/// Calls a function for each index of a shape, in row-major order.
fn each(shape: &[u64], mut visit: impl FnMut(&[u64])) {
    let count = shape.iter().product::<u64>();
    (0..count).for_each(|n| visit(&chunk_indices(n, shape).unwrap()));
}

fn random_type(random: &mut Random) -> DataType {
    let field =
        |name: &str, data_type, endian| Field { name: name.to_owned(), data_type, endian, shape: vec![] };
    match random.below(9) {
        0 => DataType::UInt8,
        1 => DataType::Int16,
        2 => DataType::Float32,
        3 => DataType::Float64,
        4 => DataType::Complex128,
        5 => DataType::RawBytes(3),
        6 => DataType::FixedBytes(16),
        7 => DataType::Struct(vec![
            field("a", DataType::UInt16, Endian::Big),
            field("b", DataType::UInt32, Endian::Little),
        ]),
        _ => DataType::UInt32,
    }
}

/// Splits a length into random parts.
fn edges(random: &mut Random, mut length: u64) -> Vec<u64> {
    let mut edges = Vec::new();
    while length > 0 {
        let part = 1 + random.below(length);
        edges.push(part);
        length -= part;
    }
    edges
}

fn random_codecs(random: &mut Random, data_type: &DataType, rank: usize) -> Vec<Codec> {
    let mut codecs = Vec::new();
    if random.one_in(3) {
        let mut order: Vec<usize> = (0..rank).collect();
        (1..rank).for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize));
        codecs.push(Codec::Transpose { order });
    }
    let endian = if random.one_in(2) { Endian::Big } else { Endian::Little };
    codecs.push(Codec::Bytes { endian: Some(endian) });
    if random.one_in(3) {
        codecs.push(Codec::Shuffle { element_size: data_type.size().unwrap() as u32 });
    }
    match random.below(6) {
        0 => codecs.push(Codec::Zlib { level: 1 }),
        1 => codecs.push(Codec::Gzip { level: 1 }),
        2 => codecs.push(Codec::Zstd { level: 1, checksum: false }),
        3 => codecs.push(Codec::Hdf5Lz4),
        _ => {}
    }
    if random.one_in(3) {
        codecs.push(Codec::Fletcher32);
    }
    codecs
}

fn random_model(random: &mut Random, most: u64) -> Model {
    let rank = random.below(5) as usize;
    let along = if rank <= 2 { most } else { 12 };
    let shape: Vec<u64> =
        (0..rank).map(|_| if random.one_in(40) { 0 } else { 1 + random.below(along) }).collect();
    let chunk_grid = match random.one_in(3) {
        true => ChunkGrid::Rectilinear(shape.iter().map(|size| edges(random, *size)).collect()),
        false => ChunkGrid::Regular(shape.iter().map(|size| 1 + random.below(size + 2)).collect()),
    };
    let data_type = random_type(random);
    let codecs = random_codecs(random, &data_type, rank);
    let mut array = Array {
        chunk_grid,
        codecs,
        fill_value: None,
        dimension_names: vec![None; rank],
        attributes: Map::new(),
        chunks: ChunkManifest::default(),
        data_type,
        shape,
    };
    let size = array.data_type.size().unwrap() as usize;
    let fill = FILL.to_le_bytes().repeat(2)[..size].to_vec();
    array.fill_value = Some(FillValue::Fixed(fill.into()));
    let mut model = Model { array, files: vec![Vec::new(), Vec::new()], seed: random.below(100) };
    store_chunks(&mut model, random);
    model
}

/// Stores chunks in two files, inline, or not at all.
fn store_chunks(model: &mut Model, random: &mut Random) {
    let mut columns = [Vec::new(), Vec::new()];
    let counts = model.array.chunk_grid.counts(&model.array.shape);
    for position in 0..counts.iter().product::<u64>() {
        let bytes = encoded(model, &chunk_indices(position, &counts).unwrap());
        match random.below(10) {
            0 => {}
            1 => drop(model.array.chunks.inline.insert(position, bytes.into())),
            n => {
                let source = usize::from(n == 2);
                let file = &mut model.files[source];
                file.extend(vec![0xEE; random.below(20) as usize]);
                columns[source].push((position, file.len() as u64, bytes.len() as u32));
                file.extend(bytes);
            }
        }
    }
    for (source, column) in columns.into_iter().enumerate().filter(|(_, column)| !column.is_empty()) {
        model.array.chunks.references.push(References {
            source: SourceId(source as u32),
            positions: Some(column.iter().map(|(position, ..)| *position).collect()),
            offsets: column.iter().map(|(_, offset, _)| *offset).collect(),
            lengths: Lengths::Each(column.iter().map(|(.., length)| *length).collect()),
        });
    }
}

/// Returns the stored bytes of a chunk.
fn encoded(model: &Model, indices: &[u64]) -> Vec<u8> {
    let array = &model.array;
    let starts: Vec<u64> =
        indices.iter().enumerate().map(|(axis, at)| (0..*at).map(sizes(array, axis)).sum()).collect();
    let shape: Vec<u64> = indices.iter().enumerate().map(|(axis, at)| sizes(array, axis)(*at)).collect();
    let order = array.codecs.iter().find_map(|codec| match codec {
        Codec::Transpose { order } => Some(order.clone()),
        _ => None,
    });
    let order = order.unwrap_or_else(|| (0..shape.len()).collect());
    let stored_shape: Vec<u64> = order.iter().map(|axis| shape[*axis]).collect();
    let mut elements = Vec::new();
    each(&stored_shape, |stored| {
        let mut at = starts.clone();
        stored.iter().zip(&order).for_each(|(step, axis)| at[*axis] += step);
        let is_inside = at.iter().zip(&array.shape).all(|(at, size)| at < size);
        let element =
            if is_inside { model.element(linear(&at, &array.shape)) } else { vec![0xDD; model.size()] };
        elements.extend(as_stored(array, element));
    });
    virtualize_codec::encode(&array.codecs, &elements).unwrap()
}

/// Returns a little-endian element in the byte order of the array.
fn as_stored(array: &Array, mut element: Vec<u8>) -> Vec<u8> {
    match &array.data_type {
        DataType::Struct(_) => element[..2].reverse(),
        number if array.endian() == Endian::Big => {
            element.chunks_mut(number.number_size() as usize).for_each(<[u8]>::reverse);
        }
        _ => {}
    }
    element
}

fn random_axis(random: &mut Random, size: u64) -> AxisSelection {
    if size == 0 || random.one_in(12) {
        return AxisSelection::Range { start: random.below(size + 1), step: 1, count: 0 };
    }
    match random.below(5) {
        0 => AxisSelection::Indices((0..random.below(2 * size)).map(|_| random.below(size)).collect()),
        1 => AxisSelection::Range { start: 0, step: 1, count: size },
        2 => AxisSelection::Range { start: random.below(size), step: 1 + random.below(size), count: 1 },
        n => {
            let start = random.below(size);
            let step = if n == 3 { 1 } else { 1 + random.below(size) };
            AxisSelection::Range { start, step, count: 1 + random.below((size - start - 1) / step + 1) }
        }
    }
}

fn random_selection(random: &mut Random, shape: &[u64]) -> Selection {
    if random.one_in(4) && !shape.contains(&0) {
        let count = random.below(50);
        return Selection::Points(
            shape.iter().map(|size| (0..count).map(|_| random.below(*size)).collect()).collect(),
        );
    }
    Selection::Axes(shape.iter().map(|size| random_axis(random, *size)).collect())
}

/// Returns the place in the array of each selected element.
fn selected(selection: &Selection) -> Vec<Vec<u64>> {
    let mut places = Vec::new();
    each(&selection.shape(), |at| {
        places.push(match selection {
            Selection::Points(lists) => lists.iter().map(|list| list[at[0] as usize]).collect(),
            Selection::Axes(axes) => {
                let index = |(axis, at): (&AxisSelection, &u64)| match axis {
                    AxisSelection::Range { start, step, .. } => start + step * at,
                    AxisSelection::Indices(indices) => indices[*at as usize],
                };
                axes.iter().zip(at).map(index).collect()
            }
        });
    });
    places
}

/// A folder for files of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("virtualize-selections-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder.canonicalize().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn store_of(folder: &Path, array: Array, files: &[Vec<u8>]) -> Arc<VirtualStore> {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.root = Group::default();
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    for (n, bytes) in files.iter().enumerate() {
        let path = folder.join(format!("{n}.raw"));
        std::fs::write(&path, bytes).unwrap();
        let url = format!("file://{}", path.display());
        hierarchy.sources.push(Source { url, size: bytes.len() as u64, ..Source::default() });
    }
    Arc::new(VirtualStore::of(hierarchy, "memory"))
}

fn reader(folder: &Path, model: &Model) -> ArrayReader {
    ArrayReader::new(store_of(folder, model.array.clone(), &model.files), StoreOptions::default())
}

#[test]
fn random_selections_are_those_of_the_model() {
    let rounds = std::env::var("SELECTIONS").map_or(300, |rounds| rounds.parse().unwrap());
    let folder = Folder::new("random");
    for seed in 1..=rounds {
        let random = &mut Random(seed * 0x9E37_79B9);
        let most = if seed % 20 == 0 { 300 } else { 40 };
        let model = random_model(random, most);
        let reader = reader(&folder.0, &model);
        let what = format!(
            "seed {seed}: {:?} {:?} {:?}",
            model.array.shape, model.array.chunk_grid, model.array.codecs
        );
        let mut selections = vec![Selection::all(&model.array.shape)];
        selections.extend((0..8).map(|_| random_selection(random, &model.array.shape)));
        for selection in selections {
            let expected = selected(&selection).iter().flat_map(|at| model.read(at)).collect::<Vec<u8>>();
            let mut found = vec![0xAA; expected.len()];
            reader
                .read("a", &selection, &mut found)
                .unwrap_or_else(|error| panic!("{what} {selection:?}: {error}"));
            assert!(found == expected, "{what} {selection:?}");
        }
        let whole = selected(&Selection::all(&model.array.shape));
        let expected = whole.iter().flat_map(|at| model.read(at)).collect::<Vec<u8>>();
        let read = futures::executor::block_on(read_array(reader.store(), "a", &StoreOptions::default()));
        assert!(read.unwrap().bytes == expected, "{what}");
        chunks_are_those_of_the_model(&model, &reader, &what);
    }
}

fn chunks_are_those_of_the_model(model: &Model, reader: &ArrayReader, what: &str) {
    let array = &model.array;
    let counts = array.chunk_grid.counts(&array.shape);
    let mut addresses = Vec::new();
    each(&counts, |indices| addresses.push(ChunkAddress { path: "a".to_owned(), indices: indices.to_vec() }));
    let decoded = reader.decoded_chunks(&addresses);
    let range = |n: u64| ByteRange::new(n % 3, if n.is_multiple_of(5) { u64::MAX } else { n % 7 });
    let wanted: Vec<_> = addresses.iter().cloned().zip((0..).map(range)).collect();
    let stored = reader.stored_chunks(&wanted);
    for ((position, address), (decoded, stored)) in (0..).zip(&addresses).zip(decoded.into_iter().zip(stored))
    {
        let (decoded, stored) = (decoded.unwrap(), stored.unwrap());
        if array.chunks.get(position).is_none() {
            assert_eq!((decoded, stored), (None, None));
            continue;
        }
        let bytes = encoded(model, &address.indices);
        let wanted = range(position).clamp_to(bytes.len() as u64);
        assert_eq!(
            stored.unwrap(),
            bytes[wanted.start as usize..wanted.end() as usize],
            "{what} {address:?}"
        );
        let axis = |(axis, at): (usize, &u64)| sizes(array, axis)(*at);
        let shape: Vec<u64> = address.indices.iter().enumerate().map(axis).collect();
        let starts: Vec<u64> = (address.indices.iter().enumerate())
            .map(|(axis, at)| (0..*at).map(sizes(array, axis)).sum())
            .collect();
        let decoded = decoded.unwrap();
        let mut elements = decoded.chunks(model.size());
        each(&shape, |at| {
            let at: Vec<u64> = at.iter().zip(&starts).map(|(at, start)| at + start).collect();
            let element = elements.next().unwrap();
            if at.iter().zip(&array.shape).all(|(at, size)| at < size) {
                assert_eq!(element, model.element(linear(&at, &array.shape)), "{what} {address:?} {at:?}");
            }
        });
        assert!(elements.next().is_none());
    }
}
