//! A connection with timeouts: the client must send a request head, and receive its response, within set times.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures::task::AtomicWaker;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Config, tick::Ticks};

/// Minimum number of bytes that the client must receive within the write timeout, unless fewer are left to send.
const LEAST: u64 = 32 << 10;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Time to receive the head of a request, from its first byte; for the first request, from the start of the
    /// connection.
    head: Duration,
    /// Time until the next request begins.
    idle: Duration,
    /// Time to send the minimum part of a response.
    write: Duration,
}

impl Times {
    pub(crate) fn of(config: &Config) -> Self {
        Self { head: config.times.header, idle: config.times.idle, write: config.times.write }
    }
}

/// What a connection is waiting for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The rest of a request's head.
    Head,
    /// The service's response to a request; no read timeout applies.
    Answer,
    /// The next request.
    Idle,
}

/// The phase of a connection, shared by its byte stream and its request handler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phases(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// The task that reads. It is woken when a response ends, to start the idle timeout.
    reader: AtomicWaker,
}

impl Phases {
    /// Begins a request. The request ends when the returned guard is dropped.
    pub(crate) fn request(&self) -> Answering {
        self.set(Phase::Answer);
        Answering(self.clone())
    }

    fn set(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Ordering::Release);
    }

    fn get(&self) -> Phase {
        match self.0.phase.load(Ordering::Acquire) {
            0 => Phase::Head,
            1 => Phase::Answer,
            _ => Phase::Idle,
        }
    }
}

/// A request whose response is in progress.
#[derive(Debug)]
pub(crate) struct Answering(Phases);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(Phase::Idle);
        self.0.0.reader.wake();
    }
}

impl Answering {
    /// Wraps the body of the response, so that the request ends when the body is dropped.
    pub(crate) fn body(self, inner: Body) -> Body {
        Body::new(AnswerBody { inner, _answering: self })
    }
}

struct AnswerBody {
    inner: Body,
    _answering: Answering,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(task)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A connection that enforces the timeouts.
pub(crate) struct Timed<S> {
    stream: S,
    times: Times,
    phases: Phases,
    /// The read timeout that runs while no bytes arrive, with the phase in which it was started.
    reading: Option<(Phase, Ticks)>,
    /// The write timeout that runs while the client receives too little, with the bytes received since it was started.
    writing: Option<(u64, Ticks)>,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, times: Times, phases: Phases) -> Self {
        Self { stream, times, phases, reading: None, writing: None }
    }

    /// Returns whether the client has exceeded the timeout of the current phase. Called when no bytes are available.
    fn is_silent_for_long(&mut self, task: &mut Context<'_>) -> bool {
        self.phases.0.reader.register(task.waker());
        let phase = self.phases.get();
        let time = match phase {
            Phase::Head => self.times.head,
            Phase::Idle if self.writing.is_none() => self.times.idle,
            // The client must receive what was sent first.
            Phase::Idle | Phase::Answer => {
                self.reading = None;
                return false;
            }
        };
        if self.reading.as_ref().is_none_or(|(begun, _)| *begun != phase) {
            self.reading = Some((phase, Ticks::new(time)));
        }
        self.reading.as_mut().is_some_and(|(_, ticks)| Pin::new(ticks).poll(task).is_ready())
    }

    /// Checks the result of a write of `offered` bytes. Fails if the client has received too little within the write
    /// timeout.
    fn taken(
        &mut self,
        task: &mut Context<'_>,
        offered: usize,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(Ok(count)) => {
                if let Some((taken, _)) = &mut self.writing {
                    *taken = taken.saturating_add(*count as u64);
                }
                let is_enough = *count >= offered;
                self.writing.take_if(|(taken, _)| is_enough || *taken >= LEAST);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let time = self.times.write;
                let (_, ticks) = self.writing.get_or_insert_with(|| (0, Ticks::new(time)));
                if Pin::new(ticks).poll(task).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(task, buffer) {
            if buffer.filled().len() > before && self.phases.get() == Phase::Idle {
                self.phases.set(Phase::Head);
            }
            return Poll::Ready(read);
        }
        match self.is_silent_for_long(task) {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.taken(task, bytes.len(), polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(task, slices);
        self.taken(task, offered, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::timeout,
    };

    use super::*;

    const SHORT: Duration = Duration::from_millis(80);
    const LONG: Duration = Duration::from_secs(60);

    /// Returns both ends of a connection, of which the first enforces `times`.
    fn pair(times: Times) -> (Timed<DuplexStream>, DuplexStream, Phases) {
        let (ours, theirs) = duplex(1024);
        let phases = Phases::default();
        (Timed::new(ours, times, phases.clone()), theirs, phases)
    }

    #[tokio::test]
    async fn heads_have_a_time_and_answers_have_none() {
        let (mut ours, mut theirs, phases) = pair(Times { head: SHORT, idle: LONG, write: LONG });
        theirs.write_all(b"GET").await.unwrap();
        let mut read = [0; 3];
        ours.read_exact(&mut read).await.unwrap();
        let request = phases.request();
        assert!(timeout(SHORT * 4, ours.read_u8()).await.is_err(), "the answer takes as long as it takes");
        drop(request);
        assert!(timeout(SHORT * 4, ours.read_u8()).await.is_err(), "a client may rest");
        theirs.write_all(b"G").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'G');
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn heads_that_drip_get_no_more_time() {
        let (mut ours, mut theirs, _) = pair(Times { head: SHORT, idle: LONG, write: LONG });
        let dripping = tokio::spawn(async move {
            while theirs.write_all(b"x").await.is_ok() {
                tokio::time::sleep(SHORT / 8).await;
            }
        });
        let ended = async { while ours.read_u8().await.is_ok() {} };
        timeout(LONG, ended).await.unwrap();
        drop(ours);
        dripping.await.unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_waits_begins_to_count_when_the_answer_ends() {
        let (mut ours, _theirs, phases) = pair(Times { head: LONG, idle: SHORT, write: LONG });
        let request = phases.request();
        let ending = async {
            tokio::time::sleep(SHORT).await;
            drop(request);
        };
        let (read, ()) = timeout(LONG, async { tokio::join!(ours.read_u8(), ending) }).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn clients_that_rest_for_long_are_left() {
        let (mut ours, _theirs, phases) = pair(Times { head: LONG, idle: SHORT, write: LONG });
        drop(phases.request());
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_takes_a_byte_now_and_then_is_left() {
        let (mut ours, mut theirs, _) = pair(Times { head: LONG, idle: LONG, write: SHORT });
        let taking = tokio::spawn(async move {
            while theirs.read_u8().await.is_ok() {
                tokio::time::sleep(SHORT / 8).await;
            }
        });
        let written = timeout(LONG, ours.write_all(&vec![0; 1 << 20])).await.unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(ours);
        taking.await.unwrap();
    }

    #[tokio::test]
    async fn who_takes_enough_is_not() {
        let (mut ours, mut theirs, _) =
            pair(Times { head: LONG, idle: LONG, write: Duration::from_secs(20) });
        let taking = tokio::spawn(async move {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).await.unwrap();
            all.len()
        });
        ours.write_all(&vec![0; 1 << 20]).await.unwrap();
        drop(ours);
        assert_eq!(taking.await.unwrap(), 1 << 20);
    }
}
