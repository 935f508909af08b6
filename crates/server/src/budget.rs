//! Byte budgets: one for the memory that requests hold, one for the temporary files that they write. Each client has a
//! partial budget of both, so that no client can exhaust them. A request that cannot reserve its share within two
//! seconds fails with 503 and may be retried. A client that receives its response slowly holds only a small share.

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
use virtualize::{Code, Gate, ReadError, ReadErrorKind};

use crate::Problem;

/// Granularity of a budget: the bytes that one permit stands for.
const PIECE: u64 = 16 << 10;
/// Maximum time that a request waits for its share.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes reserved for a file before its first read.
pub(crate) const FIRST: u64 = 1 << 20;
/// Bytes of memory reserved per byte of metadata read.
const GROWTH: u64 = 2;

/// A budget of bytes from which shares are reserved.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    own: Level,
    /// The parent budget, from which every share is reserved too.
    whole: Option<Level>,
}

#[derive(Clone, Debug)]
/// A semaphore whose permits stand for `PIECE` bytes each, and its total number of permits.
struct Level {
    free: Arc<Semaphore>,
    pieces: u32,
}

/// A reserved share of a budget, released on drop.
#[derive(Debug)]
pub(crate) struct Share {
    own: OwnedSemaphorePermit,
    whole: Option<OwnedSemaphorePermit>,
}

impl Level {
    fn new(bytes: u64) -> Self {
        let pieces = u32::try_from(bytes / PIECE).unwrap_or(u32::MAX).max(1);
        let free = Arc::new(Semaphore::new(usize::try_from(pieces).unwrap_or(usize::MAX)));
        Self { free, pieces }
    }

    /// Returns the bytes that are reserved.
    fn held(&self) -> u64 {
        let free = u64::try_from(self.free.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.pieces).saturating_sub(free).saturating_mul(PIECE)
    }

    /// Reserves permits, waiting for as long as necessary.
    async fn take(&self, pieces: u32) -> Result<OwnedSemaphorePermit, Problem> {
        let taken = Arc::clone(&self.free).acquire_many_owned(pieces).await;
        taken.map_err(|_| Problem::internal())
    }

    /// Reserves permits if they are available.
    fn try_take(&self, pieces: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(pieces).ok()
    }
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { own: Level::new(bytes), whole: None }
    }

    /// Returns a partial budget of at most `bytes`. Its shares are reserved from this budget too.
    pub(crate) fn part(&self, bytes: u64) -> Self {
        Self { own: Level::new(bytes), whole: Some(self.own.clone()) }
    }

    /// Returns the bytes that are currently reserved.
    pub(crate) fn held(&self) -> u64 {
        self.own.held()
    }

    /// Returns the maximum number of bytes that can be reserved.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.own.pieces).saturating_mul(PIECE)
    }

    /// Returns the number of permits for `bytes`. A request that exceeds the budget reserves all of it.
    fn pieces(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).min(self.own.pieces)
    }

    /// Reserves a share for a response that has not begun; fails with 503 after a short wait.
    pub(crate) async fn take(&self, bytes: u64) -> Result<Share, Problem> {
        timeout(PATIENCE, self.wait(bytes)).await.unwrap_or_else(|_| Err(full()))
    }

    /// Reserves a share for a response that has begun, waiting for as long as necessary.
    pub(crate) async fn wait(&self, bytes: u64) -> Result<Share, Problem> {
        let pieces = self.pieces(bytes);
        let own = self.own.take(pieces).await?;
        let whole = match &self.whole {
            Some(whole) => Some(whole.take(pieces.min(whole.pieces)).await?),
            None => None,
        };
        Ok(Share { own, whole })
    }

    /// Reserves a share of this partial budget only, for bytes that are already reserved from its parent.
    pub(crate) async fn take_own(&self, bytes: u64) -> Result<Share, Problem> {
        let own = timeout(PATIENCE, self.own.take(self.pieces(bytes))).await;
        own.unwrap_or_else(|_| Err(full())).map(|own| Share { own, whole: None })
    }

    /// Reserves a share if it is available immediately.
    pub(crate) fn try_take(&self, bytes: u64) -> Option<Share> {
        let pieces = self.pieces(bytes);
        let own = self.own.try_take(pieces)?;
        match &self.whole {
            Some(whole) => Some(Share { own, whole: Some(whole.try_take(pieces.min(whole.pieces))?) }),
            None => Some(Share { own, whole: None }),
        }
    }

    /// Grows or shrinks a share to `bytes`. Returns `false`, and leaves the share as it was, if the budget has too
    /// little left.
    pub(crate) fn resize(&self, share: &mut Share, bytes: u64) -> bool {
        let (wanted, has) = (self.pieces(bytes), share.pieces());
        if wanted <= has {
            let much = usize::try_from(has.saturating_sub(wanted)).unwrap_or_default();
            drop(share.own.split(much));
            drop(share.whole.as_mut().and_then(|whole| whole.split(much)));
            return true;
        }
        let Some(more) = self.try_take(u64::from(wanted.saturating_sub(has)).saturating_mul(PIECE)) else {
            return false;
        };
        share.own.merge(more.own);
        if let (Some(whole), Some(more)) = (&mut share.whole, more.whole) {
            whole.merge(more);
        }
        true
    }
}

impl Share {
    /// Returns the number of permits that the share holds.
    fn pieces(&self) -> u32 {
        u32::try_from(self.own.num_permits()).unwrap_or(u32::MAX)
    }

