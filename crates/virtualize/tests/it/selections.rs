//! Random selections of random arrays, against a model that computes every element from its index.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use serde_json::Map;
use virtualize::zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, Field, FillValue, Group, Hierarchy, Lengths,
    Node, References, Source, SourceId, TimeUnit, ZarrFormat, chunk_indices,
};
use virtualize::{
    ArrayReader, AxisSelection, ByteRange, ChunkAddress, ChunkPart, Selection, StoreOptions, VirtualStore,
    read_array,
};
use virtualize_bytes::{BoxFuture, ReadError, ReadErrorKind};
use virtualize_store::{FileVersion, ForeignStore};

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
    match random.below(11) {
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
        8 => DataType::FixedText(3),
        9 => DataType::DateTime(TimeUnit::new("ns", 1).unwrap()),
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
            positions: Some(column.iter().map(|(position, ..)| *position).collect::<Vec<_>>().into()),
            offsets: column.iter().map(|(_, offset, _)| *offset).collect::<Vec<_>>().into(),
            lengths: Lengths::Each(column.iter().map(|(.., length)| *length).collect::<Vec<_>>().into()),
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
        let store = store_of(&folder.0, model.array.clone(), &model.files);
        let reader = ArrayReader::new(Arc::clone(&store), StoreOptions::default());
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
        let read = futures::executor::block_on(read_array(&store, "a", &StoreOptions::default()));
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
    let part = |n: u64| match n % 5 {
        0 => ChunkPart::From(n % 3),
        1 => ChunkPart::Last(n % 7),
        2 => ChunkPart::Whole,
        _ => ChunkPart::Range(n % 3, n % 3 + n % 7),
    };
    let wanted: Vec<_> = addresses.iter().cloned().zip((0..).map(part)).collect();
    let stored = reader.stored_chunks(&wanted);
    for ((position, address), (decoded, stored)) in (0..).zip(&addresses).zip(decoded.into_iter().zip(stored))
    {
        let (decoded, stored) = (decoded.unwrap(), stored.unwrap());
        if array.chunks.get(position).is_none() {
            assert_eq!((decoded, stored), (None, None));
            continue;
        }
        let bytes = encoded(model, &address.indices);
        let wanted = part(position).range(bytes.len() as u64);
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

/// A store of files in memory, each of whose reads waits once. It refuses reads from `refused` on.
#[derive(Debug)]
struct Remote {
    files: Vec<Vec<u8>>,
    refused: u64,
}

impl ForeignStore for Remote {
    fn read<'a>(
        &'a self,
        url: &'a str,
        range: ByteRange,
        _if_match: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(FileVersion, Bytes), ReadError>> {
        Box::pin(async move {
            let mut waited = false;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            if range.end() > self.refused {
                return Err(ReadError::new(ReadErrorKind::Denied, "enough"));
            }
            let bytes = &self.files[url.trim_start_matches("far://").parse::<usize>().unwrap()];
            let size = bytes.len() as u64;
            let range = range.clamp_to(size);
            let bytes = Bytes::copy_from_slice(&bytes[range.start as usize..range.end() as usize]);
            Ok((FileVersion { size, etag: Some("1".to_owned()), modified: None }, bytes))
        })
    }
}

fn remote_reader(model: &Model, refused: u64) -> ArrayReader {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(model.array.clone())));
    let source = |n: usize| Source { url: format!("far://{n}"), ..Source::default() };
    hierarchy.sources = (0..model.files.len()).map(source).collect();
    let remote = Arc::new(Remote { files: model.files.clone(), refused });
    let options = StoreOptions { through: Some(remote), concurrency: 3, ..StoreOptions::default() };
    ArrayReader::new(Arc::new(VirtualStore::of(hierarchy, "memory")), options)
}

#[test]
fn remote_selections_are_those_of_the_model() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    for seed in 1..=60 {
        let random = &mut Random(seed * 0x9E37_79B9);
        let model = random_model(random, if seed.is_multiple_of(10) { 300 } else { 40 });
        let reader = remote_reader(&model, u64::MAX);
        let mut selections = vec![Selection::all(&model.array.shape)];
        selections.extend((0..5).map(|_| random_selection(random, &model.array.shape)));
        for selection in selections {
            let expected = selected(&selection).iter().flat_map(|at| model.read(at)).collect::<Vec<u8>>();
            let mut found = vec![0xAA; expected.len()];
            reader.read("a", &selection, &mut found).unwrap();
            assert!(found == expected, "seed {seed} {selection:?}");
        }
        chunks_are_those_of_the_model(&model, &reader, &format!("seed {seed}"));
    }
}

