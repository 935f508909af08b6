//! `zlib`: RFC 1950. <https://numcodecs.readthedocs.io/en/stable/compression/zlib.html>

use serde_json::json;

use super::{Codec, Definition, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| match codec {
        Codec::Zlib { level } => Some(json!({"level": level})),
        _ => None,
    },
    parse: |encoded| Some(Codec::Zlib { level: encoded.number("level")? }),
    is_self_describing: true,
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    examples: || vec![Codec::Zlib { level: 4 }],
    ..Definition::compressor(Registry::Numcodecs, &["zlib"])
};
