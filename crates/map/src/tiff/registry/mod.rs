//! The EPSG dataset, as far as GeoKeys can contradict it: datums, ellipsoids, meridians and units of the systems that files
//! name.

mod tables;

use std::cmp::Ordering;

pub(super) use tables::VERSION;

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
    /// Semi-major axis in metres.
    pub(super) semi_major: f64,
    /// Inverse flattening; 0 for a sphere.
    pub(super) inverse_flattening: f64,
    /// EPSG code of the prime meridian.
    pub(super) meridian: u16,
}

impl Geographic {
    /// Returns the semi-minor axis in metres.
    pub(super) fn semi_minor(&self) -> f64 {
        match self.inverse_flattening {
            0.0 => self.semi_major,
            inverse => self.semi_major * (1.0 - 1.0 / inverse),
        }
    }

    /// Whether longitudes are relative to Greenwich.
    pub(super) fn is_of_greenwich(&self) -> bool {
        self.meridian == GREENWICH
    }

    /// Returns the names of the system and of its datum; `None` for systems that are not common.
    pub(super) fn names(&self) -> Option<(&'static str, &'static str)> {
        let (_, system, datum) = tables::NAMES.iter().find(|(code, ..)| *code == self.code)?;
        Some((system, datum))
    }
}

/// Returns a geographic system by its code; of a three-dimensional one, the two-dimensional system on the same datum.
pub(super) fn geographic(code: u16) -> Option<Geographic> {
    let plane = without_height(code).unwrap_or(code);
    let (first, _, datum, ellipsoid) = find(tables::GEOGRAPHIC, plane, |row| (row.0, row.1))?;
    let (_, semi_major, inverse_flattening) = find(tables::ELLIPSOIDS, *ellipsoid, |row| (row.0, row.0))?;
    let meridian = find(tables::NOT_GREENWICH, plane, |row| (row.0, row.0)).map_or(GREENWICH, |row| row.1);
    Some(Geographic {
        code: plane,
        datum: datum.saturating_add(plane.saturating_sub(*first)),
        ellipsoid: *ellipsoid,
        semi_major: *semi_major,
        inverse_flattening: *inverse_flattening,
        meridian,
    })
}

/// Returns the code of the geographic system on which a projected one is based.
pub(super) fn base_of(projected: u16) -> Option<u16> {
    find(tables::PROJECTED, projected, |row| (row.0, row.1)).map(|row| row.2)
}

/// Returns the two-dimensional system on the same datum as a three-dimensional one; `None` for other codes.
pub(super) fn without_height(code: u16) -> Option<u16> {
    find(tables::WITH_HEIGHT, code, |row| (row.0, row.0)).map(|row| row.1)
}

/// Returns the common geographic system with this datum.
pub(super) fn of_datum(datum: u16) -> Option<Geographic> {
    let systems = tables::NAMES.iter().filter_map(|(code, ..)| geographic(*code));
    systems.into_iter().find(|system| system.datum == datum)
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
        assert_eq!((belgium.datum, belgium.ellipsoid, belgium.semi_major), (6313, 7022, 6_378_388.0));
        assert!((belgium.semi_minor() - 6_356_911.946).abs() < 1e-3 && belgium.is_of_greenwich());
        let paris = geographic(4807).unwrap();
        assert!(paris.meridian == 8903 && !paris.is_of_greenwich());
        assert_eq!(geographic(4979), geographic(4326));
        assert_eq!(
            (without_height(4937), without_height(8254), without_height(4326)),
            (Some(4258), Some(8255), None)
        );
        assert_eq!([3855, 5773, 6360, 4326].map(is_vertical), [true, true, true, false]);
        assert_eq!(of_datum(6124).unwrap().names(), Some(("RT90", "Rikets koordinatsystem 1990")));
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
        assert!(ordered(tables::ELLIPSOIDS.iter().map(|row| (row.0, row.0)).collect()));
        assert!(ordered(tables::VERTICAL.to_vec()));
        assert!(ordered(tables::IN_GRADS.to_vec()));
        assert!(ordered(tables::PROJECTED_UNITS.iter().map(|row| (row.0, row.1)).collect()));
        assert!(ordered(tables::VERTICAL_UNITS.iter().map(|row| (row.0, row.1)).collect()));
    }
}
