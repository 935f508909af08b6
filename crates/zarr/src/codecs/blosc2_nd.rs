//! `imagecodecs_b2nd`: Blosc 2 with an n-dimensional layer. <https://www.blosc.org/c-blosc2/format/index.html>
//!
//! imagecodecs' class for Zarr v3 fails, so v3 cannot express it.

use serde_json::Value;

use super::{Codec, Definition};
use crate::ZarrFormat;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |_, format| (format == ZarrFormat::V2).then_some(Value::Null),
    parse: |_| Some(Codec::Blosc2Nd),
    describe: |_| "Blosc 2 with an n-dimensional layer".to_owned(),
    examples: || vec![Codec::Blosc2Nd],
    ..Definition::image(&["imagecodecs_b2nd"])
};
