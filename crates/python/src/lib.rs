//! The Python module `virtualize._virtualize`: the library for Python, without zarr and xarray.
//!
//! The Python sources in `python/` build the public package on it. Options arrive as JSON text with the names of the
//! command's options. Whatever waits releases the GIL, and is either awaited or answers Ctrl-C.

mod archive;
mod array;
mod attributes;
mod error;
mod file;
mod options;
mod references;
mod runtime;

/// The compiled part of the package `virtualize`.
#[pyo3::pymodule(gil_used = false)]
mod _virtualize {
    #[pymodule_export]
    use super::archive::{Run, batch, scan, write_list};
    #[pymodule_export]
    use super::array::{Codec, codec_names};
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::file::{File, open};
    #[pymodule_export]
    use super::references::{convert, diff, validate};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let leave = wrap_pyfunction!(super::runtime::leave, module)?;
        module.py().import("atexit")?.call_method1("register", (leave,)).map(drop)
    }
}

/// Runs the command with its arguments, the name of the program first, and returns its exit status.
#[pyo3::pyfunction]
fn command(py: pyo3::Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| virtualize_cli::run(arguments))
}
