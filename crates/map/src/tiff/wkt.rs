//! Coordinate reference systems that a file defines by GeoKeys instead of a code, written as WKT 2 (ISO 19162).
//!
//! The keys of each parameter, their order of preference and the variants of a method are those of GDAL (libgeotiff). Each
//! GeoKey overrides what the code before it implies: geographic system, datum, ellipsoid, axes. The names are those of EPSG or
//! PROJ.

use std::f64::consts::PI;

use virtualize_tiff::model::GeoKey;

use super::crs::{
    ANGULAR_UNIT_SIZE, ANGULAR_UNITS, CITATION, DATUM, ELLIPSOID, GEODETIC_CITATION, GEODETIC_CRS,
    INVERSE_FLATTENING, Keys, METHOD, PRIME_MERIDIAN, PRIME_MERIDIAN_LONGITUDE, PROJECTED_CITATION,
    PROJECTION, SEMI_MAJOR_AXIS, SEMI_MINOR_AXIS, TO_WGS_84, USER_DEFINED, VERTICAL, VERTICAL_UNITS, cited,
    described, double, short, text,
};
use super::registry;

const METRE: &str = r#"LENGTHUNIT["metre",1]"#;
const FIRST_PARALLEL: u16 = 3078;
const SECOND_PARALLEL: u16 = 3079;
const SCALE: u16 = 3092;

/// A parameter of a projection method: name in WKT, kind, keys in order of preference.
type Parameter = (&'static str, Kind, &'static [u16]);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In the unit of angles of the file.
    Angle,
    /// In degrees, whatever the unit of angles.
    Azimuth,
    Length,
    Scale,
    /// An angle of 90° unless there is a key.
    RightAngle,
}

const LATITUDES: &[u16] = &[3081, 3085, 3089];
const LONGITUDES: &[u16] = &[3080, 3084, 3088];
const EASTINGS: &[u16] = &[3082, 3090, 3086];
const NORTHINGS: &[u16] = &[3083, 3091, 3087];
const SCALES: &[u16] = &[SCALE, 3093];
const POLAR_LONGITUDES: &[u16] = &[3095, 3080, 3084, 3088];

const LATITUDE: Parameter = ("Latitude of natural origin", Kind::Angle, LATITUDES);
const LONGITUDE: Parameter = ("Longitude of natural origin", Kind::Angle, LONGITUDES);
const FACTOR: Parameter = ("Scale factor at natural origin", Kind::Scale, SCALES);
const OWN_FACTOR: Parameter = ("Scale factor at natural origin", Kind::Scale, &[SCALE]);
const EASTING: Parameter = ("False easting", Kind::Length, EASTINGS);
const NORTHING: Parameter = ("False northing", Kind::Length, NORTHINGS);
const FALSE_LATITUDE: Parameter = ("Latitude of false origin", Kind::Angle, LATITUDES);
const FALSE_LONGITUDE: Parameter = ("Longitude of false origin", Kind::Angle, LONGITUDES);
const FIRST: Parameter = ("Latitude of 1st standard parallel", Kind::Angle, &[FIRST_PARALLEL]);
const SECOND: Parameter = ("Latitude of 2nd standard parallel", Kind::Angle, &[SECOND_PARALLEL]);
const FALSE_EASTING: Parameter = ("Easting at false origin", Kind::Length, EASTINGS);
const FALSE_NORTHING: Parameter = ("Northing at false origin", Kind::Length, NORTHINGS);
const CENTRE_LATITUDE: Parameter = ("Latitude of projection centre", Kind::Angle, LATITUDES);
const CENTRE_LONGITUDE: Parameter = ("Longitude of projection centre", Kind::Angle, LONGITUDES);
const CENTRE_FACTOR: Parameter = ("Scale factor at projection centre", Kind::Scale, SCALES);
const AZIMUTH: Parameter = ("Azimuth at projection centre", Kind::Azimuth, &[3094]);
const SKEW: Parameter = ("Angle from Rectified to Skew Grid", Kind::RightAngle, &[3096]);
const POLAR_LONGITUDE: Parameter = ("Longitude of natural origin", Kind::Angle, POLAR_LONGITUDES);

