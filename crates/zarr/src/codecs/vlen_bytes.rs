//! `vlen-bytes`: number of byte strings, then length and bytes of each; numbers are 4 bytes, little-endian.
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-bytes>

use super::{Codec, Definition, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    parse: |_| Some(Codec::VlenBytes),
    readers: &[Reader::Zarrs],
    examples: || vec![Codec::VlenBytes],
    ..Definition::array_to_bytes(Registry::Core, &["vlen-bytes"])
};
