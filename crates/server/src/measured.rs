//! The metrics of one route, looked up once: looking up labels on each request costs more than counting.

use std::{array, sync::OnceLock};

use axum::http::StatusCode;
use prometheus::{Histogram, IntCounter};

use crate::{guard::Access, metrics::Metrics};

/// Statuses from 100 to 599.
const STATUSES: usize = 500;

/// A route: its path, the access that it requires, and its metrics.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    seconds: Histogram,
    bytes: IntCounter,
    requests: [OnceLock<IntCounter>; STATUSES],
}

impl Route {
    pub(crate) fn new(path: &'static str, access: Access, metrics: &Metrics) -> Self {
        Self {
            path,
            access,
            seconds: metrics.seconds.with_label_values(&[path]),
            bytes: metrics.bytes.with_label_values(&[path]),
            requests: array::from_fn(|_| OnceLock::new()),
        }
    }

    /// Counts a response.
    pub(crate) fn count(&self, metrics: &Metrics, status: StatusCode, seconds: f64, bytes: u64) {
        let label = || metrics.requests.with_label_values(&[self.path, status.as_str()]);
        match self.requests.get(usize::from(status.as_u16().saturating_sub(100))) {
            Some(counter) => counter.get_or_init(label).inc(),
            None => label().inc(),
        }
        self.seconds.observe(seconds);
        self.bytes.inc_by(bytes);
    }
}
