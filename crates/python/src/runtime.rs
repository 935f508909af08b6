//! One tokio runtime for the process, and the two ways to wait for it: blocking without the GIL, and as a future of
//! Python.

use std::{
    cell::Cell,
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use pyo3::{
    IntoPyObjectExt,
    exceptions::{PyFileNotFoundError, PyPermissionError},
    prelude::*,
    pybacked::PyBackedBytes,
    types::PyType,
};
use tokio::{runtime::Runtime, task::AbortHandle};
use virtualize::{ByteRange, FileVersion, ForeignStore, ReadError, ReadErrorKind};

use crate::error;

/// Time between two looks at pending signals, such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// Time that threads have to leave Python before it ends.
const LEAVING: Duration = Duration::from_secs(2);

/// The runtime, and the process in which its threads run.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);
/// Number of threads of this package that run Python code or wait for it.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Whether Python is about to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Returns the runtime of this process. The threads of a runtime do not survive a fork, so a child gets its own.
pub(crate) fn runtime() -> PyResult<Arc<Runtime>> {
    let mut current = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((of, runtime)) = current.as_ref()
        && *of == process
    {
        return Ok(Arc::clone(runtime));
    }
    let made = Arc::new(tokio::runtime::Builder::new_multi_thread().enable_all().build()?);
    INSIDE.store(0, Ordering::SeqCst);
    // Dropping the parent's runtime would wait for threads that this process does not have.
    std::mem::forget(current.replace((process, Arc::clone(&made))));
    Ok(made)
}

/// Runs Python code on a thread that Python does not know. Returns `None` if Python is about to end: a thread that is
/// in Python then takes the process down with it.
pub(crate) fn attach<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let done = if IS_ENDING.load(Ordering::SeqCst) { None } else { Python::try_attach(work) };
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    done
}

/// Keeps the threads of this package out of Python, which calls this function before it ends.
#[pyfunction]
pub(crate) fn leave(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    let process =
        RUNTIME.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(process, _)| *process);
    if process != Some(std::process::id()) {
        return;
    }
    py.detach(|| {
        let until = Instant::now() + LEAVING;
        while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Runs a future and waits for its result: blocking without the GIL if `wait` is set, otherwise by returning a
/// `concurrent.futures.Future`.
pub(crate) fn run<'py, T, F>(py: Python<'py>, wait: bool, future: F) -> PyResult<Bound<'py, PyAny>>
where
    T: Send + 'static + for<'p> IntoPyObject<'p>,
    F: Future<Output = PyResult<T>> + Send + 'static,
{
    if wait { block_on(py, future)?.into_bound_py_any(py) } else { spawn(py, future) }
}

/// Runs blocking work on the calling thread, without the GIL and in the context of the runtime.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let runtime = runtime()?;
    Ok(py.detach(|| {
        let _context = runtime.enter();
        work()
    }))
}

thread_local! {
    /// When this thread looked at pending signals, if it runs interruptible work.
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The exception of a signal that interrupted the work of this thread.
    static SIGNAL: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Runs work as [`detach`] does, which asks [`is_interrupted`]. Ctrl-C stops it.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    LOOKED.set(Some(Instant::now()));
    let done = detach(py, work);
    LOOKED.set(None);
    match SIGNAL.take() {
        Some(error) => Err(error),
        None => done,
    }
}

/// Returns whether a signal, such as Ctrl-C, interrupts the work of this thread.
pub(crate) fn is_interrupted() -> bool {
    if LOOKED.get().is_none_or(|looked| looked.elapsed() < SIGNALS) {
        return false;
    }
    LOOKED.set(Some(Instant::now()));
    match attach(|py| py.check_signals()) {
        Some(Err(error)) => {
            SIGNAL.set(Some(error));
            true
        }
        Some(Ok(())) | None => false,
    }
}

