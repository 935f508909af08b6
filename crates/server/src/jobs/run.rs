//! The execution of a job.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::StatusCode;
use futures::StreamExt;
use prometheus::IntCounter;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use virtualize::{ChunkGridChoice, Code, ErrorClass, Options};
#[cfg(feature = "icechunk")]
use virtualize::{Error as FileError, IcechunkError};
use virtualize_archive::{
    Batch, Error, Event, JournalError, Scan, ScanOptions, Summary,
    list::{ListError, ListOptions, list},
    scan,
};
use virtualize_store::Allowed;

use super::{
    Inner,
    job::{Job, Stop},
    record::write_whole,
    request::Kind,
};
use crate::{Problem, api::MEMBERS, budget::JobGate};

/// Time for a cancelled run to stop by itself.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum number of notes in a summary.
const NOTES: usize = 100;
/// Maximum number of failed files in a summary.
const NAMED: usize = 10;

/// What a job needs to run.
pub(super) struct Work {
    pub(super) inner: Arc<Inner>,
    pub(super) job: Arc<Job>,
    /// Prefixes that the client may read.
    pub(super) allowed: Allowed,
    /// Whether the job ran before.
    pub(super) again: bool,
}

impl Work {
    /// Runs the job, and returns its summary.
    pub(super) async fn run(&self) -> Result<Value, Problem> {
        let kind = self.job.record().request.kind;
        let done = match kind {
            Kind::Scan => self.scan().await,
            Kind::Batch => self.batch().await,
        };
        done.map_err(|problem| Problem { detail: self.hidden(&problem.detail), ..problem })
    }

    /// Returns the options to open and map files, the prefixes that may be written, and the memory gate of the job.
    fn options(&self) -> Result<Options, Problem> {
        let (request, config) = (Arc::clone(&self.job.record().request), &self.inner.config);
        let mut options = request.open_options(config, &self.allowed)?;
        if request.output.is_some() {
            options.store.writable.clone_from(&config.allow_write);
        }
        let gate = JobGate { budget: self.inner.memory.clone(), most: config.file_memory };
        options.gate = Some(Arc::new(gate));
        options.notation = MEMBERS;
        Ok(options)
    }

    /// Removes the path of the job's folder from text for clients.
    fn hidden(&self, text: &str) -> String {
        let folder = self.job.folder.display().to_string();
        text.replace(&format!("{folder}/"), "").replace(&folder, "the job")
    }

    /// Runs a scan, writes its report, and returns its summary.
    async fn scan(&self) -> Result<Value, Problem> {
        let is_writing = AtomicBool::new(false);
        let found = tokio::select! {
            biased;
            found = self.find() => found?,
            () = given_up(self.job.cancel.clone(), &is_writing) => return Err(stopped()),
        };
        let summary = json!({
            "files": found.eras.len() + found.failed.len(),
            "failed": found.failed.len(),
            "eras": found.eras.eras().len(),
        });
        self.write_report(found).await?;
        Ok(summary)
    }

    /// Lists the files and reads them.
    async fn find(&self) -> Result<Scan, Problem> {
        let request = Arc::clone(&self.job.record().request);
        let (batch, most) = (&request.options, self.inner.config.job_limits.files);
        let open = self.options()?;
        let layout = batch.combine.layout(open.map.chunk_grid == ChunkGridChoice::Rectilinear);
        let listing =
            ListOptions { store: open.store.clone(), assets: batch.files.assets(), ..ListOptions::default() };
        let files = list(batch.files.inputs(), batch.files.filter(), listing);
        let mut listed = 0_u64;
        let items = files.map_err(|error| problem(error.into()))?.map(|item| {
            listed += 1;
            if listed > most {
                self.job.stop(Stop::Files);
            }
            Ok(item?)
        });
        let options = ScanOptions {
            layout,
            open,
            files: self.inner.config.job_limits.openings,
            cancel: self.job.cancel.clone(),
            ..ScanOptions::default()
        };
        let mut found = match scan(items, &options, self.scan_events()).await {
            Err(Error::ScanStopped { .. }) => return Err(stopped()),
            found => found.map_err(problem)?,
        };
        for failed in &mut found.failed {
            failed.error = of_file(&failed.url, failed.class, &failed.error);
        }
        Ok(found)
    }

