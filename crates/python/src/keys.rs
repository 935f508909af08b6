//! An open file as the keys of a Zarr v3 store.

use std::sync::Arc;

use bytes::Bytes;
use numpy::PyArray1;
use pyo3::{IntoPyObjectExt, prelude::*};
use virtualize::{
    ByteRange, ChunkAddress,
    keys::{self, ChunkEncoding},
    zarr::{ChunkEntry, chunk_indices},
};

use crate::{error, file::File, runtime};

/// Part of a value that a store asks for, as zarr-python's `ByteRequest`.
#[derive(Clone, Copy, FromPyObject)]
enum Part {
    /// From one byte to another, which is excluded.
    #[pyo3(transparent)]
    Range((u64, u64)),
    /// From a byte on; a negative number counts from the end.
    #[pyo3(transparent)]
    From(i64),
}

/// A key, and the part of its value that is asked for; `None` for all.
type Request = (String, Option<Part>);

/// A value, `None` for a key that the store does not have, or the error of reading it.
struct Value(PyResult<Option<Bytes>>);

#[pymethods]
impl File {
    /// Returns the metadata documents by key.
    fn documents(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        let (store, encoding) = (Arc::clone(&self.store), self.encoding);
        let documents = py.detach(|| keys::documents(&store, encoding)).map_err(|error| error::of(&error))?;
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
        Ok(documents.into_iter().map(|(key, bytes)| (key, text(bytes))).collect())
    }

    /// Returns the values of the keys of chunks: an array of bytes each, `None` for a missing chunk, or an exception.
    fn chunks<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<Request>,
        wait: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = Arc::clone(&self.reader);
        let (store, encoding) = (Arc::clone(&self.store), self.encoding);
        let read = move || values(&store, &reader, encoding, &requests);
        if wait {
            return runtime::detach(py, read)?.into_bound_py_any(py);
        }
        runtime::run(py, false, async move {
            tokio::task::spawn_blocking(read).await.map_err(|_| error::internal())
        })
    }

    /// Returns whether the store has a chunk's key.
    fn has_chunk(&self, key: &str) -> bool {
        keys::chunk(&self.store.hierarchy, key).is_some()
    }

    /// Returns the length of the value of a chunk's key in bytes; `None` for a missing chunk, and for decoded elements
    /// of variable length.
    fn chunk_size(&self, key: &str) -> Option<u64> {
        let chunk = keys::chunk(&self.store.hierarchy, key)?;
        match (self.encoding, chunk.entry) {
            (ChunkEncoding::Stored, ChunkEntry::Inline(bytes)) => Some(bytes.len() as u64),
            (ChunkEncoding::Stored, ChunkEntry::Reference(place)) => Some(place.length),
            (ChunkEncoding::Decoded, _) => {
                virtualize::chunk_size(self.store.hierarchy.array(&chunk.path)?, chunk.position)
            }
        }
    }

    /// Returns at most `most` keys with a prefix, from the one that follows `after`.
    fn list_keys(&self, py: Python<'_>, prefix: &str, after: Option<&str>, most: usize) -> Vec<String> {
        py.detach(|| keys::list(&self.store.hierarchy, prefix, after, most))
    }

    /// Returns at most `most` names in a folder, from the one that follows `after`.
    fn list_folder(&self, py: Python<'_>, folder: &str, after: Option<&str>, most: usize) -> Vec<String> {
        py.detach(|| keys::list_dir(&self.store.hierarchy, folder, after, most))
    }
}

/// Reads the values of keys of chunks, in one batch.
fn values(
    store: &virtualize::VirtualStore,
    reader: &virtualize::ArrayReader,
    encoding: ChunkEncoding,
    requests: &[Request],
) -> Vec<Value> {
    let chunk = |(key, part): &Request| Some((keys::chunk(&store.hierarchy, key)?, *part));
    let chunks: Vec<_> = requests.iter().map(chunk).collect();
    let address = |chunk: &keys::Chunk<'_>| {
        let array = store.hierarchy.array(&chunk.path)?;
        let indices = chunk_indices(chunk.position, &array.chunk_grid.counts(&array.shape))?;
        Some(ChunkAddress { path: chunk.path.clone(), indices })
    };
    let found = chunks.iter().flatten();
    let read = match encoding {
        ChunkEncoding::Decoded => {
            let addresses: Vec<_> = found.clone().filter_map(|(chunk, _)| address(chunk)).collect();
            reader.decoded_chunks(&addresses)
        }
        ChunkEncoding::Stored => {
            let parts: Vec<_> = found
                .clone()
                .filter_map(|(chunk, part)| Some((address(chunk)?, range(*part, length(&chunk.entry)))))
                .collect();
            reader.stored_chunks(&parts)
        }
    };
    let mut read = read.into_iter();
    let value = |asked: Option<(keys::Chunk<'_>, Option<Part>)>| {
        let Some((_, part)) = asked else { return Value(Ok(None)) };
        let bytes = read.next().unwrap_or(Ok(None)).map_err(|error| error::of(&error));
        Value(match encoding {
            ChunkEncoding::Stored => bytes,
            ChunkEncoding::Decoded => bytes.map(|bytes| bytes.map(|bytes| within(&bytes, part))),
        })
    };
    chunks.into_iter().map(value).collect()
}

fn length(entry: &ChunkEntry<'_>) -> u64 {
    match entry {
        ChunkEntry::Inline(bytes) => bytes.len() as u64,
        ChunkEntry::Reference(place) => place.length,
    }
}

/// Returns the range of a part of a value of `length` bytes.
fn range(part: Option<Part>, length: u64) -> ByteRange {
    let (start, end) = match part {
        None => (0, length),
        Some(Part::Range((start, end))) => (start, end),
        Some(Part::From(start)) if start < 0 => (length.saturating_sub(start.unsigned_abs()), length),
        Some(Part::From(start)) => (start.unsigned_abs(), length),
    };
    let start = start.min(length);
    ByteRange::new(start, end.min(length).saturating_sub(start))
}

fn within(bytes: &Bytes, part: Option<Part>) -> Bytes {
    let range = range(part, bytes.len() as u64);
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(at(range.start)..at(range.end()))
}

impl<'py> IntoPyObject<'py> for Value {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match self.0 {
            Ok(None) => Ok(py.None().into_bound(py)),
            // Copies only bytes that are a part of a longer buffer.
            Ok(Some(bytes)) => Ok(PyArray1::from_vec(py, Vec::from(bytes)).into_any()),
            Err(error) => Ok(error.into_value(py).into_bound(py).into_any()),
        }
    }
}
