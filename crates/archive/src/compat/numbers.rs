//! Numbers of coordinates, whose types may differ.

use serde::{Deserialize, Serialize};
use virtualize::ArrayValues;
use virtualize::zarr::{Array, DataType, FillValue, ZarrFormat};

use crate::values::{
    convert::{converted, is_number, packing},
    scalar::elements,
    sentinel::Sentinels,
};

/// What is known of the numbers of a coordinate, or of times, beside their type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    /// They are times, or bounds of times.
    pub are_times: bool,
    /// A stored value means "missing".
    pub has_sentinel: bool,
    /// Some are missing.
    pub any_missing: bool,
    /// All are whole, and within 64 bits.
    pub are_whole: bool,
    /// All are exact as binary64.
    pub are_float: bool,
}

impl Numbers {
    /// Nothing for what are no numbers, or others than what is stored.
    pub(super) fn of(
        array: &Array,
        values: &ArrayValues,
        are_times: bool,
        format: ZarrFormat,
    ) -> Option<Self> {
        let data_type = &values.data_type;
        if !is_number(data_type) || packing(&array.attributes).is_some() {
            return None;
        }
        let sentinels = Sentinels::of(array, format);
        let has_sentinel = !sentinels.elements.is_empty();
        let mut found =
            Self { are_times, has_sentinel, any_missing: false, are_whole: true, are_float: true };
        for element in elements(values)? {
            if sentinels.is_missing(element) {
                found.any_missing = true;
                continue;
            }
            let number = FillValue::Fixed(values.bytes.slice_ref(element));
            found.are_whole &= converted(&number, data_type, &DataType::Int64).is_some();
            found.are_float &= converted(&number, data_type, &DataType::Float64).is_some();
        }
        Some(found)
    }
}
