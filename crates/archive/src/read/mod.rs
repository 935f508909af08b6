//! Reads the files of a journal or a listing concurrently.

pub(crate) mod attempt;
pub(crate) mod breaker;
mod file;
mod journaled;
mod options;
mod reader;
#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc};

use tokio::task::{JoinError, JoinSet};

pub(crate) use breaker::Outage;
pub(crate) use file::FileReader;
pub(crate) use journaled::read_journal;
pub(crate) use options::ReadOptions;
pub(crate) use reader::{Failure, ReadFile, Reading};

use crate::{
    event::Events,
    journal::{Outcome, Work},
};
use breaker::{Breaker, Breakers, blames_store};

/// Supplies files to read and records the outcomes.
pub(crate) trait WorkQueue {
    /// The run's record of a file.
    type Record: Send + 'static;
    /// Error of the queue.
    type Error;

    /// Returns how many more files may be in progress, besides the limit of [`ReadOptions`].
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Takes up to `most` files, each of them once; an empty list means that none are left. Dropping the future before
    /// it completes loses no file.
    fn take(&mut self, most: usize) -> impl Future<Output = Result<Vec<Work>, Self::Error>> + Send;

    /// Records how reading a file ended.
    fn finished(
        &mut self,
        work: Work,
        outcome: Outcome<Self::Record>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Records that a file is left unread because the breaker of its store is open.
    fn left(&mut self, _work: Work, _failure: &Failure) {}
}

/// Why reading ended before the queue was empty.
#[derive(Debug)]
pub(crate) enum Ended<E> {
    /// The run was cancelled.
    Stopped,
    /// A task of the runtime was aborted.
    Task(JoinError),
    /// The queue failed.
    Queue(E),
}

/// Reads all files of a queue, each in its own task. Files of a store whose breaker opens are left unread; such stores
/// are returned.
///
/// # Errors
/// [`Ended`]; files in progress are then dropped.
pub(crate) async fn read_all<Q: WorkQueue>(
    queue: &mut Q,
    reader: Arc<dyn ReadFile<Q::Record>>,
    options: &ReadOptions,
    events: &Events,
) -> Result<Vec<Outage>, Ended<Q::Error>> {
    let mut run = Run { queue, reader, options, events, tasks: JoinSet::new(), stores: Breakers::new() };
    let mut all_taken = false;
    loop {
        if all_taken && run.tasks.is_empty() {
            run.resolve_held().await?;
            return Ok(run.stores.outages());
        }
        let free = options.files.max(1).saturating_sub(run.tasks.len());
        let room = if all_taken { 0 } else { free.min(run.queue.room()) };
        tokio::select! {
            biased;
            () = options.cancel.cancelled() => {
                run.tasks.shutdown().await;
                return Err(Ended::Stopped);
            }
            Some(joined) = run.tasks.join_next() => {
                let (work, outcome) = joined.map_err(Ended::Task)?;
                run.ended(work, outcome).await?;
            }
            taken = run.queue.take(room), if room > 0 => {
                let taken = taken.map_err(Ended::Queue)?;
                all_taken = taken.is_empty();
                for work in taken {
                    run.start(work);
                }
            }
        }
    }
}

/// A file and its outcome; `None` if the breaker of its store is open.
type Ending<R> = (Work, Option<Outcome<R>>);

/// The state of [`read_all`].
struct Run<'a, Q: WorkQueue> {
    queue: &'a mut Q,
    reader: Arc<dyn ReadFile<Q::Record>>,
    options: &'a ReadOptions,
    events: &'a Events,
    tasks: JoinSet<Ending<Q::Record>>,
    stores: Breakers<(Work, Outcome<Q::Record>)>,
}

impl<Q: WorkQueue> Run<'_, Q> {
    fn start(&mut self, work: Work) {
        let breaker = self.stores.of(&work.item).map(|store| Arc::clone(&store.breaker));
        if breaker.as_ref().is_some_and(|breaker| breaker.is_open()) {
            return self.leave(work);
        }
        let (reader, options, events) = (Arc::clone(&self.reader), self.options.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let breaker = breaker.as_deref();
            let outcome = tokio::select! {
                biased;
                outcome = attempt::read(&work.item, reader.as_ref(), breaker, &options, &events) => outcome,
                () = opened(breaker) => None,
            };
            (work, outcome)
        });
    }

    async fn ended(
        &mut self,
        work: Work,
        outcome: Option<Outcome<Q::Record>>,
    ) -> Result<(), Ended<Q::Error>> {
        let Some(outcome) = outcome else {
            self.leave(work);
            return Ok(());
        };
        let Some(store) = self.stores.of(&work.item) else { return self.record(work, outcome).await };
        let may_be_the_store = matches!(&outcome, Outcome::Failed(failed) if blames_store(failed.class));
        if may_be_the_store && store.breaker.is_failing() {
            store.held.push((work, outcome));
            return Ok(());
        }
        // The store answers, so the files themselves were at fault.
        let held = if store.breaker.is_failing() { Vec::new() } else { std::mem::take(&mut store.held) };
        for (work, outcome) in held {
            self.record(work, outcome).await?;
        }
        self.record(work, outcome).await
    }

    /// Decides the outcome of the files that failed last: left unread if the breaker of their store is open, else
    /// failed.
    async fn resolve_held(&mut self) -> Result<(), Ended<Q::Error>> {
        for store in self.stores.all().filter(|store| !store.held.is_empty()) {
            store.breaker.resolve(self.reader.as_ref()).await;
        }
        let held: Vec<_> = self.stores.all().flat_map(|store| std::mem::take(&mut store.held)).collect();
        for (work, outcome) in held {
            match self.stores.of(&work.item).is_some_and(|store| store.breaker.is_open()) {
                true => self.leave(work),
                false => self.record(work, outcome).await?,
            }
        }
        Ok(())
    }

    async fn record(&mut self, work: Work, outcome: Outcome<Q::Record>) -> Result<(), Ended<Q::Error>> {
        self.events.tell(attempt::event(&work.item, &outcome));
        self.queue.finished(work, outcome).await.map_err(Ended::Queue)
    }

    fn leave(&mut self, work: Work) {
        let Some(store) = self.stores.of(&work.item) else { return };
        store.left += 1;
        if let Some(failure) = store.breaker.last() {
            self.queue.left(work, &failure);
        }
    }
}

/// Waits until the breaker opens; forever if there is none.
async fn opened(breaker: Option<&Breaker>) {
    match breaker {
        Some(breaker) => breaker.opened().await,
        None => std::future::pending().await,
    }
}
