//! Fill values. Hyrax prints integers exactly, but floats with six significant digits.

use virtualize_hdf5::model::{
    Attribute, ByteOrder, Datatype, Element, FillMessage, FillTime, FillValue, Float,
};

use crate::{Error, Result, attribute};

/// NetCDF's default fill value for both float types (`NC_FILL_FLOAT`, `NC_FILL_DOUBLE`).
const NC_FILL: f64 = 9.969_209_968_386_869e36;

/// Returns the message for the attribute `fillValue` of an array with these attributes.
///
/// A floating-point number that was printed with six significant digits is `_FillValue` or the default of NetCDF, if they are
/// printed so. Other numbers are unknown, since more than one is printed so.
#[expect(clippy::cast_possible_truncation, reason = "the default, and numbers of 32 bits")]
pub(crate) fn message(text: &str, datatype: &Datatype, attributes: &[Attribute]) -> Result<FillMessage> {
    let not_a_number =
        || Error::new(format!("fillValue \"{text}\", expected a number of the variable's type"));
    let (mut bytes, order): (Vec<u8>, _) = match datatype {
        Datatype::Float(Float { size, order, .. }) => {
            let printed: f64 = text.parse().map_err(|_| not_a_number())?;
            if text == "nan" && *order == ByteOrder::Big {
                // HDF5 gives a NaN that it converts other bits.
                return Err(Error::new("fillValue \"nan\" of big-endian numbers has unknown bits"));
            }
            let is_single = *size == 4;
            let same_type = Datatype::Float(Float::ieee(is_single, ByteOrder::Little));
            let declared =
                attributes.iter().filter(|one| one.name == "_FillValue" && one.datatype == same_type);
            let declared = declared.filter_map(|one| match one.elements.as_slice() {
                [Element::Float(value)] => Some(*value),
                _ => None,
            });
            let default = if is_single { f64::from(NC_FILL as f32) } else { NC_FILL };
            let is_printed_so = |number: &f64| format!("{number:.5e}").parse() == Ok(printed);
            let value = match printed {
                0.0 | f64::INFINITY | f64::NEG_INFINITY => printed,
                _ if text == "nan" => printed,
                _ => declared.chain([default]).find(is_printed_so).ok_or_else(|| {
                    let problem = format!("fillValue \"{text}\" may be rounded to six digits");
                    Error::new(format!("{problem}, and _FillValue is not that number"))
                })?,
            };
            (if is_single { (value as f32).to_le_bytes().into() } else { value.to_le_bytes().into() }, *order)
        }
        Datatype::Integer(integer) => match attribute::value(text, datatype) {
            Some(Element::Integer(value)) => {
                (value.to_le_bytes().get(..integer.size as usize).unwrap_or_default().to_vec(), integer.order)
            }
            _ => return Err(not_a_number()),
        },
        // Text ends at the first NUL.
        _ if text.is_empty() => (vec![0], ByteOrder::Little),
        _ if text.is_ascii() && text.len() as u64 == datatype.size() => (text.into(), ByteOrder::Little),
        _ => {
            let (length, size) = (text.len(), datatype.size());
            let problem = format!("fillValue has {length} bytes, a text {size}: the others are unknown");
            return Err(Error::new(problem));
        }
    };
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    let is_zero = bytes.iter().all(|byte| *byte == 0);
    Ok(of(if is_zero { FillValue::Default } else { FillValue::User(bytes.into()) }))
}

/// Returns the message of a dataset with this fill value.
pub(crate) fn of(value: FillValue) -> FillMessage {
    FillMessage { version: None, write_time: FillTime::IfSet, allocation_time: 0, value }
}
