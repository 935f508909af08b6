//! Adds rows to JPEG 2000 codestreams (ITU-T T.800), so that readers which expect a full chunk decode a shorter one.
//!
//! The image becomes the first tile of a taller one. The tiles below it consist of empty packets, whose headers are one
//! zero bit each.

use crate::{CodecFailure, corrupt};

const NAME: &str = "JPEG 2000";
const SIZE: u16 = 0xff51;
const CODING_STYLE: u16 = 0xff52;
const START_OF_TILE: u16 = 0xff90;
const END: &[u8] = b"\xff\xd9";
/// Markers with lengths of tiles and packets, which are optional.
const LENGTHS: [u16; 2] = [0xff55, 0xff57];
/// Markers of a changed packet order and of packed packet headers.
const UNSUPPORTED: [u16; 2] = [0xff5f, 0xff60];
/// Greatest number of tiles of a codestream.
const MAX_TILES: u64 = 0xffff;

/// Adds tiles below an image of `rows` rows up to `height`. Its own rows decode as before.
///
/// # Errors
/// Files with boxes around the codestream, several tiles, images of another size, and the markers listed in `UNSUPPORTED`.
pub fn with_rows(bytes: &[u8], width: u64, rows: u64, height: u64) -> Result<Vec<u8>, CodecFailure> {
    let broken = |reason: &str| corrupt(NAME, reason);
    let mut rest = bytes.strip_prefix(b"\xff\x4f").ok_or_else(|| broken("no bare codestream"))?;
    let mut out = b"\xff\x4f".to_vec();
    let (mut components, mut coding) = (0, None);
    let tiles = loop {
        let (marker, body, next) = segment(rest).ok_or_else(|| broken("the codestream is truncated"))?;
        match marker {
            START_OF_TILE => break rest,
            SIZE => {
                let size = Size::parse(body).ok_or_else(|| broken("its sizes are cut off"))?;
                size.check(width, rows)?;
                components = size.components;
                write(&mut out, marker, &size.taller(body, rows, height)?);
            }
            marker if LENGTHS.contains(&marker) => {}
            marker if UNSUPPORTED.contains(&marker) => {
                return Err(CodecFailure::NoDecoder(format!("JPEG 2000 with the marker {marker:#x}")));
            }
            _ => write(&mut out, marker, body),
        }
        if marker == CODING_STYLE {
            coding = body.get(4).copied().zip(body.get(9).copied());
        }
        rest = next;
    };
    let (transform, wavelet) = coding.ok_or_else(|| broken("it has no coding style"))?;
    out.extend(first_tile(tiles)?);
    for index in 1..height.div_ceil(rows.max(1)).min(MAX_TILES) {
        out.extend(empty_tile(index, components, transform, wavelet)?);
    }
    out.extend(END);
    Ok(out)
}

/// A marker, its body and what follows.
fn segment(rest: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (marker, rest) = rest.split_first_chunk::<2>()?;
    let (length, _) = rest.split_first_chunk::<2>()?;
    let (body, next) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)).max(2))?;
    Some((u16::from_be_bytes(*marker), body.get(2..)?, next))
}

fn write(out: &mut Vec<u8>, marker: u16, body: &[u8]) {
    out.extend(marker.to_be_bytes());
    out.extend(u16::try_from(body.len().saturating_add(2)).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(body);
}

/// Sizes of image and tiles (T.800, A.5.1).
struct Size {
    /// Xsiz, Ysiz, XOsiz, YOsiz, XTsiz, YTsiz, XTOsiz, YTOsiz.
    numbers: [u32; 8],
    components: u16,
}

impl Size {
    fn parse(body: &[u8]) -> Option<Self> {
        let all = body.get(2..)?.split_first_chunk::<32>()?;
        let mut numbers = [0; 8];
        for (number, bytes) in numbers.iter_mut().zip(all.0.as_chunks::<4>().0) {
            *number = u32::from_be_bytes(*bytes);
        }
        Some(Self { numbers, components: u16::from_be_bytes(*all.1.first_chunk()?) })
    }

    fn check(&self, width: u64, rows: u64) -> Result<(), CodecFailure> {
        let [columns, lines, x, y, tile_columns, tile_lines, tile_x, tile_y] = self.numbers;
        if (u64::from(columns), u64::from(lines)) != (width, rows) {
            let found = format!("an image of {lines} x {columns}, expected {rows} rows of {width}");
            return Err(corrupt(NAME, found));
        }
        if (x, y, tile_x, tile_y) != (0, 0, 0, 0) || tile_columns < columns || tile_lines < lines {
            return Err(CodecFailure::NoDecoder("JPEG 2000 of several tiles".into()));
        }
        Ok(())
    }

    /// The same segment with tiles of so many rows.
    fn taller(&self, body: &[u8], rows: u64, height: u64) -> Result<Vec<u8>, CodecFailure> {
        let number = |rows: u64| u32::try_from(rows).map_err(|error| corrupt(NAME, error));
        let mut body = body.to_vec();
        for (at, rows) in [(6, height), (22, rows)] {
            if let Some(place) = body.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *place = number(rows)?.to_be_bytes();
            }
        }
        Ok(body)
    }
}

/// All parts of the one tile. The last of them may leave its length to the end of the codestream.
fn first_tile(parts: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let broken = || corrupt(NAME, "its tile is cut off");
    let end = parts.len().checked_sub(END.len()).filter(|end| parts.get(*end..) == Some(END));
    let mut out = parts.get(..end.ok_or_else(broken)?).ok_or_else(broken)?.to_vec();
    let mut at = 0;
    while at < out.len() {
        let left = out.len().saturating_sub(at);
        let head = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<12>()).ok_or_else(broken)?;
        let [0xff, 0x90, _, _, 0, 0, l0, l1, l2, l3, ..] = head else { return Err(broken()) };
        let length = match usize::try_from(u32::from_be_bytes([*l0, *l1, *l2, *l3])).map_err(|_| broken())? {
            0 => left,
            length => length,
        };
        [*l0, *l1, *l2, *l3] = u32::try_from(length).map_err(|_| broken())?.to_be_bytes();
        if !(12..=left).contains(&length) {
            return Err(broken());
        }
        at = at.saturating_add(length);
    }
    Ok(out)
}

/// A tile of one layer and one resolution, whose packets are empty.
fn empty_tile(index: u64, components: u16, transform: u8, wavelet: u8) -> Result<Vec<u8>, CodecFailure> {
    let index = u16::try_from(index).map_err(|error| corrupt(NAME, error))?;
    let mut style = Vec::new();
    // Progression by layer; 1 layer; no decomposition; blocks of 64 × 64.
    write(&mut style, CODING_STYLE, &[0, 0, 0, 1, transform, 0, 4, 4, 0, wavelet]);
    let length = 12_u32 + u32::try_from(style.len()).unwrap_or(0) + 2 + u32::from(components);
    let mut tile = START_OF_TILE.to_be_bytes().to_vec();
    tile.extend(10_u16.to_be_bytes());
    tile.extend(index.to_be_bytes());
    tile.extend(length.to_be_bytes());
    tile.extend([0, 1]);
    tile.extend(style);
    tile.extend(b"\xff\x93");
    tile.resize(tile.len().saturating_add(components.into()), 0);
    Ok(tile)
}
