//! The codecs of an array as readers find them in its metadata document: by name.

use serde_json::{Map, Value};

use super::{ChunkFacts, Need, Obstacle, Reader};
use crate::{
    Array, MetadataError, ZarrFormat,
    codecs::{CodecUse, Definition, EncodedLength, OwnName, Registry},
};

/// An array's metadata document, with what decides about readers.
pub(super) struct Document {
    pub(super) format: ZarrFormat,
    pub(super) codecs: Vec<DocumentCodec>,
    pub(super) fill_value: Value,
    pub(super) chunks: ChunkFacts,
}

/// A codec of a document. Codecs that the model does not know ([`crate::Codec::Foreign`]) are judged by their name,
/// like all others.
pub(super) struct DocumentCodec {
    /// The name as it is written.
    full_name: String,
    configuration: Value,
    definition: Option<&'static Definition>,
    /// Whether v2 lists it as the compressor.
    is_compressor: bool,
}

impl Document {
    pub(super) fn new(array: &Array, chunks: ChunkFacts, format: ZarrFormat) -> Result<Self, MetadataError> {
        let document = match format {
            ZarrFormat::V2 => array.to_zarray()?,
            ZarrFormat::V3 => array.to_zarr_json_with("", &Map::new())?,
        };
        let codecs = match format {
            ZarrFormat::V2 => codecs_v2(&document),
            ZarrFormat::V3 => list(&document, "codecs").map(DocumentCodec::from_v3).collect(),
        };
        let fill_value = document.get("fill_value").cloned().unwrap_or_default();
        Ok(Self { format, codecs, fill_value, chunks })
    }
}

fn list<'a>(document: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    document.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the codecs of a v2 array. All readers know its `order`.
fn codecs_v2(document: &Value) -> Vec<DocumentCodec> {
    let filters = list(document, "filters").map(|filter| DocumentCodec::from_v2(filter, false));
    let compressor = document.get("compressor").filter(|value| !value.is_null());
    let compressor = compressor.map(|codec| DocumentCodec::from_v2(codec, true));
    filters.chain(compressor).collect()
}

impl DocumentCodec {
    fn from_v2(entry: &Value, is_compressor: bool) -> Self {
        let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
        Self::new(id, entry.clone(), is_compressor)
    }

    fn from_v3(entry: &Value) -> Self {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let nothing = || Value::Object(Map::new());
        Self::new(name, entry.get("configuration").cloned().unwrap_or_else(nothing), false)
    }

    fn new(full_name: &str, configuration: Value, is_compressor: bool) -> Self {
        let name = full_name.strip_prefix(Registry::NUMCODECS_PREFIX).unwrap_or(full_name);
        let definition = Definition::of_name(name);
        Self { full_name: full_name.to_owned(), configuration, definition, is_compressor }
    }

    fn refused(&self) -> Obstacle {
        Obstacle::Codec(self.full_name.clone())
    }

    /// Whether the Python package `virtualize` registers it.
    pub(super) fn is_own(&self) -> bool {
        OwnName::find(&self.full_name).is_some()
    }

    fn is_of_numcodecs(&self) -> bool {
        self.full_name.starts_with(Registry::NUMCODECS_PREFIX)
    }

    fn is_core(&self) -> bool {
        !self.is_of_numcodecs()
            && self.definition.is_some_and(|definition| definition.registry == Registry::Core)
    }

    /// Returns what zarr-python needs for it.
    pub(super) fn for_zarr_python(&self, format: ZarrFormat) -> Result<Option<Need>, Obstacle> {
        match format {
            _ if self.full_name.starts_with("imagecodecs_") => Ok(Some(Need::Imagecodecs)),
            _ if self.full_name.starts_with(OwnName::PREFIX) => Err(self.refused()),
            // Codecs of Zarr v2 *are* those of numcodecs.
            ZarrFormat::V2 => Ok(None),
            ZarrFormat::V3 if self.is_of_numcodecs() => Ok(Some(Need::Numcodecs)),
            ZarrFormat::V3 if self.is_core() => Ok(self.definition.and_then(|known| known.zarr_python_needs)),
            ZarrFormat::V3 => Err(self.refused()),
        }
    }

    /// Checks that a reader other than zarr-python decodes it. `element_size` is that of the stored elements, in bytes.
    pub(super) fn check(
        &self,
        reader: Reader,
        format: ZarrFormat,
        element_size: Option<u64>,
    ) -> Result<(), Obstacle> {
        let definition = self.definition.filter(|definition| definition.readers.contains(&reader));
        let definition = definition.ok_or_else(|| self.refused())?;
        if reader == Reader::Gdal && !self.is_supported_by_gdal(definition, format) {
            return Err(self.refused());
        }
        let (full_name, configuration) = (self.full_name.as_str(), &self.configuration);
        let used = CodecUse { format, full_name, configuration, element_size };
        (definition.limitation)(&used, reader).map_or(Ok(()), |reason| Err(Obstacle::Codec(reason)))
    }

    /// GDAL decodes a single compressor in v2, and only core codecs in v3.
    fn is_supported_by_gdal(&self, definition: &Definition, format: ZarrFormat) -> bool {
        match format {
            ZarrFormat::V2 => {
                matches!(definition.encoded_length, EncodedLength::Varies) == self.is_compressor
            }
            ZarrFormat::V3 => self.is_core(),
        }
    }
}
