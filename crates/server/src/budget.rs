//! The memory budget: a request reserves a share before it uses memory. One that cannot reserve its share within two
//! seconds fails with 503 and may be retried.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::StatusCode;
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use virtualize::{Code, Gate, ReadError, ReadErrorKind};

use crate::problem::Problem;

/// Granularity of a budget: the bytes of one permit.
const UNIT: u64 = 16 << 10;
/// Maximum time that a request waits for its share.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of memory reserved per byte of metadata read.
const GROWTH: u64 = 2;

/// A budget of bytes from which shares are reserved.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    free: Arc<Semaphore>,
    permits: u32,
}

/// A reserved share of a budget, released on drop.
#[derive(Debug)]
pub(crate) struct Share(OwnedSemaphorePermit);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let permits = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        let free = Arc::new(Semaphore::new(usize::try_from(permits).unwrap_or(usize::MAX)));
        Self { free, permits }
    }

    /// Returns the bytes that are currently reserved.
    pub(crate) fn held(&self) -> u64 {
        let free = u64::try_from(self.free.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.permits).saturating_sub(free).saturating_mul(UNIT)
    }

    /// Returns the maximum number of bytes that can be reserved.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.permits).saturating_mul(UNIT)
    }

    /// Returns the number of permits for `bytes`. A request that exceeds the budget reserves all of it.
    fn permits(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.permits)
    }

    /// Reserves a share; fails with 503 after a short wait.
    pub(crate) async fn take(&self, bytes: u64) -> Result<Share, Problem> {
        let taken = timeout(PATIENCE, Arc::clone(&self.free).acquire_many_owned(self.permits(bytes))).await;
        taken.map_err(|_| full())?.map(Share).map_err(|_| Problem::internal())
    }

    /// Reserves a share if it is available immediately.
    pub(crate) fn try_take(&self, bytes: u64) -> Option<Share> {
        Arc::clone(&self.free).try_acquire_many_owned(self.permits(bytes)).ok().map(Share)
    }

    /// Grows or shrinks a share to `bytes`. Returns `false`, and leaves the share unchanged, if the budget has too
    /// little left.
    pub(crate) fn resize(&self, share: &mut Share, bytes: u64) -> bool {
        let (target, current) = (self.permits(bytes), share.permits());
        if target <= current {
            drop(share.0.split(usize::try_from(current.saturating_sub(target)).unwrap_or_default()));
            return true;
        }
        let more = u64::from(target.saturating_sub(current)).saturating_mul(UNIT);
        self.try_take(more).map(|more| share.0.merge(more.0)).is_some()
    }
}

impl Share {
    fn permits(&self) -> u32 {
        u32::try_from(self.0.num_permits()).unwrap_or(u32::MAX)
    }

    /// Returns the size of the share in bytes.
    fn bytes(&self) -> u64 {
        u64::from(self.permits()).saturating_mul(UNIT)
    }

    /// Attaches the share to a buffer: dropping the buffer releases it.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        struct Held(Bytes, #[expect(dead_code, reason = "released on drop")] Share);
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        Bytes::from_owner(Held(bytes, self))
    }
}

/// Returns the problem of an exhausted budget; the client may retry.
pub(crate) fn full() -> Problem {
    let detail = "the service has no memory left for this response";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, detail).retry_after(2)
}

/// Returns the problem of a file that exceeds the limit per file. Retrying does not help.
pub(crate) fn too_large(most: u64) -> Problem {
    let detail = format!("the file's metadata needs more than {most} bytes of memory");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::File, detail)
        .hint("use the command, which has no such limit, or raise --memory of the service")
}

/// A gate that admits reads of one file until its request is cancelled or the memory for its metadata is exhausted.
#[derive(Debug)]
pub(crate) struct Reading {
    budget: Budget,
    cancelled: CancellationToken,
    /// The share, and the bytes of memory accounted to the reads so far.
    held: Mutex<(Option<Share>, u64)>,
    /// Maximum bytes of memory for one file.
    most: u64,
    refused: AtomicBool,
    too_large: AtomicBool,
}

impl Reading {
    /// Creates a gate that grows `share` up to `most` bytes. Without a share, it refuses every read.
    pub(crate) fn new(budget: Budget, share: Option<Share>, most: u64, cancelled: CancellationToken) -> Self {
        Self {
            refused: AtomicBool::new(share.is_none()),
            most: most.min(budget.size()),
            budget,
            cancelled,
            held: Mutex::new((share, 0)),
            too_large: AtomicBool::new(false),
        }
    }

