//! Decoders that write to memory of known length, for chunks as they should be: [`decode`] either fills its output with
//! exactly what the decoders of [`crate::codecs`] return, or gives up. Those decide about all other chunks.

use std::fmt;

use virtualize_zarr::Codec;

use crate::codecs::{self, predictor::Layout};

/// Maximum number of bytes that one stored byte is expected to decode to. Memory for more is not allocated in advance.
const RATIO: usize = 2000;
/// Chunks of at most this many bytes are decoded here however few bytes store them.
const SMALL: usize = 1 << 16;

/// Decoders that are used again for the next chunk.
#[derive(Default)]
pub(crate) struct State {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    lzw: Option<weezl::decode::Decoder>,
    row: Vec<u8>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// Returns whether decoders may allocate `length` bytes before they decode `stored` bytes.
pub(crate) fn is_plausible(stored: usize, length: usize) -> bool {
    length <= SMALL || length <= stored.saturating_mul(RATIO)
}

/// Returns whether a codec leaves chunks in stored order unchanged.
pub(crate) fn keeps(codec: &Codec) -> bool {
    matches!(
        codec,
        Codec::Transpose { .. }
            | Codec::Bytes { .. }
            | Codec::ReversedBytes { .. }
            | Codec::VlenUtf8
            | Codec::VlenBytes
            | Codec::Rounded { .. }
    )
}

/// Decodes bytes that fill `out`; `None` if they do not, or are damaged.
pub(crate) fn decode(codec: &Codec, bytes: &[u8], out: &mut [u8], state: &mut State) -> Option<()> {
    match codec {
        Codec::Zlib { .. } => {
            let deflate = state.deflate.get_or_insert_with(libdeflater::Decompressor::new);
            is_full(deflate.zlib_decompress(bytes, out).ok()?, out)
        }
        Codec::Gzip { .. } => {
            // The last member must be the only one.
            let size = u32::from_le_bytes(*bytes.last_chunk::<4>()?);
            is_full(usize::try_from(size).ok()?, out)?;
            let deflate = state.deflate.get_or_insert_with(libdeflater::Decompressor::new);
            is_full(deflate.gzip_decompress(bytes, out).ok()?, out)
        }
        Codec::Zstd { .. } => {
            if state.zstd.is_none() {
                state.zstd = zstd::bulk::Decompressor::new().ok();
            }
            is_full(state.zstd.as_mut()?.decompress_to_buffer(bytes, out).ok()?, out)
        }
        Codec::Shuffle { element_size } => unshuffle(bytes, out, usize::try_from(*element_size).ok()?),
        Codec::Delta { axis, dtype, shape } => delta(bytes, out, *axis, dtype, shape),
        Codec::FloatPredictor { axis, dtype, shape } => {
            float(bytes, out, &mut state.row, *axis, dtype, shape)
        }
        Codec::Lzw => codecs::lzw::decode_into(bytes, out, &mut state.lzw),
        Codec::Hdf5Lz4 => codecs::hdf5_lz4::decode_into(bytes, out),
        other => {
            let decoded = codecs::decode(other, bytes, out.len()).ok()??;
            is_full(decoded.len(), out)?;
            out.copy_from_slice(&decoded);
            Some(())
        }
    }
}

fn is_full(length: usize, out: &[u8]) -> Option<()> {
    (length == out.len()).then_some(())
}

fn unshuffle(bytes: &[u8], out: &mut [u8], size: usize) -> Option<()> {
    is_full(bytes.len(), out)?;
    let count = bytes.len() / size.max(1);
    let (planes, rest) = bytes.split_at(count * size);
    let (elements, end) = out.split_at_mut(count * size);
    end.copy_from_slice(rest);
    interleave(planes, elements, size, false)
}

// Elements from planes: byte 0 of all elements, then byte 1 of all, and so on.

/// Elements per step: as many bytes as a vector register has.
const TILE: usize = 16;

/// Writes elements of `size` bytes from their planes, the last plane first if they are reversed. `None` if the lengths
/// do not fit.
pub(super) fn interleave(planes: &[u8], elements: &mut [u8], size: usize, is_reversed: bool) -> Option<()> {
    if planes.len() != elements.len() {
        return None;
    }
    if planes.is_empty() {
        return Some(());
    }
    match size {
        1 => elements.copy_from_slice(planes),
        2 => tiles::<2>(planes, elements, is_reversed),
        4 => tiles::<4>(planes, elements, is_reversed),
        8 => tiles::<8>(planes, elements, is_reversed),
        _ => {
            for (at, plane) in planes.chunks_exact(planes.len() / size).enumerate() {
                let at = if is_reversed { size - 1 - at } else { at };
                let targets = elements.iter_mut().skip(at).step_by(size);
                targets.zip(plane).for_each(|(target, byte)| *target = *byte);
            }
        }
    }
    Some(())
}

fn tiles<const N: usize>(planes: &[u8], elements: &mut [u8], is_reversed: bool) {
    let count = planes.len() / N;
    let mut each: [&[u8]; N] = [&[]; N];
    for (plane, bytes) in each.iter_mut().zip(planes.chunks_exact(count)) {
        *plane = bytes;
    }
    if is_reversed {
        each.reverse();
    }
    let (elements, _) = elements.as_chunks_mut::<N>();
    let (tiles, rest) = elements.as_chunks_mut::<TILE>();
    let columns = each.map(|plane| plane.as_chunks::<TILE>());
    for (at, tile) in tiles.iter_mut().enumerate() {
        let from = columns.map(|(column, _)| column.get(at).copied().unwrap_or([0; TILE]));
        *tile = transposed(from);
    }
    for (at, element) in rest.iter_mut().enumerate() {
        *element = columns.map(|(_, rest)| rest.get(at).copied().unwrap_or(0));
    }
}

/// Returns the elements of a tile. The compiler turns this into shuffles of vectors.
#[expect(clippy::indexing_slicing, reason = "arrays of constant length")]
fn transposed<const N: usize>(from: [[u8; TILE]; N]) -> [[u8; N]; TILE] {
    std::array::from_fn(|element| std::array::from_fn(|plane| from[plane][element]))
}

// TIFF's predictors 2 and 3.

/// Reverses horizontal differencing.
pub(super) fn delta(bytes: &[u8], out: &mut [u8], axis: isize, dtype: &str, shape: &[u64]) -> Option<()> {
    let layout = layout(bytes, out, axis, dtype, shape)?;
    out.copy_from_slice(bytes);
    /// Adds numbers of a type along the rows.
    macro_rules! add {
        ($type:ty, $from:ident, $to:ident) => {
            sums(out, &layout, |sum, n| <$type>::$from(sum).wrapping_add(<$type>::$from(n)).$to())
        };
    }
    match (layout.size, layout.big_endian) {
        (1, _) => add!(u8, from_le_bytes, to_le_bytes),
        (2, false) => add!(u16, from_le_bytes, to_le_bytes),
        (2, true) => add!(u16, from_be_bytes, to_be_bytes),
        (4, false) => add!(u32, from_le_bytes, to_le_bytes),
        (4, true) => add!(u32, from_be_bytes, to_be_bytes),
        (8, false) => add!(u64, from_le_bytes, to_le_bytes),
        (8, true) => add!(u64, from_be_bytes, to_be_bytes),
        _ => return None,
    }
    Some(())
}

/// Reverses the floating-point predictor.
pub(super) fn float(
    bytes: &[u8],
    out: &mut [u8],
    row: &mut Vec<u8>,
    axis: isize,
    dtype: &str,
    shape: &[u64],
) -> Option<()> {
    let layout = layout(bytes, out, axis, dtype, shape)?;
    let length = layout.row_bytes();
    for (stored, elements) in bytes.chunks_exact(length).zip(out.chunks_exact_mut(length)) {
        row.clear();
        row.extend_from_slice(stored);
        add_along::<1>(row, layout.stride, &|[sum], [byte]| [byte.wrapping_add(sum)]);
        interleave(row, elements, layout.size, !layout.big_endian)?;
    }
    Some(())
}

/// Returns the layout of whole rows.
fn layout(bytes: &[u8], out: &[u8], axis: isize, dtype: &str, shape: &[u64]) -> Option<Layout> {
    let layout = Layout::new("", axis, dtype, shape).ok()?;
    (bytes.len() == out.len() && bytes.len().is_multiple_of(layout.row_bytes())).then_some(layout)
}

fn sums<const N: usize>(out: &mut [u8], layout: &Layout, add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for row in out.chunks_exact_mut(layout.row_bytes()) {
        add_along(row, layout.stride, &add);
    }
}

/// Adds to each element of a row the one `stride` elements before.
fn add_along<const N: usize>(row: &mut [u8], stride: usize, add: &impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (elements, _) = row.as_chunks_mut::<N>();
    match stride {
        1 => interleaved::<N, 1>(elements, add),
        2 => interleaved::<N, 2>(elements, add),
        3 => interleaved::<N, 3>(elements, add),
        4 => interleaved::<N, 4>(elements, add),
        _ => {
            let mut pixels = elements.chunks_mut(stride);
            let Some(mut before) = pixels.next() else { return };
            for pixel in pixels {
                pixel
                    .iter_mut()
                    .zip(before.iter())
                    .for_each(|(element, last)| *element = add(*last, *element));
                before = pixel;
            }
        }
    }
}

/// Adds along a row of pixels of `S` samples.
fn interleaved<const N: usize, const S: usize>(
    elements: &mut [[u8; N]],
    add: &impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let mut sums = [[0; N]; S];
    for pixel in elements.chunks_mut(S) {
        for (sum, element) in sums.iter_mut().zip(pixel) {
            *sum = add(*sum, *element);
            *element = *sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_elements() {
        for size in [1, 2, 3, 4, 5, 8, 16] {
            for count in [1, 2, 15, 16, 17, 40] {
                let planes: Vec<u8> = (0..size * count).map(|n| u8::try_from(n % 251).unwrap()).collect();
                for is_reversed in [false, true] {
                    let mut elements = vec![0; planes.len()];
                    interleave(&planes, &mut elements, size, is_reversed).unwrap();
                    for element in 0..count {
                        for byte in 0..size {
                            let plane = if is_reversed { size - 1 - byte } else { byte };
                            assert_eq!(elements[element * size + byte], planes[plane * count + element]);
                        }
                    }
                }
            }
        }
    }
}
