//! Tells a store that fails from files that fail, so that an outage costs few requests and no file: the circuit breaker of
//! a run, one for each bucket or host.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;
use virtualize::ErrorClass;

use super::{EngineOptions, Failure, attempt::wait};
use crate::Item;

/// Failed attempts in a row from which on a store is doubted.
const DOUBTED: u32 = 8;
/// The same where access is denied, and no file of the store was read yet: a folder may be private.
const DENIED: u32 = 64;

/// A bucket or host, and how the attempts to read its files end.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    /// Whoever has it asks a doubted store; the others wait.
    turn: tokio::sync::Mutex<()>,
    /// The store is not asked any more.
    open: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Failed attempts since the store last answered.
    failed: u32,
    /// Failed attempts in all, and as they were when the first of those was known.
    all_failed: u64,
    since: u64,
    /// The failure of the last of them.
    last: Option<Failure>,
    /// The file that was read last.
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

/// What a store is asked for to learn whether it answers.
pub(crate) trait Probe: Sync {
    /// Opens a file.
    fn probe<'a>(&'a self, item: &'a Item) -> futures::future::BoxFuture<'a, Result<(), Failure>>;
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt begins; what it gives tells [`Breaker::ended`] which failures came before.
    pub(crate) fn begin(&self) -> u64 {
        self.state().all_failed
    }

    /// An attempt ended; with the file where it was read. An answer to what was asked before the store began to fail does
    /// not say that it answers again.
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

    /// Whether attempts failed since the store last answered.
    pub(crate) fn is_failing(&self) -> bool {
        self.state().failed > 0
    }

    /// Whether the store is not asked any more.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_cancelled()
    }

    /// Waits until that is so.
    pub(crate) async fn opened(&self) {
        self.open.cancelled().await;
    }

    /// Why it is not.
    pub(crate) fn last(&self) -> Option<Failure> {
        self.state().last.clone()
    }

    /// The class of the failures of a store that is doubted.
    fn doubt(&self) -> Option<ErrorClass> {
        let state = self.state();
        let class = state.last.as_ref()?.class;
        let most = if class == ErrorClass::Denied && state.good.is_none() { DENIED } else { DOUBTED };
        (state.failed >= most).then_some(class)
    }

    /// Whether a file of the store may be asked for. A store that is doubted is asked first whether it still has the file
    /// that was read last, or this one, by one file at a time and after waits; then it may, or no file may any more.
    pub(crate) async fn may_ask(&self, item: &Item, probe: &dyn Probe, options: &EngineOptions) -> bool {
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
                tokio::time::sleep(wait(options.wait, attempt)).await;
            }
            let good = self.state().good.clone();
            let result = probe.probe(good.as_ref().unwrap_or(item)).await;
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
}

/// Whether a failure may be one of the store, and not of the file.
pub(crate) fn blames_store(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Unavailable | ErrorClass::Denied)
}

/// The stores of a run.
#[derive(Debug)]
pub(super) struct Breakers<W> {
    stores: BTreeMap<String, Store<W>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Store<W> {
    pub(super) breaker: Arc<Breaker>,
    /// Files that failed since the store last answered: it is not known yet whether they did.
    pub(super) held: Vec<W>,
    /// Files that are left unread.
    pub(super) left: u64,
}

/// A store that was not asked any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outage {
    /// Such as `s3://bucket`.
    pub(crate) store: String,
    /// How the last attempt failed.
    pub(crate) failure: Failure,
    /// Files of it that are left unread.
    pub(crate) left: u64,
}

impl<W> Breakers<W> {
    pub(super) fn new() -> Self {
        Self { stores: BTreeMap::new() }
    }

    /// The store of a file; local files are of none.
    pub(super) fn of(&mut self, item: &Item) -> Option<&mut Store<W>> {
        let name = store_name(&item.url)?;
        if !self.stores.contains_key(name) {
            let store = Store { breaker: Arc::default(), held: Vec::new(), left: 0 };
            self.stores.insert(name.to_owned(), store);
        }
        self.stores.get_mut(name)
    }

    /// All stores.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Store<W>> {
        self.stores.values_mut()
    }

    /// Those that were not asked any more.
    pub(super) fn outages(&self) -> Vec<Outage> {
        let one = |(name, store): (&String, &Store<W>)| {
            let failure = store.breaker.last().filter(|_| store.breaker.is_open())?;
            Some(Outage { store: name.clone(), failure, left: store.left })
        };
        self.stores.iter().filter_map(one).collect()
    }
}

/// Scheme, and bucket or host: `s3://bucket` of `s3://bucket/a/b.nc`.
fn store_name(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| *scheme != "file")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    url.get(..scheme.len() + "://".len() + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_earlier_questions_say_nothing() {
        let (breaker, item) = (Breaker::default(), Item::default());
        let denied = Failure { class: ErrorClass::Denied, error: "no".to_owned() };
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
