//! Grids of HDF5 and NetCDF files by the Zarr conventions `spatial` and `proj`: from coordinate variables of equal steps and
//! the grid mapping (CF conventions, chapters 4 and 5, appendix F).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize_tiff::model::{Geo, GeoKey};
use virtualize_zarr::cf::conventions::{Convention, Crs, Grid};
use virtualize_zarr::node::{self, join};
use virtualize_zarr::{Array, DataType, FillValue, Hierarchy, NodePath};

use crate::tiff::crs::{self, Unit};

/// Positions of the cells along an axis: the outer edge of the first cell, and the size of a cell.
pub type Axis = (f64, f64);

/// Returns the axis of coordinates that have equal steps within their precision; `None` for others, for fewer than two, and
/// for those that are not numbers. `bytes` are the values, little-endian.
///
/// Values are equally spaced if none is further than 4 units in the last place of the largest one from the line through the
/// first and the last. Float64 values that float32 can represent have the precision of float32.
#[expect(clippy::cast_precision_loss, reason = "indices of coordinates")]
pub fn regular_axis(data_type: &DataType, bytes: &[u8]) -> Option<Axis> {
    let size = usize::try_from(data_type.size()?).ok()?;
    let values =
        bytes.chunks_exact(size).map(|bytes| number(data_type, bytes)).collect::<Option<Vec<f64>>>()?;
    let [first, .., last] = values.as_slice() else { return None };
    let step = (last - first) / (values.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "the loss is what is tested")]
    let is_single = data_type.is_float() && values.iter().all(|value| f64::from(*value as f32) == *value);
    let epsilon = if is_single { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let largest = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let tolerance = 4.0 * epsilon * largest;
    let is_regular = |(at, value): (usize, &f64)| (first + step * at as f64 - value).abs() <= tolerance;
    // A step that rounding could change by a quarter has no meaning. NaN compares false.
    let is_step = step.is_finite() && step.abs() >= 4.0 * tolerance && step != 0.0;
    (is_step && values.iter().enumerate().all(is_regular)).then_some((first - step / 2.0, step))
}

fn number(data_type: &DataType, bytes: &[u8]) -> Option<f64> {
    /// Largest integers that float64 represents exactly.
    const EXACT: i128 = 1 << 53;
    let value = FillValue::Fixed(Bytes::copy_from_slice(bytes));
    if data_type.is_integer() {
        #[expect(clippy::cast_precision_loss, reason = "checked")]
        return value.to_i128(data_type).filter(|n| (-EXACT..=EXACT).contains(n)).map(|n| n as f64);
    }
    value.to_f64(data_type).filter(|_| *data_type != DataType::Float16)
}

/// Returns the coordinate variables whose values [`describe_grids`] needs. `is_wanted` selects groups.
pub fn grid_axes(hierarchy: &Hierarchy, is_wanted: &dyn Fn(&str) -> bool) -> BTreeSet<NodePath> {
    candidates(hierarchy, is_wanted).into_iter().flat_map(|found| found.axes).collect()
}

/// Declares the position of the arrays on grids, and of their groups if all of these arrays agree. Groups that declare one
/// already are skipped.
pub fn describe_grids(
    hierarchy: &mut Hierarchy,
    axes: &BTreeMap<NodePath, Axis>,
    is_wanted: &dyn Fn(&str) -> bool,
) {
    let mut by_group: BTreeMap<NodePath, Vec<(Grid, Option<Crs>)>> = BTreeMap::new();
    for Candidate { array: path, axes: [y, x], dimensions, shape, crs, factor } in
        candidates(hierarchy, is_wanted)
    {
        let (Some((top, height)), Some((left, width))) = (axes.get(&y), axes.get(&x)) else { continue };
        let transform = [width * factor, 0.0, left * factor, 0.0, height * factor, top * factor];
        let grid = Grid { dimensions, shape, transform };
        if let Some(array) = hierarchy.array_mut(&path) {
            grid.describe(&mut array.attributes);
            if let Some(crs) = &crs {
                crs.describe_array(&mut array.attributes);
            }
        }
        by_group.entry(node::parent(&path).to_owned()).or_default().push((grid, crs));
    }
    for (path, grids) in by_group {
        let Some((first, crs)) = grids.first() else { continue };
        let Some(group) = hierarchy.root.group_mut(&path) else { continue };
        if grids.iter().any(|(grid, _)| grid != first) {
            continue;
        }
        first.describe(&mut group.attributes);
        if let Some(crs) = crs.as_ref().filter(|_| grids.iter().all(|(_, other)| other == crs)) {
            crs.describe(&mut group.attributes);
        }
    }
}

