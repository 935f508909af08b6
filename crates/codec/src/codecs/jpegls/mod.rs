//! JPEG-LS (ITU-T T.87): HDF5 filter 32018 (FCIDECOMP), `imagecodecs_jpegls`. <https://www.itu.int/rec/T-REC-T.87>
//!
//! ```text
//! SOI, then segments: a marker (2 bytes), the length of what follows (2 bytes, counts itself), parameters
//!   SOF55  bits per sample, rows, columns, components      LSE  greatest value, thresholds, reset interval
//!   SOS    components of the scan, NEAR, interleaving      DRI  rows between restart markers
//! after SOS the bits of the scan; EOI
//! ```

mod bits;
mod model;
mod scan;

use self::{
    model::Preset,
    scan::{Interleave, Scan},
};
use crate::{CodecFailure, corrupt};

const NAME: &str = "jpegls";

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DRI: u8 = 0xdd;
const APP8: u8 = 0xe8;
const SOF55: u8 = 0xf7;
const LSE: u8 = 0xf8;

/// Size of the image.
#[derive(Clone, Copy, Debug)]
struct Frame {
    bits: u32,
    rows: usize,
    columns: usize,
    components: usize,
}

impl Frame {
    /// Parses SOF55.
    fn parse(segment: &[u8]) -> Result<Self, CodecFailure> {
        let [bits, rows, rows_low, columns, columns_low, components] =
            *segment.first_chunk::<6>().ok_or_else(cut_off)?;
        let frame = Self {
            bits: bits.into(),
            rows: u16::from_be_bytes([rows, rows_low]).into(),
            columns: u16::from_be_bytes([columns, columns_low]).into(),
            components: components.into(),
        };
        let is_sensible = (2..=16).contains(&bits) && frame.rows > 0 && frame.columns > 0 && components > 0;
        is_sensible.then_some(frame).ok_or_else(|| corrupt(NAME, format!("{frame:?}")))
    }

    fn sample_bytes(&self) -> usize {
        if self.bits > 8 { 2 } else { 1 }
    }

    fn pixels(&self) -> usize {
        self.rows * self.columns
    }

    fn bytes(&self) -> Option<usize> {
        self.pixels().checked_mul(self.components)?.checked_mul(self.sample_bytes())
    }
}

/// What the segments before a scan have set.
#[derive(Default)]
struct State {
    frame: Option<Frame>,
    preset: Preset,
    restart_rows: usize,
    /// Samples of each component, in the order of the scans.
    planes: Vec<Vec<u16>>,
    /// Whether a scan has several components.
    interleaved: bool,
}

/// Decodes an image to at most `limit` bytes: little-endian samples of one byte up to 8 bits, else of two. The components of
/// interleaved scans are adjacent. Others follow one another, unless `by_pixel` makes them adjacent as well.
pub(super) fn decode(bytes: &[u8], by_pixel: bool, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut rest = match bytes {
        [0xff, SOI, rest @ ..] => rest,
        _ => return Err(corrupt(NAME, "no start of an image")),
    };
    let mut state = State::default();
    loop {
        let marker;
        (marker, rest) = next_marker(rest)?;
        if marker == EOI {
            break;
        }
        let segment;
        (segment, rest) = segment_of(rest)?;
        if marker == SOS {
            rest = state.scan(segment, rest)?;
        } else {
            state.set(marker, segment, limit)?;
        }
        if state.is_complete() {
            break;
        }
    }
    state.samples(by_pixel)
}

/// Returns the next marker, which fill bytes may precede, and what follows it.
fn next_marker(bytes: &[u8]) -> Result<(u8, &[u8]), CodecFailure> {
    let [0xff, rest @ ..] = bytes else { return Err(corrupt(NAME, "no marker where one is expected")) };
    let fill = rest.iter().take_while(|byte| **byte == 0xff).count();
    rest.get(fill..).and_then(<[u8]>::split_first).map(|(marker, rest)| (*marker, rest)).ok_or_else(cut_off)
}

/// Splits off the parameters of a segment.
fn segment_of(bytes: &[u8]) -> Result<(&[u8], &[u8]), CodecFailure> {
    let (length, rest) = bytes.split_first_chunk::<2>().ok_or_else(cut_off)?;
    let length = usize::from(u16::from_be_bytes(*length)).checked_sub(2).ok_or_else(cut_off)?;
    rest.split_at_checked(length).ok_or_else(cut_off)
}

impl State {
    fn set(&mut self, marker: u8, segment: &[u8], limit: usize) -> Result<(), CodecFailure> {
        match marker {
            SOF55 if self.frame.is_none() => {
                let frame = Frame::parse(segment)?;
                if frame.bytes().is_none_or(|bytes| bytes > limit) {
                    return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
                }
                self.frame = Some(frame);
            }
            LSE => self.preset = Preset::parse(segment)?,
            DRI => self.restart_rows = restart_rows(segment)?,
            // Colours transformed by HP's software.
            APP8 if segment.starts_with(b"mrfx") && segment.get(4) != Some(&0) => {
                return Err(unsupported("colour transformation"));
            }
            // Applications' data and comments.
            0xe0..=0xef | 0xfe => {}
            other => return Err(unsupported(&format!("marker {other:#x}"))),
        }
        Ok(())
    }

