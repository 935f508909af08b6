//! The attributes of groups and arrays, as h5netcdf returns those of the original file.

use pyo3::{
    IntoPyObjectExt,
    exceptions::PyKeyError,
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};
use serde_json::Value;
use virtualize::{
    NumpyType, SourceAttribute, SourceValue, VirtualStore,
    zarr::{DataType, Endian, FillValue, cf::fill_value_attribute},
};

use crate::{file::File, runtime};

#[pymethods]
impl File {
    /// Returns the attributes of a group or array by name: those of an HDF5 file as h5netcdf returns them, those of
    /// a NetCDF-3 file as netCDF4-python does, those of other files as in the metadata, with the types of rioxarray.
    fn attributes<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyAny>> {
        let Some(attributes) = self.store.source_attributes(path) else {
            return metadata(py, &self.store, path);
        };
        let dict = PyDict::new(py);
        for SourceAttribute { name, value } in attributes {
            let mut value = python_value(py, value)?;
            // netCDF4-python returns a scalar of NumPy, which xarray compares with characters.
            if name == "_FillValue"
                && self.store.source_format.starts_with("NetCDF")
                && value.is_instance_of::<PyBytes>()
            {
                value = py.import("numpy")?.call_method1("bytes_", (value,))?;
            }
            dict.set_item(name, value)?;
        }
        Ok(dict.into_any())
    }

    /// Returns the names of the unlimited dimensions that a group of an HDF5 or NetCDF-3 file defines.
    fn unlimited_dimensions(&self, path: &str) -> Vec<String> {
        self.store.report.unlimited.get(path).cloned().unwrap_or_default()
    }
}

/// Returns the attributes in the metadata of a node.
fn metadata<'py>(py: Python<'py>, store: &VirtualStore, path: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Some(group) = store.view().group(path) {
        return runtime::loads(py, &group.attributes.clone().into());
    }
    let array = store.view().array(path).ok_or_else(|| PyKeyError::new_err(path.to_owned()))?;
    let attributes = runtime::loads(py, &array.attributes.clone().into())?;
    let decided = store.report.arrays.get(path).and_then(|report| report.fill.as_ref()?.sentinel.clone());
    // References have no report, but the attribute as xarray encodes it. Their type may not have the number.
    let encoded = |data_type: &DataType| {
        let attribute = array.attributes.get("_FillValue")?;
        Some((fill_value_attribute::decode(attribute, data_type)?, data_type.clone()))
    };
    let sentinel = decided.map(|sentinel| (sentinel, array.data_type.clone()));
    let sentinel = sentinel.or_else(|| encoded(&array.data_type));
    let sentinel = sentinel.or_else(|| encoded(&DataType::Float64).filter(|_| array.data_type.is_float()));
    if array.attributes.contains_key("_FillValue")
        && let Some((FillValue::Fixed(bytes), data_type)) = &sentinel
        && let Ok(Value::String(data_type)) = data_type.to_v2(Endian::Little)
    {
        let sentinel = self::array(py, bytes, data_type.into_bound_py_any(py)?)?.get_item(0)?;
        attributes.set_item("_FillValue", sentinel)?;
    }
    // xarray unpacks to the type of these numbers, and rioxarray to the smallest float that has all packed numbers.
    let is_small =
        array.data_type.size().is_some_and(|size| size <= 2) || array.data_type == DataType::Float32;
    if is_small && store.source_format != "references" {
        for name in ["scale_factor", "add_offset"] {
            if let Some(number) = array.attributes.get(name).and_then(Value::as_f64) {
                attributes.set_item(name, py.import("numpy")?.call_method1("float32", (number,))?)?;
            }
        }
    }
    Ok(attributes)
}

fn python_value<'py>(py: Python<'py>, value: &SourceValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        SourceValue::Json(value) => runtime::loads(py, value),
        SourceValue::Fixed { data_type, shape, bytes } => {
            let data_type = numpy_type(py, data_type)?;
            match shape {
                None => empty(py, data_type),
                Some(shape) => {
                    unwrapped(array(py, bytes, data_type)?.call_method1("reshape", (shape,))?, shape)
                }
            }
        }
        SourceValue::Text { length, is_utf8, shape, elements } => {
            text(py, *length, *is_utf8, shape, elements)
        }
        SourceValue::Sequences { data_type, shape, elements } => {
            let data_type = numpy_type(py, data_type)?;
            let arrays = elements.iter().map(|bytes| array(py, bytes, data_type.clone()));
            let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
            match (shape.as_deref(), arrays.as_slice()) {
                (Some([]), [one]) => unwrapped(one.clone(), &[one.len()? as u64]),
                (Some(shape), _) => unwrapped(objects(py, &arrays, shape)?, shape),
                (None, _) => empty(py, "O".into_bound_py_any(py)?),
            }
        }
    }
}

