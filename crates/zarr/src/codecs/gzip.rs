//! `gzip`: RFC 1952. <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html>

use serde_json::json;

use super::{Codec, Definition, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| match codec {
        Codec::Gzip { level } => Some(json!({"level": level})),
        _ => None,
    },
    parse: |encoded| Some(Codec::Gzip { level: encoded.number("level")? }),
    is_self_describing: true,
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    examples: || vec![Codec::Gzip { level: 9 }],
    ..Definition::compressor(Registry::Core, &["gzip"])
};
