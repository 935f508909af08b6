//! Coordinate reference systems that a file defines by GeoKeys instead of a code, written as WKT 2 (ISO 19162).
//!
//! The keys of each parameter, their order of preference and the variants of a method are those of GDAL (libgeotiff). The
//! names are those of EPSG or PROJ.

use super::crs::{
    CITATION, Keys, METHOD, PROJECTED_CITATION, PROJECTION, USER_DEFINED, described, double, short, text,
};
use super::datum::{Base, unit};

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
