//! The value of parts that no file has.

use bytes::Bytes;
use virtualize::zarr::{Array, FillValue, ZarrFormat};

use crate::{error::Problem, values::sentinel::Sentinels};

/// Makes missing chunks read as "missing". An array that is `complete` lacks no chunk in the files that have it, so that its
/// fill value may be changed; `any_value` accepts a fill value that does not mean "missing".
///
/// # Errors
/// An array without a missing value; one whose missing chunks already read as a value.
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
