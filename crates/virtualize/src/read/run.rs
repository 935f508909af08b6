//! Runs the work on stored chunks: neighbouring ranges are read together, and several threads decode. Batches of local
//! files are read by the thread that decodes them; those of remote files are fetched by the calling thread.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use futures::{
    future::{self, FutureExt, LocalBoxFuture},
    stream::{FuturesUnordered, StreamExt},
};
use virtualize_bytes::ByteRange;
use virtualize_codec::Scratch as CodecScratch;
use virtualize_store::Object;
use virtualize_zarr::SourceId;

use super::{
    elements::Kept,
    plan::{Batch, Batches, Items, LOCAL, Merging},
    queue::{Finish, Queue},
};
use crate::{
    chunks::{Files, interruptible},
    error::ArrayError,
    sources::lock,
};

/// Work on stored bytes. Receives an item with its bytes, or the reason why they could not be read.
pub(super) trait Work<P>: Sync {
    /// # Errors
    /// The run stops.
    fn run(
        &self,
        item: P,
        bytes: Result<Bytes<'_>, ArrayError>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError>;
}

/// Stored bytes of an item.
#[derive(Clone, Copy)]
pub(super) enum Bytes<'b> {
    Here(&'b [u8]),
    /// To be read without waiting.
    In(&'b Object, ByteRange),
}

/// Memory that a thread uses again for the next chunk.
#[derive(Default)]
pub(super) struct Scratch {
    /// Bytes as read from a file.
    pub(super) read: Vec<u8>,
    /// Decoded elements.
    pub(super) elements: Vec<u8>,
    pub(super) codec: CodecScratch,
    /// The decoder of the last chunk.
    pub(super) decoder: Option<Kept>,
}

/// What the threads of a run share.
pub(super) struct Shared<'a, P> {
    batches: Mutex<Batches<'a, P>>,
    files: Files<'a>,
    work: &'a dyn Work<P>,
    failed: Mutex<Option<ArrayError>>,
    stopped: AtomicBool,
}

impl<P: Send> Shared<'_, P> {
    /// Returns the next batch; `None` after the last, or if the run stops.
    pub(super) fn next(&self) -> Option<Batch<P>> {
        if self.is_stopped() || self.is_interrupted() {
            return None;
        }
        let next = lock(&self.batches).next();
        next.unwrap_or_else(|error| {
            self.fail(error);
            None
        })
    }

    /// Stops the run.
    pub(super) fn fail(&self, error: ArrayError) {
        self.stopped.store(true, Ordering::Relaxed);
        lock(&self.failed).get_or_insert(error);
    }

    /// Stops the run if the caller wants that.
    fn is_interrupted(&self) -> bool {
        let is_interrupted = self.files.interrupt.is_some_and(|interrupt| interrupt());
        if is_interrupted {
            self.fail(ArrayError::Interrupted);
        }
        is_interrupted
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Does the work on a batch whose bytes were read.
    pub(super) fn consume(&self, batch: Batch<P>, bytes: Result<&[u8], ArrayError>, scratch: &mut Scratch) {
        for (item, range) in batch.items {
            let bytes = bytes.clone().and_then(|bytes| {
                let at = |n: u64| usize::try_from(n - batch.span.start.min(n)).unwrap_or(usize::MAX);
                let part = bytes.get(at(range.start)..at(range.end()));
                part.map(Bytes::Here).ok_or_else(|| self.truncated(batch.source, range))
            });
            self.one(item, bytes, scratch);
            if self.is_stopped() {
                return;
            }
        }
    }

    fn one(&self, item: P, bytes: Result<Bytes<'_>, ArrayError>, scratch: &mut Scratch) {
        if let Err(error) = self.work.run(item, bytes, scratch) {
            self.fail(error);
        }
    }

    fn truncated(&self, source: Option<SourceId>, range: ByteRange) -> ArrayError {
        let source = source.and_then(|id| self.files.store.hierarchy.source(id));
        ArrayError::truncated(range, source.map_or("", |source| &source.url))
    }

    /// Reads and works on batches of local files until there are none left.
    fn work_locally(&self) {
        let mut scratch = Scratch::default();
        let mut current: Option<(SourceId, Arc<Object>)> = None;
        while let Some(batch) = self.next() {
            let Some(source) = batch.source else {
                self.consume(batch, Ok(&[]), &mut scratch);
                continue;
            };
            if current.as_ref().is_none_or(|(id, _)| *id != source) {
                self.verify(current.take());
                match futures::executor::block_on(self.files.open(source)) {
                    Ok(object) => current = Some((source, object)),
                    Err(error) => {
                        self.consume(batch, Err(error), &mut scratch);
                        continue;
                    }
                }
            }
            let Some((_, object)) = &current else { continue };
            if batch.items.len() == 1 {
                for (item, range) in batch.items {
                    self.one(item, Ok(Bytes::In(object, range)), &mut scratch);
                }
                continue;
            }
            let mut read = std::mem::take(&mut scratch.read);
            let bytes = read_now(object, batch.span, &mut read);
            self.consume(batch, bytes, &mut scratch);
            scratch.read = read;
        }
        self.verify(current);
    }

    /// Checks that a file is still the one that was opened.
    pub(super) fn verify(&self, current: Option<(SourceId, Arc<Object>)>) {
        if let Some(Err(error)) = current.map(|(_, object)| object.verify()) {
            self.fail(ArrayError::of_store(error));
        }
    }
}

/// Reads a range of a local file into memory that is used again. At the end of the file, there are fewer bytes.
pub(super) fn read_now<'b>(
    object: &Object,
    range: ByteRange,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8], ArrayError> {
    let range = range.clamp_to(object.bytes());
    let length = usize::try_from(range.length).unwrap_or(usize::MAX);
    reserve(buffer, length)?;
    let read = object.read_now(range.start, buffer.get_mut(..length).unwrap_or_default());
    match read {
        Some(Ok(length)) => Ok(buffer.get(..length).unwrap_or_default()),
        Some(Err(error)) => Err(ArrayError::of_store(error)),
        None => Err(ArrayError::truncated(range, object.name())),
    }
}

