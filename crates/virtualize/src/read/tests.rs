use virtualize_zarr::{ChunkGrid, ChunkManifest, Codec, FillValue, Group, Hierarchy, Node, ZarrFormat};

use super::*;

/// An array of `uint16` with inline chunks.
fn array(shape: &[u64], grid: ChunkGrid, codecs: Vec<Codec>, chunks: &[(u64, &[u16])]) -> Array {
    let bytes = |chunk: &[u16]| chunk.iter().flat_map(|n| n.to_be_bytes()).collect::<Bytes>();
    let inline = chunks.iter().map(|(at, chunk)| (*at, bytes(chunk))).collect();
    Array {
        shape: shape.to_vec(),
        data_type: DataType::UInt16,
        chunk_grid: grid,
        fill_value: Some(FillValue::Fixed(Bytes::from_static(&[9, 0]))),
        codecs: codecs.into_iter().chain([Codec::Bytes { endian: Some(Endian::Big) }]).collect(),
        dimension_names: vec![None; shape.len()],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest { inline, ..ChunkManifest::default() },
    }
}

fn read(array: Array) -> Result<Vec<u16>, String> {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.root = Group::default();
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    let store = VirtualStore::of(hierarchy, "memory");
    let values = futures::executor::block_on(read_array(&store, "a", &StoreOptions::default()));
    let bytes = values.map_err(|error| error.to_string())?.bytes;
    Ok(bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect())
}

#[test]
fn chunks_at_the_edges_stick_out_and_missing_ones_read_as_the_fill_value() {
    let chunks: [(u64, &[u16]); 3] = [(0, &[1, 2, 4, 5]), (1, &[3, 0, 6, 0]), (3, &[8, 0, 0, 0])];
    let array = array(&[3, 3], ChunkGrid::Regular(vec![2, 2]), Vec::new(), &chunks);
    assert_eq!(read(array).unwrap(), [1, 2, 3, 4, 5, 6, 9, 9, 8]);
}

#[test]
fn chunks_of_several_sizes() {
    let grid = ChunkGrid::Rectilinear(vec![vec![1, 2], vec![2, 1]]);
    let chunks: [(u64, &[u16]); 3] = [(0, &[1, 2]), (2, &[4, 5, 7, 8]), (3, &[6, 3])];
    assert_eq!(read(array(&[3, 3], grid, Vec::new(), &chunks)).unwrap(), [1, 2, 9, 4, 5, 6, 7, 8, 3]);
}

/// `np.arange(6).reshape(1, 2, 3).transpose(2, 0, 1)` is stored for the order (2, 0, 1).
#[test]
fn axes_are_moved_back() {
    let order = Codec::Transpose { order: vec![2, 0, 1] };
    let chunks: [(u64, &[u16]); 1] = [(0, &[0, 3, 1, 4, 2, 5])];
    let moved = array(&[1, 2, 3], ChunkGrid::Regular(vec![1, 2, 3]), vec![order], &chunks);
    assert_eq!(read(moved).unwrap(), [0, 1, 2, 3, 4, 5]);
    // The order (1, 0) twice is the identity; so is (1, 2, 0) after (2, 0, 1).
    let orders = vec![Codec::Transpose { order: vec![2, 0, 1] }, Codec::Transpose { order: vec![1, 2, 0] }];
    let chunks: [(u64, &[u16]); 1] = [(0, &[0, 1, 2, 3, 4, 5])];
    let back = array(&[1, 2, 3], ChunkGrid::Regular(vec![1, 2, 3]), orders, &chunks);
    assert_eq!(read(back).unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn scalars_and_nothing() {
    let chunks: [(u64, &[u16]); 1] = [(0, &[7])];
    assert_eq!(read(array(&[], ChunkGrid::Regular(vec![]), Vec::new(), &chunks)).unwrap(), [7]);
    let none = array(&[0, 3], ChunkGrid::Regular(vec![1, 3]), Vec::new(), &[]);
    assert_eq!(read(none).unwrap(), [0_u16; 0]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refusal = |array| read(array).unwrap_err();
    let chunks: [(u64, &[u16]); 1] = [(1, &[7, 8])];
    let grid = || ChunkGrid::Regular(vec![2]);
    assert!(refusal(array(&[2], grid(), Vec::new(), &chunks)).contains("position 1 is outside"));
    assert!(refusal(array(&[2, 2], grid(), Vec::new(), &[])).contains("2 axes, and a chunk grid of 1"));
    let short: [(u64, &[u16]); 1] = [(0, &[7])];
    assert!(refusal(array(&[2], grid(), Vec::new(), &short)).contains("chunk 0: chunk decodes to 2 bytes"));
    let order = Codec::Transpose { order: vec![1] };
    assert!(refusal(array(&[2], grid(), vec![order], &[])).contains("not an order of 1 axes"));
    assert!(refusal(array(&[1 << 40], grid(), Vec::new(), &[])).contains("at most 268435456 are read"));
    assert!(
        refusal(array(&[u64::MAX, 9], ChunkGrid::Regular(vec![1, 1]), Vec::new(), &[])).contains("too many")
    );
    let large = array(&[1], ChunkGrid::Regular(vec![1 << 40]), Vec::new(), &short);
    assert!(refusal(large).contains("a chunk has"));
}

#[test]
fn a_digest_is_of_type_shape_and_bytes() {
    let of = |shape: &[u64], data_type, bytes: &'static [u8]| {
        digest(&ArrayValues { shape: shape.to_vec(), data_type, bytes: Bytes::from_static(bytes) })
    };
    let one = of(&[2], DataType::Int16, b"abcd");
    // printf 'int16\n[2]\nabcd' | sha256sum
    assert_eq!(one, "5cb66589dfcb89329830320d1526b1cd8dd72ca69cd518699e14381e878419b1");
    assert_ne!(one, of(&[2], DataType::UInt16, b"abcd"));
    assert_ne!(one, of(&[1, 2], DataType::Int16, b"abcd"));
    assert_ne!(one, of(&[2], DataType::Int16, b"abce"));
}

/// A chunk at the edge is whole and in row-major order, whatever the array's order of axes.
#[test]
fn single_chunks() {
    let order = Codec::Transpose { order: vec![1, 0] };
    let chunks: [(u64, &[u16]); 1] = [(1, &[1, 4, 2, 5, 3, 6])];
    let array = array(&[2, 4], ChunkGrid::Regular(vec![2, 3]), vec![order], &chunks);
    let stored = array.chunks.inline.get(&1).unwrap().clone();
    assert_eq!((chunk_size(&array, 1), chunk_size(&array, 2)), (Some(12), None));
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    let store = VirtualStore::of(hierarchy, "memory");
    let decode = |path, position, most| decode_chunk(&store, path, position, &stored, most);
    let bytes = decode("a", 1, 12).unwrap();
    let numbers: Vec<u16> = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    for (path, position, most) in [("a", 1, 11), ("a", 2, 12), ("b", 1, 12)] {
        assert!(decode(path, position, most).is_err());
    }
}
