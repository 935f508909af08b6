//! The geodetic part of a coordinate reference system: datum, ellipsoid, prime meridian, angles.
//!
//! Each GeoKey overrides what the code before it implies, as in GDAL (libgeotiff): geographic system, datum, ellipsoid, axes.

use std::f64::consts::PI;

use virtualize_tiff::model::GeoKey;

use super::crs::{
    ANGULAR_UNIT_SIZE, ANGULAR_UNITS, DATUM, ELLIPSOID, GEODETIC_CITATION, GEODETIC_CRS, INVERSE_FLATTENING,
    Keys, PRIME_MERIDIAN, PRIME_MERIDIAN_LONGITUDE, SEMI_MAJOR_AXIS, SEMI_MINOR_AXIS, TO_WGS_84,
    USER_DEFINED, cited, described, double, short,
};
use super::registry;

/// Radians in a degree, with GDAL's digits.
const DEGREE: f64 = 0.017_453_292_519_943_3;
/// Differences of semi-axes that are a matter of rounding, in metres.
const SAME_AXIS: f64 = 5e-4;
/// Codes below are reserved by the standard, and mean nothing.
const FIRST_CODE: u16 = 1024;

/// The geodetic part of a system.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Base {
    /// EPSG code of the geographic system.
    pub(super) code: Option<u16>,
    /// Key by which this part differs from the system of the code.
    pub(super) changed: Option<u16>,
    /// Degrees in the unit of the projection's parameters.
    pub(super) parameter_unit: f64,
    /// Degrees in the unit of the axes.
    pub(super) axis_unit: f64,
    /// Shift to WGS 84: metres, arc-seconds, parts per million, as a position vector transformation.
    pub(super) shift: Option<[f64; 7]>,
    /// Why the keys have no exact equivalent in WKT.
    problem: Option<String>,
    datum: Option<u16>,
    datum_name: Option<String>,
    semi_major: f64,
    /// 0 for a sphere.
    pub(super) inverse_flattening: f64,
    /// Degrees east of Greenwich.
    meridian: f64,
}

