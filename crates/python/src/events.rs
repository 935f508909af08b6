//! A run over many files that reports events, and that can be stopped.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use pyo3::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::CancellationToken;
use virtualize_archive::Event;

use crate::{error, runtime};

/// Number of events that wait for the caller before the run waits for it, too.
const WAITING: usize = 10_000;

/// A run. Dropping it ends it at once.
#[pyclass(frozen, module = "virtualize._virtualize")]
pub(crate) struct Run {
    cancel: CancellationToken,
    events: Arc<tokio::sync::Mutex<mpsc::Receiver<Value>>>,
    outcome: Arc<Mutex<Option<PyResult<String>>>>,
    ended: CancellationToken,
    abort: CancellationToken,
}

/// Receives the events of a run from any of its threads.
pub(crate) struct Sender(Option<mpsc::Sender<Value>>);

impl Run {
    /// Starts a run. It stops when the token is cancelled. Its result is JSON. Events are dropped unless they are
    /// `wanted`.
    pub(crate) fn start<F>(
        cancel: CancellationToken,
        wanted: bool,
        work: impl FnOnce(Sender) -> F + Send + 'static,
    ) -> PyResult<Self>
    where
        F: Future<Output = PyResult<String>>,
    {
        let (sender, events) = mpsc::channel(WAITING);
        let (outcome, ended) = (Arc::new(Mutex::new(None)), CancellationToken::new());
        let (place, guard) = (Arc::clone(&outcome), ended.clone().drop_guard());
        let abort = CancellationToken::new();
        let stop = abort.clone();
        let runtime = runtime::runtime()?;
        let handle = runtime.handle().clone();
        // A journal stays on one thread.
        runtime.spawn_blocking(move || {
            let _ended = guard;
            let work = work(Sender(wanted.then_some(sender)));
            if let Some(found) = handle.block_on(stop.run_until_cancelled(work)) {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            }
        });
        let events = Arc::new(tokio::sync::Mutex::new(events));
        Ok(Self { cancel, events, outcome, ended, abort })
    }
}

#[pymethods]
impl Run {
    /// Waits for events, and returns them as JSON. The list is empty after the last one.
    fn events<'py>(&self, py: Python<'py>, wait: bool) -> PyResult<Bound<'py, PyAny>> {
        let events = Arc::clone(&self.events);
        runtime::run(py, wait, async move {
            let mut found = Vec::new();
            events.lock().await.recv_many(&mut found, WAITING).await;
            Ok(Value::Array(found).to_string())
        })
    }

    /// Waits for the end of the run.
    fn wait<'py>(&self, py: Python<'py>, wait: bool) -> PyResult<Bound<'py, PyAny>> {
        let (events, ended) = (Arc::clone(&self.events), self.ended.clone());
        runtime::run(py, wait, async move {
            // Nobody takes events any more, so the run must not wait for that.
            events.lock().await.close();
            ended.cancelled().await;
            Ok(Python::attach(|py| py.None()))
        })
    }

    /// Returns the result of a run that has ended, as JSON.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome.as_ref() {
            Some(Ok(found)) => Ok(found.clone()),
            Some(Err(error)) => Err(error.clone_ref(py)),
            None => Err(error::internal()),
        }
    }

    /// Stops the run as soon as what it has read is in the journal.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Ends the run at once.
    fn abort(&self) {
        self.abort.cancel();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Sender {
    /// Sends an event as the command logs it: with the time in seconds since 1970.
    pub(crate) fn send(&self, event: &Event) {
        let Some(sender) = &self.0 else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut event = json!(event);
        if let Some(members) = event.as_object_mut() {
            members.insert("time".to_owned(), json!(time));
        }
        if let Err(TrySendError::Full(event)) = sender.try_send(event) {
            // Other tasks of this thread go on, so that a callback may use the runtime.
            let _ = tokio::task::block_in_place(|| sender.blocking_send(event));
        }
    }
}
