//! Random hierarchies survive the journal unchanged.

use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use virtualize::{
    VirtualStore,
    zarr::{
        Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, DataType, Endian, Field, FillValue, Group,
        Hierarchy, Lengths, Node, References, Source, SourceId, ZarrFormat,
    },
};

use super::*;
use crate::file::ParsedNode;

/// Names of nodes: of arrays, of groups, with unusual characters.
const NAMES: [&str; 8] =
    ["time", "t2m", "a b", "Größe", "温度", "x.y", "\"quoted\"", "very long name of an array"];

fn types() -> Vec<DataType> {
    let field = |name: &str, data_type| Field {
        name: name.to_owned(),
        data_type,
        endian: Endian::Little,
        shape: Vec::new(),
    };
    vec![
        DataType::Bool,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Complex64,
        DataType::Complex128,
        DataType::RawBytes(5),
        DataType::FixedBytes(7),
        DataType::String,
        DataType::VariableBytes,
        DataType::Struct(vec![field("a", DataType::Int32), field("b", DataType::Float64)]),
    ]
}

fn attributes(rng: &mut Rng) -> Map<String, Value> {
    let value = |rng: &mut Rng| match rng.u8(..6) {
        0 => json!(rng.f64() * 1e300),
        1 => json!(rng.u64(..)),
        2 => json!(rng.i64(..)),
        3 => json!([1, 2.5, "x", null, { "deep": [true] }]),
        4 => json!(""),
        _ => json!("text\u{0} with \u{1F30D} and \"quotes\""),
    };
    (0..rng.usize(..4)).map(|n| (format!("attribute {n}"), value(rng))).collect()
}

/// Returns a grid, with the number of its cells.
fn grid(rng: &mut Rng, shape: &[u64], format: ZarrFormat) -> ChunkGrid {
    if format == ZarrFormat::V3 && rng.bool() {
        let edges = |size: &u64| {
            let first = rng.u64(1..=*size);
            [vec![first], vec![1; usize::try_from(size - first).unwrap()]].concat()
        };
        return ChunkGrid::Rectilinear(shape.iter().map(edges).collect());
    }
    ChunkGrid::Regular(shape.iter().map(|size| rng.u64(1..=*size)).collect())
}

fn bytes(rng: &mut Rng, most: usize) -> Bytes {
    (0..rng.usize(..most)).map(|_| rng.u8(..)).collect::<Vec<u8>>().into()
}

fn manifest(rng: &mut Rng, cells: u64, sources: usize) -> ChunkManifest {
    let mut columns: Vec<Vec<(u64, u64, u64)>> = vec![Vec::new(); sources];
    let mut manifest = ChunkManifest::default();
    let (constant, way) = (bytes(rng, 9), rng.u8(..4));
    for position in 0..cells {
        match (way, rng.u8(..10)) {
            (3, 0..5) | (2, 0) => {}
            (2, 1..3) => drop(manifest.inline.insert(position, constant.clone())),
            (2, 3) => drop(manifest.inline.insert(position, bytes(rng, 40))),
            _ => {
                let length = if way == 0 { 400 } else { u64::from(rng.u32(1..)) };
                let offset = if rng.bool() { rng.u64(..1 << 62) } else { position * 400 };
                columns[rng.usize(..sources)].push((position, offset, length));
            }
        }
    }
    for (source, column) in (0..).zip(columns).filter(|(_, column)| !column.is_empty()) {
        let positions: Vec<u64> = column.iter().map(|(position, ..)| *position).collect();
        let is_whole = positions.iter().copied().eq(0..positions.len() as u64);
        let lengths = match way {
            0 => Lengths::Uniform(400),
            _ => {
                let each = column.iter().map(|(.., length)| u32::try_from(*length).unwrap());
                Lengths::Each(each.collect::<Vec<_>>().into())
            }
        };
        manifest.references.push(References {
            source: SourceId(source),
            positions: (!is_whole || rng.bool()).then_some(positions.into()),
            offsets: column.iter().map(|(_, offset, _)| *offset).collect::<Vec<_>>().into(),
            lengths,
        });
    }
    // A chunk in the file that the inline one hides.
    let first = manifest.iter().map(|(position, _)| position).next();
    if let Some(position) = first.filter(|_| rng.bool()) {
        manifest.inline.insert(position, constant);
    }
    manifest
}