impl Base {
    /// Reads the keys of a file. `projected` is its projected system.
    ///
    /// # Errors
    /// The key that prevents an exact system, and why.
    pub(super) fn of(keys: &Keys, projected: Option<u16>) -> Result<Self, String> {
        let code = match short(keys, GEODETIC_CRS) {
            Some(code) => Some(code).filter(|code| (FIRST_CODE..USER_DEFINED).contains(code)),
            None => projected.and_then(registry::base_of),
        };
        let unknown = |key| registry::unknown(keys, key);
        let system =
            code.map(|code| registry::geographic(code).ok_or_else(|| unknown(GEODETIC_CRS))).transpose()?;
        // GDAL reads the citation of systems without a code only.
        let cited = |item| system.is_none().then(|| cited(keys, GEODETIC_CITATION, item)).flatten();
        let datum =
            short(keys, DATUM).or(system.map(|system| system.datum)).filter(|code| *code != USER_DEFINED);
        let (semi_major, inverse_flattening) = ellipsoid(keys, datum)?;
        let parameter_unit = angle(keys, system.is_some_and(|system| registry::is_in_grads(system.code)))?;
        let axis_unit = match (cited("AUnits = "), double(keys, ANGULAR_UNIT_SIZE)) {
            (Some(_), Some(radians)) if radians > 0.0 => radians / DEGREE,
            _ => parameter_unit,
        };
        let own_meridian = double(keys, PRIME_MERIDIAN_LONGITUDE);
        let meridian = match short(keys, PRIME_MERIDIAN).or(system.map(|system| system.meridian)) {
            _ if cited("Primem = ").is_some() && own_meridian.is_some() => own_meridian.unwrap_or_default(),
            None | Some(USER_DEFINED) => own_meridian.unwrap_or_default(),
            Some(..FIRST_CODE) => 0.0,
            Some(code) => registry::meridian(code).ok_or_else(|| unknown(PRIME_MERIDIAN))?,
        };
        let present = |candidates: &[u16]| candidates.iter().copied().find(|key| keys.contains_key(key));
        // The key to blame for the meridian; the geographic system if there is none.
        let meridian_key = present(&[PRIME_MERIDIAN, PRIME_MERIDIAN_LONGITUDE]).unwrap_or(GEODETIC_CRS);
        let changed = system.and_then(|system| {
            let (major, inverse) = registry::ellipsoid(system.ellipsoid)?;
            let differs = |a: f64, b: f64| (a - b).abs() > SAME_AXIS;
            let of_ellipsoid = [INVERSE_FLATTENING, SEMI_MINOR_AXIS, SEMI_MAJOR_AXIS, ELLIPSOID];
            if datum != Some(system.datum) {
                Some(DATUM)
            } else if differs(semi_major, major)
                || differs(semi_minor(semi_major, inverse_flattening), semi_minor(major, inverse))
            {
                present(&of_ellipsoid)
            } else if (meridian - registry::meridian(system.meridian)?).abs() > 1e-9 {
                Some(meridian_key)
            } else {
                let unit = if registry::is_in_grads(system.code) { 0.9 } else { 1.0 };
                ((axis_unit - unit).abs() > 1e-12).then_some(ANGULAR_UNITS)
            }
        });
        let datum_name = cited("Datum = ").map(str::to_owned);
        let shift = shift(keys).filter(|_| datum.is_none() && system.is_none() && projected.is_none());
        // GDAL ignores the shift of a datum that PROJ knows by its name.
        if shift.is_some()
            && datum_name.as_ref().is_some_and(|name| !name.to_lowercase().starts_with("unknown"))
        {
            return Err(format!("{} for a datum that may have a shift in PROJ", described(keys, TO_WGS_84)));
        }
        let numbers = [meridian, axis_unit];
        let problem = if meridian != 0.0 && (axis_unit != 1.0 || short(keys, ANGULAR_UNITS) == Some(9110)) {
            // GDAL converts such a longitude twice.
            Some(format!("{}, in another unit than degrees", described(keys, meridian_key)))
        } else if numbers.iter().chain(shift.iter().flatten()).any(|number| !number.is_finite()) {
            Some("a GeoKey is not a finite number".into())
        } else {
            None
        };
        Ok(Self {
            code: system.map(|system| system.code),
            changed,
            parameter_unit,
            axis_unit,
            shift,
            problem,
            datum,
            datum_name,
            semi_major,
            inverse_flattening,
            meridian,
        })
    }

