//! Metrics for Prometheus.

use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder, core::Collector,
};

/// Upper bounds of the buckets of histograms of times.
const SECONDS: [f64; 11] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Value of the label `source` for files outside the allowed prefixes of the service.
const OTHER: &str = "other";

/// The metrics of the service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Requests by route and status.
    pub(crate) requests: IntCounterVec,
    /// Time until a response begins, by route.
    pub(crate) seconds: HistogramVec,
    pub(crate) in_flight: IntGauge,
    /// Lookups in the cache of mapped files by outcome (`hit`, `miss`).
    pub(crate) cache: IntCounterVec,
    /// Reserved bytes of the memory budget, at the time of the scrape, and its size.
    pub(crate) memory: IntGauge,
    pub(crate) memory_limit: IntGauge,
    /// Files that are being mapped, and that wait for it.
    pub(crate) mapping: IntGauge,
    pub(crate) mappings_waiting: IntGauge,
    /// Memory and descriptors of the process, at the time of the scrape.
    resident: IntGauge,
    descriptors: IntGauge,
    /// Traffic by source.
    source_requests: IntCounterVec,
    source_bytes: IntCounterVec,
    source_errors: IntCounterVec,
    mapping_seconds: HistogramVec,
    /// The allowed prefixes, longest first, and their traffic.
    sources: Vec<(String, SourceTraffic)>,
}

/// Metrics of one source. The name of a source is the allowed prefix that its files have.
#[derive(Clone, Debug)]
pub(crate) struct SourceTraffic {
    pub(crate) requests: IntCounter,
    pub(crate) bytes: IntCounter,
    /// Files that could not be opened or mapped.
    pub(crate) errors: IntCounter,
    /// Seconds to open and map a file.
    pub(crate) mapping_seconds: Histogram,
}

impl SourceTraffic {
    /// Counts a request that received this many bytes.
    pub(crate) fn request(&self, bytes: u64) {
        self.requests.inc();
        self.bytes.inc_by(bytes);
    }
}

/// Increments a gauge while it exists.
#[derive(Debug)]
pub(crate) struct Counted(IntGauge);

impl Counted {
    pub(crate) fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Creates and registers metrics, whose names begin with `virtualize_`.
struct New(Registry);

impl New {
    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> prometheus::Result<C> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn named(name: &str, help: &str) -> Opts {
        Opts::new(format!("virtualize_{name}"), help)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.add(IntCounterVec::new(Self::named(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.add(IntGauge::with_opts(Self::named(name, help))?)
    }

    fn times(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<HistogramVec> {
        let options = HistogramOpts::from(Self::named(name, help)).buckets(SECONDS.to_vec());
        self.add(HistogramVec::new(options, labels)?)
    }
}

impl Metrics {
    /// Creates the metrics of a service that may read these prefixes.
    pub(crate) fn new(prefixes: &[&str]) -> prometheus::Result<Self> {
        let new = New(Registry::new());
        let of_process = |name: &str, help: &str| new.add(IntGauge::new(name, help)?);
        let mut this = Self {
            requests: new.counters("requests_total", "Requests", &["route", "status"])?,
            seconds: new.times("request_seconds", "Seconds until a response began", &["route"])?,
            in_flight: new.gauge("requests_in_flight", "Requests in progress")?,
            cache: new.counters("cache_lookups_total", "Lookups of mapped files", &["outcome"])?,
            memory: new.gauge("memory_held_bytes", "Reserved bytes of the memory budget")?,
            memory_limit: new.gauge("memory_limit_bytes", "Memory budget")?,
            mapping: new.gauge("mappings_in_progress", "Files that are being mapped")?,
            mappings_waiting: new.gauge("mappings_waiting", "Files that wait to be mapped")?,
            mapping_seconds: new.times("mapping_seconds", "Seconds to open and map a file", &["source"])?,
            source_requests: new.counters("source_requests_total", "Requests to sources", &["source"])?,
            source_bytes: new.counters("source_bytes_total", "Bytes from sources", &["source"])?,
            source_errors: new.counters("source_errors_total", "Files that failed", &["source"])?,
            resident: of_process("process_resident_memory_bytes", "Resident memory of the process")?,
            descriptors: of_process("process_open_fds", "Open file descriptors of the process")?,
            sources: Vec::new(),
            registry: new.0,
        };
        let mut names: Vec<_> = prefixes.iter().map(|prefix| prefix.trim_end_matches('/')).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        this.sources = names.into_iter().map(|name| (name.to_owned(), this.traffic(name))).collect();
        Ok(this)
    }

    /// Returns the metrics of a source by its name.
    pub(crate) fn traffic(&self, name: &str) -> SourceTraffic {
        SourceTraffic {
            requests: self.source_requests.with_label_values(&[name]),
            bytes: self.source_bytes.with_label_values(&[name]),
            errors: self.source_errors.with_label_values(&[name]),
            mapping_seconds: self.mapping_seconds.with_label_values(&[name]),
        }
    }

    /// Returns the metrics of the source that a file with this canonical URL belongs to.
    pub(crate) fn traffic_of(&self, url: &str) -> SourceTraffic {
        let is_below =
            |name: &str| url.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let found = self.sources.iter().find(|(name, _)| is_below(name));
        found.map_or_else(|| self.traffic(OTHER), |(_, traffic)| traffic.clone())
    }

    /// Reads the memory and descriptors of the process, which only Linux reports.
    pub(crate) fn read_process(&self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix(" kB"));
        if let Some(kibibytes) = resident.and_then(|text| text.trim().parse::<i64>().ok()) {
            self.resident.set(kibibytes.saturating_mul(1024));
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            self.descriptors.set(i64::try_from(open.count()).unwrap_or(i64::MAX));
        }
    }

    /// Counts a lookup in the cache.
    pub(crate) fn looked_up(&self, found: bool) {
        self.cache.with_label_values(&[if found { "hit" } else { "miss" }]).inc();
    }

    /// Encodes the metrics in the text exposition format.
    pub(crate) fn text(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text).ok()?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_longest_prefix_of_a_file() {
        let metrics = Metrics::new(&["s3://b/", "s3://b/deep/", "file:///data"]).unwrap();
        for url in
            ["s3://b/x", "s3://b/deep/x", "s3://b/deeper", "file:///data/a/b", "https://host/x", "s3://bb/x"]
        {
            metrics.traffic_of(url).request(10);
        }
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        for (source, count) in [("s3://b", 2), ("s3://b/deep", 1), ("file:///data", 1), ("other", 2)] {
            let line = format!("virtualize_source_requests_total{{source=\"{source}\"}} {count}\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
