//! Compares decoded values of the fixtures with those that h5py and tifffile report, with the options that change how they are stored.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::path::Path;

use crate::oracle::{FORMATS, fixture, fixtures, hex, leaves, opened, options};
use serde_json::Value;
use sha2::{Digest, Sha256};
use virtualize::{
    ArrayValues, ChunkGridChoice, Format, Options, VirtualStore, read_array, read_array_within,
};

/// Returns the values of an array; `None` if only other readers decode it.
fn values(store: &VirtualStore, name: &str, path: &Path, options: &Options) -> Option<ArrayValues> {
    match futures::executor::block_on(read_array(store, name, &options.store)) {
        Ok(values) => Some(values),
        Err(error) if error.to_string().contains("cannot be decoded here") => None,
        Err(error) => panic!("{} {name}: {error}", path.display()),
    }
}

/// Compares the datasets of a file, and returns their number.
fn compare_hdf5(path: &Path, truth: &Value, options: &Options) -> usize {
    let Some(store) = opened(path, options) else { return 0 };
    let nodes = truth["nodes"].as_object().unwrap();
    let compared = nodes.iter().filter(|(name, node)| {
        let name = name.trim_start_matches('/');
        // The name of this dimension belongs to a variable of other dimensions.
        if nodes.contains_key(&format!("/_nc4_non_coord_{name}")) {
            return false;
        }
        let Some(array) = store.hierarchy.array(name) else { return false };
        let (list, digest) = (node["values"].as_array(), node["data"].as_str());
        if list.is_none() && digest.is_none() {
            return false;
        }
        let Some(values) = values(&store, name, path, options) else { return false };
        assert_eq!(values.shape, array.shape);
        if let Some(list) = list {
            let expected: Vec<u8> = list.iter().flat_map(|value| leaves(value, &values.data_type)).collect();
            // A variable that is shorter than its dimension is padded along its first axis, as in netCDF.
            let is_padded = node["shape"] != serde_json::json!(values.shape);
            let shown = if is_padded { &values.bytes[..expected.len()] } else { &values.bytes[..] };
            assert_eq!(hex(shown), hex(&expected), "{} {name}", path.display());
        } else {
            let found = hex(&Sha256::digest(elements(&values)));
            assert_eq!(found, digest.unwrap(), "{} {name}", path.display());
        }
        true
    });
    compared.count()
}

/// Returns the bytes of which the fixtures contain the digest: text ends with a NUL instead of beginning with its length.
fn elements(values: &ArrayValues) -> Vec<u8> {
    if values.data_type != virtualize::zarr::DataType::String {
        return values.bytes.to_vec();
    }
    texts(&values.bytes).iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect()
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (text, after) = after.split_at(usize::try_from(u32::from_le_bytes(*length)).unwrap());
        found.push(String::from_utf8(text.to_vec()).unwrap());
        rest = after;
    }
    found
}

#[test]
fn as_h5py_reads_them() {
    let mut compared = 0;
    for (path, truth) in fixtures("hdf5", &[".h5", ".nc"]) {
        for format in FORMATS {
            compared += compare_hdf5(&path, &truth, &options(format));
        }
    }
    assert_eq!(compared, 3278, "arrays that are mapped and decoded here");
}

/// Compares the files of `fixtures/mapping`, and some that are stored in unusual ways, with an option that changes how.
fn compare_with(expected: usize, change: impl Fn(&mut Options)) {
    let mut compared = 0;
    let unusual =
        ["types.h5", "layouts.h5", "filter_masks.h5", "/filters.h5", "chunk_indexes.h5", "netcdf4.nc"];
    for (path, truth) in [fixtures("mapping", &[".h5", ".nc"]), fixtures("hdf5", &unusual)].concat() {
        for format in FORMATS {
            let mut options = options(format);
            change(&mut options);
            compared += compare_hdf5(&path, &truth, &options);
        }
    }
    assert_eq!(compared, expected, "arrays that are mapped and decoded here");
}

#[test]
fn of_related_files_and_unusual_types() {
    compare_with(2020, |_| ());
}

#[test]
fn with_the_codecs_of_the_package() {
    compare_with(2046, |options| options.map.own_codecs = true);
}

#[test]
fn in_pieces() {
    compare_with(2020, |options| options.map.split_contiguous = Some(64));
}

#[test]
fn with_links_and_ragged_arrays() {
    compare_with(2042, |options| {
        options.map.follow_external = true;
        options.map.ragged = true;
    });
}

#[test]
fn for_zarr_python() {
    compare_with(2020, |options| options.readable_by = vec!["zarr-python".parse().unwrap()]);
}

