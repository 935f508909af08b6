//! Images whose numbers are heights. As GDAL does, a vertical system gives their unit, and the third dimension of the
//! transform their scale and offset.

use virtualize_tiff::model::{Geo, Ifd, Value};

use super::{
    crs::{ELLIPSOIDAL_HEIGHTS, GEOCENTRIC, GEOGRAPHIC_2D},
    geo_keys::{
        GEODETIC_CRS, Keys, MODEL_TYPE, PROJECTED_CRS, USER_DEFINED, VERTICAL, VERTICAL_DATUM,
        VERTICAL_UNITS, short,
    },
    registry,
};

const MODEL_PIXEL_SCALE: u16 = 33550;
const METRE: u16 = 9001;
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
        // GDAL reads vertical systems from files of GeoTIFF 1.1 only, but their unit from all files.
        let packing = packing(ifd, geo).filter(|_| bands == 1 && geo.minor_revision > 0);
        Self { unit: name(unit), packing }
    }
}

/// Returns scale and offset: z = (z of the raster − k) · scale + Z. `None` if all three numbers are 0.
fn packing(ifd: &Ifd, geo: &Geo) -> Option<(f64, f64)> {
    let has_height =
        matches!(ifd.tags.get(&MODEL_PIXEL_SCALE), Some(Value::Float(scale)) if scale.len() >= 3);
    let ([width, height, scale], [_, _, k, _, _, z]) = (geo.pixel_scale?, *geo.tie_points.first()?);
    let is_set = scale != 0.0 || k != 0.0 || z != 0.0;
    (has_height && is_set && width != 0.0 && height != 0.0).then_some((scale, -k * scale + z))
}

/// Returns the EPSG code of the unit of the vertical system that GDAL derives from the keys, if it derives one.
fn vertical_unit(keys: &Keys) -> Option<u16> {
    let (model, units) = (short(keys, MODEL_TYPE), short(keys, VERTICAL_UNITS));
    let geographic = short(keys, GEODETIC_CRS).filter(|_| model == Some(GEOGRAPHIC_2D));
    if model == Some(GEOCENTRIC) || geographic.is_some_and(|code| registry::without_height(code).is_some()) {
        return None;
    }
    if !matches!(model, Some(1 | GEOGRAPHIC_2D)) {
        return units;
    }
    match short(keys, VERTICAL) {
        Some(code) if registry::is_vertical(code) => Some(registry::unit_of_vertical(code)),
        // Ellipsoidal heights make the horizontal system three-dimensional, unless they belong to another ellipsoid.
        Some(code) if ELLIPSOIDAL_HEIGHTS.contains(&code) => {
            let projected = short(keys, PROJECTED_CRS).and_then(registry::base_of);
            let base = geographic.or(projected).or_else(|| short(keys, GEODETIC_CRS));
            (base != Some(WGS_84)).then_some(METRE)
        }
        Some(USER_DEFINED) => Some(units.unwrap_or(METRE)),
        None if keys.contains_key(&VERTICAL_DATUM) || units.is_some() => Some(units.unwrap_or(METRE)),
        _ => None,
    }
}

/// Returns PROJ's name of a unit.
fn name(unit: u16) -> Option<&'static str> {
    Some(match unit {
        METRE => "metre",
        9002 => "foot",
        9003 => "US survey foot",
        9095 => "British foot (1936)",
        _ => return None,
    })
}