/// Returns the only element of an array of length 1, the scalar of an array without axes, and other arrays unchanged.
fn unwrapped<'py>(array: Bound<'py, PyAny>, shape: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    match shape.first() {
        None => array.get_item(()),
        Some(1) => array.get_item(0),
        Some(_) => Ok(array),
    }
}

/// Returns text: `str`, except for text of one byte, which is a character array of NetCDF. Arrays are lists.
fn text<'py>(
    py: Python<'py>,
    length: Option<u32>,
    is_utf8: bool,
    shape: &Option<Vec<u64>>,
    elements: &[Vec<u8>],
) -> PyResult<Bound<'py, PyAny>> {
    let Some(shape) = shape else {
        return match length {
            Some(1) => Ok(PyBytes::new(py, b"").into_any()),
            Some(length) => empty(py, format!("S{length}").into_bound_py_any(py)?),
            None => empty(py, "O".into_bound_py_any(py)?),
        };
    };
    if length == Some(1) {
        let characters: Vec<u8> =
            elements.iter().map(|element| element.first().copied().unwrap_or(0)).collect();
        let array = array(py, &characters, "S1".into_bound_py_any(py)?)?;
        return listed(array.call_method1("reshape", (shape,))?, shape);
    }
    let encoding = if is_utf8 || length.is_none() { "utf-8" } else { "ascii" };
    let decode =
        |bytes: &Vec<u8>| PyBytes::new(py, bytes).call_method1("decode", (encoding, "surrogateescape"));
    let texts = elements.iter().map(decode).collect::<PyResult<Vec<_>>>()?;
    match (length, shape.as_slice(), texts.as_slice()) {
        (_, [], [one]) => Ok(one.clone()),
        // h5netcdf flattens arrays of text of fixed length.
        (Some(_), _, [one]) => Ok(one.clone()),
        (Some(_), ..) => Ok(PyList::new(py, texts)?.into_any()),
        (None, ..) => listed(objects(py, &texts, shape)?, shape),
    }
}

/// Returns an array as a list, without a list around a single element.
fn listed<'py>(array: Bound<'py, PyAny>, shape: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    match shape.first() {
        None => array.get_item(()),
        Some(first) => {
            let list = array.call_method0("tolist")?;
            if *first == 1 { list.get_item(0) } else { Ok(list) }
        }
    }
}

fn numpy_type<'py>(py: Python<'py>, data_type: &NumpyType) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let (size, fields) = match data_type {
        NumpyType::Plain(text) => return numpy.call_method1("dtype", (text,)),
        NumpyType::Struct { size, fields } => (size, fields),
    };
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let offsets: Vec<u32> = fields.iter().map(|field| field.offset).collect();
    let formats = fields.iter().map(|field| {
        let data_type = numpy_type(py, &field.data_type)?;
        if field.shape.is_empty() { Ok(data_type) } else { (data_type, &field.shape).into_bound_py_any(py) }
    });
    let layout = PyDict::new(py);
    layout.set_item("names", names)?;
    layout.set_item("formats", formats.collect::<PyResult<Vec<_>>>()?)?;
    layout.set_item("offsets", offsets)?;
    layout.set_item("itemsize", size)?;
    numpy.call_method1("dtype", (layout,))
}

/// Returns a writable array of one axis.
fn array<'py>(py: Python<'py>, bytes: &[u8], data_type: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let view = py.import("numpy")?.call_method1("frombuffer", (PyBytes::new(py, bytes), data_type))?;
    view.call_method0("copy")
}

/// Returns an array of objects.
fn objects<'py>(
    py: Python<'py>,
    elements: &[Bound<'py, PyAny>],
    shape: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let array = py.import("numpy")?.call_method1("empty", (elements.len(), "O"))?;
    for (index, element) in elements.iter().enumerate() {
        array.set_item(index, element)?;
    }
    array.call_method1("reshape", (shape,))
}

fn empty<'py>(py: Python<'py>, data_type: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    py.import("numpy")?.call_method1("empty", (0, data_type))
}
