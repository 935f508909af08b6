//! Progress of a run or scan.

use std::sync::Arc;

use serde::Serialize;
use virtualize::Retries;

/// An event of a run or scan. As JSON, the member `event` has its name.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "the last event alone is large")]
pub enum Event {
    /// The listing found more files.
    Listed {
        /// Number of files found so far.
        files: u64,
        /// Number of those that are still to be read.
        pending: u64,
        /// Whether the listing is complete.
        complete: bool,
    },
    /// A file is being read.
    Started {
        /// The file.
        url: String,
    },
    /// A file was read.
    Read {
        /// The file.
        url: String,
        /// Duration of all attempts, in seconds.
        seconds: f64,
        /// Number of requests.
        requests: u64,
        /// Number of requests that were sent again after failures of the store.
        retries: u64,
        /// Bytes received.
        bytes: u64,
        /// Warnings, one line each.
        warnings: Vec<String>,
    },
    /// A file could not be read, and will be tried again.
    Retried {
        /// The file.
        url: String,
        /// The attempt that failed, counted from 1.
        attempt: u32,
        /// Why, in one line.
        error: String,
        /// Seconds until the next attempt.
        wait: f64,
    },
    /// A file could not be read, and is not tried again in this run.
    Failed {
        /// The file.
        url: String,
        /// Number of attempts.
        attempts: u32,
        /// Class of the error, such as `unavailable`.
        class: String,
        /// Why, in one line.
        error: String,
    },
    /// The files of a shard were imported from its journal.
    Imported {
        /// The journal of the shard.
        journal: String,
        /// The shard, such as `3/10`.
        shard: String,
        /// Number of its files.
        files: u64,
        /// Number of those that the journal did not have yet.
        imported: u64,
        /// Number of its files that could not be read.
        failed: u64,
    },
    /// A file is omitted from the output.
    Skipped {
        /// The file.
        url: String,
        /// Why, in one line.
        reason: String,
    },
    /// The files that were read are grouped into sets of compatible files.
    Sets {
        /// Number of files of each set, in order.
        files: Vec<u64>,
    },
    /// A note on the run or the combined dataset.
    Note {
        /// One line.
        text: String,
    },
    /// Files are being joined.
    Combining {
        /// Number of files joined so far.
        done: u64,
        /// Number of all files.
        files: u64,
    },
    /// The output is being written.
    Writing {
        /// Where to.
        target: String,
    },
    /// The run is over.
    Done {
        /// The outcome.
        summary: Summary,
    },
}

/// The outcome of a run or scan.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of listed files.
    pub files: u64,
    /// Number of files that this run read.
    pub read: u64,
    /// Number of files that were imported from the journals of shards.
    pub imported: u64,
    /// Number of files that the journal already had.
    pub known: u64,
    /// Number of files that could not be read.
    pub failed: u64,
    /// The first failures with their reasons, one line each.
    pub failures: Vec<String>,
    /// Number of files that were read but are not part of the output.
    pub skipped: u64,
    /// Number of warnings of this run.
    pub warnings: u64,
    /// Number of requests of this run, those for listings and for files that failed included.
    pub requests: u64,
    /// Requests of this run that were sent again after failures of the store.
    pub retries: Retries,
    /// Bytes received in this run.
    pub bytes: u64,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// The output; `None` if nothing was written.
    pub output: Option<String>,
    /// Id of the snapshot of an Icechunk repository that contains the files.
    pub snapshot: Option<String>,
    /// Path of the journal.
    pub journal: String,
    /// Notes on the run or the combined dataset, one line each.
    pub notes: Vec<String>,
    /// Paths of the groups of the sets that were written; a single empty path if all files agree.
    pub sets: Vec<String>,
    /// Python code that opens the output.
    pub python: Option<String>,
}

/// Receives events, from any thread.
#[derive(Clone)]
pub(crate) struct Events(Arc<dyn Fn(Event) + Send + Sync>);

impl Events {
    pub(crate) fn new(take: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.0)(event);
    }
}
