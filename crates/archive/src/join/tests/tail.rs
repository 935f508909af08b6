//! A dataset that is extended file by file equals that of all files.

use std::collections::BTreeMap;

use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use virtualize::{
    ArrayValues,
    zarr::{
        Array, Chunk, ChunkManifest, ChunkReader, Codec, DataType, Hierarchy, Node, ReferencesBuilder,
        Source, SourceId, ZarrFormat,
    },
};

use super::{
    super::{Combined, JoinedChunks, combine, extend, tail},
    MemoryMembers, array,
};
use crate::{
    Along, Item, Layout, Member,
    error::Error,
    plan::{Block, PlannedSet},
};

/// Files of consecutive times.
struct Case {
    layout: Layout,
    members: Vec<Member>,
    sizes: Vec<u64>,
}

fn attributes(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let layout = Layout {
            inline_limit: if rng.bool() { 1 << 20 } else { 0 },
            ..Layout::along(vec![Along::Concat("time".to_owned())])
        };
        let (length, chunk) = (rng.u64(1..=4), rng.u64(1..=3));
        let is_ragged = rng.u8(..3) == 0;
        let time = if rng.bool() { DataType::Int64 } else { DataType::Float64 };
        // Long rows have several chunks of copied values.
        let width = if rng.u8(..4) == 0 { 40_000 } else { 2 };
        let mut case = Self { layout, members: Vec::new(), sizes: Vec::new() };
        let format = if rng.bool() { ZarrFormat::V2 } else { ZarrFormat::V3 };
        for row in 0..rng.u64(2..=7) {
            let size = if is_ragged && rng.u8(..4) == 0 { rng.u64(1..=4) } else { length };
            case.add(row, size, (chunk, width), (time.clone(), format), rng);
        }
        case
    }

    fn add(
        &mut self,
        row: u64,
        size: u64,
        (chunk, width): (u64, u64),
        (time_type, format): (DataType, ZarrFormat),
        rng: &mut Rng,
    ) {
        let start: u64 = self.sizes.iter().sum();
        let is_other = row > 0 && rng.u8(..12) == 0;
        let units = if is_other { "hours since 2000-01-01" } else { "days since 2000-01-01" };
        let time = array(time_type.clone(), &[("time", size, size)], json!({"units": units}));
        let times = (start..start + size).map(|day| if is_other { day * 24 } else { day });
        let times = times.flat_map(|time| match time_type {
            DataType::Int64 => time.to_le_bytes(),
            _ => f64::from(u32::try_from(time).unwrap()).to_le_bytes(),
        });
        let remark = json!({"units": "K", "comment": rng.u8(..3), "history": 1});
        let mut v = array(DataType::Int32, &[("time", size, chunk), ("x", width, width)], remark);
        v.codecs.push(Codec::Zlib { level: 1 });
        let mut column = ReferencesBuilder::default();
        for position in (0..size.div_ceil(chunk)).filter(|_| rng.u8(..5) > 0) {
            column.push(position, 1000 * row + position, 10);
        }
        let references = column.finish(SourceId(0)).into_iter().collect();
        v.chunks = ChunkManifest { references, ..ChunkManifest::default() };
        let values: Bytes = (0..size * width * 4).map(|n| (n + row).to_le_bytes()[0]).collect();
        let mut values = BTreeMap::from([("v".to_owned(), ArrayValues::of_array(&v, values))]);
        values.retain(|_, _| self.layout.inline_limit > 0);
        values.insert("time".to_owned(), ArrayValues::of_array(&time, times.collect()));
        let x = array(DataType::Int64, &[("x", width, width)], json!({}));
        let mut hierarchy = Hierarchy::new(format);
        hierarchy.sources = vec![Source { url: format!("{row}.nc"), ..Source::default() }];
        hierarchy.root.attributes = attributes(json!({"title": "all", "number": row / rng.u64(1..=4)}));
        let node = |array: Array| Node::Array(Box::new(array));
        let children = [("time", time), ("v", v), ("x", x)];
        hierarchy.root.children =
            children.into_iter().map(|(name, array)| (name.to_owned(), node(array))).collect();
        let digests = [("x".to_owned(), "x".to_owned())].into();
        let item = Item::of(format!("{row}.nc"));
        self.members.push(Member {
            item,
            hierarchy,
            values,
            digests,
            grids: BTreeMap::new(),
            given: BTreeMap::new(),
            omitted: std::collections::BTreeSet::new(),
        });
        self.sizes.push(size);
    }

    fn set(&self, rows: &[u64]) -> PlannedSet {
        let size = |row: &u64| self.sizes[usize::try_from(*row).unwrap()];
        let block =
            |(at, row): (u32, &u64)| Block { row: *row, at: [at].into_iter().collect(), selection: None };
        PlannedSet {
            sizes: vec![rows.iter().map(size).collect()],
            blocks: (0..).zip(rows).map(block).collect(),
            ..PlannedSet::default()
        }
    }

    fn combined<'a>(&self, set: &'a PlannedSet) -> Result<Combined<'a>, Error> {
        let members = &mut MemoryMembers::new(self.members.clone());
        combine(set, &self.layout, members, &mut || Ok(()))
    }
}

