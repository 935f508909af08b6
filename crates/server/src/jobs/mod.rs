//! Jobs: scans and batches that run in the background.
//!
//! Each job has a folder with its record (`job.json`: request, state, outcome), the journal of a batch, and the
//! result. The folder is the whole state of a job. Any number of instances share the folder of all jobs: each of them
//! answers for every job, and a job is run by the instance that claims it ([`folder`]). A job therefore survives the
//! crash of its instance: another one resumes it, and the journal records the work already done. Jobs run on their own
//! threads.

pub(crate) mod api;
mod claims;
mod events;
mod folder;
mod job;
mod keys;
mod labels;
#[cfg(test)]
mod model;
mod record;
mod request;
mod result;
mod run;
mod turns;
pub(crate) mod webhook;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::StatusCode;
use prometheus::IntCounter;
use serde_json::Value;
use tokio::{
    runtime::Runtime,
    sync::{Notify, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use virtualize::Code;

use crate::{
    Config, ConfigError, Problem,
    budget::Budget,
    client::Client,
    metrics::{self, Metrics},
};
use folder::{Folder, Table};
use job::{Job, Stop};
use keys::Key;
use labels::Filter;
use record::{Record, State};
use request::Request;

/// Interval at which an instance looks for changes that other instances make.
const POLL: Duration = Duration::from_secs(1);

/// All jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    inner: Arc<Inner>,
    runtime: Option<Runtime>,
    /// Permits for event streams.
    pub(crate) followers: Arc<Semaphore>,
}

#[derive(Debug)]
struct Inner {
    folder: Folder,
    config: Arc<Config>,
    /// Counters of requests to sources and of bytes read from them.
    metrics: (IntCounter, IntCounter),
    /// Memory for the files that jobs read, a part of the budget of all requests.
    memory: Budget,
    /// Jobs that this instance runs, by id.
    running: Mutex<BTreeMap<String, Arc<Job>>>,
    /// Permits for deliveries of webhooks.
    deliveries: Arc<Semaphore>,
    /// Ended jobs whose webhook needs no further attempt.
    settled: Mutex<BTreeSet<String>>,
    tracker: TaskTracker,
    stopping: CancellationToken,
    /// Notified when a job may have become ready to start.
    wake: Notify,
}

impl Jobs {
    /// Opens the jobs folder, and starts to attend to its jobs.
    pub(crate) fn open(
        config: &Arc<Config>,
        metrics: &Metrics,
        memory: &Budget,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(path) = &config.jobs else { return Ok(None) };
        let failed = ConfigError::io(format!("--jobs {}", path.display()));
        let folder = Folder::open(path).map_err(&failed)?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 8);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("job")
            .enable_all()
            .build()
            .map_err(&failed)?;
        let traffic = metrics.traffic(metrics::JOBS);
        let inner = Arc::new(Inner {
            folder,
            metrics: (traffic.requests, traffic.bytes),
            memory: memory.part(config.memory / 2),
            config: Arc::clone(config),
            running: Mutex::default(),
            deliveries: Arc::new(Semaphore::new(webhook::CONCURRENT)),
            settled: Mutex::default(),
            tracker: TaskTracker::new(),
            stopping: CancellationToken::new(),
            wake: Notify::new(),
        });
        inner.pass(runtime.handle()).map_err(&failed)?;
        runtime.spawn(Arc::clone(&inner).attend());
        let followers = Arc::new(Semaphore::new((config.traffic.concurrent / 4).max(1)));
        Ok(Some(Self { inner, runtime: Some(runtime), followers }))
    }

    /// Creates a job, which has been written to disk when this returns, and returns its id. If the client submitted the
    /// job with the same key before, returns that id. Blocks on the disk.
    pub(crate) fn submit(
        &self,
        request: Request,
        client: &Client,
        key: Option<Key>,
    ) -> Result<String, Problem> {
        let folder = &self.inner.folder;
        let exclusive = folder.lock().map_err(|error| failed(&error))?;
        let table = folder.refresh().map_err(|error| failed(&error))?;
        if let Some(key) = &key
            && let Some(id) = folder.submitted(&exclusive, &table, &client.name, key)?
        {
            return Ok(id);
        }
        self.inner.has_room(&table, &client.name)?;
        let record = Record::new(record::new_id(), client, key, request);
        folder.create(&exclusive, &record).map_err(|error| failed(&error))?;
        drop(exclusive);
        self.inner.wake.notify_one();
        Ok(record.id)
    }

    /// Returns the record of a job that a client may see. Blocks on the disk.
    pub(crate) fn get(&self, id: &str, client: &Client) -> Result<Record, Problem> {
        let entry = self.inner.folder.get(id).map_err(|error| failed(&error))?;
        let record = entry.map(|entry| entry.record.clone()).filter(|record| record.is_visible_to(client));
        record.ok_or_else(|| Problem::not_found("there is no such job"))
    }

    /// Lists jobs that a client may see, newest first, and returns whether there are more. Blocks on the disk.
    pub(crate) fn list(
        &self,
        client: &Client,
        filter: &Filter,
        most: usize,
    ) -> Result<(Vec<Record>, bool), Problem> {
        let table = self.inner.folder.refresh().map_err(|error| failed(&error))?;
        let records = table.values().rev().map(|entry| &entry.record);
        let mut seen = records.filter(|record| record.is_visible_to(client) && filter.holds(record));
        let listed: Vec<_> = seen.by_ref().take(most).cloned().collect();
        Ok((listed, seen.next().is_some()))
    }

    /// Cancels an unfinished job and returns its record, or removes an ended one. Blocks on the disk.
    pub(crate) fn delete(&self, id: &str, client: &Client) -> Result<Option<Record>, Problem> {
        let record = self.get(id, client)?;
        match self.inner.delete(&record.id).map_err(|error| failed(&error))? {
            true => Ok(None),
            false => self.get(id, client).map(Some),
        }
    }

    /// Returns the number of jobs in each state.
    pub(crate) fn counts(&self) -> [(&'static str, i64); 6] {
        let table = self.inner.folder.table();
        State::ALL.map(|state| {
            let count = table.values().filter(|entry| entry.record.state == state).count();
            (state.name(), i64::try_from(count).unwrap_or(i64::MAX))
        })
    }

    /// Returns the record of a job as clients see it, with the state of its webhook. Blocks on the disk.
    pub(crate) fn shown(&self, record: &Record) -> Value {
        let mut shown = record.shown();
        if let (Some(delivery), Some(members)) = (self.inner.delivery(record), shown.as_object_mut()) {
            members.insert("webhook".to_owned(), delivery);
        }
        shown
    }

    /// Returns the folder of a job.
    pub(crate) fn place(&self, id: &str) -> PathBuf {
        self.inner.folder.place(id)
    }

    /// Parks the jobs that this instance runs: they stop, and another instance or the next start resumes them.
    pub(crate) fn stop(&self) {
        self.inner.stopping.cancel();
        for job in self.inner.running().values() {
            job.park();
        }
        self.inner.tracker.close();
    }

    /// Waits until all jobs of this instance have stopped.
    pub(crate) async fn parked(&self) {
        self.inner.tracker.wait().await;
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.inner.stopping.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Job>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a job if too many are queued or its client has too many unfinished ones.
    fn has_room(&self, table: &Table, client: &str) -> Result<(), Problem> {
        let (mut waiting, mut own) = (0, 0);
        for record in table.values().map(|entry| &entry.record) {
            waiting += usize::from(record.state == State::Queued);
            own += usize::from(!record.state.is_over() && record.client == client);
        }
        let limits = &self.config.job_limits;
        let detail = match (waiting >= limits.queued, own >= limits.per_client) {
            (true, _) => "too many jobs are queued".to_owned(),
            (_, true) => format!("the client has {own} jobs that are not over, and may have no more"),
            _ => return Ok(()),
        };
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::Jobs, detail).retry_after(30))
    }

    /// Cancels an unfinished job, removes an ended one, and returns whether it was removed.
    fn delete(&self, id: &str) -> io::Result<bool> {
        let exclusive = self.folder.lock()?;
        let Some(entry) = self.folder.get(id)? else { return Ok(true) };
        if entry.record.state.is_over() {
            let aside = self.folder.set_aside(&exclusive, &entry.record)?;
            drop(exclusive);
            let _ = fs::remove_dir_all(aside);
            return Ok(true);
        }
        self.folder.mark(&exclusive, id)?;
        if let Some(job) = self.running().get(id) {
            job.stop(Stop::Cancelled);
        } else if let Some(_claimed) = self.folder.claim(id)?
            && let Some(entry) = self.folder.get(id)?
            && !entry.record.state.is_over()
        {
            let mut record = entry.record.clone();
            record.end(State::Cancelled, None);
            self.folder.save(&exclusive, &mut record)?;
        }
        self.wake.notify_one();
        Ok(false)
    }
}

/// Reports that the jobs folder cannot be used. The cause goes to the log only.
fn failed(error: &io::Error) -> Problem {
    if error.kind() == io::ErrorKind::TimedOut {
        tracing::warn!("the lock of the jobs folder was not free in time");
        let detail = "the jobs folder is busy at the moment";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, detail).retry_after(2);
    }
    Problem::of_io("the jobs folder cannot be used", error)
}
