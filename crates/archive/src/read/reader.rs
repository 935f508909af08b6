use futures::future::BoxFuture;
use virtualize::{Code, ErrorClass, Notation, OptionName, Remedy};

use crate::{CombineError, Item};

/// Reads single files; `R` is the run's record of a file.
pub(crate) trait ReadFile<R>: Send + Sync {
    /// Reads a file. With `fresh`, ignores the size and entity tag of the listing.
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Reading<R>, Failure>>;

    /// Opens a file to learn whether its store answers.
    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>>;
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Reading<R> {
    /// The file as it was opened.
    pub(crate) opened: Item,
    /// Number of requests.
    pub(crate) requests: u64,
    /// Number of requests that were sent again after failures of the store.
    pub(crate) retries: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Warnings for the user, one line each.
    pub(crate) warnings: Vec<String>,
    /// The run's record of the file.
    pub(crate) record: R,
}

/// Why a file could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Class of the error; it decides whether the file is retried.
    pub(crate) class: ErrorClass,
    /// The error in one line, with the file's name and the remedy in the caller's notation.
    pub(crate) error: String,
}

impl Failure {
    /// Renders an error of the library with the remedy in the caller's notation.
    pub(crate) fn new(error: impl Into<virtualize::Error>, notation: Notation) -> Self {
        let error = error.into();
        let text = match &error {
            virtualize::Error::Values { path, .. } => {
                let remedy =
                    Remedy::set(OptionName::Var, format!("{path}=first"), "take the first file's values");
                notation.line(&error, Some(&remedy), error.code())
            }
            _ => error.render(notation),
        };
        Self { class: error.class(), error: text.replace('\n', " ") }
    }

    /// Returns the failure of a file that does not fit the layout.
    pub(crate) fn of_layout(error: &CombineError, notation: Notation) -> Self {
        Self::of_file(notation.line(error, error.remedy().as_ref(), Code::Combine))
    }

    /// Returns a failure that is due to the file.
    pub(crate) fn of_file(error: impl Into<String>) -> Self {
        Self { class: ErrorClass::File, error: error.into().replace('\n', " ") }
    }
}