/// Makes a buffer at least so long.
pub(super) fn reserve(buffer: &mut Vec<u8>, length: usize) -> Result<(), ArrayError> {
    let more = length.saturating_sub(buffer.len());
    let too_large = || ArrayError::too_large("a chunk", length as u64, isize::MAX as u64);
    buffer.try_reserve_exact(more).map_err(|_| too_large())?;
    if more > 0 {
        buffer.resize(length, 0);
    }
    Ok(())
}

/// Size of a run.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Items that are worked on independently.
    pub(super) items: u64,
    /// Decoded bytes of all items.
    pub(super) bytes: u64,
    /// Bytes that a thread holds at once.
    pub(super) held: u64,
    /// Whether all files can be read without waiting.
    pub(super) is_local: bool,
}

/// Maximum number of bytes that all threads of a run hold together.
const HELD: u64 = 96 << 20;
/// Decoding fewer bytes takes no longer than starting a thread.
const WORTHWHILE: u64 = 64 << 10;

impl Extent {
    /// Returns how many threads are worthwhile.
    fn threads(self) -> usize {
        let most = self.items.min(self.bytes / WORTHWHILE).min(HELD / self.held.max(1));
        usize::try_from(most).unwrap_or(usize::MAX).clamp(1, cores())
    }

    fn merging(self, threads: usize) -> Merging {
        match self.is_local {
            true => {
                // Every thread gets several batches.
                let share = self.bytes / (threads as u64).saturating_mul(8);
                Merging { longest: share.clamp(16 << 10, LOCAL.longest), ..LOCAL }
            }
            false => REMOTE,
        }
    }
}

/// Works on all items: on the calling thread, and on others while fewer than the cores of the machine are busy.
///
/// # Errors
/// The first error of the work; a file that changed.
pub(super) fn run<P: Send>(
    items: Items<'_, P>,
    extent: Extent,
    files: Files<'_>,
    work: &dyn Work<P>,
) -> Result<(), ArrayError> {
    let threads = extent.threads();
    let shared = Shared {
        batches: Mutex::new(Batches::new(items, extent.merging(threads))),
        files,
        work,
        failed: Mutex::default(),
        stopped: AtomicBool::new(false),
    };
    let helpers = Helpers::take(threads - 1);
    match extent.is_local {
        true => thread::scope(|scope| {
            for _ in 0..helpers.0 {
                // Without more threads, this one does all the work.
                drop(thread::Builder::new().spawn_scoped(scope, || shared.work_locally()));
            }
            shared.work_locally();
        }),
        false => run_remotely(&shared, helpers.0),
    }
    drop(helpers);
    lock(&shared.failed).take().map_or(Ok(()), Err)
}

/// A connection transfers the bytes of a gap in a few milliseconds, which is less than the latency of a request.
const REMOTE: Merging = Merging { gap: 512 << 10, longest: 1 << 20 };
/// Maximum number of bytes that are requested or wait to be decoded.
const IN_FLIGHT: u64 = 64 << 20;

