//! Random updates: a repository that is updated contains what one that was written anew contains.

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
    CommitOptions, Mode, RepositoryLocation, Update, commit, commit_chunks, documents_of,
};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, ChunkReadError, ChunkReader, Chunks, Codec, DataType, FillValue,
    Hierarchy, HierarchyChunks, Node, ReferencesBuilder, Source, SourceId, ZarrFormat,
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

/// Reader that fails if it is asked for chunks that stay.
struct From<'a>(HierarchyChunks<'a>, u64);

impl ChunkReader for From<'_> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        assert!(start >= self.1, "read from {start} on, expected {}", self.1);
        self.0.chunks(path, start)
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        self.0.count(path)
    }
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
        let mut after = Content::new();
        for indices in places(now) {
            let known = before.get(&indices);
            let is_old = indices.iter().zip(&counts).all(|(index, count)| index < count);
            let chunk = match known.filter(|_| grows || random.u8(..3) > 0) {
                Some(known) => Some(*known),
                None if grows && is_old => None,
                None => random.bool().then(|| random_chunk(random)),
            };
            after.extend(chunk.map(|chunk| (indices, chunk)));
        }
        let second = hierarchy(&after, now);
        let update = Update {
            base: Some(done.snapshot),
            documents: documents_of(&first, "x").unwrap(),
            grows: grows.then(|| "y".to_owned()),
            ..Update::default()
        };
        let options = options(random, Mode::Update(update));
        let start = if grows { u64::from(counts[0] * counts[1]) } else { 0 };
        let mut reader = From(HierarchyChunks::new(&second), start);
        let done = commit_chunks(&second, &mut reader, &location, &options).await.unwrap();
        assert_eq!(content(folder.path()).await, after, "seed {seed}");
        let changed = after.iter().filter(|(indices, chunk)| before.get(*indices) != Some(chunk)).count();
        assert_eq!(done.chunks, changed as u64, "seed {seed}");
    }
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

    let update = |base: &str| Update {
        base: Some(base.to_owned()),
        documents: documents_of(&first, "x").unwrap(),
        ..Update::default()
    };
    let mut after = before.clone();
    after.insert(vec![2, 0], Ok(1));
    let options = options(random, Mode::Update(update(&done.snapshot)));
    let failed = commit(&hierarchy(&after, [6, 1]), &location, &options).await;
    assert!(matches!(failed, Err(virtualize_icechunk::IcechunkError::Foreign { .. })), "{failed:?}");
    let mut after = before.clone();
    after.insert(vec![3, 0], Ok(1));
    let done = commit(&hierarchy(&after, [6, 1]), &location, &options).await.unwrap();
    assert_eq!(done.touched.into_iter().collect::<Vec<_>>(), ["x/g/a"]);
    after.insert(vec![2, 0], Ok(9));
    assert_eq!(content(folder.path()).await, after);
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
