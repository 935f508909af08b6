//! Reads data layouts and chunk tables.

use std::os::raw::{c_int, c_uint, c_void};

use bytes::Bytes;
use hdf5_metno_sys::{
    h5d::{self, H5D_layout_t},
    h5p,
};
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{
    ChunkIndexKind, ChunkSizes, ChunkTable, Chunked, Dataspace, ExternalSegment, Layout,
};

use crate::{
    call::{At, Handle, Result, UNDEFINED},
    dataspace,
    datatype::Type,
};

/// Limit on the size of a compact dataset in bytes, that of its message.
const MAX_COMPACT: u64 = 1 << 16;
/// Size of the buffer for an external file name, whose length the library does not report.
const MAX_NAME: usize = 1 << 16;

/// An open dataset.
pub(crate) struct Opened<'a> {
    pub(crate) dataset: &'a Handle,
    pub(crate) properties: &'a Handle,
    pub(crate) type_id: &'a Handle,
    pub(crate) datatype: &'a Type,
    pub(crate) dataspace: &'a Dataspace,
}

/// Reads the layout. Errors become part of it.
pub(crate) fn read(at: At, opened: &Opened<'_>) -> Layout {
    let at = at.structure("data layout message");
    opened.layout(at).unwrap_or_else(Layout::Unreadable)
}

impl Opened<'_> {
    fn layout(&self, at: At) -> Result<Layout> {
        // SAFETY: the handle is open.
        match unsafe { h5p::H5Pget_layout(self.properties.id()) } {
            H5D_layout_t::H5D_COMPACT => self.compact(at).map(Layout::Compact),
            H5D_layout_t::H5D_CONTIGUOUS => self.contiguous(at),
            H5D_layout_t::H5D_CHUNKED => {
                chunked(at, self.dataset, self.properties, self.dataspace).map(Layout::Chunked)
            }
            H5D_layout_t::H5D_VIRTUAL => dataspace::mappings(at, self.properties).map(Layout::Virtual),
            _ => Err(at.failed()),
        }
    }

    /// Returns the stored bytes of a compact dataset, which the library only returns as elements.
    fn compact(&self, at: At) -> Result<Bytes> {
        let bytes = self.dataspace.elements().saturating_mul(self.datatype.size as u64);
        if !self.datatype.memory.is_flat() || bytes > MAX_COMPACT {
            return Err(at.malformed("the library does not give the stored bytes of such elements"));
        }
        let mut value = vec![0_u8; usize::try_from(bytes).unwrap_or(0)];
        if !value.is_empty() {
            let (dataset, datatype) = (self.dataset.id(), self.type_id.id());
            // SAFETY: the buffer has room for all elements of this type.
            at.done(unsafe { h5d::H5Dread(dataset, datatype, 0, 0, 0, value.as_mut_ptr().cast()) })?;
        }
        Ok(value.into())
    }

    fn contiguous(&self, at: At) -> Result<Layout> {
        // SAFETY: the handle is open.
        let files = at.number(unsafe { h5p::H5Pget_external_count(self.properties.id()) })?;
        let files = u32::try_from(files).map_err(|_| at.malformed("too many external files"))?;
        let segment = |index| {
            let (mut name, mut offset, mut size) = (vec![0_u8; MAX_NAME], 0, 0);
            let (text, length) = (name.as_mut_ptr().cast(), name.len());
            // SAFETY: the size that is passed is that of the buffer; both numbers outlive the call.
            at.done(unsafe {
                let properties = self.properties.id();
                h5p::H5Pget_external(properties, index, length, text, &raw mut offset, &raw mut size)
            })?;
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            let (offset, size) = (at.number(offset)? as u64, (size != UNDEFINED).then_some(size));
            Ok(ExternalSegment { file: String::from_utf8_lossy(name).into_owned(), offset, size })
        };
        if files > 0 {
            return (0..files).map(segment).collect::<Result<_>>().map(Layout::External);
        }
        // SAFETY: the handle is open.
        let (start, size) =
            unsafe { (h5d::H5Dget_offset(self.dataset.id()), h5d::H5Dget_storage_size(self.dataset.id())) };
        Ok(Layout::Contiguous((start != UNDEFINED).then(|| ByteRange::new(start, size))))
    }
}

