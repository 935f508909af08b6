//! The n-dimensional layer of Blosc 2 (metalayer `b2nd`): a grid of chunks, each a grid of blocks padded to whole ones.
//! <https://github.com/Blosc/c-blosc2/blob/main/README_B2ND_METALAYER.rst>

use super::{NAME, cut_off, field, unsupported, usize_of};
use crate::{CodecFailure, corrupt};

/// Most axes that the format allows.
const MOST_AXES: usize = 16;

/// Most metalayers that the library reads.
const MOST_LAYERS: u16 = 16;

/// Shapes, slowest axis first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layer {
    shape: Vec<usize>,
    chunk: Vec<usize>,
    block: Vec<usize>,
}

/// Returns the content of a metalayer, MessagePack's bin32: a marker and 4 bytes of length come before it.
fn layer(header: &[u8], offset: usize) -> Result<&[u8], CodecFailure> {
    let rest = header.get(offset..).and_then(<[u8]>::split_first_chunk::<5>);
    let ([marker, length @ ..], rest) = rest.ok_or_else(cut_off)?;
    let content = rest.get(..usize_of(u32::from_be_bytes(*length)));
    content.filter(|_| *marker == 0xc6).ok_or_else(|| corrupt(NAME, "a metalayer without content"))
}

impl Layer {
    /// Returns the layer of a frame by its header; `None` if it has none.
    pub(super) fn find(header: &[u8]) -> Result<Option<Self>, CodecFailure> {
        // Metalayers: an array of 3, the size of the index (3 bytes), a map of names to offsets from the start.
        let [map, count @ ..] = field::<3>(header, super::FIXED + 4).ok_or_else(cut_off)?;
        let count = u16::from_be_bytes(count);
        if map != 0xde || count > MOST_LAYERS {
            return Err(corrupt(NAME, format!("{count} metalayers in a map of type {map:#x}")));
        }
        let mut entries = header.get(super::FIXED + 7..).unwrap_or_default();
        for _ in 0..count {
            let (marker, rest) = entries.split_first().ok_or_else(cut_off)?;
            let (name, rest) = rest.split_at_checked(usize::from(marker & 0x1f)).ok_or_else(cut_off)?;
            let ([kind, offset @ ..], rest) = rest.split_first_chunk::<5>().ok_or_else(cut_off)?;
            if marker & 0xe0 != 0xa0 || *kind != 0xd2 {
                return Err(corrupt(NAME, "a metalayer without a name or an offset"));
            }
            let content = layer(header, usize_of(u32::from_be_bytes(*offset)))?;
            if name == b"b2nd" {
                return Self::parse(content).map(Some);
            }
            entries = rest;
        }
        Ok(None)
    }

    fn parse(content: &[u8]) -> Result<Self, CodecFailure> {
        let [_, version, axes] = field(content, 0).ok_or_else(cut_off)?;
        let axes = usize::from(axes);
        if version > 1 || !(1..=MOST_AXES).contains(&axes) {
            return Err(unsupported(&format!("{axes} axes in version {version} of the layer")));
        }
        let mut rest = content.get(3..).unwrap_or_default();
        let shape = take_list::<8>(&mut rest, axes, |n| usize::try_from(u64::from_be_bytes(n)).ok());
        let chunk = take_list::<4>(&mut rest, axes, |n| Some(usize_of(u32::from_be_bytes(n))));
        let block = take_list::<4>(&mut rest, axes, |n| Some(usize_of(u32::from_be_bytes(n))));
        let (Some(shape), Some(chunk), Some(block)) = (shape, chunk, block) else { return Err(cut_off()) };
        // A type may follow: its kind and, as MessagePack's str32, its name.
        if !rest.is_empty() {
            let [_, marker, length @ ..] = field::<6>(rest, 0).ok_or_else(cut_off)?;
            let name = rest.get(6..).and_then(|rest| rest.get(..usize_of(u32::from_be_bytes(length))));
            if marker != 0xdb || name.is_none() {
                return Err(corrupt(NAME, "a type without a name"));
            }
        }
        let layer = Self { shape, chunk, block };
        let fits = layer.chunk.iter().zip(&layer.block).all(|(chunk, block)| (1..=*chunk).contains(block));
        if !fits || layer.shape.contains(&0) {
            return Err(corrupt(NAME, format!("shapes {layer:?}")));
        }
        Ok(layer)
    }

