//! Blosc 2 frames: HDF5 filter 32026. <https://www.blosc.org/c-blosc2/format/index.html>
//!
//! `imagecodecs_b2nd` decodes those with an n-dimensional layer in Zarr v2; its class for v3 fails. No released client
//! decodes frames without that layer.

use serde_json::Value;

use super::{Codec, Definition, Implementation, OwnName};
use crate::ZarrFormat;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |_, format| (format == ZarrFormat::V2).then_some(Value::Null),
    parse: |_| Some(Codec::Blosc2),
    own: Some(OwnName::plain("virtualize.blosc2", |_| Some(Codec::Blosc2))),
    implementation: Implementation::DecoderOnly,
    describe: |_| "Blosc 2".to_owned(),
    examples: || vec![Codec::Blosc2],
    ..Definition::image(&["imagecodecs_b2nd"])
};
