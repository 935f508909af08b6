//! Files that a journal has to be read.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Ended, EngineOptions, Failure, Ledger, Outage, ReadFile};
use crate::{
    Error,
    event::Events,
    journal::{Content, Gone, Journal, JournalError, Outcome, Work, Writer},
};

/// Reads all files that are to be read; what failed is in the journal.
///
/// # Errors
/// [`Error::Stopped`], [`Error::Outage`], [`Error::Journal`].
pub(crate) async fn run_journal(
    journal: Journal,
    read: Arc<dyn ReadFile<Content = Content>>,
    options: &EngineOptions,
    events: &Events,
) -> Result<Journal, Error> {
    let path = journal.path().to_owned();
    let (writer, left) = Writer::start(journal)?;
    let mut ledger = Journaled { writer, left, asked: None };
    let result = super::run(&mut ledger, read, options, events).await;
    // It waits for its thread, which is not to be done on one that files are read on.
    let writer = ledger.writer;
    let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
    let gone = |reason: &str| JournalError::Failed { path, reason: reason.to_owned() };
    match (result, finished) {
        (_, Err(_)) => Err(gone("the thread that writes it panicked").into()),
        (_, Ok(Err(error))) => Err(error.into()),
        (Ok(outages), Ok(Ok(journal))) => match outages.into_iter().next() {
            Some(outage) => Err(outage_error(outage, &journal)?),
            None => Ok(journal),
        },
        (Err(Ended::Ledger(Gone)), Ok(Ok(_))) => Err(gone("the thread that writes it ended early").into()),
        (Err(Ended::Task(error)), Ok(Ok(_))) => Err(gone(&format!("a task ended early: {error}")).into()),
        (Err(Ended::Stopped), Ok(Ok(journal))) => {
            let counts = journal.counts()?;
            Err(Error::Stopped { done: counts.done + counts.failed, files: counts.all() })
        }
    }
}

/// What is said of the first store that was not asked any more.
fn outage_error(Outage { store, failure, .. }: Outage, journal: &Journal) -> Result<Error, Error> {
    let counts = journal.counts()?;
    let Failure { class, error: reason } = failure;
    Ok(Error::Outage { store, class, reason, left: counts.pending, files: counts.all() })
}

/// A journal that is read and written by its thread.
struct Journaled {
    writer: Writer,
    /// Files that nobody took yet.
    left: u64,
    /// Files that were asked for, and did not come yet.
    asked: Option<oneshot::Receiver<Vec<Work>>>,
}

impl Ledger for Journaled {
    type Content = Content;
    type Error = Gone;

    async fn take(&mut self, most: usize) -> Result<Vec<Work>, Gone> {
        if self.left == 0 {
            return Ok(Vec::new());
        }
        let asked = match &mut self.asked {
            Some(asked) => asked,
            none => none.insert(self.writer.ask(most).await?),
        };
        let taken = asked.await.map_err(|_| Gone)?;
        self.asked = None;
        self.left = self.left.saturating_sub(taken.len() as u64);
        Ok(taken)
    }

    async fn finished(&mut self, work: Work, outcome: Outcome) -> Result<(), Gone> {
        self.writer.finished(work.id, outcome).await
    }
}
