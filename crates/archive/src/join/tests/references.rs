//! Tests the positions of chunks in the combined grid.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;
use virtualize::zarr::{
    Array, Chunk, ChunkGrid, ChunkManifest, ChunkReader, Codec, DataType, FillValue, Lengths, References,
    Source, SourceId, ZarrFormat,
};

use super::super::chunks::{ArrayChunks, ChunkPlaces, JoinedChunks};
use super::{array, blocks, files, options};
use crate::join::{
    chunks::Placing,
    metadata::{ArrayOptions, Growing, Read, explain},
    regions::grid,
};
use crate::{
    Item,
    compat::{DimRole, signature::Storage},
    error::{Error, Problem},
    file::{FileChunks, Head, Members},
    plan::Block,
};

/// Size in bytes of an element of the axis `x`.
const ROW: u64 = 2 * 4;

/// Returns an array with `n` times in chunks of `chunk`, contiguous from offset 1000.
fn file(n: u64, chunk: u64, zlib: bool) -> Array {
    let mut one = array(DataType::Int32, &[("time", n, chunk), ("x", 2, 2)], json!({}));
    if zlib {
        one.codecs.push(Codec::Zlib { level: 1 });
    }
    let count = n.div_ceil(chunk);
    one.chunks = ChunkManifest {
        references: vec![References {
            source: SourceId(0),
            positions: None,
            offsets: (0..count).map(|at| 1000 + at * chunk * ROW).collect::<Vec<_>>().into(),
            lengths: Lengths::Uniform(chunk * ROW),
        }],
        ..ChunkManifest::default()
    };
    one
}

/// Adds files, each with its chunks in a source of its own name.
fn growing<'a>(all: &[Array], blocks: &'a [Block], options: ArrayOptions) -> Result<Growing<'a>, Problem> {
    let mut growing =
        Growing::new(&all[0], (files(blocks), 0), vec![DimRole::Axis(0)], (false, false), options);
    for (n, file) in (0..).zip(all) {
        let mut compared = growing.compare(file)?;
        growing.add(n, &mut compared, Read { chunks: file.chunks.len(), values: None, digest: None })?;
    }
    Ok(growing)
}

/// The chunks of files.
struct Tables(Vec<Array>);

impl Members for Tables {
    fn head(&mut self, row: u64) -> Result<Head, Error> {
        let item = Item::of(row.to_string());
        let (nodes, values, digests) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Head { item, format: ZarrFormat::V2, nodes, values, digests, given: BTreeMap::new() })
    }

    fn chunks(&mut self, row: u64, _: &str) -> Result<FileChunks, Error> {
        let chunks = self.0[usize::try_from(row).unwrap()].chunks.clone();
        let source = Source { url: row.to_string(), ..Source::default() };
        Ok(FileChunks { chunks, sources: [Arc::new(source)].into() })
    }
}

/// Chunk grid, and source, offset and length of each chunk in order.
type Joined = (ChunkGrid, Vec<(u32, u64, u64)>);

fn joined(all: Vec<Array>, rectilinear: bool) -> Result<Joined, String> {
    let sizes: Vec<u64> = all.iter().map(|file| file.shape[0]).collect();
    let blocks = blocks(u32::try_from(all.len()).unwrap());
    let growing = growing(&all, &blocks, options(false)).unwrap();
    let geometry = growing.geometry(&["time".to_owned()], &[&sizes]).unwrap();
    let storage = growing
        .parts()
        .storage(&geometry, rectilinear)
        .map_err(|misfit| explain(&growing, &geometry, misfit, 0).to_string())?;
    assert_ne!(storage, Storage::Copied);
    let grid = grid(&storage, &growing, &geometry).unwrap();
    let counts = grid.counts(&geometry.shape());
    let last = counts.iter().product();
    let placing = Placing::new("x", (&growing, &blocks), &geometry, &storage, counts).unwrap();
    let mut places = ChunkPlaces::default();
    places.insert("x".to_owned(), ArrayChunks::Placed(Box::new(placing)));
    let mut reader = JoinedChunks::new(Tables(all), places);
    let count = reader.count("x").unwrap();
    let found: Result<Vec<_>, _> = reader.chunks("x", 0).unwrap().collect();
    let found = found.map_err(|error| error.to_string())?;
    let positions: Vec<u64> = found.iter().map(|(at, _)| *at).collect();
    assert_eq!((positions, count), ((0..last).collect(), last));
    let one = |(_, chunk): (u64, Chunk<'_>)| match chunk {
        Chunk::Reference { source, offset, length } => (source.url.parse().unwrap(), offset, length),
        Chunk::Inline(_) => unreachable!(),
    };
    Ok((grid, found.into_iter().map(one).collect()))
}

