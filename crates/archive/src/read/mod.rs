//! Reads the files of a journal concurrently.

#[cfg(test)]
mod tests;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use virtualize::{
    Code, ErrorClass, Notation, Object, OptionName, Options, Relocation, Remedy, VirtualStore,
    zarr::{Hierarchy, NodePath},
};
use virtualize_store::Listed;

use crate::{
    CombineError, Error, Event, Item, Layout, Member, Result,
    compat::wanted,
    event::Events,
    journal::{Done, Failure, Journal, Outcome, Record, Work, class_name},
    layout::given,
};

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

/// Reads single files.
pub(crate) trait ReadFile: Send + Sync {
    /// Reads a file once. With `fresh`, ignores the size and entity tag of the listing.
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Done, Failure>>;

    /// Opens a file to learn whether its store answers.
    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>>;
}

/// Turns an open file into the run's record.
pub(crate) type Process = dyn for<'a> Fn(&'a Item, &'a mut VirtualStore, &'a Options) -> BoxFuture<'a, Result<Record, Failure>>
    + Send
    + Sync;

/// Reads files from their stores.
pub(crate) struct FileReader {
    options: Options,
    relocation: Relocation,
    process: Box<Process>,
}

impl FileReader {
    /// Creates a reader that opens and maps files with `options`; `process` turns each into its record. `relocation` is
    /// how the URLs of sources will be written.
    pub(crate) fn new(options: Options, relocation: &Relocation, process: Box<Process>) -> Self {
        Self { options, relocation: relocation.clone(), process }
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

impl ReadFile for FileReader {
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Done, Failure>> {
        Box::pin(async move {
            let mut options = self.options.for_file();
            let declared = item.declared_bands();
            options.declared_bands =
                declared.map_err(|error| Failure::of_layout(&error, options.notation))?;
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
            let related = store.related().clone();
            Ok(Done {
                opened,
                replaced,
                attempts,
                seconds,
                requests,
                retries,
                bytes,
                warnings,
                related,
                record,
            })
        })
    }

    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.open(item, true).await.map(drop) })
    }
}

/// Reads what the records of a file depend on.
pub(crate) async fn read_member(
    item: &Item,
    store: &VirtualStore,
    hierarchy: Hierarchy,
    layout: &Layout,
    options: &Options,
) -> Result<Member, Failure> {
    let read = wanted(&hierarchy, layout).read(store, &options.store).await;
    let (values, digests, grids) = read.map_err(|error| Failure::new(error, options.notation))?;
    let given = given(item, &hierarchy, layout);
    let given = given.map_err(|error| Failure::of_layout(&error, options.notation))?;
    let omitted = omitted(store, &hierarchy, layout);
    Ok(Member { item: item.clone(), hierarchy, values, digests, grids, given, omitted })
}

