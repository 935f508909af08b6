//! Coordinate reference systems that a file defines by GeoKeys instead of a code, written as WKT 2 (ISO 19162).
//!
//! The methods and parameters are those of OGC 19-008r4 (GeoTIFF 1.1) under their EPSG names, which PROJ knows.

use std::collections::BTreeMap;

use virtualize_tiff::model::GeoKey;

use super::geo_keys::short;
use super::{contradiction, registry};

const DEGREE: &str = r#"ANGLEUNIT["degree",0.0174532925199433]"#;
const USER_DEFINED: u16 = 32767;
const METRE: &str = r#"LENGTHUNIT["metre",1]"#;

/// A parameter of a projection method: EPSG name, keys that hold it in order of preference, kind, default.
type Parameter = (&'static str, &'static [u16], Kind, f64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Angle,
    Length,
    Scale,
}

const LATITUDE: Parameter = ("Latitude of natural origin", &[3081, 3089], Kind::Angle, 0.0);
const LONGITUDE: Parameter = ("Longitude of natural origin", &[3080, 3088], Kind::Angle, 0.0);
const FACTOR: Parameter = ("Scale factor at natural origin", &[3092, 3093], Kind::Scale, 1.0);
const EASTING: Parameter = ("False easting", &[3082, 3086], Kind::Length, 0.0);
const NORTHING: Parameter = ("False northing", &[3083, 3087], Kind::Length, 0.0);
const FALSE_LATITUDE: Parameter = ("Latitude of false origin", &[3085, 3081], Kind::Angle, 0.0);
const FALSE_LONGITUDE: Parameter = ("Longitude of false origin", &[3084, 3080], Kind::Angle, 0.0);
const FIRST: Parameter = ("Latitude of 1st standard parallel", &[3078], Kind::Angle, 0.0);
const SECOND: Parameter = ("Latitude of 2nd standard parallel", &[3079], Kind::Angle, 0.0);
const FALSE_EASTING: Parameter = ("Easting at false origin", &[3086, 3082], Kind::Length, 0.0);
const FALSE_NORTHING: Parameter = ("Northing at false origin", &[3087, 3083], Kind::Length, 0.0);

/// Returns the system as WKT: the text of an Esri PE string if there is one, else built from the keys. `None` if the keys do
/// not define a system completely.
pub(super) fn of(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    esri(keys).or_else(|| match short(keys, 1024) {
        Some(1) => projected(keys),
        Some(2) => geographic(keys),
        _ => None,
    })
}

fn esri(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    [3073, 1026, 2049].into_iter().find_map(|key| match keys.get(&key) {
        Some(GeoKey::Text(text)) => {
            text.split_once("ESRI PE String = ").map(|(_, wkt)| wkt.trim_end_matches('|').to_owned())
        }
        _ => None,
    })
}

fn geographic(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    let base = base(keys)?;
    Some(format!(
        r#"GEOGCRS[{base},CS[ellipsoidal,2],AXIS["latitude",north],AXIS["longitude",east],{DEGREE}]"#
    ))
}

fn projected(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    let (base, unit, conversion) = (base(keys)?, linear_unit(keys)?, conversion(keys)?);
    let name = quoted(text(keys, 1026).or_else(|| text(keys, 3073)).unwrap_or("unnamed"));
    Some(format!(
        r#"PROJCRS[{name},BASEGEOGCRS[{base}],{conversion},CS[Cartesian,2],AXIS["easting",east],AXIS["northing",north],{unit}]"#
    ))
}

/// Returns name, datum and prime meridian of the geographic system; `None` if keys contradict each other, or if angles are
/// not in degrees.
fn base(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    if !matches!(short(keys, 2054), None | Some(9102))
        || number(keys, &[2061]).is_some_and(|east| east != 0.0)
        || short(keys, 2051).is_some_and(|meridian| ![8901, USER_DEFINED].contains(&meridian))
    {
        return None;
    }
    let code = short(keys, 2048).filter(|code| *code != USER_DEFINED);
    let datum = short(keys, 2050).filter(|code| *code != USER_DEFINED);
    let system = match (code, datum) {
        (Some(code), None) => Some(registry::geographic(code)?),
        (Some(code), Some(datum)) => Some(registry::geographic(code).filter(|system| system.datum == datum)?),
        (None, Some(datum)) => Some(registry::of_datum(datum)?),
        (None, None) => None,
    };
    let (name, datum, major, inverse_flattening) = match system {
        Some(system) if contradiction::ellipsoid_differs(keys, &system) => return None,
        // As in GDAL, the size of the ellipsoid in the keys takes precedence over that of the datum.
        Some(system) => {
            let (name, datum) = system.names()?;
            let major = number(keys, &[2057]).filter(|major| *major != 0.0).unwrap_or(system.semi_major);
            let inverse = number(keys, &[2059]).filter(|inverse| *inverse != 0.0);
            (name, datum, major, inverse.unwrap_or(system.inverse_flattening))
        }
        None => ("unknown", "unknown", number(keys, &[2057])?, number(keys, &[2059])?),
    };
    if major <= 0.0 || inverse_flattening < 0.0 {
        return None;
    }
    Some(format!(
        r#""{name}",DATUM["{datum}",ELLIPSOID["unknown",{major},{inverse_flattening},{METRE}]],PRIMEM["Greenwich",0,{DEGREE}]"#
    ))
}

