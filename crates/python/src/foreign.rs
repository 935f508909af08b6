//! Stores of Python: obstore's, and any object with the methods of obspec's protocols. `virtualize._foreign` calls
//! their methods; this module runs it on threads that may block.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use pyo3::{
    exceptions::{PyFileNotFoundError, PyPermissionError},
    prelude::*,
    pybacked::PyBackedBytes,
    types::PyType,
};
use virtualize::{ByteRange, ReadErrorKind};
use virtualize_store::{FileVersion, ForeignError, ForeignStore};

use crate::runtime;

/// An object of `virtualize._foreign.ForeignFiles`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PythonStore(Arc<Py<PyAny>>);

impl PythonStore {
    pub(crate) fn new(files: Py<PyAny>) -> Self {
        Self(Arc::new(files))
    }
}

impl fmt::Debug for PythonStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonStore")
    }
}

impl ForeignStore for PythonStore {
    fn read<'a>(
        &'a self,
        url: &'a str,
        range: ByteRange,
        if_match: Option<&'a str>,
    ) -> futures::future::BoxFuture<'a, Result<(FileVersion, Bytes), ForeignError>> {
        let (files, url, if_match) = (self.clone(), url.to_owned(), if_match.map(str::to_owned));
        Box::pin(async move {
            let work = move || runtime::attach(|py| files.call(py, &url, range, if_match.as_deref()));
            match tokio::task::spawn_blocking(work).await {
                Ok(Some(done)) => done,
                Ok(None) => Err(unavailable("Python is about to end".to_owned())),
                Err(error) => Err(unavailable(error.to_string())),
            }
        })
    }
}

impl PythonStore {
    /// Calls `ForeignFiles.read`.
    fn call(
        &self,
        py: Python<'_>,
        url: &str,
        range: ByteRange,
        if_match: Option<&str>,
    ) -> Result<(FileVersion, Bytes), ForeignError> {
        type Answer = (PyBackedBytes, (u64, Option<String>, Option<i64>));
        let read = self.0.bind(py).call_method1("read", (url, range.start, range.end(), if_match));
        let (bytes, (size, etag, modified)) =
            read.and_then(|answer| answer.extract::<Answer>()).map_err(|error| classified(py, &error))?;
        Ok((FileVersion { size, etag, modified }, Bytes::from_owner(bytes)))
    }
}

/// Classifies an exception by the name of its class, as obspec prescribes.
fn classified(py: Python<'_>, error: &PyErr) -> ForeignError {
    let of_class = |class: Bound<'_, PyType>| match class.name().ok()?.to_str().ok()? {
        "NotFoundError" => Some(ReadErrorKind::NotFound),
        "PermissionDeniedError" | "UnauthenticatedError" => Some(ReadErrorKind::Denied),
        "PreconditionError" | "ChangedError" => Some(ReadErrorKind::Changed),
        "InvalidPathError" | "OptionError" => Some(ReadErrorKind::Invalid),
        _ => None,
    };
    let classes = error.get_type(py).mro();
    let named = classes.iter().filter_map(|class| class.cast_into::<PyType>().ok()).find_map(of_class);
    let kind = match named {
        Some(kind) => kind,
        None if error.is_instance_of::<PyFileNotFoundError>(py) => ReadErrorKind::NotFound,
        None if error.is_instance_of::<PyPermissionError>(py) => ReadErrorKind::Denied,
        None => ReadErrorKind::Unavailable,
    };
    let text = error.value(py).to_string();
    // obstore appends a dump of its structures.
    let said = text.split("\n\nDebug source").next().unwrap_or_default().trim();
    let reason = match said {
        "" => error.get_type(py).to_string(),
        said => said.to_owned(),
    };
    ForeignError { kind, reason }
}

fn unavailable(reason: String) -> ForeignError {
    ForeignError { kind: ReadErrorKind::Unavailable, reason }
}