    /// Returns the event handler of a scan, which reads files while it lists others.
    fn scan_events(&self) -> impl Fn(Event) + Send + Sync + 'static {
        let (job, metrics) = (Arc::clone(&self.job), self.inner.metrics.clone());
        let most = self.inner.config.job_limits.files;
        move |event| match event {
            Event::Listed { files, complete, .. } => job.update(|record| {
                record.progress.listed = files;
                record.progress.total = complete.then_some(files);
            }),
            event => {
                count(&metrics, &event);
                heard(&job, event, most);
            }
        }
    }

    /// Writes the report of a scan atomically into the job's folder.
    async fn write_report(&self, found: Scan) -> Result<(), Problem> {
        let path = self.job.folder.join("result.json");
        let write = move || {
            write_whole(&path, |out| {
                serde_json::to_writer_pretty(&mut *out, &found.to_json())?;
                out.write_all(b"\n")
            })
        };
        match tokio::task::spawn_blocking(write).await {
            Ok(written) => {
                written.map_err(|error| Problem::of_io("the report of a scan was not written", &error))
            }
            Err(_) => Err(Problem::internal()),
        }
    }

    /// Runs a batch, and returns its summary.
    async fn batch(&self) -> Result<Value, Problem> {
        let batch = self.build_batch()?;
        let (job, metrics) = (Arc::clone(&self.job), self.inner.metrics.clone());
        let most = self.inner.config.job_limits.files;
        let writing = Arc::new(AtomicBool::new(self.job.record().request.options.each));
        let (cancel, is_writing) = (self.job.cancel.clone(), Arc::clone(&writing));
        // Runs on its own thread: a future that it awaits may not be `Send`.
        let running = tokio::task::spawn_blocking(move || {
            let run = batch.run(move |event| {
                if matches!(event, Event::Writing { .. }) {
                    writing.store(true, Ordering::Relaxed);
                }
                count(&metrics, &event);
                heard(&job, event, most);
            });
            tokio::runtime::Handle::current().block_on(async {
                tokio::select! {
                    biased;
                    done = run => Some(done),
                    () = given_up(cancel, &is_writing) => None,
                }
            })
        });
        let done = running.await.map_err(|error| {
            tracing::error!("a batch ended early: {error}");
            Problem::internal()
        })?;
        match done {
            Some(Ok(summary)) => Ok(self.summary(summary)),
            Some(Err(Error::Failures { count, allowed, .. })) => Err(self.failures(count, allowed)),
            Some(Err(error)) => Err(problem(error)),
            None => Err(stopped()),
        }
    }

    /// Builds the batch, which writes to the requested output or to the job's folder, and resumes from the job's
    /// journal.
    fn build_batch(&self) -> Result<Batch, Problem> {
        let request = Arc::clone(&self.job.record().request);
        let name = if request.is_folder() { "result" } else { "result.json" };
        let own = self.job.folder.join(name).display().to_string();
        let output = request.output.clone().unwrap_or(own);
        let builder = request.options.builder(&output, request.target(), self.options()?);
        Ok(builder
            .overwrite(request.options.write.overwrite || request.output.is_none())
            .journal(self.job.folder.join("journal"))
            .files_at_once(self.inner.config.job_limits.openings)
            .attempts(4, Duration::from_secs(1))
            .retry_failed(self.again)
            .resumes(self.again)
            .cancel(self.job.cancel.clone())
            .build())
    }

    /// Returns the problem of a batch in which too many files failed.
    fn failures(&self, count: u64, allowed: u64) -> Problem {
        let first = self.job.failures().join("; ");
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        let detail = format!("{files} failed, at most {allowed} may fail: {first}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::Failures, detail)
            .hint("set max_failures to allow some failures, skip_failed to allow any number")
    }

    /// Converts the summary of a batch for clients, with a bounded number of notes.
    fn summary(&self, summary: Summary) -> Value {
        let notes = summary.notes.iter().take(NOTES).map(|note| self.hidden(note));
        json!({
            "files": summary.files,
            "failed": summary.failed,
            "failures": self.job.failures(),
            "skipped": summary.skipped,
            "warnings": summary.warnings,
            "eras": summary.eras,
            "notes": notes.collect::<Vec<_>>(),
        })
    }
}

