//! Server-sent events of a job (WHATWG HTML, section 9.2). Each event carries the complete current record, so that a
//! client that reconnects has missed nothing. The event id is the version of the record.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep, sleep_until},
};

use super::{Inner, Jobs, POLL, record::Record};

/// Minimum interval between two events.
const PAUSE: Duration = Duration::from_millis(300);
/// Minimum interval between two looks at the folder.
const SHORT: Duration = Duration::from_millis(50);
/// Interval between comments while nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// Permits for the event stream: the client's and the shared one.
pub(super) type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// The state of an event stream.
struct Feed {
    jobs: Arc<Inner>,
    id: String,
    /// Changes that this instance makes. For those of other instances, the stream looks at regular intervals.
    changes: watch::Receiver<()>,
    /// Version that the client has.
    last: Option<u64>,
    /// Earliest time of the next event.
    next: Instant,
    /// Time of the next comment if there is no event before.
    heartbeat: Instant,
    /// Time at which the stream ends; the client reconnects.
    until: Instant,
    over: bool,
    _place: Places,
}

/// Builds the response: events until the job has ended, for at most `most`.
pub(super) fn answer(
    jobs: &Jobs,
    id: String,
    headers: &HeaderMap,
    place: Places,
    most: Duration,
) -> Response {
    let last = headers.get(LAST).and_then(|id| id.to_str().ok()?.parse().ok());
    let now = Instant::now();
    let feed = Feed {
        changes: jobs.inner.folder.changes(),
        jobs: Arc::clone(&jobs.inner),
        id,
        last,
        next: now,
        heartbeat: now + HEARTBEAT,
        until: now + most,
        over: false,
        _place: place,
    };
    let events = stream::unfold(feed, |mut feed| async move {
        let text = feed.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), feed))
    });
    let mut response = Body::from_stream(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Disables response buffering in proxies.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

impl Feed {
    /// Returns the next event or comment; `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        let stopping = self.jobs.stopping.clone();
        loop {
            tokio::select! {
                () = sleep_until(self.next) => {}
                () = stopping.cancelled() => return None,
            }
            self.changes.borrow_and_update();
            let record = self.record().await?;
            let (version, ends) = (record.version, record.state.is_over());
            if self.last.is_none_or(|last| version > last) || ends {
                let (name, now) = (if ends { "done" } else { "progress" }, Instant::now());
                (self.last, self.over) = (Some(version), ends);
                (self.next, self.heartbeat) = (now + PAUSE, now + HEARTBEAT);
                let shown = record.shown();
                return Some(format!("retry: 2000\nid: {version}\nevent: {name}\ndata: {shown}\n\n"));
            }
            tokio::select! {
                _ = self.changes.changed() => self.next = Instant::now() + SHORT,
                () = sleep(POLL) => {}
                () = sleep_until(self.heartbeat) => {
                    self.heartbeat += HEARTBEAT;
                    return Some(": still here\n\n".to_owned());
                }
                () = stopping.cancelled() => return None,
                () = sleep_until(self.until) => return None,
            }
        }
    }

    /// Reads the record of the job; `None` if it was removed or cannot be read.
    async fn record(&self) -> Option<Record> {
        let (jobs, id) = (Arc::clone(&self.jobs), self.id.clone());
        let read = tokio::task::spawn_blocking(move || jobs.folder.get(&id)).await;
        read.ok()?.ok()?.map(|entry| entry.record.clone())
    }
}
