//! Counts of a run, from its events and its requests.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use virtualize::Stats;
use virtualize_archive::Event;

/// Classes of failures, so that each has a count from the start.
const CLASSES: [&str; 4] = ["changed", "denied", "file", "unavailable"];

/// Counts of a run so far.
pub(crate) struct Tally {
    /// When the run began, on the system's clock and on that which never goes back.
    pub(crate) began: (SystemTime, Instant),
    pub(crate) listed: u64,
    pub(crate) pending: u64,
    pub(crate) read: u64,
    pub(crate) skipped: u64,
    pub(crate) retried: u64,
    pub(crate) warnings: u64,
    /// Files that failed, by class.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Time of the first file's start and of the last file's end.
    reading: Option<(Instant, Instant)>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            began: (SystemTime::now(), Instant::now()),
            listed: 0,
            pending: 0,
            read: 0,
            skipped: 0,
            retried: 0,
            warnings: 0,
            failed: CLASSES.map(|class| (class.to_owned(), 0)).into(),
            reading: None,
        }
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Listed { files, pending, .. } => (self.listed, self.pending) = (*files, *pending),
            Event::Started { .. } => drop(self.reading.get_or_insert((Instant::now(), Instant::now()))),
            Event::Read { warnings, .. } => {
                self.read += 1;
                self.warnings += warnings.len() as u64;
                self.ended();
            }
            Event::Failed { class, .. } => {
                *self.failed.entry(class.clone()).or_default() += 1;
                self.ended();
            }
            Event::Retried { .. } => self.retried += 1,
            Event::Skipped { .. } => self.skipped += 1,
            _ => {}
        }
    }

    /// Records that a file was read, or failed.
    fn ended(&mut self) {
        let now = Instant::now();
        self.reading.get_or_insert((now, now)).1 = now;
    }

    /// Returns the number of files that failed.
    pub(crate) fn all_failed(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Returns the number of files that are still to be read.
    pub(crate) fn left(&self) -> u64 {
        self.pending.saturating_sub(self.read + self.all_failed())
    }

    /// Returns the duration from the start of the first file to the end of the last.
    pub(crate) fn reading(&self) -> Duration {
        self.reading.map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first))
    }

    /// Returns the counts in one line.
    pub(crate) fn line(&self, stats: &Stats) -> String {
        let Stats { requests, listings, retries, bytes, .. } = stats;
        let files = self.read + self.all_failed();
        let seconds = self.reading().as_secs_f64();
        format!(
            "stats: {requests} requests ({listings} for listings), {retries}, {bytes} bytes; {files} files read in \
             {seconds:.1} s, {:.1} a second, {} tried again; {:.1} s in all",
            per_second(files, seconds),
            self.retried,
            self.began.1.elapsed().as_secs_f64(),
        )
    }
}

/// Returns a rate; 0 if no time passed.
#[expect(clippy::cast_precision_loss, reason = "a rate is shown with one digit")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Returns a time as seconds since 1970.
pub(crate) fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
