//! The keys of random hierarchies against the set of all their keys.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;
use virtualize::{
    VirtualStore,
    keys::{self, ChunkEncoding},
    zarr::{
        Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Group, Hierarchy,
        Lengths, Node, References, Source, SourceId, ZarrFormat, chunk_indices, node::join,
    },
};

/// Names that look like parts of keys.
const NAMES: [&str; 8] = ["c", "0", "1", "a", "ab", "cc", "zarr", "ü"];

/// Builds a random group, and inserts its keys.
fn group(rng: &mut Rng, path: &str, depth: usize, all: &mut BTreeSet<String>) -> Group {
    all.insert(join(path, "zarr.json"));
    let mut children = BTreeMap::new();
    for _ in 0..rng.usize(0..4) {
        let name = NAMES[rng.usize(..NAMES.len())];
        if children.contains_key(name) {
            continue;
        }
        let path = join(path, name);
        let node = match depth > 0 && rng.bool() {
            true => Node::Group(group(rng, &path, depth - 1, all)),
            false => Node::Array(Box::new(array(rng, &path, all))),
        };
        children.insert(name.to_owned(), node);
    }
    Group { children, ..Group::default() }
}

/// Builds a random array, and inserts its keys.
fn array(rng: &mut Rng, path: &str, all: &mut BTreeSet<String>) -> Array {
    all.insert(join(path, "zarr.json"));
    let shape: Vec<u64> = (0..rng.usize(0..4)).map(|_| rng.u64(0..26)).collect();
    let chunk: Vec<u64> = shape.iter().map(|_| rng.u64(1..9)).collect();
    let chunk_grid = ChunkGrid::Regular(chunk);
    let counts = chunk_grid.counts(&shape);
    let (mut positions, mut inline) = ([Vec::new(), Vec::new()], BTreeMap::new());
    let is_dense = rng.bool();
    for position in 0..counts.iter().product() {
        match rng.u8(0..8) {
            _ if is_dense => positions[0].push(position),
            at @ 0..2 => positions[usize::from(at)].push(position),
            2 => _ = inline.insert(position, Bytes::from_static(b"x")),
            _ => continue,
        }
        let indices = chunk_indices(position, &counts).unwrap();
        let key = indices.iter().map(|index| format!("/{index}")).collect::<String>();
        all.insert(format!("{path}/c{key}"));
    }
    let column = |source: u32, positions: Vec<u64>| References {
        source: SourceId(source),
        offsets: positions.clone().into(),
        lengths: Lengths::Uniform(4),
        positions: (!is_dense).then_some(positions.into()),
    };
    let [one, other] = positions;
    Array {
        dimension_names: vec![None; shape.len()],
        shape,
        data_type: DataType::UInt16,
        chunk_grid,
        fill_value: Some(FillValue::zero(&DataType::UInt16)),
        codecs: vec![Codec::Bytes { endian: Some(Endian::Big) }, Codec::Zlib { level: 1 }],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest { references: vec![column(0, one), column(1, other)], inline },
    }
}

fn random(rng: &mut Rng) -> (VirtualStore, BTreeSet<String>) {
    let mut all = BTreeSet::new();
    let root = group(rng, "", 3, &mut all);
    let sources = vec![Source::default(); 2];
    (VirtualStore::of(Hierarchy { format: ZarrFormat::V3, root, sources }, "random"), all)
}

/// Returns a text that is a key, nearly a key, or part of one.
fn text(rng: &mut Rng, all: &BTreeSet<String>) -> String {
    let mut text = all.iter().nth(rng.usize(..all.len())).unwrap().clone();
    for _ in 0..rng.usize(0..3) {
        let mut places = text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
        places.push(text.len());
        let at = places[rng.usize(..places.len())];
        match rng.u8(0..4) {
            0 => text.truncate(at),
            1 => text.insert_str(at, ["/", "c", "0", "00", "/c", "c/", "+1", "99", "/0"][rng.usize(..9)]),
            2 => _ = (at < text.len()).then(|| text.remove(at)),
            _ => {}
        }
    }
    text
}

