//! `virtualize.optional`: codecs that some chunks skipped. HDF5 stores a chunk unchanged where an optional filter fails,
//! as compressors do that would lengthen it, and where it is a partial chunk at an edge (`H5Pset_chunk_opts`).

use serde_json::{Value, json};

use super::{Codec, Definition, Implementation, OwnName, chain::parse_v3};
use crate::DataType;

/// Most codecs in one.
const MAX_CODECS: usize = 16;

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.optional",
        configuration: |codec| {
            let Codec::Optional { size, codecs } = codec else { return None };
            // The same in both formats.
            let codecs: Vec<Value> = codecs.iter().map(Codec::to_v3).collect::<Result<_, _>>().ok()?;
            Some(json!({"size": size, "codecs": codecs}))
        },
        parse: |encoded| {
            let entries = encoded.get("codecs")?.as_array().filter(|list| list.len() <= MAX_CODECS)?;
            let codecs = entries.iter().map(|entry| parse_v3(entry, &DataType::UInt8, true));
            let codecs: Vec<Codec> = codecs.collect();
            let is_usable = |codec: &Codec| {
                codec.is_bytes_to_bytes()
                    && codec.implementation() != Implementation::None
                    && !is_optional(codec)
            };
            let size = encoded.get("size")?.as_u64()?;
            codecs.iter().all(is_usable).then_some(Codec::Optional { size, codecs })
        },
    }),
    implementation: Implementation::Complete,
    describe: |codec| match codec {
        Codec::Optional { codecs, .. } => {
            let names: Vec<_> = codecs.iter().map(Codec::describe).collect();
            format!("{} that some chunks skipped", names.join(" and "))
        }
        _ => String::new(),
    },
    examples: || {
        vec![
            Codec::Optional { size: 24, codecs: Codec::own_chain(vec![Codec::Lzf]) },
            Codec::Optional {
                size: 24,
                codecs: vec![Codec::Shuffle { element_size: 2 }, Codec::Zlib { level: 6 }],
            },
        ]
    },
    ..Definition::internal()
};

fn is_optional(codec: &Codec) -> bool {
    matches!(codec, Codec::Own(inner) if matches!(**inner, Codec::Optional { .. }))
}
