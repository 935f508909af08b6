//! Memory for answers. What requests make the service hold comes out of one budget: files that are mapped, chunks on
//! their way, what is decoded or described. Who finds it empty waits a little and is told to come back; a client that
//! takes its answer slowly holds a small piece of it.

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
use virtualize::{Gate, ReadError, ReadErrorKind};

use crate::Problem;

/// Bytes of a permit.
const PIECE: u64 = 16 << 10;
/// How long a request waits for its share.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of memory for a byte of metadata that was read.
const GROWTH: u64 = 2;

/// The budget.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    free: Arc<Semaphore>,
    pieces: u32,
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share(OwnedSemaphorePermit);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let pieces = u32::try_from(bytes / PIECE).unwrap_or(u32::MAX).max(1);
        let free = Arc::new(Semaphore::new(usize::try_from(pieces).unwrap_or(usize::MAX)));
        Self { free, pieces }
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> u64 {
        let free = u64::try_from(self.free.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.pieces).saturating_sub(free).saturating_mul(PIECE)
    }

    /// What is larger than the budget gets all of it.
    fn pieces(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).min(self.pieces)
    }

    /// A share for an answer that has not begun.
    pub(crate) async fn take(&self, bytes: u64) -> Result<Share, Problem> {
        timeout(PATIENCE, self.wait(bytes)).await.unwrap_or_else(|_| Err(full()))
    }

    /// A share for an answer that has begun, whenever there is one.
    pub(crate) async fn wait(&self, bytes: u64) -> Result<Share, Problem> {
        let free = Arc::clone(&self.free).acquire_many_owned(self.pieces(bytes)).await;
        free.map(Share).map_err(|_| Problem::internal())
    }

    /// Makes a share as large as it has to be. Whether there was enough.
    pub(crate) fn resize(&self, share: &mut Share, bytes: u64) -> bool {
        let (wanted, has) = (self.pieces(bytes), share.pieces());
        if wanted <= has {
            let much = usize::try_from(has.saturating_sub(wanted)).unwrap_or_default();
            drop(share.0.split(much));
            return true;
        }
        let more = Arc::clone(&self.free).try_acquire_many_owned(wanted.saturating_sub(has));
        more.map(|more| share.0.merge(more)).is_ok()
    }
}

impl Share {
    fn pieces(&self) -> u32 {
        u32::try_from(self.0.num_permits()).unwrap_or(u32::MAX)
    }

    /// Bytes that hold it for as long as they are there.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _share: self })
    }
}

struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The budget has nothing left.
pub(crate) fn full() -> Problem {
    let detail = "the service has no memory left for this answer now";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(2)
}

/// Lets a file be read for as long as somebody wants it and there is memory for what it says.
#[derive(Debug)]
pub(crate) struct Reading {
    budget: Budget,
    wanted: CancellationToken,
    /// The share, and bytes that were read.
    held: Mutex<(Option<Share>, u64)>,
    refused: AtomicBool,
}

impl Reading {
    pub(crate) fn new(budget: Budget, share: Share, wanted: CancellationToken) -> Self {
        Self { budget, wanted, held: Mutex::new((Some(share), 0)), refused: AtomicBool::new(false) }
    }

    /// Whether memory ran out, so that what was read is not all.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The share, once all is read.
    pub(crate) fn share(&self) -> Option<Share> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).0.take()
    }

    fn grow(&self, bytes: u64) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (share, read) = &mut *held;
        *read = read.saturating_add(bytes.saturating_mul(GROWTH));
        let Some(share) = share else { return true };
        let has = u64::from(share.pieces()).saturating_mul(PIECE);
        *read <= has || self.budget.resize(share, *read)
    }
}

impl Gate for Reading {
    fn pass(&self, bytes: u64) -> Result<(), ReadError> {
        if self.wanted.is_cancelled() {
            return Err(ReadError::new(ReadErrorKind::Unavailable, "nobody wants it any more"));
        }
        if self.is_refused() || !self.grow(bytes) {
            self.refused.store(true, Ordering::Relaxed);
            return Err(ReadError::new(ReadErrorKind::Unavailable, "no memory left"));
        }
        Ok(())
    }
}

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
        // What is larger than all waits until it has all.
        assert_eq!(budget.take(u64::MAX).await.map(|share| share.pieces()), Ok(10));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn reading_grows_until_there_is_no_more() {
        let budget = Budget::new(10 * PIECE);
        let wanted = CancellationToken::new();
        let reading = Reading::new(budget.clone(), budget.take(PIECE).await.unwrap(), wanted.clone());
        assert!(reading.pass(4 * PIECE).is_ok());
        assert_eq!(budget.held(), 8 * PIECE);
        let others = budget.take(PIECE).await.unwrap();
        assert!(reading.pass(4 * PIECE).is_err() && reading.pass(0).is_err() && reading.is_refused());
        drop(others);
        let mut share = reading.share().unwrap();
        assert!(budget.resize(&mut share, 2 * PIECE));
        assert_eq!(budget.held(), 2 * PIECE);
        let other = Reading::new(budget.clone(), share, wanted.clone());
        wanted.cancel();
        assert!(other.pass(0).is_err() && !other.is_refused());
        drop(other);
        assert_eq!(budget.held(), 0);
    }
}
