//! `zstd`: RFC 8878. <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd>

use serde_json::json;

use super::{Codec, Definition, Registry};
use crate::{ZarrFormat, chunk_reader::Reader};

pub(super) const DEFINITION: Definition = Definition {
    v3_aliases: &["numcodecs.zstd"],
    configuration: |codec, format| match (codec, format) {
        (Codec::Zstd { level, checksum: false }, ZarrFormat::V2) => Some(json!({"level": level})),
        (Codec::Zstd { level, checksum }, _) => Some(json!({"level": level, "checksum": checksum})),
        _ => None,
    },
    parse: |encoded| {
        Some(Codec::Zstd { level: encoded.number("level")?, checksum: encoded.flag("checksum") })
    },
    unchecked_members: &["checksum"],
    is_self_describing: true,
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    examples: || vec![Codec::Zstd { level: -5, checksum: false }, Codec::Zstd { level: 22, checksum: true }],
    ..Definition::compressor(Registry::Core, &["zstd"])
};
