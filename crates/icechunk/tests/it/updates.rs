//! Random updates: a repository that is updated has the content of one that was written at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use fastrand::Rng;
use futures::TryStreamExt;
use icechunk::{
    Repository,
    format::manifest::ChunkPayload,
    format::{ChunkIndices, SnapshotId},
    new_local_filesystem_storage,
    repository::VersionInfo,
};
use virtualize_icechunk::{
    CommitOptions, CommitRecord, IcechunkError, Mode, RepositoryLocation, commit, documents_of,
};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, Node, ReferencesBuilder, Source,
    SourceId, ZarrFormat,
};

/// A chunk by its indices: text for an inline one, otherwise number of the file and offset.
type Content = BTreeMap<Vec<u32>, Result<u64, (u32, u64)>>;

const FILES: u32 = 5;

fn random_chunk(random: &mut Rng) -> Result<u64, (u32, u64)> {
    match random.u8(..4) {
        0 => Ok(random.u64(..3)),
        _ => Err((random.u32(..FILES), random.u64(..3) * 100)),
    }
}

fn hierarchy(content: &Content, counts: [u32; 2]) -> Hierarchy {
    let mut columns: BTreeMap<u32, ReferencesBuilder> = BTreeMap::new();
    let mut chunks = ChunkManifest::default();
    for (indices, chunk) in content {
        let [row, column] = indices.as_slice() else { panic!("{indices:?}") };
        let position = u64::from(*row) * u64::from(counts[1]) + u64::from(*column);
        match chunk {
            Ok(text) => drop(chunks.inline.insert(position, Bytes::from(text.to_string()))),
            Err((file, offset)) => columns.entry(*file).or_default().push(position, *offset, 7),
        }
    }
    chunks.references =
        columns.into_iter().flat_map(|(file, column)| column.finish(SourceId(file))).collect();
    let array = Array {
        shape: counts.map(u64::from).into(),
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![1, 1]),
        fill_value: Some(FillValue::zero(&DataType::UInt8)),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
        attributes: serde_json::Map::new(),
        chunks,
    };
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let source = |file| Source {
        url: format!("s3://bucket/{file}.nc"),
        etag: Some(format!("\"{file}\"")),
        ..Source::default()
    };
    hierarchy.sources = (0..FILES).map(source).collect();
    hierarchy.root.make_group("g").unwrap().children.insert("a".to_owned(), Node::Array(Box::new(array)));
    hierarchy
}

async fn repository(folder: &Path) -> Repository {
    Repository::open(new_local_filesystem_storage(folder).await.unwrap()).execute().await.unwrap()
}

async fn content(folder: &Path) -> Content {
    let repository = repository(folder).await;
    let session = repository.readonly_session(&VersionInfo::BranchTipRef("main".to_owned())).await.unwrap();
    let path = icechunk::format::Path::new("/x/g/a").unwrap();
    let all: Vec<_> = session.array_chunk_iterator(&path).await.try_collect().await.unwrap();
    let chunk = |payload| match payload {
        ChunkPayload::Inline(text) => Ok(std::str::from_utf8(&text).unwrap().parse().unwrap()),
        ChunkPayload::Virtual(part) => {
            let file = part.location.url().strip_prefix("s3://bucket/").and_then(|it| it.strip_suffix(".nc"));
            Err((file.unwrap().parse().unwrap(), part.offset))
        }
        other => panic!("{other:?}"),
    };
    all.into_iter().map(|found| (found.coord.0, chunk(found.payload))).collect()
}

fn options(random: &mut Rng, mode: Mode) -> CommitOptions {
    CommitOptions {
        group: "x".to_owned(),
        mode,
        references_per_manifest: random.u64(1..30),
        chunks_in_memory: random.u64(20..200),
        ..CommitOptions::default()
    }
}

