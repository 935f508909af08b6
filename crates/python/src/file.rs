//! An open file and its mapping: the core of `virtualize.VirtualStore`.

use std::sync::Arc;

use futures::FutureExt;
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyList, PyTuple},
};
use virtualize::{
    ArrayReader, Options, VirtualStore, describe,
    keys::ChunkEncoding,
    options::{IcechunkOptions, OutputFormat, WriteOptions},
    zarr::ZarrFormat,
};

use crate::{
    error,
    foreign::PythonStore,
    images,
    options::{FileOptions, parse},
    runtime,
};

/// An open file and its mapping to Zarr v3.
#[pyclass(frozen, module = "virtualize._virtualize")]
pub(crate) struct File {
    pub(crate) store: Arc<VirtualStore>,
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
    location: String,
    options: &str,
    decoded: bool,
    files: Option<Py<PyAny>>,
    wait: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut options: FileOptions = parse(options)?;
    options.through = files.map(PythonStore::new);
    let encoding = if decoded { ChunkEncoding::Decoded } else { ChunkEncoding::Stored };
    runtime::run(py, wait, async move {
        let is_own = decoded && options.names_no_reader();
        let mapping = if is_own { options.own() } else { options.options(ZarrFormat::V3) };
        let store = Arc::new(mapped(&location, &mapping).await?);
        let reader = ArrayReader::new(Arc::clone(&store), mapping.store).with_decoder(images::decoder());
        Ok(File { store, reader: Arc::new(reader), encoding, is_own, location, options })
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

    /// Url, entity tag, size in bytes and modification time in milliseconds of each file that contains chunks.
    #[getter]
    fn version<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sources = self.store.hierarchy.sources.iter();
        PyTuple::new(py, sources.map(|source| (&source.url, &source.etag, source.size, source.modified)))
    }

    /// Warnings and other diagnostics of the mapping.
    #[getter]
    fn diagnostics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        error::diagnostics_of(py, &self.store.report.diagnostics)
    }

    /// Returns what `virtualize inspect --json` prints.
    fn inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = Arc::clone(&self.store);
        let described = py.detach(|| describe::store(&store, error::KEYWORDS));
        runtime::loads(py, &described)
    }

    /// Returns what `virtualize inspect` prints, in full or not.
    fn describe(&self, py: Python<'_>, full: bool) -> String {
        py.detach(|| virtualize_cli::describe(&self.store, error::KEYWORDS, full))
    }

    /// Returns the paths of all arrays.
    fn array_paths(&self) -> Vec<String> {
        self.store.hierarchy.arrays().into_iter().map(|(path, _)| path).collect()
    }

    /// Returns what `virtualize inspect --array` prints about arrays.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts lists as values")]
    fn describe_arrays(&self, py: Python<'_>, paths: Vec<String>) -> PyResult<String> {
        let described = py.detach(|| virtualize_cli::describe_arrays(&self.store, &paths));
        described.map_err(|error| PyKeyError::new_err(error.to_string()))
    }

    /// Writes references, or commits them to an Icechunk repository. Returns the id of the snapshot of a commit.
    fn write<'py>(
        &self,
        py: Python<'py>,
        format: &str,
        target: String,
        overwrite: bool,
        options: &str,
        wait: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let format: OutputFormat =
            format.parse().map_err(|error| error::option(format!("format: {error}")))?;
        let write: WriteTo = parse(options)?;
        let (location, mapping) = (self.location.clone(), self.options.clone());
        let (store, is_own) = (Arc::clone(&self.store), self.is_own);
        runtime::run(py, wait, async move {
            let options = mapping.options(format.zarr_format());
            let store = match format.zarr_format() {
                ZarrFormat::V3 if !is_own => VirtualStore::clone(&store),
                _ => mapped_again(&location, &options, &store).await?,
            };
            write.run(store, format, &target, overwrite, &options).await
        })
    }
}

/// How and where references are written.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct WriteTo {
    #[serde(flatten)]
    write: WriteOptions,
    #[serde(flatten)]
    icechunk: IcechunkOptions,
}

impl WriteTo {
    /// Writes references or commits them.
    async fn run(
        self,
        mut store: VirtualStore,
        format: OutputFormat,
        target: &str,
        overwrite: bool,
        options: &Options,
    ) -> PyResult<Option<String>> {
        store.relocate(&self.write.relocation(Some(target))).map_err(|error| error::of(&error))?;
        match format {
            OutputFormat::References(format) => {
                store.compress_inlined();
                let format = self.write.format(format);
                let written = virtualize::write_folder(&store, format, target, overwrite, &options.store);
                written.await.map_err(|error| error::of(&error))?;
                Ok(None)
            }
            OutputFormat::Icechunk => {
                let commit = self.icechunk.options(store.name());
                let done = virtualize::commit(&store, target, &commit, &options.store);
                Ok(Some(done.await.map_err(|error| error::of(&error))?.snapshot))
            }
        }
    }
}

/// Opens and maps a file.
async fn mapped(location: &str, options: &Options) -> PyResult<VirtualStore> {
    virtualize::open(location, options).boxed().await.map_err(|error| error::of(&error))
}

/// Maps a file that is already open to another Zarr format.
async fn mapped_again(location: &str, options: &Options, first: &VirtualStore) -> PyResult<VirtualStore> {
    let again = mapped(location, options).await?;
    if again.stamp() == first.stamp() { Ok(again) } else { Err(error::changed(first.name())) }
}
