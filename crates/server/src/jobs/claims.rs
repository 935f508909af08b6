//! What each instance does from time to time: it takes over the jobs of killed instances, starts queued jobs, and
//! removes the oldest ended ones, and sends webhooks.

use std::{fs, io, sync::Arc};

use axum::http::StatusCode;
use tokio::{runtime::Handle, time::sleep};
use virtualize::Code;

use super::{
    Inner, POLL,
    folder::{Exclusive, Table},
    job::Job,
    record::{self, Progress, Record, State},
    turns::{self, Claim},
};
use crate::Problem;

/// Maximum number of ended jobs to keep, and maximum bytes of their requests, which are held in memory.
const KEPT: usize = 10_000;
const REQUESTS: u64 = 64 << 20;
/// Number of instances that a job may crash: after that it is not started again.
const CRASHES: u32 = 2;

/// The unfinished jobs.
#[derive(Default)]
struct Queue {
    waiting: Vec<Claim>,
    /// Jobs that any instance runs.
    running: Vec<Claim>,
    /// Jobs that this instance runs.
    own: Vec<Claim>,
    /// Jobs that cannot be read, locked or saved. They do not hold up the others.
    failed: Vec<(String, io::Error)>,
}

impl Inner {
    /// Attends to the folder until the service stops: after each change of this instance, and at regular intervals.
    pub(super) async fn attend(self: Arc<Self>) {
        let runtime = Handle::current();
        while !self.stopping.is_cancelled() {
            let (this, runtime) = (Arc::clone(&self), runtime.clone());
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || this.pass(&runtime)).await {
                tracing::error!("the jobs folder cannot be used: {error}");
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = sleep(POLL) => {}
                () = self.stopping.cancelled() => {}
            }
        }
    }

    /// Attends to the folder once.
    pub(super) fn pass(self: &Arc<Self>, runtime: &Handle) -> io::Result<()> {
        let table = self.folder.refresh()?;
        let is_open = |record: &Record| !record.state.is_over() && !self.running().contains_key(&record.id);
        if table.values().any(|entry| is_open(&entry.record)) {
            let exclusive = self.folder.lock()?;
            let mut queue = self.queue(&exclusive)?;
            let most = self.config.job_limits.running;
            while let Some(at) = turns::next(&queue.waiting, &queue.running, &queue.own, most) {
                let claim = queue.waiting.remove(at);
                match self.start(&exclusive, &claim.id, runtime) {
                    Ok(true) => {
                        queue.running.push(claim.clone());
                        queue.own.push(claim);
                    }
                    Ok(false) => {}
                    Err(error) => queue.failed.push((claim.id, error)),
                }
            }
            if let Some((id, error)) = queue.failed.first() {
                tracing::warn!("{} jobs cannot be run, such as {id}: {error}", queue.failed.len());
            }
        }
        self.tidy(&table)?;
        self.deliver(&table, runtime)
    }

    /// Finds out which unfinished jobs run, and takes over those whose instance was killed.
    fn queue(&self, exclusive: &Exclusive<'_>) -> io::Result<Queue> {
        let (mut queue, table) = (Queue::default(), self.folder.refresh()?);
        for entry in table.values().filter(|entry| !entry.record.state.is_over()) {
            let claim = Claim::of(&entry.record);
            if self.running().contains_key(&claim.id) {
                queue.own.push(claim.clone());
                queue.running.push(claim);
                continue;
            }
            if let Err(error) = self.take_over(exclusive, &entry.record, &mut queue) {
                queue.failed.push((claim.id.clone(), error));
                // It may be running.
                queue.running.push(claim);
            }
        }
        Ok(queue)
    }

    /// Enters a job that this instance does not run.
    fn take_over(&self, exclusive: &Exclusive<'_>, record: &Record, queue: &mut Queue) -> io::Result<()> {
        if record.state == State::Queued {
            queue.waiting.push(Claim::of(record));
            return Ok(());
        }
        let Some(_claimed) = self.folder.claim(&record.id)? else {
            queue.running.push(Claim::of(record));
            return Ok(());
        };
        // The runner may have saved the record since, but will not do so any more.
        let Some(entry) = self.folder.get(&record.id)? else { return Ok(()) };
        let mut record = entry.record.clone();
        if record.state == State::Running {
            crashed(&mut record);
            self.folder.save(exclusive, &mut record)?;
        }
        if !record.state.is_over() {
            queue.waiting.push(Claim::of(&record));
        }
        Ok(())
    }

    /// Starts a job in this instance; returns whether it runs.
    fn start(self: &Arc<Self>, exclusive: &Exclusive<'_>, id: &str, runtime: &Handle) -> io::Result<bool> {
        let Some(claim) = self.folder.claim(id)? else { return Ok(false) };
        let Some(entry) = self.folder.get(id)? else { return Ok(false) };
        let mut record = entry.record.clone();
        if self.folder.is_marked(id) {
            record.end(State::Cancelled, None);
            self.folder.save(exclusive, &mut record)?;
            return Ok(false);
        }
        let mut running = self.running();
        if self.stopping.is_cancelled() {
            return Ok(false);
        }
        let again = record.state == State::Parked;
        record.state = State::Running;
        record.started.get_or_insert_with(record::now);
        record.progress = Progress::default();
        self.folder.save(exclusive, &mut record)?;
        let job = Arc::new(Job::new(record, self.folder.place(id), claim, &self.stopping));
        running.insert(id.to_owned(), Arc::clone(&job));
        self.tracker.spawn_on(Arc::clone(self).work(job, again), runtime);
        Ok(true)
    }

    /// Removes the oldest ended jobs while there are too many or they take too much space.
    fn tidy(&self, table: &Table) -> io::Result<()> {
        let (mut bytes, mut requests, mut excess) = (0_u64, 0_u64, Vec::new());
        let over = table.iter().rev().filter(|(_, entry)| entry.record.state.is_over());
        for (at, (_, entry)) in over.enumerate() {
            bytes = bytes.saturating_add(entry.bytes);
            requests = requests.saturating_add(entry.size);
            let is_too_much = bytes > self.config.job_limits.keep || requests > REQUESTS;
            if at >= KEPT || (at > 0 && is_too_much) {
                excess.push(&entry.record);
            }
        }
        for record in excess {
            let aside = {
                let exclusive = self.folder.lock()?;
                self.folder.set_aside(&exclusive, record)
            };
            // Otherwise another instance has removed it.
            if let Ok(aside) = aside {
                let _ = fs::remove_dir_all(aside);
            }
        }
        Ok(())
    }
}

/// Updates the record of a job whose instance was killed: the job resumes, unless that has happened too often.
fn crashed(record: &mut Record) {
    record.crashes += 1;
    record.state = State::Parked;
    if record.crashes >= CRASHES {
        let times = record.crashes;
        let detail =
            format!("the service was killed {times} times while the job ran, and does not start it again");
        tracing::error!("job {}: {detail}", record.id);
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Crashed, detail).hint(
            "its files may need too much memory: have the service read fewer at once, or omit the largest",
        );
        record.end(State::Failed, Some(problem));
    }
}
