//! How parts of one array are stored together.

use crate::compat::signature::Stored;
use bytes::Bytes;
use serde_json::json;
use virtualize::zarr::{ChunkGrid, Codec, DataType, Endian};

use super::{super::signature::Signature, array, member};
use crate::compat::{
    roles::{DimRole, Geometry},
    signature::{ArrayParts, ChunkLayout, Misfit, Storage},
};
use crate::{Along, Layout};

fn layout(inline_limit: u64, rectilinear: bool) -> Layout {
    Layout { inline_limit, rectilinear, ..Layout::default() }
}

const GZIP: Codec = Codec::Gzip { level: 1 };
const PLAIN: Codec = Codec::Bytes { endian: Some(Endian::Little) };

#[test]
fn sizes_of_the_file_are_left_open() {
    // Shape, chunk shape, whether it is compressed, the layout; then what is left open. The file has 6 elements along the
    // dimension, which is the first axis.
    let cases = [
        ([6, 3], [2, 3], true, layout(0, false), [None, Some(3)], [Some(2), Some(3)]),
        // A compressed chunk must be as long as those of the others, unless it may be copied, or sizes may vary.
        ([6, 3], [6, 3], true, layout(0, false), [None, Some(3)], [Some(6), Some(3)]),
        ([6, 3], [6, 3], true, layout(1000, false), [None, Some(3)], [None, Some(3)]),
        ([6, 3], [6, 3], true, layout(0, true), [None, Some(3)], [None, Some(3)]),
        ([6, 3], [6, 3], false, layout(0, false), [None, Some(3)], [None, Some(3)]),
        ([6, 3], [4, 3], false, layout(0, false), [None, Some(3)], [Some(4), Some(3)]),
        // Another length than the file's.
        ([5, 3], [5, 3], false, layout(0, false), [Some(5), Some(3)], [None, Some(3)]),
        // An axis that does not grow, of the same length.
        ([6, 6], [6, 6], false, layout(0, false), [None, Some(6)], [None, Some(6)]),
    ];
    for (shape, chunk, is_compressed, layout, open, open_chunk) in cases {
        let case = format!("{shape:?} {chunk:?} {is_compressed}");
        let axes = [("time", shape[0], chunk[0]), ("x", shape[1], chunk[1])];
        let mut file = array(DataType::Int16, &axes, json!({}));
        file.codecs = if is_compressed { vec![PLAIN, GZIP] } else { vec![PLAIN] };
        let roles = [DimRole::Axis(0)];
        let stored = Stored::of(&file, &roles, &layout, vec!["codec".to_owned()], &[6]);
        let expected = Stored {
            roles: roles.into(),
            shape: open.into(),
            chunks: Some(open_chunk.into()),
            codecs: vec!["codec".to_owned()],
            element: 2,
            is_plain: !is_compressed,
            is_read: layout.inline_limit > 0,
        };
        assert_eq!(stored, expected, "{case}");
        // The length of the file supplies what was left open.
        let is_read = layout.inline_limit > 0;
        let (shape, chunk) = (shape.to_vec(), Some(chunk.to_vec()));
        let part = ChunkLayout { shape, chunk, fits: true, is_read };
        assert_eq!(stored.chunk_layout(&[6], true), Some(part), "{case}");
        assert_eq!(stored.chunk_layout(&[], true).is_none(), open.contains(&None), "{case}");
    }
}