type Found = BTreeMap<String, BTreeMap<u64, String>>;

/// Returns all chunks by array and position.
fn chunks(hierarchy: &Hierarchy, reader: &mut dyn ChunkReader) -> Found {
    let text = |chunk: Chunk<'_>| match chunk {
        Chunk::Inline(bytes) => format!("{bytes:?}"),
        Chunk::Reference { source, offset, length } => format!("{} {offset} {length}", source.url),
    };
    let of = |path: String| {
        let all = reader.chunks(&path, 0).unwrap().map(Result::unwrap).map(|(at, chunk)| (at, text(chunk)));
        let all = all.collect();
        (path, all)
    };
    hierarchy.arrays().into_iter().map(|(path, _)| path).map(of).collect()
}

/// Metadata and chunks of a dataset.
fn contents(case: &Case, combined: Combined<'_>) -> (Hierarchy, Found) {
    let members = MemoryMembers::new(case.members.clone());
    let all = chunks(&combined.hierarchy, &mut JoinedChunks::new(members, combined.chunks));
    let mut bare = tail(&combined.hierarchy);
    strip(&mut bare);
    (bare, all)
}

fn strip(hierarchy: &mut Hierarchy) {
    let paths: Vec<_> = hierarchy.arrays().into_iter().map(|(path, _)| path).collect();
    for path in paths {
        hierarchy.array_mut(&path).unwrap().chunks = ChunkManifest::default();
    }
}

/// Extends a dataset of the first files by others, several times. Returns how often that was possible.
fn check(case: &Case, rng: &mut Rng) -> usize {
    let all: Vec<u64> = (0..case.members.len() as u64).collect();
    let mut count = rng.usize(1..all.len());
    let set = case.set(&all[..count]);
    let Ok(combined) = case.combined(&set) else { return 0 };
    let mut known = tail(&combined.hierarchy);
    let (_, mut present) = contents(case, combined);
    let mut extended = 0;
    while count < all.len() {
        let next = rng.usize(count + 1..=all.len());
        let mut some = vec![0];
        some.extend((count > 1).then_some(count as u64 - 1));
        let (base_set, whole_set) = (case.set(&some), case.set(&all[..next]));
        some.extend(&all[count..next]);
        let set = case.set(&some);
        let (Ok(base), Ok(joined)) = (case.combined(&base_set), case.combined(&set)) else { return extended };
        let Some(result) = extend(&known, &base.hierarchy, &joined.hierarchy) else {
            return extended;
        };
        let whole = case.combined(&whole_set).expect("files that were extended can be combined");
        let (metadata, expected) = contents(case, whole);
        assert_eq!(result.hierarchy, metadata);
        let joined = JoinedChunks::new(MemoryMembers::new(case.members.clone()), joined.chunks);
        for (path, new) in chunks(&metadata, &mut result.chunks(joined)) {
            let there = present.entry(path.clone()).or_default();
            if let Some(start) = result.changed().get(&path) {
                assert!(new.keys().all(|position| position >= start));
                there.split_off(start);
            }
            there.extend(new);
        }
        assert_eq!(present, expected);
        known = result.tail();
        (count, extended) = (next, extended + 1);
    }
    extended
}

#[test]
fn extended_equals_combined_at_once() {
    let cases: u64 = std::env::var("CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let mut extended = 0;
    for seed in 0..cases {
        let rng = &mut Rng::with_seed(seed);
        let case = Case::random(rng);
        extended += check(&case, rng);
    }
    assert!(extended as u64 > cases / 4, "{extended} of {cases}");
}
