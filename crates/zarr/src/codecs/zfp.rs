//! ZFP streams without their header: HDF5 filter 32013 (H5Z-ZFP), which keeps it in the client data of the filter.
//! Released clients need the header at the start of each chunk (`imagecodecs_zfp`).
//! <https://zfp.readthedocs.io/en/latest/modes.html#expert-mode>

use serde_json::json;

use super::{Codec, Definition, OwnName};

/// NumPy strings of the numbers that ZFP compresses.
const DTYPES: [&str; 4] = ["<i4", "<i8", "<f4", "<f8"];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.zfp",
        configuration: |codec| {
            let Codec::Zfp { dtype, shape, min_bits, max_bits, max_precision, min_exponent } = codec else {
                return None;
            };
            Some(json!({
                "dtype": dtype, "shape": shape, "min_bits": min_bits, "max_bits": max_bits,
                "max_precision": max_precision, "min_exponent": min_exponent,
            }))
        },
        parse: |encoded| {
            let dtype = encoded.text("dtype")?;
            let shape = encoded.get("shape")?.as_array()?;
            Some(Codec::Zfp {
                dtype: DTYPES.into_iter().find(|known| *known == dtype)?,
                shape: shape.iter().map(serde_json::Value::as_u64).collect::<Option<_>>()?,
                min_bits: encoded.number("min_bits")?,
                max_bits: encoded.number("max_bits")?,
                max_precision: encoded.number("max_precision")?,
                min_exponent: encoded.number("min_exponent")?,
            })
        },
    }),
    describe: |_| "the HDF5 filter ZFP".to_owned(),
    examples: || {
        let zfp = |dtype, shape, max_bits| Codec::Zfp {
            dtype,
            shape,
            min_bits: 1,
            max_bits,
            max_precision: 64,
            min_exponent: -1074,
        };
        vec![zfp("<f4", vec![30, 20], 256), zfp("<i8", vec![300], 16657)]
    },
    ..Definition::internal()
};
