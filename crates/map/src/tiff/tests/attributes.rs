//! Attributes by tags: names of GDAL and of TIFF 6.0, one tag at a time.

use serde_json::{Map, Value, json};
use virtualize_remedy::Code;
use virtualize_tiff::model::{GdalItem, Ifd, Image, SampleFormat, Value as Tag};
use virtualize_zarr::ZarrFormat;

use super::{ifd, image, item, map_ifds};
use crate::{MapOptions, Mapped, Severity};

fn map(ifd: Ifd) -> Mapped {
    map_ifds(vec![ifd], &MapOptions { format: ZarrFormat::V3, ..MapOptions::default() })
}

fn attributes(ifd: Ifd) -> Map<String, Value> {
    map(ifd).hierarchy.array("band_data").expect("the image is mapped").attributes.clone()
}

fn of_image(change: impl Fn(&mut Image)) -> Map<String, Value> {
    let mut image = image(4, 4, 1, 4);
    change(&mut image);
    attributes(ifd(image))
}

#[test]
fn photometric_interpretations_have_their_names() {
    let names = [
        (0, "WhiteIsZero"),
        (1, "BlackIsZero"),
        (3, "RGB Palette"),
        (4, "Transparency mask"),
        (5, "CMYK"),
        (9, "ICCLab"),
        (10, "ITULab"),
        (32803, "CFA"),
        (32844, "LogL"),
        (34892, "LinearRaw"),
    ];
    for (code, name) in names {
        assert_eq!(of_image(|image| image.photometric = Some(code))["photometric_interpretation"], name);
    }
    assert!(!of_image(|image| image.photometric = Some(77)).contains_key("photometric_interpretation"));
    for (code, name) in [(2, "RGB"), (6, "YCbCr"), (8, "CIELab"), (32845, "LogLuv")] {
        assert_eq!(crate::tiff::attributes::photometric(code), Some(name));
    }
}

/// NewSubfileType: bit 0 a reduced image, bit 1 a page, bit 2 a mask.
#[test]
fn subfile_types_and_extra_samples_have_their_names() {
    let names = [
        (1, "reduced image"),
        (2, "page"),
        (3, "reduced image"),
        (4, "transparency mask"),
        (5, "transparency mask of a reduced image"),
        (6, "transparency mask"),
    ];
    for (bits, name) in names {
        assert_eq!(of_image(|image| image.subfile_type = bits)["subfile_type"], name, "{bits}");
    }
    assert!(!of_image(|_| ()).contains_key("subfile_type"));
    let mut bands = image(4, 4, 4, 4);
    bands.extra_samples = vec![0, 1, 2];
    assert_eq!(
        attributes(ifd(bands))["extra_samples"],
        json!(["unspecified", "associated alpha", "unassociated alpha"])
    );
}

#[test]
fn tags_have_the_names_of_gdal() {
    let mut ifd = ifd(image(4, 4, 1, 4));
    ifd.tags.extend([
        (270, Tag::Text(vec!["one".into(), "two".into()])),
        (280, Tag::Unsigned(vec![3])),
        (281, Tag::Unsigned(vec![3, 4])),
        (282, Tag::Rational(vec![(300, 4)])),
        (283, Tag::SignedRational(vec![(-300, 8), (1, 2)])),
        (296, Tag::Signed(vec![-1])),
        (305, Tag::Bytes(vec![1])),
        (306, Tag::Float(vec![])),
        (315, Tag::Float(vec![1.5])),
        (65000, Tag::Unsigned(vec![1])),
    ]);
    let found = attributes(ifd);
    let tags: Map<_, _> = found.into_iter().filter(|(name, _)| name.starts_with("TIFFTAG")).collect();
    let expected = json!({
        "TIFFTAG_IMAGEDESCRIPTION": "one\ntwo", "TIFFTAG_MINSAMPLEVALUE": 3, "TIFFTAG_MAXSAMPLEVALUE": [3, 4], "TIFFTAG_XRESOLUTION": 75.0,
        "TIFFTAG_YRESOLUTION": [-37.5, 0.5], "TIFFTAG_RESOLUTIONUNIT": -1, "TIFFTAG_ARTIST": 1.5,
    });
    assert_eq!(Value::Object(tags), expected);
}

#[test]
fn colour_maps_are_by_channel() {
    let map_of = |count: u16| (0..3 * count).collect::<Vec<u16>>();
    let found = of_image(|image| image.color_map = Some(map_of(4)));
    let expected = json!({"red": [0, 1, 2, 3], "green": [4, 5, 6, 7], "blue": [8, 9, 10, 11]});
    assert_eq!(found["color_map"], expected);
    assert!(of_image(|image| image.color_map = Some(map_of(256))).contains_key("color_map"));
    assert!(!of_image(|image| image.color_map = Some(map_of(257))).contains_key("color_map"), "too many");
    assert!(!of_image(|image| image.color_map = Some(Vec::new())).contains_key("color_map"));
    let reported = |count: u16| {
        let diagnostics =
            map(ifd(Image { color_map: Some(map_of(count)), ..image(4, 4, 1, 4) })).report.diagnostics;
        diagnostics.iter().any(|diagnostic| diagnostic.code == Code::AttributeOmitted)
    };
    assert!(reported(257) && !reported(256));
}

