use serde_json::json;
use virtualize_zarr::ChunkManifest;
use virtualize_zarr::Group;
use virtualize_zarr::Lengths;
use virtualize_zarr::References;
use virtualize_zarr::SourceId;
use virtualize_zarr::ZarrFormat;

use crate::hdf5::tests::dataset;
use crate::hdf5::tests::int;
use crate::hdf5::tests::one;
use crate::hdf5::*;

/// What a node holds needs so much memory at least.
#[test]
fn the_weight_of_a_node_is_not_less_than_its_memory() {
    const VALUE: u64 = size_of::<serde_json::Value>() as u64;
    let long = "x".repeat(10_000);
    for (value, needed) in [
        (json!(long), 10_000),
        (json!([long, [long]]), 20_000 + 4 * VALUE),
        (json!({"a": long, (long.clone()): 1}), 20_000 + 3 * VALUE),
        (json!([1, 2, 3, null]), 5 * VALUE),
    ] {
        let weight_of = |value: &serde_json::Value| {
            let attributes = [("a".to_owned(), value.clone())].into_iter().collect();
            weight(&Node::Group(Group { attributes, ..Group::default() }), "g")
        };
        let (weight, empty) = (weight_of(&value), weight(&Node::Group(Group::default()), "g"));
        assert!(weight - empty >= needed && weight - empty <= 8 * needed, "{weight} for {needed}");
    }
    let chunks = |count: usize| {
        let offsets = vec![0; count].into();
        let lengths = Lengths::Uniform(1);
        let references = References { source: SourceId(0), positions: None, offsets, lengths };
        let (mut array, _) = one(dataset(int(4, true), &[2]), ZarrFormat::V3);
        array.chunks = ChunkManifest::of(references);
        weight(&Node::Array(Box::new(array)), &"p".repeat(400))
    };
    let one = (chunks(1001) - chunks(1)) / 1000;
    assert!((100..=500).contains(&one), "{one} bytes for a chunk whose key has 400 bytes");
}
