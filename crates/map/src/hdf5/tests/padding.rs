//! Variables that are shorter than an unlimited dimension. Expected values: netCDF4-python 1.7 on such variables, and the
//! `NC_FILL` constants of `netcdf.h`.

use bytes::Bytes;
use virtualize_bytes::Address;
use virtualize_hdf5::model::{
    ByteOrder, Dataset, Dataspace, Datatype, Element, FillValue as Stored, Float, Layout,
};
use virtualize_zarr::{ChunkGrid, FillValue, ZarrFormat};

use super::{attribute, chunked, codes, dataset, file, filter, float32, int, map, simple, text};
use crate::{ChunkContent, InlineTask, Mapped, PieceBytes};

/// Maps a variable `v` and the unlimited dimension `t` of length 5 and the dimension `x` of length 3. `dimensions` are those of
/// the variable: 1 for `t`, 2 for `x`.
fn mapped(mut v: Dataset, dimensions: &[u64]) -> Mapped {
    let scale = |shape: &[u64], most: Option<u64>| {
        let mut scale = dataset(int(4, true), shape);
        scale.attributes = vec![text("CLASS", "DIMENSION_SCALE")];
        scale.dataspace = Dataspace::Simple { shape: shape.to_vec(), max_shape: Some(vec![most]) };
        scale
    };
    let sequence = Datatype::Sequence { size: 16, base: Box::new(int(8, false)) };
    let label = |at: &u64| Element::List(vec![Element::Object(Some(Address(*at)))]);
    v.attributes.push(attribute("DIMENSION_LIST", sequence, dimensions.iter().map(label).collect()));
    map(&file(vec![("t", scale(&[5], None)), ("x", scale(&[3], Some(3))), ("v", v)]), ZarrFormat::V3)
}

/// A variable of this shape, all of whose chunks are stored at 1000, 1100 and so on.
fn stored(datatype: Datatype, shape: &[u64], chunk: &[u64]) -> Dataset {
    let grid = ChunkGrid::Regular(chunk.to_vec()).counts(shape);
    let bytes = u32::try_from(chunk.iter().product::<u64>() * datatype.size()).unwrap();
    let count = usize::try_from(grid.iter().product::<u64>()).unwrap();
    let mut data = dataset(datatype, shape);
    data.layout = Layout::Chunked(chunked(chunk, &grid, None, &vec![bytes; count]));
    data
}

/// The tasks of `v`: re-encoded chunks have a piece, missing ones have none.
fn tasks(mapped: &Mapped, has_piece: bool) -> Vec<&InlineTask> {
    let of_v = mapped.tasks.iter().filter(|task| task.array == "v");
    of_v.filter(|task| task.content.pieces().is_empty() != has_piece).collect()
}

/// (Position, offset) of the stored chunks, and (position, offset, extent of its piece) of the re-encoded ones.
type Chunks = (Vec<(u64, u64)>, Vec<(u64, u64, Vec<u64>)>);

fn chunks(mapped: &Mapped) -> Chunks {
    let array = mapped.hierarchy.array("v").unwrap();
    let tasks = tasks(mapped, true);
    let made = tasks.iter().flat_map(|task| &task.positions).copied().collect::<Vec<_>>();
    let references = array.chunks.references.iter().flat_map(|column| column.iter());
    let stored = references.map(|(at, found)| (at, found.offset)).filter(|(at, _)| !made.contains(at));
    let place = |content: &ChunkContent| match content.pieces() {
        [piece] => match piece.bytes {
            PieceBytes::At(range) => (range.start, piece.extent.clone()),
            PieceBytes::Here(_) => panic!("{piece:?}"),
        },
        other => panic!("{other:?}"),
    };
    let made = tasks.iter().map(|task| {
        let (offset, extent) = place(&task.content);
        (task.positions[0], offset, extent)
    });
    (stored.collect(), made.collect())
}

#[test]
fn the_last_chunk_is_re_encoded_and_the_others_move() {
    let t = mapped(stored(int(4, true), &[3], &[2]), &[1]);
    assert_eq!(t.hierarchy.array("v").unwrap().shape, [5]);
    assert_eq!(chunks(&t), (vec![(0, 1000)], vec![(1, 1100, vec![1])]));
    let whole = mapped(stored(int(4, true), &[4], &[2]), &[1]);
    assert_eq!(chunks(&whole), (vec![(0, 1000), (1, 1100)], vec![]), "it ends where a chunk does");
    // Two chunks along t become three.
    let xt = mapped(stored(int(4, true), &[3, 3], &[1, 2]), &[2, 1]);
    assert_eq!(xt.hierarchy.array("v").unwrap().shape, [3, 5]);
    let made = vec![(1, 1100, vec![1, 1]), (4, 1300, vec![1, 1]), (7, 1500, vec![1, 1])];
    assert_eq!(chunks(&xt), (vec![(0, 1000), (3, 1200), (6, 1400)], made));
    // Along x, the last chunk is used beyond the array.
    let tx = mapped(stored(int(4, true), &[3, 3], &[2, 2]), &[1, 2]);
    let made = vec![(2, 1200, vec![1, 2]), (3, 1300, vec![1, 2])];
    assert_eq!(chunks(&tx), (vec![(0, 1000), (1, 1100)], made));
    let same = mapped(stored(int(4, true), &[5], &[2]), &[1]);
    assert_eq!((chunks(&same).1.len(), codes(&same).contains(&"array-padded")), (0, false));
}

