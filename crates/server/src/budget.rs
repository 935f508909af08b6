//! The memory budget: a request reserves a share before it uses memory. One that cannot reserve its share within two
//! seconds fails with 503 and may be retried.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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

    /// Attaches the share to a buffer, which no longer needs more: dropping the buffer releases it.
    pub(crate) fn attach(mut self, budget: &Budget, bytes: Bytes) -> Bytes {
        budget.resize(&mut self, bytes.len() as u64);
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
    Problem::busy("the service has no memory left for this response", 2)
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
    /// Maximum bytes of memory for one file.
    most: u64,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// `None` after the last read.
    share: Option<Share>,
    /// Bytes of memory accounted to the reads so far.
    bytes: u64,
    /// Why a read was refused for lack of memory.
    refusal: Option<Problem>,
}

impl Reading {
    /// Creates a gate that grows `share` up to `most` bytes.
    pub(crate) fn new(budget: Budget, share: Share, most: u64, cancelled: CancellationToken) -> Self {
        let held = Mutex::new(Held { share: Some(share), bytes: 0, refusal: None });
        Self { most: most.min(budget.size()), budget, cancelled, held }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why the gate refused a read for lack of memory; `None` if the metadata was read completely.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        self.held().refusal.clone()
    }

    /// Takes the share out of the gate after the last read.
    pub(crate) fn share(&self) -> Option<Share> {
        self.held().share.take()
    }
}

impl Gate for Reading {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        if self.cancelled.is_cancelled() {
            return Err(ReadError::new(ReadErrorKind::Unavailable, "the request was cancelled"));
        }
        let Held { share, bytes: read, refusal } = &mut *self.held();
        *read = read.saturating_add(bytes.saturating_mul(GROWTH));
        if let Some(share) = share.as_mut().filter(|_| refusal.is_none()) {
            if *read > self.most {
                *refusal = Some(too_large(self.most));
            } else if *read > share.bytes() && !self.budget.resize(share, *read) {
                *refusal = Some(full());
            }
        }
        let Some(Problem { status, detail, .. }) = refusal else { return Ok(()) };
        let is_final = *status == StatusCode::UNPROCESSABLE_ENTITY;
        let kind = if is_final { ReadErrorKind::Invalid } else { ReadErrorKind::Unavailable };
        Err(ReadError::new(kind, detail.as_str()))
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
    done?.ok_or_else(|| Problem::busy("the work was stopped", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shares_are_released_on_drop() {
        let budget = Budget::new(10 * UNIT);
        let first = budget.take(6 * UNIT).await.unwrap();
        assert_eq!(budget.take(5 * UNIT).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        let bytes = first.attach(&budget, Bytes::from_static(b"abc"));
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!(budget.held(), UNIT);
        drop(part);
        assert_eq!(budget.held(), 0);
        assert_eq!(budget.take(u64::MAX).await.unwrap().bytes(), 10 * UNIT);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn reading_grows_until_the_budget_is_exhausted() {
        let budget = Budget::new(10 * UNIT);
        let token = CancellationToken::new();
        let share = budget.try_take(UNIT).unwrap();
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
        let other = Reading::new(budget.clone(), share, 6 * UNIT, token.clone());
        assert!(other.pass(3 * UNIT).is_ok() && other.pass(1).is_err());
        assert_eq!(other.refusal().unwrap().status, StatusCode::UNPROCESSABLE_ENTITY);
        drop(other);
        let share = budget.try_take(UNIT).unwrap();
        let left = Reading::new(budget.clone(), share, 6 * UNIT, token.clone());
        token.cancel();
        assert!(left.pass(0).is_err() && left.refusal().is_none());
        drop(left);
        assert_eq!(budget.held(), 0);
    }
}
