//! Where chunks lie.

use std::{
    collections::BTreeMap,
    os::raw::{c_int, c_uint, c_void},
};

use hdf5_metno_sys::{h5d, h5p};
use virtualize_hdf5::model::{ChunkIndexKind, ChunkSizes, ChunkTable, Chunked, Dataspace};

use crate::call::{At, Handle, Result, UNDEFINED};

/// Layout flag: chunks that stick out of the extent are not filtered.
const DONT_FILTER_PARTIAL_CHUNKS: c_uint = 2;
/// Most chunks that are looked up one by one.
const MOST_LOOKED_UP: u64 = 1 << 24;

/// Layout and chunks of a chunked dataset.
pub(crate) fn read(at: At, dataset: &Handle, properties: &Handle, dataspace: &Dataspace) -> Result<Chunked> {
    let chunk_shape = chunk_shape(at, properties)?;
    let shape = dataspace.shape().unwrap_or_default();
    if shape.len() != chunk_shape.len() || chunk_shape.contains(&0) {
        return Err(at.malformed(format!("chunks of {chunk_shape:?} in an extent of {shape:?}")));
    }
    let mut options: c_uint = 0;
    // SAFETY: the handle is open, and the number outlives the call.
    at.done(unsafe { h5p::H5Pget_chunk_opts(properties.id(), &raw mut options) })?;
    let mut found = Found { grid: Grid::new(shape, &chunk_shape), chunks: Vec::new() };
    let index = index(at, dataset)?;
    if index == ChunkIndexKind::ExtensibleArray && !grows_along_the_first_axis(dataspace) {
        found.look_up_each(at, dataset)?;
    } else {
        // SAFETY: the callback fits the signature, and its data outlive the call.
        at.done(unsafe { h5d::H5Dchunk_iter(dataset.id(), 0, Some(note_chunk), (&raw mut found).cast()) })?;
    }
    Ok(Chunked {
        index,
        unfiltered_edges: options & DONT_FILTER_PARTIAL_CHUNKS != 0,
        chunks: table(at, found)?,
        chunk_shape,
    })
}

/// Whether the library's iteration over an extensible array can be believed: where another axis than the first is the
/// unlimited one, it takes the array's rearranged numbering for the row-major one.
fn grows_along_the_first_axis(dataspace: &Dataspace) -> bool {
    match dataspace {
        Dataspace::Simple { max_shape: Some(max), .. } => max.first().is_some_and(Option::is_none),
        _ => false,
    }
}

fn chunk_shape(at: At, properties: &Handle) -> Result<Vec<u64>> {
    let mut shape = [0_u64; 32];
    // SAFETY: no dataspace has more than 32 dimensions.
    let rank = at.number(unsafe { h5p::H5Pget_chunk(properties.id(), 32, shape.as_mut_ptr()) })?;
    Ok(shape.iter().copied().take(rank).collect())
}

fn index(at: At, dataset: &Handle) -> Result<ChunkIndexKind> {
    let mut index: c_uint = 0;
    // SAFETY: the handle is open, and the number outlives the call.
    at.done(unsafe { h5d::H5Dget_chunk_index_type(dataset.id(), &raw mut index) })?;
    match index {
        0 => Ok(ChunkIndexKind::BTree1),
        1 => Ok(ChunkIndexKind::Single),
        2 => Ok(ChunkIndexKind::Implicit),
        3 => Ok(ChunkIndexKind::FixedArray),
        4 => Ok(ChunkIndexKind::ExtensibleArray),
        5 => Ok(ChunkIndexKind::BTree2),
        _ => Err(at.malformed(format!("chunk index {index}, expected 0 to 5"))),
    }
}

/// How chunks lie in the extent.
struct Grid {
    /// Chunks along each axis.
    counts: Vec<u64>,
    /// Chunk shape in elements.
    chunk: Vec<u64>,
}

