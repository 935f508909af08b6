//! All fixtures and random hierarchies, in lines of several widths.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::json;
use unicode_width::UnicodeWidthStr;
use virtualize::{
    Notation, Options, VirtualStore,
    zarr::{
        Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, Node, ZarrFormat, node::name,
    },
};

use super::*;

fn overview_of(store: &VirtualStore, columns: usize, is_full: bool) -> String {
    text(|out| overview::write(store, Style { notation: messages::FLAGS, columns, is_full }, out))
}

/// Opens all fixtures that are not refused.
fn fixtures() -> Vec<VirtualStore> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let files =
        ["hdf5", "netcdf3", "tiff"].into_iter().flat_map(|kind| fs::read_dir(folder.join(kind)).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension != "json"));
    let options = Options { notation: Notation::default(), ..Options::default() };
    let opened = paths
        .map(|path| futures::executor::block_on(virtualize::open(path.to_str().unwrap(), &options)).ok());
    let stores: Vec<_> = opened.flatten().collect();
    assert!(stores.len() > 80, "{}", stores.len());
    stores
}

fn assert_fits(text: &str, columns: usize, name: &str) {
    for line in text.lines() {
        assert!(line.width() <= columns, "{name}: {} > {columns}: {line}", line.width());
        assert!(!line.chars().any(|c| c.is_control() || ('\u{202A}'..='\u{202E}').contains(&c)), "{line:?}");
    }
}

#[test]
fn overviews_of_all_fixtures_fit_and_are_complete() {
    for store in fixtures() {
        for columns in [60, 80, 100] {
            let text = overview_of(&store, columns, false);
            assert_fits(&text, columns, store.name());
            // Words are as they were, wherever the lines break.
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for note in &store.report.diagnostics {
                let rendered = printable(&note.render(messages::FLAGS));
                let rendered = rendered.split_whitespace().collect::<Vec<_>>().join(" ");
                let broken = rendered.split(' ').any(|word| word.width() > columns - 4);
                assert!(broken || words.contains(&rendered), "{}: {rendered}\n{text}", store.name());
                assert!(text.contains(note.code.as_str()), "{}", note.code);
            }
            for (path, _) in store.hierarchy.arrays() {
                assert!(text.lines().any(|line| is_row(line, name(&path))), "{path}\n{text}");
            }
        }
    }
}

/// Returns whether a line of the tree has this name.
fn is_row(line: &str, name: &str) -> bool {
    line.trim_start_matches(['│', '├', '└', '─', ' ', '⋯']).starts_with(&printable(name))
}

#[test]
fn details_of_all_fixtures_fit_but_for_attributes() {
    for store in fixtures() {
        for (path, array) in store.hierarchy.arrays() {
            let text = text(|out| details::write(&store, &path, array, 80, out));
            let (facts, attributes) = text.split_once("\n  attributes").unwrap_or((&text, ""));
            assert_fits(facts, 80, &path);
            assert!(array.attributes.keys().all(|name| attributes.contains(&printable(name))), "{text}");
            assert!(array.codecs.len() <= facts.lines().count());
        }
    }
}

/// A generator of random numbers: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn name(&mut self) -> String {
        let letters =
            ['a', 'Z', '7', '_', ' ', '.', '気', '温', 'é', '\u{301}', '\u{202E}', '\u{7}', '\n', '🌡', '…'];
        let length = if self.below(8) == 0 { 150 } else { 1 + self.below(12) };
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }

    fn array(&mut self) -> Array {
        let types = [
            DataType::Int8,
            DataType::Float64,
            DataType::String,
            DataType::Complex128,
            DataType::FixedBytes(4000),
        ];
        let data_type = types[self.below(types.len())].clone();
        let rank = if self.below(9) == 0 { 32 } else { self.below(5) };
        let shape: Vec<u64> = (0..rank).map(|_| u64::MAX >> self.below(64)).collect();
        let attributes = [("units", json!(self.name())), ("add_offset", json!(0.1)), ("x", json!([1, 2]))];
        Array {
            chunk_grid: ChunkGrid::Regular(shape.iter().map(|n| (n / 7).max(1)).collect()),
            dimension_names: shape.iter().map(|_| (self.below(2) == 0).then(|| self.name())).collect(),
            fill_value: (self.below(2) == 0 && data_type.size().is_some_and(|size| size < 100))
                .then(|| FillValue::zero(&data_type)),
            codecs: vec![Codec::Bytes { endian: None }, Codec::Zlib { level: 1 }],
            attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            chunks: ChunkManifest::default(),
            shape,
            data_type,
        }
    }
}

#[test]
fn random_names_and_shapes_fit_and_numbers_are_whole() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..60 {
        let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
        let mut numbers = BTreeSet::new();
        for _ in 0..random.below(30) {
            let group: Vec<_> = (0..random.below(12)).map(|_| random.name().replace('/', "")).collect();
            let array = random.array();
            numbers
                .extend(array.shape.iter().chain(&array.chunk_grid.counts(&array.shape)).map(u64::to_string));
            if let ChunkGrid::Regular(shape) = &array.chunk_grid {
                numbers.extend(shape.iter().map(u64::to_string));
            }
            if let Some(group) = hierarchy.root.make_group(&group.join("/")) {
                group.children.insert(random.name(), Node::Array(Box::new(array)));
            }
        }
        let arrays = hierarchy.arrays().len();
        let store = VirtualStore::of(hierarchy, "random");
        for columns in [60, 80, 100] {
            let text = overview_of(&store, columns, false);
            assert_fits(&text, columns, "random");
            let facts = |line: &&str| {
                let line = line.trim_start_matches(['│', '├', '└', '─', ' ', '⋯']);
                line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" chunk")
            };
            let tree = text.lines().skip_while(|line| *line != "/");
            assert_eq!(tree.filter(facts).count(), arrays, "{text}");
            for shape in text.lines().filter_map(|line| line.split_once(" of (")?.1.split_once(')')) {
                let all = shape.0.split(", ").filter(|item| !item.contains('…') && !item.contains("axes"));
                all.for_each(|number| assert!(numbers.contains(number), "{number} in {text}"));
            }
        }
    }
}

#[test]
fn many_arrays_are_counted_unless_all_are_wanted() {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V2);
    let array = Random(1).array();
    for index in 0..10_000 {
        hierarchy.root.children.insert(format!("v{index:05}"), Node::Array(Box::new(array.clone())));
    }
    let store = VirtualStore::of(hierarchy, "many");
    let text = overview_of(&store, 100, false);
    assert!(text.contains("10,000 arrays") && text.contains("v01999") && !text.contains("v02000"));
    assert!(text.contains("… and 8,000 more nodes (--full shows all)"), "{}", &text[text.len() - 200..]);
    let full = overview_of(&store, 100, true);
    assert!(full.contains("v09999") && !full.contains("--full"));
}

#[test]
fn unknown_arrays_are_named_with_similar_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5/netcdf4.nc");
    let options = Options::default();
    let opened = virtualize::open(path.to_str().unwrap(), &options);
    let store = futures::executor::block_on(opened).unwrap();
    let error = |path: &str| describe_arrays(&store, &[path.to_owned()]).unwrap_err().to_string();
    assert!(error("/temprature").starts_with(
        "array temprature: no such array; did you mean \"temperature\"? existing arrays: byte, "
    ));
    assert_eq!(
        error("inner"),
        "array inner: is a group, not an array; did you mean \"inner/wind\"? existing arrays: inner/deep/pressure, \
         inner/wind"
    );
    assert!(describe_arrays(&store, &["/inner/wind/".to_owned()]).unwrap().starts_with("/inner/wind\n"));
}