const ORIGIN: &[Parameter] = &[LATITUDE, LONGITUDE, EASTING, NORTHING];
const SCALED_ORIGIN: &[Parameter] = &[LATITUDE, LONGITUDE, FACTOR, EASTING, NORTHING];
const MERIDIAN: &[Parameter] = &[LONGITUDE, EASTING, NORTHING];
const CONIC: &[Parameter] = &[FALSE_LATITUDE, FALSE_LONGITUDE, FIRST, SECOND, FALSE_EASTING, FALSE_NORTHING];

/// ProjMethodGeoKey, name in WKT, parameters. A method has several rows if its parameters decide which variant it is; `variant`
/// chooses among them.
const METHODS: &[(u16, &str, &[Parameter])] = &[
    (1, "Transverse Mercator", SCALED_ORIGIN),
    (
        3,
        "Hotine Oblique Mercator (variant A)",
        &[CENTRE_LATITUDE, CENTRE_LONGITUDE, AZIMUTH, SKEW, CENTRE_FACTOR, EASTING, NORTHING],
    ),
    (
        4,
        "Laborde Oblique Mercator",
        &[CENTRE_LATITUDE, CENTRE_LONGITUDE, AZIMUTH, CENTRE_FACTOR, EASTING, NORTHING],
    ),
    (7, "Mercator (variant A)", &[LATITUDE, LONGITUDE, OWN_FACTOR, EASTING, NORTHING]),
    (7, "Mercator (variant B)", &[FIRST, LONGITUDE, EASTING, NORTHING]),
    (
        7,
        "Mercator (variant B)",
        &[("Latitude of 1st standard parallel", Kind::Angle, LATITUDES), LONGITUDE, EASTING, NORTHING],
    ),
    (8, "Lambert Conic Conformal (2SP)", CONIC),
    (9, "Lambert Conic Conformal (1SP)", SCALED_ORIGIN),
    (10, "Lambert Azimuthal Equal Area", ORIGIN),
    (11, "Albers Equal Area", CONIC),
    (12, "Azimuthal Equidistant", ORIGIN),
    (13, "Equidistant Conic", CONIC),
    (14, "Stereographic", &[LATITUDE, LONGITUDE, OWN_FACTOR, EASTING, NORTHING]),
    (15, "Polar Stereographic (variant A)", &[LATITUDE, POLAR_LONGITUDE, FACTOR, EASTING, NORTHING]),
    (
        15,
        "Polar Stereographic (variant B)",
        &[
            ("Latitude of standard parallel", Kind::Angle, LATITUDES),
            ("Longitude of origin", Kind::Angle, POLAR_LONGITUDES),
            EASTING,
            NORTHING,
        ],
    ),
    (16, "Oblique Stereographic", SCALED_ORIGIN),
    (17, "Equidistant Cylindrical", &[LATITUDE, LONGITUDE, FIRST, EASTING, NORTHING]),
    (18, "Cassini-Soldner", ORIGIN),
    (19, "Gnomonic", ORIGIN),
    (20, "Miller Cylindrical", MERIDIAN),
    (21, "Orthographic", ORIGIN),
    (22, "American Polyconic", ORIGIN),
    (23, "Robinson", MERIDIAN),
    (24, "Sinusoidal", MERIDIAN),
    (25, "Van Der Grinten", MERIDIAN),
    (26, "New Zealand Map Grid", ORIGIN),
    (27, "Transverse Mercator (South Orientated)", SCALED_ORIGIN),
    (28, "Lambert Cylindrical Equal Area", &[FIRST, LONGITUDE, EASTING, NORTHING]),
    (
        9815,
        "Hotine Oblique Mercator (variant B)",
        &[
            CENTRE_LATITUDE,
            CENTRE_LONGITUDE,
            AZIMUTH,
            SKEW,
            CENTRE_FACTOR,
            ("Easting at projection centre", Kind::Length, EASTINGS),
            ("Northing at projection centre", Kind::Length, NORTHINGS),
        ],
    ),
];

