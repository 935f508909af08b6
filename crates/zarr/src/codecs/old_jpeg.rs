//! Parameters of TIFF's old-style JPEG.

use serde_json::{Map, Value, json};

use super::{definition::Encoded, tiff::floats};

/// Old-style JPEG of TIFF 6.0, section 22: baseline JPEG whose tables are in other places of the file. Decodes to
/// interleaved RGB, as libtiff computes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OldJpeg {
    /// Columns of the strip or tile.
    pub width: u64,
    /// Rows of the strip or tile.
    pub height: u64,
    /// YCbCrCoefficients: weights of red, green and blue in Y.
    pub luma: [f32; 3],
    /// ReferenceBlackWhite: black and white of Y, Cb and Cr.
    pub reference: [f32; 6],
    /// Columns of a block of YCbCrSubSampling, where no stream says it.
    pub horizontal: u8,
    /// Rows of such a block.
    pub vertical: u8,
    /// JPEGRestartInterval, where no stream says it.
    pub restart_interval: u64,
    /// Places of tables and data.
    pub stream: OldJpegStream,
}

/// Places of tables and data in the bytes of a chunk, from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

impl OldJpeg {
    pub(super) fn configuration(&self) -> Value {
        let mut members = json!({
            "scheme": "oldjpeg", "width": self.width, "height": self.height,
            "coefficients": self.luma, "reference_black_white": self.reference,
            "subsampling": [self.horizontal, self.vertical], "restart_interval": self.restart_interval,
        });
        let places = match self.stream {
            OldJpegStream::Interchange { stream, strip } => json!({"stream": stream, "strip": strip}),
            OldJpegStream::Tables { quantization, dc, ac, scan } => {
                json!({"quantization": quantization, "dc": dc, "ac": ac, "scan": scan})
            }
        };
        if let (Some(members), Value::Object(mut places)) = (members.as_object_mut(), places) {
            members.append(&mut places);
        }
        members
    }

    pub(super) fn parse(encoded: &Encoded<'_>) -> Option<Self> {
        let number = |member| encoded.get(member)?.as_u64();
        let [horizontal, vertical] = list(encoded.members, "subsampling")?;
        Some(Self {
            width: number("width")?,
            height: number("height")?,
            luma: floats(encoded.get("coefficients")?)?,
            reference: floats(encoded.get("reference_black_white")?)?,
            horizontal: u8::try_from(horizontal).ok()?,
            vertical: u8::try_from(vertical).ok()?,
            restart_interval: number("restart_interval")?,
            stream: OldJpegStream::parse(encoded.members)?,
        })
    }
}

impl OldJpegStream {
    fn parse(members: &Map<String, Value>) -> Option<Self> {
        let pair = |member| list(members, member).map(|[start, end]| (start, end));
        if members.contains_key("stream") {
            return Some(Self::Interchange { stream: pair("stream")?, strip: pair("strip")? });
        }
        Some(Self::Tables {
            quantization: list(members, "quantization")?,
            dc: list(members, "dc")?,
            ac: list(members, "ac")?,
            scan: pair("scan")?,
        })
    }
}

fn list<const N: usize>(members: &Map<String, Value>, member: &str) -> Option<[u64; N]> {
    let numbers = members.get(member)?.as_array()?.iter().map(Value::as_u64);
    numbers.collect::<Option<Vec<_>>>()?.try_into().ok()
}
