//! LERC2 (Limited Error Raster Compression, versions 3 to 6) of floating-point pixels: its header, its masks, and its
//! values. Libtiff stores NaN as a mask; Zarr readers ignore masks. So chunks that have one are decoded here, with NaN
//! where the mask says so, and written again as a blob that is valid throughout.
//!
//! ```text
//! | "Lerc2 " | version i32 | checksum u32 | rows i32 | columns i32 | depth i32 (from 4) | valid pixels i32
//! | micro block i32 | blob size i32 | data type i32 | more blobs i32, flags 4 × u8 (6)
//! | greatest error f64 | least f64 | greatest f64 | no data 2 × f64 (6)
//! | size of the mask i32 | mask | least and greatest of each depth (from 4) | one sweep u8 | values
//! ```
//!
//! All numbers are little-endian.

mod bits;
mod head;
mod mask;
mod values;
mod write;

use virtualize_zarr::Codec;

pub use head::Head;

use crate::{CodecFailure, compressors, corrupt};
use bits::Input;

/// Blobs of one chunk, one a sample: more are not believed.
const MOST_BLOBS: usize = 1 << 16;
/// A run of a mask takes three bytes for at most 32,767 times eight pixels.
const MOST_PIXELS_OF_A_BYTE: usize = 32_767 * 8 / 3 + 1;

/// Undoes what lies around the blobs (Deflate, Zstandard or nothing), up to `limit` bytes.
///
/// # Errors
/// See [`CodecFailure`].
pub fn unwrap(outer: &[Codec], bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    match outer {
        [] => Ok(bytes.iter().take(limit).copied().collect()),
        [Codec::Zlib { .. }] => compressors::zlib_decode(bytes, limit),
        [Codec::Zstd { .. }] => compressors::zstd_decode(bytes, limit),
        [other, ..] => Err(CodecFailure::NoDecoder(other.describe())),
    }
}

/// Decodes the blobs of a chunk: one, or one a sample, which then become the last axis as they are in libtiff. Masked
/// pixels are NaN. Little-endian numbers of 4 or 8 bytes, of which there must be `elements`.
///
/// # Errors
/// See [`CodecFailure`].
pub fn decode(bytes: &[u8], elements: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut bands: Vec<Vec<u8>> = Vec::new();
    let (mut rest, mut known, mut found) = (bytes, None, 0_usize);
    let mut first: Option<Head> = None;
    while found < elements && bands.len() < MOST_BLOBS {
        let head = Head::parse(rest)?;
        if first.get_or_insert(head).differs(&head) {
            return Err(broken("blobs of one chunk differ"));
        }
        let samples = head.samples().filter(|samples| *samples <= elements - found);
        let samples = samples.ok_or_else(|| broken("its blobs have other sizes than the chunk"))?;
        let blob = rest.get(..head.blob_size).ok_or_else(|| broken("the blob is cut off"))?;
        let mut input = head.check(blob)?;
        let valid = mask::read(&mut input, &head, known.take())?;
        bands.push(values::read(&mut input, &head, &valid, samples)?);
        known = Some(valid);
        found = found.saturating_add(samples.max(1));
        rest = rest.get(head.blob_size..).unwrap_or_default();
    }
    if found != elements {
        return Err(broken("its blobs have other sizes than the chunk"));
    }
    let size = first.map_or(4, |head| head.size());
    Ok(interleave(bands, size))
}

/// Whether every pixel of the first so many rows and columns is valid, by the mask of the one blob at the front of these
/// bytes, of which header and mask must be there. Its checksum is not compared.
///
/// # Errors
/// See [`CodecFailure`].
pub fn is_valid_within(bytes: &[u8], rows: u64, columns: u64) -> Result<bool, CodecFailure> {
    let head = Head::parse(bytes)?;
    if head.rows.saturating_mul(head.columns) > bytes.len().saturating_mul(MOST_PIXELS_OF_A_BYTE) {
        return Err(broken("a mask that is too short"));
    }
    let valid = mask::read(&mut head.after(bytes), &head, None)?;
    let inside = valid.chunks(head.columns).zip(0..rows);
    Ok(inside.flat_map(|(row, _)| row.iter().zip(0..columns)).all(|(valid, _)| *valid))
}

/// A blob without a mask that holds these little-endian numbers of 4 or 8 bytes, uncompressed; the last axis is the
/// depth.
///
/// # Errors
/// [`CodecFailure::Parameters`] where the sizes do not fit.
pub fn encode(shape: [u32; 3], size: usize, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    write::blob(shape, size, bytes)
}

