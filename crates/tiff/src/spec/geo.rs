//! Georeferencing tags (OGC GeoTIFF 1.1, section 7.2).

use super::{fields::Fields, geokeys, tag};
use crate::{Error, model::Geo};

/// Returns the georeferencing of a directory, if it has any. Errors are added to `problems`. `ascii` is the value of
/// GeoAsciiParams as stored, because keys refer to its bytes.
pub(crate) fn parse(fields: &Fields, ascii: &[u8], problems: &mut Vec<Error>) -> Option<Geo> {
    let mut geo = Geo {
        pixel_scale: fields.floats(tag::MODEL_PIXEL_SCALE).and_then(|scale| pixel_scale(&scale)),
        tie_points: fields
            .floats(tag::MODEL_TIEPOINT)
            .map_or(Vec::new(), |numbers| numbers.as_chunks().0.to_vec()),
        transformation: fields.floats(tag::MODEL_TRANSFORMATION).and_then(|numbers| numbers.try_into().ok()),
        rpc: fields.floats(tag::RPC_COEFFICIENTS).filter(|numbers| numbers.len() >= 92),
        ..Geo::default()
    };
    match fields.shorts(tag::GEO_KEY_DIRECTORY) {
        Ok(Some(directory)) => {
            let doubles = fields.floats(tag::GEO_DOUBLE_PARAMS).unwrap_or_default();
            let (keys, wrong) = geokeys::parse(&directory, &doubles, ascii);
            geo.minor_revision = directory.get(2).copied().filter(|_| !keys.is_empty()).unwrap_or_default();
            geo.keys = keys;
            problems
                .extend(wrong.into_iter().map(|problem| fields.malformed(tag::GEO_KEY_DIRECTORY, problem)));
        }
        Ok(None) => {}
        Err(error) => problems.push(error),
    }
    (geo != Geo::default()).then_some(geo)
}

/// GDAL accepts two numbers for a pixel scale without height.
fn pixel_scale(numbers: &[f64]) -> Option<[f64; 3]> {
    match *numbers {
        [x, y] => Some([x, y, 0.0]),
        [x, y, z, ..] => Some([x, y, z]),
        _ => None,
    }
}
