//! The EPSG dataset, as far as other GeoKeys can override it: datums, ellipsoids, meridians and units of the systems that
//! files name.

mod tables {
    include!("epsg_tables.inc");
}

use std::cmp::Ordering;

use super::crs::{Keys, described};

const GREENWICH: u16 = 8901;
const METRE: u16 = 9001;

/// Components of a geographic system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Geographic {
    /// EPSG code of the two-dimensional system.
    pub(super) code: u16,
    /// EPSG code of the datum.
    pub(super) datum: u16,
    /// EPSG code of the ellipsoid.
    pub(super) ellipsoid: u16,
    /// EPSG code of the prime meridian.
    pub(super) meridian: u16,
}

/// Returns the problem of a key whose code is not in the dataset.
pub(super) fn unknown(keys: &Keys, key: u16) -> String {
    format!("{}, which is not in the EPSG dataset {}", described(keys, key), tables::VERSION)
}

/// Returns a geographic system by its code; of a three-dimensional one, the two-dimensional system on the same datum.
pub(super) fn geographic(code: u16) -> Option<Geographic> {
    let code = without_height(code).unwrap_or(code);
    let (first, _, datum, ellipsoid) = find(tables::GEOGRAPHIC, code, |row| (row.0, row.1))?;
    let meridian = find(tables::NOT_GREENWICH, code, |row| (row.0, row.0)).map_or(GREENWICH, |row| row.1);
    let datum = datum.saturating_add(code.saturating_sub(*first));
    Some(Geographic { code, datum, ellipsoid: *ellipsoid, meridian })
}

/// Returns the names of a common geographic system and of its datum.
pub(super) fn names(code: u16) -> Option<(&'static str, &'static str)> {
    find(tables::NAMES, code, |row| (row.0, row.0)).map(|row| (row.1, row.2))
}

/// Returns the code of a datum's ellipsoid.
pub(super) fn ellipsoid_of(datum: u16) -> Option<u16> {
    let is_of = |(first, last, of_first, _): &&(u16, u16, u16, u16)| {
        (*of_first..=of_first.saturating_add(last - first)).contains(&datum)
    };
    tables::GEOGRAPHIC.iter().find(is_of).map(|row| row.3)
}

/// Returns semi-major axis in metres and inverse flattening (0 for a sphere) of an ellipsoid.
pub(super) fn ellipsoid(code: u16) -> Option<(f64, f64)> {
    find(tables::ELLIPSOIDS, code, |row| (row.0, row.0)).map(|row| (row.1, row.2))
}

/// Returns the longitude of a prime meridian in degrees east of Greenwich.
pub(super) fn meridian(code: u16) -> Option<f64> {
    find(tables::MERIDIANS, code, |row| (row.0, row.0)).map(|row| row.1)
}

/// Returns the metres in a unit of length.
pub(super) fn metres(unit: u16) -> Option<f64> {
    find(tables::LENGTHS, unit, |row| (row.0, row.0)).map(|row| row.1)
}

/// Returns the name of a unit of length.
pub(super) fn name_of_length(unit: u16) -> Option<&'static str> {
    find(tables::LENGTHS, unit, |row| (row.0, row.0)).map(|row| row.2)
}

/// Whether the datum of a geographic system is dynamic.
pub(super) fn is_dynamic(code: u16) -> bool {
    find(tables::DYNAMIC, code, |row| *row).is_some()
}

/// Returns the code of the geographic system on which a projected one is based.
pub(super) fn base_of(projected: u16) -> Option<u16> {
    find(tables::PROJECTED, projected, |row| (row.0, row.1)).map(|row| row.2)
}

/// Returns the two-dimensional system on the same datum as a three-dimensional one; `None` for other codes.
pub(super) fn without_height(code: u16) -> Option<u16> {
    find(tables::WITH_HEIGHT, code, |row| (row.0, row.0)).map(|row| row.1)
}

/// Whether a code is that of a vertical system.
pub(super) fn is_vertical(code: u16) -> bool {
    find(tables::VERTICAL, code, |row| *row).is_some()
}

