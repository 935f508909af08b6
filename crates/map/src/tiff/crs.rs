//! GeoKeys (OGC 19-008r4) as a coordinate reference system.
//!
//! A system is written as its EPSG code if the other keys do not change it, else as WKT. If neither is exact, none is written.
//! All keys are kept by name as well.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use virtualize_tiff::model::{Geo, GeoKey, Ifd, Value as TagValue};
use virtualize_zarr::cf::conventions;

use super::wkt::Base;
use super::{registry, wkt};

const PROJECTED: u16 = 1;
pub(super) const GEOGRAPHIC_2D: u16 = 2;
pub(super) const GEOCENTRIC: u16 = 3;
const METRE: u16 = 9001;
/// Web Mercator and its predecessor, which GDAL reads without regard to the other keys.
const WEB_MERCATOR: [u16; 2] = [3857, 3785];
const PE_STRING: &str = "ESRI PE String = ";
/// Vertical codes of GeoTIFF 1.0 for heights above the ellipsoids of certain systems.
pub(super) const ELLIPSOIDAL_HEIGHTS: std::ops::RangeInclusive<u16> = 5001..=5033;
const HEIGHTS_OF_WGS_84: u16 = 5030;

/// The coordinate reference system of an image.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Crs {
    /// EPSG code of the horizontal system.
    horizontal: Option<u16>,
    /// Authority and code of the system with heights, if the file has heights.
    with_heights: Option<String>,
    /// WKT of the system, if the file defines one without a code.
    wkt: Option<String>,
    /// Whether coordinates are known to be longitudes and latitudes in degrees.
    pub(crate) is_in_degrees: bool,
    /// Whether the system is a projected one of EPSG.
    pub(super) is_projected: bool,
    /// Whether coordinates are known to be in metres.
    pub(super) is_metric: bool,
    keys: Keys,
    /// Why no system is written although there are keys.
    pub(crate) problem: Option<String>,
    /// Why the system is written without its heights.
    pub(super) vertical_problem: Option<String>,
}

/// The unit of the horizontal axes of a system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Unit {
    /// Degrees.
    Degrees,
    /// Lengths of this many metres.
    Metres(f64),
}

/// Returns the unit of a system; `None` if the tables lack its code, or its WKT has other units, or heights.
pub(crate) fn unit_of(crs: &conventions::Crs) -> Option<Unit> {
    match crs {
        conventions::Crs::Code(code) => {
            let code = code.strip_prefix("EPSG:")?.parse().ok()?;
            if registry::geographic(code).is_some() {
                return (!registry::is_in_grads(code)).then_some(Unit::Degrees);
            }
            registry::base_of(code)?;
            registry::metres(registry::unit_of_projected(code)).map(Unit::Metres)
        }
        conventions::Crs::Wkt2(wkt) => {
            let wkt = wkt.to_ascii_uppercase();
            let last = |keyword: &str| {
                let member = wkt.rsplit_once(keyword)?.1.split_once(',')?.1;
                member.split([',', ']']).next()?.trim().parse::<f64>().ok()
            };
            // The unit of the axes follows those of the parameters.
            if wkt.contains("VERTCRS[") || wkt.contains("UP]") {
                None
            } else if wkt.contains("PROJCRS[") {
                last("LENGTHUNIT[").map(Unit::Metres)
            } else {
                let is_degree = (last("ANGLEUNIT[")? - f64::to_radians(1.0)).abs() < 1e-12;
                is_degree.then_some(Unit::Degrees)
            }
        }
    }
}

