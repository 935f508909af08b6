//! Chunks of image codecs, which the Python package imagecodecs decodes.

use std::sync::Arc;

use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};
use serde_json::Value;
use virtualize::{ForeignDecoder, zarr::Array};

use crate::{array::numpy_type, runtime};

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
