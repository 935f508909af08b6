//! Metrics of a run for Prometheus: a file for the textfile collector of node_exporter, or pushed to a Pushgateway.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use prometheus::{Counter, Encoder, Gauge, Opts, Registry, TextEncoder, core::Collector};
use tokio::task::JoinHandle;
use virtualize::{Code, Stats};

use crate::{
    archive::tally::{Tally, unix},
    messages,
};

/// Time between two updates.
const BETWEEN: Duration = Duration::from_secs(5);
/// Maximum time of a push.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of attempts of the last push.
const ATTEMPTS: u32 = 3;
/// Name of the metric that outlives the run: it keeps its value until another run succeeds.
const LAST_SUCCESS: &str = "virtualize_batch_last_success_timestamp_seconds";

/// Returns the requests of a run so far.
type Requests = Box<dyn Fn() -> Stats + Send + Sync>;

/// Metrics that are updated every few seconds until [`Metrics::finish`].
pub(crate) struct Metrics {
    publisher: Arc<Publisher>,
    updates: JoinHandle<()>,
}

struct Publisher {
    target: Target,
    /// The output of the run, which is a label of all metrics: several runs may share a collector.
    output: String,
    tally: Arc<Mutex<Tally>>,
    requests: Requests,
    /// Time of the last run that succeeded, as the file had it before this run.
    last_success: Option<f64>,
}

enum Target {
    File(PathBuf),
    Push(reqwest::Client, reqwest::Url),
}

impl Metrics {
    /// Starts to publish to `place`, a path or the URL of a group of a Pushgateway.
    pub(crate) fn start(
        place: &str,
        output: &str,
        tally: Arc<Mutex<Tally>>,
        requests: Requests,
    ) -> io::Result<Self> {
        let target = Target::of(place)?;
        let last_success = if let Target::File(path) = &target { last_success(path) } else { None };
        let publisher = Publisher { target, output: output.to_owned(), tally, requests, last_success };
        if let Target::File(path) = &publisher.target {
            write(path, &publisher.text(None)?)?;
        }
        let publisher = Arc::new(publisher);
        let updates = tokio::spawn({
            let publisher = Arc::clone(&publisher);
            async move { publisher.update().await }
        });
        Ok(Self { publisher, updates })
    }

    /// Publishes the final counts. A failure is a warning: the run itself is done.
    pub(crate) async fn finish(self, succeeded: bool) {
        self.updates.abort();
        let _ = self.updates.await;
        let success = succeeded.then(|| unix(SystemTime::now()));
        let mut result = self.publisher.publish(success).await;
        for attempt in 1..ATTEMPTS {
            if result.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(attempt.into())).await;
            result = self.publisher.publish(success).await;
        }
        if let Err(reason) = result {
            messages::line(&format!("warning: the metrics are not up to date: {reason} [{}]", Code::Metrics));
        }
    }
}

