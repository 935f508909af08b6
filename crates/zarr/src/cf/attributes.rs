//! Attributes that determine the meaning or the location of stored values. Arrays that differ in one of them hold
//! different values even where they store the same numbers, so they must not be merged. This is the only list of such
//! attributes.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Number, Value};

/// Attributes that values of an array depend on, sorted. Sections are those of the CF conventions, version 1.12.
const MEANING: [&str; 40] = [
    "MissingValue",               // HDF-EOS5 (Aura guidelines): what means "missing"
    "Offset",                     // HDF-EOS5: packing
    "ScaleFactor",                // HDF-EOS5: packing
    "Units",                      // HDF-EOS5
    "ValidRange",                 // HDF-EOS5
    "_Encoding",                  // NetCDF users guide: bytes become text
    "_FillValue",                 // 2.5.1
    "_Unsigned",                  // NetCDF users guide: the sign of integers
    "add_offset",                 // 8.1
    "calendar",                   // 4.4.2
    "color_map",                  // TIFF ColorMap: samples are indexes of it
    "compress",                   // 8.2: which points are stored
    "dtype",                      // xarray: the type that values have once decoded, such as bool
    "extra_samples",              // TIFF ExtraSamples: alpha that colours were multiplied by, or not
    "flag_masks",                 // 3.5
    "flag_meanings",              // 3.5
    "flag_values",                // 3.5
    "formula_terms",              // 4.3.3: what vertical coordinates are calculated from
    "gain",                       // ODIM_H5 and others: packing
    "grid_mapping",               // 5.6
    "instance_dimension",         // 9.3: which station an observation is of
    "leap_month",                 // 4.4.2, calendars of one's own
    "leap_year",                  // 4.4.2
    "missing_value",              // 2.5.1
    "month_lengths",              // 4.4.2
    "nodata",                     // ODIM_H5 and others: what means "missing"
    "offset",                     // ODIM_H5 and others: packing
    "offsets",                    // images: packing band by band
    "photometric_interpretation", // TIFF PhotometricInterpretation: such as black or white at zero
    "positive",                   // 4.3: whether heights count upwards
    "sample_dimension",           // 9.3
    "scale_factor",               // 8.1
    "scales",                     // images: packing band by band
    "undetect",                   // ODIM_H5: what means "nothing there"
    "units",                      // 3.1
    "units_metadata",             // 3.1.2: temperatures, or differences of them; leap seconds
    "unittype",                   // images: a unit that readers would decode as one of times
    "valid_max",                  // 2.5.1
    "valid_min",                  // 2.5.1
    "valid_range",                // 2.5.1
];

/// Attributes that only grid mappings have (section 5.6; GDAL).
const OF_GRID_MAPPINGS: [&str; 6] =
    ["GeoTransform", "crs_wkt", "gcps", "grid_mapping_name", "rpc_coefficients", "spatial_ref"];

/// Attributes of a grid mapping that nothing depends on.
const REMARKS: [&str; 4] = ["comment", "history", "long_name", "references"];

/// Whether values of an array depend on an attribute.
pub fn decides_values(name: &str) -> bool {
    MEANING.binary_search(&name).is_ok()
}

/// Whether attributes are those of a grid mapping.
pub fn is_grid_mapping(attributes: &Map<String, Value>) -> bool {
    OF_GRID_MAPPINGS.iter().any(|name| attributes.contains_key(*name))
}

/// Returns the attributes that values of an array depend on, in canonical form. `floats` tells whether its elements are
/// floats.
pub fn of_array(attributes: &Map<String, Value>, floats: bool) -> BTreeMap<String, Value> {
    let one = |name: &str| {
        let value = attributes.get(name)?.clone();
        let decoded = match &value {
            Value::String(text) if name == "_FillValue" && floats => decoded(text),
            _ => None,
        };
        Some((name.to_owned(), canonical(decoded.unwrap_or(value))))
    };
    MEANING.iter().filter_map(|name| one(name)).collect()
}

