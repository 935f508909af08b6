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
use tokio_util::sync::CancellationToken;

use super::{Job, Shown};

/// Minimum interval between two events.
const PAUSE: Duration = Duration::from_millis(300);
/// Interval between comments while nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// Permits for the event stream: the client's and the shared one.
pub(super) type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// The state of an event stream.
struct Feed {
    changes: watch::Receiver<Shown>,
    /// Version that the client has.
    last: Option<u64>,
    /// Earliest time of the next event.
    next: Instant,
    /// Time at which the stream ends; the client reconnects.
    until: Instant,
    stopping: CancellationToken,
    over: bool,
    _place: Places,
}

/// Builds the response: events until the job has ended, for at most `most`.
pub(super) fn answer(
    job: &Arc<Job>,
    headers: &HeaderMap,
    stopping: CancellationToken,
    place: Places,
    most: Duration,
) -> Response {
    let last = headers.get(LAST).and_then(|id| id.to_str().ok()?.parse().ok());
    let feed = Feed {
        changes: job.shown.subscribe(),
        last,
        next: Instant::now(),
        until: Instant::now() + most,
        stopping,
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
        loop {
            tokio::select! {
                () = sleep_until(self.next) => {}
                () = self.stopping.cancelled() => return None,
            }
            let Shown { version, record } = self.changes.borrow_and_update().clone();
            let ends = record.state.is_over();
            if self.last != Some(version) || ends {
                let name = if ends { "done" } else { "progress" };
                (self.last, self.over, self.next) = (Some(version), ends, Instant::now() + PAUSE);
                let shown = record.shown();
                return Some(format!("retry: 2000\nid: {version}\nevent: {name}\ndata: {shown}\n\n"));
            }
            tokio::select! {
                // The channel closes when the job is removed.
                changed = self.changes.changed() => changed.ok()?,
                () = sleep(HEARTBEAT) => return Some(": still here\n\n".to_owned()),
                () = self.stopping.cancelled() => return None,
                () = sleep_until(self.until) => return None,
            }
        }
    }
}
