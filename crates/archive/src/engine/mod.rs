//! Reads files, many at once: those that a journal, or a listing, has to be read.

pub(crate) mod attempt;
mod file;
mod journaled;

use std::{future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) use attempt::{Failure, ReadFile, Reading};
pub(crate) use file::{FileReader, Make};
pub(crate) use journaled::run_journal;

use crate::{
    event::Events,
    journal::{Outcome, Work},
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
pub(crate) type ReadFuture<'a, C> = BoxFuture<'a, Result<Reading<C>, Failure>>;

/// Where files to read come from, and where what came of them goes.
pub(crate) trait Ledger {
    /// What comes of a file.
    type Content: Send + 'static;
    /// Why it cannot go on.
    type Error;

    /// How many more files may be under way, beside the limit of all.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Files to read, each once, at most so many; none where all are taken. Nothing is lost where it is dropped while it
    /// waits.
    fn take(&mut self, most: usize) -> impl Future<Output = Result<Vec<Work>, Self::Error>> + Send;

    /// Keeps how the reading of a file ended.
    fn finished(
        &mut self,
        work: Work,
        outcome: Outcome<Self::Content>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Why reading ended early.
#[derive(Debug)]
pub(crate) enum Ended<E> {
    /// It was cancelled.
    Stopped,
    /// A task did not come to its end.
    Task(JoinError),
    /// The ledger cannot go on.
    Ledger(E),
}

/// Reads all files of a ledger. Each is a task of the runtime.
///
/// # Errors
/// [`Ended`]; what is under way is dropped then.
pub(crate) async fn run<L: Ledger>(
    ledger: &mut L,
    read: Arc<dyn ReadFile<Content = L::Content>>,
    options: &EngineOptions,
    events: &Events,
) -> Result<(), Ended<L::Error>> {
    let mut tasks: JoinSet<(Work, Outcome<L::Content>)> = JoinSet::new();
    let mut all_taken = false;
    loop {
        if all_taken && tasks.is_empty() {
            return Ok(());
        }
        let under_way = options.files.max(1).saturating_sub(tasks.len());
        let room = if all_taken { 0 } else { under_way.min(ledger.room()) };
        tokio::select! {
            biased;
            () = options.cancel.cancelled() => {
                tasks.shutdown().await;
                return Err(Ended::Stopped);
            }
            Some(joined) = tasks.join_next() => {
                let (work, outcome) = joined.map_err(Ended::Task)?;
                events.tell(attempt::event(&work.item, &outcome));
                ledger.finished(work, outcome).await.map_err(Ended::Ledger)?;
            }
            taken = ledger.take(room), if room > 0 => {
                let taken = taken.map_err(Ended::Ledger)?;
                all_taken = taken.is_empty();
                for work in taken {
                    let (read, options, events) = (Arc::clone(&read), options.clone(), events.clone());
                    tasks.spawn(async move {
                        let outcome = attempt::read(&work.item, read.as_ref(), &options, &events).await;
                        (work, outcome)
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