    /// Returns why the gate refused a read for lack of memory; `None` if the metadata was read completely.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        if !self.refused.load(Ordering::Relaxed) {
            return None;
        }
        Some(if self.too_large.load(Ordering::Relaxed) { too_large(self.most) } else { full() })
    }

    /// Takes the share out of the gate after the last read.
    pub(crate) fn share(&self) -> Option<Share> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Accounts for a read of `bytes`. Returns `false` if the file exceeds its limit or the budget is exhausted.
    fn grow(&self, bytes: u64) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (share, read) = &mut *held;
        *read = read.saturating_add(bytes.saturating_mul(GROWTH));
        let Some(share) = share else { return true };
        if *read > self.most {
            self.too_large.store(true, Ordering::Relaxed);
            return false;
        }
        *read <= share.bytes() || self.budget.resize(share, *read)
    }
}

impl Gate for Reading {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        if self.cancelled.is_cancelled() {
            return Err(ReadError::new(ReadErrorKind::Unavailable, "the request was cancelled"));
        }
        if self.refused.load(Ordering::Relaxed) || !self.grow(bytes) {
            self.refused.store(true, Ordering::Relaxed);
            return Err(match self.too_large.load(Ordering::Relaxed) {
                true => ReadError::new(ReadErrorKind::Invalid, too_large(self.most).detail),
                false => ReadError::new(ReadErrorKind::Unavailable, "the service has no memory left for it"),
            });
        }
        Ok(())
    }
}

/// Runs a long computation on its own thread. Dropping the future cancels the token that `work` receives, and stops
/// the work wherever it waits.
pub(crate) async fn on_thread<T: Send + 'static, F: Future<Output = T>>(
    work: impl FnOnce(CancellationToken) -> F + Send + 'static,
    permit: impl Send + 'static,
) -> Result<T, Problem> {
    let (token, runtime) = (CancellationToken::new(), tokio::runtime::Handle::current());
    let guard = token.clone().drop_guard();
    let span = Span::current();
    let stopped = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, "the work was stopped");
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let given = token.clone();
        runtime.block_on(
            async move {
                tokio::select! {
                    biased;
                    () = token.cancelled() => None,
                    done = work(given) => Some(done),
                }
            }
            .instrument(span),
        )
    });
    let done = done.await.map_err(|error| {
        tracing::error!("work on a file failed: {error}");
        Problem::internal()
    });
    drop(guard.disarm());
    done?.ok_or_else(|| stopped().retry_after(Duration::from_secs(1).as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shares_are_released_on_drop() {
        let budget = Budget::new(10 * UNIT);
        let first = budget.take(6 * UNIT).await.unwrap();
        assert_eq!(budget.take(5 * UNIT).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        let bytes = first.attach(Bytes::from_static(b"abc"));
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!(budget.held(), 6 * UNIT);
        drop(part);
        assert_eq!(budget.held(), 0);
        assert_eq!(budget.take(u64::MAX).await.unwrap().bytes(), 10 * UNIT);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn reading_grows_until_the_budget_is_exhausted() {
        let budget = Budget::new(10 * UNIT);
        let token = CancellationToken::new();
        let share = budget.try_take(UNIT);
        let reading = Reading::new(budget.clone(), share, u64::MAX, token.clone());
        assert!(reading.pass(4 * UNIT).is_ok());
        assert_eq!(budget.held(), 8 * UNIT);
        let others = budget.take(UNIT).await.unwrap();
        assert!(reading.pass(UNIT).is_err() && reading.pass(0).is_err());
        assert_eq!(reading.refusal().unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
        drop(others);
        let mut share = reading.share().unwrap();
        assert!(budget.resize(&mut share, 2 * UNIT));
        assert_eq!(budget.held(), 2 * UNIT);
        let other = Reading::new(budget.clone(), Some(share), 6 * UNIT, token.clone());
        assert!(other.pass(3 * UNIT).is_ok() && other.pass(1).is_err());
        assert_eq!(other.refusal().unwrap().status, StatusCode::UNPROCESSABLE_ENTITY);
        drop(other);
        let share = budget.try_take(UNIT);
        let left = Reading::new(budget.clone(), share, 6 * UNIT, token.clone());
        token.cancel();
        assert!(left.pass(0).is_err() && left.refusal().is_none());
        drop(left);
        assert_eq!(budget.held(), 0);
    }
}
