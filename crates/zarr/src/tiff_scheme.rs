use crate::Endian;

/// Compressions and layouts of TIFF that no client decodes, all over whole rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TiffScheme {
    /// NeXT's compression (32766) of rows of 2-bit samples. It decodes to rows of packed bits.
    Next {
        /// Samples of a row.
        width: u64,
    },
    /// SGI's run lengths (34676) of one 16-bit sample a pixel.
    SgiLog16 {
        /// Samples of a row.
        width: u64,
        /// Byte order of the decoded samples.
        endian: Endian,
    },
    /// YCbCr of 8 bits with chroma subsampled, in blocks: `horizontal` × `vertical` samples of Y, then Cb and Cr. It
    /// decodes to interleaved RGB, as libtiff calculates it.
    Ycbcr {
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
        /// Columns of a block: 1, 2 or 4.
        horizontal: u16,
        /// Rows of a block: 1, 2 or 4.
        vertical: u16,
        /// YCbCrCoefficients: shares of red, green and blue in Y.
        luma: [f32; 3],
        /// ReferenceBlackWhite: black and white of Y, Cb and Cr.
        reference: [f32; 6],
    },
}

impl TiffScheme {
    /// In words for a message.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Next { .. } => "NeXT compression",
            Self::SgiLog16 { .. } => "SGI Log compression",
            Self::Ycbcr { .. } => "subsampled YCbCr",
        }
    }
}