/// Returns the arrays and groups that a file has, but not its hierarchy: a warning names each of them.
fn omitted(store: &VirtualStore, hierarchy: &Hierarchy, layout: &Layout) -> BTreeSet<NodePath> {
    let named = store.warnings().map(|warning| warning.path.trim_start_matches('/'));
    let is_omitted = |path: &&str| {
        !path.is_empty() && hierarchy.node(path).is_none() && !Layout::has(&layout.dropped, path)
    };
    named.filter(is_omitted).map(str::to_owned).collect()
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

/// Reads all pending files of a journal, each in its own task, and records the outcomes there, failures included. With
/// `until_one`, ends once a file was read. Files of a store whose breaker opens stay pending; such stores are returned.
///
/// # Errors
/// [`Error::Stopped`], [`Error::Journal`]; files in progress are then dropped.
pub(crate) async fn read_journal(
    journal: &mut Journal,
    reader: Arc<dyn ReadFile>,
    options: &ReadOptions,
    events: &Events,
    until_one: bool,
) -> Result<Vec<Outage>> {
    // Losing the last few records is acceptable: their files are read again, and outputs are synced before they are
    // recorded.
    journal.set_durable(false)?;
    let pending = journal.pending()?.into();
    let mut run = Run {
        journal,
        reader,
        options,
        events,
        until_one,
        is_enough: false,
        pending,
        ready: VecDeque::new(),
        ended: Vec::new(),
        tasks: JoinSet::new(),
        stores: BTreeMap::new(),
    };
    let result = run.all().await;
    run.journal.set_durable(true)?;
    result
}

/// A file and its outcome; `None` if the breaker of its store is open.
type Ending = (Work, Option<Outcome>);

/// Number of files that are taken from the journal at once.
const AHEAD: usize = 1024;

/// The state of [`read_journal`].
struct Run<'a> {
    journal: &'a mut Journal,
    reader: Arc<dyn ReadFile>,
    options: &'a ReadOptions,
    events: &'a Events,
    until_one: bool,
    /// Whether no more files are started.
    is_enough: bool,
    /// Rows of files that are still in the journal.
    pending: VecDeque<i64>,
    /// Files that are next.
    ready: VecDeque<Work>,
    /// Outcomes that are not in the journal yet.
    ended: Vec<(Work, Outcome)>,
    tasks: JoinSet<Ending>,
    /// The stores of the files, by name.
    stores: BTreeMap<String, Store>,
}

impl Run<'_> {
    async fn all(&mut self) -> Result<Vec<Outage>> {
        loop {
            self.start_more()?;
            // All files that ended meanwhile are recorded in one transaction.
            if !self.ended.is_empty() {
                self.journal.finish(std::mem::take(&mut self.ended))?;
            }
            if self.options.cancel.is_cancelled() {
                self.tasks.shutdown().await;
                let counts = self.journal.counts()?;
                return Err(Error::Stopped { done: counts.done + counts.failed, files: counts.all() });
            }
            if self.tasks.is_empty() {
                self.resolve_held().await;
                self.journal.finish(std::mem::take(&mut self.ended))?;
                let outage = |(name, store): (&String, &Store)| {
                    let failure = store.breaker.last().filter(|_| store.breaker.is_open())?;
                    Some(Outage { store: name.clone(), failure, left: store.left })
                };
                return Ok(self.stores.iter().filter_map(outage).collect());
            }
            tokio::select! {
                () = self.options.cancel.cancelled() => {}
                Some(joined) = self.tasks.join_next() => self.end(joined)?,
            }
            while let Some(joined) = self.tasks.try_join_next() {
                self.end(joined)?;
            }
        }
    }

    /// Starts as many files as may be in progress.
    fn start_more(&mut self) -> Result<()> {
        while self.tasks.len() < self.options.files.max(1) && !self.is_enough {
            if self.ready.is_empty() {
                let rows = self.pending.drain(..AHEAD.min(self.pending.len()));
                self.ready.extend(self.journal.works(rows)?);
            }
            let Some(work) = self.ready.pop_front() else { return Ok(()) };
            self.start(work);
        }
        Ok(())
    }

    fn start(&mut self, work: Work) {
        let breaker = self.store(&work.item).map(|store| Arc::clone(&store.breaker));
        if breaker.as_ref().is_some_and(|breaker| breaker.is_open()) {
            return self.leave(&work);
        }
        let (reader, options, events) = (Arc::clone(&self.reader), self.options.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let breaker = breaker.as_deref();
            let opened = async {
                match breaker {
                    Some(breaker) => breaker.open.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                biased;
                outcome = attempt(&work.item, reader.as_ref(), breaker, &options, &events) => outcome,
                () = opened => None,
            };
            (work, outcome)
        });
    }

    fn end(&mut self, joined: Result<Ending, JoinError>) -> Result<()> {
        let (work, outcome) = joined.map_err(Error::internal)?;
        let Some(outcome) = outcome else {
            self.leave(&work);
            return Ok(());
        };
        let mut held = Vec::new();
        if let Some(store) = self.store(&work.item) {
            let may_be_the_store = matches!(&outcome, Err(failed) if blames_store(failed.class));
            if may_be_the_store && store.breaker.is_failing() {
                store.held.push((work, outcome));
                return Ok(());
            }
            if !store.breaker.is_failing() {
                // The store answers, so the files themselves were at fault.
                held.append(&mut store.held);
            }
        }
        held.into_iter().chain([(work, outcome)]).for_each(|(work, outcome)| self.record(work, outcome));
        Ok(())
    }

    /// Decides the outcome of the files that failed last: they stay pending if the breaker of their store is open, or else
    /// failed.
    async fn resolve_held(&mut self) {
        for store in self.stores.values().filter(|store| !store.held.is_empty()) {
            store.breaker.resolve(self.reader.as_ref()).await;
        }
        let held = self.stores.values_mut().flat_map(|store| std::mem::take(&mut store.held));
        let held: Vec<_> = held.collect();
        for (work, outcome) in held {
            if self.store(&work.item).is_some_and(|store| store.breaker.is_open()) {
                self.leave(&work);
            } else {
                self.record(work, outcome);
            }
        }
    }

    fn record(&mut self, work: Work, outcome: Outcome) {
        self.events.tell(event(&work.item, &outcome));
        self.is_enough |= self.until_one && outcome.is_ok();
        self.ended.push((work, outcome));
    }

    fn leave(&mut self, work: &Work) {
        if let Some(store) = self.store(&work.item) {
            store.left += 1;
        }
    }

    /// Returns the store of a file; local files have none.
    fn store(&mut self, item: &Item) -> Option<&mut Store> {
        let name = store_name(&item.url)?;
        if !self.stores.contains_key(name) {
            self.stores.insert(name.to_owned(), Store::default());
        }
        self.stores.get_mut(name)
    }
}

