//! Runs over many files: `batch` and `scan`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use clap::{Arg, Args};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
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
    events::{Run, Sender},
    options::{FileOptions, exclusive, parse},
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
    /// Returns the event of a run, with the totals of all machines.
    fn joined(&self, event: Event) -> Event {
        match event {
            Event::Done { summary } => Event::Done { summary: self.total(summary) },
            event => event,
        }
    }

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
pub(crate) fn batch(output: String, options: &str, workers: &str, wants_events: bool) -> PyResult<Run> {
    let options: OfBatch = parse(options)?;
    let workers: Arc<Workers> =
        Arc::new(serde_json::from_str(workers).map_err(|error| error::option(error.to_string()))?);
    check_files(&options.batch.files)?;
    let (batch, cancel) = options.start(&output)?;
    let store = options.file.source.store.options();
    Run::start(cancel, wants_events, |events| async move {
        let warnings = Arc::new(Warnings::default());
        let (seen, others) = (Arc::clone(&warnings), Arc::clone(&workers));
        let done = batch.run(move |event| tell(&others.joined(event), &events, &seen)).await;
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
    output: String,
    options: &str,
    list: String,
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
    /// Checks the options. Returns the batch, and the token that stops it.
    fn start(&self, output: &str) -> PyResult<(Batch, CancellationToken)> {
        let target = self.check(output)?;
        let batch = self.batch.batch(output, target.clone(), self.file.command_options(target.zarr_format()));
        let cancel = batch.cancel.clone();
        Ok((batch, cancel))
    }

    /// Refuses options that exclude each other. Returns what is written.
    fn check(&self, output: &str) -> PyResult<Target> {
        let Self { batch, file, .. } = self;
        let write = &batch.write;
        exclusive(("relative", write.relative), ("rewrite_url", !write.rewrite_url.is_empty()))?;
        let target = batch.target(output).ok_or_else(|| {
            error::option(format!("{output}: {}: give format", Target::unknown_extension(output)))
        })?;
        file.check(target.zarr_format())?;
        Ok(target)
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
        return Err(error::option("there are no inputs: give files, list or stac"));
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
