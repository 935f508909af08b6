//! Bytes of strips and tiles: as stored, or derived where the file has none that can be right. The rules are those of
//! libtiff, with which most files are written and read.

use crate::model::{Cut, Image};

const UNCOMPRESSED: u16 = 1;

/// The byte counts of an image whose offsets are set, and whether some were derived.
pub(crate) fn resolve(image: &Image, mut stored: Vec<u64>, size: u64) -> (Vec<u64>, bool) {
    stored.truncate(image.offsets.len());
    if image.compression == UNCOMPRESSED {
        return uncompressed(image, &stored, size);
    }
    let mut counts = stored;
    let lone = image.offsets.len() == 1 && counts == [0] && image.offsets != [0];
    if counts.len() == image.offsets.len() && !lone {
        return (counts, false);
    }
    if lone {
        counts.clear();
    }
    let lacking = image.offsets.get(counts.len()..).unwrap_or_default();
    let derived = lacking.iter().any(|&offset| offset != 0);
    let mut sorted = image.offsets.clone();
    sorted.sort_unstable();
    counts.extend(lacking.iter().map(|&offset| up_to_the_next(offset, &sorted, size)));
    (counts, derived)
}

/// A compressed piece ends at the latest where the next one begins, or the file ends.
fn up_to_the_next(offset: u64, sorted: &[u64], size: u64) -> u64 {
    let next = sorted.partition_point(|&other| other <= offset);
    let end = sorted.get(next).copied().unwrap_or(size).min(size);
    if offset == 0 { 0 } else { end.saturating_sub(offset) }
}

fn uncompressed(image: &Image, stored: &[u64], size: u64) -> (Vec<u64>, bool) {
    let lengths = Lengths::of(image);
    let one_strip = image.offsets.len() == 1 && matches!(image.cut, Cut::Strips { .. });
    let mut derived = false;
    let counts = image.offsets.iter().enumerate().map(|(index, &offset)| {
        let whole = lengths.piece(index);
        match stored.get(index) {
            _ if offset == 0 => 0,
            Some(&count) if !(one_strip && looks_wrong(offset, count, whole, size)) => count.min(whole),
            _ => {
                derived = true;
                whole
            }
        }
    });
    let counts = counts.collect();
    (counts, derived)
}

/// libtiff's `ByteCountLooksBad`, which it asks of images of one strip only.
fn looks_wrong(offset: u64, count: u64, whole: u64, size: u64) -> bool {
    count < whole || (offset <= size && count > size.saturating_sub(offset))
}

/// Bytes of the uncompressed strips or tiles of an image.
struct Lengths<'a> {
    image: &'a Image,
    /// Strips or tiles of one plane.
    per_plane: usize,
    /// Bits of a pixel in each plane.
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

    /// Bytes of `height` rows of `width` pixels.
    fn rows(&self, width: u64, height: u64, bits: u64) -> u64 {
        if let Some((horizontal, vertical)) = self.subsampled() {
            let block = horizontal.saturating_mul(vertical).saturating_add(2);
            let blocks = width.div_ceil(horizontal).saturating_mul(height.div_ceil(vertical));
            let bits = u64::from(self.image.bits_per_sample.first().copied().unwrap_or(8));
            return blocks.saturating_mul(block).saturating_mul(bits).div_ceil(8);
        }
        width.saturating_mul(bits).div_ceil(8).saturating_mul(height)
    }

    /// The subsampling of uncompressed YCbCr, whose samples lie in blocks.
    fn subsampled(&self) -> Option<(u64, u64)> {
        let (horizontal, vertical) = self.image.ycbcr_subsampling;
        let ycbcr =
            self.image.photometric == Some(6) && self.image.samples_per_pixel == 3 && !self.image.planar;
        (ycbcr && horizontal > 0 && vertical > 0).then(|| (u64::from(horizontal), u64::from(vertical)))
    }
}
