//! Compressed images: their headers, and decoders of some formats. Readers return the size and the samples that the header
//! declares, whatever the metadata of the array say.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    CodecFailure, corrupt, jpeg,
    lerc::{self, Head},
    webp as webp_images,
};

/// Decodes an image as imagecodecs does, to at most `limit` bytes.
///
/// # Errors
/// [`CodecFailure::NoDecoder`] with the reason, also for images that imagecodecs decodes although they are damaged, and
/// [`CodecFailure::TooLong`].
pub(crate) fn decode(
    name: &str,
    configuration: &Map<String, Value>,
    bytes: &[u8],
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let decoded = match name {
        #[cfg(feature = "rare")]
        "imagecodecs_jpeg" => jpeg_image(configuration, bytes, limit),
        "imagecodecs_lerc" => lerc::decode_image(bytes, limit),
        "imagecodecs_webp" => {
            let has_alpha = configuration.get("hasalpha").and_then(Value::as_bool) == Some(true);
            webp_images::decode(bytes, has_alpha, limit)
        }
        _ => return Err(CodecFailure::NoDecoder(name.to_owned())),
    };
    decoded.map_err(|error| match error {
        error @ CodecFailure::TooLong { .. } => error,
        other => CodecFailure::NoDecoder(format!("{name} ({other})")),
    })
}

#[cfg(feature = "rare")]
fn jpeg_image(
    configuration: &Map<String, Value>,
    bytes: &[u8],
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let color = |key: &str| configuration.get(key).and_then(Value::as_u64);
    let tables = configuration.get("tables").and_then(Value::as_str).unwrap_or_default();
    let tables = BASE64_STANDARD.decode(tables).map_err(|error| corrupt("JPEG", error))?;
    let colors = (color("colorspace_jpeg"), color("colorspace_data"));
    crate::rare::decode_jpeg(bytes, &tables, colors, limit)
}

/// Size and samples that the header of an image declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Samples of a pixel, if known.
    pub samples: Option<u64>,
    /// Bytes of a decoded sample, if known.
    pub bytes: Option<u64>,
}

impl Header {
    /// Reads the header of an image in the format of a codec of imagecodecs. Returns `None` for other formats, and where
    /// these bytes end before the header.
    ///
    /// # Errors
    /// Bytes of another format.
    pub fn find(codec: &str, bytes: &[u8]) -> Result<Option<Self>, CodecFailure> {
        let found = match codec {
            "imagecodecs_jpeg" | "imagecodecs_ljpeg" => {
                let of = |header: jpeg::Header| Self {
                    rows: header.height.into(),
                    columns: header.width.into(),
                    samples: Some(header.factors.len() as u64),
                    bytes: Some(if header.precision > 8 { 2 } else { 1 }),
                };
                return Ok(jpeg::Header::find(bytes)?.map(of));
            }
            "imagecodecs_lerc" => Some(Head::parse(bytes)?.header()),
            "imagecodecs_jpeg2k" => jpeg2000(bytes),
            "imagecodecs_png" => png(bytes),
            "imagecodecs_webp" => webp(bytes),
            "imagecodecs_jpegxl" => jpeg_xl(bytes),
            _ => return Ok(None),
        };
        let name = codec.strip_prefix("imagecodecs_").unwrap_or(codec);
        found.map(Some).ok_or_else(|| corrupt("image", format!("not the header of {name}")))
    }

    /// Whether the image has these rows, columns, samples, and bytes a sample.
    pub fn fits(&self, (rows, columns, samples): (u64, u64, u64), bytes: u64) -> bool {
        (self.rows, self.columns) == (rows, columns)
            && self.samples.is_none_or(|found| found == samples)
            && self.bytes.is_none_or(|found| found == bytes)
    }

    /// Whether the image has as many samples as one of these rows, columns and samples, of the same bytes.
    pub fn has_as_many(&self, (rows, columns, samples): (u64, u64, u64), bytes: u64) -> bool {
        let product = |rows: u64, columns: u64, samples: u64| rows.checked_mul(columns)?.checked_mul(samples);
        let found = self.samples.and_then(|samples| product(self.rows, self.columns, samples));
        found.is_some() && found == product(rows, columns, samples) && self.bytes == Some(bytes)
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} pixels", self.rows, self.columns)?;
        if let Some(samples) = self.samples {
            write!(f, " of {samples} samples")?;
        }
        match self.bytes {
            Some(bytes) => write!(f, " of {bytes} bytes"),
            None => Ok(()),
        }
    }
}

