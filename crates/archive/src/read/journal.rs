//! Reads the pending files of a journal.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use super::{Ended, Outage, ReadFile, ReadOptions, WorkQueue, read_all};
use crate::{
    Error,
    event::Events,
    journal::{Failure, Gone, Journal, JournalError, Outcome, Record, Work, Writer},
};

/// Number of files that are taken from the journal at once, ahead of reading them, so that no reader waits for a
/// transaction.
const AHEAD: usize = 1024;

/// Reads all pending files of a journal and records the outcomes there, failures included.
///
/// # Errors
/// [`Error::Stopped`], [`Error::Outage`], [`Error::Journal`].
pub(crate) async fn read_journal(
    journal: Journal,
    reader: Arc<dyn ReadFile<Record>>,
    options: &ReadOptions,
    events: &Events,
) -> Result<Journal, Error> {
    let path = journal.path().to_owned();
    let (writer, left) = Writer::start(journal)?;
    let mut queue = JournalQueue { writer, left, asked: None, ready: VecDeque::new() };
    let result = read_all(&mut queue, reader, options, events).await;
    // `finish` waits for the writer's thread, which must not block a thread of the runtime.
    let writer = queue.writer;
    let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
    let failed = |reason: &str| JournalError::failed(&path, reason);
    match (result, finished) {
        (_, Err(_)) => Err(failed("the thread that writes it panicked").into()),
        (_, Ok(Err(error))) => Err(error.into()),
        (Ok(outages), Ok(Ok(journal))) => {
            let Some(Outage { store, failure, .. }) = outages.into_iter().next() else { return Ok(journal) };
            let (counts, Failure { class, error: reason, .. }) = (journal.counts()?, failure);
            Err(Error::Outage { store, class, reason, left: counts.pending, files: counts.all() })
        }
        (Err(Ended::Queue(Gone)), Ok(Ok(_))) => Err(failed("the thread that writes it ended early").into()),
        (Err(Ended::Task(error)), Ok(Ok(_))) => Err(failed(&format!("a task ended early: {error}")).into()),
        (Err(Ended::Stopped), Ok(Ok(journal))) => {
            let counts = journal.counts()?;
            Err(Error::Stopped { done: counts.done + counts.failed, files: counts.all() })
        }
    }
}

/// The pending files of a journal, through its writer.
struct JournalQueue {
    writer: Writer,
    /// Number of files that are still in the journal.
    left: u64,
    /// Pending reply to a request for files.
    asked: Option<oneshot::Receiver<Vec<Work>>>,
    /// Files that are next.
    ready: VecDeque<Work>,
}

impl WorkQueue for JournalQueue {
    type Record = Record;
    type Error = Gone;

    async fn take(&mut self, most: usize) -> Result<Vec<Work>, Gone> {
        if self.asked.is_none() && self.left > 0 && self.ready.len() < AHEAD / 2 {
            self.asked = Some(self.writer.ask(AHEAD).await?);
        }
        if self.ready.is_empty()
            && let Some(asked) = &mut self.asked
        {
            self.ready = asked.await.map_err(|_| Gone)?.into();
            self.asked = None;
            self.left = self.left.saturating_sub(self.ready.len() as u64);
        }
        let most = most.min(self.ready.len());
        Ok(self.ready.drain(..most).collect())
    }

    async fn finished(&mut self, work: Work, outcome: Outcome) -> Result<(), Gone> {
        self.writer.finished(work.id, outcome).await
    }
}