/// Chunk sizes that files must agree in; `None` for any. Plain elements can be sliced along the axis that grows, if those
/// before it have chunks of one element.
#[test]
fn chunk_sizes_that_must_agree() {
    let along = |axes: [&str; 2], chunk: [u64; 2], codecs: &[Codec], layout: &Layout| {
        let axes = [(axes[0], 6, chunk[0]), (axes[1], 6, chunk[1])];
        let mut file = member(0, 6);
        let mut array = array(DataType::Int16, &axes, json!({}));
        array.codecs = codecs.to_vec();
        *file.hierarchy.array_mut("t2m").unwrap() = array;
        let signed = Signature::of(&file, layout).arrays.remove("t2m").unwrap();
        signed.chunks.unwrap().iter().map(serde_json::Value::as_u64).collect::<Vec<_>>()
    };
    let concat = |names: &[&str], rectilinear, inline_limit| Layout {
        rectilinear,
        inline_limit,
        ..Layout::along(names.iter().map(|name| Along::Concat((*name).to_owned())).collect())
    };
    let time = || concat(&["time"], false, 0);
    let (plain, packed) = (&[PLAIN][..], &[PLAIN, GZIP][..]);
    for (axes, chunk, codecs, layout, expected) in [
        (["time", "x"], [2, 3], packed, time(), [Some(2), Some(3)]),
        (["time", "x"], [2, 3], plain, time(), [None, Some(3)]),
        (["x", "time"], [1, 3], plain, time(), [Some(1), None]),
        (["x", "time"], [2, 3], plain, time(), [Some(2), Some(3)]),
        (["time", "x"], [2, 3], packed, concat(&["time"], true, 0), [None, Some(3)]),
        (["time", "x"], [2, 3], packed, concat(&["time"], false, 1000), [None, None]),
        (["time", "x"], [1, 1], plain, concat(&["time", "x"], false, 0), [Some(1), Some(1)]),
    ] {
        let case = format!("{axes:?} {chunk:?} {}", codecs.len());
        assert_eq!(along(axes, chunk, codecs, &layout), expected, "{case}");
    }
}

#[test]
fn sizes_that_vary_and_elements_that_have_none() {
    let mut file = array(DataType::String, &[("time", 6, 6)], json!({}));
    file.chunks.inline.insert(0, Bytes::from_static(b"text"));
    file.chunk_grid = ChunkGrid::Rectilinear(vec![vec![2, 4]]);
    let stored = Stored::of(&file, &[DimRole::NewAxis, DimRole::Axis(0)], &layout(0, false), vec![], &[1, 6]);
    assert_eq!((stored.shape.as_slice(), &stored.chunks, stored.element), (&[None][..], &None, 0));
    assert!(!stored.is_plain && !stored.is_read);
    let part = stored.chunk_layout(&[1, 8], false).unwrap();
    assert_eq!(part, ChunkLayout { shape: vec![8], chunk: None, fits: false, is_read: false });
}

/// Files along the first axis, which grows, of these shapes and chunks.
struct Case {
    role: Vec<DimRole>,
    parts: Vec<ChunkLayout>,
    is_plain: bool,
}

fn part(shape: [u64; 2], chunk: [u64; 2]) -> ChunkLayout {
    ChunkLayout { shape: shape.into(), chunk: Some(chunk.into()), fits: true, is_read: false }
}

/// Compressed files that grow along an axis.
fn along(axis: usize, parts: impl IntoIterator<Item = ([u64; 2], [u64; 2])>) -> Case {
    let parts = parts.into_iter().map(|(shape, chunk)| part(shape, chunk)).collect();
    Case { role: vec![DimRole::Axis(axis)], parts, is_plain: false }
}

impl Case {
    fn plain(self) -> Self {
        Self { is_plain: true, ..self }
    }

    fn with(mut self, change: impl Fn(usize, &mut ChunkLayout)) -> Self {
        self.parts.iter_mut().enumerate().for_each(|(n, part)| change(n, part));
        self
    }

    fn geometry(&self) -> Geometry {
        let DimRole::Axis(axis) = self.role[0] else { panic!("an axis that grows") };
        let sizes: Vec<u64> = self.parts.iter().map(|part| part.shape[axis]).collect();
        let sizes = vec![sizes.as_slice(); self.role.len()];
        let names = ["y", "x"].map(|name| Some(name.to_owned()));
        let dimensions: Vec<String> = self.role.iter().map(|role| format!("{role:?}")).collect();
        Geometry::new(&self.role, &self.parts[0].shape, &names, &dimensions, &sizes).unwrap()
    }

    fn storage(&self, rectilinear: bool) -> Result<Storage, Misfit> {
        let layouts = self.parts.iter().collect();
        let parts = ArrayParts { always_copied: false, is_plain: self.is_plain, layouts };
        parts.storage(&self.geometry(), rectilinear)
    }
}