#[test]
fn whole_chunks_are_concatenated() {
    let (grid, chunks) = joined(vec![file(4, 2, true), file(2, 2, true), file(3, 2, true)], false).unwrap();
    assert_eq!(grid, ChunkGrid::Regular(vec![2, 2]));
    let offsets: Vec<_> = chunks.iter().map(|one| (one.0, one.1)).collect();
    assert_eq!(offsets, [(0, 1000), (0, 1016), (1, 1000), (2, 1000), (2, 1016)]);
}

#[test]
fn only_the_last_file_may_end_within_a_chunk() {
    let error = joined(vec![file(3, 2, true), file(4, 2, true)], false).unwrap_err();
    assert!(error.contains("3 elements along time in 0 are not a multiple of the chunk length 2"), "{error}");
    let error = joined(vec![file(3, 2, true), file(4, 2, true)], true).unwrap_err();
    assert!(error.contains("not a multiple"), "{error}");
    let error = joined(vec![file(4, 4, true), file(2, 2, true)], false).unwrap_err();
    assert!(error.contains("chunks of 2 elements along time in 1, but 4 in earlier files"), "{error}");
}

#[test]
fn plain_chunks_are_cut() {
    // Chunks of 4 in files of 6, 2 and 3 elements: slices of 2, the last of which extends past the array.
    let (grid, chunks) =
        joined(vec![file(6, 4, false), file(2, 4, false), file(3, 4, false)], false).unwrap();
    assert_eq!(grid, ChunkGrid::Regular(vec![2, 2]));
    let slice = 2 * ROW;
    assert_eq!(
        chunks,
        [
            (0, 1000, slice),
            (0, 1000 + slice, slice),
            (0, 1000 + 2 * slice, slice),
            (1, 1000, slice),
            (2, 1000, slice),
            (2, 1000 + slice, slice),
        ]
    );
}

#[test]
fn chunks_of_varying_sizes() {
    let (grid, chunks) = joined(vec![file(4, 2, true), file(3, 3, true), file(1, 1, true)], true).unwrap();
    assert_eq!(grid, ChunkGrid::Rectilinear(vec![vec![2, 2, 3, 1], vec![2]]));
    let lengths: Vec<_> = chunks.iter().map(|one| (one.0, one.2 / ROW)).collect();
    assert_eq!(lengths, [(0, 2), (0, 2), (1, 3), (2, 1)]);
    // The start of an uncompressed chunk that extends past its file's data.
    let (grid, chunks) = joined(vec![file(3, 2, false), file(4, 2, false)], true).unwrap();
    assert_eq!(grid, ChunkGrid::Rectilinear(vec![vec![2, 1, 2, 2], vec![2]]));
    assert_eq!(chunks[1], (0, 1016, ROW));
}

#[test]
fn arrays_that_no_signature_has_must_agree() {
    let blocks = blocks(2);
    let changed = |change: &dyn Fn(&mut Array)| {
        let mut other = file(2, 2, true);
        change(&mut other);
        growing(&[file(2, 2, true), other], &blocks, options(true)).map(|_| ())
    };
    assert_eq!(changed(&|other| other.codecs[1] = Codec::Zlib { level: 9 }), Ok(()));
    for (what, change) in [
        ("data type", &(|other: &mut Array| other.data_type = DataType::Float32) as &dyn Fn(&mut Array)),
        ("fill value none", &|other| other.fill_value = None),
        ("fill value", &|other| other.fill_value = FillValue::from_i128(&DataType::Int32, 7).exact()),
        ("scale_factor", &|other| {
            other.attributes.insert("scale_factor".to_owned(), "0.1".into());
        }),
        ("_FillValue", &|other| {
            other.attributes.insert("_FillValue".to_owned(), 7.into());
        }),
        ("sizes (time, x 3), but (time, x 2) in earlier files", &|other| other.shape[1] = 3),
        ("dimensions", &|other| other.dimension_names[1] = Some("y".to_owned())),
    ] {
        let error = changed(change).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let codecs = |change: &dyn Fn(&mut Array)| {
        let mut other = file(2, 2, true);
        change(&mut other);
        joined(vec![file(2, 2, true), other], false).unwrap_err()
    };
    assert!(codecs(&|other| other.codecs.truncate(1)).contains("codecs or fill value"));
    assert!(codecs(&|other| other.chunk_grid = ChunkGrid::Regular(vec![2, 1])).contains("chunk"));
}

#[test]
fn a_plain_chunk_of_another_length_is_refused() {
    let mut short = file(2, 4, false);
    short.chunks.references[0].lengths = Lengths::Uniform(8);
    assert_eq!(
        joined(vec![file(3, 4, false), short], false).unwrap_err(),
        "x of 1: chunk length does not match its shape"
    );
}
