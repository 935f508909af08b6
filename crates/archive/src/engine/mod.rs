//! Reads files, many at once: those that the journal says are to be read.

mod attempt;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) use attempt::{Failure, ReadFile, Reading};

use crate::{
    Error,
    event::Events,
    journal::{Gone, Journal, JournalError, Outcome, Work, Writer},
};

/// How files are read.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// Most files at once.
    pub(crate) files: usize,
    /// How often a file is tried in all.
    pub(crate) attempts: u32,
    /// How long to wait before the second attempt, on average; twice as long before each next.
    pub(crate) wait: Duration,
    /// Waiting files are not started any more, and those under way are dropped.
    pub(crate) cancel: CancellationToken,
}

/// What [`ReadFile::read`] gives.
pub(crate) type ReadFuture<'a> = BoxFuture<'a, Result<Reading, Failure>>;

/// Reads all files that are to be read; what failed is in the journal. Each is a task of the runtime.
///
/// # Errors
/// [`Error::Stopped`], [`Error::Journal`].
pub(crate) async fn run(
    journal: Journal,
    read: Arc<dyn ReadFile>,
    options: &EngineOptions,
    events: &Events,
) -> Result<Journal, Error> {
    let path = journal.path().to_owned();
    let (writer, pending) = Writer::start(journal)?;
    let (options, events) = (options.clone(), events.clone());
    let mut engine = Engine { writer, tasks: JoinSet::new(), read, options, events, started: 0, pending };
    let result = engine.work().await;
    engine.tasks.shutdown().await;
    // It waits for its thread, which is not to be done on one that files are read on.
    let writer = engine.writer;
    let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
    let gone = |reason: &str| JournalError::Failed { path, reason: reason.to_owned() };
    match (result, finished) {
        (_, Err(_)) => Err(gone("the thread that writes it panicked").into()),
        (_, Ok(Err(error))) => Err(error.into()),
        (Ok(()), Ok(Ok(journal))) => Ok(journal),
        (Err(Ended::WriterGone), Ok(Ok(_))) => Err(gone("the thread that writes it ended early").into()),
        (Err(Ended::Task(error)), Ok(Ok(_))) => Err(gone(&format!("a task ended early: {error}")).into()),
        (Err(Ended::Stopped), Ok(Ok(journal))) => {
            let counts = journal.counts()?;
            Err(Error::Stopped { done: counts.done + counts.failed, files: counts.all() })
        }
    }
}

/// Why reading ended early.
enum Ended {
    Stopped,
    Task(JoinError),
    WriterGone,
}

impl From<Gone> for Ended {
    fn from(_: Gone) -> Self {
        Self::WriterGone
    }
}

struct Engine {
    writer: Writer,
    tasks: JoinSet<(Work, Outcome)>,
    read: Arc<dyn ReadFile>,
    options: EngineOptions,
    events: Events,
    /// Files that were started.
    started: u64,
    /// Files that are to be read in all.
    pending: u64,
}

impl Engine {
    async fn work(&mut self) -> Result<(), Ended> {
        loop {
            self.start().await?;
            tokio::select! {
                biased;
                () = self.options.cancel.cancelled() => return Err(Ended::Stopped),
                joined = self.tasks.join_next() => match joined {
                    Some(joined) => self.joined(joined).await?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Starts as many files as may be under way.
    async fn start(&mut self) -> Result<(), Ended> {
        let room = self.options.files.max(1).saturating_sub(self.tasks.len());
        if room == 0 || self.started >= self.pending {
            return Ok(());
        }
        for work in self.writer.take(room).await? {
            self.started += 1;
            let (read, options) = (Arc::clone(&self.read), self.options.clone());
            let events = self.events.clone();
            self.tasks.spawn(async move {
                let outcome = attempt::read(&work.item, read.as_ref(), &options, &events).await;
                (work, outcome)
            });
        }
        Ok(())
    }

    async fn joined(&mut self, joined: Result<(Work, Outcome), JoinError>) -> Result<(), Ended> {
        let (work, outcome) = joined.map_err(Ended::Task)?;
        self.events.tell(attempt::event(&work.item, &outcome));
        Ok(self.writer.finished(work.id, outcome).await?)
    }
}

#[cfg(test)]
mod tests;
