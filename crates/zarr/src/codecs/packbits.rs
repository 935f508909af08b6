//! `imagecodecs_packbits`: TIFF compression 32773 (TIFF 6.0, section 9).

use super::{Codec, Definition, OwnName, Registry};

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName::plain("virtualize.packbits", |_| Some(Codec::PackBits))),
    parse: |_| Some(Codec::PackBits),
    examples: || vec![Codec::PackBits],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_packbits"])
};
