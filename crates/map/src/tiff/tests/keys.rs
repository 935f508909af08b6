//! Coordinate reference systems and heights by GeoKeys, compared with those that GDAL derives from the same keys (`fixtures/mapping/geo_keys.json`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use virtualize_remedy::Code;
use virtualize_tiff::model::{self, Geo, GeoKey, Ifd};
use virtualize_zarr::ZarrFormat;

use super::{ifd, image, map_ifds};
use crate::{MapOptions, Mapped};

fn cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mapping/geo_keys.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn key(value: &Value) -> GeoKey {
    match value {
        Value::String(text) => GeoKey::Text(text.clone()),
        Value::Number(short) if short.is_u64() => {
            GeoKey::Short(u16::try_from(short.as_u64().unwrap()).unwrap())
        }
        Value::Array(doubles) => GeoKey::Double(doubles.iter().map(number).collect()),
        double => GeoKey::Double(vec![number(double)]),
    }
}

fn geo(case: &Value) -> Geo {
    let keys = case["keys"].as_object().unwrap().iter().map(|(id, value)| (id.parse().unwrap(), key(value)));
    Geo {
        minor_revision: u16::try_from(case["minor"].as_u64().unwrap()).unwrap(),
        keys: keys.collect(),
        pixel_scale: Some([10.0, 10.0, 0.0]),
        tie_points: vec![[0.0, 0.0, 0.0, 1000.0, 2000.0, 0.0]],
        ..Geo::default()
    }
}

fn map(ifd: Ifd) -> Mapped {
    map_ifds(vec![ifd], &MapOptions { format: ZarrFormat::V3, ..MapOptions::default() })
}

fn attributes(mapped: &Mapped) -> &Map<String, Value> {
    &mapped.hierarchy.array("spatial_ref").unwrap().attributes
}

/// Returns the parameters in WKT 2.
fn parameters(wkt: &str) -> Vec<(String, f64)> {
    let parts = wkt.split("PARAMETER[\"").skip(1);
    parts
        .map(|part| {
            let (name, rest) = part.split_once("\",").unwrap();
            (name.to_owned(), rest.split_once(',').unwrap().0.parse().unwrap())
        })
        .collect()
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).map_or("", |(found, _)| found)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

