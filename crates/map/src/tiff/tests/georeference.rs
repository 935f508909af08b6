//! Transforms, axes and grid mappings, compared with those that rasterio 1.5 shows of files with the same tags.

use serde_json::{Map, Value, json};
use virtualize_tiff::model::{Geo, GeoKey, Ifd, Image};
use virtualize_zarr::ZarrFormat;

use super::{ifd, image, item, map_ifds};
use crate::{MapOptions, Mapped};

fn v3() -> MapOptions {
    MapOptions { format: ZarrFormat::V3, ..MapOptions::default() }
}

fn attributes<'a>(mapped: &'a Mapped, path: &str) -> &'a Map<String, Value> {
    &mapped.hierarchy.array(path).unwrap().attributes
}

fn shorts(keys: &[(u16, u16)]) -> std::collections::BTreeMap<u16, GeoKey> {
    keys.iter().map(|(key, value)| (*key, GeoKey::Short(*value))).collect()
}

/// An image of 4 columns and 3 rows.
fn referenced(geo: Geo) -> Ifd {
    Ifd { geo: Some(geo), ..ifd(image(4, 3, 1, 3)) }
}

const TIE: [f64; 6] = [1.5, 2.0, 0.0, 1000.0, 2000.0, 0.0];
const ROTATED: [f64; 16] =
    [2.0, 1.0, 0.0, 100.0, 0.5, -3.0, 0.0, 200.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
const FLIPPED: [f64; 16] =
    [-2.0, 0.0, 0.0, 100.0, 0.0, 3.0, 0.0, 200.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];

/// `transform` and `bounds` of rasterio, bounds as least and greatest x and y.
#[test]
fn transforms_and_bounds_are_those_of_rasterio() {
    let geo = |scale: Option<[f64; 2]>, ties: &[[f64; 6]], transformation, is_point: bool| Geo {
        pixel_scale: scale.map(|[x, y]| [x, y, 0.0]),
        tie_points: ties.to_vec(),
        transformation,
        keys: shorts(&[(1024, 1), (1025, 1 + u16::from(is_point))]),
        ..Geo::default()
    };
    let scale = Some([10.0, 20.0]);
    let area = ([10.0, 0.0, 985.0, 0.0, -20.0, 2040.0], [985.0, 1980.0, 1025.0, 2040.0]);
    let point = ([10.0, 0.0, 980.0, 0.0, -20.0, 2050.0], [980.0, 1990.0, 1020.0, 2050.0]);
    let matrix = ([2.0, 1.0, 100.0, 0.5, -3.0, 200.0], [100.0, 191.0, 111.0, 202.0]);
    let moved = ([2.0, 1.0, 98.5, 0.5, -3.0, 201.25], [98.5, 192.25, 109.5, 203.25]);
    let flipped = ([-2.0, 0.0, 100.0, 0.0, 3.0, 200.0], [92.0, 200.0, 100.0, 209.0]);
    let other = [3.0, 3.0, 0.0, 5.0, 5.0, 0.0];
    let cases = [
        (geo(scale, &[TIE], None, false), area),
        (geo(scale, &[TIE], None, true), point),
        (geo(scale, &[TIE, other], None, false), area),
        (geo(scale, &[TIE], Some(ROTATED), false), area),
        (geo(Some([10.0, -20.0]), &[TIE], None, false), area),
        (geo(None, &[], Some(ROTATED), false), matrix),
        (geo(None, &[], Some(ROTATED), true), moved),
        (geo(Some([0.0, 20.0]), &[TIE], Some(ROTATED), false), matrix),
        (geo(Some([10.0, 0.0]), &[TIE], Some(ROTATED), false), matrix),
        (geo(None, &[], Some(FLIPPED), false), flipped),
    ];
    for (geo, (transform, bounds)) in cases {
        let mapped = map_ifds(vec![referenced(geo.clone())], &v3());
        let found = &mapped.hierarchy.root.attributes;
        assert_eq!(found["spatial:transform"], json!(transform), "{geo:?}");
        assert_eq!(found["spatial:bbox"], json!(bounds), "{geo:?}");
        assert_eq!(found["spatial:shape"], json!([3, 4]));
        // Rotated rows have no x of their own.
        assert_eq!(mapped.hierarchy.array("x").is_none(), transform[1] != 0.0, "{geo:?}");
        assert!(attributes(&mapped, "spatial_ref").get("gcps").is_none());
    }
    let sheared = |row, column| {
        let mut matrix = FLIPPED;
        (matrix[1], matrix[4]) = (row, column);
        let mapped = map_ifds(vec![referenced(geo(None, &[], Some(matrix), false))], &v3());
        mapped.hierarchy.array("x").is_none() && mapped.hierarchy.array("y").is_none()
    };
    assert!(sheared(1.0, 0.0) && sheared(0.0, 1.0) && !sheared(0.0, 0.0));
}

/// Control points are at pixels of the main image; its overviews have other pixels.
#[test]
fn overviews_and_masks_share_the_transform_at_their_scale() {
    let at = |index: usize, width, height, subfile_type| {
        let image = Image { subfile_type, ..image(width, height, 1, height) };
        Ifd { path: vec![index], ..ifd(image) }
    };
    let main = |geo| Ifd { geo: Some(geo), ..at(0, 8, 8, 0) };
    let others = || vec![at(1, 4, 4, 1), at(2, 8, 8, 4), at(3, 8, 8, 2), at(4, 8, 8, 0), at(5, 4, 2, 1)];
    let matrix = Geo { transformation: Some(ROTATED), ..Geo::default() };
    let mapped = map_ifds([vec![main(matrix)], others()].concat(), &v3());
    let text = |path: &str| attributes(&mapped, path)["GeoTransform"].clone();
    assert_eq!(text("spatial_ref"), "100.0 2.0 1.0 200.0 0.5 -3.0");
    assert_eq!(text("1/spatial_ref"), "100.0 4.0 2.0 200.0 1.0 -6.0");
    assert_eq!(text("2/spatial_ref"), text("spatial_ref"));
    for other in ["3/spatial_ref", "4/spatial_ref", "5/spatial_ref"] {
        assert!(mapped.hierarchy.array(other).is_none(), "{other} is an image of its own");
    }
    let points = Geo { tie_points: vec![TIE], rpc: Some(vec![1.0; 92]), ..Geo::default() };
    let mapped = map_ifds([vec![main(points)], others()].concat(), &v3());
    let names = |path: &str| attributes(&mapped, path).keys().cloned().collect::<Vec<_>>();
    assert_eq!(names("spatial_ref"), ["gcps", "rpc_coefficients"]);
    assert!(names("1/spatial_ref").is_empty());
}

/// Names and UUIDs of the conventions `geo-proj`, `spatial` and `multiscales`.
#[test]
fn arrays_refer_to_their_grid_mapping_and_groups_to_their_conventions() {
    let keys = shorts(&[(1024, 1), (3072, 32633)]);
    let geo = Geo { transformation: Some(ROTATED), keys, ..Geo::default() };
    let overview = Ifd { path: vec![1], ..ifd(Image { subfile_type: 1, ..image(2, 2, 1, 2) }) };
    let mapped = map_ifds(vec![referenced(geo), overview], &v3());
    assert!(!attributes(&mapped, "band_data").contains_key("units"), "no heights");
    for name in ["grid_mapping", "coordinates"] {
        assert_eq!(attributes(&mapped, "band_data")[name], "spatial_ref");
    }
    let conventions = mapped.hierarchy.root.attributes["zarr_conventions"].as_array().unwrap();
    let named: Vec<_> = conventions.iter().map(|one| (one["name"].as_str(), one["uuid"].as_str())).collect();
    let expected = [
        ("proj", "f17cb550-5864-4468-aeb7-f3180cfb622f"),
        ("spatial", "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"),
        ("multiscales", "d35379db-88df-4056-af3a-620245f8e347"),
    ];
    assert_eq!(named, expected.map(|(name, uuid)| (Some(name), Some(uuid))));
    let of_array = attributes(&mapped, "band_data");
    assert_eq!(of_array["_CRS"], json!({ "url": "http://www.opengis.net/def/crs/EPSG/0/32633" }));
    assert_eq!(of_array["spatial:transform"], mapped.hierarchy.root.attributes["spatial:transform"]);
    let layout = &mapped.hierarchy.root.attributes["multiscales"]["layout"];
    assert_eq!(layout[1]["spatial:transform"], json!([4.0, 1.5, 100.0, 1.0, -4.5, 200.0]));
    let nothing = map_ifds(vec![referenced(Geo::default())], &v3());
    assert!(nothing.hierarchy.root.attributes.is_empty());
}

/// CF: standard names and units of longitude, latitude and projected coordinates.
#[test]
fn axes_have_the_attributes_of_cf() {
    let axes = |keys: &[(u16, u16)]| {
        let geo = Geo { transformation: Some(FLIPPED), keys: shorts(keys), ..Geo::default() };
        let mapped = map_ifds(vec![referenced(geo)], &v3());
        ["x", "y"].map(|path| Value::Object(attributes(&mapped, path).clone()))
    };
    let degrees = [
        json!({ "axis": "X", "standard_name": "longitude", "units": "degrees_east" }),
        json!({ "axis": "Y", "standard_name": "latitude", "units": "degrees_north" }),
    ];
    assert_eq!(axes(&[(1024, 2), (2048, 4326)]), degrees);
    let projected = |more: Value| {
        ["x", "y"].map(|axis| {
            let name = format!("projection_{axis}_coordinate");
            let mut all = json!({ "axis": axis.to_uppercase(), "standard_name": name });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        })
    };
    assert_eq!(axes(&[(1024, 1), (3072, 32633)]), projected(json!({ "units": "metre" })));
    // EPSG:2225 has US survey feet.
    assert_eq!(axes(&[(1024, 1), (3072, 2225)]), projected(json!({})));
    let unknown = [json!({ "axis": "X" }), json!({ "axis": "Y" })];
    assert_eq!(axes(&[]), unknown);
    // EPSG:4807 has grads.
    assert_eq!(axes(&[(1024, 2), (2048, 4807)]), unknown);
}

#[test]
fn axes_are_written_within_the_limit() {
    let geo = || Geo { transformation: Some(FLIPPED), ..Geo::default() };
    let axes = |inline_limit| {
        let mapped = map_ifds(vec![referenced(geo())], &MapOptions { inline_limit, ..v3() });
        mapped.hierarchy.array("x").map(|x| (x.shape.clone(), x.chunks.inline[&0].len()))
    };
    assert_eq!(axes(7 * 8), Some((vec![4], 32)));
    assert_eq!(axes(7 * 8 - 1), None);
}

/// The codec `vlen-utf8`: the number of texts, then length and bytes of each.
#[test]
fn names_of_bands_are_a_variable() {
    let mut bands = ifd(image(4, 3, 2, 3));
    let mut name = item("DESCRIPTION", "né");
    (name.sample, name.role) = (Some(1), Some("description".into()));
    bands.gdal_metadata = vec![name];
    for (geo, coordinates) in [(None, "band_name"), (Some(Geo::default()), "spatial_ref band_name")] {
        let mapped = map_ifds(vec![Ifd { geo, ..bands.clone() }], &v3());
        let names = mapped.hierarchy.array("band_name").unwrap();
        assert_eq!((names.shape.as_slice(), names.dimension_names[0].as_deref()), (&[2][..], Some("band")));
        assert_eq!(names.chunks.inline[&0][..], *b"\x02\0\0\0\0\0\0\0\x03\0\0\0n\xc3\xa9");
        assert!(names.fill_value.is_some());
        assert_eq!(attributes(&mapped, "band_data")["coordinates"], coordinates);
        let band = mapped.hierarchy.array("band").unwrap();
        assert_eq!((band.shape.as_slice(), band.chunks.inline[&0].len()), (&[2][..], 16));
    }
    let mapped = map_ifds(vec![bands], &MapOptions::default());
    assert!(mapped.hierarchy.array("band_name").unwrap().fill_value.is_none(), "in Zarr v2");
}

/// GDAL reads vertical systems from files of GeoTIFF 1.1 only.
#[test]
fn omitted_systems_are_named() {
    let messages = |minor_revision, own: &[(u16, u16)]| {
        let geo = Geo { minor_revision, keys: shorts(own), ..Geo::default() };
        let mapped = map_ifds(vec![referenced(geo)], &v3());
        mapped.report.diagnostics.into_iter().map(|one| one.message).collect::<Vec<_>>()
    };
    let without = |problem: &str| vec![format!("the coordinate reference system is omitted: {problem}")];
    let no_model = "neither projected (1) nor geographic (2)";
    assert_eq!(messages(0, &[(3072, 32767)]), without(&format!("GTModelTypeGeoKey is missing, {no_model}")));
    assert_eq!(
        messages(0, &[(1024, 3), (2048, 4978)]),
        without(&format!("GTModelTypeGeoKey is 3, {no_model}"))
    );
    assert_eq!(
        messages(0, &[(1024, 1)]),
        without("EllipsoidSemiMajorAxisGeoKey is missing, and the other keys do not complete an ellipsoid")
    );
    assert_eq!(messages(0, &[(1024, 0)]), Vec::<String>::new());
    let own = [(1024, 1), (2048, 4326), (3072, 32767), (3075, 24), (4096, 5773)];
    assert_eq!(messages(0, &own), Vec::<String>::new());
    let flat = "the vertical part of the coordinate reference system is omitted: a system of the file's own with heights";
    assert!(messages(1, &own)[0].starts_with(flat));
    let solid = [(1024, 2), (2048, 4979), (4096, 5773)];
    assert!(messages(1, &solid)[0].contains("EPSG:4979 with the heights of EPSG:5773"));
    let code = [(1024, 1), (3072, 32633)];
    for more in [(4098, 5100), (4099, 9001), (4096, 32767)] {
        assert_eq!(messages(1, &[&code[..], &[more]].concat()).len(), 1, "{more:?}");
        assert_eq!(messages(0, &[&code[..], &[more]].concat()).len(), 0, "{more:?}");
    }
}
