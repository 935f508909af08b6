//! `vlen-utf8`: number of texts, then length and UTF-8 bytes of each; numbers are 4 bytes, little-endian.
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8>

use super::{Codec, Definition, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    parse: |_| Some(Codec::VlenUtf8),
    readers: &[Reader::Zarrs, Reader::Zarrita],
    examples: || vec![Codec::VlenUtf8],
    ..Definition::array_to_bytes(Registry::Core, &["vlen-utf8"])
};