    /// Decodes a scan, and returns what follows it.
    fn scan<'a>(&mut self, segment: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], CodecFailure> {
        let frame = self.frame.ok_or_else(|| corrupt(NAME, "a scan before the size of the image"))?;
        let (count, rest) = segment.split_first().ok_or_else(cut_off)?;
        let count = usize::from(*count);
        let (ids, rest) = rest.split_at_checked(2 * count).ok_or_else(cut_off)?;
        let [near, interleave, transform] = *rest.first_chunk().ok_or_else(cut_off)?;
        let uses_table = ids.iter().skip(1).step_by(2).any(|table| *table != 0);
        if uses_table || transform != 0 {
            return Err(unsupported("mapping tables and point transforms"));
        }
        let interleave = Interleave::parse(interleave, count)?;
        if self.planes.len() + count > frame.components {
            return Err(corrupt(NAME, format!("more than {} components", frame.components)));
        }
        self.interleaved |= count > 1;
        let parameters = self.preset.complete(frame.bits, near.into())?;
        let scan = Scan { parameters, rows: frame.rows, columns: frame.columns, count };
        let (planes, after) = scan.decode(bytes, interleave, self.restart_rows)?;
        self.planes.extend(planes);
        Ok(after)
    }

    fn is_complete(&self) -> bool {
        self.frame.is_some_and(|frame| self.planes.len() == frame.components)
    }

    /// Returns the samples of all components.
    fn samples(&self, by_pixel: bool) -> Result<Vec<u8>, CodecFailure> {
        let frame = self.frame.filter(|_| self.is_complete()).ok_or_else(cut_off)?;
        let mut out = Vec::with_capacity(frame.bytes().unwrap_or(0));
        let mut push = |sample: u16| match (frame.sample_bytes(), sample.to_le_bytes()) {
            (1, [low, _]) => out.push(low),
            (_, both) => out.extend(both),
        };
        if self.interleaved || by_pixel {
            let mut planes: Vec<_> = self.planes.iter().map(|plane| plane.iter().copied()).collect();
            for _ in 0..frame.pixels() {
                planes.iter_mut().filter_map(Iterator::next).for_each(&mut push);
            }
        } else {
            self.planes.iter().flatten().copied().for_each(&mut push);
        }
        Ok(out)
    }
}

/// Parses DRI: a number of 2 to 4 bytes.
fn restart_rows(segment: &[u8]) -> Result<usize, CodecFailure> {
    match segment.len() {
        2..=4 => Ok(segment.iter().fold(0, |rows, byte| rows << 8 | usize::from(*byte))),
        other => Err(corrupt(NAME, format!("a restart interval of {other} bytes"))),
    }
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the image is truncated")
}

fn unsupported(what: &str) -> CodecFailure {
    CodecFailure::NoDecoder(format!("{NAME}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = &[0xff, 0xd8, 0xff, 0xf7, 0, 11, 8, 0, 4, 0, 4, 1, 1, 0x11, 0];
    const SCAN: &[u8] = &[0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0];
    /// Annex H.3 of T.87: an image of 4 × 4 samples, and the bits of its scan.
    const BITS: &[u8] = &[
        0xc0, 0, 0, 0x6c, 0x80, 0x20, 0x8e, 1, 0xc0, 0, 0, 0x57, 0x40, 0, 0, 0x6e, 0xe6, 0, 0, 1, 0xbc, 0x18,
        0, 0, 5, 0xd8, 0, 0, 0x91, 0x60,
    ];
    const SAMPLES: [u8; 16] = [0, 0, 90, 74, 68, 50, 43, 205, 64, 145, 145, 145, 100, 145, 145, 145];

    #[test]
    fn the_example_of_the_standard() {
        let image = [HEAD, SCAN, BITS, &[0xff, EOI]].concat();
        assert_eq!(decode(&image, false, 16).unwrap(), SAMPLES);
        assert!(matches!(decode(&image, false, 15), Err(CodecFailure::TooLong { .. })));
        for length in 0..image.len() - 3 {
            assert!(decode(&image[..length], false, 16).is_err(), "{length} bytes");
        }
    }

    /// Contexts and the row above start anew after a restart marker.
    #[test]
    fn restart_markers_separate_rows() {
        let mut image =
            [HEAD, &[0xff, DRI, 0, 4, 0, 4], SCAN, BITS, &[0xff, 0xd0], BITS, &[0xff, EOI]].concat();
        image[8] = 8;
        assert_eq!(decode(&image, true, 32).unwrap(), [SAMPLES, SAMPLES].concat());
        image[20] = 3;
        assert!(decode(&image, true, 32).is_err());
    }
}
