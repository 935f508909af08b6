//! Adds rows to JPEG images (ITU-T T.81), so that readers which expect a full chunk decode a shorter one.

use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "JPEG";

/// Writes another number of rows into the frame header, and leaves everything else as it is: decoders fill in the
/// blocks that are then missing at the end. The first `rows` rows decode as before.
///
/// If chroma has half as many rows, decoders of the libjpeg family compute each row from the two nearest rows of
/// chroma. The last of an even number of rows would then depend on a row of chroma that did not exist before, so such
/// images are rejected.
///
/// # Errors
/// Frames other than baseline and extended sequential ones, another width, fewer rows, or the case above.
pub fn with_rows(bytes: &[u8], width: u64, rows: u64, height: u64) -> Result<Vec<u8>, CodecFailure> {
    let frame = Header::find(bytes)?.ok_or_else(cut_off)?;
    if !matches!(frame.process, 0xc0 | 0xc1) {
        return Err(corrupt(NAME, format!("segment {:#x}, expected a sequential frame", frame.process)));
    }
    if u64::from(frame.width) != width || u64::from(frame.height) < rows {
        return Err(corrupt(
            NAME,
            format!("an image of {} x {}, expected {rows} rows of {width}", frame.height, frame.width),
        ));
    }
    if !frame.keeps(rows) {
        let reason = format!("the last of its {rows} rows depends on what follows, as chroma is subsampled");
        return Err(parameters(NAME, reason));
    }
    let height = u16::try_from(height)
        .map_err(|_| parameters(NAME, format!("{height} rows, at most 65535 are possible")))?;
    let mut taller = bytes.to_vec();
    if let Some(place) = taller.get_mut(frame.height_at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = height.to_be_bytes();
    }
    Ok(taller)
}

/// Frame header (T.81, B.2.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Marker of the frame without its first byte: 0xc0 baseline, 0xc3 lossless, …
    pub process: u8,
    /// Bits of a sample.
    pub precision: u8,
    /// Rows.
    pub height: u16,
    /// Columns.
    pub width: u16,
    /// Sampling factors of each component: horizontal in the upper four bits, vertical in the lower ones.
    pub factors: Vec<u8>,
    /// Offset of the number of rows.
    height_at: usize,
}

impl Header {
    /// Finds the frame header. Returns `None` where these bytes end before it.
    ///
    /// # Errors
    /// Bytes that are not JPEG.
    pub fn find(bytes: &[u8]) -> Result<Option<Self>, CodecFailure> {
        let mut rest = bytes.strip_prefix(b"\xff\xd8").ok_or_else(|| corrupt(NAME, "no start of image"))?;
        loop {
            let Some((segment, next)) = segment(rest)? else { return Ok(None) };
            match segment {
                (process @ (0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf), body) => {
                    let at = bytes.len().saturating_sub(next.len() + body.len());
                    return Self::parse(process, body, at).map(Some).ok_or_else(cut_off);
                }
                (0xd9 | 0xda, _) => return Err(corrupt(NAME, "no frame header")),
                _ => rest = next,
            }
        }
    }

    fn parse(process: u8, body: &[u8], at: usize) -> Option<Self> {
        let ([_, _, precision, h0, h1, w0, w1, count], components) = body.split_first_chunk::<8>()?;
        let components = components.get(..usize::from(*count).checked_mul(3)?)?;
        Some(Self {
            process,
            precision: *precision,
            height: u16::from_be_bytes([*h0, *h1]),
            width: u16::from_be_bytes([*w0, *w1]),
            factors: components.chunks_exact(3).filter_map(|one| one.get(1)).copied().collect(),
            height_at: at.checked_add(3)?,
        })
    }

    /// Whether so many rows decode alike whatever follows.
    fn keeps(&self, rows: u64) -> bool {
        let vertical = || self.factors.iter().map(|factors| factors & 15);
        let most = vertical().max().unwrap_or(1);
        // With half as many rows of chroma, the row after the last one needed is there.
        let follows = u64::from(self.height).div_ceil(2) > rows / 2;
        vertical().all(|factor| factor == most)
            || rows % 2 == 1
            || follows && vertical().all(|factor| factor == most || factor * 2 == most)
    }

    /// Whether some component has fewer samples than another.
    pub fn is_subsampled(&self) -> bool {
        self.factors.iter().any(|one| Some(one) != self.factors.first())
    }
}