/// Completes when a cancelled run has not stopped by itself. It waits for a run that writes, as blocking work would
/// continue after the run is dropped.
async fn given_up(cancel: CancellationToken, is_writing: &AtomicBool) {
    cancel.cancelled().await;
    loop {
        tokio::time::sleep(GRACE).await;
        if !is_writing.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Counts the requests and bytes of reading a file.
fn count((all_requests, all_bytes): &(IntCounter, IntCounter), event: &Event) {
    if let Event::Read { requests, bytes, .. } = event {
        all_requests.inc_by(*requests);
        all_bytes.inc_by(*bytes);
    }
}

/// Records an event in the job.
fn heard(job: &Job, event: Event, most: u64) {
    match event {
        Event::Listed { files, pending, complete } => {
            job.update(|record| {
                let progress = &mut record.progress;
                progress.listed = files;
                if complete {
                    progress.total = Some(files);
                    (progress.read, progress.failed) = (files.saturating_sub(pending), 0);
                }
            });
            if files > most {
                job.stop(Stop::Files);
            }
        }
        Event::Read { .. } => job.update(|record| record.progress.read += 1),
        Event::Failed { url, class, error, .. } => {
            let class = match class.as_str() {
                "unavailable" => ErrorClass::Unavailable,
                "denied" => ErrorClass::Denied,
                _ => ErrorClass::File,
            };
            job.failed(of_file(&url, class, &error), NAMED);
            job.update(|record| record.progress.failed += 1);
        }
        _ => {}
    }
}

/// Describes why a file failed, for clients. The text of a store goes to the log only.
fn of_file(url: &str, class: ErrorClass, error: &str) -> String {
    match class {
        ErrorClass::Denied => format!("{url}: the store denies access"),
        ErrorClass::Unavailable => {
            tracing::warn!("{error}");
            format!("{url}: the store failed or cannot be reached")
        }
        _ => error.chars().take(1000).collect(),
    }
}

/// Returns the problem of a job that was stopped.
pub(super) fn stopped() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Stopped, "the job was stopped")
}

/// Describes why a commit failed. The text of the repository's store goes to the log only.
#[cfg(feature = "icechunk")]
fn not_committed(error: IcechunkError) -> Problem {
    if let IcechunkError::Repository { doing, .. } = &error {
        tracing::warn!("{error}");
        let detail = format!("{doing}: there is no repository, or it cannot be reached");
        return Problem::new(StatusCode::BAD_GATEWAY, Code::SourceUnavailable, detail);
    }
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::Icechunk, error.to_string()).remedy(error.remedy())
}

/// Converts the error of a run.
fn problem(error: Error) -> Problem {
    let refused = |code, error: &Error| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string()).remedy(error.remedy())
    };
    match error {
        #[cfg(feature = "icechunk")]
        Error::File(FileError::Icechunk { source, .. }) => not_committed(source),
        Error::File(error) => Problem::of_error(&error, MEMBERS),
        Error::List(ListError::Store(error)) => Problem::of_error(&error.into(), MEMBERS),
        Error::Journal(JournalError::Full { .. }) => Problem::no_space(),
        Error::Journal(_) | Error::Internal(_) => {
            tracing::error!("a job failed: {error}");
            Problem::internal()
        }
        Error::Usage(_) => refused(Code::Parameter, &error),
        _ => refused(error.code(), &error),
    }
}
