//! The body of a response. It counts bytes, enforces the response timeout, and holds the permits of its request until
//! the end.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{Method, StatusCode},
};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

use crate::{client::Identity, measured::Route, metrics::Metrics, queue::Place, quota::Holds, rate::Rate};

/// The access-log entry of a request, written on drop.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) route: Arc<Route>,
    pub(crate) client: Arc<Identity>,
    /// The limit of the client's bytes.
    pub(crate) rate: Arc<Rate>,
    pub(crate) status: StatusCode,
    pub(crate) start: Instant,
    pub(crate) bytes: u64,
    /// Whether the response was sent completely.
    pub(crate) whole: bool,
    /// Place in the queue: the client's part is held until the response ends.
    pub(crate) place: Option<Place>,
    /// Budget shares that are held until the response ends.
    pub(crate) holds: Holds,
}

impl Entry {
    /// Counts bytes of the response.
    fn sent(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.rate.charge(&self.client.name, bytes, Instant::now());
    }
}

/// Logs and counts the request when its response has been sent or the client has disconnected.
impl Drop for Entry {
    fn drop(&mut self) {
        let seconds = self.start.elapsed().as_secs_f64();
        self.metrics.in_flight.dec();
        self.route.count(&self.metrics, self.status, seconds, self.bytes);
        tracing::info!(
            target: "virtualize_server::access",
            request_id = %self.id,
            client = %self.client.name,
            method = %self.method,
            route = self.route.path,
            status = self.status.as_u16(),
            bytes = self.bytes,
            seconds,
            whole = self.whole,
            "request"
        );
    }
}

/// A body with its entry and its deadline.
pub(crate) struct Watched {
    inner: Body,
    entry: Entry,
    deadline: Instant,
    /// Wakes the task at the deadline; only a response that is not ready needs it.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    /// Wraps a body, which fails if it is not sent within `most`.
    pub(crate) fn body(inner: Body, mut entry: Entry, most: Duration) -> Body {
        entry.whole = inner.is_end_stream();
        Body::new(Self { inner, entry, deadline: Instant::now() + most, timer: None })
    }
}

impl Watched {
    /// Returns `Ready` at the deadline.
    fn timer(&mut self, task: &mut Task<'_>) -> Poll<()> {
        let deadline = self.deadline.into();
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        timer.as_mut().poll(task)
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(task) {
            Poll::Ready(frame) if Instant::now() < self.deadline => frame,
            Poll::Pending if self.timer(task).is_pending() => return Poll::Pending,
            _ => return Poll::Ready(Some(Err(axum::Error::new("the response was not received in time")))),
        };
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.entry.sent(bytes);
                self.entry.whole = self.inner.is_end_stream();
            }
            Some(Err(error)) => {
                tracing::warn!(request_id = %self.entry.id, "a response was cut off: {error}")
            }
            None => self.entry.whole = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
