//! `imagecodecs_lzf` without a header: HDF5 filter 32000.
//! <https://github.com/h5py/h5py/blob/master/lzf/lzf_filter.c>

use serde_json::json;

use super::{Codec, Definition, OwnName, Registry};

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName::plain("virtualize.lzf", |_| Some(Codec::Lzf))),
    configuration: |_, _| Some(json!({"header": false})),
    parse: |_| Some(Codec::Lzf),
    // imagecodecs allocates no more than that where LZF has no header.
    max_client_ratio: Some(8),
    examples: || vec![Codec::Lzf],
    ..Definition::compressor(Registry::Imagecodecs, &["imagecodecs_lzf"])
};
