//! Adds rows to PNG images (W3C, third edition), so that readers which expect a full chunk decode a shorter one.
//!
//! ```text
//! 8  signature
//! for each chunk, numbers big-endian: 4 length of the body, 4 kind, body, 4 CRC of kind and body
//! ```
//!
//! `IDAT` chunks together hold one zlib stream of rows, each after a byte that names its filter.

use crate::{CodecFailure, codecs::streams, corrupt};

const NAME: &str = "PNG";
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Appends rows of zeros to an image of `rows` rows up to `height`. Existing rows keep their filters.
///
/// # Errors
/// Images of another size, interlaced ones, and damaged ones.
pub fn with_rows(bytes: &[u8], width: u64, rows: u64, height: u64) -> Result<Vec<u8>, CodecFailure> {
    let mut rest = bytes.strip_prefix(SIGNATURE).ok_or_else(|| corrupt(NAME, "no signature"))?;
    let (mut out, mut row, mut stored) = (SIGNATURE.to_vec(), 0, Vec::new());
    loop {
        let ((kind, body), next) = chunk(rest)?;
        rest = next;
        match &kind {
            b"IHDR" => {
                row = row_length(body, width, rows)?;
                write(&mut out, kind, &taller(body, height)?);
            }
            b"IDAT" => stored.extend(body),
            b"IEND" => break,
            _ if stored.is_empty() => write(&mut out, kind, body),
            // Chunks after the image do not affect it.
            _ => {}
        }
    }
    let length = |rows: u64| usize::try_from(rows.saturating_mul(row)).map_err(|error| corrupt(NAME, error));
    let mut all = streams::decode_zlib(&stored, length(rows)?)?;
    if row == 0 || all.len() < length(rows)? {
        return Err(corrupt(NAME, format!("{} bytes of rows, expected {}", all.len(), length(rows)?)));
    }
    all.truncate(length(rows)?);
    all.resize(length(height)?, 0);
    write(&mut out, *b"IDAT", &streams::encode_zlib(&all, 6)?);
    write(&mut out, *b"IEND", &[]);
    Ok(out)
}

/// Kind and body of a chunk.
type Chunk<'a> = ([u8; 4], &'a [u8]);

/// Splits off a chunk, whose CRC is not checked.
fn chunk(rest: &[u8]) -> Result<(Chunk<'_>, &[u8]), CodecFailure> {
    let parts = || {
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        Some(((*kind, body), rest.get(4..)?))
    };
    parts().ok_or_else(|| corrupt(NAME, "a chunk is truncated"))
}

/// Returns the bytes of a row with its filter byte, from the header.
fn row_length(header: &[u8], width: u64, rows: u64) -> Result<u64, CodecFailure> {
    let head: &[u8; 13] = header.try_into().map_err(|_| corrupt(NAME, "a header of another length"))?;
    let [w0, w1, w2, w3, h0, h1, h2, h3, bits, color, _, _, interlace] = *head;
    let size = (u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]));
    if (u64::from(size.0), u64::from(size.1)) != (width, rows) {
        let found = format!("an image of {} x {}, expected {rows} rows of {width}", size.1, size.0);
        return Err(corrupt(NAME, found));
    }
    if interlace != 0 {
        return Err(CodecFailure::NoDecoder("interlaced PNG".into()));
    }
    let channels: u64 = match color {
        0 | 3 => 1,
        2 => 3,
        4 => 2,
        6 => 4,
        other => return Err(corrupt(NAME, format!("color type {other}"))),
    };
    Ok(width.saturating_mul(channels).saturating_mul(bits.into()).div_ceil(8).saturating_add(1))
}

fn taller(header: &[u8], height: u64) -> Result<Vec<u8>, CodecFailure> {
    let height = u32::try_from(height).map_err(|error| corrupt(NAME, error))?;
    let mut header = header.to_vec();
    if let Some(place) = header.get_mut(4..).and_then(|rest| rest.first_chunk_mut()) {
        *place = height.to_be_bytes();
    }
    Ok(header)
}

fn write(out: &mut Vec<u8>, kind: [u8; 4], body: &[u8]) {
    out.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(&kind);
    crc.update(body);
    out.extend(kind);
    out.extend(body);
    out.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(interlace: u8) -> Vec<u8> {
        let mut png = SIGNATURE.to_vec();
        write(&mut png, *b"IHDR", &[0, 0, 0, 2, 0, 0, 0, 1, 8, 0, 0, 0, interlace]);
        write(&mut png, *b"IDAT", &streams::encode_zlib(&[0, 7, 9], 6).unwrap());
        write(&mut png, *b"IEND", &[]);
        png
    }

    /// `imagecodecs.png_decode` shows 7, 9 and zeros.
    #[test]
    fn rows_are_added() {
        let taller = with_rows(&image(0), 2, 1, 3).unwrap();
        let ((_, header), rest) = chunk(&taller[8..]).unwrap();
        assert_eq!(row_length(header, 2, 3), Ok(3));
        let ((kind, rows), _) = chunk(rest).unwrap();
        assert_eq!(&kind, b"IDAT");
        assert_eq!(streams::decode_zlib(rows, 9).unwrap(), [0, 7, 9, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_images_are_refused() {
        assert!(with_rows(&image(1), 2, 1, 3).is_err(), "interlaced");
        assert!(with_rows(&image(0), 3, 1, 3).is_err() && with_rows(&image(0), 2, 2, 3).is_err());
        for length in 0..image(0).len() - 4 {
            assert!(with_rows(&image(0)[..length], 2, 1, 3).is_err(), "{length} bytes");
        }
    }
}