/// Returns the geographic system as WKT.
///
/// # Errors
/// The key that prevents an exact system, and why.
pub(super) fn geographic(base: &Base) -> Result<String, String> {
    let axes = unit(base.axis_unit);
    let system = format!(
        r#"GEOGCRS[{},CS[ellipsoidal,2],AXIS["latitude",north],AXIS["longitude",east],{axes}{}]"#,
        base.wkt()?,
        base.id()
    );
    Ok(bound(system, base))
}

/// Returns the projected system as WKT. `metres` is the size of its unit.
///
/// # Errors
/// The key that prevents an exact system, and why.
pub(super) fn projected(keys: &Keys, base: &Base, metres: f64) -> Result<String, String> {
    let conversion = match (short(keys, METHOD), short(keys, PROJECTION)) {
        (None | Some(USER_DEFINED), Some(zone @ (16001..=16060 | 16101..=16160))) => {
            if base.inverse_flattening == 0.0 {
                return Err(format!("{}, a UTM zone on a sphere", described(keys, PROJECTION)));
            }
            let (zone, northing) = if zone < 16100 { (zone - 16000, 0.0) } else { (zone - 16100, 1e7) };
            let values = [0.0, f64::from(zone) * 6.0 - 183.0, 0.9996, 500_000.0, northing];
            let named: Vec<_> = SCALED_ORIGIN.iter().zip(values).collect();
            write("Transverse Mercator", &named)
        }
        (None | Some(USER_DEFINED), Some(1024..USER_DEFINED)) => {
            return Err(format!("{}, not a UTM zone (16001 to 16160)", described(keys, PROJECTION)));
        }
        (method, _) => conversion(keys, method, base, metres)?,
    };
    let name = text(keys, PROJECTED_CITATION).or_else(|| text(keys, CITATION)).unwrap_or("unnamed");
    let length = if metres == 1.0 { METRE.into() } else { format!(r#"LENGTHUNIT["unknown",{metres}]"#) };
    let system = format!(
        r#"PROJCRS["{}",BASEGEOGCRS[{}{}],{conversion},CS[Cartesian,2],AXIS["easting",east],AXIS["northing",north],{length}]"#,
        name.replace('"', "\"\""),
        base.wkt()?,
        base.id(),
    );
    Ok(bound(system, base))
}

/// Binds a system to WGS 84 if the file has a shift.
fn bound(system: String, base: &Base) -> String {
    let Some(shift) = base.shift else { return system };
    let names = [
        "X-axis translation",
        "Y-axis translation",
        "Z-axis translation",
        "X-axis rotation",
        "Y-axis rotation",
        "Z-axis rotation",
        "Scale difference",
    ];
    let mut parameters = String::new();
    for ((name, value), code) in names.into_iter().zip(shift).zip(8605..) {
        let value = if code == 8611 { 1.0 + value * 1e-6 } else { value };
        parameters += &format!(r#",PARAMETER["{name}",{value},ID["EPSG",{code}]]"#);
    }
    let target = r#"GEOGCRS["WGS 84",DATUM["World Geodetic System 1984",ELLIPSOID["WGS 84",6378137,298.257223563]],CS[ellipsoidal,2],AXIS["latitude",north],AXIS["longitude",east],ANGLEUNIT["degree",0.0174532925199433],ID["EPSG",4326]]"#;
    format!(
        r#"BOUNDCRS[SOURCECRS[{system}],TARGETCRS[{target}],ABRIDGEDTRANSFORMATION["Transformation to WGS 84",METHOD["Position Vector transformation (geog2D domain)",ID["EPSG",9606]]{parameters}]]"#
    )
}

fn conversion(keys: &Keys, method: Option<u16>, base: &Base, metres: f64) -> Result<String, String> {
    let mut rows = METHODS.iter().filter(|(code, ..)| Some(*code) == method);
    let Some(first) = rows.next() else {
        return Err(match method {
            None => described(keys, METHOD),
            Some(_) => format!("{}, a projection method without equivalent in WKT", described(keys, METHOD)),
        });
    };
    let value = |(_, kind, ids): &Parameter| {
        let found = ids.iter().find_map(|id| double(keys, *id));
        match (kind, found) {
            (Kind::Angle | Kind::RightAngle, Some(angle)) => angle * base.parameter_unit,
            (Kind::Length, Some(length)) => length * metres,
            (Kind::RightAngle, None) => 90.0,
            (Kind::Scale, None) => 1.0,
            (_, found) => found.unwrap_or_default(),
        }
    };
    let key = |ids: &[u16]| ids.iter().copied().find(|id| keys.contains_key(id)).unwrap_or(METHOD);
    let refuse = |ids: &[u16], why: &str| Err(format!("{}, {why}", described(keys, key(ids))));
    let (latitude, scale) = (value(&LATITUDE), value(&FACTOR));
    let (_, name, parameters) = match method {
        // Mercator by a scale or by a standard parallel. GDAL takes a latitude of origin for one.
        Some(7) => {
            let has_parallel = double(keys, FIRST_PARALLEL).is_some();
            match (has_parallel, latitude == 0.0) {
                (false, true) => first,
                (true, true) => rows.next().unwrap_or(first),
                (false, false) if value(&OWN_FACTOR) == 1.0 => rows.nth(1).unwrap_or(first),
                _ => return refuse(LATITUDES, "a latitude of origin that Mercator does not have"),
            }
        }
        // Polar stereographic by a scale at the pole or by a standard parallel.
        Some(15) => match ((latitude.abs() - 90.0).abs() <= 1e-8, scale == 1.0) {
            (_, true) => rows.next().unwrap_or(first),
            (true, false) => first,
            (false, false) => return refuse(SCALES, "a scale away from the pole"),
        },
        _ => first,
    };
    let named: Vec<_> = parameters.iter().map(|parameter| (parameter, value(parameter))).collect();
    if let Some(((_, _, ids), _)) = named.iter().find(|(_, value)| !value.is_finite()) {
        return refuse(ids, "not a finite number");
    }
    let polar = |(name, kind, _): &Parameter, value: f64| {
        let is_parallel = name.contains("standard parallel") && method == Some(7);
        *kind == Kind::Angle
            && name.starts_with("Latitude")
            && (value.abs() > 90.0 || is_parallel && value.abs() == 90.0)
    };
    if let Some(((_, _, ids), _)) = named.iter().find(|(parameter, value)| polar(parameter, *value)) {
        return refuse(ids, "which is out of range");
    }
    if method == Some(4) && latitude == 0.0 {
        return refuse(LATITUDES, "and this projection has no origin at the equator");
    }
    if matches!(method, Some(8)) && double(keys, SECOND_PARALLEL).is_none() {
        // GDAL ignores the first standard parallel, too.
        return Err(described(keys, SECOND_PARALLEL));
    }
    if matches!(method, Some(8 | 11 | 13)) && (value(&FIRST) + value(&SECOND)).abs() < 1e-8 {
        return refuse(&[FIRST_PARALLEL], "and the standard parallels define no cone");
    }
    if method == Some(9) && latitude == 0.0 {
        return refuse(LATITUDES, "and a parallel at the equator defines no cone");
    }
    Ok(write(name, &named))
}

fn write(method: &str, parameters: &[(&Parameter, f64)]) -> String {
    let mut text = format!(r#"CONVERSION["unnamed",METHOD["{method}"]"#);
    for ((name, kind, _), value) in parameters {
        let unit = match kind {
            Kind::Length => METRE.into(),
            Kind::Scale => r#"SCALEUNIT["unity",1]"#.into(),
            Kind::Angle | Kind::Azimuth | Kind::RightAngle => unit(1.0),
        };
        text += &format!(r#",PARAMETER["{name}",{value},{unit}]"#);
    }
    text + "]"
}

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
            // GDAL knows these by name.
            (Some(name), _) => {
                let named = [("degree", 1.0), ("grad", 0.9)]
                    .into_iter()
                    .find(|(known, _)| known.eq_ignore_ascii_case(name));
                if named.is_some_and(|(_, unit)| (unit - parameter_unit).abs() > 1e-12) {
                    let citation = described(keys, GEODETIC_CITATION);
                    return Err(format!("{citation}, which names another unit than the other keys"));
                }
                parameter_unit
            }
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
        let shift = shift(keys);
        let is_own = datum.is_none() && system.is_none() && projected.is_none();
        // GDAL applies the shift of a known datum in a compound system only.
        if shift.is_some() && !is_own && [VERTICAL, VERTICAL_UNITS].iter().any(|key| keys.contains_key(key)) {
            return Err(format!("{} with a vertical system", described(keys, TO_WGS_84)));
        }
        let shift = shift.filter(|_| is_own);
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

#[cfg(test)]
mod tests {
    use virtualize_tiff::model::GeoKey;

    use super::*;

    fn system(shorts: &[(u16, u16)], doubles: &[(u16, f64)]) -> Result<String, String> {
        let shorts = [(2048, 4326)].iter().chain(shorts).map(|(id, value)| (*id, GeoKey::Short(*value)));
        let doubles = doubles.iter().map(|(id, value)| (*id, GeoKey::Double(vec![*value])));
        let keys = shorts.chain(doubles).collect();
        projected(&keys, &Base::of(&keys, None).unwrap(), 0.5)
    }

    /// `pyproj.CRS(text).to_proj4()`: +proj=aea +lat_0=23 +lon_0=-96 +lat_1=29.5 +lat_2=45.5 +x_0=1 +y_0=0 … +to_meter=0.5
    #[test]
    fn albers_is_built_from_its_keys() {
        let text =
            system(&[(3075, 11)], &[(3078, 29.5), (3079, 45.5), (3084, -96.0), (3089, 23.0), (3086, 2.0)])
                .unwrap();
        for part in [
            r#"METHOD["Albers Equal Area"],PARAMETER["Latitude of false origin",23,ANGLEUNIT["degree","#,
            r#"PARAMETER["Longitude of false origin",-96,"#,
            r#"PARAMETER["Easting at false origin",1,LENGTHUNIT["metre",1]]"#,
            r#"ELLIPSOID["unknown",6378137,298.257223563,"#,
            r#"AXIS["northing",north],LENGTHUNIT["unknown",0.5]]"#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    /// PROJ refuses these projections.
    #[test]
    fn projections_without_meaning_are_refused() {
        let problem = |method: u16, doubles: &[(u16, f64)]| system(&[(3075, method)], doubles).unwrap_err();
        assert_eq!(problem(2, &[]), "ProjMethodGeoKey is 2, a projection method without equivalent in WKT");
        assert!(problem(7, &[(3081, 10.0), (3092, 0.9)]).starts_with("ProjNatOriginLatGeoKey is 10, "));
        assert!(problem(7, &[(3081, 10.0), (3078, 5.0)]).starts_with("ProjNatOriginLatGeoKey is 10, "));
        assert!(problem(7, &[(3085, -90.0)]).starts_with("ProjFalseOriginLatGeoKey is -90, "));
        assert!(problem(15, &[(3081, 70.0), (3093, 0.9)]).starts_with("ProjScaleAtCenterGeoKey is 0.9, "));
        assert!(problem(4, &[]).starts_with("ProjMethodGeoKey is 4, "));
        assert!(problem(9, &[]).starts_with("ProjMethodGeoKey is 9, "));
        assert!(problem(11, &[(3078, 5.0), (3079, -5.0)]).starts_with("ProjStdParallel1GeoKey is 5, "));
        assert_eq!(problem(8, &[(3078, 5.0)]), "ProjStdParallel2GeoKey is missing");
        assert!(problem(1, &[(3081, 91.0)]).starts_with("ProjNatOriginLatGeoKey is 91, "));
        assert!(problem(1, &[(3082, f64::NAN)]).starts_with("ProjFalseEastingGeoKey is NaN, "));
        assert!(system(&[(3074, 10406)], &[]).unwrap_err().starts_with("ProjectionGeoKey is 10406, "));
    }

    #[test]
    fn utm_zones_have_codes() {
        let utm = system(&[(3074, 16132)], &[]).unwrap();
        assert!(utm.contains(r#"PARAMETER["Longitude of natural origin",9,"#), "{utm}");
        assert!(utm.contains(r#"PARAMETER["False northing",10000000,"#), "{utm}");
    }
}
