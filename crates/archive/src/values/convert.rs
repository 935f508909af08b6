//! Numbers in other types, exactly.

use serde_json::{Map, Value};
use virtualize::zarr::{DataType, FillValue};

/// Whether elements are integers or floats.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_float()
}

/// Returns the same number in another type, or nothing if that type does not hold it exactly.
pub(crate) fn converted(value: &FillValue, old: &DataType, new: &DataType) -> Option<FillValue> {
    match value.to_i128(old).filter(|_| old.is_integer()) {
        Some(int) => FillValue::from_i128(new, int).exact(),
        None => FillValue::from_f64(new, value.to_f64(old)?).exact(),
    }
}

/// Returns the attribute that makes decoded numbers differ from the stored ones, if the array has one.
pub(crate) fn packing(attributes: &Map<String, Value>) -> Option<&'static str> {
    ["scale_factor", "add_offset", "_Unsigned"].into_iter().find(|name| attributes.contains_key(*name))
}
