//! `bytes`: elements in C order. <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/index.html>
//!
//! v2 expresses the byte order by the array's `dtype`.

use serde_json::{Value, json};

use super::{Codec, Definition, Registry};
use crate::{Endian, ZarrFormat, chunk_reader::Reader};

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, format| match (codec, format) {
        (Codec::Bytes { endian }, ZarrFormat::V3) => Some(match endian {
            None => Value::Null,
            Some(Endian::Little) => json!({"endian": "little"}),
            Some(Endian::Big) => json!({"endian": "big"}),
        }),
        _ => None,
    },
    parse: |encoded| {
        let endian = match encoded.get("endian").map(|endian| endian.as_str()) {
            None => None,
            Some(Some("little")) => Some(Endian::Little),
            Some(Some("big")) => Some(Endian::Big),
            Some(_) => return None,
        };
        Some(Codec::Bytes { endian })
    },
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    describe: |_| "a byte order".to_owned(),
    examples: || {
        vec![Codec::Bytes { endian: Some(Endian::Little) }, Codec::Bytes { endian: Some(Endian::Big) }]
    },
    ..Definition::array_to_bytes(Registry::Core, &["bytes"])
};
