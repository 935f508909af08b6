//! Counts of requests and bytes.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Server;

/// Maximum number of requests that the log keeps.
const LOGGED: usize = 20_000;

#[derive(Default)]
pub(crate) struct Stats {
    requests: u64,
    bytes: u64,
    open: u64,
    peak: u64,
    rounds: u64,
    /// Start of the latest round.
    round: Option<Instant>,
    log: Vec<Value>,
}

impl Stats {
    fn start(&mut self, latency: Duration) {
        self.requests += 1;
        let waited =
            self.round.is_none_or(|start| !latency.is_zero() && start.elapsed() >= latency.mul_f64(0.9));
        if self.open == 0 || waited {
            self.rounds += 1;
            self.round = Some(Instant::now());
        }
        self.open += 1;
        self.peak = self.peak.max(self.open);
    }

    pub(crate) fn record(&mut self, method: &Method, name: &str, range: &Range<u64>, start: SystemTime) {
        let length = range.end - range.start;
        if method != Method::HEAD {
            self.bytes += length;
        }
        if self.log.len() < LOGGED {
            self.log.push(json!([method.as_str(), name, range.start, length, seconds(start)]));
        }
    }

    pub(crate) fn reset(&mut self) {
        *self = Self { open: self.open, ..Self::default() };
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self { requests, bytes, peak, rounds, log, .. } = self;
        json!({ "requests": requests, "bytes": bytes, "peak": peak, "rounds": rounds, "log": log })
    }
}

/// A request that has no whole answer yet.
pub(crate) struct Open(Arc<Server>);

impl Open {
    pub(crate) fn new(server: &Arc<Server>) -> Self {
        server.stats.lock().unwrap().start(server.latency);
        Self(Arc::clone(server))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.stats.lock().unwrap().open -= 1;
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
