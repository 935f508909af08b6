//! The value of parts that no file has.

use bytes::Bytes;
use virtualize::zarr::{Array, FillValue, ZarrFormat};

use crate::{error::Problem, values::sentinel::Sentinels};

/// Makes missing chunks read as a missing value. Set `complete` if the files that have the array lack none of its
/// chunks, so that its fill value may change. `any_value` accepts a fill value that is not a missing value.
///
/// # Errors
/// An array without a missing value; an array whose missing chunks already read as valid data.
pub(super) fn prepare(
    array: &mut Array,
    format: ZarrFormat,
    complete: bool,
    any_value: bool,
) -> Result<(), Problem> {
    let sentinels = Sentinels::of(array, format);
    if let Some(FillValue::Fixed(bytes)) = &array.fill_value
        && sentinels.is_missing(bytes)
    {
        return Ok(());
    }
    if complete {
        let nan = || FillValue::from_f64(&array.data_type, f64::NAN).value();
        let sentinel = sentinels.elements.first().map(|bytes: &Bytes| FillValue::Fixed(bytes.clone()));
        let is_float = array.data_type.is_float();
        if let Some(fill) = sentinel.or_else(|| if is_float { nan() } else { None }) {
            array.fill_value = Some(fill);
            return Ok(());
        }
    }
    if any_value { Ok(()) } else { Err(Problem::NoMissingValue { complete }) }
}