/// An array with two horizontal axes, and a coordinate reference system that can be declared if it refers to one.
struct Candidate {
    array: NodePath,
    /// Coordinate variables of y and x.
    axes: [NodePath; 2],
    /// Dimensions of y and x.
    dimensions: [String; 2],
    shape: [u64; 2],
    crs: Option<Crs>,
    /// Units of the system in a unit of the coordinates.
    factor: f64,
}

/// What a coordinate variable measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Latitude,
    Longitude,
    Y,
    X,
}

fn candidates(hierarchy: &Hierarchy, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (path, array) in hierarchy.arrays() {
        let group = node::parent(&path);
        let of_group = hierarchy.group(group).map(|group| &group.attributes);
        let is_placed = |attributes| Convention::Spatial.is_declared(attributes);
        if array.shape.len() < 2
            || !is_wanted(group)
            || of_group.is_some_and(is_placed)
            || is_placed(&array.attributes)
        {
            continue;
        }
        found.extend(candidate(hierarchy, path, array, of_group.and_then(Crs::of)));
    }
    found
}

fn candidate(
    hierarchy: &Hierarchy,
    path: NodePath,
    array: &Array,
    declared: Option<Crs>,
) -> Option<Candidate> {
    let group = node::parent(&path).to_owned();
    let (mut y, mut x) = (Vec::new(), Vec::new());
    for (name, size) in array.dimension_names.iter().zip(&array.shape) {
        let Some(name) = name else { continue };
        let Some((path, axis)) = find(hierarchy, &group, name) else { continue };
        let is_own = axis.shape == [*size] && axis.dimension_names == [Some(name.clone())];
        let Some(kind) = kind(&axis.attributes).filter(|_| is_own) else { continue };
        let along = if matches!(kind, Kind::Latitude | Kind::Y) { &mut y } else { &mut x };
        along.push((name.clone(), *size, path, kind, unit(&axis.attributes)?));
    }
    let ([y], [x]) = (y.as_slice(), x.as_slice()) else { return None };
    let is_geographic = match (y.3, x.3) {
        (Kind::Latitude, Kind::Longitude) => true,
        (Kind::Y, Kind::X) => false,
        _ => return None,
    };
    if y.4 != x.4 {
        return None;
    }
    let mut factor = 1.0;
    let mut crs = None;
    if let Some(mapping) = mapping(&array.attributes, [&y.0, &x.0]) {
        let attributes = &find(hierarchy, &group, mapping?)?.1.attributes;
        let (found, unit) = match declared {
            Some(crs) => crs::unit_of(&crs).map(|unit| (crs, unit)),
            None => system(attributes),
        }?;
        factor = match (y.4.unwrap_or(unit), unit) {
            (Unit::Degrees, Unit::Degrees) => 1.0,
            (Unit::Metres(own), Unit::Metres(unit)) => own / unit,
            _ => return None,
        };
        if is_geographic && unit != Unit::Degrees {
            return None;
        }
        crs = Some(found);
    }
    let axes = [y.2.clone(), x.2.clone()];
    Some(Candidate {
        array: path,
        axes,
        dimensions: [y.0.clone(), x.0.clone()],
        shape: [y.1, x.1],
        crs,
        factor,
    })
}

/// Returns the array that a name refers to: in a group, or in the nearest one above.
fn find<'a>(hierarchy: &'a Hierarchy, group: &str, name: &str) -> Option<(NodePath, &'a Array)> {
    let mut paths = node::ancestors(group).map(|group| join(group, name));
    paths.find_map(|path| hierarchy.array(&path).map(|array| (path, array)))
}

