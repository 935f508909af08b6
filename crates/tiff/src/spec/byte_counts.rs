//! Byte counts of strips and tiles: as stored, or derived if they are missing or implausible. The rules are those of
//! libtiff, which writes and reads most files.

use crate::model::{Cut, Image};

const UNCOMPRESSED: u16 = 1;

/// Completes the byte counts of an image with offsets. Returns whether they were derived: if there is no table, or if
/// the count of a single strip is implausible. A short table is padded with 0, which means missing strips or tiles.
pub(crate) fn resolve(image: &Image, mut stored: Vec<u64>, size: u64) -> (Vec<u64>, bool) {
    let compressed = image.compression != UNCOMPRESSED;
    if stored.is_empty() || one_strip_looks_wrong(image, &stored, size) {
        let derived = if compressed { up_to_the_next(image, size) } else { computed(image) };
        return (derived, true);
    }
    stored.resize(image.offsets.len(), 0);
    if !compressed {
        trim(image, &mut stored);
    }
    (stored, false)
}

/// Derives the counts of compressed strips or tiles, each of which ends before the next one or at the end of the file.
fn up_to_the_next(image: &Image, size: u64) -> Vec<u64> {
    let mut sorted = image.offsets.clone();
    sorted.sort_unstable();
    let length = |&offset: &u64| {
        let next = sorted.partition_point(|&other| other <= offset);
        let end = sorted.get(next).copied().unwrap_or(size).min(size);
        if offset == 0 { 0 } else { end.saturating_sub(offset) }
    };
    image.offsets.iter().map(length).collect()
}

/// Derives the counts of uncompressed strips or tiles from their size.
fn computed(image: &Image) -> Vec<u64> {
    let lengths = Lengths::of(image);
    let length = |(index, &offset): (usize, &u64)| if offset == 0 { 0 } else { lengths.piece(index) };
    image.offsets.iter().enumerate().map(length).collect()
}

/// Reduces the counts of uncompressed strips or tiles to the bytes that their pixels need.
fn trim(image: &Image, counts: &mut [u64]) {
    let lengths = Lengths::of(image);
    for (index, count) in counts.iter_mut().enumerate() {
        *count = lengths.piece(index).min(*count);
    }
}

/// libtiff's `ByteCountLooksBad`, which applies to images of one strip.
fn one_strip_looks_wrong(image: &Image, stored: &[u64], size: u64) -> bool {
    let (&[offset], Some(&count), Cut::Strips { .. }) = (&image.offsets[..], stored.first(), image.cut)
    else {
        return false;
    };
    let too_small = || count < Lengths::of(image).piece(0);
    let too_large = || offset <= size && count > size.saturating_sub(offset);
    offset != 0 && (count == 0 || (image.compression == UNCOMPRESSED && (too_small() || too_large())))
}

/// Sizes of the uncompressed strips or tiles of an image.
struct Lengths<'a> {
    image: &'a Image,
    /// Number of strips or tiles per plane.
    per_plane: usize,
    /// Bits per pixel in each plane.
    bits: Vec<u64>,
}

impl<'a> Lengths<'a> {
    fn of(image: &'a Image) -> Self {
        let bits = image.bits_per_sample.iter().map(|&bits| u64::from(bits));
        let bits: Vec<u64> = if image.planar { bits.collect() } else { vec![bits.sum()] };
        Self { image, per_plane: image.offsets.len().checked_div(bits.len()).unwrap_or(1).max(1), bits }
    }

    fn piece(&self, index: usize) -> u64 {
        let plane = index.checked_div(self.per_plane).unwrap_or(0);
        let bits = self.bits.get(plane).copied().unwrap_or(0);
        match self.image.cut {
            Cut::Tiles { width, height, depth } => self.rows(width, height, bits).saturating_mul(depth),
            Cut::Strips { rows } => {
                let strips = self.image.height.div_ceil(rows.max(1)).max(1);
                let strip = (index as u64).checked_rem(strips).unwrap_or(0);
                let above = strip.saturating_mul(rows);
                self.rows(self.image.width, rows.min(self.image.height.saturating_sub(above)), bits)
            }
        }
    }

    /// Returns the size in bytes of `height` rows of `width` pixels.
    fn rows(&self, width: u64, height: u64, bits: u64) -> u64 {
        if let Some((horizontal, vertical)) = self.subsampled() {
            let block = horizontal.saturating_mul(vertical).saturating_add(2);
            let blocks = width.div_ceil(horizontal).saturating_mul(height.div_ceil(vertical));
            let bits = u64::from(self.image.bits_per_sample.first().copied().unwrap_or(8));
            return blocks.saturating_mul(block).saturating_mul(bits).div_ceil(8);
        }
        width.saturating_mul(bits).div_ceil(8).saturating_mul(height)
    }

    /// Returns the subsampling factors of uncompressed YCbCr, whose samples are stored in blocks.
    fn subsampled(&self) -> Option<(u64, u64)> {
        let (horizontal, vertical) = self.image.ycbcr_subsampling;
        let ycbcr =
            self.image.photometric == Some(6) && self.image.samples_per_pixel == 3 && !self.image.planar;
        (ycbcr && horizontal > 0 && vertical > 0).then(|| (u64::from(horizontal), u64::from(vertical)))
    }
}