impl Publisher {
    /// Publishes the counts at intervals, for ever. The first failure is a warning.
    async fn update(&self) {
        let mut failed = false;
        loop {
            if let Err(reason) = self.publish(None).await
                && !std::mem::replace(&mut failed, true)
            {
                messages::line(&format!("warning: metrics: {reason} [{}]", Code::Metrics));
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    async fn publish(&self, success: Option<f64>) -> Result<(), String> {
        let text = self.text(success).map_err(|error| error.to_string())?;
        match &self.target {
            Target::File(path) => write(path, &text).map_err(|error| format!("{}: {error}", path.display())),
            Target::Push(client, url) => push(client, url, text).await,
        }
    }

    /// Encodes the metrics in the text exposition format.
    fn text(&self, success: Option<f64>) -> io::Result<Vec<u8>> {
        let families = Families::new(&self.output).and_then(|families| {
            families.add(&self.tally.lock().unwrap_or_else(PoisonError::into_inner), &(self.requests)())?;
            if let Some(time) = success.or(self.last_success) {
                families.gauge(
                    "last_success_timestamp_seconds",
                    "Time of the last run that succeeded",
                    time,
                )?;
            }
            let mut text = Vec::new();
            TextEncoder::new().encode(&families.registry.gather(), &mut text)?;
            Ok(text)
        });
        families.map_err(io::Error::other)
    }
}

/// Builds metrics whose names begin with `virtualize_batch_`.
struct Families {
    registry: Registry,
}

impl Families {
    /// Returns no metrics yet; each will have the label `output`.
    fn new(output: &str) -> prometheus::Result<Self> {
        let labels = [("output".to_owned(), output.to_owned())].into();
        Ok(Self { registry: Registry::new_custom(Some("virtualize_batch".to_owned()), Some(labels))? })
    }

    /// Adds the counts of a run.
    fn add(&self, tally: &Tally, stats: &Stats) -> prometheus::Result<()> {
        let failed = tally.all_failed();
        let files = [("read", tally.read), ("failed", failed), ("skipped", tally.skipped)];
        self.counters("files_total", "Files of this run, by what became of them", "state", files)?;
        let classes = tally.failed.iter().map(|(class, count)| (class.as_str(), *count));
        self.counters(
            "failures_total",
            "Files of this run that failed, by class of the error",
            "class",
            classes,
        )?;
        let kinds = [("list", stats.listings), ("read", stats.requests.saturating_sub(stats.listings))];
        self.counters("requests_total", "Requests to the stores, without retries", "kind", kinds)?;
        let retries = stats.retries.by_reason();
        self.counters("retries_total", "Requests that were sent again, by reason", "reason", retries)?;
        self.counter(
            "retry_wait_seconds_total",
            "Waits before retries; concurrent waits add up",
            stats.retries.seconds,
        )?;
        self.counter("bytes_total", "Bytes received", number(stats.bytes))?;
        self.counter("file_retries_total", "Attempts to read a file again", number(tally.retried))?;
        self.counter("warnings_total", "Warnings on files", number(tally.warnings))?;
        self.gauge("files_listed", "Files that were listed", number(tally.listed))?;
        self.gauge("files_pending", "Files still to be read", number(tally.left()))?;
        self.gauge("reading_seconds", "Time in which files were read", tally.reading().as_secs_f64())?;
        self.gauge("duration_seconds", "Duration of the run so far", tally.began.1.elapsed().as_secs_f64())?;
        self.gauge("start_timestamp_seconds", "Time at which the run began", unix(tally.began.0))
    }

    fn counters<'a>(
        &self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> prometheus::Result<()> {
        for (value, count) in counts {
            let counter = Counter::with_opts(Opts::new(name, help).const_label(label, value))?;
            counter.inc_by(number(count));
            self.register(counter)?;
        }
        Ok(())
    }

    fn counter(&self, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
        let counter = Counter::new(name, help)?;
        counter.inc_by(value);
        self.register(counter)
    }

    fn gauge(&self, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
        let gauge = Gauge::new(name, help)?;
        gauge.set(value);
        self.register(gauge)
    }

    fn register(&self, metric: impl Collector + 'static) -> prometheus::Result<()> {
        self.registry.register(Box::new(metric))
    }
}

/// Returns a count as Prometheus represents it.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
fn number(count: u64) -> f64 {
    count as f64
}

impl Target {
    fn of(place: &str) -> io::Result<Self> {
        if !place.starts_with("http://") && !place.starts_with("https://") {
            return Ok(Self::File(PathBuf::from(place)));
        }
        let url = reqwest::Url::parse(place).map_err(io::Error::other)?;
        let client = reqwest::Client::builder().timeout(PATIENCE).build().map_err(io::Error::other)?;
        Ok(Self::Push(client, url))
    }
}

/// Pushes metrics. They replace those of the same names in the group, so that a run that fails keeps the time of the
/// last success.
async fn push(client: &reqwest::Client, url: &reqwest::Url, text: Vec<u8>) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let request = client.post(url.clone()).header("content-type", prometheus::TEXT_FORMAT).body(text);
    // The URL may contain a password.
    let answer = request.send().await.map_err(|error| format!("{host}: {}", causes(&error.without_url())))?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("{host}: the server answers {status}")),
    }
}

/// Returns an error with its causes in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Replaces the file as a whole, since a collector may read it at any time.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".virtualize-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The collector runs as another user.
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    let file = builder.tempfile_in(folder)?;
    fs::write(file.path(), text)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns the time of the last success that a file of metrics has.
fn last_success(path: &Path) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(LAST_SUCCESS))?;
    line.rsplit(' ').next()?.parse().ok().filter(|time: &f64| time.is_finite())
}
