//! Reading back what was committed, and errors for what cannot be read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use icechunk::{Repository, Store, new_local_filesystem_storage};
use tokio::sync::RwLock;
use virtualize_icechunk::{
    CommitOptions, IcechunkError, Native, OpenRepository, RepositoryLocation, commit, open_version,
};
use virtualize_store::StoreOptions;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, Lengths, Node,
    Reference, References, Source, SourceId, Version, ZarrFormat,
};

const LONG: u64 = (1 << 32) + 7;

fn column(source: u32, positions: &[u64], lengths: Lengths) -> References {
    References {
        source: SourceId(source),
        positions: Some(positions.to_vec().into()),
        offsets: positions.iter().map(|at| 100 * at).collect::<Vec<_>>().into(),
        lengths,
    }
}

/// A group with attributes and an array with chunks in two sources, one of them over 4 GiB, an inline chunk and missing
/// chunks.
fn hierarchy() -> Hierarchy {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    for (url, etag, modified) in [
        ("s3://bucket/a b.nc", Some("\"tag\"".to_owned()), None),
        ("s3://bucket/c%20d.nc", None, Some(1_700_000_000_000)),
    ] {
        hierarchy.sources.push(Source { url: url.to_owned(), etag, size: 1 << 40, modified });
    }
    let mut chunks = ChunkManifest::of(column(0, &[0, 2, 5], Lengths::Each(vec![7, 8, 9].into())));
    chunks.references.push(column(1, &[1], Lengths::Each(vec![3].into())));
    chunks.references.push(column(0, &[4], Lengths::Uniform(LONG)));
    chunks.inline.insert(6, Bytes::from_static(b"inline"));
    let array = Array {
        shape: vec![20, 35],
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![10, 10]),
        fill_value: Some(FillValue::zero(&DataType::UInt8)),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: vec![Some("y".to_owned()), None],
        attributes: serde_json::Map::from_iter([("units".to_owned(), "K".into())]),
        chunks,
    };
    let group = hierarchy.root.make_group("g").unwrap();
    group.attributes.insert("title".to_owned(), "a group".into());
    group.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    hierarchy
}

fn location(folder: &Path) -> RepositoryLocation {
    RepositoryLocation::parse(folder.to_str().unwrap()).unwrap()
}

async fn committed(folder: &Path) -> String {
    let options = CommitOptions::default();
    commit(&hierarchy(), &location(folder), &options).await.unwrap().snapshot
}

async fn opened(folder: &Path, version: &str) -> Result<Option<OpenRepository>, IcechunkError> {
    open_version(&location(folder), &Version::Any(version.to_owned()), &StoreOptions::default()).await
}

/// Returns the hierarchy of a version with the chunks of one array.
async fn read_back(repository: OpenRepository, path: &str, native: Native) -> Hierarchy {
    let all = repository.manifests_within(path, None);
    let table = repository.chunks(path, &all, native).await.unwrap();
    let mut hierarchy = repository.hierarchy;
    hierarchy.sources = table.sources;
    hierarchy.array_mut(path).unwrap().chunks = table.chunks;
    hierarchy
}

fn chunks(hierarchy: &Hierarchy, array: &Array) -> Vec<(u64, String, u64, u64)> {
    let one = |(position, entry): (u64, ChunkEntry<'_>)| match entry {
        ChunkEntry::Inline(bytes) => (position, format!("{bytes:?}"), 0, bytes.len() as u64),
        ChunkEntry::Reference(Reference { source, offset, length }) => {
            (position, hierarchy.source(source).unwrap().url.clone(), offset, length)
        }
    };
    array.chunks.iter().map(one).collect()
}

#[tokio::test]
async fn reads_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = committed(folder.path()).await;
    for version in ["main", &snapshot] {
        let repository = opened(folder.path(), version).await.unwrap().unwrap();
        assert!(repository.omitted.is_empty());
        assert_eq!(repository.snapshot(), snapshot);
        let found = read_back(repository, "g/a", Native::Reference).await;
        let expected = hierarchy();
        let (one, other) = (expected.array("g/a").unwrap(), found.array("g/a").unwrap());
        assert_eq!(chunks(&expected, one), chunks(&found, other));
        assert_eq!(
            (&one.shape, &one.data_type, &one.chunk_grid, &one.fill_value, &one.codecs),
            (&other.shape, &other.data_type, &other.chunk_grid, &other.fill_value, &other.codecs)
        );
        // Unnamed dimensions get a name when they are written.
        assert_eq!(other.dimension_names, [Some("y".to_owned()), Some("a_dim_1".to_owned())]);
        assert_eq!(one.attributes, other.attributes);
        assert_eq!(found.group("g").unwrap().attributes, expected.group("g").unwrap().attributes);
        for source in &expected.sources {
            let there = found.sources.iter().find(|there| there.url == source.url).unwrap();
            // No server answers, so that it is unknown whether readers can send the entity tag.
            assert_eq!((&there.etag, there.modified), (&None, source.modified), "{}", source.url);
        }
    }
}

