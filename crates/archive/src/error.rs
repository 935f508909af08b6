//! Errors of runs and scans.

use std::{borrow::Cow, fmt::Display};

use serde::{Deserialize, Serialize};
use virtualize::{Code, Error as FileError, ErrorClass, Notation, OptionName, Remedy};

use crate::{journal::JournalError, list::ListError};

/// A result whose error is [`Error`].
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a batch run or scan. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, or the output, could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A listing failed.
    #[error(transparent)]
    List(#[from] ListError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Files that cannot be combined.
    #[error(transparent)]
    Combine(#[from] CombineError),
    /// A store is unavailable.
    #[error("{store} is unavailable; {left} of {files} files were not read; last error: {reason}")]
    Outage {
        /// Such as `s3://bucket`.
        store: String,
        /// Class of the last failure.
        class: ErrorClass,
        /// The last failure, in one line.
        reason: String,
        /// Files that are left to be read.
        left: u64,
        /// Files that were listed.
        files: u64,
    },
    /// The run was stopped.
    #[error("stopped; {done} of {files} files are in the journal")]
    Stopped {
        /// Files that are done.
        done: u64,
        /// Files that were listed.
        files: u64,
    },
    /// Any other error.
    #[error("{message}")]
    Other {
        /// Its class.
        class: ErrorClass,
        /// Its code.
        code: Code,
        /// One line.
        message: String,
        /// What the user can do.
        remedy: Option<Remedy>,
    },
}

impl Error {
    pub(crate) fn new(
        class: ErrorClass,
        code: Code,
        message: impl Into<String>,
        remedy: impl Into<Option<Remedy>>,
    ) -> Self {
        Self::Other { class, code, message: message.into(), remedy: remedy.into() }
    }

    /// Options that exclude each other, or do not suffice.
    pub(crate) fn usage(message: &str, remedy: impl Into<Option<Remedy>>) -> Self {
        Self::new(ErrorClass::Usage, Code::Usage, message, remedy)
    }

    /// A panic of a thread, or another failure of this program.
    pub(crate) fn internal(error: impl Display) -> Self {
        Self::new(ErrorClass::Unavailable, Code::Internal, format!("internal error: {error}"), None)
    }

    /// Its class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::List(ListError::Store(error)) => FileError::from(error.clone()).class(),
            Self::List(ListError::Invalid { class, .. }) => *class,
            Self::List(ListError::Nothing { .. }) => ErrorClass::NotFound,
            Self::Journal(error) if error.is_conflict() => ErrorClass::Conflict,
            Self::Journal(_) | Self::Stopped { .. } => ErrorClass::Unavailable,
            Self::Combine(_) => ErrorClass::File,
            Self::Outage { class, .. } | Self::Other { class, .. } => *class,
        }
    }

    /// Its code.
    pub fn code(&self) -> Code {
        match self {
            Self::File(error) => error.code(),
            Self::List(ListError::Store(error)) => FileError::from(error.clone()).code(),
            Self::List(_) => Code::Listing,
            Self::Journal(_) => Code::Journal,
            Self::Combine(_) => Code::Combine,
            Self::Outage { .. } => Code::SourceUnavailable,
            Self::Stopped { .. } => Code::Stopped,
            Self::Other { code, .. } => *code,
        }
    }

    /// What the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::File(error) => error.remedy(),
            Self::List(error) => error.remedy(),
            Self::Journal(error) => error.remedy(),
            Self::Combine(error) => error.remedy(),
            Self::Stopped { .. } => Some(Remedy::advice("run the same command again to continue")),
            Self::Outage { .. } => Some(Remedy::advice("run the same command again when the store answers")),
            Self::Other { remedy, .. } => remedy.clone(),
        }
    }

    /// Renders the error as one line, with its remedy in parentheses and its code in brackets.
    pub fn render(&self, notation: Notation) -> String {
        notation.line(self, self.remedy().as_ref(), self.code())
    }
}

