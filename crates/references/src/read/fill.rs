//! Translation of fill values and sentinels between the Zarr formats.
//!
//! xarray takes the `fill_value` of a Zarr v2 array as the sentinel (`_FillValue`) of missing data, whatever the attribute
//! `_FillValue`, which counts only if `fill_value` is null. In v3, `fill_value`
//! is only what missing chunks read as, and the attribute `_FillValue` holds the sentinel, encoded by type.

use serde_json::Value;
use virtualize_zarr::{Array, DataType, FillValue, ZarrFormat, cf::fill_value_attribute};

use super::ReferencesError;

const SENTINEL: &str = "_FillValue";

/// Translates the fill value of a Zarr v2 array to v3: the sentinel becomes an attribute, the fill value remains what
/// missing chunks read as. Returns a description of what is lost.
pub fn in_v3(array: &mut Array) -> Option<String> {
    let attribute = array.attributes.remove(SENTINEL).filter(|value| !value.is_null());
    let parsed = attribute.as_ref().and_then(|value| {
        FillValue::from_json(only(value), &array.data_type)
            .or_else(|_| FillValue::from_json(only(value), &sentinel_type(array)))
            .ok()
    });
    // Other packages encode the attribute as in v3.
    let is_same = |value: &Value| {
        parsed == array.fill_value
            || fill_value_attribute::decode(value, &array.data_type) == array.fill_value
    };
    let is_ignored = array.fill_value.is_some() && attribute.as_ref().is_some_and(|value| !is_same(value));
    let sentinel = array.fill_value.clone().or(parsed);
    let encoded =
        sentinel.as_ref().and_then(|sentinel| fill_value_attribute::encode(sentinel, &sentinel_type(array)));
    // xarray masks no times.
    let is_masked = !matches!(array.data_type, DataType::DateTime(_) | DataType::TimeDelta(_));
    let is_lost = encoded.is_none() && (attribute.is_some() || is_masked && array.fill_value.is_some());
    array.attributes.extend(encoded.map(|encoded| (SENTINEL.to_owned(), encoded)));
    let zero = FillValue::zero(&array.data_type);
    array.fill_value.get_or_insert(zero);
    if is_ignored {
        return Some(format!(
            "its attribute {SENTINEL} is dropped: readers of Zarr v2 mask its fill_value instead"
        ));
    }
    is_lost.then(|| format!("{SENTINEL} is dropped: Zarr v3 has none for {}", array.data_type))
}

/// Translates the fill value and sentinel of a Zarr v3 array to v2. The sentinel becomes the fill value if both are
/// equal or no attribute can hold it; otherwise it becomes a plain attribute. Returns the value to fill missing chunks
/// with if they would read as another one.
///
/// # Errors
/// A sentinel that is not of the array's type.
pub(crate) fn in_v2(array: &mut Array) -> Result<Option<FillValue>, ReferencesError> {
    let zero = FillValue::zero(&array.data_type);
    let storage = array.fill_value.take().unwrap_or_else(|| zero.clone());
    let attribute = array.attributes.remove(SENTINEL).filter(|value| !value.is_null());
    if let Some(value) = attribute {
        let sentinel = fill_value_attribute::decode(&value, &array.data_type)
            .or_else(|| fill_value_attribute::decode(&value, &sentinel_type(array)))
            .ok_or_else(|| ReferencesError::Invalid("its _FillValue is not one of its type".to_owned()))?;
        match plain(&sentinel, &sentinel_type(array)).filter(|_| sentinel != storage) {
            Some(plain) => drop(array.attributes.insert(SENTINEL.to_owned(), plain)),
            None => array.fill_value = Some(sentinel),
        }
    }
    let chunks = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
    let is_whole = Some(array.chunks.len()) == chunks;
    let reads_right = *array.fill_value.as_ref().unwrap_or(&zero) == storage;
    Ok((!is_whole && !reads_right).then_some(storage))
}

/// Returns the type of `_FillValue`. For unsigned integers with `_Unsigned = "false"`, xarray requires a signed number.
fn sentinel_type(array: &Array) -> DataType {
    match array.attributes.get("_Unsigned").and_then(Value::as_str) {
        Some("false") => array.data_type.with_sign(true),
        _ => array.data_type.clone(),
    }
}

/// Returns the element of a list of one; other values as they are.
fn only(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([one]) => one,
        _ => value,
    }
}

/// Returns the sentinel as plain JSON, which xarray compares with the data of a Zarr v2 array. NaN, infinities, complex
/// numbers and byte strings have no such form.
fn plain(sentinel: &FillValue, data_type: &DataType) -> Option<Value> {
    let json = sentinel.to_json(data_type, ZarrFormat::V2).ok()?;
    let is_plain = match data_type {
        DataType::String => json.is_string(),
        _ => json.is_number() || json.is_boolean(),
    };
    is_plain.then_some(json)
}
