//! `scale_offset`, an extension of Zarr v3.
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/scale_offset>
//!
//! The arithmetic is in [`crate::Arithmetic`].

use serde_json::{Map, Value, json};

use super::{Codec, Definition, Registry};
use crate::{ZarrFormat, chunk_reader::Reader};

pub(super) const DEFINITION: Definition = Definition {
    is_arithmetic: true,
    decodes_prefixes: false,
    configuration: |codec, format| match (codec, format) {
        (Codec::ScaleOffset { offset, scale }, ZarrFormat::V3) => {
            Some(parameters(offset.as_ref(), scale.as_ref()))
        }
        _ => None,
    },
    parse: |encoded| {
        let (offset, scale) = (encoded.get("offset").cloned(), encoded.get("scale").cloned());
        Some(Codec::ScaleOffset { offset, scale })
    },
    readers: &[Reader::Zarrita],
    describe: |_| "a scale and offset".to_owned(),
    examples: || vec![Codec::ScaleOffset { offset: Some(json!(5)), scale: None }],
    ..Definition::array_to_array(Registry::Core, &["scale_offset"])
};

/// Returns the parameters that differ from their defaults; `Null` where none does.
fn parameters(offset: Option<&Value>, scale: Option<&Value>) -> Value {
    let given = [("offset", offset), ("scale", scale)];
    let parameters: Map<String, Value> =
        given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))).collect();
    if parameters.is_empty() { Value::Null } else { Value::Object(parameters) }
}
