//! GeoKeys (OGC 19-008r4) as a coordinate reference system.
//!
//! An EPSG code is kept if no other key contradicts it. A system that the file defines itself becomes WKT if that is exact.
//! All keys are kept by name as well.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use virtualize_tiff::model::{Geo, GeoKey};

use super::geo_keys::short;
use super::{contradiction, registry, units, wkt};
use crate::{Error, Result};

pub(super) const MODEL_TYPE: u16 = 1024;
pub(super) const GEODETIC_CRS: u16 = 2048;
const ANGULAR_UNITS: u16 = 2054;
pub(super) const PROJECTED_CRS: u16 = 3072;
const PROJECTED_UNITS: u16 = 3076;
pub(super) const VERTICAL: u16 = 4096;
pub(super) const VERTICAL_DATUM: u16 = 4098;
pub(super) const VERTICAL_UNITS: u16 = 4099;
pub(super) const GEOGRAPHIC_2D: u16 = 2;
pub(super) const GEOCENTRIC: u16 = 3;
pub(super) const USER_DEFINED: u16 = 32767;
const METRE: u16 = 9001;
const DEGREE: u16 = 9102;
/// Vertical codes of GeoTIFF 1.0 for heights above the ellipsoids of certain systems.
pub(super) const ELLIPSOIDAL_HEIGHTS: std::ops::RangeInclusive<u16> = 5001..=5033;
const HEIGHTS_OF_WGS_84: u16 = 5030;

/// The coordinate reference system of an image.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Crs {
    /// EPSG code of the horizontal system.
    horizontal: Option<u16>,
    /// Authority and code of the system with heights, if the file has heights.
    with_heights: Option<String>,
    /// WKT of the system, if the file defines one without a code.
    wkt: Option<String>,
    /// Whether coordinates are known to be longitudes and latitudes in degrees.
    pub(super) is_in_degrees: bool,
    /// Whether the system is a projected one of EPSG.
    pub(super) is_projected: bool,
    /// Whether coordinates are known to be in metres.
    pub(super) is_metric: bool,
    keys: BTreeMap<u16, GeoKey>,
    /// Why no system is written although there are keys.
    pub(super) problem: Option<String>,
    /// Why the system is written without its heights.
    pub(super) vertical_problem: Option<String>,
}

impl Crs {
    /// Interprets the GeoKeys of a file as GDAL does, but refuses codes that other keys contradict.
    pub(super) fn of(geo: &Geo) -> Self {
        if let Some(text) = &geo.sidecar_srs {
            return Self::of_text(text);
        }
        let keys = &geo.keys;
        let model = short(keys, MODEL_TYPE);
        let is_geographic = model == Some(GEOGRAPHIC_2D);
        let horizontal_key = if is_geographic { GEODETIC_CRS } else { PROJECTED_CRS };
        let found = known(keys, horizontal_key).filter(|_| model != Some(GEOCENTRIC));
        let contradiction = found.and_then(|code| contradiction::of(keys, code, is_geographic));
        let horizontal = found.filter(|_| contradiction.is_none());
        // If a geographic file has a projected code as well, GDAL takes the base of the projected system.
        let is_unclear = is_geographic && known(keys, PROJECTED_CRS).is_some();
        let wkt = if found.is_some() || is_unclear { None } else { wkt::of(keys) };
        let problem =
            contradiction.or_else(|| unused(keys).filter(|_| horizontal.is_none() && wkt.is_none()));
        let mut crs = Self { horizontal, wkt, problem, keys: keys.clone(), ..Self::default() };
        match horizontal.map(|code| heights(geo, code, is_geographic)) {
            Some(Ok(code)) => crs.with_heights = code,
            Some(Err(error)) => crs.vertical_problem = Some(error.to_string()),
            None if crs.wkt.is_some() && has_heights(geo) => {
                crs.vertical_problem = Some("a system of the file's own with heights".into());
            }
            None => {}
        }
        crs.set_units(is_geographic);
        crs
    }