/// Kind and bytes of a segment.
type Segment<'a> = (u8, &'a [u8]);

/// The kind and the bytes of a segment, its length with them, and what follows. `None` where it is cut off. The end of the
/// image has no bytes.
pub(crate) fn segment(rest: &[u8]) -> Result<Option<(Segment<'_>, &[u8])>, CodecFailure> {
    let fill = rest.iter().take_while(|byte| **byte == 0xff).count();
    let Some((&kind, after)) = rest.get(fill..).and_then(<[u8]>::split_first) else { return Ok(None) };
    if fill == 0 {
        return Err(corrupt(NAME, "no marker where one should be"));
    }
    if kind == 0xd9 {
        return Ok(Some(((kind, &[]), after)));
    }
    let Some((length, _)) = after.split_first_chunk() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*length)).max(2);
    Ok(after.split_at_checked(length).map(|(body, next)| ((kind, body), next)))
}

pub(crate) fn cut_off() -> CodecFailure {
    corrupt(NAME, "it is cut off")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comment, then a frame of so many rows of 20 columns, the first component sampled so.
    fn stream(kind: u8, rows: u8, sampling: u8) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xfe, 0, 3, 7, 0xff, 0xff, kind, 0, 17, 8, 0, rows, 0, 20, 3];
        bytes.extend([1, sampling, 0, 2, 0x11, 1, 3, 0x11, 1, 0xff, 0xda]);
        bytes
    }

    #[test]
    fn subsampled_components_are_seen_in_every_kind_of_frame() {
        for kind in [0xc0_u8, 0xc2] {
            for (sampling, expected) in [([0x11, 0x11, 0x11], false), ([0x22, 0x11, 0x11], true)] {
                let [a, b, c] = sampling;
                let frame = [0xff, 0xd8, 0xff, 0xfe, 0, 3, 9, 0xff, kind, 0, 17, 8, 0, 1, 0, 1, 3];
                let bytes = [&frame[..], &[1, a, 0, 2, b, 1, 3, c, 1]].concat();
                let header = Header::find(&bytes).unwrap().unwrap();
                assert_eq!((header.process, header.precision, header.height, header.width), (kind, 8, 1, 1));
                assert_eq!(header.is_subsampled(), expected);
                assert_eq!(Header::find(&bytes[..20]), Ok(None), "cut off");
            }
        }
        assert!(Header::find(b"PNG").is_err() && Header::find(&[0xff, 0xd8, 0, 1]).is_err());
        assert!(Header::find(&[0xff, 0xd8, 0xff, 0xda, 0, 2]).is_err(), "no frame");
    }

    #[test]
    fn rows_of_the_frame_are_replaced() {
        let taller = with_rows(&stream(0xc0, 12, 0x11), 20, 12, 272).unwrap();
        let mut expected = stream(0xc0, 16, 0x11);
        expected[13] = 1;
        assert_eq!(taller, expected);
    }

    /// imagecodecs.jpeg_decode of streams so changed, for every number of rows from 1 to 63.
    #[test]
    fn the_last_even_row_depends_on_chroma_that_follows() {
        let rows = |stored, used, sampling| with_rows(&stream(0xc0, stored, sampling), 20, used, 16).is_ok();
        assert!(rows(3, 3, 0x22) && rows(4, 3, 0x22) && rows(5, 4, 0x22) && rows(4, 4, 0x21));
        assert!(!rows(4, 4, 0x22) && !rows(4, 4, 0x12) && !rows(6, 6, 0x22));
    }

    #[test]
    fn other_streams_are_refused() {
        let refused = |bytes: &[u8]| with_rows(bytes, 20, 3, 16).unwrap_err().to_string();
        assert!(refused(&stream(0xc2, 3, 0x11)).contains("segment 0xc2"));
        assert!(refused(&stream(0xc0, 2, 0x11)).contains("expected 3 rows"));
        assert!(refused(&stream(0xc0, 3, 0x11)[..20]).contains("cut off"));
        assert!(refused(b"\x89PNG").contains("no start"));
        assert!(with_rows(&stream(0xc0, 3, 0x11), 21, 3, 16).is_err());
        assert!(with_rows(&stream(0xc0, 3, 0x11), 20, 3, 65536).is_err());
    }
}