#[tokio::test]
async fn missing_repositories_and_branches() {
    let folder = tempfile::tempdir().unwrap();
    assert!(opened(folder.path(), "main").await.unwrap().is_none());
    assert!(opened(&folder.path().join("nowhere"), "main").await.unwrap().is_none());
    committed(folder.path()).await;
    match opened(folder.path(), "another").await.err() {
        Some(IcechunkError::NoVersion { what: "branch", name, known }) => {
            assert_eq!((&*name, known), ("another", ["main".to_owned()].into()))
        }
        other => panic!("{other:?}"),
    }
}

/// Native chunks become inline chunks, or references to the objects of the repository. Arrays that are not supported are reported.
#[tokio::test]
async fn reads_what_other_writers_committed() {
    let folder = tempfile::tempdir().unwrap();
    committed(folder.path()).await;
    let storage = new_local_filesystem_storage(folder.path()).await.unwrap();
    let repository = Repository::open(storage).execute().await.unwrap();
    let session = Arc::new(RwLock::new(repository.writable_session("main").await.unwrap()));
    let store = Store::from_session(Arc::clone(&session)).await;
    let native = Bytes::from(vec![5_u8; 4096]);
    store.set("g/a/c/1/3", native.clone()).await.unwrap();
    let odd =
        br#"{"zarr_format":3,"node_type":"array","shape":[1],"data_type":"of another kind","fill_value":0,
        "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},"codecs":[{"name":"bytes"}],
        "chunk_key_encoding":{"name":"default"}}"#;
    let set = store.set("odd/zarr.json", Bytes::from_static(odd)).await;
    session.write().await.commit("others").execute().await.unwrap();
    let repository = opened(folder.path(), "main").await.unwrap().unwrap();
    if set.is_ok() {
        assert!(repository.omitted.contains_key("odd"), "{:?}", repository.omitted);
    }
    let read = read_back(repository, "g/a", Native::Inline).await;
    assert_eq!(read.array("g/a").unwrap().chunks.get(7), Some(ChunkEntry::Inline(&native)));
    let repository = opened(folder.path(), "main").await.unwrap().unwrap();
    let read = read_back(repository, "g/a", Native::Reference).await;
    let Some(ChunkEntry::Reference(place)) = read.array("g/a").unwrap().chunks.get(7) else { panic!() };
    let path = read.source(place.source).unwrap().url.strip_prefix("file://").unwrap();
    let start = usize::try_from(place.offset).unwrap();
    let stored = std::fs::read(path).unwrap();
    assert_eq!(stored[start..start + usize::try_from(place.length).unwrap()], native);
}

/// Each manifest of a table is read alone, and only those that can have a chunk.
#[tokio::test]
async fn reads_manifests_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let options = CommitOptions { references_per_manifest: 2, ..CommitOptions::default() };
    commit(&hierarchy(), &location(folder.path()), &options).await.unwrap();
    let repository = opened(folder.path(), "main").await.unwrap().unwrap();
    let all = repository.manifests_within("g/a", None);
    assert!(all.len() > 1, "{all:?}");
    let expected = hierarchy();
    let expected = &expected.array("g/a").unwrap().chunks;
    for position in 0..8 {
        let (row, column) = (position / 4, position % 4);
        let some = repository.manifests_within("g/a", Some(&[row..row + 1, column..column + 1]));
        assert!(some.len() <= 1, "{position}: {some:?}");
        let table = repository.chunks("g/a", &some, Native::Inline).await.unwrap();
        let place = |chunks: &ChunkManifest| match chunks.get(position) {
            Some(ChunkEntry::Reference(place)) => Some((place.offset, place.length)),
            Some(ChunkEntry::Inline(bytes)) => Some((u64::MAX, bytes.len() as u64)),
            None => None,
        };
        assert_eq!(place(&table.chunks), place(expected), "{position}");
    }
    let (mut together, mut count) = (0, 0);
    for number in all {
        together += repository.chunks("g/a", &[number], Native::Inline).await.unwrap().chunks.len();
        count += 1;
    }
    assert_eq!((together, count > 1), (expected.len(), true));
}
