//! Runs work on chunks of remote files: the calling thread fetches, others decode.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use futures::future::{self, FutureExt, LocalBoxFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use virtualize_bytes::ByteRange;
use virtualize_store::Object;
use virtualize_zarr::{Reference, SourceId};

use super::fetch::{Files, of_store};
use super::plan::{Batch, Merging};
use super::queue::{Finish, Queue};
use super::run::{Scratch, Shared, Work};
use crate::error::ArrayError;

/// A connection transfers the bytes of a gap in a few milliseconds, which is less than the latency of a request.
pub(super) const MERGING: Merging = Merging { gap: 512 << 10, longest: 1 << 20 };
/// Most bytes that are requested or wait to be decoded.
const IN_FLIGHT: u64 = 64 << 20;

/// A batch with its bytes.
type Fetched<P> = (Batch<P>, Result<Bytes, ArrayError>);

/// Fetches and works on all batches, with the help of other threads.
pub(super) fn run<P, I, W>(shared: &Shared<'_, P, I, W>, helpers: usize)
where
    P: Send,
    I: Iterator<Item = Result<(P, Option<Reference>), ArrayError>> + Send,
    W: Work<P>,
{
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
async fn fetch<P, I, W>(
    shared: &Shared<'_, P, I, W>,
    queue: &Queue<Fetched<P>>,
    has_help: bool,
    consume: &mut dyn FnMut(Fetched<P>),
) where
    P: Send,
    I: Iterator<Item = Result<(P, Option<Reference>), ArrayError>> + Send,
    W: Work<P>,
{
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
        let Some(fetched) = requests.next().await else { return };
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
        None => Ok(Bytes::new()),
    };
    (batch, bytes)
}

async fn read<'a>(
    files: Files<'a>,
    opening: &Opening<'a>,
    source: SourceId,
    span: ByteRange,
) -> Result<Bytes, ArrayError> {
    let open = || async move { files.open(source).await }.boxed_local().shared();
    let opened = opening.borrow_mut().entry(source).or_insert_with(open).clone();
    let object = opened.await;
    // From now on, the pool keeps the file.
    opening.borrow_mut().remove(&source);
    let object = object?;
    let bytes = object.read_once(span).await.map_err(of_store)?;
    object.verify().map_err(of_store)?;
    Ok(bytes)
}
