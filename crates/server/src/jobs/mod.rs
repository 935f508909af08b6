//! Jobs: scans and batches that run in the background.
//!
//! Each job has a folder with its record (`job.json`: request, state, outcome), the journal of a batch, and the
//! result. The folder is the whole state of a job, so that a job survives a crash of the process: at startup, the
//! service resumes every unfinished job, and the journal records the work already done. Jobs run on their own threads.

pub(crate) mod api;
mod events;
mod record;
mod request;
mod result;
mod run;
mod turns;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::StatusCode;
use futures::FutureExt;
use prometheus::IntCounter;
use serde_json::Value;
use tokio::{
    runtime::Runtime,
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use virtualize_store::Allowed;

use crate::{Config, ConfigError, Problem, budget::Budget, client::Client, metrics::Metrics, request_id};
use record::{Record, State};
use request::{Kind, Request};
use turns::{Claim, Turns};

/// Interval at which the disk usage of a running job is checked.
const LOOK: Duration = Duration::from_secs(10);
/// Maximum number of ended jobs to keep, and maximum bytes of their requests, which are held in memory.
const KEPT: usize = 10_000;
const REQUESTS: u64 = 64 << 20;
/// Number of crashes of the service during a job after which the job is not started again.
const CRASHES: u32 = 2;
/// Reach of a client that may read every allowed prefix.
const ALL: &str = "all";

/// All jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    inner: Arc<Inner>,
    runtime: Option<Runtime>,
    tracker: TaskTracker,
    stopping: CancellationToken,
    /// Permits for event streams.
    pub(crate) followers: Arc<Semaphore>,
    _lock: File,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    config: Arc<Config>,
    /// Counters of requests to sources and of bytes read from them.
    metrics: (IntCounter, IntCounter),
    /// Jobs by id. Ids sort by time of creation.
    table: Mutex<BTreeMap<String, Arc<Job>>>,
    turns: Arc<Turns>,
    /// Memory for the files that jobs read, a part of the budget of all requests.
    memory: Budget,
    /// Held while a job is submitted, so that concurrent submissions cannot exceed the limits.
    submitting: Mutex<()>,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    shown: watch::Sender<Shown>,
    cancel: CancellationToken,
    stop: OnceLock<Stop>,
    failures: Mutex<Vec<String>>,
    /// Size of the job's folder in bytes, set when the job has ended.
    bytes: AtomicU64,
    /// Size of the request in bytes.
    size: u64,
}

/// A record and its version. The version starts at the load time in milliseconds and counts changes, so that it grows
/// across restarts.
#[derive(Clone, Debug)]
struct Shown {
    version: u64,
    record: Record,
}

/// Why a job was stopped, other than by the service stopping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    Cancelled,
    Files,
    Time,
    Disk,
}

impl Job {
    fn new(record: Record, size: u64, parent: &CancellationToken) -> Self {
        let (shown, _) = watch::channel(Shown { version: record::millis(), record });
        Self {
            shown,
            cancel: parent.child_token(),
            stop: OnceLock::new(),
            failures: Mutex::default(),
            bytes: AtomicU64::new(0),
            size,
        }
    }

    /// Returns the current record.
    pub(crate) fn record(&self) -> Record {
        self.shown.borrow().record.clone()
    }

    fn state(&self) -> State {
        self.shown.borrow().record.state
    }

    /// Changes the record, and notifies the event streams.
    fn update(&self, change: impl FnOnce(&mut Record)) {
        self.shown.send_modify(|shown| {
            change(&mut shown.record);
            shown.version += 1;
        });
    }

    /// Stops the job; only the first reason is recorded.
    fn stop(&self, why: Stop) {
        let _ = self.stop.set(why);
        self.cancel.cancel();
    }