/// Returns the attributes of a grid mapping without remarks; with `moved` also without the origin of the image.
pub fn of_grid_mapping(attributes: &Map<String, Value>, moved: bool) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let is_named = ["spatial_ref", "crs_wkt"].iter().any(|name| attributes.contains_key(*name));
    for (name, value) in attributes.iter().filter(|(name, _)| !REMARKS.contains(&name.as_str())) {
        let value = match (name.as_str(), value) {
            ("GeoTransform", Value::String(text)) if moved => without_origin(text).into(),
            ("geo_keys", Value::Object(keys)) if is_named => {
                let is_text = |name: &str| name.ends_with("CitationGeoKey");
                keys.iter().filter(|(name, _)| !is_text(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
            }
            (_, value) => value.clone(),
        };
        found.insert(name.clone(), canonical(value));
    }
    found
}

/// Returns the attributes of a group that values of its arrays depend on, or their location by the conventions `proj:`
/// and `spatial:`, without extents, which follow from transform and shape. With `moved` also without the origin of the
/// image.
pub fn of_group(attributes: &Map<String, Value>, moved: bool) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in attributes {
        let value = match (name.as_str(), value) {
            ("spatial:bbox" | "spatial:shape", _) => continue,
            ("spatial:transform", Value::Array(numbers)) if moved => {
                let origin = |(at, number): (usize, &Value)| {
                    if at % 3 == 2 { Value::Null } else { number.clone() }
                };
                numbers.iter().enumerate().map(origin).collect()
            }
            (name, _)
                if !name.starts_with("proj:") && !name.starts_with("spatial:") && !decides_values(name) =>
            {
                continue;
            }
            (_, value) => value.clone(),
        };
        found.insert(name.clone(), canonical(value));
    }
    found
}

/// Decodes `_FillValue` as xarray encodes it in Zarr v3: base64 of the little-endian binary64.
fn decoded(text: &str) -> Option<Value> {
    let bytes: [u8; 8] = BASE64_STANDARD.decode(text).ok()?.try_into().ok()?;
    let number = f64::from_le_bytes(bytes);
    Some(Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::from))
}

/// Returns GDAL's six numbers without the first and the fourth, the origin of the image.
fn without_origin(transform: &str) -> String {
    let numbers = transform.split_whitespace().enumerate();
    numbers.map(|(at, number)| if at % 3 == 0 { "…" } else { number }).collect::<Vec<_>>().join(" ")
}

/// Returns the canonical form of a value: whole numbers are integers, members of objects are sorted.
pub fn canonical(value: Value) -> Value {
    match value {
        Value::Number(number) => whole(&number).map_or(Value::Number(number), Value::from),
        Value::Array(items) => items.into_iter().map(canonical).collect(),
        Value::Object(members) => {
            let sorted: BTreeMap<String, Value> = members.into_iter().collect();
            Value::Object(sorted.into_iter().map(|(name, value)| (name, canonical(value))).collect())
        }
        other => other,
    }
}