#[test]
fn filters_are_undone_before_a_chunk_is_re_encoded() {
    let mut data = stored(int(4, true), &[3], &[2]);
    data.filters = vec![filter(2, &[4]), filter(1, &[6])];
    let mapped = mapped(data, &[1]);
    assert_eq!(tasks(&mapped, true)[0].content.pieces()[0].codecs.len(), 2, "without the codec of elements");
}

#[test]
fn padding_reads_as_the_default_of_netcdf() {
    let Datatype::Float(float) = float32(ByteOrder::Little) else { panic!() };
    let double = Datatype::Float(Float {
        size: 8,
        precision: 64,
        sign_location: 63,
        exponent_location: 52,
        exponent_size: 11,
        mantissa_size: 52,
        exponent_bias: 1023,
        ..float
    });
    let fills: [(Datatype, Vec<u8>); 10] = [
        (int(1, true), (-127_i8).to_le_bytes().to_vec()),
        (int(1, false), 255_u8.to_le_bytes().to_vec()),
        (int(2, true), (-32767_i16).to_le_bytes().to_vec()),
        (int(2, false), 65535_u16.to_le_bytes().to_vec()),
        (int(4, true), (-2_147_483_647_i32).to_le_bytes().to_vec()),
        (int(4, false), 4_294_967_295_u32.to_le_bytes().to_vec()),
        (int(8, true), (-9_223_372_036_854_775_806_i64).to_le_bytes().to_vec()),
        (int(8, false), 18_446_744_073_709_551_614_u64.to_le_bytes().to_vec()),
        (float32(ByteOrder::Little), 9.969_21e36_f32.to_le_bytes().to_vec()),
        (double, 9.969_209_968_386_869e36_f64.to_le_bytes().to_vec()),
    ];
    for (datatype, expected) in fills {
        let fixed = |bytes: &[u8]| Some(FillValue::Fixed(Bytes::copy_from_slice(bytes)));
        let data = stored(datatype, &[3], &[2]);
        let mut own = data.clone();
        own.fill.value = Stored::User(vec![7; expected.len()].into());
        let fill = |data: Dataset| {
            let mapped = mapped(data, &[1]);
            let background = |task: &InlineTask| match &task.content {
                ChunkContent::Assemble { background, .. } => fixed(background),
                other => panic!("{other:?}"),
            };
            let fill = mapped.hierarchy.array("v").unwrap().fill_value.clone();
            let missing = tasks(&mapped, false).first().map_or(fill, |task| background(task));
            (background(tasks(&mapped, true)[0]), missing)
        };
        assert_eq!(fill(data), (fixed(&expected), fixed(&expected)), "the last chunk, and the one after it");
        let sevens = fixed(&vec![7; expected.len()]);
        assert_eq!(fill(own), (sevens.clone(), sevens), "the fill value of the variable");
    }
}

#[test]
fn what_cannot_be_padded_keeps_its_shape() {
    let mut sparse = stored(int(4, true), &[3], &[2]);
    sparse.layout = Layout::Chunked(chunked(&[2], &[2], Some(vec![1]), &[8]));
    let contiguous = dataset(int(4, true), &[3]);
    for (data, why) in [(sparse, "read as different values"), (contiguous, "its layout is not chunked")] {
        let mapped = mapped(data, &[1]);
        assert_eq!(mapped.hierarchy.array("v").unwrap().shape, [3], "{why}");
        let found = mapped.report.diagnostics.iter().any(|diagnostic| diagnostic.message.contains(why));
        assert!(
            found && codes(&mapped).contains(&"array-not-padded"),
            "{why}: {:?}",
            mapped.report.diagnostics
        );
    }
    let mut same = stored(int(4, true), &[3], &[2]);
    same.layout = Layout::Chunked(chunked(&[2], &[2], Some(vec![1]), &[8]));
    same.fill.value = Stored::User(Bytes::from_static(&[7; 4]));
    assert_eq!(mapped(same, &[1]).hierarchy.array("v").unwrap().shape, [5], "all read as 7");
    let mut no_axes = stored(int(4, true), &[3], &[2]);
    no_axes.dataspace = simple(&[3]);
    assert_eq!(mapped(no_axes, &[2]).hierarchy.array("v").unwrap().shape, [3], "x has an end");
}
