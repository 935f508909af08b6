//! GeoKeys (OGC 19-008r4): values by their type, and names.

use std::collections::BTreeMap;

use virtualize_tiff::model::GeoKey;

pub(super) type Keys = BTreeMap<u16, GeoKey>;

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

/// Returns the name of a key in OGC 19-008r4, or its number.
pub(super) fn name(id: u16) -> String {
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