    /// Returns the size of the share in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.pieces()).saturating_mul(PIECE)
    }

    /// Converts the share into one of the parent budget only: data cached for all clients no longer counts against the
    /// client that requested it.
    pub(crate) fn of_all(self) -> Self {
        match self.whole {
            Some(own) => Self { own, whole: None },
            None => self,
        }
    }

    /// Attaches the share to a buffer: dropping the buffer releases it.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _share: self })
    }
}

/// A buffer together with its share.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the problem of an exhausted budget; the client may retry.
pub(crate) fn full() -> Problem {
    let detail = "the service has no memory or disk space left for this response at the moment";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, detail).retry_after(2)
}

/// Returns the problem of a file that exceeds the limit per file. Retrying does not help.
pub(crate) fn too_large(most: u64) -> Problem {
    let detail = format!("the file's metadata needs more than {most} bytes of memory");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::File, detail)
        .hint("use the command, which has no such limit, or raise --file-memory of the service")
}

/// A gate that admits reads of one file until its request is cancelled or the memory for its metadata is exhausted.
#[derive(Debug)]
pub(crate) struct Reading {
    budget: Budget,
    wanted: CancellationToken,
    /// The share, and the bytes of memory accounted to the reads so far.
    held: Mutex<(Option<Share>, u64)>,
    /// Maximum bytes of memory for one file.
    most: u64,
    refused: AtomicBool,
    too_large: AtomicBool,
}

impl Reading {
    /// Creates a gate that grows `share` up to `most` bytes. Without a share, it refuses every read.
    pub(crate) fn new(budget: Budget, share: Option<Share>, most: u64, wanted: CancellationToken) -> Self {
        Self {
            refused: AtomicBool::new(share.is_none()),
            most: most.min(budget.size()),
            budget,
            wanted,
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
        let has = u64::from(share.pieces()).saturating_mul(PIECE);
        *read <= has || self.budget.resize(share, *read)
    }
}

impl Gate for Reading {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        if self.wanted.is_cancelled() {
            return Err(ReadError::new(ReadErrorKind::Unavailable, "nobody wants it any more"));
        }
        if self.refused.load(Ordering::Relaxed) || !self.grow(bytes) {
            self.refused.store(true, Ordering::Relaxed);
            return Err(match self.too_large.load(Ordering::Relaxed) {
                true => ReadError::new(ReadErrorKind::Invalid, too_large(self.most).detail),
                false => {
                    ReadError::new(ReadErrorKind::Unavailable, "the service has no memory left for it now")
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_taken_comes_back() {
        let budget = Budget::new(10 * PIECE);
        let first = budget.take(6 * PIECE).await.unwrap();
        assert_eq!(budget.take(5 * PIECE).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        let bytes = first.of(Bytes::from_static(b"abc"));
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!(budget.held(), 6 * PIECE);
        drop(part);
        assert_eq!(budget.held(), 0);
        // A request that exceeds the budget waits until it can reserve all of it.
        assert_eq!(budget.take(u64::MAX).await.map(|share| share.pieces()), Ok(10));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn reading_grows_until_there_is_no_more() {
        let budget = Budget::new(10 * PIECE);
        let wanted = CancellationToken::new();
        let share = budget.try_take(PIECE);
        let reading = Reading::new(budget.clone(), share, u64::MAX, wanted.clone());
        assert!(reading.pass(4 * PIECE).is_ok());
        assert_eq!(budget.held(), 8 * PIECE);
        let others = budget.take(PIECE).await.unwrap();
        assert!(reading.pass(PIECE).is_err() && reading.pass(0).is_err());
        assert_eq!(reading.refusal().unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
        drop(others);
        let mut share = reading.share().unwrap();
        assert!(budget.resize(&mut share, 2 * PIECE));
        assert_eq!(budget.held(), 2 * PIECE);
        let other = Reading::new(budget.clone(), Some(share), 6 * PIECE, wanted.clone());
        assert!(other.pass(3 * PIECE).is_ok() && other.pass(1).is_err());
        assert_eq!(other.refusal().unwrap().status, StatusCode::UNPROCESSABLE_ENTITY);
        drop(other);
        let share = budget.try_take(PIECE);
        let left = Reading::new(budget.clone(), share, 6 * PIECE, wanted.clone());
        wanted.cancel();
        assert!(left.pass(0).is_err() && left.refusal().is_none());
        drop(left);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn a_part_never_takes_all() {
        let all = Budget::new(10 * PIECE);
        let (one, other) = (all.part(6 * PIECE), all.part(6 * PIECE));
        let mut held = one.take(100 * PIECE).await.unwrap();
        assert_eq!((one.held(), all.held()), (6 * PIECE, 6 * PIECE));
        assert!(one.try_take(1).is_none() && other.try_take(5 * PIECE).is_none());
        assert_eq!((other.held(), all.held()), (0, 6 * PIECE), "what is refused gives back all");
        let kept = other.take(4 * PIECE).await.unwrap().of_all();
        assert_eq!((other.held(), all.held()), (0, 10 * PIECE));
        assert!(one.resize(&mut held, PIECE));
        assert_eq!((one.held(), all.held()), (PIECE, 5 * PIECE));
        assert!(one.resize(&mut held, 6 * PIECE));
        assert_eq!((one.held(), all.held()), (6 * PIECE, 10 * PIECE));
        drop((held, kept));
        assert_eq!((one.held(), other.held(), all.held()), (0, 0, 0));
    }
}