    /// Returns the content of `GEOGCRS` or `BASEGEOGCRS` in WKT 2, without axes.
    ///
    /// # Errors
    /// The key that prevents an exact system, and why.
    pub(super) fn wkt(&self) -> Result<String, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let named = self.code.filter(|_| self.changed.is_none()).and_then(registry::names);
        // PROJ ignores the shift of a datum with the name "unknown".
        let (name, datum) = named.unwrap_or(("unknown", self.datum_name.as_deref().unwrap_or("unnamed")));
        let id = |code: Option<u16>| {
            code.filter(|code| *code >= FIRST_CODE)
                .map_or_else(String::new, |code| format!(r#",ID["EPSG",{code}]"#))
        };
        Ok(format!(
            r#""{name}",DATUM["{}",ELLIPSOID["unknown",{},{},LENGTHUNIT["metre",1]]{}],PRIMEM["{}",{},{}]"#,
            datum.replace('"', "\"\""),
            self.semi_major,
            self.inverse_flattening,
            id(self.datum),
            if self.meridian == 0.0 { "Greenwich" } else { "unknown" },
            self.meridian,
            unit(1.0),
        ))
    }

    /// Returns the identifier of the geographic system in WKT 2, if the keys do not change it.
    pub(super) fn id(&self) -> String {
        let code = self.code.filter(|_| self.changed.is_none());
        code.map_or_else(String::new, |code| format!(r#",ID["EPSG",{code}]"#))
    }
}

/// Returns a unit of this number of degrees in WKT 2.
pub(super) fn unit(degrees: f64) -> String {
    if degrees == 1.0 {
        r#"ANGLEUNIT["degree",0.0174532925199433]"#.into()
    } else {
        format!(r#"ANGLEUNIT["unknown",{}]"#, degrees * DEGREE)
    }
}

fn semi_minor(semi_major: f64, inverse_flattening: f64) -> f64 {
    if inverse_flattening == 0.0 { semi_major } else { semi_major * (1.0 - 1.0 / inverse_flattening) }
}

/// Returns semi-major axis and inverse flattening (0 for a sphere).
fn ellipsoid(keys: &Keys, datum: Option<u16>) -> Result<(f64, f64), String> {
    let unknown = |key| registry::unknown(keys, key);
    let has_meaning = |code: &u16| *code >= FIRST_CODE && *code != USER_DEFINED;
    let datum = datum.filter(has_meaning);
    let of_datum =
        datum.map(|code| registry::ellipsoid_of(code).ok_or_else(|| unknown(DATUM))).transpose()?;
    let code = short(keys, ELLIPSOID).or(of_datum).filter(has_meaning);
    let known = code.map(|code| registry::ellipsoid(code).ok_or_else(|| unknown(ELLIPSOID))).transpose()?;
    let inverse = double(keys, INVERSE_FLATTENING);
    let (known_major, known_inverse) = known.unwrap_or_default();
    let major = double(keys, SEMI_MAJOR_AXIS).unwrap_or(known_major);
    let minor = match inverse {
        Some(inverse) => semi_minor(major, inverse),
        None => double(keys, SEMI_MINOR_AXIS).unwrap_or_else(|| semi_minor(known_major, known_inverse)),
    };
    if !(major.is_finite() && minor > 0.0 && (minor <= major || minor - major < 0.1)) {
        let blamed = [INVERSE_FLATTENING, SEMI_MINOR_AXIS, SEMI_MAJOR_AXIS, ELLIPSOID];
        let blamed = blamed.into_iter().find(|key| keys.contains_key(key)).unwrap_or(SEMI_MAJOR_AXIS);
        return Err(format!("{}, and the other keys do not complete an ellipsoid", described(keys, blamed)));
    }
    // GDAL takes an ellipsoid for a sphere whose axes differ by less than 0.1 m.
    if (major - minor).abs() < 0.1 {
        return Ok((major, 0.0));
    }
    let exact = [inverse.unwrap_or_default(), known_inverse];
    let exact = exact
        .into_iter()
        .find(|inverse| *inverse != 0.0 && (semi_minor(major, *inverse) - minor).abs() < 1e-7);
    Ok((major, exact.unwrap_or(major / (major - minor))))
}

/// Returns the degrees in the unit of angles.
fn angle(keys: &Keys, is_in_grads: bool) -> Result<f64, String> {
    Ok(match short(keys, ANGULAR_UNITS) {
        None if is_in_grads => 0.9,
        // GDAL reads the size of a unit of the file's own for its axes only.
        None | Some(0 | 9102 | 9107 | 9108 | 9110 | 9122 | USER_DEFINED) => 1.0,
        Some(9101) => 180.0 / PI,
        Some(9103) => 1.0 / 60.0,
        Some(9104) => 1.0 / 3600.0,
        Some(9105 | 9106) => 0.9,
        Some(9109) => 180.0 / (PI * 1e6),
        Some(_) => return Err(format!("{}, an unsupported unit of angles", described(keys, ANGULAR_UNITS))),
    })
}

/// Returns the numbers of GeogTOWGS84GeoKey, filled up with zeros.
fn shift(keys: &Keys) -> Option<[f64; 7]> {
    let Some(GeoKey::Double(numbers)) = keys.get(&TO_WGS_84) else { return None };
    let mut shift = [0.0; 7];
    for (parameter, number) in shift.iter_mut().zip(numbers) {
        *parameter = *number;
    }
    (!numbers.is_empty()).then_some(shift)
}