    /// Records a failed file, unless `most` are recorded already.
    fn failed(&self, text: String, most: usize) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < most {
            failures.push(text);
        }
    }

    fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Jobs {
    /// Locks the jobs folder, loads its jobs, and resumes the unfinished ones.
    pub(crate) fn open(
        config: &Arc<Config>,
        metrics: &Metrics,
        memory: &Budget,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(folder) = &config.jobs else { return Ok(None) };
        let failed = ConfigError::io(format!("--jobs {}", folder.display()));
        fs::create_dir_all(folder).map_err(&failed)?;
        let folder = folder.canonicalize().map_err(&failed)?;
        let lock = File::options().create(true).append(true).open(folder.join("lock")).map_err(&failed)?;
        lock.try_lock().map_err(|_| ConfigError::JobsInUse { folder: folder.clone() })?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 8);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("job")
            .enable_all()
            .build()
            .map_err(&failed)?;
        let inner = Arc::new(Inner {
            metrics: (metrics.source_requests.clone(), metrics.source_bytes.clone()),
            table: Mutex::default(),
            turns: Turns::new(config.job_limits.running),
            memory: memory.part(config.memory / 2),
            submitting: Mutex::default(),
            config: Arc::clone(config),
            folder,
        });
        let this = Self {
            inner,
            runtime: Some(runtime),
            tracker: TaskTracker::new(),
            stopping: CancellationToken::new(),
            followers: Arc::new(Semaphore::new((config.traffic.concurrent / 4).max(1))),
            _lock: lock,
        };
        this.load().map_err(&failed)?;
        Ok(Some(this))
    }

    /// Loads all jobs, starts the unfinished ones in order of creation, and completes interrupted removals.
    fn load(&self) -> io::Result<()> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.inner.folder)? {
            let (path, name) = {
                let entry = entry?;
                (entry.path(), entry.file_name())
            };
            if name.to_string_lossy().starts_with('.') {
                // Its removal was interrupted.
                let _ = fs::remove_dir_all(&path);
                continue;
            }
            if !path.is_dir() {
                continue;
            }
            match Record::load(&path) {
                Ok(record) if name.to_str() == Some(&record.id) => {
                    drop(found.insert(record.id.clone(), record));
                }
                Ok(_) => tracing::warn!("{}: holds the record of another job", path.display()),
                Err(error) => tracing::warn!("{}: not taken up: {error}", path.display()),
            }
        }
        for (id, mut record) in found {
            let place = self.inner.place(&id);
            if record.state == State::Running {
                crashed(&mut record, &place)?;
            }
            let (is_over, size) = (record.state.is_over(), Record::size(&place));
            let job = Arc::new(Job::new(record, size, &self.stopping));
            self.inner.table().insert(id, Arc::clone(&job));
            if is_over {
                job.bytes.store(result::bytes(&place), Ordering::Relaxed);
            } else {
                self.start(job);
            }
        }
        self.inner.tidy();
        Ok(())
    }

    /// Spawns a job on the runtime of the jobs.
    fn start(&self, job: Arc<Job>) {
        let Some(runtime) = &self.runtime else { return };
        let inner = Arc::clone(&self.inner);
        self.tracker.spawn_on(async move { inner.work(job).await }, runtime.handle());
    }

    /// Creates and starts a job, whose record has been written to disk when this returns. Blocks on the disk.
    pub(crate) fn submit(&self, request: Request, size: u64, client: &Client) -> Result<Arc<Job>, Problem> {
        let _alone = self.inner.submitting.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_room(&client.name)?;
        let tail: String = request_id::new().chars().take(8).collect();
        let id = format!("{:012x}{tail}", record::millis());
        let record = Record::new(id.clone(), client.access_key.clone(), client.name.clone(), request);
        let place = self.inner.place(&id);
        let saved = fs::create_dir(&place).and_then(|()| record.save(&place));
        saved.map_err(|error| {
            let _ = fs::remove_dir_all(&place);
            Problem::of_io("a job was not kept", &error)
        })?;
        let job = Arc::new(Job::new(record, size, &self.stopping));
        self.inner.table().insert(id, Arc::clone(&job));
        self.start(Arc::clone(&job));
        Ok(job)
    }

    /// Refuses a job if too many are queued or its client has too many unfinished ones.
    fn has_room(&self, client: &str) -> Result<(), Problem> {
        let (mut waiting, mut own) = (0, 0);
        for job in self.inner.table().values() {
            let record = &job.shown.borrow().record;
            waiting += usize::from(record.state == State::Queued);
            own += usize::from(!record.state.is_over() && record.client == client);
        }
        let config = &self.inner.config;
        let detail = match (waiting >= config.job_limits.queued, own >= config.job_limits.per_client) {
            (true, _) => "too many jobs are queued".to_owned(),
            (_, true) => format!("the client has {own} jobs that are not over, and may have no more"),
            _ => return Ok(()),
        };
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "jobs", detail).retry_after(30))
    }

    /// Returns a job that is visible to a client of this reach.
    pub(crate) fn get(&self, id: &str, reach: &str) -> Option<Arc<Job>> {
        let job = self.inner.table().get(id).cloned()?;
        (reach == ALL || job.shown.borrow().record.reach == reach).then_some(job)
    }

    /// Lists the jobs before an id, newest first, and returns whether there are more.
    pub(crate) fn list(&self, reach: &str, before: Option<&str>, most: usize) -> (Vec<Arc<Job>>, bool) {
        let table = self.inner.table();
        let older = table.iter().rev().filter(|(id, _)| before.is_none_or(|before| id.as_str() < before));
        let mut seen = older.filter(|(_, job)| reach == ALL || job.shown.borrow().record.reach == reach);
        let jobs: Vec<_> = seen.by_ref().take(most).map(|(_, job)| Arc::clone(job)).collect();
        (jobs, seen.next().is_some())
    }

    /// Cancels an unfinished job, removes an ended one, and returns whether it was removed. Blocks on the disk.
    pub(crate) fn delete(&self, job: &Job) -> bool {
        if job.state().is_over() {
            self.inner.remove(&job.record().id);
            return true;
        }
        job.stop(Stop::Cancelled);
        false
    }

    /// Returns the number of jobs in each state.
    pub(crate) fn counts(&self) -> [(&'static str, i64); 6] {
        let table = self.inner.table();
        State::ALL.map(|state| {
            let count = table.values().filter(|job| job.state() == state).count();
            (state.name(), i64::try_from(count).unwrap_or(i64::MAX))
        })
    }

    /// Returns the folder of a job.
    pub(crate) fn place(&self, id: &str) -> PathBuf {
        self.inner.place(id)
    }

    /// Returns a token that is cancelled when the service stops.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Parks the running jobs: they stop, and resume at the next start of the service, even if the process ends before
    /// they have stopped.
    pub(crate) fn stop(&self) {
        for job in self.inner.table().values() {
            let mut record = job.record();
            if record.state == State::Running {
                record.state = State::Parked;
                if let Err(error) = record.save(&self.inner.place(&record.id)) {
                    tracing::error!("the record of job {} was not written: {error}", record.id);
                }
            }
        }
        self.stopping.cancel();
        self.tracker.close();
    }

    /// Waits until all jobs have stopped.
    pub(crate) async fn parked(&self) {
        self.tracker.wait().await;
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.stopping.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    fn table(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Job>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// Waits for the turn of a job, runs it, and records its outcome.
    async fn work(self: Arc<Self>, job: Arc<Job>) {
        let record = job.record();
        let claim = Claim {
            client: record.client,
            output: record.request.output.as_deref().map(turns::place),
            alone: record.crashes > 0,
        };
        let turn = tokio::select! {
            biased;
            () = job.cancel.cancelled() => None,
            turn = self.turns.turn(&record.id, claim) => Some(turn),
        };
        let outcome = match &turn {
            Some(_) => self.run(&job).await,
            None => Err(run::stopped()),
        };
        self.ended(&job, outcome);
        drop(turn);
        let this = Arc::clone(&self);
        let _ = tokio::task::spawn_blocking(move || this.tidy()).await;
    }

    /// Runs a job until it completes or fails, and stops it when it exceeds a limit.
    async fn run(self: &Arc<Self>, job: &Arc<Job>) -> Result<Value, Problem> {
        let record = job.record();
        let allowed = self.allowed(&record)?;
        let again = record.state == State::Parked;
        // The configuration may allow less than when the job was submitted.
        let mut request = record.request.as_ref().clone();
        request.check(&self.config, &allowed)?;
        let folder = self.place(&record.id);
        self.begun(job, &folder)?;
        let work = run::Work {
            inner: Arc::clone(self),
            job: Arc::clone(job),
            folder: folder.clone(),
            allowed,
            again,
        };
        let mut running = pin!(AssertUnwindSafe(work.run()).catch_unwind());
        let done = tokio::select! {
            done = &mut running => done,
            // A stopped job may still be writing: it keeps its turn until it has ended.
            () = self.watched(job, &folder) => running.await,
        };
        done.unwrap_or_else(|_| Err(Problem::internal()))
    }

    /// Saves that a job is running, before it starts: if it crashes the service, the next start detects that.
    fn begun(&self, job: &Job, folder: &Path) -> Result<(), Problem> {
        let mut record = job.record();
        record.state = State::Running;
        record.started.get_or_insert_with(record::now);
        record.progress = record::Progress::default();
        record.save(folder).map_err(|error| Problem::of_io("a job was not begun", &error))?;
        job.update(|shown| *shown = record);
        Ok(())
    }

    /// Completes when a job is stopped, and stops it when it exceeds its time or disk space.
    async fn watched(&self, job: &Job, folder: &Path) {
        let look = async {
            loop {
                sleep(LOOK).await;
                let folder = folder.to_owned();
                let bytes = tokio::task::spawn_blocking(move || result::bytes(&folder)).await;
                if bytes.is_ok_and(|bytes| bytes > self.config.job_limits.keep) {
                    job.stop(Stop::Disk);
                    return;
                }
            }
        };
        tokio::select! {
            () = job.cancel.cancelled() => {}
            late = timeout(self.config.job_limits.time, look) => if late.is_err() { job.stop(Stop::Time) },
        }
    }

    /// Returns the prefixes that the owner of a job may currently read.
    fn allowed(&self, record: &Record) -> Result<Allowed, Problem> {
        let config = &self.config;
        if record.reach == ALL {
            return Ok(config.allowed.clone());
        }
        let less = config.tokens.named(&record.reach).and_then(|token| token.allowed.as_ref());
        less.map(|less| config.allowed.and(less)).ok_or_else(|| {
            Problem::new(
                StatusCode::FORBIDDEN,
                "not-allowed",
                "the token that submitted the job is no longer valid",
            )
        })
    }

    /// Records the outcome of a job, or that it will resume at the next start.
    fn ended(&self, job: &Job, outcome: Result<Value, Problem>) {
        let stop = job.stop.get().copied();
        let parked = job.cancel.is_cancelled() && stop.is_none();
        let limits = &self.config.job_limits;
        let limit = |detail: String| {
            (State::Failed, None, Some(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "limit", detail)))
        };
        let is_written = job.record().request.kind == Kind::Batch;
        let (state, summary, error) = match (outcome, stop) {
            (Ok(summary), None | Some(Stop::Cancelled)) => (State::Done, Some(summary), None),
            // The stop came too late: the output is already published.
            (Ok(summary), Some(_)) if is_written => (State::Done, Some(summary), None),
            (_, Some(Stop::Cancelled)) => (State::Cancelled, None, None),
            (_, Some(Stop::Files)) => limit(format!("the job has more than {} files", limits.files)),
            (_, Some(Stop::Time)) => {
                limit(format!("the job took more than {} seconds", limits.time.as_secs()))
            }
            (_, Some(Stop::Disk)) => {
                limit(format!("the job takes more than {} bytes of disk space", limits.keep))
            }
            (Err(_), None) if parked => {
                let waited = job.state() == State::Queued;
                (if waited { State::Queued } else { State::Parked }, None, None)
            }
            (Err(problem), None) => (State::Failed, None, Some(problem)),
        };
        let place = self.place(&job.record().id);
        if state.is_over() {
            // Only the result is kept.
            if state != State::Done {
                remove_result(&place);
            }
            remove_journal(&place);
            job.bytes.store(result::bytes(&place), Ordering::Relaxed);
        }
        // The record is saved before clients see it.
        let mut record = job.record();
        record.state = state;
        record.summary = summary;
        record.error = error.map(Into::into);
        record.ended = state.is_over().then(record::now);
        if let Err(error) = record.save(&place) {
            tracing::error!("the record of job {} was not written: {error}", record.id);
        }
        tracing::info!(job = %record.id, state = state.name(), "job");
        job.update(|shown| *shown = record);
    }

    /// Removes a job and its folder. The folder is renamed first, so that an interrupted removal is completed later.
    fn remove(&self, id: &str) {
        self.table().remove(id);
        let (place, aside) = (self.place(id), self.folder.join(format!(".{id}")));
        if fs::rename(&place, &aside).is_ok() {
            let _ = fs::remove_dir_all(aside);
        }
    }

    /// Removes the oldest ended jobs while there are too many or they take too much space.
    fn tidy(&self) {
        let over: Vec<(String, u64, u64)> = {
            let table = self.table();
            let over = table.iter().rev().filter(|(_, job)| job.state().is_over());
            over.map(|(id, job)| (id.clone(), job.bytes.load(Ordering::Relaxed), job.size)).collect()
        };
        let (mut bytes, mut requests) = (0_u64, 0_u64);
        for (at, (id, size, request)) in over.iter().enumerate() {
            bytes = bytes.saturating_add(*size);
            requests = requests.saturating_add(*request);
            let is_too_much = bytes > self.config.job_limits.keep || requests > REQUESTS;
            if at >= KEPT || (at > 0 && is_too_much) {
                self.remove(id);
            }
        }
    }
}

/// Updates the record of a job that was running when the service was killed: the job resumes, unless that has happened
/// too often.
fn crashed(record: &mut Record, place: &Path) -> io::Result<()> {
    record.crashes += 1;
    record.state = State::Parked;
    if record.crashes >= CRASHES {
        let times = record.crashes;
        let detail =
            format!("the service was killed {times} times while the job ran, and does not start it again");
        tracing::error!("job {}: {detail}", record.id);
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "crashed", detail).hint(
            "its files may need too much memory: have the service read fewer at once, or omit the largest",
        );
        record.state = State::Failed;
        record.error = Some(problem.into());
        record.ended = Some(record::now());
        remove_result(place);
        remove_journal(place);
    }
    record.save(place)
}

/// Removes the journal of a batch and the auxiliary files of SQLite.
fn remove_journal(place: &Path) {
    for name in ["journal-journal", "journal-wal", "journal-shm", "journal"] {
        let _ = fs::remove_file(place.join(name));
    }
}

/// Removes the result, whether a file or a folder.
fn remove_result(place: &Path) {
    let _ = fs::remove_file(place.join("result.json"));
    let _ = fs::remove_dir_all(place.join("result"));
}