impl Crs {
    /// Interprets the GeoKeys of a file as GDAL does.
    pub(crate) fn of(geo: &Geo) -> Self {
        if let Some(text) = &geo.sidecar_srs {
            return Self::of_text(text);
        }
        let keys = &geo.keys;
        let projected = short(keys, PROJECTED_CRS).filter(|code| *code != USER_DEFINED);
        let model = model(keys);
        let system = match model {
            Some(PROJECTED) => projected_system(keys, projected),
            Some(GEOGRAPHIC_2D) => geographic_system(keys, projected),
            _ => system_without_model(keys),
        };
        let is_geographic = model == Some(GEOGRAPHIC_2D);
        let mut crs = system.unwrap_or_else(|problem| Self { problem: Some(problem), ..Self::default() });
        crs.keys = keys.clone();
        if let Some(code) = crs.horizontal {
            crs.is_projected = !is_geographic;
            match heights(geo, code, is_geographic) {
                Ok(code) => crs.with_heights = code,
                Err(problem) => crs.vertical_problem = Some(problem),
            }
        } else if crs.wkt.is_some() && has_heights(geo) {
            crs.vertical_problem = Some("a system of the file's own with heights".into());
        }
        let length = short(keys, LINEAR_UNITS).or_else(|| crs.horizontal.map(registry::unit_of_projected));
        crs.is_metric = !is_geographic && length == Some(METRE);
        crs
    }

    /// A system of this EPSG code.
    fn of_code(code: u16, is_in_degrees: bool) -> Self {
        Self { horizontal: Some(code), is_in_degrees, ..Self::default() }
    }

    /// A system of this definition.
    fn of_wkt(wkt: String, is_in_degrees: bool) -> Self {
        Self { wkt: Some(wkt), is_in_degrees, ..Self::default() }
    }

    /// Interprets the coordinate reference system of a sidecar: WKT, or a code of an authority. GDAL reads other notations as
    /// well.
    fn of_text(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix("ESRI::").unwrap_or(text);
        const KEYWORDS: &str = "GEOGCS PROJCS GEOCCS COMPD_CS LOCAL_CS VERT_CS GEOGCRS GEODCRS GEODETICCRS \
                                GEOGRAPHICCRS PROJCRS PROJECTEDCRS COMPOUNDCRS BOUNDCRS ENGCRS ENGINEERINGCRS VERTCRS";
        let keyword = text.split('[').next().unwrap_or_default().trim();
        let outside = text.split('"').step_by(2).flat_map(str::chars);
        let depths = outside.scan(0_i64, |depth, c| {
            *depth += i64::from(c == '[') - i64::from(c == ']');
            Some(*depth)
        });
        if KEYWORDS.split(' ').any(|known| known.eq_ignore_ascii_case(keyword))
            && text.ends_with(']')
            && depths.last() == Some(0)
        {
            let lower = text.to_ascii_lowercase();
            let is_geographic = ["geogcs", "geogcrs", "geodcrs"].iter().any(|name| lower.starts_with(name));
            // In WKT 2, the unit of the axes follows that of the prime meridian.
            let unit = lower.rsplit_once("angleunit[").or_else(|| lower.rsplit_once("unit["));
            let is_in_degrees = is_geographic && unit.is_some_and(|(_, unit)| unit.starts_with("\"degree"));
            return Self::of_wkt(text.to_owned(), is_in_degrees);
        }
        let upper = text.to_ascii_uppercase();
        let code = upper.strip_prefix("EPSG:").and_then(|code| code.parse::<u16>().ok());
        let is_geographic = code.is_some_and(|code| registry::geographic(code).is_some());
        if code.is_some_and(|code| is_geographic || registry::base_of(code).is_some()) {
            return Self {
                horizontal: code,
                is_in_degrees: is_geographic && !code.is_some_and(registry::is_in_grads),
                is_projected: !is_geographic,
                is_metric: !is_geographic && code.map(registry::unit_of_projected) == Some(METRE),
                ..Self::default()
            };
        }
        // Codes of other kinds, such as compound ones, and of other authorities.
        if let Some(code) = upper.strip_prefix("EPSG:")
            && code.parse::<u64>().is_ok_and(|code| !EPSG_CODES.contains(&code))
        {
            let problem = format!("{text:?} of a sidecar is not a code of EPSG");
            return Self { problem: Some(problem), ..Self::default() };
        }
        let parts = upper.split_once(':').map(|(authority, code)| (authority, code.replace('+', "")));
        let is_code =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if parts.is_some_and(|(authority, code)| is_code(authority) && is_code(&code)) {
            return Self { with_heights: Some(upper), ..Self::default() };
        }
        let problem = format!("{text:?} of a sidecar is neither WKT nor a code such as EPSG:4326");
        Self { problem: Some(problem), ..Self::default() }
    }

