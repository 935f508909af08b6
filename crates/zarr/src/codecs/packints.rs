//! `imagecodecs_packints`: samples of a few bits. v3 takes the data type from the array.

use serde_json::json;

use super::{Codec, Definition, EncodedLength, OwnName, Registry};
use crate::ZarrFormat;

pub(super) const DEFINITION: Definition = Definition {
    replaces_bytes: true,
    configuration: |codec, format| {
        let Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } = codec else { return None };
        Some(match format {
            ZarrFormat::V2 => json!({"dtype": dtype, "bitspersample": bits_per_sample, "runlen": run_length}),
            ZarrFormat::V3 => json!({"bitspersample": bits_per_sample, "runlen": run_length}),
        })
    },
    parse: |encoded| {
        Some(Codec::PackBitsOfIntegers {
            bits_per_sample: encoded.number("bitspersample")?,
            run_length: encoded.number("runlen")?,
            dtype: encoded.text("dtype").unwrap_or_default().to_owned(),
        })
    },
    own: Some(OwnName {
        name: "virtualize.packints",
        configuration: |codec| {
            let Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } = codec else { return None };
            Some(json!({"dtype": dtype, "bits": bits_per_sample, "row_length": run_length}))
        },
        parse: |encoded| {
            Some(Codec::PackBitsOfIntegers {
                bits_per_sample: encoded.number("bits")?,
                run_length: encoded.number("row_length")?,
                dtype: encoded.text("dtype")?.to_owned(),
            })
        },
    }),
    unchecked_members: &["dtype"],
    encoded_length: EncodedLength::Computed(packed_length),
    complete: |codec, data_type, _| {
        if let Codec::PackBitsOfIntegers { dtype, .. } = codec {
            data_type.into_iter().for_each(|name| name.clone_into(dtype));
        }
    },
    examples: || vec![Codec::PackBitsOfIntegers { bits_per_sample: 12, run_length: 3, dtype: "<u2".into() }],
    ..Definition::array_to_array(Registry::Imagecodecs, &["imagecodecs_packints"])
};

/// Rows are padded to whole bytes.
fn packed_length(codec: &Codec, decoded: u64) -> Option<u64> {
    let Codec::PackBitsOfIntegers { bits_per_sample, run_length, dtype } = codec else { return None };
    let element_size: u64 = dtype.get(2..)?.parse().ok()?;
    let elements = decoded.checked_div(element_size)?;
    let bytes = |samples: u64| Some(samples.checked_mul(u64::from(*bits_per_sample))?.div_ceil(8));
    let rows = elements.checked_div(*run_length)?.checked_mul(bytes(*run_length)?)?;
    rows.checked_add(bytes(elements % run_length)?)
}