/// Compares a system of the file's own. GDAL's values are in degrees and metres.
fn compare_wkt(wkt: &str, system: &Value, case: &Value) {
    assert!(system.is_object(), "{case}: {wkt}");
    let (wkt, shift) = wkt.split_once(",TARGETCRS[").unwrap_or((wkt, ""));
    let shift: Vec<f64> = parameters(shift).into_iter().map(|(_, value)| value).collect();
    if system["shift"].is_null() {
        assert!(shift.is_empty(), "{case}: {shift:?}");
    } else {
        let expected: Vec<f64> = system["shift"].as_array().unwrap().iter().map(number).collect();
        let scale = expected.get(6).map_or(1.0, |millionths| 1.0 + millionths * 1e-6);
        assert!(shift.iter().zip(&expected).take(6).all(|(a, b)| near(*a, *b)), "{case}: {shift:?}");
        assert!(near(shift[6], scale), "{case}: {shift:?}");
    }
    let numbers = |text: &str| text.split(',').map(|n| n.parse().unwrap()).collect::<Vec<f64>>();
    let ellipsoid = numbers(between(wkt, "ELLIPSOID[\"unknown\",", ",LENGTHUNIT"));
    assert!(
        near(ellipsoid[0], number(&system["major"]))
            && near(ellipsoid[1], system["inverse"].as_f64().unwrap_or(0.0)),
        "{case}: {wkt}"
    );
    let meridian = between(wkt, "PRIMEM[\"", ",ANGLEUNIT").split_once("\",").unwrap().1;
    assert!(near(meridian.parse().unwrap(), number(&system["meridian"])), "{case}: {wkt}");
    let unit = |before: &str| number_of(between(wkt, before, "]"));
    let Some(method) = system["method"].as_str() else {
        let size = unit(r#"AXIS["latitude",north],AXIS["longitude",east],ANGLEUNIT["#);
        return assert!(wkt.contains("GEOGCRS[") && near(size, number(&system["unit"])), "{case}: {wkt}");
    };
    // On a sphere, both kinds of a method are the same.
    let is_sphere = system["inverse"].as_f64().unwrap_or(0.0) == 0.0;
    let bare = |name: &str| if is_sphere { name.replace(" (Spherical)", "") } else { name.to_owned() };
    assert_eq!(bare(between(wkt, "METHOD[\"", "\"]")), bare(method), "{case}");
    let size = unit(r#"AXIS["easting",east],AXIS["northing",north],LENGTHUNIT["#);
    assert!(near(size, number(&system["unit"])), "{case}: {size}");
    let expected = system["parameters"].as_object().unwrap();
    let found: BTreeMap<_, _> = parameters(wkt).into_iter().collect();
    assert!(found.keys().eq(expected.keys().collect::<std::collections::BTreeSet<_>>()), "{case}: {found:?}");
    for (name, value) in &found {
        assert!(near(*value, number(&expected[name])), "{case}: {name} is {value}");
    }
}

/// Returns the size in `"name",size`.
fn number_of(unit: &str) -> f64 {
    unit.rsplit_once(',').unwrap().1.parse().unwrap()
}

fn compare_system(mapped: &Mapped, case: &Value) {
    let (found, system) = (attributes(mapped), &case["system"]);
    if let Some(wkt) = found.get("crs_wkt") {
        return compare_wkt(wkt.as_str().unwrap(), system, case);
    }
    let code = found.get("spatial_ref").map(|code| code.as_str().unwrap().to_owned());
    let expected = match (&system["code"], &system["vertical"]) {
        (Value::Null, _) => None,
        (code, Value::Null) => Some(format!("EPSG:{code}")),
        (code, vertical) => Some(format!("EPSG:{code}+{vertical}")),
    };
    assert_eq!(code, expected, "{case}");
    let horizontal = expected.and_then(|code| Some(code.split('+').next()?.to_owned()));
    let of_group =
        mapped.hierarchy.root.attributes.get("proj:code").map(|code| code.as_str().unwrap().to_owned());
    // The code of a convention is that of the horizontal system.
    if system["axes"] != 3 {
        assert_eq!(of_group, horizontal, "{case}");
    }
}

#[test]
fn systems_are_those_of_gdal_or_refused_with_a_reason() {
    let mut compared = 0;
    for case in cases().iter().filter(|case| case["kind"] != "heights") {
        let ifd = Ifd { geo: Some(geo(case)), ..ifd(image(4, 3, 1, 3)) };
        let mapped = map(ifd);
        let codes: Vec<_> = mapped.report.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        let found = attributes(&mapped);
        let has_system = found.contains_key("spatial_ref") || found.contains_key("crs_wkt");
        match case["kind"].as_str().unwrap() {
            "refused" => assert!(!has_system && codes == [Code::TiffCrs], "{case}: {codes:?}"),
            "flat" => assert!(has_system && codes == [Code::TiffVerticalCrs], "{case}: {codes:?}"),
            "same" => {
                assert!(codes.is_empty(), "{case}: {codes:?}");
                compare_system(&mapped, case);
                compared += 1;
            }
            // GDAL names no code if the ellipsoid is rounded.
            _ if has_system
                && codes.is_empty()
                && !(found.contains_key("spatial_ref") && case["system"]["code"].is_null()) =>
            {
                compare_system(&mapped, case);
                compared += 1;
            }
            _ => {}
        }
    }
    assert!(compared > 300, "{compared} systems");
}

#[test]
fn heights_are_those_of_gdal() {
    for case in cases().iter().filter(|case| case["kind"] == "heights") {
        let bands = u16::try_from(case["bands"].as_u64().unwrap()).unwrap();
        let scale: Vec<f64> = case["scale"].as_array().unwrap().iter().map(number).collect();
        let point: Vec<f64> = case["point"].as_array().unwrap().iter().map(number).collect();
        let mut ifd = ifd(image(4, 4, bands, 4));
        ifd.tags = BTreeMap::from([(33550, model::Value::Float(scale.clone()))]);
        ifd.geo = Some(Geo {
            pixel_scale: Some([scale[0], scale[1], scale.get(2).copied().unwrap_or(0.0)]),
            tie_points: vec![point.try_into().unwrap()],
            ..geo(case)
        });
        let mapped = map(ifd);
        let array = &mapped.hierarchy.array("band_data").unwrap().attributes;
        let of = |name: &str, default| array.get(name).map_or(default, number);
        let packing = &case["packing"];
        assert_eq!(
            (of("scale_factor", 1.0), of("add_offset", 0.0)),
            (number(&packing[0]), number(&packing[1])),
            "{case}"
        );
        let units = array.get("units").cloned().unwrap_or_else(|| "".into());
        let first = units.get(0).unwrap_or(&units);
        assert_eq!(first, &case["units"][0], "{case}");
    }
}

/// OGC 19-008r4, tables of GeoKeys; those that are doubles in the standard too.
const NAMES: [(u16, &str); 47] = [
    (1024, "GTModelTypeGeoKey"),
    (1025, "GTRasterTypeGeoKey"),
    (1026, "GTCitationGeoKey"),
    (2048, "GeodeticCRSGeoKey"),
    (2049, "GeodeticCitationGeoKey"),
    (2050, "GeodeticDatumGeoKey"),
    (2051, "PrimeMeridianGeoKey"),
    (2052, "GeogLinearUnitsGeoKey"),
    (2053, "GeogLinearUnitSizeGeoKey"),
    (2054, "GeogAngularUnitsGeoKey"),
    (2055, "GeogAngularUnitSizeGeoKey"),
    (2056, "EllipsoidGeoKey"),
    (2057, "EllipsoidSemiMajorAxisGeoKey"),
    (2058, "EllipsoidSemiMinorAxisGeoKey"),
    (2059, "EllipsoidInvFlatteningGeoKey"),
    (2060, "GeogAzimuthUnitsGeoKey"),
    (2061, "PrimeMeridianLongitudeGeoKey"),
    (2062, "GeogTOWGS84GeoKey"),
    (3072, "ProjectedCRSGeoKey"),
    (3073, "ProjectedCitationGeoKey"),
    (3074, "ProjectionGeoKey"),
    (3075, "ProjMethodGeoKey"),
    (3076, "ProjLinearUnitsGeoKey"),
    (3077, "ProjLinearUnitSizeGeoKey"),
    (3078, "ProjStdParallel1GeoKey"),
    (3079, "ProjStdParallel2GeoKey"),
    (3080, "ProjNatOriginLongGeoKey"),
    (3081, "ProjNatOriginLatGeoKey"),
    (3082, "ProjFalseEastingGeoKey"),
    (3083, "ProjFalseNorthingGeoKey"),
    (3084, "ProjFalseOriginLongGeoKey"),
    (3085, "ProjFalseOriginLatGeoKey"),
    (3086, "ProjFalseOriginEastingGeoKey"),
    (3087, "ProjFalseOriginNorthingGeoKey"),
    (3088, "ProjCenterLongGeoKey"),
    (3089, "ProjCenterLatGeoKey"),
    (3090, "ProjCenterEastingGeoKey"),
    (3091, "ProjCenterNorthingGeoKey"),
    (3092, "ProjScaleAtNatOriginGeoKey"),
    (3093, "ProjScaleAtCenterGeoKey"),
    (3094, "ProjAzimuthAngleGeoKey"),
    (3095, "ProjStraightVertPoleLongGeoKey"),
    (4096, "VerticalGeoKey"),
    (4097, "VerticalCitationGeoKey"),
    (4098, "VerticalDatumGeoKey"),
    (4099, "VerticalUnitsGeoKey"),
    (5120, "CoordinateEpochGeoKey"),
];

#[test]
fn keys_are_kept_under_their_names() {
    let keys = NAMES.iter().map(|(id, _)| (*id, GeoKey::Short(*id)));
    let more = [
        (3096, GeoKey::Double(vec![1.5])),
        (6000, GeoKey::Double(vec![1.0, 2.0])),
        (6001, GeoKey::Text("text".into())),
    ];
    let geo = Geo { keys: keys.chain(more).collect(), ..Geo::default() };
    let mapped = map(Ifd { geo: Some(geo), ..ifd(image(4, 3, 1, 3)) });
    let mut expected: Map<String, Value> =
        NAMES.iter().map(|(id, name)| ((*name).to_owned(), (*id).into())).collect();
    expected.insert("ProjRectifiedGridAngleGeoKey".into(), 1.5.into());
    expected.insert("GeoKey6000".into(), vec![1.0, 2.0].into());
    expected.insert("GeoKey6001".into(), "text".into());
    assert_eq!(attributes(&mapped)["geo_keys"], Value::Object(expected));
}
