//! Metrics for Prometheus.

use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// The metrics of the service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Requests by route and status.
    pub(crate) requests: IntCounterVec,
    /// Duration from the head of a request to the end of its response, by route.
    pub(crate) seconds: HistogramVec,
    pub(crate) in_flight: IntGauge,
    /// Bytes of responses, by route.
    pub(crate) bytes: IntCounterVec,
    /// Lookups by cache (`references`, `stores`) and outcome (`hit`, `miss`).
    pub(crate) cache: IntCounterVec,
    /// Jobs by state, at the time of the scrape.
    pub(crate) jobs: IntGaugeVec,
    /// Reserved bytes of the memory budget, at the time of the scrape.
    pub(crate) memory: IntGauge,
    pub(crate) source_requests: IntCounter,
    pub(crate) source_bytes: IntCounter,
}

impl Metrics {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let named = |name: &str, help: &str| Opts::new(format!("virtualize_{name}"), help);
        let seconds = HistogramOpts::new("virtualize_request_seconds", "Seconds until an answer was taken")
            .buckets(vec![0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]);
        let this = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(named("requests_total", "Requests"), &["route", "status"])?,
            seconds: HistogramVec::new(seconds, &["route"])?,
            in_flight: IntGauge::with_opts(named("requests_in_flight", "Requests under way"))?,
            bytes: IntCounterVec::new(named("response_bytes_total", "Bytes of answers"), &["route"])?,
            cache: IntCounterVec::new(
                named("cache_lookups_total", "Lookups in a cache"),
                &["cache", "outcome"],
            )?,
            jobs: IntGaugeVec::new(named("jobs", "Jobs"), &["state"])?,
            memory: IntGauge::with_opts(named(
                "memory_held_bytes",
                "Bytes of the budget of memory that are taken",
            ))?,
            source_requests: IntCounter::with_opts(named("source_requests_total", "Requests to sources"))?,
            source_bytes: IntCounter::with_opts(named("source_bytes_total", "Bytes from sources"))?,
        };
        this.registry.register(Box::new(this.requests.clone()))?;
        this.registry.register(Box::new(this.seconds.clone()))?;
        this.registry.register(Box::new(this.in_flight.clone()))?;
        this.registry.register(Box::new(this.bytes.clone()))?;
        this.registry.register(Box::new(this.cache.clone()))?;
        this.registry.register(Box::new(this.jobs.clone()))?;
        this.registry.register(Box::new(this.memory.clone()))?;
        this.registry.register(Box::new(this.source_requests.clone()))?;
        this.registry.register(Box::new(this.source_bytes.clone()))?;
        Ok(this)
    }

    /// Counts a lookup in a cache.
    pub(crate) fn looked_up(&self, cache: &str, found: bool) {
        self.cache.with_label_values(&[cache, if found { "hit" } else { "miss" }]).inc();
    }

    /// Encodes the metrics in the text exposition format.
    pub(crate) fn text(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text).ok()?;
        Some(text)
    }
}
