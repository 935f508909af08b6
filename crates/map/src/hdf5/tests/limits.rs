//! Why chunks are made, and how many bytes may be.

use virtualize_bytes::{Budget, Limits};
use virtualize_hdf5::model::{
    ByteOrder, CharacterSet, Dataset, Datatype, Float, Integer, Layout, Selection, Slab, StringPadding,
    VirtualMapping,
};
use virtualize_zarr::{ChunkGrid, Source, ZarrFormat};

use super::{chunked, compound, dataset, file, filter, float32, int, map};
use crate::MapOptions;
use crate::hdf5::{OtherFiles, map_file_among};

/// Returns the chunk shape of a virtual dataset of `x` in the same file with this inline limit, or why it is refused.
fn of_x(
    x: &Dataset,
    shape: &[u64],
    to: &[Slab],
    from: &[Slab],
    inline_limit: u64,
) -> Result<Vec<u64>, String> {
    let mut v = dataset(int(4, true), shape);
    v.layout = Layout::Virtual(vec![VirtualMapping {
        file: ".".to_owned(),
        dataset: "x".to_owned(),
        source: Selection::Regular(from.to_vec()),
        destination: Selection::Regular(to.to_vec()),
    }]);
    let options = MapOptions { inline_limit, format: ZarrFormat::V3, ..MapOptions::default() };
    let budget = Budget::of_file(&Limits::default(), 0);
    let source = Source { url: "file:///f.h5".to_owned(), ..Source::default() };
    let file = file(vec![("v", v), ("x", x.clone())]);
    let mapped = map_file_among(&file, source, &OtherFiles::default(), &options, &budget);
    match mapped.hierarchy.array("v").map(|array| &array.chunk_grid) {
        Some(ChunkGrid::Regular(chunk)) => Ok(chunk.clone()),
        _ => Err(mapped.report.arrays["v"].omitted.clone().unwrap()),
    }
}

fn slab(start: u64, stride: u64, count: u64, block: u64) -> Slab {
    Slab { start, stride, count: Some(count), block: Some(block) }
}

fn of_chunks(shape: &[u64], chunk: &[u64], filters: bool) -> Dataset {
    let mut x = dataset(int(4, true), shape);
    let grid = ChunkGrid::Regular(chunk.to_vec()).counts(shape);
    let bytes = u32::try_from(chunk.iter().product::<u64>() * 4).unwrap();
    let count = usize::try_from(grid.iter().product::<u64>()).unwrap();
    x.layout = Layout::Chunked(chunked(chunk, &grid, None, &vec![bytes; count]));
    x.filters = if filters { vec![filter(1, &[6])] } else { Vec::new() };
    x
}

#[test]
fn what_is_decoded_is_at_most_a_multiple_of_the_limit() {
    // A column: each of its two elements needs a chunk of 400 bytes, so 800 in all, which is 16 times 50.
    let x = of_chunks(&[2, 100], &[1, 100], true);
    let column = |limit| of_x(&x, &[2], &[slab(0, 1, 1, 2)], &[slab(0, 1, 1, 2), slab(3, 1, 1, 1)], limit);
    assert_eq!(column(50), Ok(vec![1]));
    assert!(column(49).unwrap_err().contains("what 800 bytes decode to"));
    // Two elements of one chunk need it once.
    let x = of_chunks(&[2, 100], &[2, 100], true);
    let column = |limit| of_x(&x, &[2], &[slab(0, 1, 1, 2)], &[slab(0, 1, 1, 2), slab(3, 1, 1, 1)], limit);
    assert_eq!(column(50), Ok(vec![2]));
}

#[test]
fn compact_sources_count_as_often_as_they_are_carried() {
    let mut x = dataset(int(4, true), &[100]);
    x.layout = Layout::Compact(vec![1; 400].into());
    let whole = |limit| of_x(&x, &[100], &[slab(0, 1, 1, 100)], &[slab(0, 1, 1, 100)], limit);
    assert_eq!(whole(400), Ok(vec![100]));
    assert!(whole(399).unwrap_err().contains("400 bytes"));
    // 50 pieces of 400 bytes are 16 times 1250.
    let every_other = |limit| of_x(&x, &[100], &[slab(0, 2, 50, 1)], &[slab(0, 1, 1, 50)], limit);
    assert_eq!(every_other(1250), Ok(vec![100]));
    assert!(every_other(1249).unwrap_err().contains("pieces of 20000 bytes"));
}

