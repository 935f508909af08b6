//! `imagecodecs_lzo`: LZO1X. HDF5 filter 305 stores it without the header that imagecodecs expects, which the mapping
//! puts before each chunk.

use serde_json::{Map, Value};

use super::{Codec, Definition, Implementation, OwnName, Registry};

pub(super) const DEFINITION: Definition = Definition {
    implementation: Implementation::DecoderOnly,
    configuration: |codec, _| match codec {
        Codec::Lzo { configuration } => Some(Value::Object(configuration.clone())),
        _ => None,
    },
    parse: |encoded| Some(Codec::Lzo { configuration: encoded.configuration() }),
    // A plain LZO1X stream, as in the file.
    own: Some(OwnName::plain("virtualize.lzo", |_| Some(Codec::Lzo { configuration: Map::new() }))),
    examples: || vec![Codec::Lzo { configuration: Map::from_iter([("header".to_owned(), true.into())]) }],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_lzo"])
};
