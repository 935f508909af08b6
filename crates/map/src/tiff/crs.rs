//! GeoKeys as a coordinate reference system. There is no database of them here: codes are passed on, and what a file
//! defines itself is kept key by key.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use virtualize_tiff::model::GeoKey;

use super::{units, wkt};

const MODEL_TYPE: u16 = 1024;
const GEODETIC_CRS: u16 = 2048;
const PROJECTED_CRS: u16 = 3072;
const PROJECTED_UNITS: u16 = 3076;
const PROJECTED_UNIT_SIZE: u16 = 3077;
const ANGULAR_UNITS: u16 = 2054;
const SEMI_MAJOR_AXIS: u16 = 2057;
const USER_DEFINED: u16 = 32767;
const VERTICAL: u16 = 4096;
const GEOGRAPHIC_2D: u16 = 2;
const METRE: u16 = 9001;

/// What the GeoKeys say.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Crs {
    /// Authority and code, such as `EPSG:32633`.
    pub(super) code: Option<String>,
    /// EPSG code of the vertical system.
    vertical: Option<u16>,
    /// Coordinates are longitudes and latitudes.
    pub(super) is_geographic: bool,
    /// Coordinates are known to be metres.
    pub(super) is_metric: bool,
    keys: BTreeMap<u16, GeoKey>,
    /// The code that the file gives but changes by other keys, and how.
    pub(super) overridden: Option<String>,
}

impl Crs {
    /// The CRS of a file's GeoKeys.
    pub(super) fn of(keys: &BTreeMap<u16, GeoKey>) -> Self {
        let model = short(keys, MODEL_TYPE);
        let is_geographic = model == Some(GEOGRAPHIC_2D)
            || model.is_none() && keys.contains_key(&GEODETIC_CRS) && !keys.contains_key(&PROJECTED_CRS);
        let horizontal = if is_geographic { GEODETIC_CRS } else { PROJECTED_CRS };
        let known = |key| short(keys, key).filter(|code| (1024..32767).contains(code));
        let found = known(horizontal);
        let overridden = found.and_then(|code| override_of(keys, code, is_geographic));
        let code = found.filter(|_| overridden.is_none());
        let unit = short(keys, PROJECTED_UNITS).or_else(|| code.map(units::of_projected));
        let is_metric = !is_geographic && unit == Some(METRE);
        let vertical = known(VERTICAL);
        let code = code.map(|code| format!("EPSG:{code}"));
        Self { code, vertical, is_geographic, is_metric, keys: keys.clone(), overridden }
    }

    /// Attributes of the grid mapping variable.
    pub(super) fn attributes(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        if let Some(code) = &self.code {
            attributes.insert("spatial_ref".into(), code.clone().into());
        }
        if self.code.is_none()
            && let Some(wkt) = wkt::of(&self.keys)
        {
            attributes.insert("crs_wkt".into(), wkt.into());
        }
        // Pixels have no heights, and GDAL leaves the vertical system of GeoTIFF 1.0 out as well.
        if let Some(vertical) = self.vertical {
            attributes.insert("vertical_crs".into(), format!("EPSG:{vertical}").into());
        }
        if !self.keys.is_empty() {
            let keys: Map<_, _> = self.keys.iter().map(|(id, key)| (key_name(*id), key_json(key))).collect();
            attributes.insert("geo_keys".into(), keys.into());
        }
        attributes
    }
}

/// How a file changes the system that its EPSG code names, where it does.
fn override_of(keys: &BTreeMap<u16, GeoKey>, code: u16, is_geographic: bool) -> Option<String> {
    let unit = if is_geographic { angular_override(keys, code) } else { linear_override(keys, code) };
    unit.or_else(|| axis_override(keys, code))
}

fn angular_override(keys: &BTreeMap<u16, GeoKey>, code: u16) -> Option<String> {
    let unit = short(keys, ANGULAR_UNITS).filter(|unit| *unit != USER_DEFINED)?;
    (!units::fits_geographic(code, unit))
        .then(|| format!("EPSG:{code} with angles in unit {unit}, which is not that of the system"))
}

fn linear_override(keys: &BTreeMap<u16, GeoKey>, code: u16) -> Option<String> {
    let (expected, found) = (units::of_projected(code), short(keys, PROJECTED_UNITS)?);
    let fits = match (found, double(keys, PROJECTED_UNIT_SIZE), units::metres(expected)) {
        (USER_DEFINED, Some(size), Some(metres)) => (size - metres).abs() < 1e-9,
        (USER_DEFINED, ..) => true,
        _ => found == expected,
    };
    (!fits).then(|| format!("EPSG:{code}, whose unit is EPSG:{expected}, with lengths in EPSG:{found}"))
}

/// Semi-major axes of the most used systems; those of others are not known here.
fn axis_override(keys: &BTreeMap<u16, GeoKey>, code: u16) -> Option<String> {
    let expected = match code {
        4326 | 4258 | 4269 | 3857 | 25828..=25838 | 26901..=26923 | 32601..=32660 | 32701..=32760 => {
            6_378_137.0
        }
        4267 | 26701..=26722 => 6_378_206.4,
        _ => return None,
    };
    let found = double(keys, SEMI_MAJOR_AXIS)?;
    ((found - expected).abs() > 0.01).then(|| {
        format!("EPSG:{code}, whose ellipsoid has a semi-major axis of {expected} m, with one of {found}")
    })
}

fn double(keys: &BTreeMap<u16, GeoKey>, key: u16) -> Option<f64> {
    match keys.get(&key) {
        Some(GeoKey::Double(values)) => values.first().copied(),
        _ => None,
    }
}

fn short(keys: &BTreeMap<u16, GeoKey>, key: u16) -> Option<u16> {
    match keys.get(&key) {
        Some(GeoKey::Short(value)) => Some(*value),
        _ => None,
    }
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

/// Name of a key as in OGC 19-008r4, or its number.
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
