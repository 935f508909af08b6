//! `imagecodecs_lzw`: TIFF compression 5 (TIFF 6.0, section 13).

use super::{Codec, Definition, OwnName, Registry};

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName::plain("virtualize.lzw", |_| Some(Codec::Lzw))),
    parse: |_| Some(Codec::Lzw),
    examples: || vec![Codec::Lzw],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_lzw"])
};