fn text<'a>(attributes: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    attributes.get(name).and_then(Value::as_str).map(str::trim)
}

/// Returns what a coordinate variable measures; `None` for packed ones, and for other coordinates than horizontal ones.
fn kind(attributes: &Map<String, Value>) -> Option<Kind> {
    if ["scale_factor", "add_offset", "_Unsigned"].iter().any(|name| attributes.contains_key(*name)) {
        return None;
    }
    let units = text(attributes, "units").unwrap_or_default();
    let is_in = |end: &str| {
        let short = end.get(..1).unwrap_or_default().to_uppercase();
        let rest = units.strip_prefix("degrees").or_else(|| units.strip_prefix("degree"));
        rest.is_some_and(|rest| {
            rest.strip_prefix('_').unwrap_or(rest) == short || rest.strip_prefix('_') == Some(end)
        })
    };
    match (text(attributes, "standard_name"), text(attributes, "axis")) {
        (Some("latitude"), _) => Some(Kind::Latitude),
        (Some("longitude"), _) => Some(Kind::Longitude),
        (Some("projection_y_coordinate"), _) => Some(Kind::Y),
        (Some("projection_x_coordinate"), _) => Some(Kind::X),
        (Some(_), _) => None,
        _ if is_in("north") => Some(Kind::Latitude),
        _ if is_in("east") => Some(Kind::Longitude),
        (None, Some("Y" | "y")) => Some(Kind::Y),
        (None, Some("X" | "x")) => Some(Kind::X),
        _ => None,
    }
}

/// Returns the unit of coordinates: `Some(None)` without the attribute, `None` if it is neither a length nor degrees.
#[expect(clippy::option_option, reason = "unknown differs from missing")]
fn unit(attributes: &Map<String, Value>) -> Option<Option<Unit>> {
    let Some(units) = attributes.get("units") else { return Some(None) };
    match units.as_str()?.trim() {
        "m" | "metre" | "metres" | "meter" | "meters" => Some(Some(Unit::Metres(1.0))),
        "km" | "kilometre" | "kilometres" | "kilometer" | "kilometers" => Some(Some(Unit::Metres(1000.0))),
        units if units.starts_with("degree") => Some(Some(Unit::Degrees)),
        _ => None,
    }
}

/// Returns the grid mapping of an array: `None` without one, `Some(None)` if it has several but none for these axes.
#[expect(clippy::option_option, reason = "unknown differs from missing")]
fn mapping<'a>(attributes: &'a Map<String, Value>, axes: [&str; 2]) -> Option<Option<&'a str>> {
    let value = attributes.get("grid_mapping")?;
    let Some(names) = value.as_str() else { return Some(None) };
    if !names.contains(':') {
        return Some(Some(names.trim()));
    }
    // `mapping: coordinate coordinate …`, several times.
    let mut by_mapping: Vec<(&str, Vec<&str>)> = Vec::new();
    for word in names.split_whitespace() {
        match (word.strip_suffix(':'), by_mapping.last_mut()) {
            (Some(mapping), _) => by_mapping.push((mapping, Vec::new())),
            (None, Some((_, coordinates))) => coordinates.push(word),
            (None, None) => {}
        }
    }
    let applies = |coordinates: &[&str]| axes.iter().all(|axis| coordinates.contains(axis));
    Some(by_mapping.into_iter().find(|(_, coordinates)| applies(coordinates)).map(|(mapping, _)| mapping))
}

/// Returns the system of a grid mapping and the unit of its axes: from its WKT, its code, or else its parameters.
fn system(attributes: &Map<String, Value>) -> Option<(Crs, Unit)> {
    let texts = ["crs_wkt", "spatial_ref"].iter().filter_map(|name| text(attributes, name));
    for text in texts.filter(|text| !text.is_empty()) {
        let crs = if text.contains('[') { Crs::of_wkt(text) } else { Some(Crs::Code(text.to_owned())) };
        if let Some(crs) = crs {
            let unit = crs::unit_of(&crs)?;
            return Some((crs, unit));
        }
    }
    let keys = keys(attributes)?;
    let Some(keys) = keys else { return Some((Crs::Code("EPSG:4326".into()), Unit::Degrees)) };
    let crs = crs::Crs::of(&Geo { keys, ..Geo::default() });
    if crs.problem.is_some() {
        return None;
    }
    let unit = if crs.is_in_degrees { Unit::Degrees } else { Unit::Metres(1.0) };
    Some((crs.of_convention()?, unit))
}

