//! Reads chunk tables.

use std::{
    collections::BTreeMap,
    os::raw::{c_int, c_uint, c_void},
};

use hdf5_metno_sys::{h5d, h5p};
use virtualize_hdf5::model::{ChunkIndexKind, ChunkSizes, ChunkTable, Chunked, Dataspace};

use crate::call::{At, Handle, Result};

/// Layout flag: chunks that exceed the extent are unfiltered.
const DONT_FILTER_PARTIAL_CHUNKS: c_uint = 2;

/// Reads layout and chunks of a chunked dataset.
pub(crate) fn read(at: At, dataset: &Handle, properties: &Handle, dataspace: &Dataspace) -> Result<Chunked> {
    let chunk_shape = chunk_shape(at, properties)?;
    let shape = dataspace.shape().unwrap_or_default();
    if shape.len() != chunk_shape.len() || chunk_shape.contains(&0) {
        return Err(at.malformed(format!("chunk shape {chunk_shape:?}, expected the rank of {shape:?}")));
    }
    let mut options: c_uint = 0;
    // SAFETY: the handle is open, and the number outlives the call.
    at.done(unsafe { h5p::H5Pget_chunk_opts(properties.id(), &raw mut options) })?;
    let mut found = Found { grid: Grid::new(shape, &chunk_shape), chunks: Vec::new() };
    let index = index(at, dataset)?;
    if index == ChunkIndexKind::ExtensibleArray {
        found.grid.rearranged = Rearranged::of(dataspace, &chunk_shape);
    }
    // SAFETY: the callback fits the signature, and its data outlive the call.
    at.done(unsafe { h5d::H5Dchunk_iter(dataset.id(), 0, Some(note_chunk), (&raw mut found).cast()) })?;
    Ok(Chunked {
        index,
        unfiltered_edges: options & DONT_FILTER_PARTIAL_CHUNKS != 0,
        chunks: table(at, found)?,
        chunk_shape,
    })
}

/// Correction of chunk offsets in an extensible array whose unlimited axis is not the first. The array numbers chunks
/// as if it were, but the library's iteration treats the numbers as row-major over an unlimited extent.
#[derive(Debug)]
struct Rearranged {
    /// The unlimited axis.
    axis: usize,
    /// Maximum number of chunks along each axis; 1 for the unlimited one.
    limits: Vec<u64>,
}

impl Rearranged {
    fn of(dataspace: &Dataspace, chunk: &[u64]) -> Option<Self> {
        let Dataspace::Simple { max_shape: Some(max), .. } = dataspace else { return None };
        let axis = max.iter().position(Option::is_none).filter(|axis| *axis > 0)?;
        let limit = |(max, chunk): (&Option<u64>, &u64)| max.map_or(1, |max| max.div_ceil(*chunk));
        Some(Self { axis, limits: max.iter().zip(chunk).map(limit).collect() })
    }

    /// Returns the position, in chunks along each axis, of the chunk that the library reports at `place`.
    fn put_back(&self, place: &[u64]) -> Option<Vec<u64>> {
        let mut number = 0_u64;
        for (index, limit) in place.iter().zip(&self.limits) {
            number = number.checked_mul(*limit)?.checked_add(*index)?;
        }
        let mut place = Vec::new();
        for limit in self.limits.iter().rev() {
            place.push(number.checked_rem(*limit)?);
            number = number.checked_div(*limit)?;
        }
        place.reverse();
        *place.get_mut(self.axis)? = number;
        Some(place)
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

/// The grid of chunks.
struct Grid {
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// Chunk shape in elements.
    chunk: Vec<u64>,
    /// Correction of offsets, if needed.
    rearranged: Option<Rearranged>,
}

impl Grid {
    fn new(shape: &[u64], chunk: &[u64]) -> Self {
        let counts = shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
        Self { counts, chunk: chunk.to_vec(), rearranged: None }
    }

    /// Returns the row-major position of the chunk at an offset in elements; `None` outside of the extent.
    fn position(&self, offset: &[u64]) -> Option<u64> {
        let place = offset.iter().zip(&self.chunk).map(|(offset, chunk)| offset.checked_div(*chunk));
        let place: Vec<_> = place.collect::<Option<_>>()?;
        let place =
            self.rearranged.as_ref().map_or(Some(place.clone()), |rearranged| rearranged.put_back(&place))?;
        let mut position = 0_u64;
        for (index, count) in place.iter().zip(&self.counts) {
            position = position.checked_mul(*count)?.checked_add(*index).filter(|_| index < count)?;
        }
        Some(position)
    }
}

struct Found {
    grid: Grid,
    chunks: Vec<Chunk>,
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
    let size = |chunk: &Chunk| {
        u32::try_from(chunk.size).map_err(|_| at.malformed("chunk size, expected less than 4 GiB"))
    };
    let masks: BTreeMap<_, _> =
        chunks.iter().filter(|chunk| chunk.mask != 0).map(|chunk| (chunk.position, chunk.mask)).collect();
    Ok(ChunkTable {
        grid: grid.counts,
        positions: Some(chunks.iter().map(|chunk| chunk.position).collect::<Vec<_>>().into()),
        addresses: chunks.iter().map(|chunk| chunk.address).collect::<Vec<_>>().into(),
        sizes: ChunkSizes::Each(chunks.iter().map(size).collect::<Result<Vec<_>>>()?.into()),
        filter_masks: masks,
    })
}
