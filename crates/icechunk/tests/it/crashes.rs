//! Random updates of a repository whose writer is killed at some point (`PROPTEST_CASES=1000` for more sequences):
//!
//! - readers see the chunks before the update, or after it, and nothing else
//! - a commit that was reported is not lost
//! - the next update succeeds, whatever was left, and no temporary branch remains

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path, pin::pin, task::Poll};

use bytes::Bytes;
use fastrand::Rng;
use futures::TryStreamExt;
use icechunk::{
    Repository, format::manifest::ChunkPayload, new_local_filesystem_storage, repository::VersionInfo,
};
use virtualize_icechunk::{CommitOptions, CommitRecord, Mode, RepositoryLocation, commit, documents_of};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, Node, ReferencesBuilder, Source,
    SourceId, ZarrFormat,
};

/// Chunks of an array by their index: text of an inline one, or the offset of a reference.
type Content = BTreeMap<u32, Result<u64, u64>>;

fn hierarchy(content: &Content, length: u32) -> Hierarchy {
    let (mut column, mut chunks) = (ReferencesBuilder::default(), ChunkManifest::default());
    for (index, chunk) in content {
        match chunk {
            Ok(text) => drop(chunks.inline.insert(u64::from(*index), Bytes::from(text.to_string()))),
            Err(offset) => column.push(u64::from(*index), *offset, 7),
        }
    }
    chunks.references = column.finish(SourceId(0)).into_iter().collect();
    let array = Array {
        shape: vec![u64::from(length)],
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![1]),
        fill_value: Some(FillValue::zero(&DataType::UInt8)),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: vec![Some("x".to_owned())],
        attributes: serde_json::Map::new(),
        chunks,
    };
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.sources = vec![Source {
        url: "s3://bucket/a.nc".to_owned(),
        etag: Some("\"a\"".to_owned()),
        ..Source::default()
    }];
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    hierarchy
}

/// Runs a future in a runtime of its own. Drops it after it was polled so many times, as if its process was killed: only
/// calls to the file system that had begun complete.
fn run<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut future, mut left) = (pin!(future), polls);
        std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            future.as_mut().poll(context).map(Some)
        })
        .await
    })
}

async fn repository(folder: &Path) -> Option<Repository> {
    Repository::open(new_local_filesystem_storage(folder).await.unwrap()).execute().await.ok()
}

/// Returns the chunks that readers see, the number of commits, and the branches.
async fn seen(folder: &Path) -> Option<(Content, usize, Vec<String>)> {
    let repository = repository(folder).await?;
    let main = VersionInfo::BranchTipRef("main".to_owned());
    let commits = repository.ancestry(&main).await.unwrap().try_collect::<Vec<_>>().await.unwrap().len();
    let branches = repository.list_branches().await.unwrap().into_iter().collect();
    let session = repository.readonly_session(&main).await.unwrap();
    let path = icechunk::format::Path::new("/a").unwrap();
    let all: Vec<_> = match commits {
        1 => Vec::new(),
        _ => session.array_chunk_iterator(&path).await.try_collect().await.unwrap(),
    };
    let chunk = |payload| match payload {
        ChunkPayload::Inline(text) => Ok(std::str::from_utf8(&text).unwrap().parse().unwrap()),
        ChunkPayload::Virtual(part) => Err(part.offset),
        other => panic!("{other:?}"),
    };
    let content =
        all.into_iter().map(|found| (found.coord.0.first().copied().unwrap(), chunk(found.payload)));
    Some((content.collect(), commits, branches))
}

fn random_chunk(random: &mut Rng) -> Result<u64, u64> {
    if random.bool() { Ok(random.u64(..3)) } else { Err(random.u64(..3) * 100) }
}

/// Returns the next content: some chunks changed, others added at the end.
fn next(random: &mut Rng, before: &Content, length: u32) -> (Content, u32) {
    let (mut after, longer) = (before.clone(), length + random.u32(..6));
    for index in 0..longer {
        if index >= length || random.u8(..5) == 0 {
            after.insert(index, random_chunk(random));
        }
    }
    (after, longer)
}

async fn write(folder: &Path, old: &Hierarchy, new: &Hierarchy, random: &mut Rng, is_first: bool) {
    let record = CommitRecord { snapshot: None, documents: documents_of(old, "").unwrap() };
    let options = CommitOptions {
        mode: if is_first { Mode::Add } else { Mode::Update(record) },
        references_per_manifest: random.u64(1..9),
        chunks_in_memory: random.u64(2..30),
        ..CommitOptions::default()
    };
    commit(new, &RepositoryLocation::Local(folder.to_owned()), &options).await.unwrap();
}

#[test]
fn killed_writers_leave_the_old_chunks_or_the_new_ones() {
    let cases = std::env::var("PROPTEST_CASES").map_or(8, |cases| cases.parse().unwrap());
    let (mut killed, mut committed) = (0, 0);
    for seed in 0..cases {
        let random = &mut Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let (mut content, mut length, mut commits) = (Content::new(), 0, 1);
        for step in 0..6 {
            let (after, longer) = next(random, &content, length);
            if after == content {
                continue;
            }
            let (old, new) = (hierarchy(&content, length), hierarchy(&after, longer));
            let polls = if random.bool() { u32::MAX } else { random.u32(..200) };
            let done = run(polls, write(folder.path(), &old, &new, random, commits == 1));
            killed += usize::from(done.is_none());
            let found = run(u32::MAX, seen(folder.path())).flatten();
            let (found, now, branches) = found.unwrap_or_else(|| (Content::new(), 1, Vec::new()));
            assert!(
                now >= commits && (done.is_none() || now > commits),
                "seed {seed}, step {step}: a commit is lost"
            );
            // A commit in parts adds several.
            if now > commits {
                (content, length, commits) = (after, longer, now);
                committed += 1;
            }
            assert_eq!(found, content, "seed {seed}, step {step}");
            assert!(done.is_none() || branches == ["main"], "seed {seed}, step {step}: {branches:?}");
        }
    }
    assert!(killed > 0 && committed > 0, "{killed} writers were killed, {committed} committed");
}
