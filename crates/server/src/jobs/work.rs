//! The life of a job in the instance that runs it: limits, progress, cancellation, outcome.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use axum::http::StatusCode;
use futures::FutureExt;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::Instrument;
use virtualize::Code;
use virtualize_store::Allowed;

use super::{
    Inner,
    folder::is_gone,
    job::{Job, Stop},
    record::{Record, State},
    request::Kind,
    result, run,
};
use crate::{Problem, traces::step};

/// Interval at which a running job writes its progress and looks for a cancellation.
const TICK: Duration = Duration::from_millis(500);
/// Number of ticks after which the disk usage of a running job is checked.
const LOOK: u32 = 20;
/// Pause between two attempts to save the outcome of a job.
const PAUSE: Duration = Duration::from_secs(1);

impl Inner {
    /// Runs a job, and records its outcome.
    pub(super) async fn work(self: Arc<Self>, job: Arc<Job>, again: bool) {
        let outcome = self.run(&job, again).instrument(step!("job", job = job.record().id)).await;
        let (this, done) = (Arc::clone(&self), Arc::clone(&job));
        let _ = tokio::task::spawn_blocking(move || this.ended(&done, outcome)).await;
        self.running().remove(&job.record().id);
        drop(job);
        self.folder.changed();
        self.wake.notify_one();
    }

    /// Runs a job until it completes or fails, and stops it when it exceeds a limit.
    async fn run(self: &Arc<Self>, job: &Arc<Job>, again: bool) -> Result<Value, Problem> {
        let record = job.record();
        let allowed = self.allowed(&record)?;
        // The configuration may allow less than when the job was submitted.
        let mut request = record.request.as_ref().clone();
        request.check(&self.config, &allowed)?;
        let work = run::Work { inner: Arc::clone(self), job: Arc::clone(job), allowed, again };
        let mut running = pin!(AssertUnwindSafe(work.run()).catch_unwind());
        let done = tokio::select! {
            done = &mut running => done,
            // A stopped job may still be writing: it keeps its turn until it has ended.
            () = self.watched(job) => running.await,
        };
        done.unwrap_or_else(|_| Err(Problem::internal()))
    }

    /// Completes when a job is stopped. Stops it when it is cancelled or exceeds its time or disk space.
    async fn watched(self: &Arc<Self>, job: &Arc<Job>) {
        let look = async {
            let mut seen = job.record().version;
            for tick in 1_u32.. {
                sleep(TICK).await;
                let (this, shared) = (Arc::clone(self), Arc::clone(job));
                let exchange = move || this.exchange(&shared, seen, tick.is_multiple_of(LOOK));
                seen = tokio::task::spawn_blocking(exchange).await.unwrap_or(seen);
            }
        };
        tokio::select! {
            () = job.cancel.cancelled() => {}
            late = timeout(self.config.job_limits.time, look) => if late.is_err() { job.stop(Stop::Time) },
        }
    }

    /// Writes the progress of a job if it is no longer the version `seen`, and returns the version. Stops the job if it
    /// is to be cancelled, or takes too much space.
    fn exchange(&self, job: &Job, seen: u64, measures: bool) -> u64 {
        let record = job.record();
        if record.version != seen {
            match record.save_progress(&job.folder) {
                Ok(()) => self.folder.changed(),
                Err(error) => tracing::warn!("the progress of a job was not written: {error}"),
            }
        }
        if self.folder.is_marked(&record.id) {
            job.stop(Stop::Cancelled);
        }
        if measures && result::bytes(&job.folder) > self.config.job_limits.keep {
            job.stop(Stop::Disk);
        }
        record.version
    }

    /// Returns the prefixes that a job may read: those that its owner had, as far as the service and the owner's token
    /// still allow them.
    fn allowed(&self, record: &Record) -> Result<Allowed, Problem> {
        let mut allowed = self.config.allowed.clone();
        if let Some(prefixes) = &record.prefixes {
            allowed = allowed.and(&Allowed::parse(prefixes)?);
        }
        let Some(name) = record.client.strip_prefix("token ") else { return Ok(allowed) };
        let token = self.config.tokens.as_ref().and_then(|tokens| tokens.named(name)).ok_or_else(|| {
            let detail = "the token that submitted the job is no longer valid";
            Problem::new(StatusCode::FORBIDDEN, Code::NotAllowed, detail)
        })?;
        Ok(token.allowed.as_ref().map_or_else(|| allowed.clone(), |current| allowed.and(current)))
    }

    /// Records the outcome of a job, or that another instance is to resume it.
    fn ended(&self, job: &Job, outcome: Result<Value, Problem>) {
        let is_written = job.record().request.kind == Kind::Batch;
        let (state, summary, error) = match (outcome, job.why.get().copied()) {
            (Ok(summary), None | Some(Stop::Cancelled)) => (State::Done, Some(summary), None),
            // The stop came too late: the output is already published.
            (Ok(summary), Some(_)) if is_written => (State::Done, Some(summary), None),
            (_, Some(Stop::Cancelled)) => (State::Cancelled, None, None),
            (_, Some(stop)) => (State::Failed, None, Some(self.exceeded(stop))),
            (Err(_), None) if job.cancel.is_cancelled() => (State::Parked, None, None),
            (Err(problem), None) => (State::Failed, None, Some(problem)),
        };
        let save = || {
            job.save(|record| {
                record.summary.clone_from(&summary);
                record.end(state, error.clone());
            })
        };
        // Otherwise the job would be taken for one whose instance was killed, and run again.
        while let Err(error) = save() {
            tracing::error!("the record of a job was not written: {error}");
            if is_gone(&error) || self.stopping.is_cancelled() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        tracing::info!(job = %job.record().id, state = state.name(), "job");
    }

    /// Describes the limit that a job exceeded.
    fn exceeded(&self, stop: Stop) -> Problem {
        let limits = &self.config.job_limits;
        let detail = match stop {
            Stop::Files => format!("the job has more than {} files", limits.files),
            Stop::Time => format!("the job took more than {} seconds", limits.time.as_secs()),
            Stop::Disk | Stop::Cancelled => {
                format!("the job takes more than {} bytes of disk space", limits.keep)
            }
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::Limit, detail)
    }
}