#[test]
fn failed_requests_end_a_read() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    let mut model = rows(vec![Codec::Bytes { endian: Some(Endian::Little) }]);
    model.files[0].splice(..0, vec![0; 3 << 20]);
    let ChunkManifest { references, .. } = &mut model.array.chunks;
    Arc::make_mut(&mut references[0].offsets).iter_mut().for_each(|offset| *offset += 3 << 20);
    let reader = remote_reader(&model, 3 << 20);
    let error = read(&reader, &Selection::all(&[100, 50])).unwrap_err();
    assert!(error.contains("enough"), "{error}");
}

/// Returns an array of 100 rows of 50 numbers in chunks of 10 rows, all in one file.
fn rows(codecs: Vec<Codec>) -> Model {
    let array = Array {
        shape: vec![100, 50],
        data_type: DataType::UInt32,
        chunk_grid: ChunkGrid::Regular(vec![10, 50]),
        fill_value: Some(FillValue::Fixed(vec![0; 4].into())),
        codecs,
        dimension_names: vec![None; 2],
        attributes: Map::new(),
        chunks: ChunkManifest::default(),
    };
    let mut model = Model { array, files: vec![Vec::new()], seed: 2 };
    let (mut offsets, mut lengths) = (Vec::new(), Vec::new());
    for position in 0..10 {
        let bytes = encoded(&model, &[position, 0]);
        offsets.push(model.files[0].len() as u64);
        lengths.push(bytes.len() as u32);
        model.files[0].extend(bytes);
    }
    let (offsets, lengths) = (offsets.into(), Lengths::Each(lengths.into()));
    model.array.chunks =
        ChunkManifest::of(References { source: SourceId(0), positions: None, offsets, lengths });
    model
}

fn zlib() -> Vec<Codec> {
    vec![
        Codec::Bytes { endian: Some(Endian::Little) },
        Codec::Shuffle { element_size: 4 },
        Codec::Zlib { level: 1 },
    ]
}

fn read(reader: &ArrayReader, selection: &Selection) -> Result<Vec<u8>, String> {
    let mut out = vec![0; selection.shape().iter().product::<u64>() as usize * 4];
    reader.read("a", selection, &mut out).map(|()| out).map_err(|error| error.to_string())
}

fn range(start: u64, step: u64, count: u64) -> AxisSelection {
    AxisSelection::Range { start, step, count }
}

