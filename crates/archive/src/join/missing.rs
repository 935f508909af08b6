//! What parts that no file has read as.

use bytes::Bytes;
use virtualize::zarr::{Array, FillValue, ZarrFormat};

use crate::values::sentinel::Sentinels;

/// Makes missing chunks read as "missing".
///
/// # Errors
/// An array without such a value, or one whose missing chunks read as something else already.
pub(super) fn prepare(
    array: &mut Array,
    format: ZarrFormat,
    complete: bool,
    any_value: bool,
) -> Result<(), String> {
    let sentinels = Sentinels::of(array, format);
    if let Some(FillValue::Fixed(bytes)) = &array.fill_value
        && sentinels.is_missing(bytes)
    {
        return Ok(());
    }
    if complete {
        let nan = || FillValue::from_f64(&array.data_type, f64::NAN).value();
        let known = sentinels.elements.first().map(|bytes: &Bytes| FillValue::Fixed(bytes.clone()));
        let float = array.data_type.is_float();
        if let Some(fill) = known.or_else(|| if float { nan() } else { None }) {
            array.fill_value = Some(fill);
            return Ok(());
        }
    }
    if any_value {
        return Ok(());
    }
    let what =
        if complete { "it has no value that means \"missing\"" } else { "its missing chunks read otherwise" };
    Err(format!(
        "parts that no file has cannot be told from values, since {what}; --fill-without-sentinel lets them read as \
         the fill value"
    ))
}
