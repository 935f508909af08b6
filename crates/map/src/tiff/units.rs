//! Units of coordinate reference systems. Keys of a file that contradict the unit of an EPSG system change the system, and
//! its code is no longer true.

use super::registry;

const METRE: u16 = 9001;
const GRAD: u16 = 9105;
/// EPSG codes of degrees, in decimals and in sexagesimal notations.
const DEGREES: [u16; 6] = [9102, 9107, 9108, 9110, 9116, 9122];

/// Whether a geographic system of EPSG has angles in this unit.
pub(super) fn fits_geographic(code: u16, unit: u16) -> bool {
    if registry::is_in_grads(code) { unit == GRAD } else { DEGREES.contains(&unit) }
}

/// Whether numbers in this unit of angles are decimal degrees, not degrees with minutes and seconds in the decimals.
pub(super) fn is_degree(unit: u16) -> bool {
    matches!(unit, 9102 | 9122)
}

/// Returns the radians in the unit of angles of a geographic system.
pub(super) fn radians(code: u16) -> f64 {
    std::f64::consts::PI / if registry::is_in_grads(code) { 200.0 } else { 180.0 }
}

/// Returns the metres in a unit of length, for the units whose size files give as well.
pub(super) fn metres(unit: u16) -> Option<f64> {
    Some(match unit {
        METRE => 1.0,
        9002 => 0.3048,
        9003 => 1200.0 / 3937.0,
        9036 => 1000.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pyproj.CRS.from_epsg(code).axis_info[0].unit_code`.
    #[test]
    fn angles_are_in_the_units_of_the_registry() {
        assert!(fits_geographic(4326, 9102) && !fits_geographic(4326, 9104));
        assert!(fits_geographic(4807, 9105) && !fits_geographic(4807, 9102));
    }

    /// EPSG dataset: units of length and of angle.
    #[test]
    fn units_have_the_sizes_of_the_registry() {
        let metres = [(9001, 1.0), (9002, 0.3048), (9003, 0.304_800_609_601_219), (9036, 1000.0)];
        for (unit, size) in metres {
            assert!((super::metres(unit).unwrap() - size).abs() < 1e-12, "{unit}");
        }
        assert_eq!(super::metres(9095), None);
        assert!((radians(4326) - 0.017_453_292_519_943_295).abs() < 1e-15, "degrees");
        assert!((radians(4807) - 0.015_707_963_267_948_967).abs() < 1e-15, "grads");
        assert!(is_degree(9102) && is_degree(9122) && !is_degree(9110) && !is_degree(9105));
    }
}