#[test]
fn sources_are_described_in_the_words_of_the_specification() {
    let formats = [
        (SampleFormat::Unsigned, 16, "big-endian 16-bit unsigned integer"),
        (SampleFormat::Signed, 8, "big-endian 8-bit integer"),
        (SampleFormat::Float, 32, "big-endian 32-bit floating point"),
        (SampleFormat::Void, 16, "big-endian 16-bit undefined"),
        (SampleFormat::ComplexInteger, 32, "big-endian 32-bit complex integer"),
        (SampleFormat::ComplexFloat, 64, "big-endian 64-bit complex floating point"),
        (SampleFormat::Unknown(9), 16, "big-endian SampleFormat 9 of 16 bits"),
    ];
    for (format, bits, expected) in formats {
        let mut image = image(4, 4, 1, 4);
        (image.sample_format, image.bits_per_sample) = (vec![format], vec![bits]);
        let mapped = map(ifd(image));
        let report = &mapped.report.arrays["band_data"];
        let signed = expected.replace("8-bit integer", "8-bit signed integer");
        assert!([expected, &signed].contains(&report.source_type.as_str()), "{}", report.source_type);
        assert_eq!(report.source_layout, "strips of 4 rows, 1 samples a pixel, chunky");
    }
}

fn role(role: &str, value: &str) -> GdalItem {
    GdalItem { sample: Some(0), role: Some(role.into()), ..item(role, value) }
}

fn of_items(items: Vec<GdalItem>) -> (Map<String, Value>, Vec<(Severity, Code)>) {
    let mapped = map(Ifd { gdal_metadata: items, ..ifd(image(4, 4, 1, 4)) });
    let codes = mapped.report.diagnostics.iter().map(|found| (found.severity, found.code)).collect();
    (mapped.hierarchy.array("band_data").unwrap().attributes.clone(), codes)
}

/// xarray decodes numbers by these units, and by the units of one band those of all.
#[test]
fn units_of_times_are_not_an_attribute_that_readers_decode() {
    for (unit, name) in [
        ("days", "unittype"),
        ("seconds", "unittype"),
        ("hours since 2000-01-01", "unittype"),
        ("m", "units"),
        ("day", "units"),
        ("Days", "units"),
    ] {
        let (attributes, codes) = of_items(vec![role("unittype", unit)]);
        assert_eq!(attributes.get(name), Some(&json!(unit)), "{unit}");
        assert_eq!(attributes.contains_key("units"), name == "units", "{unit}");
        let expected = if name == "units" { vec![] } else { vec![(Severity::Info, Code::AttributeOmitted)] };
        assert_eq!(codes, expected, "{unit}");
    }
}

#[test]
fn items_with_names_of_conventions_are_renamed() {
    for name in
        ["units", "dtype", "coordinates", "valid_range", "flag_values", "_Encoding", "spatial:transform"]
    {
        let (attributes, codes) = of_items(vec![item(name, "bool")]);
        assert_eq!(attributes.get(&format!("gdal_{name}")), Some(&json!("bool")));
        assert!(!attributes.contains_key(name) && codes.is_empty(), "{name}");
    }
    let (attributes, _) = of_items(vec![item("standard_name", "air_temperature")]);
    assert_eq!(attributes.get("standard_name"), Some(&json!("air_temperature")));
}

/// The image is unsigned; rioxarray reads it as signed unless the item is "true".
#[test]
fn the_sign_of_an_item_is_not_ignored_silently() {
    assert_eq!(of_items(vec![item("_Unsigned", "true")]).1, []);
    assert_eq!(of_items(vec![item("_Unsigned", "false")]).1, [(Severity::Warning, Code::AttributeOmitted)]);
}

/// `rasterio.open(file).scales` of GDAL 3.12.
#[test]
fn scales_are_read_as_by_gdal() {
    for (text, scale) in [("0.01", 0.01), ("0,01", 0.01), ("0.01 m", 0.01), ("none", 0.0)] {
        let (attributes, codes) = of_items(vec![role("scale", text)]);
        assert_eq!((attributes.get("scale_factor"), codes), (Some(&json!(scale)), vec![]), "{text}");
    }
    let (attributes, codes) = of_items(vec![role("scale", "nan")]);
    assert!(!attributes.contains_key("scale_factor"));
    assert_eq!(codes, [(Severity::Warning, Code::AttributeOmitted)]);
}

#[test]
fn overviews_have_scale_offset_and_unit_of_the_main_image() {
    let items = vec![role("scale", "0.5"), role("offset", "2"), role("unittype", "m"), item("a", "b")];
    let main = Ifd { gdal_metadata: items, ..ifd(image(4, 4, 1, 4)) };
    let mut reduced = ifd(Image { subfile_type: 1, ..image(2, 2, 1, 2) });
    reduced.path = vec![1];
    let page = Ifd { path: vec![2], ..ifd(image(4, 4, 1, 4)) };
    let options = MapOptions { format: ZarrFormat::V3, ..MapOptions::default() };
    let mapped = map_ifds(vec![main, reduced, page], &options);
    let attributes = &mapped.hierarchy.array("1/band_data").unwrap().attributes;
    for (name, value) in [("scale_factor", json!(0.5)), ("add_offset", json!(2.0)), ("units", json!("m"))] {
        assert_eq!(attributes.get(name), Some(&value), "{name}");
    }
    assert!(!attributes.contains_key("a"));
    assert!(!mapped.hierarchy.array("2/band_data").unwrap().attributes.contains_key("scale_factor"));
}
