//! GeoKeys that contradict the EPSG code of a file. GDAL then derives a system from the definition of the code and the keys;
//! the code alone would be wrong.

use std::collections::BTreeMap;

use virtualize_tiff::model::GeoKey;

use super::{
    geo_keys::{double, short},
    registry::{self, Geographic},
    units,
};

const GEODETIC_CRS: u16 = 2048;
const DATUM: u16 = 2050;
const PRIME_MERIDIAN: u16 = 2051;
const ANGULAR_UNITS: u16 = 2054;
const ANGULAR_UNIT_SIZE: u16 = 2055;
const ELLIPSOID: u16 = 2056;
const SEMI_MAJOR_AXIS: u16 = 2057;
const SEMI_MINOR_AXIS: u16 = 2058;
const INVERSE_FLATTENING: u16 = 2059;
const PRIME_MERIDIAN_LONGITUDE: u16 = 2061;
const METHOD: u16 = 3075;
const PROJECTED_UNITS: u16 = 3076;
const PROJECTED_UNIT_SIZE: u16 = 3077;
const USER_DEFINED: u16 = 32767;
const WGS_84: u16 = 4326;
const WEB_MERCATOR: u16 = 3857;

/// Largest difference of two semi-axes that is a matter of rounding, in metres.
const SAME_AXIS: f64 = 1e-3;
/// The same for inverse flattenings. Those of WGS 84 and of GRS 1980 differ by 1.5e-6.
const SAME_FLATTENING: f64 = 5e-7;
/// The same for WGS 84: GDAL trusts its code whatever the keys are, and files have rounded flattenings, or that of GRS 1980.
const SAME_AS_WGS_84: f64 = 1e-2;

type Keys = BTreeMap<u16, GeoKey>;

/// Returns how the keys contradict the system that `code` names, in one line; `None` if they do not.
pub(super) fn of(keys: &Keys, code: u16, is_geographic: bool) -> Option<String> {
    let base = if is_geographic { Some(code) } else { registry::base_of(code) };
    let Some(base) = base.and_then(registry::geographic) else {
        let kind = if is_geographic { "geographic" } else { "projected" };
        return Some(format!("EPSG:{code} is no {kind} system of the EPSG dataset {}", registry::VERSION));
    };
    if !is_geographic && let Some(problem) = projection(keys, code, &base) {
        return Some(problem);
    }
    codes(keys, code, &base)
        .or_else(|| angles(keys, code, &base))
        .or_else(|| ellipsoid(keys, code, &base))
        .or_else(|| meridian(keys, code, &base))
}

/// Whether the keys give another ellipsoid than the system has, in another way than by semi-major axis and inverse
/// flattening together.
pub(super) fn ellipsoid_differs(keys: &Keys, system: &Geographic) -> bool {
    let code = short(keys, ELLIPSOID).is_some_and(|code| ![system.ellipsoid, USER_DEFINED].contains(&code));
    let number = |key| double(keys, key).filter(|number| *number != 0.0);
    let (major, minor, inverse) =
        (number(SEMI_MAJOR_AXIS), number(SEMI_MINOR_AXIS), number(INVERSE_FLATTENING));
    // One number alone does not define an ellipsoid, unless it is that of the system.
    let is_whole =
        major.is_some() && inverse.is_some() || major.is_none() && minor.is_none() && inverse.is_none();
    code || !is_whole && ellipsoid(keys, system.code, system).is_some()
}

fn projection(keys: &Keys, code: u16, base: &Geographic) -> Option<String> {
    if let Some(found) = short(keys, GEODETIC_CRS).filter(|found| *found != 0 && *found != base.code) {
        return Some(format!("EPSG:{code} is based on EPSG:{}, not on {}", base.code, system(found)));
    }
    if let Some(method) = short(keys, METHOD).filter(|method| ![0, USER_DEFINED].contains(method)) {
        return Some(format!("EPSG:{code} with a projection of its own (method {method})"));
    }
    lengths(keys, code)
}

fn system(code: u16) -> String {
    if code == USER_DEFINED { "a system of its own".into() } else { format!("EPSG:{code}") }
}

