//! Budgets of bytes. What requests make the service hold in memory comes out of one, what they make it write to
//! temporary files out of another. Each client has a part of both, so that none takes all. Who finds too little waits a
//! little and is told to come back; a client that takes its answer slowly holds a small piece of it.

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
/// Bytes with which a file begins to be read.
pub(crate) const FIRST: u64 = 1 << 20;
/// Bytes of memory for a byte of metadata that was read.
const GROWTH: u64 = 2;

/// A number of bytes that may be taken.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    own: Level,
    /// The budget of which this is a part.
    whole: Option<Level>,
}

#[derive(Clone, Debug)]
struct Level {
    free: Arc<Semaphore>,
    pieces: u32,
}

/// A share of a budget, given back when it is dropped.
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

    fn held(&self) -> u64 {
        let free = u64::try_from(self.free.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.pieces).saturating_sub(free).saturating_mul(PIECE)
    }

    async fn take(&self, pieces: u32) -> Result<OwnedSemaphorePermit, Problem> {
        let taken = Arc::clone(&self.free).acquire_many_owned(pieces).await;
        taken.map_err(|_| Problem::internal())
    }

    fn try_take(&self, pieces: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(pieces).ok()
    }
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { own: Level::new(bytes), whole: None }
    }

    /// A part of this budget: what is taken of it is taken of this one too.
    pub(crate) fn part(&self, bytes: u64) -> Self {
        Self { own: Level::new(bytes), whole: Some(self.own.clone()) }
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> u64 {
        self.own.held()
    }

    /// Most bytes that can be held.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.own.pieces).saturating_mul(PIECE)
    }

    /// What is larger than the budget gets all of it.
    fn pieces(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).min(self.own.pieces)
    }

    /// A share for an answer that has not begun.
    pub(crate) async fn take(&self, bytes: u64) -> Result<Share, Problem> {
        timeout(PATIENCE, self.wait(bytes)).await.unwrap_or_else(|_| Err(full()))
    }

    /// A share for an answer that has begun, whenever there is one.
    pub(crate) async fn wait(&self, bytes: u64) -> Result<Share, Problem> {
        let pieces = self.pieces(bytes);
        let own = self.own.take(pieces).await?;
        let whole = match &self.whole {
            Some(whole) => Some(whole.take(pieces.min(whole.pieces)).await?),
            None => None,
        };
        Ok(Share { own, whole })
    }

    /// A share of this part alone, for what was taken of the whole already.
    pub(crate) async fn take_own(&self, bytes: u64) -> Result<Share, Problem> {
        let own = timeout(PATIENCE, self.own.take(self.pieces(bytes))).await;
        own.unwrap_or_else(|_| Err(full())).map(|own| Share { own, whole: None })
    }

    /// A share, if there is enough now.
    pub(crate) fn try_take(&self, bytes: u64) -> Option<Share> {
        let pieces = self.pieces(bytes);
        let own = self.own.try_take(pieces)?;
        match &self.whole {
            Some(whole) => Some(Share { own, whole: Some(whole.try_take(pieces.min(whole.pieces))?) }),
            None => Some(Share { own, whole: None }),
        }
    }

    /// Makes a share as large as it has to be. Whether there was enough.
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
    fn pieces(&self) -> u32 {
        u32::try_from(self.own.num_permits()).unwrap_or(u32::MAX)
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.pieces()).saturating_mul(PIECE)
    }

    /// The same share of the whole alone: what is kept for all is no longer the client's.
    pub(crate) fn of_all(self) -> Self {
        match self.whole {
            Some(own) => Self { own, whole: None },
            None => self,
        }
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
    let detail = "the service has no memory or disk space left for this response at the moment";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(2)
}

/// A file that needs more than the service ever gives to one: trying again does not help.
pub(crate) fn too_large(most: u64) -> Problem {
    let detail = format!("the file's metadata needs more than {most} bytes of memory");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "file", detail)
        .hint("use the command, which has no such limit, or raise --file-memory of the service")
}

/// Lets a file be read for as long as somebody wants it and there is memory for what it says.
#[derive(Debug)]
pub(crate) struct Reading {
    budget: Budget,
    wanted: CancellationToken,
    /// The share, and bytes that were read.
    held: Mutex<(Option<Share>, u64)>,
    /// Most bytes of one file.
    most: u64,
    refused: AtomicBool,
    too_large: AtomicBool,
}

impl Reading {
    /// Without a share, nothing is read.
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

    /// Why reading was stopped for want of memory, so that what was read is not all.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        if !self.refused.load(Ordering::Relaxed) {
            return None;
        }
        Some(if self.too_large.load(Ordering::Relaxed) { too_large(self.most) } else { full() })
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

/// Lets each file of a job be read for as long as there is memory for it.
#[derive(Debug)]
pub(crate) struct JobGate {
    pub(crate) budget: Budget,
    /// Most bytes of one file.
    pub(crate) most: u64,
}

impl Gate for JobGate {
    fn pass(&self, _bytes: u64) -> Result<(), ReadError> {
        Ok(())
    }

    fn for_file(&self) -> Option<Arc<dyn Gate>> {
        let share = self.budget.try_take(FIRST);
        Some(Arc::new(Reading::new(self.budget.clone(), share, self.most, CancellationToken::new())))
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

    #[test]
    fn files_of_a_job_share_its_memory_and_give_it_back() {
        let budget = Budget::new(4 * FIRST);
        let gate = JobGate { budget: budget.clone(), most: 2 * FIRST };
        let files: Vec<_> = (0..4).filter_map(|_| gate.for_file()).collect();
        assert!(files.iter().all(|file| file.pass(FIRST / 2).is_ok()));
        let later = gate.for_file().unwrap();
        assert_eq!(later.pass(0).unwrap_err().kind, ReadErrorKind::Unavailable);
        drop(files);
        assert_eq!(budget.held(), 0);
        let large = gate.for_file().unwrap();
        assert!(large.pass(FIRST).is_ok());
        assert_eq!(large.pass(1).unwrap_err().kind, ReadErrorKind::Invalid, "trying again does not help");
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
