//! Compares TIFF fixtures with what GDAL reads from them (values, packing, units, names, metadata), and series of OME-TIFF with those of tifffile.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::oracle::{FORMATS, fixtures, hex, opened, options};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use virtualize::{
    ArrayValues, ChunkGridChoice, ComplexIntegers, Options, VirtualStore, read_array,
    zarr::{Array, DataType, Endian},
};

/// Returns the values of an array and their digest; `None` if only other readers decode it.
fn values(store: &VirtualStore, name: &str, options: &Options) -> Option<(ArrayValues, String)> {
    let values = match futures::executor::block_on(read_array(store, name, &options.store)) {
        Err(error) if error.to_string().contains("cannot be decoded here") => return None,
        other => other.unwrap(),
    };
    let digest = hex(&Sha256::digest(&values.bytes));
    Some((values, digest))
}

/// Calls `check` with each image that GDAL reads and that is mapped, and its path.
fn each_image(
    expected: usize,
    change: impl Fn(&mut Options),
    mut check: impl FnMut(&VirtualStore, &Options, &str, &Value),
) {
    let (mut compared, mut failed) = (0, Vec::new());
    for (path, truth) in fixtures("mapping", &[".tif"]) {
        for format in FORMATS {
            let mut options = options(format);
            change(&mut options);
            let Some(store) = opened(&path, &options) else { continue };
            for (number, image) in truth["images"].as_object().into_iter().flatten() {
                let name = if number == "0" { "band_data".to_owned() } else { format!("{number}/band_data") };
                if image.get("interleaved").is_none() || store.hierarchy.array(&name).is_none() {
                    continue;
                }
                compared += 1;
                let mut one = || check(&store, &options, &name, image);
                if catch_unwind(AssertUnwindSafe(&mut one)).is_err() {
                    failed.push(format!("{} {name} {format:?}", path.display()));
                }
            }
        }
    }
    assert!(failed.is_empty(), "images that differ: {failed:#?}");
    assert_eq!(compared, expected, "images that are mapped");
}

/// Compares type, shape and values. Bands are first in GDAL, and last in images of interleaved samples in Zarr v2.
fn compare_values(store: &VirtualStore, options: &Options, name: &str, image: &Value) {
    let array = store.hierarchy.array(name).unwrap();
    let Some((values, digest)) = values(store, name, options) else { return };
    let shape = image["shape"].as_array().unwrap();
    let turned = json!([shape[1], shape[2], shape[0]]);
    let is_turned =
        json!(array.shape) == turned && array.dimension_names.last() == Some(&Some("band".into()));
    assert_eq!(json!(array.shape), if is_turned { turned } else { image["shape"].clone() });
    if array.data_type.is_complex() && image["dtype"] != array.data_type.to_string() {
        return; // GDAL converts integers of 2 × 32 bits
    }
    if !matches!(array.data_type, DataType::Struct(_)) {
        assert_eq!(values.data_type.to_string(), image["dtype"].as_str().unwrap());
        assert_eq!(digest, image[if is_turned { "interleaved" } else { "data" }].as_str().unwrap());
        return;
    }
    // Two integers, which GDAL shows as two floats.
    let size = values.bytes.len() / shape.iter().map(|n| n.as_u64().unwrap() as usize).product::<usize>() / 2;
    let number = |bytes: &[u8]| match *bytes {
        [a, b] => f32::from(i16::from_le_bytes([a, b])),
        _ => i32::from_le_bytes(bytes.try_into().unwrap()) as f32,
    };
    let floats: Vec<u8> = values.bytes.chunks(size).flat_map(|bytes| number(bytes).to_le_bytes()).collect();
    if image["dtype"] == "complex64" && size == 2 {
        assert_eq!(
            hex(&Sha256::digest(&floats)),
            image[if is_turned { "interleaved" } else { "data" }].as_str().unwrap()
        );
    }
}

#[test]
fn values_are_those_of_gdal() {
    each_image(396, |_| (), compare_values);
}

