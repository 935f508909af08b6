//! Codecs of documents that match no other entry of the table, in name or in configuration.

use serde_json::{Value, json};

use super::{Codec, CodecKind, Definition, Implementation, Registry};
use crate::ZarrFormat;

pub(super) const DEFINITION: Definition = Definition {
    implementation: Implementation::None,
    configuration: |_, _| None,
    describe: |codec| {
        let Codec::Foreign { entry, .. } = codec else { return String::new() };
        let name = entry.get("id").or_else(|| entry.get("name")).and_then(Value::as_str);
        name.map_or_else(|| entry.to_string(), str::to_owned)
    },
    examples: || {
        let foreign = |entry, format| Codec::Foreign { entry, format, kind: CodecKind::BytesToBytes };
        vec![
            foreign(json!({"id": "of_my_own", "strength": 9}), ZarrFormat::V2),
            foreign(json!({"name": "of_my_own", "configuration": {}}), ZarrFormat::V3),
        ]
    },
    ..Definition::compressor(Registry::Unknown, &[])
};
