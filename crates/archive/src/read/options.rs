use std::time::Duration;

use tokio_util::sync::CancellationToken;

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
    pub(super) fn wait_after(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.wait.saturating_mul(factor).min(MAX_WAIT).mul_f64(0.5 + fastrand::f64())
    }
}