    /// Returns the bytes of all chunks, whose blocks are padded; `None` past the address space.
    pub(super) fn padded_bytes(&self, element: usize) -> Option<usize> {
        let mut axes = self.shape.iter().zip(&self.chunk).zip(&self.block);
        axes.try_fold(element, |bytes, ((shape, chunk), block)| {
            let padded = chunk.checked_next_multiple_of(*block)?;
            bytes.checked_mul(shape.div_ceil(*chunk).checked_mul(padded)?)
        })
    }

    /// Returns the elements of the array in C order, given those of the chunks.
    pub(super) fn arrange(
        &self,
        chunks: &[u8],
        element: usize,
        limit: usize,
    ) -> Result<Vec<u8>, CodecFailure> {
        let total = self.shape.iter().try_fold(element, |bytes, n| bytes.checked_mul(*n));
        let total = total.filter(|total| *total <= limit);
        let total = total.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
        let mut out = vec![0; total];
        let chunk_grid: Vec<usize> =
            self.shape.iter().zip(&self.chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        let block_grid: Vec<usize> =
            self.chunk.iter().zip(&self.block).map(|(n, block)| n.div_ceil(*block)).collect();
        let block_bytes = self.block.iter().try_fold(element, |bytes, n| bytes.checked_mul(*n));
        let mut blocks = chunks.chunks_exact(block_bytes.filter(|bytes| *bytes > 0).ok_or_else(cut_off)?);
        for chunk in Indices::new(&chunk_grid) {
            for block in Indices::new(&block_grid) {
                let source = blocks.next().ok_or_else(cut_off)?;
                self.place(source, &chunk, &block, element, &mut out);
            }
        }
        Ok(out)
    }

    /// Copies the rows of a block that are inside its chunk and the array.
    fn place(&self, block: &[u8], chunk_at: &[usize], block_at: &[usize], element: usize, out: &mut [u8]) {
        // Start of the block in the array, and how much of it counts, axis by axis.
        let mut start = Vec::with_capacity(self.shape.len());
        let mut extent = Vec::with_capacity(self.shape.len());
        let shapes = self.shape.iter().zip(&self.chunk).zip(&self.block);
        for (((shape, chunk), size), (in_grid, in_chunk)) in shapes.zip(chunk_at.iter().zip(block_at)) {
            let (first, within) = (in_grid * chunk, in_chunk * size);
            let end = (within + size).min(*chunk).min(shape.saturating_sub(first));
            start.push(first + within);
            extent.push(end.saturating_sub(within));
        }
        let (Some((columns, outer)), Some(width)) = (extent.split_last(), self.block.last()) else { return };
        for row in Indices::new(outer) {
            let from = flat(&row, &self.block).saturating_mul(*width);
            let to: Vec<usize> = row.iter().zip(&start).map(|(row, start)| row + start).collect();
            let last = self.shape.last().copied().unwrap_or(0);
            let to = flat(&to, &self.shape).saturating_mul(last) + start.last().copied().unwrap_or(0);
            let source = block.get(from * element..(from + columns) * element);
            if let (Some(source), Some(target)) =
                (source, out.get_mut(to * element..(to + columns) * element))
            {
                target.copy_from_slice(source);
            }
        }
    }
}

/// Returns the position of an index into all axes of a shape but the last, in rows.
fn flat(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |flat, (at, size)| flat * size + at)
}

/// Splits off MessagePack's array of integers of `N` bytes.
fn take_list<const N: usize>(
    bytes: &mut &[u8],
    count: usize,
    number: impl Fn([u8; N]) -> Option<usize>,
) -> Option<Vec<usize>> {
    // One byte, or three for more than 15 numbers.
    let head = if *bytes.first()? == 0xdc { 3 } else { 1 };
    let (list, rest) = bytes.get(head..)?.split_at_checked(count * (N + 1))?;
    *bytes = rest;
    list.chunks_exact(N + 1).map(|item| number(*item.get(1..)?.first_chunk()?)).collect()
}

/// All indices of a grid, the last axis fastest.
struct Indices<'a> {
    grid: &'a [usize],
    next: Option<Vec<usize>>,
}

impl<'a> Indices<'a> {
    fn new(grid: &'a [usize]) -> Self {
        Self { grid, next: (!grid.contains(&0)).then(|| vec![0; grid.len()]) }
    }
}

impl Iterator for Indices<'_> {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let current = self.next.take()?;
        let mut following = current.clone();
        for (at, size) in following.iter_mut().zip(self.grid).rev() {
            *at += 1;
            if *at < *size {
                self.next = Some(following);
                break;
            }
            *at = 0;
        }
        Some(current)
    }
}
