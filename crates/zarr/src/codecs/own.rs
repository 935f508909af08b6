//! Codecs under the names of the Python package `virtualize`, which registers them for Zarr v2 and v3.

use serde_json::{Map, Value};

use super::{Codec, Registry, TABLE, chain::parse_own, definition::Encoded};
use crate::{DataType, ZarrFormat};

impl Codec {
    /// Returns the codec under its name in the Python package `virtualize`; `None` where it has none, or where the
    /// parameters make no sense.
    pub fn own(&self) -> Option<Self> {
        let own = self.definition().own.as_ref().filter(|_| !matches!(self, Self::Own(_)))?;
        let configuration = (own.configuration)(self)?;
        let nothing = Map::new();
        let members = configuration.as_object().unwrap_or(&nothing);
        let encoded =
            Encoded { name: own.name, format: ZarrFormat::V3, members, data_type: &DataType::UInt8 };
        // What the name cannot express is dropped: parameters that only encoders use.
        (own.parse)(&encoded).map(|codec| Self::Own(Box::new(codec)))
    }

    /// Returns a chain in which codecs that neither zarr-python nor numcodecs decodes in both Zarr formats have their names in the Python
    /// package `virtualize`, where they have one. All of them work on bytes, so that `bytes` moves before the first of
    /// them.
    pub fn own_chain(chain: Vec<Self>) -> Vec<Self> {
        let is_known = |codec: &Self| {
            let definition = codec.definition();
            matches!(definition.registry, Registry::Core | Registry::Numcodecs)
                && (definition.configuration)(codec, ZarrFormat::V3).is_some()
        };
        let renamed = |codec: Self| match is_known(&codec) {
            true => codec,
            false => codec.own().unwrap_or(codec),
        };
        let mut chain: Vec<Self> = chain.into_iter().map(renamed).collect();
        let first = chain.iter().position(|codec| matches!(codec, Self::Own(_)));
        let bytes = chain.iter().position(|codec| matches!(codec, Self::Bytes { .. }));
        if let (Some(first), Some(bytes)) = (first, bytes)
            && first < bytes
        {
            let bytes = chain.remove(bytes);
            chain.insert(first, bytes);
        }
        chain
    }

    /// Returns the names of all codecs of the Python package `virtualize`.
    pub fn own_names() -> Vec<&'static str> {
        TABLE.iter().filter_map(|definition| Some(definition.own.as_ref()?.name)).collect()
    }

    /// Returns the codec that an entry of a Zarr v2 or v3 document names, if the Python package `virtualize` registers
    /// it: `{"id": "virtualize.lzf"}`, `{"name": "virtualize.lzf"}`.
    pub fn from_own(entry: &Value, format: ZarrFormat) -> Option<Self> {
        let (name, members) = match format {
            ZarrFormat::V2 => (entry.get("id"), Some(entry)),
            ZarrFormat::V3 => (entry.get("name"), entry.get("configuration")),
        };
        let nothing = Map::new();
        let members = members.map_or(Some(&nothing), Value::as_object)?;
        parse_own(name?.as_str()?, members, format, &DataType::UInt8)
    }
}
