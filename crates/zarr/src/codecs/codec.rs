//! Encoding of single codecs, and their properties by the table.

use serde_json::{Map, Value};

use super::{Codec, CodecError, CodecKind, EncodedLength, Implementation, Registry};
use crate::{DataType, Endian, ZarrFormat};

impl Codec {
    /// Returns the codec as an entry of `filters` or as the `compressor` of a Zarr v2 array.
    ///
    /// # Errors
    /// Codecs that v2 has no name for, and [`Codec::Bytes`], [`Codec::ReversedBytes`] and [`Codec::Transpose`], which
    /// v2 expresses by other members of the document.
    pub fn to_v2(&self) -> Result<Value, CodecError> {
        if let Self::Foreign { entry, format: ZarrFormat::V2, .. } = self {
            return Ok(entry.clone());
        }
        let (name, configuration) = self.named_configuration(ZarrFormat::V2)?;
        let mut entry = configuration.as_object().cloned().unwrap_or_default();
        entry.insert("id".to_owned(), name.into());
        Ok(Value::Object(entry))
    }

    /// Returns the codec as an entry of `codecs` of a Zarr v3 array.
    ///
    /// # Errors
    /// Codecs that v3 has no name for.
    pub fn to_v3(&self) -> Result<Value, CodecError> {
        if let Self::Foreign { entry, format: ZarrFormat::V3, .. } = self {
            return Ok(entry.clone());
        }
        let (name, configuration) = self.named_configuration(ZarrFormat::V3)?;
        let name = match self {
            Self::Own(_) => name.to_owned(),
            released => released.definition().registry.v3_name(name),
        };
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.into());
        if !configuration.is_null() {
            entry.insert("configuration".to_owned(), configuration);
        }
        Ok(Value::Object(entry))
    }

    fn named_configuration(&self, format: ZarrFormat) -> Result<(&'static str, Value), CodecError> {
        let configuration = match self {
            Self::Own(codec) => codec.definition().own.as_ref().and_then(|own| (own.configuration)(codec)),
            released => (released.definition().configuration)(released, format),
        };
        self.name().zip(configuration).ok_or_else(|| self.unsupported(format))
    }

    /// Returns the registered name, without the prefix `numcodecs.`; `None` for codecs that no format can express, and
    /// for [`Codec::Foreign`].
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Image { name, .. } => Some(name),
            Self::Own(codec) => codec.definition().own.as_ref().map(|own| own.name),
            other => other.definition().names.first().copied(),
        }
    }

    /// Describes what the codec does, in words for a message.
    pub fn describe(&self) -> String {
        match self {
            Self::Own(codec) => codec.describe(),
            released => (released.definition().describe)(released),
        }
    }

    pub(crate) fn unsupported(&self, format: ZarrFormat) -> CodecError {
        CodecError::new(self.describe(), format)
    }

    /// Returns input and output of the codec.
    pub fn kind(&self) -> CodecKind {
        match self {
            Self::Foreign { kind, .. } => *kind,
            Self::Own(_) => CodecKind::BytesToBytes,
            other => other.definition().kind,
        }
    }

    /// Whether no released client decodes it: chunks encoded with it are decoded here and inlined.
    pub fn is_internal(&self) -> bool {
        self.definition().registry == Registry::Internal && !matches!(self, Self::Own(_))
    }

    /// Whether it serializes the array, and no further codec has to.
    pub fn is_array_to_bytes(&self) -> bool {
        self.kind() == CodecKind::ArrayToBytes
    }

    /// Whether it works on bytes.
    pub fn is_bytes_to_bytes(&self) -> bool {
        self.kind() == CodecKind::BytesToBytes
    }

    /// Whether no `bytes` codec may follow it in v3: it serializes the array, or replaces
    /// that codec.
    pub(crate) fn makes_bytes(&self) -> bool {
        let replaces_bytes = self.definition().replaces_bytes && !matches!(self, Self::Own(_));
        self.is_array_to_bytes() || replaces_bytes
    }

    /// Whether it computes with the values of numbers, in the type that they have at its position of the chain.
    pub fn is_arithmetic(&self) -> bool {
        self.definition().is_arithmetic
    }

    /// Whether the number of its output bytes depends on the content, as with compressors and image codecs.
    pub fn is_compressor(&self) -> bool {
        let varies = matches!(self.definition().encoded_length, EncodedLength::Varies);
        varies && self.kind() != CodecKind::ArrayToArray
    }

    /// Returns the length in bytes of `decoded` bytes once encoded; `None` where it depends on their content or passes
    /// 64 bits.
    pub fn encoded_length(&self, decoded: u64) -> Option<u64> {
        match self.definition().encoded_length {
            EncodedLength::Same => Some(decoded),
            EncodedLength::Longer(bytes) => decoded.checked_add(bytes),
            EncodedLength::Computed(length) => match self {
                Self::Own(codec) => length(codec, decoded),
                released => length(released, decoded),
            },
            EncodedLength::Varies => None,
        }
    }

    /// Whether a prefix of encoded bytes decodes to a prefix of what all of them decode to.
    pub fn decodes_prefixes(&self) -> bool {
        self.definition().decodes_prefixes
    }

    /// Returns the codec for chunks with so many more axes of length 1 in front; `None` where its effect on the shape
    /// is unknown ([`Codec::Foreign`]).
    pub fn with_leading_axes(&self, count: usize) -> Option<Self> {
        let is_unknown = matches!(self, Self::Foreign { .. }) && !self.is_bytes_to_bytes();
        if is_unknown && count > 0 {
            return None;
        }
        let mut codec = self.clone();
        (codec.definition().add_leading_axes)(&mut codec, count);
        Some(codec)
    }

    /// Whether chunks decode the same whatever the configuration, which only encoders need.
    pub fn is_self_describing(&self) -> bool {
        self.definition().is_self_describing
    }

    /// Returns what `crates/codec` implements.
    pub fn implementation(&self) -> Implementation {
        self.definition().implementation
    }

    /// Whether released clients decode a chunk of `decoded` bytes from `stored` bytes.
    pub fn client_decodes(&self, stored: u64, decoded: u64) -> bool {
        let ratio = self.definition().max_client_ratio.filter(|_| !matches!(self, Self::Own(_)));
        ratio.is_none_or(|ratio| decoded <= stored.saturating_mul(ratio))
    }

    /// Returns the byte order of the numbers that a chain stores: that of its `bytes` codec, or of the codec that
    /// replaces it.
    pub fn endian_of(chain: &[Self]) -> Endian {
        let declared = chain.iter().find_map(|codec| match codec {
            Self::Bytes { endian } => *endian,
            _ => None,
        });
        let implied = || {
            chain.iter().find_map(|codec| match codec {
                Self::FloatPredictor { dtype, .. }
                | Self::PackBitsOfIntegers { dtype, .. }
                | Self::ReversedBytes { dtype } => dtype.starts_with('>').then_some(Endian::Big),
                _ => None,
            })
        };
        declared.or_else(implied).unwrap_or(Endian::Little)
    }

    /// Completes the codecs of a chain by what only v2 encodes in them, data type and chunk shape, so that a chain
    /// parsed from v3 can be decoded and encoded in v2. `chunk_shape` is in elements, slowest axis first.
    pub fn complete(chain: &mut [Self], data_type: &DataType, chunk_shape: &[u64]) {
        let endian = Self::endian_of(chain);
        let mut data_type = data_type.clone();
        let mut shape = chunk_shape.to_vec();
        for codec in chain {
            let complete = codec.definition().complete;
            let dtype = data_type.to_v2(endian).ok();
            complete(codec, dtype.as_ref().and_then(Value::as_str), &shape);
            match codec {
                Self::Transpose { order } => {
                    shape = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
                }
                Self::CastValue { data_type: target, .. } => data_type = target.clone(),
                // Further codecs see both parts as one number.
                Self::ComplexIntegers { dtype: "<i2" | ">i2" } => data_type = DataType::UInt32,
                Self::ComplexIntegers { .. } => data_type = DataType::UInt64,
                _ => {}
            }
        }
    }
}