/// Size and components of a codestream, bare or in boxes (T.800, A.5.1).
fn jpeg2000(bytes: &[u8]) -> Option<Header> {
    const START: &[u8] = b"\xff\x4f\xff\x51";
    let at = bytes.windows(START.len()).position(|window| window == START)?;
    let body = bytes.get(at + START.len()..)?;
    let number =
        |at: usize| body.get(at..)?.first_chunk().map(|number| u64::from(u32::from_be_bytes(*number)));
    let extent = |at: usize| number(at)?.checked_sub(number(at + 8)?);
    let samples = u16::from_be_bytes(*body.get(36..)?.first_chunk()?);
    let bits = (body.get(38)? & 0x7f) + 1;
    Some(Header {
        rows: extent(8)?,
        columns: extent(4)?,
        samples: Some(samples.into()),
        bytes: Some(match bits {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }),
    })
}

/// The chunk `IHDR` (PNG, 11.2.1). Palettes become RGB, perhaps with alpha.
fn png(bytes: &[u8]) -> Option<Header> {
    let [w0, w1, w2, w3, h0, h1, h2, h3, bits, color, ..] =
        *bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")?.first_chunk::<13>()?;
    Some(Header {
        rows: u32::from_be_bytes([h0, h1, h2, h3]).into(),
        columns: u32::from_be_bytes([w0, w1, w2, w3]).into(),
        samples: match color {
            0 => Some(1),
            2 => Some(3),
            4 => Some(2),
            6 => Some(4),
            _ => None,
        },
        bytes: Some(if bits > 8 { 2 } else { 1 }),
    })
}