#[tokio::test]
async fn updated_repositories_contain_the_new_chunks() {
    for seed in 0..12 {
        let random = &mut Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let location = RepositoryLocation::Local(folder.path().to_owned());
        let counts = [random.u32(1..12), random.u32(1..6)];
        let places =
            |counts: [u32; 2]| (0..counts[0]).flat_map(move |y| (0..counts[1]).map(move |x| vec![y, x]));
        let mut before = Content::new();
        for indices in places(counts) {
            if random.u8(..4) > 0 {
                before.insert(indices, random_chunk(random));
            }
        }
        let first = hierarchy(&before, counts);
        let add = options(random, Mode::Add);
        let done = commit(&first, &location, &add).await.unwrap();
        assert_eq!(content(folder.path()).await, before, "seed {seed}");

        let grows = random.bool();
        let now = match grows {
            true => [counts[0] + random.u32(..6), counts[1]],
            false => [random.u32(1..14), random.u32(1..7)],
        };
        let (mut after, mut new) = (if grows { before.clone() } else { Content::new() }, Content::new());
        for indices in places(now) {
            let is_old = indices.iter().zip(&counts).all(|(index, count)| index < count);
            if random.bool() && !(grows && is_old) {
                new.insert(indices, random_chunk(random));
            }
        }
        after.extend(new.clone());
        let mode = match grows {
            true => Mode::Extend(record(&first, &done.snapshot)),
            false => Mode::Update(record(&first, &done.snapshot)),
        };
        let done = commit(&hierarchy(&new, now), &location, &options(random, mode)).await.unwrap();
        assert_eq!(content(folder.path()).await, after, "seed {seed}");
        assert_eq!(done.chunks, new.len() as u64, "seed {seed}");
    }
}

fn record(hierarchy: &Hierarchy, snapshot: &str) -> CommitRecord {
    CommitRecord { snapshot: Some(snapshot.to_owned()), documents: documents_of(hierarchy, "x").unwrap() }
}

#[tokio::test]
async fn chunks_of_others_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let location = RepositoryLocation::Local(folder.path().to_owned());
    let random = &mut Rng::with_seed(7);
    let before: Content = (0..6).map(|y| (vec![y, 0], Err((1, u64::from(y))))).collect();
    let first = hierarchy(&before, [6, 1]);
    let done = commit(&first, &location, &options(random, Mode::Add)).await.unwrap();
    let mut session = repository(folder.path()).await.writable_session("main").await.unwrap();
    let path = icechunk::format::Path::new("/x/g/a").unwrap();
    let theirs = Some(ChunkPayload::Inline(Bytes::from_static(b"9")));
    session.set_chunk_ref(path, ChunkIndices(vec![2, 0]), theirs).await.unwrap();
    session.commit("theirs").execute().await.unwrap();

    let known = record(&first, &done.snapshot);
    for mode in [Mode::Update(known.clone()), Mode::Extend(known.clone())] {
        let failed = commit(&hierarchy(&Content::new(), [7, 1]), &location, &options(random, mode)).await;
        assert!(matches!(failed, Err(IcechunkError::Foreign { .. })), "{failed:?}");
    }
    let mode = Mode::Update(CommitRecord { snapshot: None, ..known });
    commit(&first, &location, &options(random, mode)).await.unwrap();
    assert_eq!(content(folder.path()).await, before);
}

#[tokio::test]
async fn temporary_branches_of_killed_runs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let location = RepositoryLocation::Local(folder.path().to_owned());
    let random = &mut Rng::with_seed(8);
    let store = hierarchy(&[(vec![0, 0], Ok(1))].into(), [1, 1]);
    let done = commit(&store, &location, &options(random, Mode::Add)).await.unwrap();
    let left = format!("virtualize-{}", SnapshotId::random());
    let tip = SnapshotId::try_from(done.snapshot.as_str()).unwrap();
    for branch in [left.as_str(), "virtualize-by-hand"] {
        repository(folder.path()).await.create_branch(branch, &tip).await.unwrap();
    }
    commit(&store, &location, &options(random, Mode::Replace)).await.unwrap();
    let branches = repository(folder.path()).await.list_branches().await.unwrap();
    assert_eq!(branches.into_iter().collect::<Vec<_>>(), ["main", "virtualize-by-hand"]);
}
