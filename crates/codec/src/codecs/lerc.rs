//! LERC with masks, as [`crate::lerc`] decodes it.

use virtualize_zarr::{Codec, DataType};

use crate::{
    CodecFailure,
    lerc::{self, Head, Layout},
    parameters,
};

const NAME: &str = "lerc";

/// Decodes a strip or tile of at most `limit` bytes. Rows that the last strip of an image lacks are zeros.
pub(super) fn decode(bytes: &[u8], codec: &Codec, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let Codec::Lerc { dtype, rows, columns, samples, has_alpha } = codec else {
        return Err(parameters(NAME, "no parameters"));
    };
    let data_type = match *dtype {
        "|i1" => DataType::Int8,
        "|u1" => DataType::UInt8,
        "<i2" => DataType::Int16,
        "<u2" => DataType::UInt16,
        "<i4" => DataType::Int32,
        "<u4" => DataType::UInt32,
        "<f4" => DataType::Float32,
        _ => DataType::Float64,
    };
    let whole = Layout { rows: *rows, columns: *columns, samples: *samples, has_alpha: *has_alpha };
    let size = whole.elements().and_then(|elements| elements.checked_mul(data_type.number_size()));
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= limit);
    let size = size.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
    let stored = Layout { rows: Head::parse(bytes)?.rows().min(*rows), ..whole };
    let mut values = lerc::decode(bytes, &data_type, &stored)?;
    values.resize(size, 0);
    Ok(values)
}
