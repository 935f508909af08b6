use serde::{Deserialize, Serialize};
use virtualize::{OptionName, Remedy};

use super::Problem;

/// Error of files that cannot be put together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CombineError {
    /// A file does not suit the layout.
    #[error("{url}: {problem}")]
    File {
        /// The file.
        url: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// Two files are incompatible.
    #[error("{left} and {right}: {problem}")]
    Files {
        /// The first file.
        left: String,
        /// The second file.
        right: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// An array of a file is incompatible with the files before it.
    #[error("{path} of {url}: {problem}")]
    Array {
        /// The file.
        url: String,
        /// Path of the array.
        path: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// Places of the grid of files stay empty.
    #[error("{count} places have no file, the first at {first}")]
    Holes {
        /// Number of empty places.
        count: u64,
        /// Coordinates of the first.
        first: String,
    },
    /// The files are of several groups, which are not merged.
    #[error("the files are of {} eras, which are not merged: {}", eras.len(), list(eras))]
    Eras {
        /// Number of files and first file of each group.
        eras: Vec<(u64, String)>,
    },
    /// A pattern, a dimension or a coordinate is unusable.
    #[error("{option}: {problem}")]
    Option {
        /// What it is, with its name.
        option: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// No file is left.
    #[error("no file has data along the dimensions")]
    Nothing,
}

impl CombineError {
    pub(crate) fn file(url: impl Into<String>, problem: Problem) -> Self {
        Self::File { url: url.into(), problem: Box::new(problem) }
    }

    pub(crate) fn array(url: impl Into<String>, path: impl Into<String>, problem: Problem) -> Self {
        Self::Array { url: url.into(), path: path.into(), problem: Box::new(problem) }
    }

    pub(crate) fn option(option: impl Into<String>, problem: Problem) -> Self {
        Self::Option { option: option.into(), problem: Box::new(problem) }
    }

    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::File { problem, .. } | Self::Files { problem, .. } | Self::Option { problem, .. } => {
                problem.remedy()
            }
            Self::Array { path, problem, .. } => problem.remedy().map(|remedy| match remedy {
                Remedy::Set { option: option @ OptionName::OptionalVar, value: None, effect } => {
                    Remedy::set(option, path.clone(), effect)
                }
                other => other,
            }),
            Self::Holes { .. } => {
                Some(Remedy::turn_on(OptionName::AllowHoles, "let them read as the fill value"))
            }
            Self::Eras { .. } | Self::Nothing => None,
        }
    }
}

fn list(eras: &[(u64, String)]) -> String {
    let era = |(n, first): &(u64, String)| format!("{n} from {first}");
    let shown: Vec<_> = eras.iter().take(5).map(era).collect();
    let more = if eras.len() > shown.len() { ", …" } else { "" };
    shown.join("; ") + more
}

/// Something that users of the combined dataset should know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Note {
    /// A file, a dimension, or the path of an array.
    pub subject: String,
    /// One line of text.
    pub text: String,
}

impl Note {
    pub(crate) fn new(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), text: text.into() }
    }
}
