//! kerchunk's Parquet layout, written by kerchunk and fsspec (fixtures/references) and by `virtualize-references`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{fs, path::Path};

use bytes::Bytes;
use virtualize_references::{Format, Sink, write_files};
use virtualize_references::{ParquetReferences, ReferenceSet, ReferencesError, from_json};
use virtualize_zarr::ReferencesBuilder;

/// Files by their keys.
type Files = Vec<(String, Vec<u8>)>;

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/references")
}

fn below(folder: &Path, prefix: &str, out: &mut Files) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let key = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => below(&entry.path(), &format!("{key}/"), out),
            false => out.push((key, fs::read(entry.path()).unwrap())),
        }
    }
}

fn read(files: &Files) -> Result<ReferenceSet, ReferencesError> {
    let (_, metadata) = files.iter().find(|(key, _)| key == ".zmetadata").unwrap();
    let mut references = ParquetReferences::new(metadata)?;
    for (key, file) in files.iter().filter(|(key, _)| key != ".zmetadata") {
        references.add(key, Bytes::copy_from_slice(file))?;
    }
    references.finish()
}

/// Returns the parts of a set that do not depend on the order of files.
fn chunks(set: &ReferenceSet) -> Vec<String> {
    let url = |id| set.hierarchy.source(id).unwrap().url.clone();
    let mut all: Vec<_> =
        set.whole_files.iter().map(|f| format!("{} {} {}", f.array, f.position, url(f.source))).collect();
    for (path, array) in set.hierarchy.arrays() {
        for (position, chunk) in array.chunks.iter() {
            all.push(match chunk {
                virtualize_zarr::ChunkEntry::Inline(bytes) => format!("{path} {position} {bytes:?}"),
                virtualize_zarr::ChunkEntry::Reference(r) => {
                    format!("{path} {position} {} {} {}", url(r.source), r.offset, r.length)
                }
            });
        }
    }
    all.sort();
    all
}

#[test]
fn what_kerchunk_and_fsspec_write_is_what_they_were_given() {
    let expected = from_json(&fs::read(fixtures().join("refs.json")).unwrap()).unwrap();
    assert_eq!(chunks(&expected).len(), 144);
    for folder in ["fastparquet.parquet", "categories.parquet", "pyarrow.parquet"] {
        let mut files = Files::new();
        below(&fixtures().join(folder), "", &mut files);
        let set = read(&files).unwrap();
        assert_eq!(chunks(&set), chunks(&expected), "{folder}");
        assert_eq!(set.hierarchy.root.attributes, expected.hierarchy.root.attributes);
        assert!(set.ignored.is_empty());
    }
}

#[derive(Default)]
struct Written(Files);

impl Sink for Written {
    fn create(&mut self, key: &str) -> std::io::Result<Box<dyn std::io::Write + Send + '_>> {
        self.0.push((key.to_owned(), Vec::new()));
        Ok(Box::new(&mut self.0.last_mut().unwrap().1))
    }
}

fn written(record_size: u32) -> (ReferenceSet, Files) {
    let mut set = from_json(&fs::read(fixtures().join("refs.json")).unwrap()).unwrap();
    // The sizes that a caller looks up.
    for whole in std::mem::take(&mut set.whole_files) {
        for column in &mut set.hierarchy.array_mut(&whole.array).unwrap().chunks.references {
            let mut longer = ReferencesBuilder::default();
            for (position, part) in column.iter() {
                longer.push(position, part.offset, part.length.max(9));
            }
            *column = longer.finish(column.source).remove(0);
        }
    }
    let inline = Bytes::from_static(b"base64:AAAA");
    set.hierarchy.array_mut("one").unwrap().chunks.inline.insert(7, inline);
    let mut out = Written::default();
    let format = Format::KERCHUNK_PARQUET.with_record_size(record_size.try_into().unwrap());
    write_files(&set.hierarchy, format, &mut out).unwrap();
    (set, out.0)
}

#[test]
fn what_is_written_is_read_back() {
    for record_size in [1, 7, 16, 100, 1_000_000] {
        let (set, files) = written(record_size);
        assert_eq!(chunks(&read(&files).unwrap()), chunks(&set), "{record_size}");
    }
}

#[test]
fn foreign_files_are_detected_and_impossible_ones_refused() {
    let (_, files) = written(16);
    let (_, metadata) = files.iter().find(|(key, _)| key == ".zmetadata").unwrap();
    let (_, file) = files.iter().find(|(key, _)| key == "one/refs.0.parq").unwrap();
    let file = Bytes::copy_from_slice(file);
    let new = || ParquetReferences::new(metadata).unwrap();
    let mut arrays = new().arrays();
    arrays.sort();
    assert_eq!(arrays, [("a".to_owned(), 4), ("g/s".to_owned(), 1), ("one".to_owned(), 7)]);
    let mut beside = new();
    for key in ["README", "one/refs.0.parquet", "two/refs.0.parq", "one/refs.-1.parq"] {
        beside.add(key, file.clone()).unwrap();
    }
    assert_eq!(beside.finish().unwrap().ignored.len(), 4);
    for key in ["one/refs.7.parq", "one/refs.6.parq", "one/refs.18446744073709551615.parq", "g/s/refs.0.parq"]
    {
        let error = new().add(key, file.clone()).unwrap_err().to_string();
        assert!(error.contains("outside the grid"), "{key}: {error}");
    }
    let mut twice = new();
    twice.add("one/refs.0.parq", file.clone()).unwrap();
    twice.add("one/refs.0.parq", file.clone()).unwrap();
    assert!(twice.finish().is_err());
    assert!(new().add("one/refs.0.parq", Bytes::from_static(b"PAR1PAR1")).is_err());
    for text in
        ["", "{}", r#"{"metadata":{},"record_size":1}"#, r#"{"metadata":{".zgroup":{}},"record_size":0}"#]
    {
        assert!(ParquetReferences::new(text.as_bytes()).is_err(), "{text}");
    }
}

/// Changes every byte of small files in turn: the result is an error or rows, never a panic.
#[test]
fn damaged_files_are_errors() {
    let mut files = Files::new();
    below(&fixtures().join("fastparquet.parquet"), "", &mut files);
    files.extend(written(16).1);
    let (_, metadata) = files.iter().find(|(key, _)| key == ".zmetadata").unwrap();
    let mut state = 1_u32;
    for (key, file) in files.iter().filter(|(key, _)| key.ends_with("/refs.0.parq")) {
        for at in 0..file.len() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut damaged = file.clone();
            damaged[at] ^= u8::try_from(state >> 24).unwrap().max(1);
            if let Ok(mut references) = ParquetReferences::new(metadata) {
                let _ = references.add(key, damaged.into());
            }
        }
        for end in 0..file.len() {
            let cut = Bytes::copy_from_slice(&file[..end]);
            assert!(ParquetReferences::new(metadata).unwrap().add(key, cut).is_err(), "{key} cut at {end}");
        }
    }
}
