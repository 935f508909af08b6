//! An open file and its mapping: the core of `virtualize.VirtualStore`.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use numpy::PyArray1;
use pyo3::{
    IntoPyObjectExt,
    exceptions::PyKeyError,
    prelude::*,
    types::{PyBytes, PyList, PyTuple},
};
use virtualize::{
    ArrayReader, ChunkAddress, ChunkPart, LazyStore, VirtualStore, describe,
    keys::{self, ChunkEncoding},
    options::OutputFormat,
    zarr::{ChunkManifest, Lengths, References, ZarrFormat, chunk_position},
};

use crate::{
    array, error,
    options::{FileOptions, OpenOptions, location_of, parse},
    references::WriteTo,
    runtime::{self, PythonStore},
};

/// An open file and its mapping to Zarr v3.
#[pyclass(frozen, module = "virtualize._virtualize")]
pub(crate) struct File {
    /// Groups and arrays; without chunks, if references are stored in parts.
    pub(crate) store: Arc<VirtualStore>,
    lazy: Arc<LazyStore>,
    /// Reads chunks and arrays.
    pub(crate) reader: Arc<ArrayReader>,
    /// How chunks are served as values of keys.
    pub(crate) encoding: ChunkEncoding,
    /// Whether the mapping uses codecs that only this package has.
    is_own: bool,
    location: String,
    options: FileOptions,
}

/// Opens and maps a file. `options` is a JSON object. `files` is a `virtualize._foreign.ForeignFiles`, through which
/// all files are read.
#[pyfunction]
pub(crate) fn open<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = location_of)] location: String,
    options: &str,
    decoded: bool,
    files: Option<Py<PyAny>>,
    wait: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut open: OpenOptions = parse(options)?;
    open.file.through = files.map(PythonStore::new);
    let encoding = if decoded { ChunkEncoding::Decoded } else { ChunkEncoding::Stored };
    runtime::run(py, wait, async move {
        let options = open.file.clone();
        let is_own = decoded && options.source.mapping.readable_by.is_empty();
        let mapping = if is_own { options.own() } else { options.options(ZarrFormat::V3) };
        let mapping = open.with_archive(mapping)?;
        let lazy = LazyStore::open(&location, &mapping).boxed().await.map_err(|error| error::of(&error))?;
        let store = Arc::clone(lazy.metadata());
        let lazy = Arc::new(lazy);
        let reader = ArrayReader::lazy(Arc::clone(&lazy), mapping.store).with_decoder(array::decoder());
        let reader = open.reader(reader.with_interrupt(Arc::new(runtime::is_interrupted)));
        Ok(File { store, lazy, reader: Arc::new(reader), encoding, is_own, location, options })
    })
}

#[pymethods]
impl File {
    /// Path or url without its query, for messages.
    #[getter]
    fn name(&self) -> &str {
        self.store.name()
    }

    /// "HDF5" or "TIFF".
    #[getter]
    fn source_format(&self) -> &str {
        self.store.source_format
    }