/// Returns the parameters of a grid mapping as GeoKeys: `None` if they define no system that GeoKeys can express, `Some(None)`
/// for latitude and longitude on an unnamed figure, which GDAL and PROJ take for WGS 84.
#[expect(clippy::option_option, reason = "unknown differs from missing")]
fn keys(attributes: &Map<String, Value>) -> Option<Option<BTreeMap<u16, GeoKey>>> {
    const USER_DEFINED: GeoKey = GeoKey::Short(32767);
    let numbers = |name: &str| -> Option<Vec<f64>> {
        match attributes.get(name) {
            None => Some(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(Value::as_f64).collect(),
            Some(value) => Some(vec![value.as_f64()?]),
        }
    };
    let number = |name: &str| -> Option<Option<f64>> {
        match numbers(name)?.as_slice() {
            [] => Some(None),
            [one] => Some(one.is_finite().then_some(*one)),
            _ => None,
        }
    };
    let name = text(attributes, "grid_mapping_name")?;
    let is_geographic = name == "latitude_longitude";
    let mut keys = BTreeMap::new();
    let mut set = |key: u16, value: f64| drop(keys.insert(key, GeoKey::Double(vec![value])));
    let major = number("semi_major_axis")?.or(number("earth_radius")?);
    let (minor, flattening) = (number("semi_minor_axis")?, number("inverse_flattening")?);
    let meridian = number("longitude_of_prime_meridian")?.unwrap_or(0.0);
    let has_datum = ["horizontal_datum_name", "reference_ellipsoid_name", "prime_meridian_name", "towgs84"]
        .iter()
        .any(|name| attributes.contains_key(*name));
    match (major, minor, flattening) {
        (None, None, None) if is_geographic && meridian == 0.0 && !has_datum => return Some(None),
        (None, ..) => return None,
        (Some(major), Some(minor), _) => [(2057, major), (2058, minor)].map(|(key, value)| set(key, value)),
        (Some(major), None, Some(inverse)) if inverse != 0.0 => {
            [(2057, major), (2059, inverse)].map(|(key, value)| set(key, value))
        }
        (Some(major), ..) => [(2057, major), (2058, major)].map(|(key, value)| set(key, value)),
    };
    if meridian != 0.0 || attributes.contains_key("towgs84") {
        return None;
    }
    if !is_geographic {
        let method = projection(name, &number, &numbers, &mut set)?;
        for (key, name) in [(3082, "false_easting"), (3083, "false_northing")] {
            set(key, number(name)?.unwrap_or(0.0));
        }
        keys.extend([
            (3072, USER_DEFINED),
            (3074, USER_DEFINED),
            (3075, GeoKey::Short(method)),
            (3076, GeoKey::Short(9001)),
        ]);
    }
    keys.extend([(1024, GeoKey::Short(if is_geographic { 2 } else { 1 })), (2048, USER_DEFINED)]);
    Some(Some(keys))
}

const ORIGIN_LATITUDE: (&str, u16) = ("latitude_of_projection_origin", 3081);
const ORIGIN_LONGITUDE: (&str, u16) = ("longitude_of_projection_origin", 3080);
const CENTRAL_MERIDIAN: (&str, u16) = ("longitude_of_central_meridian", 3080);

/// A projection: its name in CF, its method in GeoTIFF, and its required attributes with their keys.
type Projection = (&'static str, u16, &'static [(&'static str, u16)]);

const PROJECTIONS: [Projection; 9] = [
    ("albers_conical_equal_area", 11, &[CENTRAL_MERIDIAN, ORIGIN_LATITUDE]),
    ("azimuthal_equidistant", 12, &[ORIGIN_LONGITUDE, ORIGIN_LATITUDE]),
    ("lambert_azimuthal_equal_area", 10, &[ORIGIN_LONGITUDE, ORIGIN_LATITUDE]),
    ("lambert_conformal_conic", 8, &[CENTRAL_MERIDIAN, ORIGIN_LATITUDE]),
    ("lambert_cylindrical_equal_area", 28, &[CENTRAL_MERIDIAN]),
    ("mercator", 7, &[ORIGIN_LONGITUDE]),
    ("polar_stereographic", 15, &[("straight_vertical_longitude_from_pole", 3095), ORIGIN_LATITUDE]),
    ("stereographic", 14, &[ORIGIN_LONGITUDE, ORIGIN_LATITUDE, ("scale_factor_at_projection_origin", 3092)]),
    (
        "transverse_mercator",
        1,
        &[CENTRAL_MERIDIAN, ORIGIN_LATITUDE, ("scale_factor_at_central_meridian", 3092)],
    ),
];

/// Sets the keys of a projection, and returns its method in GeoTIFF.
fn projection(
    name: &str,
    number: &dyn Fn(&str) -> Option<Option<f64>>,
    numbers: &dyn Fn(&str) -> Option<Vec<f64>>,
    set: &mut dyn FnMut(u16, f64),
) -> Option<u16> {
    let (_, method, required) = PROJECTIONS.iter().find(|(own, ..)| *own == name)?;
    for (name, key) in *required {
        set(*key, number(name)??);
    }
    let parallels = numbers("standard_parallel")?;
    let factor = if matches!(method, 7 | 15) { number("scale_factor_at_projection_origin")? } else { None };
    let [first, second, latitude, scale] = [3078, 3079, 3081, 3092];
    match (method, parallels.as_slice(), factor) {
        (8 | 11, [one, ..], _) if parallels.len() <= 2 => {
            set(first, *one);
            set(second, *parallels.last()?);
        }
        (28, [parallel], _) | (7, [parallel], None) => set(first, *parallel),
        (7, [], Some(factor)) => {
            set(latitude, 0.0);
            set(scale, factor);
        }
        (15, [], Some(_)) | (15, [_], None) => {
            let at = number(ORIGIN_LATITUDE.0)??;
            let parallel = parallels.first().copied().unwrap_or(at);
            if at.abs() != 90.0 || parallel.signum() != at.signum() {
                return None;
            }
            set(latitude, parallel);
            set(scale, factor.unwrap_or(1.0));
        }
        (7 | 8 | 11 | 15 | 28, ..) => return None,
        _ => {}
    }
    Some(*method)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use virtualize_zarr::{Node, ZarrFormat};

    use super::*;
    use crate::tiff::georeference::variable;

    fn bytes(values: &[f64], is_single: bool) -> (DataType, Vec<u8>) {
        #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
        let single = |value: &f64| (*value as f32).to_le_bytes().to_vec();
        match is_single {
            true => (DataType::Float32, values.iter().flat_map(single).collect()),
            false => (DataType::Float64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        }
    }

    /// Axes of random start, step and precision; one value moved by half a step, or by 16 units in the last place.
    #[test]
    fn only_axes_of_equal_steps_are_regular() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let (count, is_single) = (random.usize(3..300), random.bool());
            let start = (random.f64() - 0.5) * 360.0;
            let step = (random.f64() + 0.05) * if random.bool() { 1.0 } else { -1.0 };
            let mut values: Vec<f64> = (0_u32..).take(count).map(|at| start + step * f64::from(at)).collect();
            let (data_type, content) = bytes(&values, is_single);
            let (edge, size) = regular_axis(&data_type, &content).unwrap();
            assert!((size - step).abs() < 1e-4 && (edge - (start - step / 2.0)).abs() < 1e-3);
            let largest = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let ulp = largest * if is_single { f64::from(f32::EPSILON) } else { f64::EPSILON };
            let moved = random.usize(1..count - 1);
            values[moved] += if random.bool() { step / 2.0 } else { ulp * 16.0 };
            let (data_type, content) = bytes(&values, is_single);
            assert_eq!(regular_axis(&data_type, &content), None);
        }
    }

    #[test]
    fn few_equal_or_missing_coordinates_are_not_an_axis() {
        for values in [&[][..], &[1.0], &[1.0, 1.0], &[0.0, f64::NAN, 2.0], &[0.0, f64::INFINITY]] {
            let (data_type, content) = bytes(values, false);
            assert_eq!(regular_axis(&data_type, &content), None, "{values:?}");
        }
        assert_eq!(regular_axis(&DataType::Int16, &[0, 0, 2, 0, 4, 0]), Some((-1.0, 2.0)));
        assert_eq!(regular_axis(&DataType::Int16, &[0, 0, 2, 0, 5, 0]), None);
        assert_eq!(
            regular_axis(&DataType::Int64, &[i64::MAX.to_le_bytes(), i64::MIN.to_le_bytes()].concat()),
            None
        );
    }

    /// Returns a hierarchy of one variable on axes of 3 and 4 cells, and the attributes that it gets.
    fn described(axes: [Value; 2], mapping: &Value) -> [Map<String, Value>; 2] {
        let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
        let array = |shape: &[u64], names: &[&str], attributes: &Value| {
            let attributes = attributes.as_object().unwrap().clone();
            let options = crate::MapOptions::default();
            let mut array = variable(None, DataType::Float64, Vec::new(), attributes, &options);
            array.shape = shape.to_vec();
            array.dimension_names = names.iter().map(|name| Some((*name).to_owned())).collect();
            Node::Array(Box::new(array))
        };
        let children = &mut hierarchy.root.children;
        children.insert("v".into(), array(&[2, 3, 4], &["t", "n", "e"], &json!({ "grid_mapping": "m" })));
        children.insert("m".into(), array(&[], &[], mapping));
        children.insert("n".into(), array(&[3], &["n"], &axes[0]));
        children.insert("e".into(), array(&[4], &["e"], &axes[1]));
        let axes = [("n".to_owned(), (9.0, -1.0)), ("e".to_owned(), (5.0, 2.0))].into();
        describe_grids(&mut hierarchy, &axes, &|_| true);
        [hierarchy.root.attributes.clone(), hierarchy.array("v").unwrap().attributes.clone()]
    }

    #[test]
    fn units_of_coordinates_and_systems_must_agree() {
        let of = |name: &str, units: &str| json!({ "standard_name": name, "units": units });
        let projected =
            |units| ["projection_y_coordinate", "projection_x_coordinate"].map(|name| of(name, units));
        let utm = json!({ "spatial_ref": "EPSG:32633" });
        let transform = |axes, mapping: &Value| described(axes, mapping)[1].get("spatial:transform").cloned();
        assert_eq!(transform(projected("m"), &utm), Some(json!([2.0, 0.0, 5.0, 0.0, -1.0, 9.0])));
        assert_eq!(
            transform(projected("km"), &utm),
            Some(json!([2000.0, 0.0, 5000.0, 0.0, -1000.0, 9000.0]))
        );
        assert_eq!(transform(projected("rad"), &utm), None);
        assert_eq!(transform(projected("degrees"), &utm), None);
        // EPSG:2225 has US survey feet.
        let feet = transform(projected("m"), &json!({ "spatial_ref": "EPSG:2225" })).unwrap();
        assert!((feet[0].as_f64().unwrap() - 2.0 * 3937.0 / 1200.0).abs() < 1e-9);
        let geographic = [of("latitude", "degrees_north"), of("longitude", "degrees_east")];
        assert_eq!(transform(geographic.clone(), &utm), None);
        let empty = json!({ "grid_mapping_name": "latitude_longitude" });
        let [group, array] = described(geographic.clone(), &empty);
        for attributes in [&group, &array] {
            assert_eq!(attributes["proj:code"], "EPSG:4326");
            assert_eq!(attributes["spatial:bbox"], json!([5.0, 6.0, 13.0, 9.0]));
        }
        assert!(array.contains_key("_CRS") && !group.contains_key("_CRS"));
        let rotated =
            json!({ "grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 40.0 });
        assert_eq!(transform(geographic, &rotated), None);
    }
}
