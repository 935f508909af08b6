//! Commits in parts: what readers see afterwards, and what a failed commit leaves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use bytes::Bytes;
use futures::TryStreamExt;
use icechunk::{
    Repository,
    format::{ChunkIndices, manifest::ChunkPayload},
    new_local_filesystem_storage,
    repository::VersionInfo,
};
use virtualize_icechunk::{CommitOptions, IcechunkError, Mode, RepositoryLocation, commit};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, Lengths, Node, References,
    Source, SourceId, ZarrFormat,
};

fn array(positions: Vec<u64>, counts: [u64; 2]) -> Array {
    let references = References {
        source: SourceId(0),
        offsets: positions.iter().map(|at| 100 * at).collect::<Vec<_>>().into(),
        positions: Some(positions.into()),
        lengths: Lengths::Uniform(7),
    };
    let mut chunks = ChunkManifest::of(references);
    chunks.inline.insert(1, Bytes::from_static(b"inline"));
    Array {
        shape: counts.map(|count| 10 * count).into(),
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![10, 10]),
        fill_value: Some(FillValue::zero(&DataType::UInt8)),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
        attributes: serde_json::Map::new(),
        chunks,
    }
}

fn hierarchy() -> Hierarchy {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let url = "s3://bucket/a b.nc".to_owned();
    hierarchy.sources.push(Source { url, etag: Some("\"tag\"".to_owned()), size: 1 << 30, modified: None });
    for (name, positions) in [("a", (0..30_000).collect()), ("b", vec![0, 7, 29_999])] {
        let array = Node::Array(Box::new(array(positions, [300, 100])));
        hierarchy.root.children.insert(name.to_owned(), array);
    }
    hierarchy
}

async fn repository(folder: &Path) -> Repository {
    let storage = new_local_filesystem_storage(folder).await.unwrap();
    Repository::open(storage).execute().await.unwrap()
}

/// Returns every chunk of an array as (first index, second index, url, offset).
async fn chunks(folder: &Path, path: &str) -> Vec<(u32, u32, String, u64)> {
    let repository = repository(folder).await;
    let session = repository.readonly_session(&VersionInfo::BranchTipRef("main".to_owned())).await.unwrap();
    let path = icechunk::format::Path::new(path).unwrap();
    let all: Vec<_> = session.array_chunk_iterator(&path).await.try_collect().await.unwrap();
    let mut found: Vec<_> = all
        .into_iter()
        .map(|chunk| {
            let ChunkIndices(indices) = chunk.coord;
            let [y, x] = indices.as_slice() else { panic!("{indices:?}") };
            match chunk.payload {
                ChunkPayload::Virtual(part) => {
                    assert_eq!(part.length, 7);
                    (*y, *x, part.location.url().to_owned(), part.offset)
                }
                ChunkPayload::Inline(bytes) => (*y, *x, String::from_utf8(bytes.to_vec()).unwrap(), 0),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn parts_become_visible_together() {
    let folder = tempfile::tempdir().unwrap();
    let location = RepositoryLocation::Local(folder.path().to_owned());
    let options = CommitOptions {
        message: "all".to_owned(),
        chunks_in_memory: 10_000,
        references_per_manifest: 4_000,
        ..CommitOptions::default()
    };
    let done = commit(&hierarchy(), &location, &options).await.unwrap();
    assert_eq!(done.chunks, 30_000 + 4);

    let a = chunks(folder.path(), "/a").await;
    assert_eq!(a.len(), 30_000);
    let url = "s3://bucket/a%20b.nc";
    for (at, (y, x, found, offset)) in (0_u64..).zip(&a) {
        assert_eq!(u64::from(*y) * 100 + u64::from(*x), at);
        match at {
            1 => assert_eq!(found, "inline"),
            _ => assert_eq!((found.as_str(), *offset), (url, 100 * at)),
        }
    }
    let b = chunks(folder.path(), "/b").await;
    assert_eq!(b.iter().map(|(y, x, ..)| (*y, *x)).collect::<Vec<_>>(), [(0, 0), (0, 1), (0, 7), (299, 99)]);

    let repository = repository(folder.path()).await;
    assert_eq!(repository.list_branches().await.unwrap().into_iter().collect::<Vec<_>>(), ["main"]);
    let log: Vec<_> = repository
        .ancestry(&VersionInfo::BranchTipRef("main".to_owned()))
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    let messages: Vec<_> = log.iter().map(|snapshot| snapshot.message.as_str()).collect();
    assert_eq!(messages.first(), Some(&"all"));
    assert_eq!(messages.get(1), Some(&"all (part 3)"));
    let manifests = repository.lookup_manifest_files(&log.first().unwrap().id).await.unwrap().count();
    assert!(manifests >= 8, "{manifests} manifests for 30,000 references, at most 4,000 each");
}

#[tokio::test]
async fn failed_commits_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let location = RepositoryLocation::Local(folder.path().to_owned());
    let options = CommitOptions { chunks_in_memory: 10_000, ..CommitOptions::default() };
    commit(&hierarchy(), &location, &options).await.unwrap();
    let before = repository(folder.path()).await.lookup_branch("main").await.unwrap();

    let again = commit(&hierarchy(), &location, &options).await;
    assert!(matches!(again, Err(IcechunkError::Exists { .. })), "{again:?}");
    let mut wrong = hierarchy();
    wrong.sources.clear();
    let replace = CommitOptions { mode: Mode::Replace, ..options };
    let failed = commit(&wrong, &location, &replace).await;
    assert!(matches!(failed, Err(IcechunkError::Chunks { .. })), "{failed:?}");

    let repository = repository(folder.path()).await;
    assert_eq!(repository.lookup_branch("main").await.unwrap(), before);
    assert_eq!(repository.list_branches().await.unwrap().into_iter().collect::<Vec<_>>(), ["main"]);
}