    /// Url, entity tag, size in bytes and modification time in milliseconds of each file that contains chunks, or of
    /// references. The entity tag of an Icechunk repository is the id of its snapshot.
    #[getter]
    fn version<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sources = self.lazy.version().iter();
        PyTuple::new(py, sources.map(|source| (&source.url, &source.etag, source.size, source.modified)))
    }

    /// Id of the snapshot of an Icechunk repository.
    #[getter]
    fn snapshot(&self) -> Option<&str> {
        self.lazy.snapshot()
    }

    /// Warnings and other diagnostics of the mapping.
    #[getter]
    fn diagnostics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        error::diagnostics_of(py, &self.store.report.diagnostics)
    }

    /// Returns what `virtualize inspect --json` prints.
    fn inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.complete(py)?;
        let described = py.detach(|| describe::store(&store, error::KEYWORDS));
        runtime::loads(py, &described)
    }

    /// Returns what `virtualize inspect` prints, in full or not.
    fn describe(&self, py: Python<'_>, full: bool) -> PyResult<String> {
        let store = self.complete(py)?;
        Ok(py.detach(|| virtualize_cli::describe(&store, error::KEYWORDS, full)))
    }

    /// Returns the paths of all arrays.
    fn array_paths(&self) -> Vec<String> {
        let view = self.store.view();
        let groups = self.segment_groups();
        let is_segment = |path: &str| {
            groups
                .iter()
                .any(|group| path.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with('/')))
        };
        view.arrays().into_iter().map(|(path, _)| path).filter(|path| !is_segment(path)).collect()
    }

    /// Returns the paths of the groups that are segments of one dataset.
    fn segment_groups(&self) -> Vec<String> {
        self.store.segment_groups().into_iter().collect()
    }

    /// Returns what `virtualize inspect --array` prints about arrays.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts lists as values")]
    fn describe_arrays(&self, py: Python<'_>, paths: Vec<String>) -> PyResult<String> {
        let store = self.complete(py)?;
        let described = py.detach(|| virtualize_cli::describe_arrays(&store, &paths));
        described.map_err(|error| PyKeyError::new_err(error.to_string()))
    }

    /// Writes references, or commits them to an Icechunk repository. Returns the id of the snapshot of a commit.
    fn write<'py>(
        &self,
        py: Python<'py>,
        format: &str,
        #[pyo3(from_py_with = location_of)] target: String,
        options: &str,
        wait: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let format: OutputFormat =
            format.parse().map_err(|error| error::option(format!("format: {error}")))?;
        let write = match format {
            OutputFormat::References(_) => WriteTo { write: parse(options)?, ..WriteTo::default() },
            OutputFormat::Icechunk => WriteTo { icechunk: parse(options)?, ..WriteTo::default() },
        };
        let (location, mapping) = (self.location.clone(), self.options.clone());
        let (lazy, is_own) = (Arc::clone(&self.lazy), self.is_own);
        runtime::run(py, wait, async move {
            let options = mapping.options(format.zarr_format());
            let store = lazy.complete().await.map_err(|error| error::of(&error))?;
            let mut store = match format.zarr_format() {
                ZarrFormat::V3 if !is_own => VirtualStore::clone(&store),
                // To another Zarr format.
                _ => {
                    let again = virtualize::open(&location, &options).boxed().await;
                    let again = again.map_err(|error| error::of(&error))?;
                    if again.stamp() != store.stamp() {
                        return Err(error::changed(store.name()));
                    }
                    again
                }
            };
            if let OutputFormat::References(_) = format {
                store.compress_inlined();
            }
            let written = write.run(&mut store, format, &target, &options.store).await;
            written.map_err(|error| error::of(&error))
        })
    }
}

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

/// A key, and the part of its value that is requested; `None` for all.
type Request = (String, Option<Part>);

/// A value, `None` for a key that the store does not have, or the error of reading it.
struct Value(PyResult<Option<Bytes>>);

#[pymethods]
impl File {
    /// Returns the metadata documents by key.
    fn documents(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        let (store, encoding) = (Arc::clone(&self.store), self.encoding);
        let documents = py
            .detach(|| keys::documents(store.name(), store.view(), encoding))
            .map_err(|error| error::of(&error))?;
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
            return runtime::interruptible(py, read)?.into_bound_py_any(py);
        }
        runtime::run(py, false, async move {
            tokio::task::spawn_blocking(read).await.map_err(|_| error::internal())
        })
    }

    /// Returns the array and the reason of chunks that were filled since the last call.
    fn filled(&self) -> Vec<(String, String)> {
        self.reader.missing()
    }

    /// Returns whether the store has a chunk's key.
    fn has_chunk(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        let Some(chunk) = keys::address(self.store.view(), key) else { return Ok(false) };
        Ok(self.stored_length(py, &chunk)?.is_some())
    }

    /// Returns the length of the value of a chunk's key in bytes; `None` for a missing chunk, and for decoded elements
    /// of variable length.
    fn chunk_size(&self, py: Python<'_>, key: &str) -> PyResult<Option<u64>> {
        let Some(chunk) = keys::address(self.store.view(), key) else { return Ok(None) };
        let stored = self.stored_length(py, &chunk)?;
        let decoded = || {
            let array = self.store.view().array(&chunk.path)?;
            let counts = array.chunk_grid.counts(&array.shape);
            virtualize::chunk_size(array, chunk_position(chunk.indices.iter().copied(), &counts)?)
        };
        Ok(match self.encoding {
            ChunkEncoding::Stored => stored,
            ChunkEncoding::Decoded => stored.and_then(|_| decoded()),
        })
    }

    /// Returns at most `most` keys with a prefix, from the one that follows `after`.
    fn list_keys(
        &self,
        py: Python<'_>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> PyResult<Vec<String>> {
        let store = self.complete(py)?;
        py.detach(|| {
            let listing = store.listing().map_err(|error| error::of(&error))?;
            Ok(keys::list(&listing, prefix, after, most))
        })
    }

    /// Returns at most `most` names in a folder, from the one that follows `after`.
    fn list_folder(
        &self,
        py: Python<'_>,
        folder: &str,
        after: Option<&str>,
        most: usize,
    ) -> PyResult<Vec<String>> {
        let is_group = self.store.view().group(folder.trim_matches('/')).is_some();
        let store = if is_group { Arc::clone(&self.store) } else { self.complete(py)? };
        py.detach(|| {
            let listing = store.listing().map_err(|error| error::of(&error))?;
            Ok(keys::list_dir(&listing, folder, after, most))
        })
    }
}

