//! Reads selections of arrays, and batches of chunks.

use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_store::StoreOptions;
use virtualize_zarr::{Array, chunk_position};

use crate::array_error::ArrayError;
use crate::chunks::ChunkReader;
use crate::error::Error;
use crate::selection::{AxisSelection, Selection, SelectionError};
use crate::store::VirtualStore;

/// Decodes a chunk that has a codec without a decoder here: receives its stored bytes, its array, and the chunk's shape
/// in elements, and returns its elements in row-major order and little-endian byte order.
pub type ForeignDecoder = dyn Fn(&[u8], &Array, &[u64]) -> Result<Vec<u8>, String> + Send + Sync;

/// Reads selections of arrays of one store, and its chunks. Keeps files open between reads.
///
/// Reads block. Remote files need the context of a tokio runtime with worker threads (`Handle::enter`).
pub struct ArrayReader {
    store: Arc<VirtualStore>,
    options: StoreOptions,
    chunks: ChunkReader,
    foreign: Option<Arc<ForeignDecoder>>,
}

/// A chunk of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkAddress {
    /// Path of the array.
    pub path: String,
    /// Indices in the chunk grid, slowest axis first.
    pub indices: Vec<u64>,
}

impl ArrayReader {
    /// Creates a reader of a store.
    pub fn new(store: Arc<VirtualStore>, options: StoreOptions) -> Self {
        Self { store, options, chunks: ChunkReader::default(), foreign: None }
    }

    /// Decodes chunks by a function if they have a codec without a decoder here.
    #[must_use]
    pub fn with_decoder(self, decoder: Arc<ForeignDecoder>) -> Self {
        Self { foreign: Some(decoder), ..self }
    }

    /// Returns the store.
    pub fn store(&self) -> &VirtualStore {
        &self.store
    }

    /// Reads the selected elements of an array of fixed-size elements into `out`, in row-major order of the selection
    /// and little-endian byte order. Missing chunks read as the fill value.
    ///
    /// # Errors
    /// As [`crate::read_array`]; the selection does not fit the array, or `out` does not fit the selection.
    pub fn read(&self, path: &str, selection: &Selection, out: &mut [u8]) -> Result<(), Error> {
        self.wrong(path, self.read_into(path, selection, out))
    }

    /// Reads the selected elements of an array of strings or byte strings of variable length, in row-major order of the
    /// selection.
    ///
    /// # Errors
    /// As [`ArrayReader::read`].
    pub fn read_variable(&self, path: &str, selection: &Selection) -> Result<Vec<Bytes>, Error> {
        self.wrong(path, self.variable(path, selection))
    }

    /// Returns decoded chunks, `None` for missing ones: whole chunks in row-major order and little-endian byte order,
    /// including elements outside the array.
    pub fn decoded_chunks(&self, chunks: &[ChunkAddress]) -> Vec<Result<Option<Bytes>, Error>> {
        let one = |chunk: &ChunkAddress| {
            let Some(stored) = self.stored(chunk, ByteRange::new(0, u64::MAX))? else { return Ok(None) };
            let position = self.position(chunk)?;
            let decoded = super::decode_chunk(&self.store, &chunk.path, position, &stored, super::MOST_BYTES);
            match (decoded, &self.foreign) {
                (Err(Error::Values { source, .. }), Some(foreign)) if is_foreign(&source) => self
                    .wrong(&chunk.path, self.foreign(&chunk.path, position, &stored, &**foreign))
                    .map(Some),
                (decoded, _) => decoded.map(Some),
            }
        };
        chunks.iter().map(one).collect()
    }

    /// Returns the stored bytes of chunks, `None` for missing ones. Each range is relative to its chunk, and is clamped
    /// to it.
    pub fn stored_chunks(&self, chunks: &[(ChunkAddress, ByteRange)]) -> Vec<Result<Option<Bytes>, Error>> {
        chunks.iter().map(|(chunk, range)| self.stored(chunk, *range)).collect()
    }

    fn foreign(
        &self,
        path: &str,
        position: u64,
        stored: &Bytes,
        decoder: &ForeignDecoder,
    ) -> Result<Bytes, ArrayError> {
        let array = self.array(path)?;
        let shape = crate::decode::chunk_shape(array, position).ok_or(ArrayError::NoChunk(position))?;
        Ok(decoder(stored, array, &shape).map_err(ArrayError::ForeignDecoder)?.into())
    }