/// A batch with its bytes.
type Fetched<P> = (Batch<P>, Result<bytes::Bytes, ArrayError>);

/// Fetches and works on all batches, with the help of other threads.
fn run_remotely<P: Send>(shared: &Shared<'_, P>, helpers: usize) {
    let queue = Queue::new();
    let consume = |(batch, bytes): Fetched<P>, scratch: &mut Scratch| {
        let length = batch.span.length;
        if !shared.is_stopped() {
            shared.consume(batch, bytes.as_deref().map_err(Clone::clone), scratch);
        }
        queue.release(length);
    };
    thread::scope(|scope| {
        let help = || {
            let mut scratch = Scratch::default();
            while let Some(fetched) = queue.pop() {
                consume(fetched, &mut scratch);
            }
        };
        let threads = (0..helpers).filter(|_| thread::Builder::new().spawn_scoped(scope, help).is_ok());
        let has_help = threads.count() > 0;
        let finish = Finish(&queue);
        let mut scratch = Scratch::default();
        futures::executor::block_on(fetch(shared, &queue, has_help, &mut |fetched| {
            consume(fetched, &mut scratch);
        }));
        drop(finish);
        while let Some(fetched) = queue.try_pop() {
            consume(fetched, &mut scratch);
        }
    });
}

/// Fetches all batches. Works on batches itself if nobody helps, or the others are too slow.
async fn fetch<P: Send>(
    shared: &Shared<'_, P>,
    queue: &Queue<Fetched<P>>,
    has_help: bool,
    consume: &mut dyn FnMut(Fetched<P>),
) {
    let concurrency = shared.files.options.concurrency.max(1);
    let opening = Opening::default();
    let mut requests = FuturesUnordered::new();
    let mut requested = 0_u64;
    let mut next = shared.next();
    loop {
        while let Some(batch) = next.take_if(|batch| {
            let bytes = requested.saturating_add(queue.bytes()).saturating_add(batch.span.length);
            requests.is_empty() || requests.len() < concurrency && bytes <= IN_FLIGHT
        }) {
            requested += batch.span.length;
            requests.push(request(shared.files, &opening, batch));
            next = shared.next();
        }
        let is_interrupted = || shared.is_interrupted();
        let interrupt = shared.files.interrupt.map(|_| &is_interrupted as &dyn Fn() -> bool);
        let Some(fetched) = interruptible(requests.next(), interrupt).await else { return };
        let Some(fetched) = fetched else { return };
        let bytes = fetched.0.span.length;
        requested -= bytes;
        queue.push(fetched, bytes);
        while (!has_help || queue.bytes() > IN_FLIGHT / 2)
            && let Some(fetched) = queue.try_pop()
        {
            consume(fetched);
        }
        if shared.is_stopped() {
            return;
        }
    }
}

/// Files that are being opened, each by one future that all its batches await.
type Opening<'a> =
    RefCell<BTreeMap<SourceId, future::Shared<LocalBoxFuture<'a, Result<Arc<Object>, ArrayError>>>>>;

async fn request<'a, P>(files: Files<'a>, opening: &Opening<'a>, batch: Batch<P>) -> Fetched<P> {
    let bytes = match batch.source {
        Some(source) => read(files, opening, source, batch.span).await,
        None => Ok(bytes::Bytes::new()),
    };
    (batch, bytes)
}

async fn read<'a>(
    files: Files<'a>,
    opening: &Opening<'a>,
    source: SourceId,
    span: ByteRange,
) -> Result<bytes::Bytes, ArrayError> {
    let open = || async move { files.open(source).await }.boxed_local().shared();
    let opened = opening.borrow_mut().entry(source).or_insert_with(open).clone();
    let object = opened.await;
    // From now on, the pool keeps the file.
    opening.borrow_mut().remove(&source);
    let object = object?;
    let bytes = object.read_once(span).await.map_err(ArrayError::of_store)?;
    object.verify().map_err(ArrayError::of_store)?;
    Ok(bytes)
}

/// Helping threads of all runs together.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of cores.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A share of the helping threads.
pub(crate) struct Helpers(pub(crate) usize);

impl Helpers {
    /// Takes up to `wanted` threads, as long as no more than the cores of the machine are busy.
    pub(crate) fn take(wanted: usize) -> Self {
        let mut taken = 0;
        let take = |busy: usize| {
            taken = wanted.min(cores().saturating_sub(busy));
            Some(busy + taken)
        };
        let _ = BUSY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Self(taken)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        BUSY.fetch_sub(self.0, Ordering::Relaxed);
    }
}