/// By the Zarr specifications: all chunks of a regular grid have one shape, and only those at the end may pass it.
#[test]
fn whole_chunks_of_one_shape_are_a_grid() {
    let grid = |chunk: [u64; 2]| Ok(Storage::Regular(chunk.into()));
    let cases = [
        (along(0, [([4, 3], [2, 3]), ([2, 3], [2, 3])]), grid([2, 3])),
        (along(0, [([4, 3], [2, 3]), ([3, 3], [2, 3])]), grid([2, 3])),
        (along(0, [([3, 3], [2, 3]), ([4, 3], [2, 3])]), Err(Misfit::Chunks)),
        (along(0, [([3, 3], [2, 3])]), grid([2, 3])),
        (along(1, [([3, 4], [2, 2]), ([3, 3], [2, 2])]), grid([2, 2])),
        (along(1, [([3, 3], [2, 2]), ([3, 4], [2, 2])]), Err(Misfit::Chunks)),
        (along(0, [([4, 3], [2, 3]), ([4, 3], [4, 3])]), Err(Misfit::Chunks)),
        (along(0, [([4, 3], [2, 3]), ([4, 3], [2, 2])]), Err(Misfit::Chunks)),
    ];
    for (n, (case, expected)) in cases.into_iter().enumerate() {
        assert_eq!(case.storage(false), expected, "case {n}");
    }
}

#[test]
fn parts_that_do_not_fit_are_copied_if_all_were_read() {
    let uneven = || along(0, [([3, 3], [2, 3]), ([4, 3], [2, 3])]);
    let read = |how: fn(usize) -> bool| uneven().with(move |n, part| part.is_read = how(n)).storage(true);
    assert_eq!(read(|_| true), Ok(Storage::Copied));
    assert_eq!(read(|n| n == 0), Err(Misfit::Chunks));
    let even = || along(0, [([4, 3], [2, 3]), ([4, 3], [2, 3])]);
    assert_eq!(even().with(|_, part| part.is_read = true).storage(false), Ok(Storage::Regular(vec![2, 3])));
    assert_eq!(even().with(|n, part| part.fits = n == 0).storage(false), Err(Misfit::Codecs));
    let copied = even().with(|n, part| (part.fits, part.is_read) = (n == 0, true));
    assert_eq!(copied.storage(false), Ok(Storage::Copied));
    let always = |case: &Case| {
        let parts = ArrayParts { always_copied: true, is_plain: false, layouts: case.parts.iter().collect() };
        parts.storage(&case.geometry(), false)
    };
    assert_eq!(always(&copied), Ok(Storage::Copied));
    assert_eq!(always(&even()), Err(Misfit::NotRead));
}

/// A slice must be one run of bytes in each chunk: axes before the one that grows have chunks of one element.
#[test]
fn plain_chunks_are_divided_by_the_greatest_common_divisor() {
    let sliced = |axis, step| Ok(Storage::Sliced { axis, step });
    let cases = [
        // The divisor of chunks 6 and 4, and of the first length, 6.
        (along(0, [([6, 3], [6, 3]), ([4, 3], [4, 3])]), sliced(0, 2)),
        // The last file may have any length.
        (along(0, [([4, 3], [2, 3]), ([6, 3], [4, 3]), ([3, 3], [8, 3])]), sliced(0, 2)),
        (along(0, [([5, 3], [5, 3]), ([4, 3], [4, 3])]), sliced(0, 1)),
        (along(1, [([3, 6], [1, 6]), ([3, 4], [1, 4])]), sliced(1, 2)),
        (along(1, [([3, 6], [2, 6]), ([3, 4], [2, 4])]), Err(Misfit::Chunks)),
        (along(1, [([3, 6], [1, 6]), ([3, 4], [2, 4])]), Err(Misfit::Chunks)),
        // Chunks of other sizes along the other axis.
        (along(0, [([6, 3], [6, 3]), ([4, 3], [4, 2])]), Err(Misfit::Chunks)),
        (along(0, [([6, 3], [6, 2]), ([4, 3], [4, 2])]), sliced(0, 2)),
        // A chunk without elements.
        (along(0, [([6, 3], [6, 0]), ([4, 3], [4, 0])]), Err(Misfit::Chunks)),
        (along(0, [([6, 3], [6, 3]), ([0, 3], [0, 3])]), Err(Misfit::Chunks)),
    ];
    for (n, (case, expected)) in cases.into_iter().enumerate() {
        assert_eq!(case.plain().storage(false), expected, "case {n}");
    }
    let two = |chunk: Option<Vec<u64>>| {
        let case = along(0, [([6, 3], [6, 3]), ([4, 3], [4, 3])]).plain();
        let change = |n, part: &mut ChunkLayout| {
            if n == 1 {
                part.chunk.clone_from(&chunk);
            }
        };
        case.with(change).storage(false)
    };
    assert_eq!(two(None), Err(Misfit::Chunks), "chunk sizes vary within a file");
    assert_eq!(two(Some(vec![4])), Err(Misfit::Chunks), "another number of axes");
    assert_eq!(two(Some(vec![4, 3])), sliced(0, 2));
}