#[test]
fn values_with_other_options_are_those_of_gdal() {
    each_image(
        393,
        |options| {
            options.map.own_codecs = true;
            options.map.complex_integers = ComplexIntegers::Structure;
        },
        compare_values,
    );
    each_image(
        395,
        |options| {
            options.map.chunk_grid = ChunkGridChoice::Rectilinear;
            options.map.complex_integers = ComplexIntegers::Structure;
        },
        compare_values,
    );
}

/// Returns one value for all bands, or a list.
fn of_bands(values: &Value) -> Option<Value> {
    let values = values.as_array().unwrap();
    if values.iter().all(|value| value == "") {
        return None;
    }
    Some(if values.len() == 1 { values[0].clone() } else { json!(values) })
}

fn expected_packing(image: &Value, is_complex: bool) -> Map<String, Value> {
    let [scales, offsets] = ["scales", "offsets"].map(|name| image[name].as_array().unwrap());
    let is_uniform = [scales, offsets].iter().all(|values| values.iter().all(|value| *value == values[0]));
    let mut found = Map::new();
    if !is_uniform {
        found.extend([("scales".to_owned(), json!(scales)), ("offsets".to_owned(), json!(offsets))]);
    } else if (scales[0].as_f64(), offsets[0].as_f64()) != (Some(1.0), Some(0.0)) {
        // xarray drops imaginary parts when it scales.
        let names = if is_complex { ["scales", "offsets"] } else { ["scale_factor", "add_offset"] };
        found.extend([(names[0].to_owned(), scales[0].clone()), (names[1].to_owned(), offsets[0].clone())]);
    }
    found
}

#[test]
fn attributes_are_those_of_gdal() {
    each_image(
        396,
        |_| (),
        |store, _, number, image| {
            let array = store.hierarchy.array(number).unwrap();
            let names = ["scale_factor", "add_offset", "scales", "offsets", "units", "long_name"];
            let found = names
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), array.attributes.get(*name)?.clone())));
            let mut expected = expected_packing(image, array.data_type.is_complex());
            expected.extend(
                [("units", "units"), ("long_name", "descriptions")]
                    .into_iter()
                    .filter_map(|(name, key)| Some((name.to_owned(), of_bands(&image[key])?))),
            );
            // GDAL shows overviews without what they have from the main image.
            let found = found.filter(|(name, _)| number == "band_data" || expected.contains_key(name));
            assert_eq!(found.collect::<Map<_, _>>(), expected);
            let (tags, bands) = (image["tags"].as_object().unwrap(), image["band_tags"].as_array().unwrap());
            for (key, value) in tags {
                if ["INTERLEAVE", "COMPRESSION", "AREA_OR_POINT"].contains(&key.as_str()) {
                    continue;
                }
                assert_eq!(array.attributes.get(key), Some(value), "{key}");
                if let Some(of_band) = bands[0].get(key).filter(|_| bands.len() == 1) {
                    assert_eq!(array.attributes[&format!("{key}_by_band")]["1"], *of_band, "{key}");
                }
            }
            check_nodata(array, image);
        },
    );
}

fn check_nodata(array: &Array, image: &Value) {
    let found = array.attributes.get("_FillValue");
    let (Some(expected), false) =
        (image.get("nodata").filter(|value| !value.is_null()), array.data_type.is_complex())
    else {
        return;
    };
    let is_decided_elsewhere =
        found.is_none_or(Value::is_string) || matches!(array.data_type, DataType::Struct(_));
    assert!(
        is_decided_elsewhere || found.unwrap().as_f64() == expected.as_f64(),
        "{found:?}, expected {expected}"
    );
    let fill = array.fill_value.as_ref().map(|fill| fill.to_stored(&array.data_type, Endian::Little));
    if let (Some(Some(fill)), false) = (fill, matches!(array.data_type, DataType::Struct(_))) {
        let number = crate::oracle::integer_or_float(expected, &array.data_type);
        assert_eq!(hex(&fill), hex(&number));
    }
}

