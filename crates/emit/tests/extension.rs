//! Extending an output gives the same files as writing it anew, and reads only what has changed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    io::{self, Cursor},
};

use bytes::Bytes;
use fastrand::Rng;
use virtualize_emit::{EmitError, Existing, Format, Sink, extend_files, write_files};
use virtualize_zarr::{
    Array, Chunk, ChunkGrid, ChunkManifest, ChunkReadError, ChunkReader, Chunks, Codec, DataType, FillValue,
    Group, Hierarchy, HierarchyChunks, Node, ReferencesBuilder, Source, SourceId, ZarrFormat,
};

/// Files in memory, and those of the output that is extended.
#[derive(Default)]
struct Files {
    earlier: BTreeMap<String, Vec<u8>>,
    files: BTreeMap<String, Vec<u8>>,
    kept: usize,
}

impl Sink for Files {
    fn create(&mut self, key: &str) -> io::Result<Box<dyn io::Write + Send + '_>> {
        assert!(!self.files.contains_key(key), "{key} twice");
        Ok(Box::new(self.files.entry(key.to_owned()).or_default()))
    }

    fn existing(&self) -> Vec<String> {
        self.earlier.keys().cloned().collect()
    }

    fn open(&mut self, key: &str) -> io::Result<Box<dyn Existing>> {
        Ok(Box::new(Cursor::new(self.earlier[key].clone())))
    }

    fn keep(&mut self, key: &str) -> io::Result<()> {
        self.kept += 1;
        assert!(self.files.insert(key.to_owned(), self.earlier[key].clone()).is_none(), "{key} twice");
        Ok(())
    }
}

/// Reader that fails if it is asked for chunks that have not changed.
struct Changed<'a> {
    all: HierarchyChunks<'a>,
    from: &'a BTreeMap<String, u64>,
}

impl ChunkReader for Changed<'_> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let from = self.from.get(path).copied().unwrap_or(u64::MAX);
        let first = self.all.chunks(path, start)?.next();
        if let Some(Ok((position, _))) = first
            && position < from
        {
            return Err(format!("{path} was read from {start} on, and has changed from {from} on").into());
        }
        self.all.chunks(path, start)
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        self.all.count(path)
    }
}

/// How the chunks of an array are stored.
#[derive(Clone, Copy)]
enum Kind {
    References,
    Inline,
    Mixed,
    Nothing,
}

type Content = BTreeMap<u64, Chunk>;

struct Grid {
    rows: u64,
    others: Vec<u64>,
    kind: Kind,
    content: Content,
}

fn chunk(kind: Kind, position: u64, random: &mut Rng) -> Option<Chunk> {
    let source =
        |random: &mut Rng| Source { url: format!("s3://b/{:02}.nc", random.u8(..20)), ..Source::default() };
    let is_inline = match kind {
        Kind::Nothing => return None,
        Kind::References => false,
        Kind::Inline => true,
        Kind::Mixed => random.bool(),
    };
    Some(match is_inline {
        true => Chunk::Inline(match random.u8(..4) {
            0 => Bytes::from_static(b"base64:x"),
            1 => Bytes::from_static(b"\"\n\\,\x00"),
            _ => Bytes::from(random.u64(..).to_le_bytes().to_vec()),
        }),
        false => Chunk::Reference {
            source: source(random).into(),
            offset: 1 + position * 7,
            length: u64::from(random.u16(1..)),
        },
    })
}

fn random_grid(random: &mut Rng) -> Grid {
    let rows = random.u64(0..60);
    let others: Vec<u64> = (0..random.usize(..3)).map(|_| random.u64(1..4)).collect();
    let kind = *random
        .choice([Kind::References, Kind::References, Kind::Inline, Kind::Mixed, Kind::Nothing].iter())
        .unwrap();
    let total = rows * others.iter().product::<u64>();
    let density = random.u8(1..=4);
    let mut grid = Grid { rows, others, kind, content: Content::new() };
    for position in 0..total {
        if random.u8(..4) < density {
            grid.content.extend(chunk(grid.kind, position, random).map(|chunk| (position, chunk)));
        }
    }
    grid
}