impl File {
    /// Returns the store with all chunks.
    fn complete(&self, py: Python<'_>) -> PyResult<Arc<VirtualStore>> {
        if self.lazy.is_complete() {
            return Ok(Arc::clone(&self.store));
        }
        let lazy = Arc::clone(&self.lazy);
        runtime::block_on(py, async move { lazy.complete().await.map_err(|error| error::of(&error)) })
    }

    fn stored_length(&self, py: Python<'_>, chunk: &ChunkAddress) -> PyResult<Option<u64>> {
        let length = runtime::detach(py, || self.reader.stored_length(chunk))?;
        length.map_err(|error| error::of(&error))
    }
}

/// Reads the values of keys of chunks, in one batch.
fn values(
    store: &virtualize::VirtualStore,
    reader: &virtualize::ArrayReader,
    encoding: ChunkEncoding,
    requests: &[Request],
) -> Vec<Value> {
    let address = |(key, part): &Request| {
        let part = match *part {
            None => ChunkPart::Whole,
            Some(Part::Range((start, end))) => ChunkPart::Range(start, end),
            Some(Part::From(start)) if start < 0 => ChunkPart::Last(start.unsigned_abs()),
            Some(Part::From(start)) => ChunkPart::From(start.unsigned_abs()),
        };
        Some((keys::address(store.view(), key)?, part))
    };
    let chunks: Vec<Option<(ChunkAddress, ChunkPart)>> = requests.iter().map(address).collect();
    let found: Vec<_> = chunks.iter().flatten().cloned().collect();
    let read = match encoding {
        ChunkEncoding::Decoded => {
            let addresses: Vec<_> = found.into_iter().map(|(address, _)| address).collect();
            reader.decoded_chunks(&addresses)
        }
        ChunkEncoding::Stored => reader.stored_chunks(&found),
    };
    let mut read = read.into_iter();
    let value = |requested: Option<(ChunkAddress, ChunkPart)>| {
        let Some((_, part)) = requested else { return Value(Ok(None)) };
        let bytes = read.next().unwrap_or(Ok(None)).map_err(|error| error::of(&error));
        Value(match encoding {
            ChunkEncoding::Stored => bytes,
            ChunkEncoding::Decoded => bytes.map(|bytes| bytes.map(|bytes| within(&bytes, part))),
        })
    };
    chunks.into_iter().map(value).collect()
}

