//! JPEG-LS: HDF5 filter 32018 (FCIDECOMP), whose chunks of one component `imagecodecs_jpegls` decodes. It moves the
//! components of others to the last axis, FCIDECOMP does not.

use serde_json::Value;

use super::{Codec, Definition, Implementation, OwnName};

pub(super) const DEFINITION: Definition = Definition {
    parse: |_| Some(Codec::JpegLs { by_pixel: true }),
    // Only encoders use it.
    unchecked_members: &["level", "bitspersample", "transformation", "spiff"],
    own: Some(OwnName {
        name: "virtualize.jpegls",
        configuration: |codec| matches!(codec, Codec::JpegLs { by_pixel: false }).then_some(Value::Null),
        parse: |_| Some(Codec::JpegLs { by_pixel: false }),
    }),
    implementation: Implementation::DecoderOnly,
    describe: |_| "JPEG-LS".to_owned(),
    examples: || vec![Codec::JpegLs { by_pixel: true }],
    ..Definition::image(&["imagecodecs_jpegls"])
};
