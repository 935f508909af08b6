//! `astype` of numcodecs on the parts of complex numbers, which Zarr v2 views as such. Readers of v3 reshape what the codec
//! returns, so that it has no use there. <https://numcodecs.readthedocs.io/en/stable/filter/astype.html>

use serde_json::json;

use super::{Codec, Definition, EncodedLength, OwnName, Registry};
use crate::ZarrFormat;

/// Types of the parts: as they are stored, and in the array.
const PARTS: [(&str, &str); 4] = [("<i2", "<f4"), (">i2", ">f4"), ("<i4", "<f8"), (">i4", ">f8")];

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, format| match (codec, format) {
        (Codec::ComplexIntegers { dtype }, ZarrFormat::V2) => {
            let (stored, decoded) = PARTS.iter().find(|(stored, _)| stored == dtype)?;
            Some(json!({"encode_dtype": stored, "decode_dtype": decoded}))
        }
        _ => None,
    },
    parse: |encoded| {
        let dtype =
            encoded.text("encode_dtype").and_then(known).filter(|_| encoded.data_type.is_complex())?;
        (encoded.format == ZarrFormat::V2).then_some(Codec::ComplexIntegers { dtype })
    },
    own: Some(OwnName {
        name: "virtualize.complexints",
        configuration: |codec| match codec {
            Codec::ComplexIntegers { dtype } => Some(json!({"dtype": dtype})),
            _ => None,
        },
        parse: |encoded| Some(Codec::ComplexIntegers { dtype: known(encoded.text("dtype")?)? }),
    }),
    encoded_length: EncodedLength::Computed(|_, decoded| Some(decoded / 2)),
    describe: |_| "complex numbers of integers".to_owned(),
    examples: || PARTS.iter().map(|(dtype, _)| Codec::ComplexIntegers { dtype }).collect(),
    ..Definition::array_to_array(Registry::Numcodecs, &["astype"])
};

fn known(dtype: &str) -> Option<&'static str> {
    PARTS.iter().map(|(stored, _)| *stored).find(|stored| *stored == dtype)
}