#[test]
fn slices_are_limited() {
    let of = |first: u64, last: u64, chunk: u64| {
        along(0, [([first, 1], [chunk, 1]), ([last, 1], [1, 1])]).plain().storage(false)
    };
    assert_eq!(of(19_999_999, 1, 7), Ok(Storage::Sliced { axis: 0, step: 1 }), "20 million slices");
    assert_eq!(of(20_000_000, 1, 7), Err(Misfit::Chunks));
    let twice = along(0, [([40_000_000, 1], [40_000_000, 1]), ([1, 1], [2, 1])]).plain().storage(false);
    assert_eq!(twice, Ok(Storage::Sliced { axis: 0, step: 2 }), "a step that is not whole counts little");
}

/// By the extension `rectilinear`: sizes vary along one axis, and add up to the shape along each.
#[test]
fn grids_of_varying_sizes() {
    let varying = || Ok(Storage::Rectilinear);
    let cases = [
        (along(0, [([6, 3], [6, 3]), ([4, 3], [4, 3])]), varying()),
        (along(0, [([6, 4], [2, 2]), ([4, 4], [4, 2])]), varying()),
        // HDF5 stores the chunk at the edge with its full size.
        (along(0, [([6, 3], [6, 3]), ([4, 3], [3, 3])]), Err(Misfit::Chunks)),
        (along(0, [([6, 3], [6, 3]), ([4, 3], [8, 3])]), Err(Misfit::Chunks)),
        // The other axis is not divided into whole chunks.
        (along(0, [([6, 3], [6, 2]), ([4, 3], [4, 2])]), Err(Misfit::Chunks)),
        (along(0, [([6, 3], [6, 3]), ([4, 3], [4, 1])]), Err(Misfit::Chunks)),
        (along(0, [([6, 3], [6, 3]), ([0, 3], [0, 3])]), Err(Misfit::Chunks)),
        (along(1, [([4, 6], [2, 6]), ([4, 4], [2, 4])]), varying()),
        (along(1, [([3, 6], [2, 6]), ([3, 4], [2, 4])]), Err(Misfit::Chunks)),
    ];
    for (n, (case, expected)) in cases.into_iter().enumerate() {
        assert_eq!(case.storage(true), expected, "case {n}");
        assert_eq!(case.storage(false), Err(Misfit::Chunks), "case {n} without varying sizes");
    }
    // A chunk of plain elements that passes the file's end is referred to in part.
    let passing = || along(0, [([6, 3], [6, 3]), ([4, 3], [8, 3])]).plain();
    assert_eq!(passing().storage(true), varying());
    assert_eq!(passing().with(|n, part| part.fits = n == 0).storage(true), Err(Misfit::Codecs));
    let mut grown = along(0, [([6, 3], [6, 3]), ([4, 3], [4, 3])]);
    grown.role.push(DimRole::Axis(1));
    assert_eq!(grown.storage(true), Err(Misfit::Chunks), "along one axis only");
    let mut stacked = along(0, [([6, 3], [6, 3]), ([4, 3], [4, 3])]);
    stacked.role.push(DimRole::NewAxis);
    assert_eq!(stacked.storage(true), varying(), "a new axis is divided into single elements");
}