fn array(rng: &mut Rng, format: ZarrFormat, sources: usize) -> Array {
    let data_type = types().swap_remove(rng.usize(..types().len()));
    let shape: Vec<u64> = (0..rng.usize(..4)).map(|_| rng.u64(1..8)).collect();
    let chunk_grid = grid(rng, &shape, format);
    let cells = chunk_grid.counts(&shape).iter().product();
    let bytes = match data_type {
        DataType::String => Codec::VlenUtf8,
        DataType::VariableBytes => Codec::VlenBytes,
        _ => Codec::Bytes { endian: Some(Endian::Little) },
    };
    let fill = rng.bool() || format == ZarrFormat::V3;
    Array {
        fill_value: fill.then(|| FillValue::zero(&data_type)),
        data_type,
        codecs: if rng.bool() { vec![bytes, Codec::Zlib { level: 4 }] } else { vec![bytes] },
        dimension_names: shape.iter().map(|_| rng.bool().then(|| "time".to_owned())).collect(),
        attributes: attributes(rng),
        chunks: manifest(rng, cells, sources),
        chunk_grid,
        shape,
    }
}

fn group(rng: &mut Rng, format: ZarrFormat, sources: usize, depth: usize) -> Group {
    let mut group = Group { attributes: attributes(rng), ..Group::default() };
    for name in NAMES.iter().filter(|_| depth < 3) {
        let node = match rng.u8(..6) {
            0 => Node::Group(self::group(rng, format, sources, depth + 1)),
            1 | 2 => Node::Array(Box::new(array(rng, format, sources))),
            _ => continue,
        };
        group.children.insert((*name).to_owned(), node);
    }
    group
}

/// Returns a random hierarchy of the file `item`; mostly without other sources.
fn hierarchy(rng: &mut Rng, item: &Item) -> Hierarchy {
    let format = if rng.bool() { ZarrFormat::V2 } else { ZarrFormat::V3 };
    let others = if rng.bool() { 0 } else { rng.usize(..3) };
    let mut hierarchy = Hierarchy::new(format);
    let itself = Source {
        url: item.url.clone(),
        etag: item.etag.clone(),
        size: item.size.unwrap_or_default(),
        modified: item.modified,
    };
    let other = |n| Source { url: format!("s3://b/ä {n}"), size: u64::MAX, modified: Some(-1), etag: None };
    hierarchy.sources = std::iter::once(itself).chain((0..others).map(other)).collect();
    hierarchy.root = group(rng, format, others + 1, 0);
    hierarchy
}

/// Position and place of a chunk.
type Placed = (u64, Option<Bytes>, Option<(Source, u64, u64)>);

/// Returns position and place of each chunk.
fn chunks(array: &Array, sources: &[Arc<Source>]) -> Vec<Placed> {
    let place = |(position, entry): (u64, ChunkEntry<'_>)| match entry {
        ChunkEntry::Inline(bytes) => (position, Some(bytes.clone()), None),
        ChunkEntry::Reference(chunk) => {
            let source = sources[chunk.source.index()].as_ref().clone();
            (position, None, Some((source, chunk.offset, chunk.length)))
        }
    };
    array.chunks.iter().map(place).collect()
}

fn shared(sources: &[Source]) -> Vec<Arc<Source>> {
    sources.iter().cloned().map(Arc::new).collect()
}

/// Checks a member against the hierarchy that it was made from.
fn check(journal: &mut Journal, id: i64, expected: &Hierarchy, row: &FileRecord) {
    let (item, found) = record::member(&journal.connection, &mut journal.cache.borrow_mut(), id).unwrap();
    assert_eq!(found, *row);
    let documents = |hierarchy: &Hierarchy| {
        virtualize::metadata(&VirtualStore::of(hierarchy.clone(), "x".to_owned())).unwrap()
    };
    let hierarchy = found.hierarchy(&item.url).unwrap();
    assert_eq!(documents(&hierarchy), documents(expected));
    let number = u64::try_from(id).unwrap();
    let head = journal.head(number).unwrap();
    assert_eq!((&head.item, &head.values, &head.given), (&item, &row.values, &row.given));
    let (arrays, others) = (expected.arrays(), hierarchy.arrays());
    for ((path, array), (_, other)) in arrays.into_iter().zip(others) {
        let places = chunks(array, &shared(&expected.sources));
        assert_eq!(chunks(other, &shared(&hierarchy.sources)), places, "{path}");
        let found = journal.chunks(number, &path).unwrap();
        let of_journal = Array { chunks: found.chunks, ..array.clone() };
        assert_eq!(chunks(&of_journal, &found.sources), places, "{path}");
        let node = head.nodes.iter().find(|node| *node.path == *path).unwrap();
        assert_eq!(node.count, array.chunks.len());
        let parsed = Array { chunks: ChunkManifest::default(), ..other.clone() };
        assert_eq!(*node.node, ParsedNode::Array(Box::new(parsed)));
    }
    assert_eq!(journal.chunks(number, "no such array").unwrap().chunks, ChunkManifest::default());
}

