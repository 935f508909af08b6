//! `bz2`: bzip2. <https://numcodecs.readthedocs.io/en/stable/compression/bz2.html>

use serde_json::json;

use super::{Codec, Definition, Registry};
use crate::chunk_reader::Reader;

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, _| match codec {
        Codec::Bz2 { level } => Some(json!({"level": level})),
        _ => None,
    },
    parse: |encoded| Some(Codec::Bz2 { level: encoded.number("level")? }),
    is_self_describing: true,
    readers: &[Reader::Zarrs],
    examples: || vec![Codec::Bz2 { level: 9 }],
    ..Definition::compressor(Registry::Numcodecs, &["bz2"])
};
