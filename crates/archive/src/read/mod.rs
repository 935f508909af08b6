//! Reads the files of a journal or a listing concurrently.

mod breaker;
mod journal;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use virtualize::{Code, ErrorClass, Notation, Object, OptionName, Options, Relocation, Remedy, VirtualStore};
use virtualize_store::Listed;

pub(crate) use breaker::Outage;
pub(crate) use journal::read_journal;

use crate::{
    CombineError, Event, Item,
    event::Events,
    journal::{Done, Failure, Outcome, Work, class_name},
};
use breaker::{Breaker, Breakers, blames_store};

/// Maximum wait between two attempts, before jitter.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Limits of concurrency and retries.
#[derive(Clone, Debug)]
pub(crate) struct ReadOptions {
    /// Maximum number of files read at once.
    pub(crate) files: usize,
    /// Maximum number of attempts for a file, including the first.
    pub(crate) attempts: u32,
    /// Average wait before the second attempt; it doubles before each further one.
    pub(crate) wait: Duration,
    /// Stops the run: pending files are not started, and those in progress are dropped.
    pub(crate) cancel: CancellationToken,
}

impl ReadOptions {
    /// Returns the wait after an attempt (counted from 1): 0.5 to 1.5 times the nominal wait, so that files that failed
    /// together are not all retried at the same time.
    fn wait_after(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.wait.saturating_mul(factor).min(MAX_WAIT).mul_f64(0.5 + fastrand::f64())
    }
}

/// Reads single files; `R` is the run's record of a file.
pub(crate) trait ReadFile<R>: Send + Sync {
    /// Reads a file once. With `fresh`, ignores the size and entity tag of the listing.
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Done<R>, Failure>>;

    /// Opens a file to learn whether its store answers.
    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>>;
}

/// Turns an open file into the run's record.
type Process<R> = dyn for<'a> Fn(&'a Item, &'a mut VirtualStore, &'a Options) -> BoxFuture<'a, Result<R, Failure>>
    + Send
    + Sync;

/// Reads files from their stores.
pub(crate) struct FileReader<R> {
    options: Options,
    relocation: Relocation,
    process: Box<Process<R>>,
}

impl<R> FileReader<R> {
    /// Creates a reader that opens and maps files with `options`; `process` turns each into its record. `relocation` is
    /// how the URLs of sources will be written.
    pub(crate) fn new(
        options: Options,
        relocation: &Relocation,
        process: impl for<'a> Fn(&'a Item, &'a mut VirtualStore, &'a Options) -> BoxFuture<'a, Result<R, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { options, relocation: relocation.clone(), process: Box::new(process) }
    }

    async fn read_file(&self, item: &Item, fresh: bool) -> Result<Done<R>, Failure> {
        let mut options = self.options.for_file();
        let declared = item.declared_bands();
        options.declared_bands = declared.map_err(|error| Failure::of_layout(&error, options.notation))?;
        let object = self.open(item, fresh).await?;
        let store = virtualize::open_object(Arc::clone(&object), &options).await;
        let mut store = store.map_err(|error| self.failure(error))?;
        store.check_ranges(&self.relocation).map_err(|error| self.failure(error))?;
        let mut sources = store.hierarchy.sources.iter();
        let opened = Item {
            size: sources.find(|source| source.url == object.url()).map(|source| source.size),
            etag: object.etag().map(str::to_owned),
            modified: object.modified(),
            ..item.clone()
        };
        let record = (self.process)(item, &mut store, &options).await?;
        object.verify().map_err(|error| self.failure(error))?;
        let stats = object.stats();
        let warnings = store.warnings().map(|warning| warning.render(self.options.notation)).collect();
        let (requests, retries) = (stats.requests, stats.retries.all());
        let (replaced, attempts, seconds, bytes) = (fresh, 1, 0.0, stats.bytes);
        Ok(Done { opened, replaced, attempts, seconds, requests, retries, bytes, warnings, record })
    }

    /// Opens the listed version of the file or, if `fresh`, the current one.
    async fn open(&self, item: &Item, fresh: bool) -> Result<Arc<Object>, Failure> {
        let mut listed = Listed::of(&item.url);
        if !fresh {
            let Item { size, etag, modified, .. } = item.clone();
            listed = Listed { size, etag, modified, ..listed };
        }
        let object = virtualize_store::open_listed(&listed, &self.options.store).await;
        object.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: impl Into<virtualize::Error>) -> Failure {
        Failure::new(error, self.options.notation)
    }
}

