//! How many requests a client may send: a bucket of permits for each, filled at a steady rate.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Most clients that are remembered; past it those that have rested are forgotten.
const CLIENTS: usize = 100_000;

/// Buckets by the names of clients.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Permits a second.
    rate: f64,
    /// Permits that a bucket holds.
    burst: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    permits: f64,
    filled: Instant,
}

impl Rate {
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        Self { rate: f64::from(rate), burst: f64::from(burst), buckets: Mutex::default() }
    }

    /// Takes a permit, or says how long to wait for one.
    pub(crate) fn take(&self, client: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CLIENTS {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
            if buckets.len() >= CLIENTS {
                buckets.clear();
            }
        }
        let full = Bucket { permits: self.burst, filled: now };
        let bucket = buckets.entry(client.to_owned()).or_insert(full);
        let permits = self.filled(bucket, now);
        let (left, taken) =
            if permits >= 1.0 { (permits - 1.0, Ok(())) } else { (permits, Err(self.wait(permits))) };
        *bucket = Bucket { permits: left, filled: now };
        taken
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.filled).as_secs_f64();
        seconds.mul_add(self.rate, bucket.permits).min(self.burst)
    }

    fn wait(&self, permits: f64) -> Duration {
        Duration::from_secs_f64(((1.0 - permits) / self.rate).clamp(0.0, 3600.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_when_its_bucket_is_empty() {
        let (rate, start) = (Rate::new(2, 3), Instant::now());
        for _ in 0..3 {
            assert_eq!(rate.take("a", start), Ok(()));
        }
        assert_eq!(rate.take("a", start), Err(Duration::from_millis(500)));
        assert_eq!(rate.take("b", start), Ok(()));
        assert_eq!(rate.take("a", start + Duration::from_millis(500)), Ok(()));
        assert!(rate.take("a", start + Duration::from_millis(600)).is_err());
    }
}
