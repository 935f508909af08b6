use serde::{Deserialize, Serialize};

/// Files that cannot be put together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CombineError {
    /// A file does not have what the layout needs.
    #[error("{url}: {what}")]
    File {
        /// The file.
        url: String,
        /// What it lacks.
        what: String,
    },
    /// Two files cannot stand beside each other.
    #[error("{left} and {right}: {what}")]
    Files {
        /// The first file.
        left: String,
        /// The other.
        right: String,
        /// Why.
        what: String,
    },
    /// An array of a file does not fit those before it.
    #[error("{path} of {url}: {what}")]
    Array {
        /// The file.
        url: String,
        /// The array.
        path: String,
        /// Why, and what to do.
        what: String,
    },
    /// Places of the grid that no file fills.
    #[error("{count} places have no file, the first at {first}; --allow-holes leaves them to the fill value")]
    Holes {
        /// How many.
        count: u64,
        /// Coordinates of the first.
        first: String,
    },
    /// Files of several eras, which are not merged.
    #[error("the files are of {} eras, which are not merged: {}", eras.len(), list(eras))]
    Eras {
        /// Number of files and first file of each era.
        eras: Vec<(u64, String)>,
    },
    /// A pattern or option that cannot be.
    #[error("{option}: {what}")]
    Option {
        /// The option as it was given.
        option: String,
        /// What is wrong with it.
        what: String,
    },
    /// No file is left.
    #[error("no file has data along the dimensions")]
    Nothing,
}

fn list(eras: &[(u64, String)]) -> String {
    let era = |(n, first): &(u64, String)| format!("{n} from {first}");
    let shown: Vec<_> = eras.iter().take(5).map(era).collect();
    let more = if eras.len() > shown.len() { ", …" } else { "" };
    shown.join("; ") + more
}

/// What someone who reads the combined dataset should know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Note {
    /// A file, a dimension, or the path of an array.
    pub subject: String,
    /// What is to be known of it, in one line.
    pub text: String,
}

impl Note {
    pub(crate) fn new(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), text: text.into() }
    }
}