    /// Interprets the coordinate reference system of a sidecar: WKT, or a code of an authority. GDAL reads other notations as
    /// well.
    fn of_text(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix("ESRI::").unwrap_or(text);
        if is_wkt(text) {
            let lower = text.to_ascii_lowercase();
            let is_geographic = ["geogcs", "geogcrs", "geodcrs"].iter().any(|name| lower.starts_with(name));
            let is_in_degrees = is_geographic && lower.contains("unit[\"degree");
            return Self { wkt: Some(text.to_owned()), is_in_degrees, ..Self::default() };
        }
        let upper = text.to_ascii_uppercase();
        let code = upper.strip_prefix("EPSG:").and_then(|code| code.parse::<u16>().ok());
        let is_geographic = code.is_some_and(|code| registry::geographic(code).is_some());
        if code.is_some_and(|code| is_geographic || registry::base_of(code).is_some()) {
            let mut crs = Self { horizontal: code, ..Self::default() };
            crs.set_units(is_geographic);
            return crs;
        }
        // Codes of other kinds, such as compound ones, and of other authorities.
        let parts = upper.split_once(':').map(|(authority, code)| (authority, code.replace('+', "")));
        let is_code =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if parts.is_some_and(|(authority, code)| is_code(authority) && is_code(&code)) {
            return Self { with_heights: Some(upper), ..Self::default() };
        }
        let problem = format!("{text:?} of a sidecar is neither WKT nor a code such as EPSG:4326");
        Self { problem: Some(problem), ..Self::default() }
    }

    fn set_units(&mut self, is_geographic: bool) {
        let angle = short(&self.keys, ANGULAR_UNITS).unwrap_or(DEGREE);
        let system = self.horizontal.unwrap_or_default();
        let is_known = self.horizontal.is_some() || self.wkt.is_some();
        self.is_in_degrees =
            is_geographic && is_known && !registry::is_in_grads(system) && units::is_degree(angle);
        let length =
            short(&self.keys, PROJECTED_UNITS).or_else(|| self.horizontal.map(registry::unit_of_projected));
        self.is_projected = !is_geographic && self.horizontal.is_some();
        self.is_metric = !is_geographic && length == Some(METRE);
    }

    /// Returns authority and code of the horizontal system, such as `EPSG:32633`.
    pub(super) fn code(&self) -> Option<String> {
        self.horizontal.map(|code| format!("EPSG:{code}"))
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
            let keys: Map<_, _> = self.keys.iter().map(|(id, key)| (key_name(*id), key_json(key))).collect();
            attributes.insert("geo_keys".into(), keys.into());
        }
        attributes
    }
}

/// Whether a text is WKT of a coordinate reference system, as far as its keyword and its brackets tell.
fn is_wkt(text: &str) -> bool {
    const KEYWORDS: [&str; 17] = [
        "GEOGCS",
        "PROJCS",
        "GEOCCS",
        "COMPD_CS",
        "LOCAL_CS",
        "VERT_CS",
        "GEOGCRS",
        "GEODCRS",
        "GEODETICCRS",
        "GEOGRAPHICCRS",
        "PROJCRS",
        "PROJECTEDCRS",
        "COMPOUNDCRS",
        "BOUNDCRS",
        "ENGCRS",
        "ENGINEERINGCRS",
        "VERTCRS",
    ];
    let keyword = text.split('[').next().unwrap_or_default().trim();
    let outside = text.split('"').step_by(2).flat_map(str::chars);
    let depths = outside.scan(0_i64, |depth, c| {
        *depth += i64::from(c == '[') - i64::from(c == ']');
        Some(*depth)
    });
    KEYWORDS.iter().any(|known| known.eq_ignore_ascii_case(keyword))
        && text.ends_with(']')
        && depths.last() == Some(0)
}

/// Returns the code of the system with the heights of the file; `None` if the file has none.
///
/// GDAL reads vertical systems from files of GeoTIFF 1.1 only, ellipsoidal heights from all files.
///
/// # Errors
/// No code means the system with these heights.
fn heights(geo: &Geo, horizontal: u16, is_geographic: bool) -> Result<Option<String>> {
    let keys = &geo.keys;
    let vertical = known(keys, VERTICAL);
    let has_heights = registry::without_height(horizontal).is_some();
    if let Some(code) = vertical
        && !has_heights
        && let Some(solid) = ellipsoidal(code)
    {
        return match registry::without_height(solid) == Some(horizontal) && is_geographic {
            true => Ok(Some(format!("EPSG:{solid}"))),
            false => Err(inexact(horizontal, &format!("the ellipsoidal heights of EPSG:{code}"))),
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
            Err(inexact(horizontal, &format!("the heights of EPSG:{code}")))
        }
        None if has_more => Err(inexact(horizontal, "heights that the file defines by itself")),
        _ => Ok(None),
    }
}

fn inexact(horizontal: u16, heights: &str) -> Error {
    Error::unsupported(format!("EPSG:{horizontal} with {heights}"), "no EPSG code has the same meaning")
}