impl Grid {
    fn new(shape: &[u64], chunk: &[u64]) -> Self {
        let counts = shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
        Self { counts, chunk: chunk.to_vec() }
    }

    /// Offset in elements of the chunk at a row-major position.
    fn offset(&self, position: u64) -> Vec<u64> {
        let mut rest = position;
        let axes = self.counts.iter().zip(&self.chunk).rev();
        let axis = |(count, chunk): (&u64, &u64)| {
            let index = rest.checked_rem(*count).unwrap_or(0);
            rest = rest.checked_div(*count).unwrap_or(0);
            index.saturating_mul(*chunk)
        };
        let mut offset: Vec<_> = axes.map(axis).collect();
        offset.reverse();
        offset
    }

    /// Row-major position of the chunk at an offset in elements; `None` outside the extent.
    fn position(&self, offset: &[u64]) -> Option<u64> {
        let axes = offset.iter().zip(&self.chunk).zip(&self.counts);
        let mut position = 0_u64;
        for ((offset, chunk), count) in axes {
            let index = offset.checked_div(*chunk).filter(|index| index < count)?;
            position = position.checked_mul(*count)?.checked_add(index)?;
        }
        Some(position)
    }
}

struct Found {
    grid: Grid,
    chunks: Vec<Chunk>,
}

impl Found {
    /// Asks for the chunk of each place of the grid.
    fn look_up_each(&mut self, at: At, dataset: &Handle) -> Result<()> {
        let places = self.grid.counts.iter().copied().fold(1, u64::saturating_mul);
        if places > MOST_LOOKED_UP {
            return Err(at.malformed(format!("{places} chunks to be looked up one by one")));
        }
        for position in 0..places {
            let offset = self.grid.offset(position);
            let (mut mask, mut address, mut size) = (0, 0, 0);
            // SAFETY: the offset has as many items as the dataset has dimensions; the numbers outlive the call.
            at.done(unsafe {
                h5d::H5Dget_chunk_info_by_coord(
                    dataset.id(),
                    offset.as_ptr(),
                    &raw mut mask,
                    &raw mut address,
                    &raw mut size,
                )
            })?;
            if address != UNDEFINED {
                self.chunks.push(Chunk { position, address, size, mask });
            }
        }
        Ok(())
    }
}

struct Chunk {
    position: u64,
    address: u64,
    size: u64,
    mask: u32,
}

unsafe extern "C" fn note_chunk(
    offset: *const u64,
    mask: c_uint,
    address: u64,
    size: u64,
    found: *mut c_void,
) -> c_int {
    // SAFETY: `found` is what `read` passed in, and nothing else uses it during the iteration.
    let Some(found) = (unsafe { found.cast::<Found>().as_mut() }) else { return -1 };
    // SAFETY: the library passes as many items as the dataset has dimensions.
    let offset = unsafe { std::slice::from_raw_parts(offset, found.grid.chunk.len()) };
    if let Some(position) = found.grid.position(offset) {
        found.chunks.push(Chunk { position, address, size, mask });
    }
    0
}

fn table(at: At, found: Found) -> Result<ChunkTable> {
    let Found { grid, mut chunks } = found;
    chunks.sort_by_key(|chunk| chunk.position);
    let size = |chunk: &Chunk| u32::try_from(chunk.size).map_err(|_| at.malformed("chunk over 4 GiB"));
    let masks: BTreeMap<_, _> =
        chunks.iter().filter(|chunk| chunk.mask != 0).map(|chunk| (chunk.position, chunk.mask)).collect();
    Ok(ChunkTable {
        grid: grid.counts,
        positions: Some(chunks.iter().map(|chunk| chunk.position).collect()),
        addresses: chunks.iter().map(|chunk| chunk.address).collect(),
        sizes: ChunkSizes::Each(chunks.iter().map(size).collect::<Result<_>>()?),
        filter_masks: masks,
    })
}
