//! Single chunks, decoded and encoded by the codecs of the Python package.

use serde_json::Value;
use virtualize_codec::CodecFailure;
use virtualize_zarr::{Codec, Implementation, ZarrFormat};

/// A codec that the Python package `virtualize` registers with zarr-python and numcodecs.
///
/// ```
/// use virtualize::{PackageCodec, zarr::ZarrFormat};
///
/// let entry = serde_json::json!({"name": "virtualize.packbits"});
/// let codec = PackageCodec::parse(&entry, ZarrFormat::V3).unwrap();
/// assert_eq!(codec.decode(&[0xFE, 7], 1 << 20).unwrap(), [7, 7, 7]);
/// assert!(codec.decode(&[0xFE, 7], 2).is_err());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct PackageCodec(Codec);

impl PackageCodec {
    /// Parses a codec's entry in a metadata document: `{"id": …}` in Zarr v2, `{"name": …}` in v3. `None` for names that
    /// the package does not register and for invalid configurations.
    pub fn parse(entry: &Value, format: ZarrFormat) -> Option<Self> {
        Codec::from_own(entry, format).map(Self)
    }

    /// Returns all registered names, each once.
    pub fn names() -> Vec<&'static str> {
        Codec::own_names()
    }

    /// Returns whether [`PackageCodec::encode`] works.
    pub fn encodes(&self) -> bool {
        self.0.implementation() == Implementation::Complete
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    /// Damaged bytes; more than `most` decoded bytes.
    pub fn decode(&self, bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecFailure> {
        virtualize_codec::decode_variable(std::slice::from_ref(&self.0), bytes, most)
    }

    /// Encodes bytes.
    ///
    /// # Errors
    /// The codec is only decoded; parameters that do not fit the bytes.
    pub fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
        virtualize_codec::encode(std::slice::from_ref(&self.0), bytes)
    }
}
