//! The body of a response. It counts bytes, enforces the response timeout, and holds the permits of its request until
//! the end.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll, ready},
    time::{Duration, Instant},
};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::Sleep};

use crate::{metrics::Metrics, quota::Holds};

/// The access-log entry of a request, written on drop.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) route: String,
    pub(crate) client: String,
    pub(crate) status: u16,
    pub(crate) start: Instant,
    pub(crate) bytes: u64,
    /// Whether the response was sent completely.
    pub(crate) whole: bool,
    /// Permits for the request, the client's and the shared one, held until the response ends.
    pub(crate) places: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    /// Budget shares that are held until the response ends.
    pub(crate) holds: Holds,
}

/// Logs and counts the request when its response has been sent or the client has disconnected.
impl Drop for Entry {
    fn drop(&mut self) {
        let metrics = &self.metrics;
        let seconds = self.start.elapsed().as_secs_f64();
        metrics.in_flight.dec();
        metrics.requests.with_label_values(&[&self.route, &self.status.to_string()]).inc();
        metrics.seconds.with_label_values(&[&self.route]).observe(seconds);
        metrics.bytes.with_label_values(&[&self.route]).inc_by(self.bytes);
        tracing::info!(
            target: "virtualize_server::access",
            request_id = %self.id,
            client = %self.client,
            method = %self.method,
            route = %self.route,
            status = self.status,
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
    deadline: Pin<Box<Sleep>>,
}

impl Watched {
    /// Wraps a body, which fails if it is not sent within `most`.
    pub(crate) fn body(inner: Body, mut entry: Entry, most: Duration) -> Body {
        entry.whole = inner.is_end_stream();
        Body::new(Self { inner, entry, deadline: Box::pin(tokio::time::sleep(most)) })
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.deadline.as_mut().poll(task).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new("the answer was not taken in time"))));
        }
        let frame = ready!(Pin::new(&mut self.inner.frame()).poll(task));
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.entry.bytes = self.entry.bytes.saturating_add(bytes);
                self.entry.whole = self.inner.is_end_stream();
            }
            Some(Err(error)) => tracing::warn!(request_id = %self.entry.id, "an answer was cut off: {error}"),
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
