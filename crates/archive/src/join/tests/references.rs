//! Tests the positions of chunks in the combined grid.

use serde_json::json;
use virtualize::zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Lengths, References, SourceId,
};

use super::super::{
    accumulate::{Growing, Read},
    grid::grid,
    references,
};
use super::{array, read};
use crate::compat::{
    DimRole,
    storage::{Storage, StorageOptions},
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
            offsets: (0..count).map(|at| 1000 + at * chunk * ROW).collect(),
            lengths: Lengths::Uniform(chunk * ROW),
        }],
        ..ChunkManifest::default()
    };
    one
}

fn growing(files: Vec<Array>) -> Growing {
    let mut all = Growing::new(&files[0], "0".into(), vec![DimRole::Axis(0)], false, false);
    for (at, mut file) in files.into_iter().enumerate() {
        for references in &mut file.chunks.references {
            references.source = SourceId(u32::try_from(at).unwrap());
        }
        all.add(&[at], &at.to_string().into(), file, read(None)).unwrap();
    }
    all
}

/// Chunk grid, and source, offset and length of each chunk in order.
type Joined = (ChunkGrid, Vec<(u32, u64, u64)>);

fn joined(files: Vec<Array>, rectilinear: bool) -> Result<Joined, String> {
    let sizes: Vec<u64> = files.iter().map(|file| file.shape[0]).collect();
    let mut growing = growing(files);
    let geometry = growing.geometry(&["time".to_owned()], &[&sizes]).unwrap();
    let storing = growing
        .parts()
        .storage(&geometry, StorageOptions { rectilinear, inline_limit: 0 })
        .map_err(|problem| problem.to_string())?;
    assert_ne!(storing, Storage::Copied);
    let grid = grid(&storing, &growing, &geometry).unwrap();
    let counts = grid.counts(&geometry.shape());
    let chunks =
        references::join(&mut growing, &geometry, &storing, &counts).ok_or("a chunk of another length")?;
    let mut found: Vec<_> = chunks
        .references
        .iter()
        .flat_map(|column| column.iter().map(|(at, one)| (at, (column.source.0, one.offset, one.length))))
        .collect();
    found.sort_unstable();
    let positions: Vec<u64> = found.iter().map(|(at, _)| *at).collect();
    assert_eq!(positions, (0..counts.iter().product()).collect::<Vec<_>>());
    Ok((grid, found.into_iter().map(|(_, one)| one).collect()))
}

#[test]
fn whole_chunks_stand_beside_each_other() {
    let (grid, chunks) = joined(vec![file(4, 2, true), file(2, 2, true), file(3, 2, true)], false).unwrap();
    assert_eq!(grid, ChunkGrid::Regular(vec![2, 2]));
    let offsets: Vec<_> = chunks.iter().map(|one| (one.0, one.1)).collect();
    assert_eq!(offsets, [(0, 1000), (0, 1016), (1, 1000), (2, 1000), (2, 1016)]);
}

#[test]
fn only_the_last_file_may_end_within_a_chunk() {
    let error = joined(vec![file(3, 2, true), file(4, 2, true)], false).unwrap_err();
    assert!(
        error.contains("3 elements along time in 0 are no whole number of chunks, which have 2"),
        "{error}"
    );
    let error = joined(vec![file(3, 2, true), file(4, 2, true)], true).unwrap_err();
    assert!(error.contains("no whole number"), "{error}");
    let error = joined(vec![file(4, 4, true), file(2, 2, true)], false).unwrap_err();
    assert!(error.contains("chunks of 2 elements along time in 1, and of 4 before"), "{error}");
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
    let changed = |change: &dyn Fn(&mut Array)| {
        let mut other = file(2, 2, true);
        change(&mut other);
        let mut growing = Growing::new(&file(2, 2, true), "0".into(), vec![DimRole::Axis(0)], false, false);
        let optional = || Read { is_optional: true, ..read(None) };
        growing.add(&[0], &"0".into(), file(2, 2, true), optional()).unwrap();
        growing.add(&[1], &"1".into(), other, optional())
    };
    assert_eq!(changed(&|other| other.codecs[1] = Codec::Zlib { level: 9 }), Ok(()));
    for (what, change) in [
        ("data type", &(|other: &mut Array| other.data_type = DataType::Float32) as &dyn Fn(&mut Array)),
        ("fill value none", &|other| other.fill_value = None),
        ("fill value", &|other| other.fill_value = FillValue::from_i128(&DataType::Int32, 7).exact()),
        ("scale_factor", &|other| {
            other.attributes.insert("scale_factor".to_owned(), 0.1.into());
        }),
        ("_FillValue", &|other| {
            other.attributes.insert("_FillValue".to_owned(), 7.into());
        }),
        ("sizes (time, x 3), and (time, x 2) before", &|other| other.shape[1] = 3),
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
    assert_eq!(joined(vec![file(3, 4, false), short], false).unwrap_err(), "a chunk of another length");
}
