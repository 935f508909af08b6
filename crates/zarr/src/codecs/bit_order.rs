//! `imagecodecs_bitorder`: TIFF's FillOrder 2. In v3 it is an array → array codec, which precedes `bytes`
//! ([`super::to_v3`]).

use super::{Codec, Definition, OwnName, Registry};

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName::plain("virtualize.bitorder", |_| Some(Codec::BitOrder))),
    parse: |_| Some(Codec::BitOrder),
    decodes_prefixes: true,
    describe: |_| "a reversed bit order".to_owned(),
    examples: || vec![Codec::BitOrder],
    ..Definition::bytes_to_bytes(Registry::Imagecodecs, &["imagecodecs_bitorder"])
};
