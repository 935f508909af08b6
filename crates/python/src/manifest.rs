//! Locations of the chunks of an array as NumPy columns.

use numpy::PyArray1;
use pyo3::{IntoPyObjectExt, prelude::*, types::PyBytes};
use virtualize::{
    VirtualStore,
    zarr::{ChunkManifest, Lengths, References},
};

use crate::{error, file::File};

/// Maximum number of positions in the grid of an array: their columns take 5 GiB.
const MOST_POSITIONS: u64 = 1 << 28;

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
        let (store, path) = (self.store.as_ref(), path.trim_matches('/'));
        let array = store.hierarchy.array(path).ok_or_else(|| no_array(store, path))?;
        let counts = array.chunk_grid.counts(&array.shape);
        let count = positions(store, path, &counts)?;
        let Columns { source, offset, length } = py.detach(|| columns(&array.chunks, count));
        let inline = array.chunks.inline.iter().map(|(at, bytes)| (*at, PyBytes::new(py, bytes))).collect();
        let urls = store.hierarchy.sources.iter().map(|source| source.url.clone()).collect();
        Ok((counts, urls, to_python(py, source)?, to_python(py, offset)?, to_python(py, length)?, inline))
    }
}

fn no_array(store: &VirtualStore, path: &str) -> PyErr {
    error::with_class(
        virtualize::ErrorClass::NotFound,
        virtualize::Code::NotFound,
        format!("{}: no array {path:?}", store.name()),
    )
}

/// Returns the number of positions in a grid.
fn positions(store: &VirtualStore, path: &str, counts: &[u64]) -> PyResult<usize> {
    let product = counts.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
    // An axis without chunks leaves no positions, however long the others are.
    let product = if counts.contains(&0) { Some(0) } else { product };
    let fits = product.filter(|count| *count <= MOST_POSITIONS).and_then(|count| usize::try_from(count).ok());
    fits.ok_or_else(|| {
        let name = store.name();
        let text =
            format!("{name}: {path}: the chunk grid {counts:?} has more than {MOST_POSITIONS} positions");
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
