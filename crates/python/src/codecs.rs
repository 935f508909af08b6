//! The codecs of `virtualize.codecs`, which zarr-python and numcodecs call for chunks that no other package decodes.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use serde_json::Value;
use virtualize::{PackageCodec, zarr::ZarrFormat};

use crate::error;

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