#[test]
fn selections_that_do_not_fit_are_refused() {
    let folder = Folder::new("refused");
    let reader = reader(&folder.0, &rows(zlib()));
    let all = || range(0, 1, 50);
    for (selection, expected) in [
        (Selection::Axes(vec![all()]), "a selection along 1 axes, and the array has 2"),
        (
            Selection::Axes(vec![range(91, 1, 10), all()]),
            "index 100 is out of bounds for axis 0 with size 100",
        ),
        (Selection::Axes(vec![range(1, u64::MAX, 2), all()]), "is out of bounds for axis 0 with size 100"),
        (Selection::Axes(vec![range(0, 0, 2), all()]), "the step along axis 0 is 0, expected at least 1"),
        (
            Selection::Axes(vec![all(), AxisSelection::Indices(vec![0, 50])]),
            "index 50 is out of bounds for axis 1 with size 50",
        ),
        (Selection::Points(vec![vec![1], vec![1, 2]]), "lists of [1, 2] coordinates, expected equal numbers"),
    ] {
        let mut out = vec![0; 8];
        let error = reader.read("a", &selection, &mut out).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    let one = Selection::Points(vec![vec![1], vec![1]]);
    let error = reader.read("a", &one, &mut [0; 5]).unwrap_err().to_string();
    assert!(error.ends_with("a buffer of 5 bytes for a selection of 4 bytes"), "{error}");
    let error = reader.read("b", &one, &mut [0; 4]).unwrap_err().to_string();
    assert!(error.ends_with("/b: no such array"), "{error}");
    assert!(
        reader.read_variable("a", &one).unwrap_err().to_string().ends_with("its elements have a fixed size")
    );
}

#[test]
fn damaged_chunks_are_named() {
    let folder = Folder::new("damaged");
    let mut model = rows(zlib());
    let (_, third) = model.array.chunks.references[0].get(3).unwrap();
    model.files[0][third.offset as usize + 20..][..20].fill(0xFF);
    let reader = reader(&folder.0, &model);
    let error = read(&reader, &Selection::all(&[100, 50])).unwrap_err();
    assert!(error.contains("/a: chunk 3.0: zlib"), "{error}");
    // Others can be read.
    read(&reader, &Selection::Axes(vec![range(0, 1, 30), range(0, 1, 50)])).unwrap();
    let address = |n| ChunkAddress { path: "a".to_owned(), indices: vec![n, 0] };
    let chunks = reader.decoded_chunks(&[address(2), address(3), address(10), address(4)]);
    let errors: Vec<String> = chunks
        .into_iter()
        .map(|chunk| chunk.map_or_else(|error| error.to_string(), |_| String::new()))
        .collect();
    assert!(
        errors[0].is_empty() && errors[3].is_empty() && errors[1].contains("chunk 3.0: zlib"),
        "{errors:?}"
    );
    assert!(errors[2].ends_with("there is no chunk [10, 0] in a grid of [10, 1] chunks"), "{errors:?}");
}

#[test]
fn files_that_are_too_short_are_errors() {
    for codecs in [zlib(), vec![Codec::Bytes { endian: Some(Endian::Little) }]] {
        let folder = Folder::new("short");
        let mut model = rows(codecs);
        let length = model.files[0].len();
        model.files[0].truncate(length - 1);
        let reader = reader(&folder.0, &model);
        let error = read(&reader, &Selection::all(&[100, 50])).unwrap_err();
        assert!(error.contains("cannot be read: it ends before"), "{error}");
        read(&reader, &Selection::Axes(vec![range(0, 1, 90), range(0, 1, 50)])).unwrap();
    }
}

#[test]
fn files_that_changed_are_refused() {
    let folder = Folder::new("changed");
    let reader = reader(&folder.0, &rows(zlib()));
    let all = Selection::all(&[100, 50]);
    read(&reader, &all).unwrap();
    let path = folder.0.join("0.raw");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    let error = read(&reader, &all).unwrap_err();
    assert!(error.contains("0.raw") && error.contains("has changed"), "{error}");
}

#[test]
fn huge_chunks_of_few_bytes_cost_no_memory() {
    let folder = Folder::new("huge");
    let mut model = rows(zlib());
    model.array.shape = vec![1 << 40, 50];
    model.array.chunk_grid = ChunkGrid::Regular(vec![1 << 22, 50]);
    let reader = reader(&folder.0, &model);
    let one = Selection::Points(vec![vec![5], vec![5]]);
    let error = read(&reader, &one).unwrap_err();
    assert!(error.contains("chunk decodes to 2000 bytes, expected 838860800"), "{error}");
    let missing = Selection::Points(vec![vec![1 << 39], vec![5]]);
    assert_eq!(read(&reader, &missing).unwrap(), [0; 4]);
}

#[test]
fn chunks_without_a_decoder_are_left_to_a_function() {
    let folder = Folder::new("foreign");
    let mut model = rows(vec![Codec::Bytes { endian: Some(Endian::Little) }]);
    model.array.codecs = vec![Codec::Image { name: "imagecodecs_jpegxl", configuration: Map::new() }];
    let without = reader(&folder.0, &model);
    let all = Selection::all(&[100, 50]);
    let error = read(&without, &all).unwrap_err();
    assert!(error.contains("cannot be decoded here"), "{error}");
    let decoder = |bytes: &[u8], array: &Array, shape: &[u64]| {
        assert_eq!((array.shape.as_slice(), shape), (&[100, 50][..], &[10, 50][..]));
        Ok(bytes.iter().map(|byte| !byte).collect())
    };
    let with =
        ArrayReader::new(store_of(&folder.0, model.array.clone(), &model.files), StoreOptions::default());
    let with = with.with_decoder(Arc::new(decoder));
    let expected: Vec<u8> = model.files[0].iter().map(|byte| !byte).collect();
    assert_eq!(read(&with, &all).unwrap(), expected);
    let address = ChunkAddress { path: "a".to_owned(), indices: vec![9, 0] };
    assert_eq!(with.decoded_chunks(&[address])[0].as_ref().unwrap().as_ref().unwrap(), &expected[18_000..]);
    let refuses = |_: &[u8], _: &Array, _: &[u64]| Err("install imagecodecs".to_owned());
    let refused = reader(&folder.0, &model).with_decoder(Arc::new(refuses));
    assert!(read(&refused, &all).unwrap_err().contains("install imagecodecs"));
}

#[test]
fn many_threads_read_at_once() {
    let folder = Folder::new("threads");
    let model = rows(zlib());
    let reader = reader(&folder.0, &model);
    let all = Selection::all(&[100, 50]);
    let expected = read(&reader, &all).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| (0..10).for_each(|_| assert!(read(&reader, &all).unwrap() == expected)));
        }
    });
}

