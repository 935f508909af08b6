//! Runs over many files: `batch` and `scan`.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Arg, Args};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::CancellationToken;
use virtualize::{
    options::{given::declared, value},
    zarr::ZarrFormat,
};
use virtualize_archive::{
    Batch, BatchOptions, Event, FileOptions as Files, LayoutOptions, ScanOptions, Summary, Target,
    scan_inputs,
};

use crate::{
    error,
    options::{FileOptions, exclusive, location_of, parse},
    runtime,
};

/// Number of different warnings that the result of a run lists.
const LISTED: usize = 100;

/// Options of `batch`.
#[derive(Args, Default, Deserialize)]
#[serde(default)]
struct OfBatch {
    #[command(flatten)]
    #[serde(flatten)]
    batch: BatchOptions,
    #[command(flatten)]
    #[serde(flatten)]
    file: FileOptions,
}

/// What workers did for a batch.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Workers {
    /// Number of files that they read.
    read: u64,
    requests: u64,
    bytes: u64,
    seconds: f64,
    /// The list and the journals of the shards, which are deleted after success.
    used: Vec<String>,
}

impl Workers {
    /// Adds what the workers did to the summary of the run that merged their journals.
    fn total(&self, summary: Summary) -> Summary {
        let read = self.read.min(summary.imported);
        Summary {
            read: summary.read + read,
            imported: summary.imported - read,
            requests: summary.requests + self.requests,
            bytes: summary.bytes + self.bytes,
            seconds: summary.seconds + self.seconds,
            ..summary
        }
    }
}

/// Options of `scan`.
#[derive(Args, Default, Deserialize)]
#[serde(default)]
struct OfScan {
    #[arg(long)]
    #[serde(deserialize_with = "value::count")]
    sample: Option<usize>,
    #[serde(deserialize_with = "value::count")]
    attempts: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    files: Files,
    #[command(flatten)]
    #[serde(flatten)]
    layout: LayoutOptions,
    #[command(flatten)]
    #[serde(flatten)]
    file: FileOptions,
}

/// Returns the options of `batch` and `scan`.
pub(crate) fn options() -> Vec<Arg> {
    [declared::<OfBatch>(), declared::<OfScan>()].concat()
}

/// Starts a batch. `options` is a JSON object, and so is `workers`, what workers did for it before.
#[pyfunction]
pub(crate) fn batch(
    #[pyo3(from_py_with = location_of)] output: String,
    options: &str,
    workers: &str,
    wants_events: bool,
) -> PyResult<Run> {
    let options: OfBatch = parse(options)?;
    let workers: Arc<Workers> =
        Arc::new(serde_json::from_str(workers).map_err(|error| error::option(error.to_string()))?);
    check_files(&options.batch.files)?;
    let (batch, cancel) = options.start(&output)?;
    let store = options.file.source.store.options();
    Run::start(cancel, wants_events, |events| async move {
        let warnings = Arc::new(Warnings::default());
        let (seen, others) = (Arc::clone(&warnings), Arc::clone(&workers));
        let total = move |event| match event {
            Event::Done { summary } => Event::Done { summary: others.total(summary) },
            event => event,
        };
        let done = batch.run(move |event| tell(&total(event), &events, &seen)).await;
        let mut summary = workers.total(done.map_err(|error| error::of_archive(&error))?);
        if let Err(error) = virtualize_store::remove(&workers.used, &store).await {
            summary.notes.push(format!("the list or journals of shards were not deleted: {error}"));
        }
        Ok(json!({"summary": summary, "warnings": warnings.to_json()}).to_string())
    })
}

/// Starts the listing of a batch, which writes the list of files. The result has the number of files, the number of
/// shards of `size` files each, and the numbers of those that are to be read.
#[pyfunction]
pub(crate) fn write_list(
    #[pyo3(from_py_with = location_of)] output: String,
    options: &str,
    #[pyo3(from_py_with = location_of)] list: String,
    size: Option<u64>,
    wants_events: bool,
) -> PyResult<Run> {
    let options: OfBatch = parse(options)?;
    check_files(&options.batch.files)?;
    let (batch, cancel) = options.start(&output)?;
    Run::start(cancel, wants_events, move |events| async move {
        let written = batch.write_list(&list, size, move |event| events.send(&event)).await;
        let plan = written.map_err(|error| error::of_archive(&error))?;
        let numbers: Vec<u64> = plan.unread.iter().map(|shard| shard.number).collect();
        Ok(json!({"files": plan.files, "count": plan.of, "shards": numbers}).to_string())
    })
}

