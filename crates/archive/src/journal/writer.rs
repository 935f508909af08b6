//! The one thread that writes while files are read.

use std::{collections::VecDeque, thread::JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::{Journal, JournalError, Outcome, Work, work};

/// What may wait to be written; readers wait where there is more.
const WAITING: usize = 32;
/// Most commands of one transaction.
const TOGETHER: usize = 1024;

enum Command {
    /// So many files are wanted.
    Take(usize, oneshot::Sender<Vec<Work>>),
    /// A file's reading has ended.
    Finished(i64, Outcome),
}

/// A journal in the hands of its thread.
#[derive(Debug)]
pub(crate) struct Writer {
    commands: mpsc::Sender<Command>,
    thread: JoinHandle<(Journal, Result<(), JournalError>)>,
}

/// The thread is gone: [`Writer::finish`] says why.
#[derive(Debug)]
pub(crate) struct Gone;

impl Writer {
    /// Starts the thread; with it comes the number of files that are to be read.
    ///
    /// # Errors
    /// [`JournalError`].
    pub(crate) fn start(journal: Journal) -> Result<(Self, u64), JournalError> {
        let pending: VecDeque<i64> = journal.pending()?.into();
        let files = pending.len() as u64;
        let (commands, received) = mpsc::channel(WAITING);
        let thread = std::thread::spawn(move || Thread { journal, pending }.run(received));
        Ok((Self { commands, thread }, files))
    }

    /// Asks for files to read, of which each comes once.
    pub(crate) async fn ask(&self, most: usize) -> Result<oneshot::Receiver<Vec<Work>>, Gone> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Take(most, reply)).await.map_err(|_| Gone)?;
        Ok(answer)
    }

    /// Keeps how the reading of a file ended.
    pub(crate) async fn finished(&self, id: i64, outcome: Outcome) -> Result<(), Gone> {
        self.commands.send(Command::Finished(id, outcome)).await.map_err(|_| Gone)
    }

    /// Writes what is left, and waits for it.
    ///
    /// # Errors
    /// Why the thread could not write.
    pub(crate) fn finish(self) -> Result<Journal, JournalError> {
        drop(self.commands);
        match self.thread.join() {
            Ok((journal, result)) => result.map(|()| journal),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Thread {
    journal: Journal,
    /// Rows that are to be read and that nobody took yet.
    pending: VecDeque<i64>,
}

impl Thread {
    fn run(mut self, mut commands: mpsc::Receiver<Command>) -> (Journal, Result<(), JournalError>) {
        let mut together = Vec::new();
        // What the last moments wrote may be read again; outputs are synced before they are noted here.
        let eased = self.journal.connection.pragma_update(None, "synchronous", "NORMAL");
        if let Err(error) = eased.map_err(|error| self.journal.failed(error)) {
            return (self.journal, Err(error));
        }
        while commands.blocking_recv_many(&mut together, TOGETHER) > 0 {
            if let Err(error) = self.write(&mut together) {
                let error = self.journal.failed(error);
                return (self.journal, Err(error));
            }
        }
        let strict = self.journal.connection.pragma_update(None, "synchronous", "FULL");
        let strict = strict.map_err(|error| self.journal.failed(error));
        (self.journal, strict)
    }

    /// Does all in one transaction.
    fn write(&mut self, commands: &mut Vec<Command>) -> rusqlite::Result<()> {
        let Self { journal, pending } = self;
        let run = journal.run;
        let transaction = journal.connection.transaction()?;
        for command in commands.drain(..) {
            match command {
                Command::Take(most, reply) => {
                    let ids = pending.drain(..most.min(pending.len()));
                    let taken: rusqlite::Result<Vec<_>> =
                        ids.map(|id| work::work(&transaction, id)).collect();
                    let _ = reply.send(taken?);
                }
                Command::Finished(id, outcome) => work::finish(&transaction, run, id, &outcome)?,
            }
        }
        transaction.commit()
    }
}