impl<R: Send + 'static> ReadFile<R> for FileReader<R> {
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Done<R>, Failure>> {
        Box::pin(self.read_file(item, fresh))
    }

    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.open(item, true).await.map(drop) })
    }
}

impl Failure {
    /// Renders an error of the library with the remedy in the caller's notation.
    pub(crate) fn new(error: impl Into<virtualize::Error>, notation: Notation) -> Self {
        let error = error.into();
        let text = match &error {
            virtualize::Error::Values { path, .. } => {
                let remedy =
                    Remedy::set(OptionName::Var, format!("{path}=first"), "take the first file's values");
                notation.line(&error, Some(&remedy), error.code())
            }
            _ => error.render(notation),
        };
        Self { attempts: 1, class: error.class(), error: text.replace('\n', " ") }
    }

    /// Returns the failure of a file that does not fit the layout.
    pub(crate) fn of_layout(error: &CombineError, notation: Notation) -> Self {
        Self::of_file(notation.line(error, error.remedy().as_ref(), Code::Combine))
    }

    /// Returns a failure that is due to the file.
    pub(crate) fn of_file(error: impl Into<String>) -> Self {
        Self { attempts: 1, class: ErrorClass::File, error: error.into().replace('\n', " ") }
    }
}

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
                outcome = attempt(&work.item, reader.as_ref(), breaker, &options, &events) => outcome,
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
        let may_be_the_store = matches!(&outcome, Err(failed) if blames_store(failed.class));
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
            if self.stores.of(&work.item).is_some_and(|store| store.breaker.is_open()) {
                self.leave(work)
            } else {
                self.record(work, outcome).await?
            }
        }
        Ok(())
    }

    async fn record(&mut self, work: Work, outcome: Outcome<Q::Record>) -> Result<(), Ended<Q::Error>> {
        self.events.tell(event(&work.item, &outcome));
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

/// Reads a file, retrying failures that may be temporary. Returns `None` if the breaker of its store is open. A panic
/// of the reader counts as a failure of the file.
pub(crate) async fn attempt<R: Send + 'static>(
    item: &Item,
    reader: &dyn ReadFile<R>,
    breaker: Option<&Breaker>,
    options: &ReadOptions,
    events: &Events,
) -> Option<Outcome<R>> {
    let mut started = false;
    let start = Instant::now();
    let (mut attempt, mut fresh) = (1, false);
    loop {
        if let Some(breaker) = breaker
            && !breaker.may_ask(item, reader, options).await
        {
            return None;
        }
        if !std::mem::replace(&mut started, true) {
            events.tell(Event::Started { url: item.url.clone() });
        }
        let begun = breaker.map_or(0, Breaker::begin);
        let result = AssertUnwindSafe(reader.read(item, fresh)).catch_unwind().await;
        let result = result.unwrap_or_else(|panic| Err(panicked(item, panic.as_ref())));
        if let Some(breaker) = breaker {
            breaker.ended(begun, result.as_ref().map(|_| item));
        }
        let failure = match result {
            Ok(done) => {
                let seconds = start.elapsed().as_secs_f64();
                return Some(Ok(Box::new(Done { replaced: fresh, attempts: attempt, seconds, ..done })));
            }
            Err(failure) => failure,
        };
        fresh |= failure.class == ErrorClass::Changed;
        let may_pass = matches!(failure.class, ErrorClass::Unavailable | ErrorClass::Changed);
        if !may_pass || attempt >= options.attempts {
            return Some(Err(Failure { attempts: attempt, ..failure }));
        }
        let wait = options.wait_after(attempt);
        let (url, error) = (item.url.clone(), failure.error);
        events.tell(Event::Retried { url, attempt, error, wait: wait.as_secs_f64() });
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

fn panicked(item: &Item, panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let error =
        format!("{}: the reader panicked: {} [{}]", item.url, text.replace('\n', " "), Code::Internal);
    Failure { attempts: 1, class: ErrorClass::File, error }
}

/// Returns the event that reports how reading a file ended.
pub(crate) fn event<R>(item: &Item, outcome: &Outcome<R>) -> Event {
    let url = item.url.clone();
    match outcome {
        Ok(done) => Event::Read {
            url,
            seconds: done.seconds,
            requests: done.requests,
            retries: done.retries,
            bytes: done.bytes,
            warnings: done.warnings.clone(),
        },
        Err(failed) => Event::Failed {
            url,
            attempts: failed.attempts,
            class: class_name(failed.class).to_owned(),
            error: failed.error.clone(),
        },
    }
}
