//! Joins concurrent reads of a remote file. Reads that start at the same time, such as those of several structures of
//! one level, share a wave of requests, so that their ranges merge.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use virtualize_bytes::ByteRange;

use crate::{
    StoreError,
    pages::{self, Pages},
};

/// The pages of a wave that were wanted.
pub(crate) type Fetched = Result<Arc<Pages>, StoreError>;

/// A wave in progress. Each of its callers polls it; it is cancelled when the last of them is.
pub(crate) type Fetch = Shared<BoxFuture<'static, Fetched>>;

/// Pages to fetch in one wave.
#[derive(Default)]
pub(crate) struct Wave {
    /// Those that callers wait for.
    pub(crate) wanted: BTreeSet<u64>,
    /// Those that will be read soon.
    pub(crate) expected: BTreeSet<u64>,
    /// Those that may be read soon.
    pub(crate) possible: BTreeSet<u64>,
}

/// The next wave of requests of a file.
#[derive(Default)]
pub(crate) struct Waves(Mutex<Next>);

#[derive(Default)]
struct Next {
    wave: Wave,
    fetch: Option<WeakShared<BoxFuture<'static, Fetched>>>,
}

impl fmt::Debug for Waves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waves")
    }
}

impl Waves {
    fn next(&self) -> MutexGuard<'_, Next> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds ranges within the file that will almost certainly be read, up to this many pages.
    pub(crate) fn expect(&self, ranges: impl Iterator<Item = ByteRange>, most: usize) {
        add(&mut self.next().wave.expected, ranges, most);
    }

    /// Adds ranges within the file that may be read, up to this many pages.
    pub(crate) fn suggest(&self, ranges: impl Iterator<Item = ByteRange>, most: usize) {
        add(&mut self.next().wave.possible, ranges, most);
    }

    /// Joins the next wave. The first caller makes it: `fetch` takes the pages of all callers with [`Waves::take`].
    pub(crate) fn join<F>(&self, wanted: BTreeSet<u64>, fetch: impl FnOnce() -> F) -> Fetch
    where
        F: Future<Output = Fetched> + Send + 'static,
    {
        let mut next = self.next();
        if let Some(fetch) = next.fetch.as_ref().and_then(WeakShared::upgrade) {
            next.wave.wanted.extend(wanted);
            return fetch;
        }
        let fetch = fetch().boxed().shared();
        next.wave.wanted = wanted;
        next.fetch = fetch.downgrade();
        fetch
    }

    /// Waits until all reads that start now have joined, and returns the pages of the wave. Later reads join another one.
    pub(crate) async fn take(&self) -> Wave {
        pause().await;
        std::mem::take(&mut *self.next()).wave
    }
}

/// Adds the pages of ranges, until there are this many.
fn add(pages: &mut BTreeSet<u64>, ranges: impl Iterator<Item = ByteRange>, most: usize) {
    for page in ranges.flat_map(pages::of_range) {
        if pages.len() >= most {
            return;
        }
        pages.insert(page);
    }
}

/// Yields once, so that a task that reads local files, which never waits otherwise, can be cancelled, and so that
/// concurrent reads of a remote file join.
pub(crate) async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| match std::mem::replace(&mut paused, true) {
        true => std::task::Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
}
