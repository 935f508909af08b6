//! Old-style JPEG (TIFF 6.0, section 22): the bytes that hold a strip or tile with its tables, and their places in them.

use virtualize_bytes::ByteRange;
use virtualize_tiff::model;
use virtualize_zarr::{Codec, DataType, OldJpeg, OldJpegStream, TiffScheme};

use super::{compression::Encoding, tiff_schemes::colors};
use crate::{Error, Result};

/// Bytes of a quantization table.
const QUANTIZATION: u64 = 64;
/// Most bytes of a Huffman table.
const HUFFMAN: u64 = 16 + 256;

/// The places of tables and data in the file.
enum Places {
    Interchange { stream: ByteRange, strip: ByteRange },
    Tables { tables: [[u64; 3]; 3], scan: ByteRange },
}

impl Encoding<'_> {
    /// Returns the range of the bytes that hold a strip or tile of `width` × `height` pixels and its tables, and the codec that
    /// decodes them.
    ///
    /// # Errors
    /// The process is not baseline, tags are missing, or libtiff does not read such an image.
    pub(super) fn old_jpeg(
        &self,
        strip: ByteRange,
        width: u64,
        height: u64,
        file_size: u64,
    ) -> Result<(ByteRange, Codec)> {
        let image = self.image;
        let tags = image.old_jpeg.as_ref().ok_or_else(|| refused("it has no tags"))?;
        // libtiff takes RGB for YCbCr. GDAL does not read gray, but tifffile reads whole streams.
        let has_stream = tags.interchange_format.is_some_and(|start| start != 0);
        match (image.samples_per_pixel, image.photometric) {
            (3, None | Some(2 | 6)) => {}
            (1, Some(0 | 1)) if has_stream => {}
            (1, Some(0 | 1)) => return Err(refused("gray without a stream (JPEGInterchangeFormat)")),
            _ => return Err(refused("GDAL reads only RGB and YCbCr of three samples")),
        }
        if image.depth != 1 || self.sample.data_type != DataType::UInt8 || image.planar {
            return Err(refused("only unsigned samples of 8 bits side by side are supported"));
        }
        if image.offsets.len() != 1 {
            return Err(refused(
                "of several strips or tiles, GDAL shows values that depend on what it has read before",
            ));
        }
        if tags.process.is_some_and(|process| process != 1) {
            return Err(refused("it is not baseline (JPEGProc)"));
        }
        let places = places(tags, strip, file_size)?;
        let range = places.span(file_size)?;
        let (horizontal, vertical) = match image.ycbcr_subsampling {
            (horizontal @ (1 | 2 | 4), vertical @ (1 | 2 | 4)) => (narrow(horizontal), narrow(vertical)),
            _ => return Err(refused("its YCbCrSubSampling is not supported")),
        };
        let (luma, reference) = colors(image).ok_or_else(|| refused("its coefficients are out of range"))?;
        let codec = OldJpeg {
            width,
            height,
            luma,
            reference,
            horizontal,
            vertical,
            restart_interval: tags.restart_interval,
            stream: places.within(range.start),
        };
        Ok((range, Codec::Tiff(TiffScheme::OldJpeg(codec))))
    }
}

fn places(tags: &model::OldJpeg, strip: ByteRange, file_size: u64) -> Result<Places> {
    if let Some(start) = tags.interchange_format.filter(|start| *start != 0) {
        let length = tags.interchange_length.filter(|length| *length != 0);
        let end = length.and_then(|length| start.checked_add(length)).filter(|end| *end <= file_size);
        let stream = between(start, end.unwrap_or(file_size))?;
        return Ok(Places::Interchange { stream, strip });
    }
    let table = |offsets: &[u64]| <[u64; 3]>::try_from(offsets).map_err(|_| refused("it has no tables"));
    let tables = [table(&tags.quantization)?, table(&tags.dc)?, table(&tags.ac)?];
    Ok(Places::Tables { tables, scan: strip })
}

impl Places {
    /// Returns the range from the first to the last byte.
    fn span(&self, file_size: u64) -> Result<ByteRange> {
        let (start, end) = match self {
            Self::Interchange { stream, strip } => {
                (stream.start.min(strip.start), stream.end().max(strip.end()))
            }
            Self::Tables { tables: [quantization, dc, ac], scan } => {
                let starts = [quantization, dc, ac].into_iter().flatten().copied();
                let steps = quantization.iter().map(|start| start.saturating_add(QUANTIZATION));
                let codes = dc.iter().chain(ac).map(|start| start.saturating_add(HUFFMAN));
                (
                    starts.fold(scan.start, u64::min),
                    steps.chain(codes).fold(scan.end(), u64::max).min(file_size),
                )
            }
        };
        between(start, end)
    }

    /// Returns the places from a first byte on.
    fn within(&self, first: u64) -> OldJpegStream {
        let from = |offset: u64| offset.saturating_sub(first);
        let part = |range: &ByteRange| (from(range.start), from(range.end()));
        match self {
            Self::Interchange { stream, strip } => {
                OldJpegStream::Interchange { stream: part(stream), strip: part(strip) }
            }
            Self::Tables { tables, scan } => {
                let [quantization, dc, ac] = tables.map(|table| table.map(from));
                OldJpegStream::Tables { quantization, dc, ac, scan: part(scan) }
            }
        }
    }
}

fn between(start: u64, end: u64) -> Result<ByteRange> {
    let length = end.checked_sub(start).filter(|length| *length > 0);
    length
        .map(|length| ByteRange::new(start, length))
        .ok_or_else(|| refused("its tables or data are past the end of the file"))
}

fn narrow(factor: u16) -> u8 {
    u8::try_from(factor).unwrap_or(1)
}

fn refused(why: &'static str) -> Error {
    Error::undecodable("old-style JPEG (6)", why)
}