/// Starts a scan. `options` is a JSON object.
#[pyfunction]
pub(crate) fn scan(options: &str, wants_events: bool) -> PyResult<Run> {
    let options: OfScan = parse(options)?;
    check_files(&options.files)?;
    let cancel = CancellationToken::new();
    let scan = options.options(cancel.clone());
    Run::start(cancel, wants_events, |events| async move {
        let (inputs, warnings) = (options.files.inputs(), Arc::new(Warnings::default()));
        let seen = Arc::clone(&warnings);
        let found = scan_inputs(inputs, &scan, move |event| tell(&event, &events, &seen)).await;
        let found = found.map_err(|error| error::of_archive(&error))?;
        let mut table = Vec::new();
        found.table(&mut table, error::KEYWORDS)?;
        let table = String::from_utf8_lossy(&table);
        Ok(json!({"scan": found.to_json(), "table": table, "warnings": warnings.to_json()}).to_string())
    })
}

impl OfBatch {
    /// Refuses options that exclude each other. Returns the batch, and the token that stops it.
    fn start(&self, output: &str) -> PyResult<(Batch, CancellationToken)> {
        let Self { batch, file, .. } = self;
        let write = &batch.write;
        exclusive(("relative", write.relative), ("rewrite_url", !write.rewrite_url.is_empty()))?;
        let target = batch.target(output).ok_or_else(|| {
            error::option(format!("{output}: {}: give format", Target::unknown_extension(output)))
        })?;
        batch.icechunk.check(matches!(target, Target::Icechunk(_))).map_err(error::option)?;
        file.check(target.zarr_format())?;
        let batch = self.batch.batch(output, target.clone(), self.file.command_options(target.zarr_format()));
        let cancel = batch.cancel.clone();
        Ok((batch, cancel))
    }
}

impl OfScan {
    /// Returns the library's options.
    fn options(&self, cancel: CancellationToken) -> ScanOptions {
        let open = self.file.command_options(ZarrFormat::V3);
        let rectilinear = open.map.chunk_grid == virtualize::ChunkGridChoice::Rectilinear;
        let defaults = ScanOptions::default();
        ScanOptions {
            layout: self.layout.layout(rectilinear),
            open,
            filter: self.files.filter(),
            assets: self.files.assets(),
            sample: self.sample,
            attempts: self.attempts.map_or(defaults.attempts, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            cancel,
            ..defaults
        }
    }
}

/// Refuses a run without files, and options for assets without a catalogue.
fn check_files(files: &Files) -> PyResult<()> {
    if files.inputs.is_empty() && files.lists.is_empty() && files.stac.is_empty() {
        return Err(error::option("no inputs (pass files, list or stac)"));
    }
    let named = [
        ("asset", files.asset.is_empty()),
        ("asset_role", files.asset_role.is_empty()),
        ("asset_alternate", files.asset_alternate.is_none()),
    ];
    match named.iter().find(|(_, is_empty)| !is_empty && files.stac.is_empty()) {
        Some((name, _)) => Err(error::option(format!("{name} needs stac"))),
        None => Ok(()),
    }
}

/// Sends an event to the caller, and collects its warnings.
fn tell(event: &Event, events: &Sender, warnings: &Warnings) {
    warnings.add(event);
    events.send(event);
}

/// Different warnings of the files of a run, each with the first file and the number of files.
#[derive(Default)]
struct Warnings(Mutex<BTreeMap<String, (String, u64)>>);

impl Warnings {
    fn add(&self, event: &Event) {
        let Event::Read { url, warnings, .. } = event else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if let Some((_, files)) = known.get_mut(warning) {
                *files += 1;
            } else if known.len() < LISTED {
                known.insert(warning.clone(), (url.clone(), 1));
            }
        }
    }

    fn to_json(&self) -> Value {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |(text, (url, files)): (&String, &(String, u64))| json!({"text": text, "url": url, "files": files});
        known.iter().map(one).collect()
    }
}

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