/// Returns the EPSG code of the unit of a vertical system.
pub(super) fn unit_of_vertical(code: u16) -> u16 {
    find(tables::VERTICAL_UNITS, code, |row| (row.0, row.1)).map_or(METRE, |row| row.2)
}

/// Returns the EPSG code of the unit of a projected system's axes.
pub(super) fn unit_of_projected(code: u16) -> u16 {
    find(tables::PROJECTED_UNITS, code, |row| (row.0, row.1)).map_or(METRE, |row| row.2)
}

/// Whether a geographic system has angles in grads; all others have degrees.
pub(super) fn is_in_grads(code: u16) -> bool {
    find(tables::IN_GRADS, code, |row| *row).is_some()
}

/// Finds the row whose range of codes contains `code`. Rows are sorted and do not overlap.
fn find<Row>(rows: &[Row], code: u16, range: impl Fn(&Row) -> (u16, u16)) -> Option<&Row> {
    let place = |row: &Row| {
        let (first, last) = range(row);
        match (code < first, code > last) {
            (true, _) => Ordering::Greater,
            (_, true) => Ordering::Less,
            _ => Ordering::Equal,
        }
    };
    rows.binary_search_by(place).ok().and_then(|at| rows.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pyproj.CRS.from_epsg(code)`: `.geodetic_crs`, `.datum`, `.ellipsoid`, `.prime_meridian`.
    #[test]
    fn systems_are_those_of_the_dataset() {
        assert_eq!(
            [32631, 2193, 31370, 27572, 4326].map(base_of),
            [Some(4326), Some(4167), Some(4313), Some(4807), None]
        );
        let belgium = geographic(4313).unwrap();
        assert_eq!((belgium.datum, belgium.ellipsoid, belgium.meridian), (6313, 7022, 8901));
        assert_eq!((ellipsoid_of(6313), ellipsoid(7022)), (Some(7022), Some((6_378_388.0, 297.0))));
        assert_eq!(geographic(4807).unwrap().meridian, 8903);
        // Madrid is at 3° 41' 14.55" W.
        assert_eq!([8901, 8903, 8905].map(meridian), [Some(0.0), Some(2.337_229_17), Some(-3.687_375)]);
        assert_eq!([9001, 9002, 9036].map(metres), [Some(1.0), Some(0.3048), Some(1000.0)]);
        assert_eq!([4326, 4258, 4269, 4313].map(is_dynamic), [true, true, false, false]);
        assert_eq!(geographic(4979), geographic(4326));
        assert_eq!(
            (without_height(4937), without_height(8254), without_height(4326)),
            (Some(4258), Some(8255), None)
        );
        assert_eq!([3855, 5773, 6360, 4326].map(is_vertical), [true, true, true, false]);
        assert_eq!(names(4124), Some(("RT90", "Rikets koordinatsystem 1990")));
        assert_eq!(geographic(7844).unwrap().datum, 1168);
        assert_eq!(
            [2065, 2066, 2263, 2264, 2265, 2853, 32633].map(unit_of_projected),
            [9001, 9039, 9003, 9003, 9002, 9001, 9001]
        );
        assert_eq!([3855, 6360, 5754].map(unit_of_vertical), [9001, 9003, 9095]);
    }

    #[test]
    fn tables_are_in_order() {
        let ordered = |codes: Vec<(u16, u16)>| codes.windows(2).all(|pair| pair[0].1 < pair[1].0);
        assert!(ordered(tables::PROJECTED.iter().map(|row| (row.0, row.1)).collect()));
        assert!(ordered(tables::GEOGRAPHIC.iter().map(|row| (row.0, row.1)).collect()));
        assert!(ordered(tables::WITH_HEIGHT.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::NOT_GREENWICH.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::MERIDIANS.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::LENGTHS.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::DYNAMIC.to_vec()));
        assert!(ordered(tables::NAMES.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::ELLIPSOIDS.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::VERTICAL.to_vec()));
        assert!(ordered(tables::IN_GRADS.to_vec()));
        assert!(ordered(tables::PROJECTED_UNITS.iter().map(|row| (row.0, row.1)).collect()));
        assert!(ordered(tables::VERTICAL_UNITS.iter().map(|row| (row.0, row.1)).collect()));
    }
}