    fn stored(&self, chunk: &ChunkAddress, range: ByteRange) -> Result<Option<Bytes>, Error> {
        let position = self.position(chunk)?;
        let array = self.array(&chunk.path).map_err(|error| self.error(&chunk.path, error))?;
        match array.chunks.get(position) {
            None => Ok(None),
            Some(virtualize_zarr::ChunkEntry::Inline(bytes)) => {
                let range = range.clamp_to(bytes.len() as u64);
                let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                Ok(Some(bytes.slice(at(range.start)..at(range.end()))))
            }
            Some(virtualize_zarr::ChunkEntry::Reference(place)) => {
                let read = self.chunks.read(&self.store, place, range, &self.options);
                futures::executor::block_on(read).map(Some)
            }
        }
    }

    fn position(&self, chunk: &ChunkAddress) -> Result<u64, Error> {
        let array = self.array(&chunk.path).map_err(|error| self.error(&chunk.path, error))?;
        let counts = array.chunk_grid.counts(&array.shape);
        let outside = || ArrayError::NoChunkAt { indices: chunk.indices.clone(), counts: counts.clone() };
        chunk_position(chunk.indices.iter().copied(), &counts)
            .ok_or_else(|| self.error(&chunk.path, outside()))
    }

    fn array(&self, path: &str) -> Result<&Array, ArrayError> {
        self.store.hierarchy.array(path).ok_or(ArrayError::NoArray)
    }

    fn error(&self, path: &str, error: ArrayError) -> Error {
        Error::of_array(self.store.name(), path, error)
    }

    fn wrong<T>(&self, path: &str, result: Result<T, ArrayError>) -> Result<T, Error> {
        result.map_err(|error| self.error(path, error))
    }

    fn read_into(&self, path: &str, selection: &Selection, out: &mut [u8]) -> Result<(), ArrayError> {
        let array = self.array(path)?;
        let count = selection.check(&array.shape)?;
        let size = array.data_type.size().ok_or(ArrayError::VariableSize)?;
        let expected = count.checked_mul(size);
        let expected = expected.ok_or_else(|| SelectionError::TooLarge { shape: selection.shape() })?;
        if expected != out.len() as u64 {
            return Err(SelectionError::Buffer { expected, found: out.len() as u64 }.into());
        }
        let values = super::values_of(&self.store, path, u64::MAX, &self.options);
        let values = futures::executor::block_on(values)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        for (index, target) in elements(selection, &array.shape).zip(out.chunks_exact_mut(size.max(1))) {
            let start = index.saturating_mul(size);
            target.copy_from_slice(
                values.bytes.get(start..start.saturating_add(size)).ok_or(ArrayError::TooFewElements)?,
            );
        }
        Ok(())
    }

    fn variable(&self, path: &str, selection: &Selection) -> Result<Vec<Bytes>, ArrayError> {
        let array = self.array(path)?;
        selection.check(&array.shape)?;
        let values = super::values_of(&self.store, path, u64::MAX, &self.options);
        let values = futures::executor::block_on(values)?.bytes;
        let mut all = Vec::new();
        let mut at = 0_usize;
        while let Some(length) = values.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            let start = at.saturating_add(4);
            at = start.saturating_add(usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX));
            all.push(values.slice(start..at));
        }
        let one = |index: usize| all.get(index).cloned().ok_or(ArrayError::TooFewElements);
        elements(selection, &array.shape).map(one).collect()
    }
}

/// Returns whether a chunk has a codec without a decoder here.
fn is_foreign(error: &ArrayError) -> bool {
    match error {
        ArrayError::Chunk { source, .. } => is_foreign(source),
        error => matches!(error, ArrayError::Codec(virtualize_codec::CodecFailure::NoDecoder(_))),
    }
}

/// Returns the row-major indices of the selected elements.
fn elements(selection: &Selection, shape: &[u64]) -> impl Iterator<Item = usize> {
    let count = selection.shape().iter().product::<u64>();
    let counts = selection.shape();
    (0..count).map(move |n| {
        let at = virtualize_zarr::chunk_indices(n, &counts).unwrap_or_default();
        let index = |axis: usize| match selection {
            Selection::Points(lists) => {
                lists.get(axis).and_then(|list| list.get(usize::try_from(n).ok()?)).copied()
            }
            Selection::Axes(axes) => match axes.get(axis)? {
                AxisSelection::Range { start, step, .. } => Some(start + step * at.get(axis)?),
                AxisSelection::Indices(list) => list.get(usize::try_from(*at.get(axis)?).ok()?).copied(),
            },
        };
        let linear = (0..shape.len()).fold(0, |all, axis| {
            all * shape.get(axis).copied().unwrap_or(0) + index(axis).unwrap_or(u64::MAX)
        });
        usize::try_from(linear).unwrap_or(usize::MAX)
    })
}