/// Samples that lie one after the other, pixel by pixel.
fn interleave(mut bands: Vec<Vec<u8>>, size: usize) -> Vec<u8> {
    if bands.len() == 1 {
        return bands.pop().unwrap_or_default();
    }
    let pixels = bands.first().map_or(0, |band| band.len() / size);
    let mut whole = Vec::with_capacity(bands.iter().map(Vec::len).sum());
    for pixel in 0..pixels {
        for band in &bands {
            whole.extend(band.iter().skip(pixel * size).take(size));
        }
    }
    whole
}

fn broken(reason: &str) -> CodecFailure {
    corrupt("lerc", reason)
}

fn read<'a>(input: &mut Input<'a>, count: usize) -> Result<&'a [u8], CodecFailure> {
    input.take(count).ok_or_else(|| broken("the blob ends early"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rasterio` 1.5 wrote 1.5, NaN, 3.25 and 4, 5, NaN with `compress="LERC"`.
    #[rustfmt::skip]
    const BLOB: &[u8] = &[
        76, 101, 114, 99, 50, 32, 4, 0, 0, 0, 228, 122, 114, 26, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0,
        100, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 248, 63, 0, 0, 0, 0, 0, 0, 20, 64, 5, 0, 0, 0,
        1, 0, 187, 0, 128, 0, 0, 192, 63, 0, 0, 160, 64, 1, 0, 0, 192, 63, 0, 0, 80, 64, 0, 0, 128, 64, 0, 0, 160, 64,
    ];

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
    }

    #[test]
    fn masked_pixels_are_nan() {
        let values = floats(&decode(BLOB, 6).unwrap());
        assert!(values[1].is_nan() && values[5].is_nan());
        assert_eq!([values[0], values[2], values[3], values[4]], [1.5, 3.25, 4.0, 5.0]);
        let head = Head::parse(BLOB).unwrap();
        assert_eq!((head.rows, head.columns, head.depth, head.valid), (2, 3, 1, 4));
        assert!(!head.is_plain(6, 4) && head.holds(6, 4) && !head.holds(6, 8));
        assert_eq!(is_valid_within(BLOB, 2, 1), Ok(true));
        assert_eq!(is_valid_within(BLOB, 2, 2), Ok(false));
    }

    #[test]
    fn a_blob_is_written_without_a_mask() {
        let values = decode(BLOB, 6).unwrap();
        let blob = encode([2, 3, 1], 4, &values).unwrap();
        assert!(Head::parse(&blob).unwrap().is_plain(6, 4));
        assert_eq!(decode(&blob, 6).unwrap(), values);
        assert!(encode([2, 2, 1], 4, &values).is_err());
    }

    #[test]
    fn blobs_of_several_samples_are_interleaved() {
        let values = floats(&decode(&[BLOB, BLOB].concat(), 12).unwrap());
        assert_eq!([values[0], values[1], values[4], values[5]], [1.5, 1.5, 3.25, 3.25]);
    }

    #[test]
    fn damage_is_found() {
        for length in 0..BLOB.len() {
            assert!(decode(&BLOB[..length], 6).is_err(), "cut off after {length} bytes");
        }
        for at in 14..BLOB.len() {
            let mut damaged = BLOB.to_vec();
            damaged[at] ^= 0x20;
            assert!(decode(&damaged, 6).is_err(), "byte {at}");
        }
        assert!(decode(BLOB, 5).is_err() && decode(BLOB, 7).is_err(), "other sizes");
    }

    /// `rasterio` 1.5: two samples of 24 × 20 pixels, `max_z_error=0.01`, and what GDAL reads of them.
    const BLOCKS: &[u8] = include_bytes!("../../tests/data/lerc.bin");
    const VALUES: &[u8] = include_bytes!("../../tests/data/lerc.f32");

    #[test]
    fn blocks_are_those_of_gdal() {
        assert_eq!(decode(BLOCKS, 24 * 20 * 2).unwrap(), VALUES);
    }

    /// Whatever is behind a checksum that fits: no panic.
    #[test]
    fn damage_behind_the_checksum_does_no_harm() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let mut blob = if random(2) == 0 { BLOCKS.to_vec() } else { BLOB.to_vec() };
            for _ in 0..=random(4) {
                let at = 14 + random(blob.len() - 14);
                blob[at] = u8::try_from(random(256)).unwrap();
            }
            let checksum = head::fletcher32(&blob[14..]);
            blob[10..14].copy_from_slice(&checksum.to_le_bytes());
            drop(decode(&blob, 960));
            drop(is_valid_within(&blob, 24, 20));
        }
    }
}