/// The second half of a row of contiguous data.
#[test]
fn contiguous_data_is_cut_along_its_first_axis_of_several_elements() {
    let x = dataset(int(4, true), &[1, 8]);
    let half = of_x(&x, &[4], &[slab(0, 1, 1, 4)], &[slab(0, 1, 1, 1), slab(4, 1, 1, 4)], 0);
    assert_eq!(half, Ok(vec![4]), "nothing is inlined");
}

#[test]
fn small_arrays_of_many_chunks_become_one() {
    let of = |count: u64, limit| {
        let all = [slab(0, 1, 1, count)];
        of_x(&of_chunks(&[count], &[1], false), &[count], &all, &all, limit)
    };
    assert_eq!(of(10_000, 1 << 20), Ok(vec![1]));
    assert_eq!(of(10_001, 40_004), Ok(vec![10_001]));
    assert_eq!(of(10_001, 40_003), Ok(vec![1]));
}

#[test]
fn selections_without_end_are_not_planned() {
    let x = dataset(int(4, true), &[4]);
    let (one, endless) = ([slab(0, 1, 1, 4)], [Slab { count: None, ..slab(0, 1, 1, 1) }]);
    for (to, from) in [(&one, &endless), (&endless, &one)] {
        assert!(of_x(&x, &[4], to, from, 1 << 20).unwrap_err().contains("unlimited"));
    }
}

#[test]
fn reasons_for_making_chunks() {
    let string = |padding| Datatype::String { size: 4, padding, charset: CharacterSet::Ascii };
    let narrow = Datatype::Integer(Integer {
        size: 4,
        order: ByteOrder::Little,
        signed: true,
        bit_offset: 0,
        precision: 12,
    });
    let Datatype::Float(float) = float32(ByteOrder::Little) else { panic!() };
    let odd = Datatype::Float(Float { exponent_bias: 100, ..float });
    let long = Datatype::Float(Float {
        size: 16,
        exponent_size: 15,
        sign_location: 127,
        exponent_bias: 16383,
        ..float
    });
    let boolean = Datatype::Enum {
        base: Box::new(int(2, true)),
        members: vec![("FALSE".to_owned(), vec![0, 0]), ("TRUE".to_owned(), vec![1, 0])],
    };
    let with = |size, offset, other| compound(size, &[("a", 0, int(4, true)), ("b", offset, other)]);
    let rows = [
        (with(8, 4, int(4, true)), None),
        (with(12, 8, int(4, true)), Some("members of the compound leave gaps")),
        (with(8, 4, float32(ByteOrder::Big)), Some("members of the compound differ in byte order")),
        (with(8, 4, narrow.clone()), Some("members of the compound are converted")),
        (
            with(8, 4, string(StringPadding::SpacePadded)),
            Some("its strings are null-terminated or space-padded"),
        ),
        (string(StringPadding::NullPadded), None),
        (string(StringPadding::NullTerminated), Some("its strings are null-terminated or space-padded")),
        (narrow, Some("integers have unused bits")),
        (boolean, Some("booleans have more than one byte")),
        (odd, Some("floats are not in an IEEE 754 format")),
        (long, Some("floats have more than 64 bits")),
    ];
    for (datatype, expected) in rows {
        let mapped = map(&file(vec![("v", dataset(datatype.clone(), &[2]))]), ZarrFormat::V3);
        let messages: Vec<_> = mapped.report.diagnostics.iter().map(|found| found.message.as_str()).collect();
        match expected {
            None => assert_eq!(messages, [""; 0], "{datatype:?}"),
            Some(why) => assert!(messages[0].contains(why), "{datatype:?}: {messages:?}"),
        }
    }
}

/// imagecodecs takes the last axis of more than two for the components, FCIDECOMP the first.
#[test]
fn images_of_several_components_are_made() {
    let is_referenced = |shape: &[u64]| {
        let mut data = of_chunks(shape, shape, false);
        (data.datatype, data.filters) = (int(2, false), vec![filter(32018, &[])]);
        !map(&file(vec![("v", data)]), ZarrFormat::V2).hierarchy.array("v").unwrap().chunks.is_empty()
    };
    let found = [&[4, 5][..], &[1, 4, 5], &[2, 4, 5]].map(is_referenced);
    assert_eq!(found, [true, true, false]);
}
