use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// What reading a file took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Requests to the store, or reads of a local file. Tries after a failure are not counted.
    pub requests: u64,
    /// How often requests were sent again after a failure.
    pub retries: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Seconds spent waiting for them; calls side by side add up.
    pub seconds: f64,
}

/// Words for people; tries after failures only where there are any.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, retries, bytes, seconds } = self;
        write!(f, "{requests} requests, {bytes} bytes, {seconds:.3} seconds")?;
        if *retries > 0 { write!(f, ", {retries} tries after failures") } else { Ok(()) }
    }
}

/// Counts while reading.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Meter {
    /// One request that brought so many bytes.
    pub(crate) fn request(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A request that is sent again.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Time spent since `start`.
    pub(crate) fn waited(&self, start: Instant) {
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            requests: self.requests.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            seconds: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64(),
        }
    }
}