    /// Returns authority and code of the horizontal system, such as `EPSG:32633`.
    fn code(&self) -> Option<String> {
        self.horizontal.map(|code| format!("EPSG:{code}"))
    }

    /// Returns the horizontal system for the Zarr convention `proj`, which has no place for WKT 1.
    pub(crate) fn of_convention(&self) -> Option<conventions::Crs> {
        let of_sidecar = || self.with_heights.clone().filter(|code| !code.contains('+'));
        let code = self.code().or_else(of_sidecar).map(conventions::Crs::Code);
        code.or_else(|| conventions::Crs::of_wkt(self.wkt.as_deref()?))
    }

    /// Returns the attributes of the grid mapping variable.
    pub(super) fn attributes(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        if let Some(code) = self.with_heights.clone().or_else(|| self.code()) {
            attributes.insert("spatial_ref".into(), code.into());
        }
        if let Some(wkt) = &self.wkt {
            attributes.insert("crs_wkt".into(), wkt.clone().into());
        }
        // GDAL ignores the vertical system of GeoTIFF 1.0 files; it is kept as an attribute of its own.
        if let Some(vertical) = known(&self.keys, VERTICAL) {
            attributes.insert("vertical_crs".into(), format!("EPSG:{vertical}").into());
        }
        if !self.keys.is_empty() {
            let json = |key: &GeoKey| match key {
                GeoKey::Short(value) => json!(value),
                GeoKey::Double(values) if values.len() == 1 => json!(values.first()),
                GeoKey::Double(values) => json!(values),
                GeoKey::Text(text) => json!(text),
            };
            let keys: Map<_, _> = self.keys.iter().map(|(id, key)| (name(*id), json(key))).collect();
            attributes.insert("geo_keys".into(), keys.into());
        }
        attributes
    }
}

/// Returns the system of a file without a model, or with one of its own.
fn system_without_model(keys: &Keys) -> Result<Crs, String> {
    if let Some(citation) = text(keys, PROJECTED_CITATION).filter(|text| text.contains(PE_STRING))
        && short(keys, MODEL_TYPE) != Some(GEOCENTRIC)
    {
        let wkt = citation.strip_prefix(PE_STRING).map(|wkt| wkt.trim_end_matches('|'));
        return match wkt {
            Some(wkt) if wkt.contains("PROJCS[\"WGS_1984_Web_Mercator_Auxiliary_Sphere\"") => {
                Ok(Crs::of_code(WEB_MERCATOR[0], false))
            }
            Some(wkt) => Ok(Crs::of_wkt(wkt.into(), false)),
            None => Err(format!("{} does not start with it", name(PROJECTED_CITATION))),
        };
    }
    let defines = |key| short(keys, key).is_some_and(|code| code != 0);
    if [MODEL_TYPE, GEODETIC_CRS, PROJECTED_CRS].into_iter().any(defines) {
        return Err(format!("{}, neither projected (1) nor geographic (2)", described(keys, MODEL_TYPE)));
    }
    Ok(Crs::default())
}

/// Returns the geographic system, and whether its unit is the degree.
fn geographic_system(keys: &Keys, projected: Option<u16>) -> Result<Crs, String> {
    let found = known(keys, GEODETIC_CRS).or_else(|| match short(keys, GEODETIC_CRS) {
        None => projected.and_then(registry::base_of),
        Some(_) => None,
    });
    // GDAL reads nothing but the code of a system with a dynamic datum, such as WGS 84.
    if let Some(code) =
        found.filter(|code| registry::is_dynamic(*code) && registry::geographic(*code).is_some())
    {
        return Ok(Crs::of_code(code, true));
    }
    let base = Base::of(keys, projected)?;
    let is_in_degrees = base.axis_unit == 1.0;
    match (found, base.changed) {
        (Some(code), None) => return Ok(Crs::of_code(code, is_in_degrees)),
        // GDAL keeps the code as well, and readers differ in which of both they take.
        (Some(code), Some(key)) => return Err(contradicts(keys, key, code)),
        _ => {}
    }
    Ok(Crs::of_wkt(wkt::geographic(&base)?, is_in_degrees))
}

