//! A job that this instance runs.

use std::{
    fs::File,
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use tokio_util::sync::CancellationToken;

use super::record::{Record, State};

/// A job that this instance runs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) folder: PathBuf,
    record: Mutex<Record>,
    pub(super) cancel: CancellationToken,
    pub(super) why: OnceLock<Stop>,
    failures: Mutex<Vec<String>>,
    /// The lock of the job, which other instances cannot get until all work has ended.
    _claim: File,
}

/// Why a job was stopped, other than by its instance stopping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Cancelled,
    Files,
    Time,
    Disk,
}

impl Job {
    /// Creates a job from its saved record.
    pub(super) fn new(record: Record, folder: PathBuf, claim: File, stopping: &CancellationToken) -> Self {
        Self {
            folder,
            record: Mutex::new(record),
            cancel: stopping.child_token(),
            why: OnceLock::new(),
            failures: Mutex::default(),
            _claim: claim,
        }
    }

    fn locked(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current record.
    pub(crate) fn record(&self) -> Record {
        self.locked().clone()
    }

    /// Changes the record in memory. Progress is written from time to time.
    pub(super) fn update(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.locked();
        change(&mut record);
        record.touch();
    }

    /// Changes and saves the record. Without the change if it cannot be written.
    pub(super) fn save(&self, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let mut record = self.locked();
        let mut changed = record.clone();
        change(&mut changed);
        changed.touch();
        changed.save(&self.folder)?;
        *record = changed;
        Ok(())
    }

    /// Saves that the job is to be resumed, unless it has ended. Even if the process ends before the job has stopped,
    /// this is not a crash.
    pub(super) fn park(&self) {
        let is_running = self.locked().state == State::Running;
        let parked = |record: &mut Record| {
            if record.state == State::Running {
                record.state = State::Parked;
            }
        };
        if is_running && let Err(error) = self.save(parked) {
            tracing::error!("the record of a job was not written: {error}");
        }
    }

    /// Stops the job; only the first reason is recorded.
    pub(super) fn stop(&self, why: Stop) {
        let _ = self.why.set(why);
        self.cancel.cancel();
    }

    /// Records a failed file, unless `most` are recorded already.
    pub(super) fn failed(&self, text: String, most: usize) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < most {
            failures.push(text);
        }
    }

    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
