//! `lzma`. <https://numcodecs.readthedocs.io/en/stable/compression/lzma.html>
//!
//! `check` and `preset` matter to encoders only. Raw streams with `filters` are not modelled.

use serde_json::{Value, json};

use super::{Codec, Definition, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| match codec {
        Codec::Lzma { format } => {
            Some(json!({"format": format, "check": -1, "preset": null, "filters": null}))
        }
        _ => None,
    },
    parse: |encoded| {
        let is_container = encoded.get("filters").is_none_or(Value::is_null);
        is_container.then_some(Codec::Lzma { format: encoded.number("format")? })
    },
    unchecked_members: &["check", "preset"],
    readers: &[Reader::Gdal],
    examples: || vec![Codec::Lzma { format: 1 }, Codec::Lzma { format: 2 }],
    ..Definition::compressor(Registry::Numcodecs, &["lzma"])
};
