//! `imagecodecs_lzw`: TIFF compression 5 (TIFF 6.0, section 13).

use super::{Codec, Definition, Registry};

pub(super) const DEFINITION: Definition = Definition {
    parse: |_| Some(Codec::Lzw),
    examples: || vec![Codec::Lzw],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_lzw"])
};
