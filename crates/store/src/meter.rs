use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Requests, bytes and time spent on reading a file.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Number of requests to the store, or of reads of a local file, without retries.
    pub requests: u64,
    /// Number of retries after failures.
    pub retries: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Seconds spent waiting for the bytes; concurrent calls add up.
    pub seconds: f64,
}

/// Formats the counts for messages; omits retries if there were none.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, retries, bytes, seconds } = self;
        write!(f, "{requests} requests, {bytes} bytes, {seconds:.3} seconds")?;
        if *retries > 0 { write!(f, ", {retries} tries after failures") } else { Ok(()) }
    }
}

/// Counters that are updated during reads.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Meter {
    /// Counts a request that received this many bytes.
    pub(crate) fn request(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a retry.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the time elapsed since `start`.
    pub(crate) fn waited(&self, start: Instant) {
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Returns the present counts.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            requests: self.requests.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            seconds: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64(),
        }
    }
}