#[test]
fn strings_are_selected() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/types.h5");
    let options = virtualize::Options::default();
    let store = futures::executor::block_on(virtualize::open(&path.to_string_lossy(), &options)).unwrap();
    let reader = ArrayReader::new(Arc::new(store), options.store);
    // h5py 3.16: f["strings/vlen"].asstr()[()]
    let words = ["a", "", "größer"];
    for (selection, expected) in [
        (Selection::all(&[3]), vec![0, 1, 2]),
        (Selection::Axes(vec![range(0, 2, 2)]), vec![0, 2]),
        (Selection::Axes(vec![AxisSelection::Indices(vec![2, 0, 2])]), vec![2, 0, 2]),
        (Selection::Points(vec![vec![1, 2]]), vec![1, 2]),
        (Selection::Axes(vec![range(3, 1, 0)]), vec![]),
    ] {
        let found = reader.read_variable("strings/vlen", &selection).unwrap();
        let expected: Vec<&[u8]> = expected.into_iter().map(|at: usize| words[at].as_bytes()).collect();
        assert_eq!(found, expected);
    }
    let error = reader.read("strings/vlen", &Selection::all(&[3]), &mut [0; 3]).unwrap_err();
    assert!(error.to_string().ends_with("its elements have no fixed size"), "{error}");
}

/// Chunks that were recorded with two versions of a file: those of the other version are refused, whichever is read first.
#[test]
fn chunks_of_another_version_of_a_file_are_refused() {
    let folder = Folder::new("versions");
    let path = folder.0.join("0.raw");
    std::fs::write(&path, [1, 2, 3, 4]).unwrap();
    let url = format!("file://{}", path.display());
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.sources = [4, 5].map(|size| Source { url: url.clone(), size, ..Source::default() }).into();
    let column = |source: u32, position: u64| References {
        source: SourceId(source),
        positions: Some(vec![position].into()),
        offsets: vec![2 * position].into(),
        lengths: Lengths::Uniform(2),
    };
    let array = Array {
        shape: vec![4],
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![2]),
        fill_value: Some(FillValue::zero(&DataType::UInt8)),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: vec![None],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest { references: vec![column(0, 0), column(1, 1)], ..ChunkManifest::default() },
    };
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    let reader = ArrayReader::new(Arc::new(VirtualStore::of(hierarchy, "memory")), StoreOptions::default());
    let chunk = |start: u64| Selection::Axes(vec![AxisSelection::Range { start, step: 1, count: 2 }]);
    let mut out = [0; 2];
    for _ in 0..2 {
        reader.read("a", &chunk(0), &mut out).unwrap();
        assert_eq!(out, [1, 2]);
        let error = reader.read("a", &chunk(2), &mut out).unwrap_err().to_string();
        assert!(error.contains("has changed"), "{error}");
    }
}

/// Chunks of several arrays in one batch, with one shape and other types and codecs.
#[test]
fn each_chunk_of_a_batch_has_the_decoder_of_its_array() {
    let shuffled = |size: usize, values: &[u8]| {
        let count = values.len() / size;
        (0..values.len()).map(|at| values[(at % count) * size + at / count]).collect::<Vec<u8>>()
    };
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let mut expected = Vec::new();
    for (name, data_type, size) in
        [("a", DataType::UInt16, 2), ("b", DataType::UInt32, 4), ("c", DataType::UInt64, 8)]
    {
        let values: Vec<u8> = (0..u8::try_from(4 * size).unwrap()).collect();
        let array = Array {
            shape: vec![4],
            fill_value: Some(FillValue::zero(&data_type)),
            data_type,
            chunk_grid: ChunkGrid::Regular(vec![4]),
            codecs: vec![
                Codec::Bytes { endian: Some(Endian::Little) },
                Codec::Shuffle { element_size: u32::try_from(size).unwrap() },
            ],
            dimension_names: vec![None],
            attributes: Map::new(),
            chunks: ChunkManifest {
                inline: [(0, shuffled(size, &values).into())].into(),
                ..Default::default()
            },
        };
        hierarchy.root.children.insert(name.to_owned(), Node::Array(Box::new(array)));
        expected.push((name, values));
    }
    let reader = ArrayReader::new(Arc::new(VirtualStore::of(hierarchy, "memory")), StoreOptions::default());
    let addresses: Vec<ChunkAddress> = expected
        .iter()
        .chain(&expected)
        .map(|(name, _)| ChunkAddress { path: (*name).to_owned(), indices: vec![0] })
        .collect();
    for ((name, values), found) in expected.iter().chain(&expected).zip(reader.decoded_chunks(&addresses)) {
        assert_eq!(found.unwrap().unwrap().as_ref(), values.as_slice(), "{name}");
    }
}