/// Reads a file, retrying failures that may be temporary. Returns `None` if the breaker of its store is open. A panic
/// of the reader counts as a failure of the file.
async fn attempt(
    item: &Item,
    reader: &dyn ReadFile,
    breaker: Option<&Breaker>,
    options: &ReadOptions,
    events: &Events,
) -> Option<Outcome> {
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
fn event(item: &Item, outcome: &Outcome) -> Event {
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

/// Number of failed attempts in a row after which a store is doubted.
const DOUBTED: u32 = 8;
/// The same if access is denied and no file of the store was read yet: a folder may be private.
const DENIED: u32 = 64;

/// The recent attempts to read files of one bucket or host.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    /// Held by the one task that probes a doubted store; the others wait for it.
    turn: tokio::sync::Mutex<()>,
    /// Cancelled once the breaker is open.
    open: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Number of failed attempts since the store last answered.
    failed: u32,
    /// Number of failed attempts in the whole run.
    all_failed: u64,
    /// [`State::all_failed`] at the first failure since the store last answered.
    since: u64,
    /// The latest failure.
    last: Option<Failure>,
    /// The file that was read latest.
    good: Option<Item>,
}

impl State {
    fn fail(&mut self, failure: &Failure) {
        self.all_failed += 1;
        if self.failed == 0 {
            self.since = self.all_failed;
        }
        self.failed = self.failed.saturating_add(1);
        self.last = Some(failure.clone());
    }
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an attempt begins. Pass the returned number of earlier failures to [`Breaker::ended`].
    pub(crate) fn begin(&self) -> u64 {
        self.state().all_failed
    }

    /// Records how an attempt ended. The success of an attempt that began before the store started to fail does not
    /// show that the store answers again.
    pub(crate) fn ended(&self, begun: u64, result: Result<&Item, &Failure>) {
        let mut state = self.state();
        match result {
            Err(failure) if blames_store(failure.class) => state.fail(failure),
            other => {
                if begun >= state.since {
                    state.failed = 0;
                }
                state.good = other.ok().cloned().or_else(|| state.good.take());
            }
        }
    }

    /// Returns whether attempts failed since the store last answered.
    pub(crate) fn is_failing(&self) -> bool {
        self.state().failed > 0
    }

    /// Returns whether the breaker is open, so that the store gets no further requests.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_cancelled()
    }

    /// Returns the latest failure.
    pub(crate) fn last(&self) -> Option<Failure> {
        self.state().last.clone()
    }

    /// Returns the class of the latest failure if the store is doubted.
    fn doubt(&self) -> Option<ErrorClass> {
        let state = self.state();
        let class = state.last.as_ref()?.class;
        let most = if class == ErrorClass::Denied && state.good.is_none() { DENIED } else { DOUBTED };
        (state.failed >= most).then_some(class)
    }

    /// Returns whether a file may be requested from the store. A doubted store is probed first, after waits and by one
    /// task at a time, for the file that was read latest (for `item` if none was). If no probe succeeds, the breaker
    /// opens.
    pub(crate) async fn may_ask(&self, item: &Item, reader: &dyn ReadFile, options: &ReadOptions) -> bool {
        if self.doubt().is_none() {
            return !self.is_open();
        }
        let _turn = self.turn.lock().await;
        for attempt in 1..=options.attempts {
            let Some(class) = self.doubt() else { return !self.is_open() };
            if self.is_open() {
                return false;
            }
            if class != ErrorClass::Denied {
                tokio::time::sleep(options.wait_after(attempt)).await;
            }
            let good = self.state().good.clone();
            let result = reader.probe(good.as_ref().unwrap_or(item)).await;
            match &result {
                Err(failure) if blames_store(failure.class) => self.state().fail(failure),
                _ => {
                    self.state().failed = 0;
                    return true;
                }
            }
            if class == ErrorClass::Denied {
                break;
            }
        }
        self.open.cancel();
        false
    }

    /// Opens the breaker, after the last file, if the store fails for the file that was read latest, too.
    pub(crate) async fn resolve(&self, reader: &dyn ReadFile) {
        if !self.is_failing() || self.is_open() {
            return;
        }
        let good = self.state().good.clone();
        let Some(good) = good else { return };
        if let Err(failure) = reader.probe(&good).await
            && blames_store(failure.class)
        {
            self.state().fail(&failure);
            self.open.cancel();
        }
    }
}