/// Returns a whole number up to 2⁵³ as an integer.
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_whole = float.trunc() == float && float.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
    is_whole.then_some(float as i64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(MEANING.is_sorted());
        assert!(MEANING.iter().all(|name| decides_values(name)));
    }

    #[test]
    fn what_means_the_same_is_equal() {
        let declared = |value: Value| of_array(value.as_object().unwrap(), true);
        // struct.pack("<d", -9999.0) in base64.
        assert_eq!(
            declared(json!({ "_FillValue": "AAAAAICHw8A=", "history": "a" })),
            declared(json!({ "_FillValue": -9999, "history": "b" }))
        );
        assert_eq!(
            declared(json!({ "valid_range": [0.0, 1.0] })),
            declared(json!({ "valid_range": [0, 1], "title": "t" }))
        );
        assert_ne!(declared(json!({ "scales": [0.1, 0.2] })), declared(json!({ "scales": [0.1, 0.3] })));
    }

    #[test]
    fn only_fill_values_of_floats_are_decoded() {
        let of = |value: Value, floats| of_array(value.as_object().unwrap(), floats);
        let encoded = json!({ "_FillValue": "AAAAAICHw8A=", "units": "AAAAAICHw8A=" });
        assert_eq!(of(encoded.clone(), true)["units"], json!("AAAAAICHw8A="));
        assert_eq!(of(encoded, false)["_FillValue"], json!("AAAAAICHw8A="));
    }

    /// CF 1.12, section 5.6; `GeoTransform` and `spatial_ref` are those of GDAL.
    #[test]
    fn grid_mappings_are_known_by_name() {
        let found = ["spatial_ref", "grid_mapping_name", "grid_mapping"]
            .map(|name| is_grid_mapping(json!({ name: "a" }).as_object().unwrap()));
        assert_eq!(found, [true, true, false]);
    }

    /// The conventions `proj:` and `spatial:` place an image by six numbers, of which the third and the sixth are its origin.
    #[test]
    fn groups_are_placed_by_conventions() {
        let of =
            |name: &str, value: Value, moved| of_group(json!({ name: value }).as_object().unwrap(), moved);
        let grid = |x, y, size| json!([size, 0, x, 0, size, y]);
        let name = "spatial:transform";
        assert_eq!(of(name, grid(1, 2, 10), true), of(name, grid(3, 4, 10), true));
        assert_ne!(of(name, grid(1, 2, 10), true), of(name, grid(1, 2, 20), true));
        assert_ne!(of(name, grid(1, 2, 10), false), of(name, grid(3, 2, 10), false));
        assert_ne!(of(name, grid(1, 2, 10), false), of(name, grid(1, 4, 10), false));
        for (name, count) in [("proj:code", 1), ("spatial:dimensions", 1), ("spatial:bbox", 0), ("title", 0)]
        {
            assert_eq!(of(name, json!("a"), true).len(), count, "{name}");
        }
    }

    #[test]
    fn a_grid_mapping_without_a_name_is_its_keys() {
        let of = |value: Value, moved| of_grid_mapping(value.as_object().unwrap(), moved);
        let keys = |code: u16, citation: &str| json!({ "GeogCitationGeoKey": citation, "ProjectedCSTypeGeoKey": code });
        let named = |keys: Value| of(json!({ "crs_wkt": "…", "geo_keys": keys }), false);
        assert_eq!(named(keys(1, "a")), named(keys(1, "b")));
        assert_ne!(named(keys(1, "a")), named(keys(2, "a")));
        let unnamed = |keys: Value| of(json!({ "geo_keys": keys }), false);
        assert_ne!(unnamed(keys(1, "a")), unnamed(keys(1, "b")));
        let place = |text: &str, moved| of(json!({ "GeoTransform": text }), moved);
        assert_ne!(place("1 10 0 5 0 -10", false), place("2 10 0 5 0 -10", false));
        assert_eq!(place("1 10 0 5 0 -10", true), place("2 10 0 6 0 -10", true));
        assert_ne!(place("1 10 0 5 0 -10", true), place("1 10 0 5 0 -20", true));
        assert_ne!(place("1 10 0 5 0 -10", true), place("1 10 3 5 0 -10", true));
    }

    #[test]
    fn groups_may_say_how_their_arrays_are_packed() {
        let what = |gain: f64| {
            of_group(json!({ "gain": gain, "startdate": gain.to_string() }).as_object().unwrap(), false)
        };
        assert_ne!(what(0.5), what(0.4));
        assert!(what(0.5).len() == 1);
    }

    #[test]
    fn adjacent_images_begin_at_different_origins() {
        let grid = |x: f64, size: f64| {
            let text = format!("{x} {size} 0.0 5.0 0.0 -{size}");
            of_grid_mapping(
                json!({ "spatial_ref": "EPSG:1", "GeoTransform": text }).as_object().unwrap(),
                true,
            )
        };
        assert_eq!(grid(1.0, 10.0), grid(2.0, 10.0));
        assert_ne!(grid(1.0, 10.0), grid(1.0, 20.0));
    }
}
