//! Compressions and layouts of TIFF that no client decodes.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{Codec, Definition, OldJpeg, OldJpegStream, OwnName, definition::Encoded};
use crate::Endian;

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.tiff",
        configuration: |codec| match codec {
            Codec::Tiff(scheme) => Some(scheme.configuration()),
            _ => None,
        },
        parse: |encoded| TiffScheme::parse(encoded).map(Codec::Tiff),
    }),
    describe: |codec| match codec {
        Codec::Tiff(scheme) => scheme.describe().to_owned(),
        _ => String::new(),
    },
    examples: || {
        vec![
            Codec::Tiff(TiffScheme::Next { width: 4 }),
            Codec::Tiff(TiffScheme::SgiLog16 { width: 4, endian: Endian::Big }),
            Codec::Tiff(TiffScheme::Ycbcr {
                width: 40,
                height: 20,
                horizontal: 2,
                vertical: 2,
                luma: [0.299, 0.587, 0.114],
                reference: [0.0, 255.0, 128.0, 255.0, 128.0, 255.0],
            }),
            Codec::Tiff(TiffScheme::Jpeg { width: 40, height: 20, tables: vec![0xff, 0xd8, 0xff, 0xd9] }),
            old_jpeg(OldJpegStream::Interchange { stream: (0, 90), strip: (60, 90) }),
            old_jpeg(OldJpegStream::Tables {
                quantization: [0; 3],
                dc: [64; 3],
                ac: [98; 3],
                scan: (200, 300),
            }),
        ]
    },
    ..Definition::internal()
};

fn old_jpeg(stream: OldJpegStream) -> Codec {
    Codec::Tiff(TiffScheme::OldJpeg(OldJpeg {
        width: 40,
        height: 20,
        luma: [0.299, 0.587, 0.114],
        reference: [0.0, 255.0, 128.0, 255.0, 128.0, 255.0],
        horizontal: 2,
        vertical: 2,
        restart_interval: 0,
        stream,
    }))
}

/// A compression or layout of TIFF over whole rows.
#[derive(Clone, PartialEq, Debug)]
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
        luma: [f32; 3],
        /// ReferenceBlackWhite: black and white of Y, Cb and Cr.
        reference: [f32; 6],
    },
    /// JPEG (7) of YCbCr, which becomes interleaved RGB, as libjpeg computes it.
    Jpeg {
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
        /// JPEGTables; empty for none.
        tables: Vec<u8>,
    },
    /// Old-style JPEG (6).
    OldJpeg(OldJpeg),
}

impl TiffScheme {
    fn configuration(&self) -> Value {
        match self {
            Self::Next { width } => json!({"scheme": "next", "width": width}),
            Self::SgiLog16 { width, endian } => {
                let order = if *endian == Endian::Big { "big" } else { "little" };
                json!({"scheme": "sgilog16", "width": width, "byte_order": order})
            }
            Self::Ycbcr { width, height, horizontal, vertical, luma, reference } => json!({
                "scheme": "ycbcr", "width": width, "height": height,
                "subsampling": [horizontal, vertical], "coefficients": luma, "reference_black_white": reference,
            }),
            Self::Jpeg { width, height, tables } => json!({
                "scheme": "jpeg", "width": width, "height": height, "tables": BASE64_STANDARD.encode(tables),
            }),
            Self::OldJpeg(image) => image.configuration(),
        }
    }

    fn parse(encoded: &Encoded<'_>) -> Option<Self> {
        let number = |member| encoded.get(member)?.as_u64();
        let width = number("width")?;
        Some(match encoded.text("scheme")? {
            "next" => Self::Next { width },
            "sgilog16" => {
                let endian = match encoded.text("byte_order")? {
                    "big" => Endian::Big,
                    _ => Endian::Little,
                };
                Self::SgiLog16 { width, endian }
            }
            "ycbcr" => {
                let [horizontal, vertical] = floats(encoded.get("subsampling")?)?;
                let block = |n: f32| [1_u16, 2, 4].into_iter().find(|known| f32::from(*known) == n);
                Self::Ycbcr {
                    width,
                    height: number("height")?,
                    horizontal: block(horizontal)?,
                    vertical: block(vertical)?,
                    luma: floats(encoded.get("coefficients")?)?,
                    reference: floats(encoded.get("reference_black_white")?)?,
                }
            }
            "jpeg" => Self::Jpeg {
                width,
                height: number("height")?,
                tables: BASE64_STANDARD.decode(encoded.text("tables")?).ok()?,
            },
            "oldjpeg" => Self::OldJpeg(OldJpeg::parse(encoded)?),
            _ => return None,
        })
    }

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

/// Returns a list of numbers, which were written as binary32.
pub(super) fn floats<const N: usize>(list: &Value) -> Option<[f32; N]> {
    #[expect(clippy::cast_possible_truncation, reason = "the number is written again and compared")]
    let number = |value: &Value| Some(value.as_f64()? as f32);
    list.as_array()?.iter().map(number).collect::<Option<Vec<_>>>()?.try_into().ok()
}