fn projected_system(keys: &Keys, projected: Option<u16>) -> Result<Crs, String> {
    let code = projected.filter(|code| registry::base_of(*code).is_some());
    if code.is_none() && projected.is_some_and(|code| (1024..USER_DEFINED).contains(&code)) {
        return Err(registry::unknown(keys, PROJECTED_CRS));
    }
    let metres = linear_unit(keys, code)?;
    let method = short(keys, METHOD).filter(|method| *method != USER_DEFINED);
    let Some(code) = code else {
        for key in [PROJECTED_CITATION, CITATION] {
            let Some(citation) = text(keys, key) else { continue };
            let name = cited(keys, key, "PCS Name = ").unwrap_or(citation);
            let is_zone = citation.contains("State Plane Zone ")
                || citation.contains("_StatePlane_")
                || citation.contains("UTM Zone ") && citation.contains("PSAD56");
            if is_zone
                || [
                    "WGS_1984_Web_Mercator",
                    "WGS_1984_Web_Mercator_Auxiliary_Sphere",
                    "Google Maps Global Mercator",
                ]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
            {
                return Err(format!("{}, a name instead of a definition", described(keys, key)));
            }
        }
        let base = Base::of(keys, None)?;
        return Ok(Crs::of_wkt(wkt::projected(keys, &base, metres)?, false));
    };
    let unit = registry::metres(registry::unit_of_projected(code)).unwrap_or(1.0);
    let has_unit = (metres - unit).abs() <= 1e-12 * unit;
    let is_web_mercator = WEB_MERCATOR.contains(&code) && matches!(method, None | Some(7));
    if method.is_some() && !is_web_mercator {
        // Which variant of Mercator the keys mean depends on the projection of the code.
        if method == Some(7) || WEB_MERCATOR.contains(&code) {
            return Err(contradicts(keys, METHOD, code));
        }
        let base = Base::of(keys, Some(code))?;
        if let Some(key) = base.changed {
            return Err(contradicts(keys, key, code));
        }
        return Ok(Crs::of_wkt(wkt::projected(keys, &base, metres)?, false));
    }
    if !has_unit {
        let key = [LINEAR_UNITS, LINEAR_UNIT_SIZE, CITATION].into_iter().find(|key| keys.contains_key(key));
        return Err(format!(
            "{}, another unit than that of EPSG:{code}",
            described(keys, key.unwrap_or(CITATION))
        ));
    }
    // GDAL takes the system of the dataset if none of these keys is present.
    let overrides =
        [PROJECTION, METHOD, GEODETIC_CRS, DATUM, ELLIPSOID].iter().any(|key| short(keys, *key).is_some());
    if overrides && !is_web_mercator {
        let base = Base::of(keys, Some(code))?;
        if base.code != registry::base_of(code) {
            return Err(contradicts(keys, GEODETIC_CRS, code));
        }
        if let Some(key) = base.changed {
            return Err(contradicts(keys, key, code));
        }
    }
    Ok(Crs::of_code(code, false))
}

fn contradicts(keys: &Keys, key: u16, code: u16) -> String {
    format!("{}, which contradicts EPSG:{code}", described(keys, key))
}

/// Returns the metres in the unit of a projected system.
fn linear_unit(keys: &Keys, projected: Option<u16>) -> Result<f64, String> {
    let of_system = projected.map(registry::unit_of_projected);
    let unit = short(keys, LINEAR_UNITS).or(of_system).or_else(|| short(keys, GEODETIC_LINEAR_UNITS));
    let metres = match unit {
        None | Some(USER_DEFINED) => double(keys, LINEAR_UNIT_SIZE).unwrap_or(1.0),
        Some(0) => 1.0,
        Some(code) => registry::metres(code).ok_or_else(|| registry::unknown(keys, LINEAR_UNITS))?,
    };
    if !(metres > 0.0 && metres.is_finite()) {
        return Err(format!("{}, and a unit has a size above 0", described(keys, LINEAR_UNIT_SIZE)));
    }
    // GDAL prefers the unit that a citation names.
    let of_citation =
        |key| cited(keys, key, "LUnits = ").or_else(|| cited(keys, key, "Units = ")).map(|unit| (key, unit));
    if let Some((key, unit)) =
        of_citation(CITATION).or_else(|| of_citation(PROJECTED_CITATION).filter(|_| projected.is_none()))
    {
        let size = match unit.trim().to_ascii_lowercase().as_str() {
            "meters" | "meter" => 1.0,
            "feet" | "foot" | "us_survey_feet" | "us_survey_foot" => 1200.0 / 3937.0,
            "international_feet" | "international_foot" => 0.3048,
            _ => double(keys, LINEAR_UNIT_SIZE).unwrap_or_default(),
        };
        if (size - metres).abs() > 1e-9 * metres {
            return Err(format!("{}, which names another unit than the other keys", described(keys, key)));
        }
    } else if projected.is_none()
        && (metres - 1.0).abs() > 1e-9
        && cited(keys, PROJECTED_CITATION, "PCS Name = ").is_some()
    {
        return Err(format!("{}, with which GDAL takes metres", described(keys, PROJECTED_CITATION)));
    }
    Ok(metres)
}

