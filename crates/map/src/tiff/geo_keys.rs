//! Values of GeoKeys by their type.

use std::collections::BTreeMap;

use virtualize_tiff::model::GeoKey;

/// Returns the first number of a key; `None` if it has none.
pub(super) fn double(keys: &BTreeMap<u16, GeoKey>, key: u16) -> Option<f64> {
    match keys.get(&key) {
        Some(GeoKey::Double(values)) => values.first().copied(),
        _ => None,
    }
}

/// Returns the code of a key; `None` if it has none.
pub(super) fn short(keys: &BTreeMap<u16, GeoKey>, key: u16) -> Option<u16> {
    match keys.get(&key) {
        Some(GeoKey::Short(value)) => Some(*value),
        _ => None,
    }
}
