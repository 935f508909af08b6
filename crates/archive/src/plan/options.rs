use serde::{Deserialize, Serialize};

/// How files that are not compatible are treated. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnMismatch {
    /// Fail, and print the differences
    #[default]
    Stop,
    /// Write each era, a set of compatible files, to its own group
    Split,
    /// Keep the era with the most files, and list the other files
    Skip,
}

/// How files with the same coordinates, all or some of them, are treated. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnDuplicate {
    /// Fail, and name both files
    #[default]
    Error,
    /// Keep the file that was listed first
    First,
    /// Keep the file that was listed last
    Last,
}

/// Options of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanOptions {
    /// Files that disagree.
    pub on_mismatch: OnMismatch,
    /// Files with the same coordinates.
    pub on_duplicate: OnDuplicate,
    /// Places of an n-dimensional arrangement may have no file; they read as the fill value.
    pub allow_holes: bool,
    /// Parts that no file has may read as a value that does not mean "missing", where an array has no such value.
    pub fill_without_sentinel: bool,
    /// Most bytes of the values of an array that are copied into the references.
    pub most_inline: u64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            on_mismatch: OnMismatch::Stop,
            on_duplicate: OnDuplicate::Error,
            allow_holes: false,
            fill_without_sentinel: false,
            most_inline: 1 << 30,
        }
    }
}
