//! Reads files, many at once: those that a journal, or a listing, has to be read.

pub(crate) mod attempt;
pub(crate) mod breaker;
mod file;
mod journaled;

use std::{future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) use attempt::{Failure, ReadFile, Reading};
pub(crate) use breaker::Outage;
pub(crate) use file::{FileReader, Make};
pub(crate) use journaled::run_journal;

use crate::{
    event::Events,
    journal::{Outcome, Work},
};
use breaker::{Breaker, Breakers, blames_store};

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

    /// A file is left unread, since its store is not asked any more.
    fn left(&mut self, _work: Work, _failure: &Failure) {}
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

/// Reads all files of a ledger. Each is a task of the runtime. Files of stores that fail for file after file are left
/// unread.
///
/// # Errors
/// [`Ended`]; what is under way is dropped then.
pub(crate) async fn run<L: Ledger>(
    ledger: &mut L,
    read: Arc<dyn ReadFile<Content = L::Content>>,
    options: &EngineOptions,
    events: &Events,
) -> Result<Vec<Outage>, Ended<L::Error>> {
    let mut run = Run { ledger, read, options, events, tasks: JoinSet::new(), stores: Breakers::new() };
    let mut all_taken = false;
    loop {
        if all_taken && run.tasks.is_empty() {
            run.settle().await?;
            return Ok(run.stores.outages());
        }
        let under_way = options.files.max(1).saturating_sub(run.tasks.len());
        let room = if all_taken { 0 } else { under_way.min(run.ledger.room()) };
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
            taken = run.ledger.take(room), if room > 0 => {
                let taken = taken.map_err(Ended::Ledger)?;
                all_taken = taken.is_empty();
                for work in taken {
                    run.start(work);
                }
            }
        }
    }
}

/// A file, and how its reading ended: not at all where its store is not asked any more.
type Ending<C> = (Work, Option<Outcome<C>>);

/// Files that are being read.
struct Run<'a, L: Ledger> {
    ledger: &'a mut L,
    read: Arc<dyn ReadFile<Content = L::Content>>,
    options: &'a EngineOptions,
    events: &'a Events,
    tasks: JoinSet<Ending<L::Content>>,
    stores: Breakers<(Work, Outcome<L::Content>)>,
}

impl<L: Ledger> Run<'_, L> {
    fn start(&mut self, work: Work) {
        let breaker = self.stores.of(&work.item).map(|store| Arc::clone(&store.breaker));
        if breaker.as_ref().is_some_and(|breaker| breaker.is_open()) {
            return self.leave(work);
        }
        let (read, options, events) = (Arc::clone(&self.read), self.options.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let breaker = breaker.as_deref();
            let outcome = tokio::select! {
                biased;
                outcome = attempt::read(&work.item, read.as_ref(), breaker, &options, &events) => outcome,
                () = opened(breaker) => None,
            };
            (work, outcome)
        });
    }

    async fn ended(
        &mut self,
        work: Work,
        outcome: Option<Outcome<L::Content>>,
    ) -> Result<(), Ended<L::Error>> {
        let Some(outcome) = outcome else {
            self.leave(work);
            return Ok(());
        };
        let Some(store) = self.stores.of(&work.item) else { return self.keep(work, outcome).await };
        let may_be_the_store = matches!(&outcome, Outcome::Failed(failed) if blames_store(failed.class));
        if may_be_the_store && store.breaker.is_failing() {
            store.held.push((work, outcome));
            return Ok(());
        }
        // The store answers, so that it was the files that failed.
        let held = if store.breaker.is_failing() { Vec::new() } else { std::mem::take(&mut store.held) };
        for (work, outcome) in held {
            self.keep(work, outcome).await?;
        }
        self.keep(work, outcome).await
    }

    /// Files that failed last are left unread where their store is not asked any more, and have failed where it is.
    async fn settle(&mut self) -> Result<(), Ended<L::Error>> {
        let held: Vec<_> = self.stores.all().flat_map(|store| std::mem::take(&mut store.held)).collect();
        for (work, outcome) in held {
            match self.stores.of(&work.item).is_some_and(|store| store.breaker.is_open()) {
                true => self.leave(work),
                false => self.keep(work, outcome).await?,
            }
        }
        Ok(())
    }

    async fn keep(&mut self, work: Work, outcome: Outcome<L::Content>) -> Result<(), Ended<L::Error>> {
        self.events.tell(attempt::event(&work.item, &outcome));
        self.ledger.finished(work, outcome).await.map_err(Ended::Ledger)
    }

    fn leave(&mut self, work: Work) {
        let Some(store) = self.stores.of(&work.item) else { return };
        store.left += 1;
        if let Some(failure) = store.breaker.last() {
            self.ledger.left(work, &failure);
        }
    }
}

/// Waits until a store is not asked any more.
async fn opened(breaker: Option<&Breaker>) {
    match breaker {
        Some(breaker) => breaker.opened().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
