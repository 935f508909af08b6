//! Georeferencing tags (OGC GeoTIFF 1.1, section 7.2).

use std::collections::BTreeMap;

use super::{directory::Fields, tag};
use crate::{
    Error,
    model::{Geo, GeoKey},
};

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
            match parse_keys(&directory, &doubles, ascii) {
                Ok(keys) => {
                    let minor = directory.get(2).copied();
                    geo.minor_revision = minor.filter(|_| !keys.is_empty()).unwrap_or_default();
                    geo.keys = keys;
                }
                Err(problem) => problems.push(fields.malformed(tag::GEO_KEY_DIRECTORY, problem)),
            }
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

// GeoKeyDirectory (OGC GeoTIFF 1.1, section 7.1): a header of four numbers, then four numbers per key.
//
// ```text
// | version 1 | revision 1 | minor | keys | id | tag that holds the value, or 0 | count | value or index | …
// ```

/// Parses the keys, by id. Like libgeotiff, reads none if one is damaged, and returns why.
pub(crate) fn parse_keys(
    directory: &[u16],
    doubles: &[f64],
    ascii: &[u8],
) -> Result<BTreeMap<u16, GeoKey>, String> {
    let Some((header, entries)) = directory.split_first_chunk::<4>() else {
        return Err(format!("{} numbers, expected at least 4", directory.len()));
    };
    let [version, _, _, count] = *header;
    if version != 1 {
        return Err(format!("version {version}, expected 1"));
    }
    let (entries, _) = entries.as_chunks::<4>();
    let Some(entries) = entries.get(..usize::from(count)) else {
        return Err(format!("{} keys, expected {count}", entries.len()));
    };
    let mut keys = BTreeMap::new();
    for &[id, location, length, value] in entries {
        let key = resolve(directory, doubles, ascii, [location, length, value]).ok_or_else(|| {
            format!("key {id}: {length} values from {value} in tag {location}, beyond its end")
        })?;
        // Of several keys with one id, libgeotiff reads the last.
        keys.insert(id, key);
    }
    Ok(keys)
}

fn resolve(
    directory: &[u16],
    doubles: &[f64],
    ascii: &[u8],
    [location, length, value]: [u16; 3],
) -> Option<GeoKey> {
    let range = usize::from(value)..usize::from(value).saturating_add(usize::from(length));
    match location {
        0 => Some(GeoKey::Short(value)),
        tag::GEO_KEY_DIRECTORY => directory.get(range)?.first().map(|&short| GeoKey::Short(short)),
        tag::GEO_DOUBLE_PARAMS => doubles.get(range).map(|numbers| GeoKey::Double(numbers.to_vec())),
        tag::GEO_ASCII_PARAMS => ascii.get(range).map(|bytes| GeoKey::Text(text(bytes))),
        _ => None,
    }
}

/// Returns text without its terminating bar or NUL.
fn text(bytes: &[u8]) -> String {
    let text = super::directory::to_utf8(bytes);
    let text = text.trim_end_matches('\0');
    text.strip_suffix('|').unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_keys_from_their_tags() {
        let directory =
            [1, 1, 0, 4, 1024, 0, 1, 1, 1026, 34737, 11, 0, 2057, 34736, 1, 1, 3072, 34735, 1, 11];
        let keys = parse_keys(&directory, &[0.5, 6_378_137.0], b"WGS 84 x|y|\0").unwrap();
        assert_eq!(keys[&1024], GeoKey::Short(1));
        assert_eq!(keys[&1026], GeoKey::Text("WGS 84 x|y".into()));
        assert_eq!(keys[&2057], GeoKey::Double(vec![6_378_137.0]));
        assert_eq!(keys[&3072], GeoKey::Short(0));
    }

    #[test]
    fn a_damaged_key_leaves_none() {
        let problem = |directory: &[u16]| parse_keys(directory, &[0.5], b"short|").unwrap_err();
        let good = [1, 1, 0, 1, 1024, 0, 1, 1];
        assert!(parse_keys(&good, &[], b"").is_ok());
        assert_eq!(
            problem(&[1, 1, 0, 2, 1024, 0, 1, 1, 1026, 34737, 9, 0]),
            "key 1026: 9 values from 0 in tag 34737, beyond its end"
        );
        assert!(problem(&[1, 1, 0, 1, 2057, 34736, 1, 7]).contains("key 2057"));
        assert_eq!(problem(&[1, 1, 0, 3, 1024, 0, 1, 1]), "1 keys, expected 3");
        assert_eq!(problem(&[2, 1, 0, 1, 1024, 0, 1, 1]), "version 2, expected 1");
        assert_eq!(problem(&[1, 1]), "2 numbers, expected at least 4");
    }
}
