//! Arrays and groups of a file: their metadata, and their values in memory that NumPy allocated.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};
use serde_json::{Value, json};
use virtualize::{
    AxisSelection, ForeignDecoder, PackageCodec, Selection,
    zarr::{self, Array, ChunkGrid, DataType, Endian, Field, FillValue, Node, ZarrFormat},
};

use crate::{error, file::File, runtime};

/// Indices along one axis.
#[derive(FromPyObject)]
pub(crate) enum Axis<'py> {
    /// First index, distance and number.
    #[pyo3(transparent)]
    Range((u64, u64, u64)),
    /// Indices in any order.
    #[pyo3(transparent)]
    Indices(PyReadonlyArray1<'py, u64>),
}

/// What is read of an array.
#[derive(FromPyObject)]
pub(crate) enum Selected<'py> {
    /// All combinations of the indices along each axis: a list.
    #[pyo3(transparent)]
    Axes(Vec<Axis<'py>>),
    /// Single elements: a dictionary of one item, the lists of their indices.
    Points {
        #[pyo3(item("points"))]
        points: Vec<PyReadonlyArray1<'py, u64>>,
    },
}

impl Selected<'_> {
    fn selection(&self) -> Selection {
        let list = |indices: &PyReadonlyArray1<'_, u64>| indices.as_array().to_vec();
        match self {
            Self::Axes(axes) => Selection::Axes(
                axes.iter()
                    .map(|axis| match axis {
                        Axis::Range((start, step, count)) => {
                            AxisSelection::Range { start: *start, step: *step, count: *count }
                        }
                        Axis::Indices(indices) => AxisSelection::Indices(list(indices)),
                    })
                    .collect(),
            ),
            Self::Points { points } => Selection::Points(points.iter().map(list).collect()),
        }
    }
}

#[pymethods]
impl File {
    /// Reads elements of fixed size into the bytes of a NumPy array, in row-major order and little-endian byte order.
    fn read_fixed(
        &self,
        py: Python<'_>,
        path: &str,
        selected: Selected<'_>,
        mut out: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<()> {
        let (selection, out) = (selected.selection(), out.as_slice_mut()?);
        let read = runtime::interruptible(py, || self.reader.read(path, &selection, out))?;
        read.map_err(|error| error::of(&error))
    }

    /// Reads texts or byte strings of variable length, in row-major order.
    fn read_variable<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        selected: Selected<'_>,
    ) -> PyResult<Bound<'py, PyList>> {
        let selection = selected.selection();
        let found = runtime::interruptible(py, || self.reader.read_variable(path, &selection))?;
        let found = found.map_err(|error| error::of(&error))?;
        let array = self.store.view().array(path);
        let is_text = array.is_some_and(|array| array.data_type == DataType::String);
        let list = PyList::empty(py);
        for bytes in found {
            if is_text { list.append(text(py, &bytes)?)? } else { list.append(PyBytes::new(py, &bytes))? }
        }
        Ok(list)
    }

    /// Returns the metadata of an array, `None` if there is no array at the path.
    fn array_info<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(array) = self.store.view().array(path) else { return Ok(None) };
        let info = runtime::loads(py, &described(array))?;
        let report = self.store.report.arrays.get(path);
        let is_chunked = report.is_none_or(|report| report.source_layout.starts_with("chunked"));
        info.set_item("is_contiguous", self.store.source_format == "HDF5" && !is_chunked)?;
        info.set_item("is_ascii", report.is_some_and(|report| report.is_ascii))?;
        info.set_item("fill_value", fill_value(py, array)?)?;
        Ok(Some(info))
    }

    /// Returns whether each child of a group is an array, by name; `None` if there is no group at the path.
    fn children<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(group) = self.store.view().group(path) else { return Ok(None) };
        let found = PyDict::new(py);
        for (name, node) in &group.children {
            found.set_item(name, matches!(node, Node::Array(_)))?;
        }
        Ok(Some(found))
    }
}

/// Returns text as h5py does: bytes that are not UTF-8 become surrogates.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}

fn described(array: &Array) -> Value {
    let (chunks, edges) = match &array.chunk_grid {
        ChunkGrid::Regular(chunks) => (Some(chunks), None),
        ChunkGrid::Rectilinear(edges) => (None, Some(edges)),
    };
    json!({
        "shape": array.shape,
        "dtype": numpy_type(&array.data_type),
        "is_text": array.data_type == DataType::String,
        "chunks": chunks,
        "edges": edges,
        "dims": array.dimension_names,
        "filters": filters(array),
    })
}