/// Compares the codes of datum, ellipsoid and prime meridian. Codes below 1024 are reserved and have no meaning.
fn codes(keys: &Keys, code: u16, base: &Geographic) -> Option<String> {
    let parts = [
        (DATUM, "datum", base.datum),
        (ELLIPSOID, "ellipsoid", base.ellipsoid),
        (PRIME_MERIDIAN, "prime meridian", base.meridian),
    ];
    parts.into_iter().find_map(|(key, name, expected)| {
        let found = short(keys, key).filter(|found| *found >= 1024 && *found != expected)?;
        // A known mistake of Sentinel-1 products: the code of the system as that of the ellipsoid.
        if (key, code, found) == (ELLIPSOID, WGS_84, WGS_84) {
            return None;
        }
        Some(format!("EPSG:{code}, whose {name} is EPSG:{expected}, with {}", system(found)))
    })
}

fn angles(keys: &Keys, code: u16, base: &Geographic) -> Option<String> {
    let unit = short(keys, ANGULAR_UNITS)?;
    let fits = match (unit, double(keys, ANGULAR_UNIT_SIZE)) {
        (0, _) | (USER_DEFINED, None | Some(0.0)) => true,
        (USER_DEFINED, Some(size)) => (size - units::radians(base.code)).abs() < 1e-12,
        _ => units::fits_geographic(base.code, unit),
    };
    (!fits).then(|| format!("EPSG:{code} with angles in unit {unit}, which is not that of the system"))
}

fn lengths(keys: &Keys, code: u16) -> Option<String> {
    let (expected, found) = (registry::unit_of_projected(code), short(keys, PROJECTED_UNITS)?);
    let fits = match (found, double(keys, PROJECTED_UNIT_SIZE), units::metres(expected)) {
        (USER_DEFINED, Some(size), Some(metres)) => (size - metres).abs() < 1e-9,
        (USER_DEFINED, ..) => true,
        _ => found == expected,
    };
    (!fits).then(|| format!("EPSG:{code}, whose unit is EPSG:{expected}, with lengths in EPSG:{found}"))
}

/// Compares the size of the ellipsoid. Zeros have no meaning.
fn ellipsoid(keys: &Keys, code: u16, base: &Geographic) -> Option<String> {
    // Web Mercator uses spherical formulas on WGS 84, and some files describe that sphere.
    if code == WEB_MERCATOR && !keys.contains_key(&GEODETIC_CRS) {
        return None;
    }
    let is_wgs_84 = code == WGS_84;
    let tolerance = |usual: f64| if is_wgs_84 { SAME_AS_WGS_84 } else { usual };
    let inverse = double(keys, INVERSE_FLATTENING).filter(|inverse| *inverse != 0.0);
    // The inverse flattening takes precedence over the semi-minor axis.
    let minor = double(keys, SEMI_MINOR_AXIS).filter(|_| inverse.is_none());
    let numbers = [
        (double(keys, SEMI_MAJOR_AXIS), "semi-major axis", base.semi_major, tolerance(SAME_AXIS)),
        (minor, "semi-minor axis", base.semi_minor(), tolerance(SAME_AXIS)),
        (inverse, "inverse flattening", base.inverse_flattening, tolerance(SAME_FLATTENING)),
    ];
    numbers.into_iter().find_map(|(found, name, expected, tolerance)| {
        let found = found.filter(|found| *found != 0.0)?;
        let same = (found - expected).abs() <= tolerance;
        (!same)
            .then(|| format!("EPSG:{code}, whose ellipsoid has a {name} of {expected}, with one of {found}"))
    })
}

