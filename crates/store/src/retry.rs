use std::time::{Duration, Instant};

use crate::{StoreError, StoreOptions, clients::Seen, meter::Meter};

/// Delay before the first retry.
const FIRST: Duration = Duration::from_millis(100);
/// Maximum delay between retries.
const LONGEST: Duration = Duration::from_secs(5);

/// How an attempt failed.
#[derive(Debug)]
pub(crate) enum Tried<F = StoreError> {
    /// Permanently.
    Final(F),
    /// Transiently.
    Passing(StoreError),
}

/// Exponential backoff within the limits of the options.
#[derive(Debug)]
pub(crate) struct Backoff {
    left: usize,
    end: Instant,
    wait: Duration,
    tries: usize,
}

impl Backoff {
    pub(crate) fn new(retries: usize, timeout: Duration) -> Self {
        let now = Instant::now();
        let end = now.checked_add(timeout).unwrap_or(now);
        Self { left: retries, end, wait: FIRST, tries: 1 }
    }

    /// Returns a backoff with the limits of `options`.
    pub(crate) fn of(options: &StoreOptions) -> Self {
        Self::new(options.retries, options.retry_timeout)
    }

    /// Waits before the next attempt, at least as long as the server asks for, and counts the retry; returns the
    /// failure if no attempts are left.
    pub(crate) async fn wait(
        &mut self,
        failure: StoreError,
        seen: &Seen,
        meter: &Meter,
    ) -> Result<(), StoreError> {
        let wait = self.wait.mul_f64(jitter()).max(seen.retry_after());
        let now = Instant::now();
        if self.left == 0 || now.checked_add(wait).is_none_or(|then| then > self.end) {
            return Err(self.last(failure));
        }
        self.left -= 1;
        self.tries += 1;
        self.wait = self.wait.saturating_mul(2).min(LONGEST);
        tracing::info!("{failure}: retrying in {} ms", wait.as_millis());
        meter.retried(seen.reason(), wait);
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn last(&self, failure: StoreError) -> StoreError {
        match failure {
            StoreError::Unavailable { name, reason } if self.tries > 1 => {
                StoreError::Unavailable { name, reason: format!("{reason} (tried {} times)", self.tries) }
            }
            failure => failure,
        }
    }
}

/// Returns a random factor from 0.5 to 1, so that requests that fail together are not repeated together.
fn jitter() -> f64 {
    0.5 + fastrand::f64() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_within_a_half_and_one() {
        let all: Vec<_> = (0..100).map(|_| jitter()).collect();
        assert!(all.iter().all(|one| (0.5..=1.0).contains(one)));
        assert!(all.iter().any(|one| (one - all[0]).abs() > 1e-6));
    }
}
