//! What combining many files costs, apart from reading the journal.
//! `FILES=1000000 CHUNKS=1 cargo test --release -p virtualize-archive --lib join_of_many -- --nocapture` prints it.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use smallvec::smallvec;
use virtualize::zarr::{
    ChunkManifest, ChunkReader, Codec, DataType, Lengths, References, Source, SourceId, ZarrFormat,
};

use super::super::{Combined, JoinedChunks, combine};
use super::array;
use crate::{
    Along, Item, Layout,
    error::Error,
    file::{FileChunks, Head, HeadNode, Members, ParsedNode},
    plan::{Block, PlannedSet},
};

/// Files with `t2m (time, lat, lon)` in some chunks along time, and coordinates, created on demand.
struct Generated {
    /// Number of times, and of chunks, of a file.
    chunks: u64,
    nodes: Vec<HeadNode>,
    /// Whether the root of each file has a history of its own.
    has_history: bool,
}

impl Generated {
    fn new(chunks: u64, has_history: bool) -> Self {
        let mut t2m = array(
            DataType::Int16,
            &[("time", chunks, 1), ("lat", 73, 73), ("lon", 144, 144)],
            json!({"scale_factor": 0.01, "add_offset": 273.0, "units": "K", "long_name": "temperature"}),
        );
        t2m.codecs.push(Codec::Zlib { level: 4 });
        let coordinate =
            |name, n, units: &str| array(DataType::Float64, &[(name, n, n)], json!({ "units": units }));
        let arrays = [
            ("lat", coordinate("lat", 73, "degrees_north"), 1),
            ("lon", coordinate("lon", 144, "degrees_east"), 1),
            ("t2m", t2m, chunks),
            ("time", coordinate("time", chunks, "hours since 1900-01-01"), 1),
        ];
        let root = HeadNode { path: "".into(), node: root(0), count: 0 };
        let node = |(path, array, count): (&str, _, _)| HeadNode {
            path: path.into(),
            node: Arc::new(ParsedNode::Array(Box::new(array))),
            count,
        };
        Self { chunks, nodes: std::iter::once(root).chain(arrays.map(node)).collect(), has_history }
    }
}

fn root(row: u64) -> Arc<ParsedNode> {
    let attributes = json!({
        "Conventions": "CF-1.8",
        "title": "hourly temperatures",
        "institution": "somewhere",
        "history": format!("made as file {row}"),
    });
    let Value::Object(attributes) = attributes else { unreachable!() };
    Arc::new(ParsedNode::Group(attributes))
}

impl Members for Generated {
    fn head(&mut self, row: u64) -> Result<Head, Error> {
        let mut nodes = self.nodes.clone();
        if self.has_history {
            nodes[0].node = root(row);
        }
        let times = (0..self.chunks).map(|n| ((row * self.chunks + n) as f64).to_le_bytes());
        let values = Bytes::from(times.flatten().collect::<Vec<u8>>());
        let digest = |path: &str| (path.to_owned(), "0123456789abcdef".repeat(4));
        Ok(Head {
            item: Item::of(format!("s3://bucket/archive/t2m_{row:09}.nc")),
            format: ZarrFormat::V3,
            nodes,
            values: [("time".to_owned(), values)].into(),
            digests: [digest("lat"), digest("lon")].into(),
            given: BTreeMap::new(),
        })
    }

    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks, Error> {
        let count = if path == "t2m" { self.chunks } else { 1 };
        let lengths: Vec<_> = (0..count).map(|n| 5000 + u32::try_from(n).unwrap()).collect();
        let chunks = ChunkManifest::of(References {
            source: SourceId(0),
            positions: None,
            offsets: (0..count).map(|n| 8000 + 6000 * n).collect::<Vec<_>>().into(),
            lengths: Lengths::Each(lengths.into()),
        });
        let url = format!("s3://bucket/archive/t2m_{row:09}.nc");
        let source = Source { url, etag: Some(format!("\"{row:032x}\"")), size: 20_000, modified: Some(0) };
        Ok(FileChunks { chunks, sources: [Arc::new(source)].into() })
    }
}

/// Returns the highest number of megabytes that the process has had in memory.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
#[allow(clippy::print_stdout, reason = "it is run by hand, for what it prints")]
fn a_join_of_many_files() {
    let (files, chunks) = (number("FILES", 1000), number("CHUNKS", 3));
    let mut members = Generated::new(chunks, number("HISTORY", 0) > 0);
    let block = |row| Block { row, at: smallvec![u32::try_from(row).unwrap()], selection: None };
    let sizes = vec![vec![chunks; usize::try_from(files).unwrap()]];
    let blocks = (0..files).map(block).collect();
    let set = PlannedSet { sizes, blocks, ..PlannedSet::default() };
    let layout = Layout { inline_limit: 0, ..Layout::along(vec![Along::Concat("time".to_owned())]) };
    let (planned, start) = (peak(), Instant::now());
    for row in 0..files {
        std::hint::black_box(members.head(row).unwrap());
    }
    let (generated, start) = (start.elapsed(), (start.elapsed(), Instant::now()).1);
    let go_on = &mut || Ok(());
    let combined = combine(&set, &layout, &mut members, go_on).unwrap();
    let (joined, heads) = (start.elapsed(), peak());
    let Combined { hierarchy, chunks: places, .. } = combined;
    let mut reader = JoinedChunks::new(members, places);
    let start = Instant::now();
    let mut count = 0;
    for (path, _) in hierarchy.arrays() {
        for chunk in reader.chunks(&path, 0).unwrap() {
            std::hint::black_box(chunk.unwrap());
            count += 1;
        }
    }
    let streamed = start.elapsed();
    println!(
        "{files} files of {chunks} chunks: heads made in {generated:.2?}, first pass {joined:.2?} \
         ({planned} to {heads} MB), second pass {streamed:.2?} ({} MB), {count} chunks",
        peak()
    );
    assert_eq!(reader.count("t2m").unwrap(), files * chunks);
    assert_eq!(hierarchy.array("t2m").unwrap().shape[0], files * chunks);
}