/// Layout flag: chunks that exceed the extent are unfiltered.
const DONT_FILTER_PARTIAL_CHUNKS: c_uint = 2;

/// Reads layout and chunks of a chunked dataset.
fn chunked(at: At, dataset: &Handle, properties: &Handle, dataspace: &Dataspace) -> Result<Chunked> {
    let mut chunk_shape = [0_u64; 32];
    // SAFETY: no dataspace has more than 32 dimensions.
    let rank = at.number(unsafe { h5p::H5Pget_chunk(properties.id(), 32, chunk_shape.as_mut_ptr()) })?;
    let chunk_shape: Vec<_> = chunk_shape.into_iter().take(rank).collect();
    let shape = dataspace.shape().unwrap_or_default();
    if shape.len() != chunk_shape.len() || chunk_shape.contains(&0) {
        return Err(at.malformed(format!("chunk shape {chunk_shape:?}, expected the rank of {shape:?}")));
    }
    let mut options: c_uint = 0;
    // SAFETY: the handle is open, and the number outlives the call.
    at.done(unsafe { h5p::H5Pget_chunk_opts(properties.id(), &raw mut options) })?;
    let grid = shape.iter().zip(&chunk_shape).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
    let index = index(at, dataset)?;
    let is_extensible = index == ChunkIndexKind::ExtensibleArray;
    let rearranged = is_extensible.then(|| Rearranged::of(dataspace, &chunk_shape)).flatten();
    let mut found = Found { grid, chunk_shape: chunk_shape.clone(), rearranged, chunks: Vec::new() };
    // SAFETY: the callback fits the signature, and its data outlive the call.
    at.done(unsafe { h5d::H5Dchunk_iter(dataset.id(), 0, Some(note_chunk), (&raw mut found).cast()) })?;
    let Found { grid, mut chunks, .. } = found;
    chunks.sort_by_key(|chunk| chunk.position);
    let size = |chunk: &Chunk| {
        u32::try_from(chunk.size).map_err(|_| at.malformed("chunk size, expected less than 4 GiB"))
    };
    let masks = chunks.iter().filter(|chunk| chunk.mask != 0).map(|chunk| (chunk.position, chunk.mask));
    let chunks = ChunkTable {
        grid,
        positions: Some(chunks.iter().map(|chunk| chunk.position).collect::<Vec<_>>().into()),
        addresses: chunks.iter().map(|chunk| chunk.address).collect::<Vec<_>>().into(),
        sizes: ChunkSizes::Each(chunks.iter().map(size).collect::<Result<Vec<_>>>()?.into()),
        filter_masks: masks.collect(),
    };
    let unfiltered_edges = options & DONT_FILTER_PARTIAL_CHUNKS != 0;
    Ok(Chunked { index, unfiltered_edges, chunks, chunk_shape })
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

/// The chunks found so far.
struct Found {
    /// Number of chunks along each axis.
    grid: Vec<u64>,
    /// Chunk shape in elements.
    chunk_shape: Vec<u64>,
    /// Correction of offsets, if needed.
    rearranged: Option<Rearranged>,
    chunks: Vec<Chunk>,
}

impl Found {
    /// Returns the row-major position of the chunk at an offset in elements; `None` outside of the extent.
    fn position(&self, offset: &[u64]) -> Option<u64> {
        let place = offset.iter().zip(&self.chunk_shape).map(|(offset, chunk)| offset.checked_div(*chunk));
        let mut place: Vec<_> = place.collect::<Option<_>>()?;
        if let Some(rearranged) = &self.rearranged {
            place = rearranged.put_back(&place)?;
        }
        let mut position = 0_u64;
        for (index, count) in place.iter().zip(&self.grid) {
            position = position.checked_mul(*count)?.checked_add(*index).filter(|_| index < count)?;
        }
        Some(position)
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
    let offset = unsafe { std::slice::from_raw_parts(offset, found.chunk_shape.len()) };
    if let Some(position) = found.position(offset) {
        found.chunks.push(Chunk { position, address, size, mask });
    }
    0
}