/// Returns `1 file` or `n files`.
pub(crate) fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// Returns the first three of `count` names.
pub(crate) fn some(first: &[String], count: u64) -> String {
    let first = first.get(..3).unwrap_or(first);
    let more = count.saturating_sub(first.len() as u64);
    let shown = first.join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

/// Describes the first sets by their numbers of files, which `count` renders, and their first files.
pub(crate) fn of_sets(sets: &[(u64, String)], count: impl Fn(u64) -> String) -> String {
    let shown: Vec<_> = sets.iter().take(5).map(|(n, first)| format!("{} from {first}", count(*n))).collect();
    shown.join("; ") + if sets.len() > shown.len() { ", …" } else { "" }
}

/// Error of files that cannot be combined.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CombineError {
    /// A file, two files, an array or an option.
    #[error("{subject}: {problem}")]
    Subject {
        /// What it is about, by name.
        subject: String,
        /// Path of the array, if it is about one.
        path: Option<String>,
        /// Why.
        problem: Box<Problem>,
    },
    /// Positions of the grid of files without a file.
    #[error("{count} positions have no file, the first at {first}")]
    Holes {
        /// Number of empty positions.
        count: u64,
        /// Coordinates of the first.
        first: String,
    },
    /// The files are of several groups, which are not merged.
    #[error("the files form {} sets that cannot be combined: {}", sets.len(), of_sets(sets, |n| n.to_string()))]
    Sets {
        /// Number of files and first file of each group.
        sets: Vec<(u64, String)>,
    },
    /// No file is left.
    #[error("no file has data along the dimensions")]
    Nothing,
}

impl CombineError {
    /// Returns the error of a file or an option.
    pub(crate) fn of(subject: impl Into<String>, problem: Problem) -> Self {
        Self::Subject { subject: subject.into(), path: None, problem: Box::new(problem) }
    }

    /// Returns the error of an array of a file.
    pub(crate) fn array(url: impl Display, path: &str, problem: Problem) -> Self {
        let subject = format!("{path} of {url}");
        Self::Subject { subject, path: Some(path.to_owned()), problem: Box::new(problem) }
    }

    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Subject { path, problem, .. } => {
                let mut remedy = problem.remedy.clone();
                remedy.iter_mut().for_each(|remedy| name_array(remedy, path.as_deref().unwrap_or("NAME")));
                remedy
            }
            Self::Holes { .. } => {
                Some(Remedy::turn_on(OptionName::AllowHoles, "let them read as the fill value"))
            }
            Self::Sets { .. } | Self::Nothing => None,
        }
    }
}

/// Adds the path of the array to values of the option for arrays.
fn name_array(remedy: &mut Remedy, path: &str) {
    match remedy {
        Remedy::Set { option: OptionName::Var, value: Some(rule), .. } => {
            *rule = format!("{path}={rule}").into();
        }
        Remedy::AnyOf(all) => all.iter_mut().for_each(|remedy| name_array(remedy, path)),
        _ => {}
    }
}

/// Something that users of the combined dataset should know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
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

/// Why files cannot be combined, without the names of the files.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Problem {
    text: Cow<'static, str>,
    /// What the user can do. Values of the option for arrays lack the array.
    remedy: Option<Remedy>,
}

impl Problem {
    pub(crate) const TOO_LARGE: Self = Self::of("too many elements");
    pub(crate) const NOT_READ: Self = Self::of("values were not read");
    pub(crate) const VALUE_SHAPE: Self = Self::of("the values do not have the expected shape");
    pub(crate) const CHUNK_LENGTH: Self = Self::of("chunk length does not match its shape");
    pub(crate) const GRID: Self = Self::of("the chunks cannot form one grid");

    pub(crate) const fn of(text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), remedy: None }
    }

    pub(crate) fn new(text: String) -> Self {
        Self { text: text.into(), remedy: None }
    }

    /// Adds what the user can do.
    pub(crate) fn with(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Arrays that already have a dimension to be added.
    pub(crate) fn dimension_exists(name: &str) -> Self {
        Self::new(format!("arrays already have a dimension {name}")).with(Remedy::set(
            OptionName::ConcatDim,
            name.to_owned(),
            "join files along it",
        ))
    }
}

/// Returns the remedy that treats the array differently from the others.
pub(crate) fn var(rule: &'static str, effect: &'static str) -> Remedy {
    Remedy::set(OptionName::Var, rule, effect)
}
