//! Strips of Zeiss LSM files (tag 34412). Directories are in pairs: an image and its thumbnail.
//!
//! Offsets of strips beyond 4 GiB are stored modulo 2^32. StripByteCounts of compressed images, except for thumbnails, are
//! the sizes before compression.

use virtualize_bytes::{Cursor, Endian};

use super::{header::MAX_CLASSIC, tag};
use crate::{
    Error, Structure,
    model::{Ifd, Image, Value},
};

/// Corrects the strips of all directories of the main chain, in a file of `size` bytes. Refuses the images if their
/// order cannot be determined.
pub(crate) fn unwrap(mut ifds: Vec<&mut Ifd>, endian: Endian, size: u64) {
    let Some(info) = ifds.first().and_then(|ifd| dimensions(ifd, endian)) else { return };
    if size >= MAX_CLASSIC
        && let Err(problem) = unwrap_offsets(&mut ifds, info)
    {
        for ifd in &mut ifds {
            ifd.image = Err(Error::unsupported(Structure::Tag(tag::LSM_INFO), ifd.offset, problem));
        }
    }
    // Each strip of a compressed image ends before the next one of any image. The last one may be up to twice as long as
    // before compression.
    let images = ifds.iter().filter_map(|ifd| ifd.image.as_ref().ok());
    let mut sorted: Vec<u64> = images.flat_map(|image| image.offsets.iter().copied()).collect();
    sorted.sort_unstable();
    let images = ifds.iter_mut().step_by(2).filter_map(|ifd| ifd.image.as_mut().ok());
    for image in images.filter(|image| image.compression != 1) {
        for (offset, count) in image.offsets.iter().zip(&mut image.byte_counts) {
            let next = sorted.partition_point(|other| other <= offset);
            let end =
                sorted.get(next).copied().unwrap_or_else(|| offset.saturating_add(count.saturating_mul(2)));
            *count = end.min(size).saturating_sub(*offset);
        }
    }
}

/// Numbers of time points, positions and mosaic tiles, each at least 1.
type Dimensions = [usize; 3];

/// Returns the dimensions of an LSM file; `None` for other files.
fn dimensions(ifd: &Ifd, endian: Endian) -> Option<Dimensions> {
    let bytes: Vec<u8> = match ifd.tags.get(&tag::LSM_INFO)? {
        Value::Bytes(bytes) => bytes.clone(),
        Value::Unsigned(bytes) => bytes.iter().filter_map(|&byte| u8::try_from(byte).ok()).collect(),
        _ => return None,
    };
    let at = |offset: usize| {
        let mut cursor = Cursor::new(bytes.get(offset..)?, 0, endian);
        usize::try_from(cursor.u32().ok()?.cast_signed()).ok()
    };
    Some([24, 264, 268].map(|offset| at(offset).unwrap_or(1).max(1)))
}

/// Adds 2^32 to the offsets wherever they decrease in the order of acquisition.
fn unwrap_offsets(ifds: &mut [&mut Ifd], dimensions: Dimensions) -> Result<(), &'static str> {
    let images: Result<Vec<&Image>, _> = ifds.iter().map(|ifd| ifd.image.as_ref()).collect();
    let images = images.map_err(|_| "offsets beyond 4 GiB, and an image whose offsets are unknown")?;
    if images.len() % 2 != 0 {
        return Err("offsets beyond 4 GiB, and an image without a thumbnail");
    }
    let order = order(images.len() / 2, dimensions).ok_or("offsets beyond 4 GiB in an unknown order")?;
    let first = |at: usize| images.get(at).and_then(|image| image.offsets.first());
    let thumbnail_first = first(0) > first(1);
    let (mut wrapped, mut previous) = (0_u64, 0);
    for at in order.flat_map(|pair| {
        let both = [pair.saturating_mul(2), pair.saturating_mul(2).saturating_add(1)];
        if thumbnail_first { [both[1], both[0]] } else { both }
    }) {
        let Some(Ok(image)) = ifds.get_mut(at).map(|ifd| ifd.image.as_mut()) else { continue };
        for offset in image.offsets.iter_mut().filter(|offset| **offset != 0) {
            if *offset < previous {
                wrapped = wrapped.saturating_add(MAX_CLASSIC);
            }
            previous = *offset;
            *offset = offset.saturating_add(wrapped);
        }
    }
    Ok(())
}

/// Returns the numbers of the pairs in the order in which they were acquired. Directories are sorted by mosaic tile,
/// position and time; acquisition is by time, position and mosaic tile. `None` if the dimensions do not divide the pairs.
fn order(pairs: usize, [times, positions, tiles]: Dimensions) -> Option<impl Iterator<Item = usize>> {
    let [times, positions, tiles] = match [times, positions, tiles].iter().filter(|count| **count > 1).count()
    {
        0 | 1 => [1, 1, 1],
        _ => [times, positions, tiles],
    };
    let groups = times.checked_mul(positions)?.checked_mul(tiles)?;
    let inner = pairs.checked_div(groups).filter(|inner| Some(pairs) == inner.checked_mul(groups))?;
    let of = move |time: usize, position: usize, tile: usize| {
        let group = tile.saturating_mul(positions).saturating_add(position).saturating_mul(times);
        let start = group.saturating_add(time).saturating_mul(inner);
        start..start.saturating_add(inner)
    };
    Some((0..times).flat_map(move |time| {
        (0..positions).flat_map(move |position| (0..tiles).flat_map(move |tile| of(time, position, tile)))
    }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn pairs_are_in_the_order_of_acquisition() {
        let order = |pairs, dimensions| super::order(pairs, dimensions).map(Iterator::collect::<Vec<_>>);
        assert_eq!(order(3, [3, 1, 1]), Some(vec![0, 1, 2]));
        assert_eq!(order(4, [2, 2, 1]), Some(vec![0, 2, 1, 3]));
        assert_eq!(order(12, [2, 1, 3]), Some(vec![0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]));
        assert_eq!(order(5, [2, 2, 1]), None);
    }
}