/// Runs a future to its end without the GIL. Ctrl-C cancels it.
///
/// The future runs on a thread of the runtime, so that a callback in it may call this function again.
pub(crate) fn block_on<T, F>(py: Python<'_>, future: F) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = PyResult<T>> + Send + 'static,
{
    let (sender, receiver) = mpsc::sync_channel(1);
    let task = runtime()?.spawn(async move {
        let _ = sender.send(future.await);
    });
    py.detach(move || {
        loop {
            match receiver.recv_timeout(SIGNALS) {
                Ok(done) => return done,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    Python::attach(|py| py.check_signals()).inspect_err(|_| task.abort())?;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(error::internal()),
            }
        }
    })
}

/// Starts a future, and returns a `concurrent.futures.Future` of its result. Cancelling that cancels the work.
fn spawn<'py, T, F>(py: Python<'py>, future: F) -> PyResult<Bound<'py, PyAny>>
where
    T: Send + 'static + for<'p> IntoPyObject<'p>,
    F: Future<Output = PyResult<T>> + Send + 'static,
{
    let promise = py.import("concurrent.futures")?.getattr("Future")?.call0()?;
    let kept = promise.clone().unbind();
    let runtime = runtime()?;
    let work = runtime.spawn(future);
    let abort = work.abort_handle();
    runtime.spawn(async move {
        let done = work.await;
        attach(move |py| {
            let result = match done {
                Ok(result) => result,
                Err(error) if error.is_cancelled() => return,
                Err(_) => Err(error::internal()),
            };
            // A future that was cancelled meanwhile refuses its result.
            let _ = settle(kept.bind(py), result);
        });
    });
    promise.call_method1("add_done_callback", (Cancel(abort),))?;
    Ok(promise)
}

/// Sets the result of a `concurrent.futures.Future`.
fn settle<T>(promise: &Bound<'_, PyAny>, result: PyResult<T>) -> PyResult<()>
where
    T: for<'p> IntoPyObject<'p>,
{
    let py = promise.py();
    if !promise.call_method0("set_running_or_notify_cancel")?.is_truthy()? {
        return Ok(());
    }
    let result = result.and_then(|value| value.into_bound_py_any(py));
    match result {
        Ok(value) => promise.call_method1("set_result", (value,))?,
        Err(error) => promise.call_method1("set_exception", (error.into_value(py),))?,
    };
    Ok(())
}

/// The callback of a future that stops its work when it is cancelled.
#[pyclass(frozen)]
struct Cancel(AbortHandle);

#[pymethods]
impl Cancel {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if future.call_method0("cancelled")?.is_truthy()? {
            self.0.abort();
        }
        Ok(())
    }
}

/// Parses JSON into Python objects.
pub(crate) fn loads<'py>(py: Python<'py>, value: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

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
    ) -> futures::future::BoxFuture<'a, Result<(FileVersion, Bytes), ReadError>> {
        let (files, url, if_match) = (self.clone(), url.to_owned(), if_match.map(str::to_owned));
        Box::pin(async move {
            let work = move || attach(|py| files.call(py, &url, range, if_match.as_deref()));
            let unavailable = |reason: &str| ReadError::new(ReadErrorKind::Unavailable, reason);
            match tokio::task::spawn_blocking(work).await {
                Ok(Some(done)) => done,
                Ok(None) => Err(unavailable("Python is about to end")),
                Err(error) => Err(unavailable(&error.to_string())),
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
    ) -> Result<(FileVersion, Bytes), ReadError> {
        type Answer = (PyBackedBytes, (u64, Option<String>, Option<i64>));
        let read = self.0.bind(py).call_method1("read", (url, range.start, range.end(), if_match));
        let (bytes, (size, etag, modified)) =
            read.and_then(|answer| answer.extract::<Answer>()).map_err(|error| classified(py, &error))?;
        Ok((FileVersion { size, etag, modified }, Bytes::from_owner(bytes)))
    }
}

/// Classifies an exception by the name of its class, as obspec prescribes.
fn classified(py: Python<'_>, error: &PyErr) -> ReadError {
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
    let message = text.split("\n\nDebug source").next().unwrap_or_default().trim();
    match message {
        "" => ReadError::new(kind, error.get_type(py).to_string()),
        message => ReadError::new(kind, message),
    }
}
