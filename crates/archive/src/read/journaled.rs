//! Reads the pending files of a journal.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Ended, Failure, Outage, ReadFile, ReadOptions, WorkQueue, read_all};
use crate::{
    Error,
    event::Events,
    journal::{Content, Gone, Journal, JournalError, Outcome, Work, Writer},
};

/// Reads all pending files of a journal and records the outcomes there, failures included.
///
/// # Errors
/// [`Error::Stopped`], [`Error::Outage`], [`Error::Journal`].
pub(crate) async fn read_journal(
    journal: Journal,
    reader: Arc<dyn ReadFile<Content>>,
    options: &ReadOptions,
    events: &Events,
) -> Result<Journal, Error> {
    let path = journal.path().to_owned();
    let (writer, left) = Writer::start(journal)?;
    let mut queue = JournalQueue { writer, left, asked: None };
    let result = read_all(&mut queue, reader, options, events).await;
    // `finish` waits for the writer's thread, which must not block a thread of the runtime.
    let writer = queue.writer;
    let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
    let failed = |reason: &str| JournalError::Failed { path, reason: reason.to_owned() };
    match (result, finished) {
        (_, Err(_)) => Err(failed("the thread that writes it panicked").into()),
        (_, Ok(Err(error))) => Err(error.into()),
        (Ok(outages), Ok(Ok(journal))) => match outages.into_iter().next() {
            Some(outage) => Err(outage_error(outage, &journal)?),
            None => Ok(journal),
        },
        (Err(Ended::Queue(Gone)), Ok(Ok(_))) => Err(failed("the thread that writes it ended early").into()),
        (Err(Ended::Task(error)), Ok(Ok(_))) => Err(failed(&format!("a task ended early: {error}")).into()),
        (Err(Ended::Stopped), Ok(Ok(journal))) => {
            let counts = journal.counts()?;
            Err(Error::Stopped { done: counts.done + counts.failed, files: counts.all() })
        }
    }
}

/// Returns the error that reports an outage.
fn outage_error(Outage { store, failure, .. }: Outage, journal: &Journal) -> Result<Error, Error> {
    let counts = journal.counts()?;
    let Failure { class, error: reason } = failure;
    Ok(Error::Outage { store, class, reason, left: counts.pending, files: counts.all() })
}

/// The pending files of a journal, through its writer.
struct JournalQueue {
    writer: Writer,
    /// Number of files not taken yet.
    left: u64,
    /// Pending reply to a request for files.
    asked: Option<oneshot::Receiver<Vec<Work>>>,
}

impl WorkQueue for JournalQueue {
    type Record = Content;
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
