//! The thread that alone writes to the journal while files are read.

use std::{collections::VecDeque, thread::JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::{
    Journal, Outcome, Result, Work, rows,
    sql::{ITEM, work_of},
};

/// Maximum number of queued commands; readers wait while the queue is full.
const WAITING: usize = 32;
/// Maximum number of commands in one transaction.
const TOGETHER: usize = 1024;

enum Command {
    /// Requests up to this many files.
    Take(usize, oneshot::Sender<Vec<Work>>),
    /// Reports how reading a file ended.
    Finished(i64, Outcome),
}

/// Handle to a journal that its writer thread owns.
#[derive(Debug)]
pub(crate) struct Writer {
    commands: mpsc::Sender<Command>,
    thread: JoinHandle<(Journal, Result<()>)>,
}

/// The writer thread has ended: [`Writer::finish`] returns the reason.
#[derive(Debug)]
pub(crate) struct Gone;

impl Writer {
    /// Starts the thread. Also returns the number of files to read.
    ///
    /// # Errors
    /// [`super::JournalError`].
    pub(crate) fn start(journal: Journal) -> Result<(Self, u64)> {
        let pending: VecDeque<i64> = journal.pending()?.into();
        let files = pending.len() as u64;
        let (commands, received) = mpsc::channel(WAITING);
        let thread = std::thread::spawn(move || Thread { journal, pending }.run(received));
        Ok((Self { commands, thread }, files))
    }

    /// Requests files to read. Each file is handed out once.
    pub(crate) async fn ask(&self, most: usize) -> Result<oneshot::Receiver<Vec<Work>>, Gone> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Take(most, reply)).await.map_err(|_| Gone)?;
        Ok(answer)
    }

    /// Records how reading a file ended.
    pub(crate) async fn finished(&self, id: i64, outcome: Outcome) -> Result<(), Gone> {
        self.commands.send(Command::Finished(id, outcome)).await.map_err(|_| Gone)
    }

    /// Writes the remaining commands and waits until the thread has ended.
    ///
    /// # Errors
    /// The error that stopped the thread.
    pub(crate) fn finish(self) -> Result<Journal> {
        drop(self.commands);
        match self.thread.join() {
            Ok((journal, result)) => result.map(|()| journal),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Thread {
    journal: Journal,
    /// Rows to read that are not handed out yet.
    pending: VecDeque<i64>,
}

impl Thread {
    fn run(mut self, mut commands: mpsc::Receiver<Command>) -> (Journal, Result<()>) {
        // Losing the last few records is acceptable: their files are read again, and outputs are synced before they are
        // recorded.
        let result = self.run_all(&mut commands);
        (self.journal, result)
    }

    fn run_all(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<()> {
        self.journal.query(|it| it.pragma_update(None, "synchronous", "NORMAL"))?;
        let mut together = Vec::new();
        while commands.blocking_recv_many(&mut together, TOGETHER) > 0 {
            self.write(&mut together)?;
        }
        self.journal.query(|it| it.pragma_update(None, "synchronous", "FULL"))
    }

    /// Executes all commands in one transaction.
    fn write(&mut self, commands: &mut Vec<Command>) -> Result<()> {
        let pending = &mut self.pending;
        self.journal.transact(|connection, cache, run| {
            let work = |id: i64| -> rusqlite::Result<Work> {
                let sql = format!("SELECT {ITEM} FROM files WHERE id = ?1");
                connection.prepare_cached(&sql)?.query_row([id], work_of)
            };
            for command in commands.drain(..) {
                match command {
                    Command::Take(most, reply) => {
                        let ids = pending.drain(..most.min(pending.len()));
                        let _ = reply.send(ids.map(work).collect::<rusqlite::Result<_>>()?);
                    }
                    Command::Finished(id, outcome) => {
                        rows::finish(connection, cache, run, work(id)?, &outcome)?;
                    }
                }
            }
            Ok(())
        })
    }
}