/// Returns the code of the system with the heights of the file; `None` if the file has none.
///
/// GDAL reads vertical systems from files of GeoTIFF 1.1 only, ellipsoidal heights from all files.
///
/// # Errors
/// No code means the system with these heights.
fn heights(geo: &Geo, horizontal: u16, is_geographic: bool) -> Result<Option<String>, String> {
    let inexact =
        |heights: String| Err(format!("EPSG:{horizontal} with {heights}: no EPSG code has the same meaning"));
    let keys = &geo.keys;
    let vertical = known(keys, VERTICAL);
    let has_heights = registry::without_height(horizontal).is_some();
    if let Some(code) = vertical
        && !has_heights
        && let Some(solid) = ellipsoidal(code)
    {
        return if registry::without_height(solid) == Some(horizontal) && is_geographic {
            Ok(Some(format!("EPSG:{solid}")))
        } else {
            inexact(format!("the ellipsoidal heights of EPSG:{code}"))
        };
    }
    if geo.minor_revision == 0 {
        return Ok(None);
    }
    let has_more = defines_heights(keys);
    match vertical {
        Some(code) if !has_heights && registry::is_vertical(code) => {
            Ok(Some(format!("EPSG:{horizontal}+{code}")))
        }
        Some(code) if has_heights || has_more || ELLIPSOIDAL_HEIGHTS.contains(&code) => {
            inexact(format!("the heights of EPSG:{code}"))
        }
        None if has_more => inexact("heights that the file defines by itself".into()),
        _ => Ok(None),
    }
}

/// Whether keys describe heights in another way than by a code.
fn defines_heights(keys: &Keys) -> bool {
    short(keys, VERTICAL) == Some(USER_DEFINED)
        || keys.contains_key(&VERTICAL_DATUM)
        || keys.contains_key(&VERTICAL_UNITS)
}

/// Whether GDAL reads heights from the keys.
fn has_heights(geo: &Geo) -> bool {
    let vertical = known(&geo.keys, VERTICAL);
    vertical.and_then(ellipsoidal).is_some()
        || geo.minor_revision > 0 && (vertical.is_some() || defines_heights(&geo.keys))
}

/// Returns the three-dimensional system whose ellipsoidal heights a vertical code means.
fn ellipsoidal(code: u16) -> Option<u16> {
    if code == HEIGHTS_OF_WGS_84 {
        return Some(4979);
    }
    registry::without_height(code).map(|_| code)
}

/// Returns the value of a key if it is a code of EPSG.
fn known(keys: &Keys, key: u16) -> Option<u16> {
    short(keys, key).filter(|code| (1024..32767).contains(code))
}

pub(super) type Keys = BTreeMap<u16, GeoKey>;

/// Codes that EPSG assigns, in GeoTIFF (OGC 19-008r4, section 7.4).
pub(super) const EPSG_CODES: std::ops::RangeInclusive<u64> = 1024..=32766;