fn linear_unit(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    Some(match short(keys, 3076) {
        None | Some(9001) => METRE.to_owned(),
        Some(9002) => r#"LENGTHUNIT["foot",0.3048]"#.to_owned(),
        Some(9003) => r#"LENGTHUNIT["US survey foot",0.304800609601219]"#.to_owned(),
        Some(_) => format!(r#"LENGTHUNIT["unknown",{}]"#, number(keys, &[3077]).filter(|size| *size > 0.0)?),
    })
}

fn conversion(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    if let Some(zone) = short(keys, 3074).filter(|code| *code != USER_DEFINED) {
        return utm(zone);
    }
    let has_parallel = number(keys, &[3078]).is_some();
    let (method, parameters) = method(short(keys, 3075)?, has_parallel)?;
    let unit = linear_unit(keys)?;
    let values: Vec<f64> =
        parameters.iter().map(|(_, ids, _, default)| number(keys, ids).unwrap_or(*default)).collect();
    Some(write_conversion(method, parameters, &values, &unit))
}

/// Returns the conversion of a UTM zone: codes 16001 to 16060 are north, 16101 to 16160 south.
fn utm(code: u16) -> Option<String> {
    let (zone, northing) = match code {
        16001..=16060 => (code - 16000, 0.0),
        16101..=16160 => (code - 16100, 10_000_000.0),
        _ => return None,
    };
    let values = [0.0, f64::from(zone) * 6.0 - 183.0, 0.9996, 500_000.0, northing];
    let (method, parameters) = method(1, false)?;
    Some(write_conversion(method, parameters, &values, METRE))
}

fn write_conversion(method: &str, parameters: &[Parameter], values: &[f64], length: &str) -> String {
    let written: Vec<String> = parameters
        .iter()
        .zip(values)
        .map(|((name, _, kind, _), value)| {
            let unit = match kind {
                Kind::Angle => DEGREE,
                Kind::Length => length,
                Kind::Scale => r#"SCALEUNIT["unity",1]"#,
            };
            format!(r#"PARAMETER["{name}",{value},{unit}]"#)
        })
        .collect();
    format!(r#"CONVERSION["unnamed",METHOD["{method}"],{}]"#, written.join(","))
}

/// Returns EPSG name and parameters of a ProjMethodGeoKey (3075). `has_parallel` tells the two variants of Mercator apart.
fn method(code: u16, has_parallel: bool) -> Option<(&'static str, &'static [Parameter])> {
    Some(match code {
        1 => ("Transverse Mercator", &[LATITUDE, LONGITUDE, FACTOR, EASTING, NORTHING]),
        7 if has_parallel => ("Mercator (variant B)", &[FIRST, LONGITUDE, EASTING, NORTHING]),
        7 => ("Mercator (variant A)", &[LATITUDE, LONGITUDE, FACTOR, EASTING, NORTHING]),
        8 => (
            "Lambert Conic Conformal (2SP)",
            &[FALSE_LATITUDE, FALSE_LONGITUDE, FIRST, SECOND, FALSE_EASTING, FALSE_NORTHING],
        ),
        9 => ("Lambert Conic Conformal (1SP)", &[LATITUDE, LONGITUDE, FACTOR, EASTING, NORTHING]),
        10 => ("Lambert Azimuthal Equal Area", &[LATITUDE, LONGITUDE, EASTING, NORTHING]),
        11 => (
            "Albers Equal Area",
            &[FALSE_LATITUDE, FALSE_LONGITUDE, FIRST, SECOND, FALSE_EASTING, FALSE_NORTHING],
        ),
        24 => ("Sinusoidal", &[LONGITUDE, EASTING, NORTHING]),
        _ => return None,
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn text(keys: &BTreeMap<u16, GeoKey>, key: u16) -> Option<&str> {
    match keys.get(&key) {
        Some(GeoKey::Text(text)) => Some(text),
        _ => None,
    }
}

/// Returns the number of the first of these keys that has a finite one.
fn number(keys: &BTreeMap<u16, GeoKey>, ids: &[u16]) -> Option<f64> {
    ids.iter().find_map(|id| match keys.get(id) {
        Some(GeoKey::Double(values)) => values.first().copied().filter(|value| value.is_finite()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(shorts: &[(u16, u16)], doubles: &[(u16, f64)]) -> BTreeMap<u16, GeoKey> {
        let shorts = shorts.iter().map(|(id, value)| (*id, GeoKey::Short(*value)));
        shorts.chain(doubles.iter().map(|(id, value)| (*id, GeoKey::Double(vec![*value])))).collect()
    }

    /// `pyproj.CRS(text).to_proj4()`: +proj=aea +lat_0=23 +lon_0=-96 +lat_1=29.5 +lat_2=45.5 +x_0=0 +y_0=0 …
    #[test]
    fn albers_is_built_from_its_keys() {
        let albers = keys(
            &[(1024, 1), (2048, 4326), (3072, 32767), (3074, 32767), (3075, 11), (3076, 9001)],
            &[(3078, 29.5), (3079, 45.5), (3080, -96.0), (3081, 23.0)],
        );
        let text = of(&albers).unwrap();
        assert!(
            text.contains(r#"METHOD["Albers Equal Area"],PARAMETER["Latitude of false origin",23,"#),
            "{text}"
        );
        assert!(text.contains(r#"PARAMETER["Longitude of false origin",-96,"#), "{text}");
        assert!(text.contains(r#"ELLIPSOID["unknown",6378137,298.257223563,"#), "{text}");
    }

    #[test]
    fn incomplete_keys_give_no_system() {
        assert_eq!(of(&keys(&[(1024, 1), (3072, 32767), (3075, 11)], &[])), None, "no ellipsoid");
        assert_eq!(of(&keys(&[(1024, 1), (2048, 4326), (3075, 99)], &[])), None, "unknown method");
        assert_eq!(of(&keys(&[(1024, 2), (2048, 4326), (2054, 9104)], &[])), None, "arc-seconds");
    }

    #[test]
    fn utm_conversions_have_codes() {
        let utm = utm(16132).unwrap();
        assert!(utm.contains(r#"PARAMETER["Longitude of natural origin",9,"#), "{utm}");
        assert!(utm.contains(r#"PARAMETER["False northing",10000000,"#), "{utm}");
    }

    /// ArcGIS writes its own text of the system into a citation.
    #[test]
    fn texts_of_esri_come_first_and_names_are_quoted() {
        let shorts = [(1024, 1), (2048, 4326), (3072, 32767), (3075, 11)];
        let named = |key, text: &str| {
            let mut keys = keys(&shorts, &[]);
            keys.insert(key, GeoKey::Text(text.into()));
            of(&keys).unwrap()
        };
        for key in [3073, 1026, 2049] {
            assert_eq!(named(key, "ESRI PE String = PROJCS[\"A\"]|"), "PROJCS[\"A\"]");
        }
        assert!(named(3073, "a \"b\"").starts_with(r#"PROJCRS["a ""b""","#));
        assert!(named(1026, "a").starts_with(r#"PROJCRS["a","#));
        assert!(of(&keys(&shorts, &[])).unwrap().starts_with(r#"PROJCRS["unnamed","#));
    }

    /// Only degrees from Greenwich, an ellipsoid with a size, and codes that agree define a system here.
    #[test]
    fn a_base_is_whole_and_free_of_contradictions() {
        let ellipsoid = [(2057, 6_378_137.0), (2059, 298.0)];
        let is_base = |shorts: &[(u16, u16)], doubles: &[(u16, f64)]| {
            of(&keys(&[&[(1024, 2)], shorts].concat(), doubles)).is_some()
        };
        for shorts in [
            vec![(2048, 4326)],
            vec![(2048, 32767), (2050, 6326)],
            vec![(2048, 4326), (2050, 6326)],
            vec![(2048, 4326), (2050, 32767)],
            vec![(2048, 4326), (2051, 8901)],
            vec![(2048, 4326), (2051, 32767)],
            vec![(2048, 4326), (2054, 9102)],
        ] {
            assert!(is_base(&shorts, &[]), "{shorts:?}");
        }
        for shorts in [
            vec![],
            vec![(2048, 4326), (2050, 6269)],
            vec![(2048, 4326), (2051, 8903)],
            vec![(2048, 4326), (2054, 9105)],
            vec![(2048, 32767), (2050, 32767)],
        ] {
            assert!(!is_base(&shorts, &[]), "{shorts:?}");
        }
        assert!(is_base(&[], &ellipsoid) && is_base(&[], &[(2057, 1.0), (2059, 0.0)]), "a sphere");
        assert!(!is_base(&[], &[(2057, 0.0), (2059, 298.0)]) && !is_base(&[], &[(2057, 1.0), (2059, -1.0)]));
        assert!(is_base(&[(2048, 4326)], &[(2061, 0.0)]) && !is_base(&[(2048, 4326)], &[(2061, 2.5)]));
    }
}
