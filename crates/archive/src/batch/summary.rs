use serde::Serialize;

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