#[test]
fn for_zarrs_and_gdal() {
    for (reader, expected) in [("zarrs", 1923), ("gdal", 1898)] {
        compare_with(expected, |options| options.readable_by = vec![reader.parse().unwrap()]);
    }
}

/// Returns the elements `(band, y, x)` as `(y, x, band)`.
fn interleaved(values: &ArrayValues) -> Vec<u8> {
    let [bands, rest] =
        [values.shape[0], values.shape[1] * values.shape[2]].map(|n| usize::try_from(n).unwrap());
    let size = values.bytes.len() / (bands * rest);
    let element = |at: usize| &values.bytes[at * size..(at + 1) * size];
    (0..rest).flat_map(|at| (0..bands).flat_map(move |band| element(band * rest + at).to_vec())).collect()
}

/// Compares the images of a file that are arrays of their own, and returns their number.
fn compare_tiff(path: &Path, truth: &Value, options: &Options) -> usize {
    let Some(store) = opened(path, options) else { return 0 };
    let images = truth["images"].as_object().into_iter().flatten();
    let compared = images.filter(|(place, image)| {
        if image.get("interleaved").is_some() {
            return false; // of GDAL: mapping_tiff.rs
        }
        let own = format!("{place}/band_data");
        let name = match store.hierarchy.array(&own) {
            Some(_) => own.as_str(),
            None if *place == "0" => "band_data",
            None => return false,
        };
        let Some(array) = store.hierarchy.array(name) else { return false };
        let Some(values) = values(&store, name, path, options) else { return false };
        let is_turned = image["axes"] == "YXS" && array.shape.first() == image["shape"][2].as_u64().as_ref();
        let bytes = if is_turned { interleaved(&values) } else { values.bytes.to_vec() };
        if let Some(digest) = image["data"].as_str() {
            assert_eq!(hex(&Sha256::digest(&bytes)), digest, "{} {name}", path.display());
        } else if let Some(list) = image["values"].as_array() {
            let expected: Vec<u8> = list.iter().flat_map(|value| leaves(value, &values.data_type)).collect();
            assert_eq!(hex(&bytes), hex(&expected), "{} {name}", path.display());
        } else {
            return false;
        }
        true
    });
    compared.count()
}

fn compare_tiffs(expected: usize, change: impl Fn(&mut Options)) {
    let mut compared = 0;
    for (path, truth) in [fixtures("tiff", &[".tif"]), fixtures("mapping", &[".tif"])].concat() {
        for format in FORMATS {
            let mut options = options(format);
            change(&mut options);
            compared += compare_tiff(&path, &truth, &options);
        }
    }
    assert_eq!(compared, expected, "images that are mapped and decoded here");
}

#[test]
fn as_tifffile_reads_them() {
    compare_tiffs(836, |_| ());
}

#[test]
fn as_tifffile_reads_them_with_the_codecs_of_the_package() {
    compare_tiffs(836, |options| {
        options.map.own_codecs = true;
        options.map.chunk_grid = ChunkGridChoice::Rectilinear;
    });
}

#[test]
fn as_tifffile_reads_them_for_zarrs_and_gdal() {
    for (reader, expected) in [("zarrs", 825), ("gdal", 797)] {
        compare_tiffs(expected, |options| options.readable_by = vec![reader.parse().unwrap()]);
    }
}

#[test]
fn text_has_its_length_before_it() {
    let options = options(Format::ZARR3_JSON);
    let path = fixture("hdf5/types.h5");
    let store = opened(&path, &options).unwrap();
    // h5py 3.16: f["strings/vlen"].asstr()[()]
    assert_eq!(texts(&values(&store, "strings/vlen", &path, &options).unwrap().bytes), ["a", "", "größer"]);
}

#[test]
fn what_is_too_large_is_refused() {
    let options = options(Format::ZARR3_JSON);
    let store = opened(&fixture("hdf5/layouts.h5"), &options).unwrap();
    let read = |most| futures::executor::block_on(read_array_within(&store, "chunked", most, &options.store));
    let error = read(480).unwrap_err().to_string();
    assert!(error.contains("stored in more than 480 bytes"), "with what sticks out they have 720: {error}");
    assert_eq!(read(1000).unwrap().bytes.len(), 480);
    let error = read(479).unwrap_err().to_string();
    assert!(
        error.ends_with("layouts.h5: /chunked: it has 480 bytes, and at most 479 are read at once"),
        "{error}"
    );
    for path in ["no", "/no"] {
        let error = futures::executor::block_on(read_array(&store, path, &options.store)).unwrap_err();
        assert!(error.to_string().ends_with(": /no: no such array"), "{error}");
    }
}
