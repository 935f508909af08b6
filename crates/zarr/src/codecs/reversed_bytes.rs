//! `numcodecs.astype` from one byte order to the other. <https://numcodecs.readthedocs.io/en/stable/filter/astype.html>
//!
//! v2 expresses it by the array's `dtype`.

use serde_json::json;

use super::{Codec, Definition, Registry};
use crate::ZarrFormat;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, format| match (codec, format) {
        (Codec::ReversedBytes { dtype }, ZarrFormat::V3) => {
            Some(json!({"encode_dtype": dtype, "decode_dtype": dtype.replace('>', "<")}))
        }
        _ => None,
    },
    parse: |encoded| {
        let dtype = encoded.text("encode_dtype").filter(|dtype| dtype.starts_with('>'))?;
        Some(Codec::ReversedBytes { dtype: dtype.to_owned() })
    },
    complete: |codec, data_type, _| {
        if let Codec::ReversedBytes { dtype } = codec {
            data_type.into_iter().for_each(|name| name.clone_into(dtype));
        }
    },
    describe: |_| "a byte order".to_owned(),
    examples: || vec![Codec::ReversedBytes { dtype: ">u2".into() }],
    ..Definition::array_to_array(Registry::Numcodecs, &["astype"])
};