fn meridian(keys: &Keys, code: u16, base: &Geographic) -> Option<String> {
    let east =
        double(keys, PRIME_MERIDIAN_LONGITUDE).filter(|east| *east != 0.0 && base.is_of_greenwich())?;
    Some(format!("EPSG:{code}, whose prime meridian is that of Greenwich, with one at {east}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(
        code: u16,
        is_geographic: bool,
        shorts: &[(u16, u16)],
        doubles: &[(u16, f64)],
    ) -> Option<String> {
        let shorts = shorts.iter().map(|(id, value)| (*id, GeoKey::Short(*value)));
        let doubles = doubles.iter().map(|(id, value)| (*id, GeoKey::Double(vec![*value])));
        of(&shorts.chain(doubles).collect(), code, is_geographic)
    }

    /// What `rasterio` 1.5 calls equal to the code, and what not.
    #[test]
    fn keys_that_change_a_system_are_found() {
        let same = |code, geographic, shorts: &[(u16, u16)], doubles: &[(u16, f64)]| {
            assert_eq!(problem(code, geographic, shorts, doubles), None);
        };
        let differs = |code, geographic, shorts: &[(u16, u16)], doubles: &[(u16, f64)]| {
            assert!(problem(code, geographic, shorts, doubles).is_some(), "{code} {shorts:?} {doubles:?}");
        };
        same(
            32631,
            false,
            &[(2048, 4326), (2050, 6326), (2056, 7030), (2051, 8901)],
            &[(2059, 298.257_223_563)],
        );
        same(31370, false, &[(2048, 4313)], &[(2057, 6_378_388.0), (2059, 297.0)]);
        same(27572, false, &[(2048, 4807), (2054, 9105), (2051, 8903)], &[]);
        same(4313, true, &[(2050, 6313), (2056, 7022)], &[]);
        same(4326, true, &[], &[(2057, 6_378_137.0), (2059, 298.257_222_101)]);
        same(4267, true, &[], &[(2057, 6_378_206.4), (2059, 294.978_698)]);
        // rasterio calls these two systems different, by 3e-7 in the flattening.
        same(28992, false, &[(2048, 4289)], &[(2058, 6_356_078.962_84), (2059, 299.152_813_106_079)]);
        same(3857, false, &[(2050, 1), (2056, 1)], &[(2058, 6_378_137.0)]);
        differs(32631, false, &[(2048, 4269)], &[]);
        differs(32631, false, &[(2048, 32767)], &[]);
        differs(32631, false, &[(2050, 6269)], &[]);
        differs(32631, false, &[(2056, 7001)], &[]);
        differs(32631, false, &[(3075, 7)], &[(3092, 0.5)]);
        differs(32631, false, &[(2048, 4326), (2051, 8903)], &[]);
        differs(31370, false, &[(2048, 4313)], &[(2057, 6_378_388.0), (2059, 290.0)]);
        differs(27572, false, &[(2048, 4807), (2054, 9102)], &[]);
        differs(4313, true, &[], &[(2057, 6_378_137.0), (2059, 298.257_222_101)]);
        differs(4313, true, &[], &[(2058, 6_356_000.0)]);
        differs(4313, true, &[(2054, 9105)], &[]);
        differs(4313, true, &[(2051, 8903)], &[]);
        differs(4326, false, &[], &[]);
        differs(32631, true, &[], &[]);
        same(32631, false, &[(3076, 32767)], &[(3077, 1.0)]);
        same(32631, false, &[(3076, 32767)], &[]);
        same(32631, false, &[], &[(2061, 0.0)]);
        same(27572, false, &[], &[(2061, 2.337_229_17)]);
        same(4313, true, &[(2054, 0)], &[]);
        same(4313, true, &[(2054, 32767)], &[]);
        same(4313, true, &[(2054, 32767)], &[(2055, 0.0)]);
        same(4313, true, &[(2054, 32767)], &[(2055, 0.017_453_292_519_943_295)]);
        differs(32631, false, &[(3076, 32767)], &[(3077, 0.3048)]);
        differs(32631, false, &[(3076, 9002)], &[]);
        differs(32631, false, &[], &[(2061, 2.337_229_17)]);
        differs(4313, true, &[(2054, 32767)], &[(2055, 0.015_707_963_267_948_967)]);
    }

    #[test]
    fn problems_name_both_systems() {
        let base = |code| problem(32631, false, &[(2048, code)], &[]).unwrap();
        assert_eq!(base(4269), "EPSG:32631 is based on EPSG:4326, not on EPSG:4269");
        assert_eq!(base(32767), "EPSG:32631 is based on EPSG:4326, not on a system of its own");
    }
}