pub(super) const MODEL_TYPE: u16 = 1024;
pub(super) const CITATION: u16 = 1026;
pub(super) const GEODETIC_CRS: u16 = 2048;
pub(super) const GEODETIC_CITATION: u16 = 2049;
pub(super) const DATUM: u16 = 2050;
pub(super) const PRIME_MERIDIAN: u16 = 2051;
pub(super) const GEODETIC_LINEAR_UNITS: u16 = 2052;
pub(super) const ANGULAR_UNITS: u16 = 2054;
pub(super) const ANGULAR_UNIT_SIZE: u16 = 2055;
pub(super) const ELLIPSOID: u16 = 2056;
pub(super) const SEMI_MAJOR_AXIS: u16 = 2057;
pub(super) const SEMI_MINOR_AXIS: u16 = 2058;
pub(super) const INVERSE_FLATTENING: u16 = 2059;
pub(super) const PRIME_MERIDIAN_LONGITUDE: u16 = 2061;
pub(super) const TO_WGS_84: u16 = 2062;
pub(super) const PROJECTED_CRS: u16 = 3072;
pub(super) const PROJECTED_CITATION: u16 = 3073;
pub(super) const PROJECTION: u16 = 3074;
pub(super) const METHOD: u16 = 3075;
pub(super) const LINEAR_UNITS: u16 = 3076;
pub(super) const LINEAR_UNIT_SIZE: u16 = 3077;
pub(super) const VERTICAL: u16 = 4096;
pub(super) const VERTICAL_DATUM: u16 = 4098;
pub(super) const VERTICAL_UNITS: u16 = 4099;

/// The code of something that other keys define.
pub(super) const USER_DEFINED: u16 = 32767;

/// Returns the first number of a key; `None` if it has none.
pub(super) fn double(keys: &Keys, key: u16) -> Option<f64> {
    match keys.get(&key) {
        Some(GeoKey::Double(values)) => values.first().copied(),
        _ => None,
    }
}