/// Masks are tied to their images, whose names of bands are coordinates.
#[test]
fn masks_and_names_of_bands() {
    let mut found = [0; 2];
    each_image(
        396,
        |_| (),
        |store, options, name, image| {
            let array = store.hierarchy.array(name).unwrap();
            let is_mask = array.attributes.contains_key("mask_of");
            assert_eq!(is_mask, image["mask"] == true && name != "band_data");
            if is_mask {
                found[0] += 1;
                let of = array.attributes["mask_of"].as_str().unwrap();
                assert_eq!(store.hierarchy.array(of).unwrap().attributes["mask"], name);
                assert_eq!(
                    (array.attributes["flag_meanings"].as_str(), &array.attributes["flag_values"]),
                    (Some("masked valid"), &json!([0, 1]))
                );
            }
            let group = name.strip_suffix("band_data").unwrap();
            let descriptions = image["descriptions"].as_array().unwrap();
            let names = store.hierarchy.array(&format!("{group}band_name"));
            let has_names = descriptions.iter().any(|text| text != "");
            assert_eq!(names.is_some(), has_names);
            if names.is_some() {
                found[1] += 1;
                let (values, _) = values(store, &format!("{group}band_name"), options).unwrap();
                let text: Vec<u8> = descriptions
                    .iter()
                    .flat_map(|text| crate::oracle::bytes(text, &DataType::String))
                    .collect();
                assert_eq!(hex(&values.bytes), hex(&text));
            }
        },
    );
    assert_eq!(found, [28, 34], "masks, and arrays of names");
}

/// Returns the letters of the axes of an array in tifffile's notation, without those of length 1.
fn axes(array: &Array) -> String {
    let letter = |name: &str| {
        if name.starts_with("band") { "S".to_owned() } else { name.split('_').next().unwrap().to_uppercase() }
    };
    let axes = array.dimension_names.iter().zip(&array.shape).filter(|(_, length)| **length > 1);
    axes.map(|(name, _)| letter(name.as_deref().unwrap())).collect()
}

#[test]
fn series_are_those_of_tifffile() {
    let mut compared = 0;
    for (path, truth) in fixtures("mapping", &[".ome.tif"]) {
        for format in FORMATS {
            let options = options(format);
            let store = opened(&path, &options).unwrap_or_else(|| panic!("{}", path.display()));
            let Some(catalogue) = store.hierarchy.root.attributes.get("ome_series") else { continue };
            for (series, entry) in
                truth["series"].as_array().unwrap().iter().zip(catalogue.as_array().unwrap())
            {
                assert_eq!(entry["name"], series["name"], "{}", path.display());
                let asset = entry["asset"].as_str().unwrap();
                let group = asset.strip_suffix("band_data").unwrap();
                for (number, level) in series["levels"].as_array().unwrap().iter().enumerate() {
                    let place = if group.is_empty() { "0/" } else { group };
                    let name = if number == 0 {
                        asset.to_owned()
                    } else {
                        format!("{place}{}/band_data", number - 1)
                    };
                    let array =
                        store.hierarchy.array(&name).unwrap_or_else(|| panic!("{} {name}", path.display()));
                    let (_, digest) = values(&store, &name, &options).unwrap();
                    if axes(array) == level["axes"].as_str().unwrap() {
                        assert_eq!(digest, level["data"].as_str().unwrap(), "{} {name}", path.display());
                        compared += 1;
                    }
                }
            }
        }
    }
    assert_eq!(compared, 27, "series");
}

/// Pages that are alike become one array along a new axis, with the values that they have alone.
#[test]
fn stacked_pages_have_the_values_of_each() {
    for (path, truth) in fixtures("mapping", &["stacked_1.tif", "stacked_3.tif"]) {
        for format in FORMATS {
            let mut options = options(format);
            options.map.stack_pages = true;
            let store = opened(&path, &options).unwrap();
            let array = store.hierarchy.array("band_data").unwrap();
            assert_eq!((array.dimension_names[0].as_deref(), array.shape[0]), (Some("page"), 3));
            assert!(store.hierarchy.array("1/band_data").is_none());
            let is_turned = array.dimension_names.last() == Some(&Some("band".into()));
            let (values, _) = values(&store, "band_data", &options).unwrap();
            for (number, page) in values.bytes.chunks(values.bytes.len() / 3).enumerate() {
                let image = &truth["images"][number.to_string()];
                let digest = image[if is_turned { "interleaved" } else { "data" }].as_str().unwrap();
                assert_eq!(hex(&Sha256::digest(page)), digest, "{} page {number}", path.display());
            }
        }
    }
}
