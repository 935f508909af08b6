//! The circuit breaker of a run, one for each bucket or host: it distinguishes a store that fails from files that fail,
//! so that an outage costs few requests and no file.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;
use virtualize::ErrorClass;

use super::{ReadFile, ReadOptions};
use crate::{
    Item,
    journal::{Failure, Outcome, Work},
};

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

    /// Waits until the breaker opens.
    pub(crate) async fn opened(&self) {
        self.open.cancelled().await;
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

/// The stores of a run.
#[derive(Debug, Default)]
pub(super) struct Breakers(BTreeMap<String, Store>);

/// A store, and its files whose outcome is still open.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) breaker: Arc<Breaker>,
    /// Files that failed since the store last answered: whether the file or the store is at fault is not known yet.
    pub(super) held: Vec<(Work, Outcome)>,
    /// Number of files left unread.
    pub(super) left: u64,
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

impl Breakers {
    /// Returns the store of a file; local files have none.
    pub(super) fn of(&mut self, item: &Item) -> Option<&mut Store> {
        let name = store_name(&item.url)?;
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Store::default());
        }
        self.0.get_mut(name)
    }

    /// Iterates over all stores.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Store> {
        self.0.values_mut()
    }

    /// Returns the stores whose breaker is open.
    pub(super) fn outages(&self) -> Vec<Outage> {
        let one = |(name, store): (&String, &Store)| {
            let failure = store.breaker.last().filter(|_| store.breaker.is_open())?;
            Some(Outage { store: name.clone(), failure, left: store.left })
        };
        self.0.iter().filter_map(one).collect()
    }
}

/// Returns the scheme with the bucket or host: `s3://bucket` for `s3://bucket/a/b.nc`.
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