/// Returns the filters of an HDF5 dataset as netCDF4-python names them.
fn filters(array: &Array) -> Value {
    let has = |name: &str| array.codecs.iter().any(|codec| codec.name() == Some(name));
    let level = array.codecs.iter().find_map(|codec| match codec {
        zarr::Codec::Zlib { level } => Some(*level),
        _ => None,
    });
    let mut found = json!({"zlib": has("zlib"), "shuffle": has("shuffle"), "fletcher32": has("fletcher32")});
    if let (Some(level), Some(found)) = (level, found.as_object_mut()) {
        found.insert("complevel".to_owned(), level.into());
    }
    found
}

fn fill_value<'py>(py: Python<'py>, array: &Array) -> PyResult<Option<Bound<'py, PyAny>>> {
    array
        .fill_value
        .as_ref()
        .map(|value| match value {
            FillValue::Fixed(bytes) | FillValue::Variable(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
            FillValue::Text(value) => Ok(PyString::new(py, value).into_any()),
        })
        .transpose()
}

/// Returns the type of NumPy for values in memory, all numbers little-endian: text, or a list of fields.
pub(crate) fn numpy_type(data_type: &DataType) -> Value {
    match data_type {
        DataType::Struct(fields) => {
            let field = |field: &Field| json!([field.name, numpy_type(&field.data_type), field.shape]);
            fields.iter().map(field).collect()
        }
        DataType::RawBytes(size) => format!("|V{size}").into(),
        DataType::FixedBytes(size) => format!("|S{size}").into(),
        // The types that remain have one in Zarr v2, and its name is NumPy's.
        other => other.to_v2(Endian::Little).unwrap_or_else(|_| "|O".into()),
    }
}

/// A codec with its configuration.
#[pyclass(frozen, module = "virtualize._virtualize")]
pub(crate) struct Codec(PackageCodec);

#[pymethods]
impl Codec {
    /// Parses a codec's entry in a metadata document of Zarr v2 (`{"id": …}`) or v3 (`{"name": …}`).
    #[new]
    fn new(entry: &str, zarr_format: u8) -> PyResult<Self> {
        let format = if zarr_format == 2 { ZarrFormat::V2 } else { ZarrFormat::V3 };
        let parsed = serde_json::from_str::<Value>(entry).ok();
        let codec = parsed.and_then(|entry| PackageCodec::parse(&entry, format));
        codec.map(Self).ok_or_else(|| {
            error::option(format!("{entry} is not a codec of this package, or of a newer version"))
        })
    }

    /// Whether `encode` works.
    #[getter]
    fn encodes(&self) -> bool {
        self.0.encodes()
    }

    /// Decodes stored bytes without the GIL; more than `most` decoded bytes are an error.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        stored: PyReadonlyArray1<'py, u8>,
        most: usize,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let stored = stored.as_slice()?;
        let decoded = py.detach(|| self.0.decode(stored, most));
        Ok(decoded.map_err(failure)?.into_pyarray(py))
    }

    /// Encodes bytes without the GIL.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        decoded: PyReadonlyArray1<'py, u8>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let decoded = decoded.as_slice()?;
        let encoded = py.detach(|| self.0.encode(decoded));
        Ok(encoded.map_err(failure)?.into_pyarray(py))
    }
}

/// Returns the names of all codecs.
#[pyfunction]
pub(crate) fn codec_names() -> Vec<&'static str> {
    PackageCodec::names()
}

#[expect(clippy::needless_pass_by_value, reason = "it is a parameter of map_err")]
fn failure(error: impl ToString) -> PyErr {
    error::with_class(virtualize::ErrorClass::File, virtualize::Code::ValuesUnreadable, error.to_string())
}

/// Returns the function that decodes chunks without a decoder in Rust.
pub(crate) fn decoder() -> Arc<ForeignDecoder> {
    Arc::new(|stored, array, shape| {
        let decode =
            |py: Python<'_>| decoded(py, stored, array, shape).map_err(|error| error.value(py).to_string());
        runtime::attach(decode).unwrap_or_else(|| Err("Python is about to end".to_owned()))
    })
}

fn decoded(py: Python<'_>, stored: &[u8], array: &Array, shape: &[u64]) -> PyResult<Vec<u8>> {
    let codecs = array.codecs.iter().filter_map(|codec| codec.to_v2().or_else(|_| codec.to_v3()).ok());
    let codecs = Value::Array(codecs.collect()).to_string();
    let data_type = numpy_type(&array.data_type).to_string();
    let decode = py.import("virtualize._images")?.getattr("decode")?;
    let values = decode.call1((PyBytes::new(py, stored), codecs, PyTuple::new(py, shape)?, data_type))?;
    Ok(values.cast::<PyBytes>()?.as_bytes().to_vec())
}