/// Returns whether a failure of this class may be due to the store and not to the file.
pub(crate) fn blames_store(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Unavailable | ErrorClass::Denied)
}

/// A store, and its files whose outcome is still open.
#[derive(Debug, Default)]
struct Store {
    breaker: Arc<Breaker>,
    /// Files that failed since the store last answered: whether the file or the store is at fault is not known yet.
    held: Vec<(Work, Outcome)>,
    /// Number of files left unread.
    left: u64,
}

/// A store whose breaker is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outage {
    /// Name of the store, such as `s3://bucket`.
    pub(crate) store: String,
    /// The latest failure.
    pub(crate) failure: Failure,
    /// Number of its files left unread.
    pub(crate) left: u64,
}

/// Returns the scheme with the bucket or host: `s3://bucket` for `s3://bucket/a/b.nc`.
fn store_name(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| *scheme != "file")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    url.get(..scheme.len() + "://".len() + end)
}

#[cfg(test)]
mod breaker_tests {
    use super::*;

    #[test]
    fn answers_to_earlier_questions_say_nothing() {
        let (breaker, item) = (Breaker::default(), Item::default());
        let denied = Failure { attempts: 1, class: ErrorClass::Denied, error: "no".to_owned() };
        let before = breaker.begin();
        breaker.ended(breaker.begin(), Err(&denied));
        breaker.ended(before, Ok(&item));
        assert!(breaker.is_failing());
        breaker.ended(breaker.begin(), Ok(&item));
        assert!(!breaker.is_failing());
    }

    #[test]
    fn names_of_stores() {
        assert_eq!(store_name("s3://b/a/b.nc"), Some("s3://b"));
        assert_eq!(store_name("https://h:80/a?x=/y"), Some("https://h:80"));
        assert_eq!(store_name("/a/b.nc"), None);
        assert_eq!(store_name("file:///a/b.nc"), None);
    }
}