#[test]
fn random_hierarchies_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut journal = Journal::open(&path).unwrap();
    let mut rng = Rng::with_seed(7);
    let items: Vec<Item> = (0..200).map(|n| item(&format!("file:///ä/{n}.nc"), "\"tag\"")).collect();
    list(&mut journal, &items);
    let mut all = BTreeMap::new();
    for item in &items {
        let whole = hierarchy(&mut rng, item);
        let store = VirtualStore::of(whole.clone(), item.url.clone());
        let (row, _) = FileRecord::pack(&store).unwrap();
        let paths = row.nodes.iter().skip(1).map(|node| node.path.clone());
        let values: BTreeMap<_, _> =
            paths.filter(|_| rng.bool()).map(|path| (path, Bytes::from_static(b"v"))).collect();
        let digests = values.keys().map(|path| (path.clone(), "d".repeat(64))).collect();
        let kind = format!("kind {}", rng.u8(..3));
        let given = if rng.bool() { [("t".to_owned(), json!(1.5))].into() } else { BTreeMap::new() };
        let (signature, extent) = (kind.clone().into(), format!("{{\"n\": {}}}", rng.u64(..)));
        // A file may have arrays of values only if they are arrays.
        let values = values.into_iter().filter(|(path, _)| whole.array(path).is_some()).collect();
        let row = FileRecord { storage: kind, signature, extent, values, digests, given, ..row };
        all.insert(item.url.clone(), (whole, row));
    }
    let journal = read_all(journal, |url| done(Record::Member(Box::new(all[url].1.clone()))));
    drop(journal);
    let mut journal = Journal::open(&path).unwrap();
    let planned = journal.rows_after(0).unwrap();
    assert_eq!(planned.len(), items.len());
    for Planned { id, extent, storage, .. } in planned {
        let (whole, row) = &all[&journal.url(id).unwrap()];
        assert_eq!(*storage, *row.storage);
        assert_eq!(extent, row.extent);
        assert_eq!(journal.signature(&row.storage).unwrap(), row.storage);
        check(&mut journal, id, whole, row);
    }
}

#[test]
fn a_hierarchy_that_does_not_round_trip_is_refused() {
    let mut rng = Rng::with_seed(1);
    let broken = |change: &dyn Fn(&mut Array)| {
        let mut whole = Hierarchy::new(ZarrFormat::V3);
        let mut array = array(&mut Rng::with_seed(3), ZarrFormat::V3, 1);
        change(&mut array);
        whole.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
        whole.sources = vec![Source { url: "file:///x".to_owned(), ..Source::default() }];
        FileRecord::pack(&VirtualStore::of(whole, "x".to_owned())).map(drop)
    };
    assert!(broken(&|_| {}).is_ok());
    let column = |source, offset| References {
        source: SourceId(source),
        positions: None,
        offsets: vec![offset].into(),
        lengths: Lengths::Uniform(1),
    };
    let outside = bytes(&mut rng, 9);
    let errors = [
        broken(&|array| array.chunks = ChunkManifest::of(column(1, 0))),
        broken(&|array| array.chunks = ChunkManifest::of(column(0, u64::MAX))),
        broken(&|array| array.chunks.inline = [(1 << 40, outside.clone())].into()),
        broken(&|array| array.shape.push(1)),
        broken(&|array| {
            let twice =
                ChunkManifest { references: vec![column(0, 1), column(0, 2)], ..ChunkManifest::default() };
            array.chunks = twice;
        }),
    ];
    for (n, error) in errors.into_iter().enumerate() {
        assert!(error.unwrap_err().to_string().contains("journal: "), "{n}");
    }
}
