//! Decodes WebP images (RFC 9649), and adds rows to them, so that readers which expect a full chunk decode a shorter one.
//! The crate `image-webp` decodes to the same bytes as libwebp, and encodes without loss.

use std::io::Cursor;

use image_webp::{ColorType, WebPDecoder, WebPEncoder};

use crate::{CodecFailure, bounded, corrupt};

const NAME: &str = "WebP";

/// Appends rows of zeros to an image of `rows` rows up to `height`.
///
/// # Errors
/// Images of another size, damaged ones, and more than `limit` decoded bytes.
pub fn with_rows(
    bytes: &[u8],
    width: u64,
    rows: u64,
    height: u64,
    limit: u64,
) -> Result<Vec<u8>, CodecFailure> {
    let broken = |error: &dyn ToString| corrupt(NAME, error.to_string());
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(|error| broken(&error))?;
    let (columns, lines) = decoder.dimensions();
    if (u64::from(columns), u64::from(lines)) != (width, rows) {
        let found = format!("an image of {lines} x {columns}, expected {rows} rows of {width}");
        return Err(corrupt(NAME, found));
    }
    let (channels, color) = if decoder.has_alpha() { (4, ColorType::Rgba8) } else { (3, ColorType::Rgb8) };
    let size = width.saturating_mul(height).saturating_mul(channels);
    let size = usize::try_from(size).ok().filter(|_| size <= limit && rows <= height);
    let size = size.ok_or_else(|| corrupt(NAME, format!("{height} rows of {width} are too many")))?;
    decoder.set_memory_limit(size);
    let mut pixels = vec![0; decoder.output_buffer_size().unwrap_or(0)];
    decoder.read_image(&mut pixels).map_err(|error| broken(&error))?;
    pixels.resize(size, 0);
    let height = u32::try_from(height).map_err(|error| broken(&error))?;
    let mut out = Vec::new();
    WebPEncoder::new(&mut out).encode(&pixels, columns, height, color).map_err(|error| broken(&error))?;
    Ok(out)
}

/// Decodes an image to RGB or, if it has an alpha channel or `has_alpha` requests one, RGBA.
///
/// # Errors
/// Damaged images, and those of more than `limit` bytes.
pub(crate) fn decode(bytes: &[u8], has_alpha: bool, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let broken = |error: &dyn ToString| corrupt(NAME, error.to_string());
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(|error| broken(&error))?;
    let size = bounded(NAME, decoder.output_buffer_size(), limit)?;
    decoder.set_memory_limit(limit);
    let mut pixels = vec![0; size];
    decoder.read_image(&mut pixels).map_err(|error| broken(&error))?;
    if has_alpha && !decoder.has_alpha() {
        pixels = pixels.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [r, g, b, u8::MAX]).collect();
    }
    Ok(pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added() {
        let mut short = Vec::new();
        WebPEncoder::new(&mut short).encode(&[1, 2, 3, 4, 5, 6], 2, 1, ColorType::Rgb8).unwrap();
        let taller = with_rows(&short, 2, 1, 2, 12).unwrap();
        let mut decoder = WebPDecoder::new(Cursor::new(&taller)).unwrap();
        let mut pixels = vec![9; 12];
        decoder.read_image(&mut pixels).unwrap();
        assert_eq!(pixels, [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]);
        assert!(with_rows(&short, 2, 1, 2, 11).is_err(), "the limit");
        assert!(with_rows(&short, 3, 1, 2, 99).is_err() && with_rows(b"RIFF", 2, 1, 2, 99).is_err());
    }
}