fn within(bytes: &Bytes, part: ChunkPart) -> Bytes {
    let range = part.range(bytes.len() as u64);
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

/// Maximum number of positions in the grid of an array: their columns take 5 GiB.
const MAX_POSITIONS: u64 = 1 << 28;

/// A column with a value for each position of the chunk grid, in row-major order.
enum Column<T> {
    /// The same value everywhere.
    Same(T),
    /// A value for each position.
    Each(Vec<T>),
}

/// Locations of the chunks of an array.
struct Columns {
    /// Index of the url; -1 for a chunk that is missing or inline.
    source: Column<i32>,
    offset: Column<u64>,
    /// Length in bytes; 0 for a missing chunk.
    length: Column<u64>,
}

/// Chunks per axis, urls, source, offset, length, and inline chunks by position.
type Manifest<'py> = (
    Vec<u64>,
    Vec<String>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Vec<(u64, Bound<'py, PyBytes>)>,
);

#[pymethods]
impl File {
    /// Returns the locations of the chunks of an array. A column is an array, or the value of all its elements.
    fn manifest<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Manifest<'py>> {
        let (store, path) = (self.complete(py)?, path.trim_matches('/'));
        let store = store.as_ref();
        let array = store.hierarchy.array(path).ok_or_else(|| {
            let text = format!("{}: no array {path:?}", store.name());
            error::with_class(virtualize::ErrorClass::NotFound, virtualize::Code::NotFound, text)
        })?;
        let counts = array.chunk_grid.counts(&array.shape);
        let count = positions(store, path, &counts)?;
        let Columns { source, offset, length } = py.detach(|| columns(&array.chunks, count));
        let inline = array.chunks.inline.iter().map(|(at, bytes)| (*at, PyBytes::new(py, bytes))).collect();
        let urls = store.hierarchy.sources.iter().map(|source| source.url.clone()).collect();
        Ok((counts, urls, to_python(py, source)?, to_python(py, offset)?, to_python(py, length)?, inline))
    }
}

/// Returns the number of positions in a grid.
fn positions(store: &VirtualStore, path: &str, counts: &[u64]) -> PyResult<usize> {
    let product = counts.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
    // An axis without chunks leaves no positions, however long the others are.
    let product = if counts.contains(&0) { Some(0) } else { product };
    let fits = product.filter(|count| *count <= MAX_POSITIONS).and_then(|count| usize::try_from(count).ok());
    fits.ok_or_else(|| {
        let name = store.name();
        let text =
            format!("{name}: {path}: the chunk grid {counts:?} has more than {MAX_POSITIONS} positions");
        error::with_class(virtualize::ErrorClass::File, virtualize::Code::ValuesUnreadable, text)
    })
}

/// Returns the columns of a manifest.
fn columns(manifest: &ChunkManifest, count: usize) -> Columns {
    match manifest.references.as_slice() {
        [only] if manifest.inline.is_empty() && only.positions.is_none() && only.len() == count => {
            whole(only)
        }
        _ => sparse(manifest, count),
    }
}

/// Returns the columns of a source that contains every chunk.
fn whole(references: &References) -> Columns {
    let length = match &references.lengths {
        Lengths::Uniform(length) => Column::Same(*length),
        Lengths::Each(lengths) => Column::Each(lengths.iter().map(|length| u64::from(*length)).collect()),
    };
    let source = Column::Same(index(references));
    Columns { source, offset: Column::Each(references.offsets.to_vec()), length }
}

/// Returns the columns of a manifest with missing or inline chunks or several sources.
fn sparse(manifest: &ChunkManifest, count: usize) -> Columns {
    let (mut source, mut offset, mut length) = (vec![-1; count], vec![0; count], vec![0; count]);
    let mut set = |position: u64, from: i32, start: u64, bytes: u64| {
        let Ok(at) = usize::try_from(position) else { return };
        if let (Some(source), Some(offset), Some(length)) =
            (source.get_mut(at), offset.get_mut(at), length.get_mut(at))
        {
            (*source, *offset, *length) = (from, start, bytes);
        }
    };
    for references in &manifest.references {
        let from = index(references);
        for (position, chunk) in references.iter() {
            set(position, from, chunk.offset, chunk.length);
        }
    }
    for (position, bytes) in &manifest.inline {
        set(*position, -1, 0, bytes.len() as u64);
    }
    Columns { source: Column::Each(source), offset: Column::Each(offset), length: Column::Each(length) }
}

fn index(references: &References) -> i32 {
    i32::try_from(references.source.0).unwrap_or(i32::MAX)
}

/// Moves a column into an array of NumPy.
fn to_python<'py, T>(py: Python<'py>, column: Column<T>) -> PyResult<Bound<'py, PyAny>>
where
    T: numpy::Element + IntoPyObject<'py>,
{
    match column {
        Column::Same(value) => value.into_bound_py_any(py),
        Column::Each(values) => PyArray1::from_vec(py, values).into_bound_py_any(py),
    }
}
