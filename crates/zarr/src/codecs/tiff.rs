//! Compressions and layouts of TIFF that no reader decodes.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::{Value, json};

use crate::Endian;

/// A compression or layout of TIFF over whole rows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "scheme", rename_all = "lowercase")]
pub enum TiffScheme {
    /// NeXT's compression (32766) of rows of 2-bit samples. Decodes to rows of packed bits.
    Next {
        /// Samples per row.
        width: u64,
    },
    /// SGI's run lengths (34676) of one 16-bit sample per pixel.
    SgiLog16 {
        /// Samples per row.
        width: u64,
        /// Byte order of the decoded samples.
        #[serde(rename = "byte_order")]
        endian: Endian,
    },
    /// YCbCr of 8 bits with subsampled chroma, in blocks: `horizontal` × `vertical` samples of Y, then Cb and Cr.
    /// Decodes to interleaved RGB, as libtiff computes it.
    Ycbcr {
        /// Columns of the image.
        width: u64,
        /// Rows of the image.
        height: u64,
        /// Columns of a block: 1, 2 or 4.
        horizontal: u16,
        /// Rows of a block: 1, 2 or 4.
        vertical: u16,
        /// YCbCrCoefficients: weights of red, green and blue in Y.
        #[serde(rename = "coefficients")]
        luma: [f32; 3],
        /// ReferenceBlackWhite: black and white of Y, Cb and Cr.
        #[serde(rename = "reference_black_white")]
        reference: [f32; 6],
    },
    /// JPEG (7) of YCbCr, which becomes interleaved RGB, as libjpeg computes it.
    Jpeg {
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
        /// JPEGTables; empty for none.
        #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
        tables: Vec<u8>,
    },
    /// Old-style JPEG (6).
    OldJpeg(OldJpeg),
}

impl TiffScheme {
    /// Describes the scheme in words for a message.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Next { .. } => "NeXT compression",
            Self::SgiLog16 { .. } => "SGI Log compression",
            Self::Ycbcr { .. } => "subsampled YCbCr",
            Self::Jpeg { .. } => "JPEG of YCbCr",
            Self::OldJpeg(_) => "old-style JPEG",
        }
    }
}

/// Old-style JPEG of TIFF 6.0, section 22: baseline JPEG whose tables are in other places of the file. Decodes to
/// interleaved RGB, as libtiff computes it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct OldJpeg {
    /// Columns of the strip or tile.
    pub width: u64,
    /// Rows of the strip or tile.
    pub height: u64,
    /// YCbCrCoefficients: weights of red, green and blue in Y.
    #[serde(rename = "coefficients")]
    pub luma: [f32; 3],
    /// ReferenceBlackWhite: black and white of Y, Cb and Cr.
    #[serde(rename = "reference_black_white")]
    pub reference: [f32; 6],
    /// Columns of a block of YCbCrSubSampling, where no stream says it.
    pub horizontal: u8,
    /// Rows of such a block.
    pub vertical: u8,
    /// JPEGRestartInterval, where no stream says it.
    pub restart_interval: u64,
    /// Places of tables and data.
    #[serde(flatten)]
    pub stream: OldJpegStream,
}

/// Places of tables and data in the bytes of a chunk, from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OldJpegStream {
    /// A stream with headers.
    Interchange {
        /// Start and end of the stream (JPEGInterchangeFormat).
        stream: (u64, u64),
        /// Start and end of the strip, which holds the data if the stream ends with its headers.
        strip: (u64, u64),
    },
    /// Tables without headers.
    Tables {
        /// Quantization tables of the components (JPEGQTables).
        quantization: [u64; 3],
        /// Huffman tables (JPEGDCTables).
        dc: [u64; 3],
        /// Huffman tables (JPEGACTables).
        ac: [u64; 3],
        /// Start and end of the data.
        scan: (u64, u64),
    },
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Represents `horizontal` and `vertical` by one member, as TIFF does.
pub(super) mod subsampling {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        scheme: &TiffScheme,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(scheme).map_err(S::Error::custom)?;
        if let Some(members) = value.as_object_mut()
            && let (Some(horizontal), Some(vertical)) =
                (members.remove("horizontal"), members.remove("vertical"))
        {
            members.insert("subsampling".to_owned(), json!([horizontal, vertical]));
        }
        value.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TiffScheme, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(members) = value.as_object_mut()
            && let Some(Value::Array(sizes)) = members.remove("subsampling")
            && let Ok([horizontal, vertical]) = <[Value; 2]>::try_from(sizes)
        {
            members.insert("horizontal".to_owned(), horizontal);
            members.insert("vertical".to_owned(), vertical);
        }
        serde_json::from_value(value).map_err(D::Error::custom)
    }
}