/// Returns the code of a key; `None` if it has none.
pub(super) fn short(keys: &Keys, key: u16) -> Option<u16> {
    match keys.get(&key) {
        Some(GeoKey::Short(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the text of a key; `None` if it has none.
pub(super) fn text(keys: &Keys, key: u16) -> Option<&str> {
    match keys.get(&key) {
        Some(GeoKey::Text(text)) => Some(text),
        _ => None,
    }
}

/// Returns an item of a citation, such as `Datum = `. GDAL and Esri write several, each followed by a bar; ERDAS IMAGINE puts
/// each on a line.
pub(super) fn cited<'a>(keys: &'a Keys, key: u16, item: &str) -> Option<&'a str> {
    text(keys, key)?.split(['|', '\n']).find_map(|part| part.trim_start().strip_prefix(item))
}

/// Returns name and value of a key for a message.
pub(super) fn described(keys: &Keys, key: u16) -> String {
    let name = name(key);
    match keys.get(&key) {
        None => format!("{name} is missing"),
        Some(GeoKey::Short(value)) => format!("{name} is {value}"),
        Some(GeoKey::Double(values)) => match values.as_slice() {
            [one] => format!("{name} is {one}"),
            many => format!("{name} is {many:?}"),
        },
        Some(GeoKey::Text(text)) => format!("{name} is {text:?}"),
    }
}

/// Names of keys in OGC 19-008r4 without `GeoKey`, by the number of the first one.
const NAMES: [(u16, &str); 5] = [
    (1024, "GTModelType GTRasterType GTCitation"),
    (
        2048,
        "GeodeticCRS GeodeticCitation GeodeticDatum PrimeMeridian GeogLinearUnits GeogLinearUnitSize \
         GeogAngularUnits GeogAngularUnitSize Ellipsoid EllipsoidSemiMajorAxis EllipsoidSemiMinorAxis \
         EllipsoidInvFlattening GeogAzimuthUnits PrimeMeridianLongitude GeogTOWGS84",
    ),
    (
        3072,
        "ProjectedCRS ProjectedCitation Projection ProjMethod ProjLinearUnits ProjLinearUnitSize \
         ProjStdParallel1 ProjStdParallel2 ProjNatOriginLong ProjNatOriginLat ProjFalseEasting \
         ProjFalseNorthing ProjFalseOriginLong ProjFalseOriginLat ProjFalseOriginEasting \
         ProjFalseOriginNorthing ProjCenterLong ProjCenterLat ProjCenterEasting ProjCenterNorthing \
         ProjScaleAtNatOrigin ProjScaleAtCenter ProjAzimuthAngle ProjStraightVertPoleLong \
         ProjRectifiedGridAngle",
    ),
    (4096, "Vertical VerticalCitation VerticalDatum VerticalUnits"),
    (5120, "CoordinateEpoch"),
];

/// Returns the name of a key in OGC 19-008r4, or its number.
pub(super) fn name(id: u16) -> String {
    let known = NAMES
        .iter()
        .rfind(|(first, _)| *first <= id)
        .and_then(|(first, names)| names.split(' ').nth(usize::from(id - first)));
    known.map_or_else(|| format!("GeoKey{id}"), |name| format!("{name}GeoKey"))
}

const MODEL_PIXEL_SCALE: u16 = 33550;
const WGS_84: u16 = 4326;

/// Unit, scale and offset of heights; none for other images.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Heights {
    /// Name of the unit.
    pub(super) unit: Option<&'static str>,
    /// Scale and offset, which take precedence over those of GDAL_METADATA.
    pub(super) packing: Option<(f64, f64)>,
}

impl Heights {
    /// Reads the tags of an image. `bands` is its number of samples a pixel.
    pub(super) fn of(ifd: &Ifd, bands: u64) -> Self {
        let Some(geo) = &ifd.geo else { return Self::default() };
        let Some(unit) = vertical_unit(&geo.keys) else { return Self::default() };
        // Scale and offset: z = (z of the raster − k) · scale + Z, unless all three numbers are 0.
        let has_height =
            matches!(ifd.tags.get(&MODEL_PIXEL_SCALE), Some(TagValue::Float(scale)) if scale.len() >= 3);
        let packing = match (geo.pixel_scale, geo.tie_points.first()) {
            (Some([width, height, scale]), Some([_, _, k, _, _, z])) => {
                let is_set = scale != 0.0 || *k != 0.0 || *z != 0.0;
                (has_height && is_set && width != 0.0 && height != 0.0).then_some((scale, -k * scale + z))
            }
            _ => None,
        };
        // GDAL reads vertical systems from files of GeoTIFF 1.1 only, but their unit from all files.
        let packing = packing.filter(|_| bands == 1 && geo.minor_revision > 0);
        // GDAL takes unknown units for metres.
        Self { unit: Some(registry::name_of_length(unit).unwrap_or("metre")), packing }
    }
}

/// Returns the model type: that of the key, or projected if the keys have a projected system and no model.
fn model(keys: &Keys) -> Option<u16> {
    let projected = short(keys, PROJECTED_CRS).filter(|code| *code != USER_DEFINED);
    match short(keys, MODEL_TYPE) {
        None | Some(USER_DEFINED) if projected.is_some() => Some(PROJECTED),
        model => model,
    }
}

/// Returns the EPSG code of the unit of the vertical system that GDAL derives from the keys, if it derives one.
fn vertical_unit(keys: &Keys) -> Option<u16> {
    let (model, units) = (model(keys), short(keys, VERTICAL_UNITS));
    let geographic = short(keys, GEODETIC_CRS).filter(|_| model == Some(GEOGRAPHIC_2D));
    if model == Some(GEOCENTRIC) || geographic.is_some_and(|code| registry::without_height(code).is_some()) {
        return None;
    }
    if !matches!(model, Some(1 | GEOGRAPHIC_2D)) {
        return units.filter(|unit| *unit != 0);
    }
    match short(keys, VERTICAL) {
        Some(code) if registry::is_vertical(code) => Some(registry::unit_of_vertical(code)),
        // Heights above the ellipsoid of WGS 84 make a system on WGS 84 three-dimensional.
        Some(code) if ELLIPSOIDAL_HEIGHTS.contains(&code) => {
            let projected = short(keys, PROJECTED_CRS).and_then(registry::base_of);
            let base = geographic.or(projected).or_else(|| short(keys, GEODETIC_CRS));
            (code != HEIGHTS_OF_WGS_84 || base != Some(WGS_84)).then_some(METRE)
        }
        Some(USER_DEFINED) => Some(units.unwrap_or(METRE)),
        None if keys.contains_key(&VERTICAL_DATUM) || units.is_some() => Some(units.unwrap_or(METRE)),
        _ => None,
    }
}