/// Whether keys describe heights in another way than by a code.
fn defines_heights(keys: &BTreeMap<u16, GeoKey>) -> bool {
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

/// Names the key of a system that is not written, for the diagnostic.
fn unused(keys: &BTreeMap<u16, GeoKey>) -> Option<String> {
    let found = [PROJECTED_CRS, GEODETIC_CRS, MODEL_TYPE].into_iter().find_map(|key| {
        Some((key_name(key), short(keys, key).filter(|code| ![0, USER_DEFINED].contains(code))?))
    });
    let (name, code) = found.or_else(|| {
        let own =
            [PROJECTED_CRS, GEODETIC_CRS].into_iter().find(|key| short(keys, *key) == Some(USER_DEFINED))?;
        Some((key_name(own), USER_DEFINED))
    })?;
    Some(format!("{name} is {code}, and the other keys have no exact equivalent in WKT"))
}

/// Returns the value of a key if it is a code of EPSG.
fn known(keys: &BTreeMap<u16, GeoKey>, key: u16) -> Option<u16> {
    short(keys, key).filter(|code| (1024..32767).contains(code))
}

fn key_json(key: &GeoKey) -> Value {
    match key {
        GeoKey::Short(value) => (*value).into(),
        GeoKey::Double(values) => match values.as_slice() {
            [one] => json!(one),
            many => json!(many),
        },
        GeoKey::Text(text) => text.clone().into(),
    }
}

/// Returns the name of a key in OGC 19-008r4, or its number.
fn key_name(id: u16) -> String {
    let name = match id {
        1024 => "GTModelTypeGeoKey",
        1025 => "GTRasterTypeGeoKey",
        1026 => "GTCitationGeoKey",
        2048 => "GeodeticCRSGeoKey",
        2049 => "GeodeticCitationGeoKey",
        2050 => "GeodeticDatumGeoKey",
        2051 => "PrimeMeridianGeoKey",
        2052 => "GeogLinearUnitsGeoKey",
        2053 => "GeogLinearUnitSizeGeoKey",
        2054 => "GeogAngularUnitsGeoKey",
        2055 => "GeogAngularUnitSizeGeoKey",
        2056 => "EllipsoidGeoKey",
        2057 => "EllipsoidSemiMajorAxisGeoKey",
        2058 => "EllipsoidSemiMinorAxisGeoKey",
        2059 => "EllipsoidInvFlatteningGeoKey",
        2060 => "GeogAzimuthUnitsGeoKey",
        2061 => "PrimeMeridianLongitudeGeoKey",
        2062 => "GeogTOWGS84GeoKey",
        3072 => "ProjectedCRSGeoKey",
        3073 => "ProjectedCitationGeoKey",
        3074 => "ProjectionGeoKey",
        3075 => "ProjMethodGeoKey",
        3076 => "ProjLinearUnitsGeoKey",
        3077 => "ProjLinearUnitSizeGeoKey",
        3078 => "ProjStdParallel1GeoKey",
        3079 => "ProjStdParallel2GeoKey",
        3080 => "ProjNatOriginLongGeoKey",
        3081 => "ProjNatOriginLatGeoKey",
        3082 => "ProjFalseEastingGeoKey",
        3083 => "ProjFalseNorthingGeoKey",
        3084 => "ProjFalseOriginLongGeoKey",
        3085 => "ProjFalseOriginLatGeoKey",
        3086 => "ProjFalseOriginEastingGeoKey",
        3087 => "ProjFalseOriginNorthingGeoKey",
        3088 => "ProjCenterLongGeoKey",
        3089 => "ProjCenterLatGeoKey",
        3090 => "ProjCenterEastingGeoKey",
        3091 => "ProjCenterNorthingGeoKey",
        3092 => "ProjScaleAtNatOriginGeoKey",
        3093 => "ProjScaleAtCenterGeoKey",
        3094 => "ProjAzimuthAngleGeoKey",
        3095 => "ProjStraightVertPoleLongGeoKey",
        3096 => "ProjRectifiedGridAngleGeoKey",
        4096 => "VerticalGeoKey",
        4097 => "VerticalCitationGeoKey",
        4098 => "VerticalDatumGeoKey",
        4099 => "VerticalUnitsGeoKey",
        5120 => "CoordinateEpochGeoKey",
        _ => return format!("GeoKey{id}"),
    };
    name.to_owned()
}
