//! Compressions and layouts of TIFF that no client decodes.

use super::{Codec, Definition};
use crate::Endian;

pub(super) const DEFINITION: Definition = Definition {
    describe: |codec| match codec {
        Codec::Tiff(scheme) => scheme.describe().to_owned(),
        _ => String::new(),
    },
    examples: || {
        vec![
            Codec::Tiff(TiffScheme::Next { width: 4 }),
            Codec::Tiff(TiffScheme::SgiLog16 { width: 4, endian: Endian::Big }),
        ]
    },
    ..Definition::internal()
};

/// A compression or layout of TIFF over whole rows.
#[derive(Clone, Copy, PartialEq, Debug)]
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
}

impl TiffScheme {
    /// Describes the scheme in words for a message.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Next { .. } => "NeXT compression",
            Self::SgiLog16 { .. } => "SGI Log compression",
            Self::Ycbcr { .. } => "subsampled YCbCr",
        }
    }
}