/// The first chunk (RFC 9649): `VP8X`, `VP8L` or `VP8 `. Whether alpha is decoded depends on the codec's configuration.
fn webp(bytes: &[u8]) -> Option<Header> {
    let [b'R', b'I', b'F', b'F', _, _, _, _, rest @ ..] = bytes else { return None };
    let (kind, rest) = rest.strip_prefix(b"WEBP")?.split_first_chunk::<4>()?;
    let body = rest.get(4..)?.first_chunk::<10>()?;
    let (columns, rows) = match (kind, body) {
        (b"VP8X", [_, _, _, _, w0, w1, w2, h0, h1, h2]) => {
            let number = |bytes| u64::from(u32::from_le_bytes(bytes)) + 1;
            (number([*w0, *w1, *w2, 0]), number([*h0, *h1, *h2, 0]))
        }
        (b"VP8L", [0x2f, b0, b1, b2, b3, ..]) => {
            let bits = u64::from(u32::from_le_bytes([*b0, *b1, *b2, *b3]));
            ((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1)
        }
        (b"VP8 ", [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1]) => {
            let number = |bytes| u64::from(u16::from_le_bytes(bytes) & 0x3fff);
            (number([*w0, *w1]), number([*h0, *h1]))
        }
        _ => return None,
    };
    Some(Header { rows, columns, samples: None, bytes: Some(1) })
}

/// The size and bit depth of a codestream, bare or in the box `jxlc` or `jxlp` (ISO/IEC 18181-1, D.2 and D.3).
fn jpeg_xl(bytes: &[u8]) -> Option<Header> {
    let mut rest = bytes;
    while !rest.starts_with(b"\xff\x0a") {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (kind, body) = after.split_first_chunk::<4>()?;
        rest = match kind {
            b"jxlc" => body,
            b"jxlp" => body.get(4..)?,
            _ => rest.get(usize::try_from(u32::from_be_bytes(*length)).ok()?.max(8)..)?,
        };
    }
    let front = rest.get(2..)?;
    let mut bits = front.iter().take(16).flat_map(|byte| (0..8).map(move |bit| u64::from(byte >> bit & 1)));
    let mut number = |count: u32| (0..count).try_fold(0, |sum, bit| Some(sum | bits.next()? << bit));
    let is_small = number(1)? == 1;
    let extent = |number: &mut dyn FnMut(u32) -> Option<u64>| {
        if is_small {
            return Some((number(5)? + 1) * 8);
        }
        let count = [9, 13, 18, 30].get(usize::try_from(number(2)?).ok()?).copied()?;
        number(count).map(|extent| extent + 1)
    };
    let rows = extent(&mut number)?;
    let columns = match number(3)? {
        0 => extent(&mut number)?,
        1 => rows,
        2 => rows * 12 / 10,
        3 => rows * 4 / 3,
        4 => rows * 3 / 2,
        5 => rows * 16 / 9,
        6 => rows * 5 / 4,
        _ => rows * 2,
    };
    let mut depth = || {
        let is_default = number(1)? == 1;
        if is_default {
            return Some(8);
        }
        let has_more = number(1)? == 1;
        // Orientation, then whether there are an intrinsic size, a preview or an animation.
        if has_more && (number(3).is_none() || number(3)? != 0) {
            return None;
        }
        let usual = if number(1)? == 1 { [32, 16, 24] } else { [8, 10, 12] };
        match usual.get(usize::try_from(number(2)?).ok()?) {
            Some(depth) => Some(*depth),
            None => Some(number(6)? + 1),
        }
    };
    let bytes = depth().map(|depth| match depth {
        ..=8 => 1,
        9..=16 => 2,
        _ => 4,
    });
    Some(Header { rows, columns, samples: None, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of imagecodecs 2026.10: 12 x 34 pixels of 3 samples, for LERC and JPEG 2000 of 16 bits.
    #[test]
    fn headers_of_other_encoders() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let found = |codec: &str, text: &str| {
            let header = Header::find(codec, &hex(text)).unwrap().unwrap();
            (header.rows, header.columns, header.samples, header.bytes)
        };
        for (codec, text, samples, bytes) in STREAMS {
            assert_eq!(found(codec, text), (12, 34, *samples, *bytes), "{codec}");
            let damaged = Header::find(codec, b"\0\0\0\0 something else \0\0\0\0");
            assert!(damaged.is_err(), "{codec}");
            for end in 0..text.len() / 2 {
                drop(Header::find(codec, &hex(&text[..2 * end])));
            }
        }
        assert_eq!(Header::find("imagecodecs_jpegxr", b"II"), Ok(None));
    }

    type Stream = (&'static str, &'static str, Option<u64>, Option<u64>);
    const STREAMS: &[Stream] = &[
        ("imagecodecs_jpeg", "ffd8ffc0001108000c002203012200021101031101ff", Some(3), Some(1)),
        (
            "imagecodecs_ljpeg",
            "ffd8ffc40016000101010000000000000000000000000000080effc3000b0e000c002201001100ffda0008010000060000cfff00d916459164591645",
            Some(1),
            Some(2),
        ),
        (
            "imagecodecs_jpeg2k",
            "ff4fff51002f0000000000220000000c0000000000000000000000220000000c000000000000000000030f01010f01010f0101ff52000c0000000101",
            Some(3),
            Some(2),
        ),
        (
            "imagecodecs_jpeg2k",
            "0000000c6a5020200d0a870a00000014667479706a703220000000006a7032200000002d6a70326800000016696864720000000c000000220003070700000000000f636f6c7201000000000010000001a26a703263ff4fff51002f0000000000220000000c0000000000000000000000220000000c00000000000000000003070101070101070101ff52000c00000001010004040001",
            Some(3),
            Some(1),
        ),
        (
            "imagecodecs_png",
            "89504e470d0a1a0a0000000d49484452000000220000000c1002000000d81324900000008c494441",
            Some(3),
            Some(2),
        ),
        (
            "imagecodecs_png",
            "89504e470d0a1a0a0000000d49484452000000220000000c0800000000228a305800000018494441",
            Some(1),
            Some(1),
        ),
        (
            "imagecodecs_webp",
            "5249464624000000574542505650384c170000002f21c00200cd6544ff03420282ffcb3531222600",
            None,
            Some(1),
        ),
        (
            "imagecodecs_webp",
            "524946463800000057454250565038202c000000d002009d012a22000c003ed156a44c2824a3a22a",
            None,
            Some(1),
        ),
        (
            "imagecodecs_webp",
            "524946466600000057454250565038580a000000100000002100000b0000414c50481400000001b9",
            None,
            Some(1),
        ),
        ("imagecodecs_jpegxl", "ff0a580042804808000100ac004b2825d62115144c00062a5c0cba0b8408", None, Some(1)),
        (
            "imagecodecs_jpegxl",
            "0000000c4a584c200d0a870a00000014667479706a786c20000000006a786c20000000406a786c63ff0a580042804808000100ac004b2825d62115144c00062a5c0cba0b8408f038085f21fcff9fea23fb3f01fc170affff06fa40ff3e005008",
            None,
            Some(1),
        ),
        (
            "imagecodecs_lerc",
            "4c657263322004000000526e4dcf0c000000220000000300000098010000080000005b07000003000000000000000000e03f00000000000000000000000000c8b94000000000000000000000c819c819c8190041008b4000400664b00432f4c1",
            Some(3),
            Some(2),
        ),
    ];

    #[test]
    fn sizes_are_compared() {
        let header = Header { rows: 12, columns: 17, samples: Some(2), bytes: Some(2) };
        assert!(header.fits((12, 17, 2), 2) && !header.fits((12, 34, 1), 2) && !header.fits((12, 17, 2), 1));
        assert!(header.has_as_many((12, 34, 1), 2) && !header.has_as_many((12, 34, 1), 1));
        assert!(!header.has_as_many((u64::MAX, 34, 1), 2));
        assert_eq!(header.to_string(), "12 x 17 pixels of 2 samples of 2 bytes");
    }
}