/// Calls a function that returns at most so many names after a given one until it returns none.
fn pages(rng: &mut Rng, mut page: impl FnMut(Option<&str>, usize) -> Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let most = rng.usize(1..9);
        let next = page(all.last().map(String::as_str), most);
        assert!(next.len() <= most);
        match next.is_empty() {
            true => return all,
            false => all.extend(next),
        }
    }
}

fn is_found(store: &VirtualStore, documents: &BTreeMap<String, Bytes>, key: &str) -> bool {
    documents.contains_key(key) || keys::chunk(&store.hierarchy, key).is_some()
}

#[test]
fn the_keys_listed_are_those_found() {
    for seed in 0..300 {
        let rng = &mut Rng::with_seed(seed);
        let (store, all) = random(rng);
        let documents = keys::documents(store.name(), &store.hierarchy, ChunkEncoding::Stored).unwrap();
        let listed = keys::list(&store.hierarchy, "", None, usize::MAX);
        assert_eq!(listed.len(), all.len(), "seed {seed}: no key twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), all, "seed {seed}");
        assert!(all.iter().all(|key| is_found(&store, &documents, key)), "seed {seed}");
        for _ in 0..200 {
            let text = text(rng, &all);
            assert_eq!(is_found(&store, &documents, &text), all.contains(&text), "seed {seed}: {text}");
        }
    }
}

#[test]
fn prefixes_and_folders_are_listed_in_pages() {
    for seed in 0..300 {
        let rng = &mut Rng::with_seed(seed);
        let (store, all) = random(rng);
        for _ in 0..40 {
            let text = text(rng, &all);
            let listed = pages(rng, |after, most| keys::list(&store.hierarchy, &text, after, most));
            let expected: BTreeSet<_> = all.iter().filter(|key| key.starts_with(&text)).cloned().collect();
            assert_eq!(listed.len(), expected.len(), "seed {seed}: {text}");
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected, "seed {seed}: {text}");

            let names = pages(rng, |after, most| keys::list_dir(&store.hierarchy, &text, after, most));
            let folder = text.trim_end_matches('/');
            let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let below = all.iter().filter_map(|key| key.strip_prefix(&folder)?.split('/').next());
            let expected: BTreeSet<_> = below.filter(|name| !name.is_empty()).map(str::to_owned).collect();
            assert_eq!(names.len(), expected.len(), "seed {seed}: {text}");
            assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected, "seed {seed}: {text}");
        }
    }
}

#[test]
fn chunks_have_the_position_of_their_key() {
    let mut seen = 0;
    for seed in 0..20 {
        let (store, all) = random(&mut Rng::with_seed(seed));
        for chunk in all.iter().filter_map(|key| keys::chunk(&store.hierarchy, key)) {
            let array = store.hierarchy.array(&chunk.path).unwrap();
            assert_eq!(array.chunks.get(chunk.position).as_ref(), Some(&chunk.entry));
            if let ChunkEntry::Reference(reference) = chunk.entry {
                assert_eq!(reference.offset, chunk.position);
            }
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn decoded_documents_differ_in_their_codecs_only() {
    for seed in 0..50 {
        let (store, _) = random(&mut Rng::with_seed(seed));
        let stored = keys::documents(store.name(), &store.hierarchy, ChunkEncoding::Stored).unwrap();
        let decoded = keys::documents(store.name(), &store.hierarchy, ChunkEncoding::Decoded).unwrap();
        assert!(stored.keys().eq(decoded.keys()));
        for (key, document) in stored.into_iter().filter(|(key, _)| key != "zarr.json") {
            let mut document: serde_json::Value = serde_json::from_slice(&document).unwrap();
            if let Some(codecs) = document.get_mut("codecs") {
                *codecs = serde_json::json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
            }
            assert_eq!(document.to_string(), String::from_utf8_lossy(&decoded[&key]));
        }
    }
}

#[test]
fn zarr_v2_has_other_keys() {
    let store = VirtualStore::of(Hierarchy::new(ZarrFormat::V2), "old");
    let error = keys::documents(store.name(), &store.hierarchy, ChunkEncoding::Stored).unwrap_err();
    assert!(error.to_string().contains("mapped for Zarr V2"), "{error}");
}