impl Grid {
    fn row(&self) -> u64 {
        self.others.iter().product()
    }

    /// Returns a later version, and the position of the first chunk that differs.
    fn later(&self, random: &mut Rng) -> (Self, Option<u64>) {
        let mut later = Self { content: self.content.clone(), others: self.others.clone(), ..*self };
        let before = self.rows * self.row();
        if random.u8(..4) == 0 {
            return (later, None);
        }
        later.rows = match random.u8(..6) {
            0 => random.u64(0..=self.rows),
            _ => self.rows + random.u64(..20),
        };
        if random.u8(..6) == 0 {
            later.kind = Kind::Mixed;
        }
        let total = later.rows * self.row();
        let start = match random.bool() {
            true => before.min(total),
            false => random.u64(0..=before.min(total)),
        };
        later.content.split_off(&start);
        for position in start..total {
            if random.u8(..3) > 0 {
                later.content.extend(chunk(later.kind, position, random).map(|chunk| (position, chunk)));
            }
        }
        (later, Some(start))
    }

    fn array(&self, sources: &mut Vec<Source>) -> Array {
        let mut columns: BTreeMap<usize, ReferencesBuilder> = BTreeMap::new();
        let mut chunks = ChunkManifest::default();
        for (position, chunk) in &self.content {
            match chunk {
                Chunk::Inline(bytes) => drop(chunks.inline.insert(*position, bytes.clone())),
                Chunk::Reference { source, offset, length } => {
                    let known = sources.iter().position(|known| known == &**source);
                    let index = known.unwrap_or_else(|| {
                        sources.push(Source::clone(source));
                        sources.len() - 1
                    });
                    columns.entry(index).or_default().push(*position, *offset, *length);
                }
            }
        }
        for (index, column) in columns {
            chunks.references.extend(column.finish(SourceId(u32::try_from(index).unwrap())));
        }
        let counts: Vec<u64> = [self.rows].into_iter().chain(self.others.iter().copied()).collect();
        Array {
            shape: counts.iter().map(|count| count * 2).collect(),
            data_type: DataType::UInt8,
            chunk_grid: ChunkGrid::Regular(vec![2; counts.len()]),
            fill_value: Some(FillValue::zero(&DataType::UInt8)),
            codecs: vec![Codec::Bytes { endian: None }],
            dimension_names: vec![None; counts.len()],
            attributes: serde_json::Map::new(),
            chunks,
        }
    }
}

fn hierarchy(format: ZarrFormat, grids: &BTreeMap<String, Grid>, title: &str) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(format);
    hierarchy.root.attributes.insert("title".to_owned(), title.into());
    let mut sources = Vec::new();
    for (path, grid) in grids {
        let array = Node::Array(Box::new(grid.array(&mut sources)));
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        let group: &mut Group = hierarchy.root.make_group(group).unwrap();
        group.children.insert(name.to_owned(), array);
    }
    hierarchy.sources = sources;
    hierarchy
}

fn write(hierarchy: &Hierarchy, format: Format) -> BTreeMap<String, Vec<u8>> {
    let mut files = Files::default();
    write_files(hierarchy, format, &mut files).unwrap();
    files.files
}

/// Returns later versions of arrays, and the position of the first chunk that differs.
fn later_grids(
    earlier: &BTreeMap<String, Grid>,
    random: &mut Rng,
) -> (BTreeMap<String, Grid>, BTreeMap<String, u64>) {
    let (mut later, mut changed) = (BTreeMap::new(), BTreeMap::new());
    for (name, grid) in earlier {
        let (grid, start) = grid.later(random);
        changed.extend(start.map(|start| (name.clone(), start)));
        later.insert(name.clone(), grid);
    }
    if random.u8(..4) == 0 {
        later.insert("new".to_owned(), random_grid(random));
        changed.insert("new".to_owned(), 0);
    }
    if random.u8(..8) == 0 {
        later.remove("b");
        changed.remove("b");
    }
    (later, changed)
}

