use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::StoreOptions;

/// Requests, bytes and time spent on reading files.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Stats {
    /// Number of requests to the store, or of reads of a local file, without retries.
    pub requests: u64,
    /// Number of those that listed objects.
    pub listings: u64,
    /// Number of levels of remote files: sets of requests that were sent together. Each takes at least one round trip.
    pub levels: u64,
    /// Retries after failures.
    pub retries: Retries,
    /// Bytes received.
    pub bytes: u64,
    /// Seconds spent waiting for the bytes; concurrent calls add up.
    pub seconds: f64,
}

/// Requests that were sent again because the store failed, by reason.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Retries {
    /// After the statuses 429 and 503, by which stores ask for fewer requests.
    pub throttled: u64,
    /// After other statuses of the server from 500 on.
    pub server: u64,
    /// After connections that failed or broke.
    pub connection: u64,
    /// After requests that took too long, including status 408.
    pub timeout: u64,
    /// Seconds spent waiting before retries; concurrent waits add up.
    pub seconds: f64,
}

/// Reason for a retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetryReason {
    Throttled,
    Server,
    Connection,
    Timeout,
}

/// Counts the requests of all files that are opened with the same [`StoreOptions`] or clones of them.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<Mutex<Stats>>);

impl Traffic {
    /// Returns the present counts.
    pub fn stats(&self) -> Stats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stats {
    /// Returns the difference from earlier counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (&self.retries, &earlier.retries);
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            listings: self.listings.saturating_sub(earlier.listings),
            levels: self.levels.saturating_sub(earlier.levels),
            retries: Retries {
                throttled: now.throttled.saturating_sub(then.throttled),
                server: now.server.saturating_sub(then.server),
                connection: now.connection.saturating_sub(then.connection),
                timeout: now.timeout.saturating_sub(then.timeout),
                seconds: (now.seconds - then.seconds).max(0.0),
            },
            bytes: self.bytes.saturating_sub(earlier.bytes),
            seconds: (self.seconds - earlier.seconds).max(0.0),
        }
    }
}

impl Retries {
    /// Returns the number of retries.
    pub fn all(&self) -> u64 {
        self.by_reason().map(|(_, count)| count).iter().sum()
    }

    /// Returns the number of retries for each reason, by the reason's name.
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        [
            ("throttled", self.throttled),
            ("server", self.server),
            ("connection", self.connection),
            ("timeout", self.timeout),
        ]
    }
}

/// Formats the counts for messages; omits levels and retries if there were none.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, levels, retries, bytes, seconds, .. } = self;
        write!(f, "{requests} requests, ")?;
        if *levels > 0 {
            write!(f, "{levels} levels, ")?;
        }
        write!(f, "{bytes} bytes, {seconds:.3} seconds")?;
        if retries.all() > 0 { write!(f, ", {retries}") } else { Ok(()) }
    }
}

/// Formats the counts for messages: `3 retries (2 throttled, 1 timeout) after 0.4 seconds of waiting`.
impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        write!(f, "{all} {}", if all == 1 { "retry" } else { "retries" })?;
        let counts = self.by_reason().into_iter().filter(|(_, count)| *count > 0);
        let counts: Vec<_> = counts.map(|(reason, count)| format!("{count} {reason}")).collect();
        if counts.is_empty() {
            return Ok(());
        }
        write!(f, " ({}) after {:.1} seconds of waiting", counts.join(", "), self.seconds)
    }
}

/// Counters that are updated during reads: those of one file, and those of all files.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    own: Traffic,
    whole: Traffic,
}

impl Meter {
    /// Returns a meter that also counts for all files with these options.
    pub(crate) fn new(options: &StoreOptions) -> Self {
        Self { own: Traffic::default(), whole: options.traffic.clone() }
    }

    fn count(&self, count: impl Fn(&mut Stats)) {
        for Traffic(stats) in [&self.own, &self.whole] {
            count(&mut stats.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Counts a request that received this many bytes.
    pub(crate) fn request(&self, bytes: u64) {
        self.count(|stats| {
            stats.requests += 1;
            stats.bytes += bytes;
        });
    }

    /// Counts a request that listed objects.
    pub(crate) fn listing(&self) {
        self.request(0);
        self.count(|stats| stats.listings += 1);
    }

    /// Counts a set of requests that are sent together.
    pub(crate) fn level(&self) {
        self.count(|stats| stats.levels += 1);
    }

    /// Counts a retry, and the wait before it.
    pub(crate) fn retried(&self, reason: RetryReason, wait: Duration) {
        self.count(|Stats { retries, .. }| {
            *match reason {
                RetryReason::Throttled => &mut retries.throttled,
                RetryReason::Server => &mut retries.server,
                RetryReason::Connection => &mut retries.connection,
                RetryReason::Timeout => &mut retries.timeout,
            } += 1;
            retries.seconds += wait.as_secs_f64();
        });
    }

    /// Adds the time elapsed since `start`.
    pub(crate) fn waited(&self, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        self.count(|stats| stats.seconds += seconds);
    }

    /// Returns the present counts of the file.
    pub(crate) fn stats(&self) -> Stats {
        self.own.stats()
    }
}
