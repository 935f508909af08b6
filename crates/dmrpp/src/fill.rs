//! Fill values. Hyrax prints integers exactly, but floats with six significant digits.

use virtualize_hdf5::model::{Attribute, ByteOrder, Element, FillMessage, FillTime, FillValue};

use crate::error::Problem;
use crate::types::Number;

/// NetCDF's default fill value for both float types (`NC_FILL_FLOAT`, `NC_FILL_DOUBLE`).
const NC_FILL: f64 = 9.969_209_968_386_869e36;

/// Returns the message for the attribute `fillValue` of an array of numbers. `attributes` are those of the array.
pub(crate) fn of_number(
    text: &str,
    number: Number,
    order: ByteOrder,
    attributes: &[Attribute],
) -> Result<FillMessage, Problem> {
    if text == "nan" && order == ByteOrder::Big {
        // HDF5 gives a NaN that it converts other bits.
        return Err(Problem::incomplete("fillValue \"nan\" of big-endian numbers has unknown bits"));
    }
    let mut bytes = match number {
        Number::Integer(size, _) => {
            let value = number.integer(text).ok_or_else(|| invalid(text))?;
            value.to_le_bytes().get(..size as usize).unwrap_or_default().to_vec()
        }
        Number::Float(4) => {
            let declared = attributes.iter().find_map(|attribute| declared(attribute, number));
            single(text, declared)?.to_le_bytes().to_vec()
        }
        Number::Float(_) => {
            let declared = attributes.iter().find_map(|attribute| declared(attribute, number));
            exact(text, declared, NC_FILL)?.to_le_bytes().to_vec()
        }
    };
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    Ok(message(bytes))
}

/// Returns the message for the attribute `fillValue` of an array of texts. The text ends at the first NUL.
pub(crate) fn of_text(text: &str, size: u32) -> Result<FillMessage, Problem> {
    let mut bytes = text.as_bytes().to_vec();
    match bytes.len() {
        0 => bytes.resize(size as usize, 0),
        length if length == size as usize && text.is_ascii() => {}
        length => {
            let problem = format!("fillValue has {length} bytes, a text {size}: the others are unknown");
            return Err(Problem::incomplete(problem));
        }
    }
    Ok(message(bytes))
}

/// Returns whether all bytes of the fill value are zero.
pub(crate) fn is_zero(fill: &FillMessage) -> bool {
    matches!(fill.value, FillValue::Default)
}

/// Returns the message of a dataset that was created without a fill value.
pub(crate) fn default() -> FillMessage {
    message(Vec::new())
}

fn message(bytes: Vec<u8>) -> FillMessage {
    let value =
        if bytes.iter().all(|byte| *byte == 0) { FillValue::Default } else { FillValue::User(bytes.into()) };
    FillMessage { version: None, write_time: FillTime::IfSet, allocation_time: 0, value }
}

/// Returns the value of `_FillValue`, if it has the array's type.
fn declared(attribute: &Attribute, number: Number) -> Option<f64> {
    let same = attribute.name == "_FillValue" && attribute.datatype == number.datatype(ByteOrder::Little);
    match attribute.elements.as_slice() {
        [Element::Float(value)] if same => Some(*value),
        _ => None,
    }
}

/// Returns the number that was printed with six significant digits: `_FillValue` or the default, if they are printed so, or
/// a number of at most five digits.
fn exact(text: &str, declared: Option<f64>, default: f64) -> Result<f64, Problem> {
    let value: f64 = text.parse().map_err(|_| invalid(text))?;
    if value == 0.0 || value.is_infinite() || text == "nan" {
        return Ok(value);
    }
    let printed_so = |candidate: &f64| format!("{candidate:.5e}").parse() == Ok(value);
    if let Some(found) = declared.into_iter().chain([default]).find(printed_so) {
        return Ok(found);
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default().replace(['.', '-', '+'], "");
    match mantissa.trim_matches('0').len() {
        0..=5 if value.is_finite() => Ok(value),
        _ => Err(Problem::incomplete(format!("fillValue \"{text}\" has six digits and may be rounded"))),
    }
}

/// Returns the 32-bit number that was printed with six significant digits.
#[allow(clippy::cast_possible_truncation, reason = "a number that 32 bits cannot represent is parsed again")]
fn single(text: &str, declared: Option<f64>) -> Result<f32, Problem> {
    let value = exact(text, declared, f64::from(NC_FILL as f32))?;
    let rounded = match f64::from(value as f32) == value {
        true => value as f32,
        // Rounding twice could give another number.
        false => text.parse().map_err(|_| invalid(text))?,
    };
    if rounded.is_finite() || !value.is_finite() { Ok(rounded) } else { Err(invalid(text)) }
}

fn invalid(text: &str) -> Problem {
    Problem::malformed(format!("fillValue \"{text}\", expected a number of the variable's type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_floats_are_restored() {
        let exact = |text: &str, declared| exact(text, declared, NC_FILL).ok();
        assert_eq!(exact("9.96921e+36", None), Some(9.969_209_968_386_869e36), "netCDF's default");
        assert_eq!(
            exact("-1.26765e+30", Some(-1.267_650_600_228_229_4e30)),
            Some(-1.267_650_600_228_229_4e30)
        );
        assert_eq!(exact("-9999", None), Some(-9999.0));
        assert_eq!(exact("-1.26765e+30", None), None);
        assert_eq!(exact("-nan", None), None);
        assert_eq!(exact("inf", None), Some(f64::INFINITY));
        let single = |text: &str| single(text, None).ok();
        assert_eq!((single("-9999.9"), single("9.96921e+36")), (Some(-9999.9), Some(9.969_21e36)));
        assert_eq!((single("1e+39"), single("inf")), (None, Some(f32::INFINITY)));
    }
}