#[test]
fn extended_outputs_equal_complete_ones() {
    let rounds = std::env::var("EXTENSIONS").map_or(60, |rounds| rounds.parse().unwrap());
    let mut kept = 0;
    for seed in 0..rounds {
        let random = &mut Rng::with_seed(seed);
        let format = match random.bool() {
            true => Format::ZARR3,
            false => Format::KERCHUNK_PARQUET.with_record_size(random.u32(1..20).try_into().unwrap()),
        };
        let names = ["a", "b", "c", "g/a", "g/c/c", "h \"ü/x\"y"];
        let mut earlier: BTreeMap<String, Grid> = BTreeMap::new();
        for name in names.iter().take(random.usize(1..=names.len())) {
            earlier.insert((*name).to_owned(), random_grid(random));
        }
        if random.u8(..8) == 0 {
            earlier.remove("a");
        }
        let (later, changed) = later_grids(&earlier, random);
        let before = hierarchy(format.zarr_format(), &earlier, "before");
        let after =
            hierarchy(format.zarr_format(), &later, random.choice(["before", "after"].iter()).unwrap());
        let mut files = Files { earlier: write(&before, format), ..Files::default() };
        // The files of an array that has no references any more are missing.
        let is_virtual =
            |grid: &Grid| grid.content.values().any(|chunk| matches!(chunk, Chunk::Reference { .. }));
        let mut from = changed.clone();
        for (name, grid) in &later {
            if format == Format::ZARR3 && earlier.get(name).is_some_and(is_virtual) && !is_virtual(grid) {
                from.insert(name.clone(), 0);
            }
        }
        let mut reader = Changed { all: HierarchyChunks::new(&after), from: &from };
        extend_files(&after, &mut reader, &changed, format, &mut files)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let expected = write(&after, format);
        let missing: Vec<_> = expected.keys().filter(|key| !files.files.contains_key(*key)).collect();
        let more: Vec<_> = files.files.keys().filter(|key| !expected.contains_key(*key)).collect();
        assert!(missing.is_empty() && more.is_empty(), "seed {seed}: without {missing:?}, with {more:?}");
        for (key, bytes) in &expected {
            assert_eq!(files.files[key], *bytes, "seed {seed}: {key}");
        }
        kept += files.kept;
    }
    assert!(kept > usize::try_from(rounds).unwrap(), "only {kept} files were kept");
}

#[test]
fn damaged_outputs_are_not_extended() {
    for format in [Format::ZARR3, Format::KERCHUNK_PARQUET.with_record_size(7.try_into().unwrap())] {
        for seed in 0..200 {
            let random = &mut Rng::with_seed(seed);
            let grids = [("a".to_owned(), random_grid(random))].into();
            let before = hierarchy(format.zarr_format(), &grids, "before");
            let mut earlier = write(&before, format);
            let key = earlier.keys().nth(random.usize(..earlier.len())).unwrap().clone();
            let bytes = earlier.get_mut(&key).unwrap();
            match (random.bool(), bytes.len()) {
                (true, length @ 1..) => bytes[random.usize(..length)] ^= 1 << random.u8(..8),
                (_, length) => bytes.truncate(random.usize(..=length)),
            }
            let changed = [("a".to_owned(), random.u64(..40))].into();
            let mut files = Files { earlier, ..Files::default() };
            let done =
                extend_files(&before, &mut HierarchyChunks::new(&before), &changed, format, &mut files);
            if let Err(error) = done {
                assert!(
                    matches!(error, EmitError::Existing { .. } | EmitError::Io(_)),
                    "seed {seed}: {error}"
                );
            }
        }
    }
}
