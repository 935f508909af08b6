//! What happens in a run, told as it happens.

use std::{fmt, sync::Arc};

use serde::Serialize;

/// Something that happened. As JSON each has the member `event`, its name.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The listing found more files.
    Listed {
        /// All that it found so far.
        files: u64,
        /// Those of them that are to be read.
        pending: u64,
        /// Whether that is all.
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
        /// How long it took, with all attempts, in seconds.
        seconds: f64,
        /// Requests that it took.
        requests: u64,
        /// Bytes that came.
        bytes: u64,
        /// What the user should know of it, one line each.
        warnings: Vec<String>,
    },
    /// A file could not be read, and will be tried again.
    Retried {
        /// The file.
        url: String,
        /// Which attempt failed, from 1 on.
        attempt: u32,
        /// Why, in one line.
        error: String,
        /// Seconds until the next.
        wait: f64,
    },
    /// A file could not be read, and is not tried again in this run.
    Failed {
        /// The file.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// Class of the error, such as `unavailable`.
        class: String,
        /// Why, in one line.
        error: String,
    },
    /// A file is left out of what is written.
    Skipped {
        /// The file.
        url: String,
        /// Why, in one line.
        reason: String,
    },
    /// How the files that were read are grouped by what must agree.
    Eras {
        /// Number of files of each, in order.
        files: Vec<u64>,
    },
    /// Something that the user should know of the whole.
    Note {
        /// One line.
        text: String,
    },
    /// Files are put together.
    Combining {
        /// So many so far.
        done: u64,
        /// Of so many.
        files: u64,
    },
    /// The output is being written.
    Writing {
        /// Where to.
        target: String,
    },
    /// The run is over.
    Done {
        /// What came of it.
        summary: Summary,
    },
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Files that the listing had.
    pub files: u64,
    /// Those that were read in this run.
    pub read: u64,
    /// Those that the journal had already.
    pub known: u64,
    /// Those that could not be read.
    pub failed: u64,
    /// The first of these with their reasons, one line each.
    pub failures: Vec<String>,
    /// Files that are done, but not part of the output.
    pub skipped: u64,
    /// Warnings of the files that were read in this run.
    pub warnings: u64,
    /// Requests of the files that were read in this run.
    pub requests: u64,
    /// Bytes that came for them.
    pub bytes: u64,
    /// How long the run took, in seconds.
    pub seconds: f64,
    /// Where the output is; `None` where nothing was written.
    pub output: Option<String>,
    /// Where the journal is.
    pub journal: String,
    /// What the user should know of the whole, one line each.
    pub notes: Vec<String>,
    /// Groups of the eras that were written; one of the name "" where all files agree.
    pub eras: Vec<String>,
    /// Lines of Python that open the output.
    pub python: Option<String>,
}

/// Takes events, from any thread.
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

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
