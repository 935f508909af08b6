//! An output that is extended equals one that is written anew, and is replaced only if it is as it was written.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, fs, path::Path};

use futures::executor::block_on;
use virtualize::zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, HierarchyChunks, Lengths, Node,
    References, Source, SourceId,
};
use virtualize::{
    Destination, Error, Format, Relocation, Rewrite, StoreError, StoreOptions, VirtualStore, prepare_chunks,
    prepare_extension,
};

/// A store of `files` files with one chunk each.
fn store(format: Format, files: u64) -> VirtualStore {
    let source = |file| Source { url: format!("file:///data/{file}.nc"), ..Source::default() };
    let column = |file| References {
        source: SourceId(u32::try_from(file).unwrap()),
        positions: Some(vec![file].into()),
        offsets: vec![100].into(),
        lengths: Lengths::Uniform(8),
    };
    let array = Array {
        shape: vec![files],
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![1]),
        fill_value: Some(FillValue::zero(&DataType::UInt8)),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: vec![Some("time".to_owned())],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest { references: (0..files).map(column).collect(), ..ChunkManifest::default() },
    };
    let mut hierarchy = Hierarchy::new(format.zarr_format());
    hierarchy.root.children.insert("a".to_owned(), Node::Array(Box::new(array)));
    hierarchy.sources = (0..files).map(source).collect();
    VirtualStore::of(hierarchy, "test")
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => {
                found.extend(files(&path).into_iter().map(|(key, bytes)| (format!("{name}/{key}"), bytes)))
            }
            false => drop(found.insert(name, fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn extended_folders_equal_complete_ones() {
    let rule = Relocation::Rewrite(vec![Rewrite::parse("/data=s3://bucket").unwrap()]);
    let parquet = Format::KERCHUNK_PARQUET.with_record_size(10.try_into().unwrap());
    for (format, relocation) in [(Format::ZARR3, &Relocation::Keep), (parquet, &rule)] {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        let options = StoreOptions::default();
        let write = |store: &VirtualStore, target: &str| {
            let to = Destination { format, target, relocation, overwrite: false, options: &options };
            let prepared = prepare_chunks(store, &mut HierarchyChunks::new(&store.hierarchy), to).unwrap();
            block_on(prepared.publish(&options)).unwrap()
        };
        let (before, after) = (store(format, 25), store(format, 37));
        let receipt = write(&before, &place("extended"));
        let expected = write(&after, &place("complete"));

        let target = place("extended");
        let to = Destination { format, target: &target, relocation, overwrite: true, options: &options };
        let changed = [("a".to_owned(), 25)].into();
        let extend = |receipt| {
            let others = &mut before.hierarchy.sources.iter().map(|source| Ok(source.url.clone()));
            let chunks = &mut HierarchyChunks::new(&after.hierarchy);
            prepare_extension(&after, chunks, (&changed, others), to, receipt)
        };
        let wrong = extend(&expected);
        assert!(matches!(wrong, Err(Error::Store(StoreError::Changed { .. }))), "{wrong:?}");
        let prepared = extend(&receipt).unwrap();
        assert_eq!(prepared.content().to_string(), expected.to_string());
        block_on(prepared.publish(&options)).unwrap();
        assert_eq!(files(Path::new(&target)), files(Path::new(&place("complete"))));
    }
}

#[test]
fn two_sources_with_one_url_are_noticed_in_an_extension() {
    let root = tempfile::tempdir().unwrap();
    let (format, target) = (Format::KERCHUNK_PARQUET, root.path().join("out").to_str().unwrap().to_owned());
    let relocation = &Relocation::Rewrite(vec![Rewrite::parse("/data=s3://bucket").unwrap()]);
    let options = StoreOptions::default();
    let to = Destination { format, target: &target, relocation, overwrite: true, options: &options };
    let store = store(format, 3);
    let prepared = prepare_chunks(&store, &mut HierarchyChunks::new(&store.hierarchy), to).unwrap();
    let receipt = block_on(prepared.publish(&options)).unwrap();
    let changed = [("a".to_owned(), 2)].into();
    let others = &mut std::iter::once(Ok("s3://bucket/2.nc".to_owned()));
    let chunks = &mut HierarchyChunks::new(&store.hierarchy);
    let failed = prepare_extension(&store, chunks, (&changed, others), to, &receipt).unwrap_err();
    assert_eq!(failed.to_string(), "url of a source: two sources would have one url");
}
