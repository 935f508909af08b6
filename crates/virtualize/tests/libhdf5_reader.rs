//! Both HDF5 readers produce the same references for each fixture.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use virtualize::{Format, Hdf5Reader, MapOptions, Options, open, write_to};

/// Returns the references of a file, or the error.
fn references(path: &Path, format: Format, hdf5_reader: Hdf5Reader) -> Result<String, String> {
    let map = MapOptions { format: format.zarr_format(), ..MapOptions::default() };
    let options = Options { map, hdf5_reader, ..Options::default() };
    let store = futures::executor::block_on(open(&path.to_string_lossy(), &options));
    let store = store.map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write_to(&store, format, &mut out).map_err(|error| error.to_string())?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

/// Returns the rest of both results from shortly before their first difference.
fn first_difference<'a>(
    ours: &'a Result<String, String>,
    theirs: &'a Result<String, String>,
) -> Option<(&'a str, &'a str)> {
    let (Ok(one) | Err(one), Ok(other) | Err(other)) = (ours, theirs);
    if ours == theirs {
        return None;
    }
    let same = one.char_indices().zip(other.chars()).take_while(|((_, one), other)| one == other).count();
    let start = one.char_indices().nth(same.saturating_sub(60)).map_or(0, |(start, _)| start);
    Some((one.get(start..).unwrap_or_default(), other.get(start..).unwrap_or_default()))
}

#[test]
fn both_readers_lead_to_the_same_references() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5");
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.extension().is_some_and(|extension| extension == "h5" || extension == "nc") {
            continue;
        }
        for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
            let ours = references(&path, format, Hdf5Reader::Native);
            let theirs = references(&path, format, Hdf5Reader::Libhdf5);
            if let Some((ours, theirs)) = first_difference(&ours, &theirs) {
                panic!("{} as {format:?}: ours …{ours:.300}, libhdf5 …{theirs:.300}", path.display());
            }
            compared += usize::from(ours.is_ok());
        }
    }
    assert!(compared > 40, "{compared} references compared");
}
