//! Errors of runs and scans.

use virtualize::{Code, Error as FileError, ErrorClass, Notation, OptionName, Remedy};

mod combine;

pub use combine::{CombineError, Note, Problem};

use crate::{
    journal::{JournalError, MergeError},
    list::ListError,
};

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
    /// Journals of shards cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// Options that exclude each other.
    #[error(transparent)]
    Usage(#[from] OptionConflict),
    /// Files that the journal knows are no longer listed.
    #[error("{} that the journal knows {} no longer listed: {}", files(*count), if *count == 1 { "is" } else { "are" }, some(first, *count))]
    Vanished {
        /// Number of files.
        count: u64,
        /// The first of them.
        first: Vec<String>,
    },
    /// Files that the journal knows were replaced.
    #[error("{} that the journal knows {} replaced since: {}", files(*count), if *count == 1 { "was" } else { "were" }, some(first, *count))]
    Replaced {
        /// Number of files.
        count: u64,
        /// The first of them.
        first: Vec<String>,
    },
    /// A file that the journal knows cannot be checked.
    #[error("cannot check a file of an earlier run: {0}")]
    Unchecked(virtualize::StoreError),
    /// The output is not what the journal describes.
    #[error("{output}: {}, which is not what this journal wrote{}", size(*found), expected.map(|it| format!(" ({})", size(it))).unwrap_or_default())]
    OtherOutput {
        /// The output.
        output: String,
        /// Files and bytes that it has.
        found: (u64, u64),
        /// Files and bytes that were written.
        expected: Option<(u64, u64)>,
    },
    /// The output exists, and the journal does not know its files.
    #[error("{output}: exists but is not recorded in the journal; appending could drop its files")]
    UnknownOutput {
        /// The output.
        output: String,
    },
    /// More files failed than are allowed.
    #[error("{} failed, at most {allowed} may: {}", files(*count), some(first, *count))]
    Failures {
        /// Number of files.
        count: u64,
        /// Number of failures allowed.
        allowed: u64,
        /// The first of them, with their reasons.
        first: Vec<String>,
    },
    /// Files that cannot be put together.
    #[error(transparent)]
    Combine(#[from] CombineError),
    /// The files are of several eras, which are not merged.
    #[error("the files are of {} eras, which are not merged: {}; the second differs in {}", eras.len(), of_eras(eras), differences.join("; "))]
    Mismatch {
        /// Number of files and first file of each era.
        eras: Vec<(u64, String)>,
        /// The first differences between the first two.
        differences: Vec<String>,
    },
    /// A thread of this program panicked.
    #[error("internal error: {0}")]
    Internal(String),
    /// A scan was stopped.
    #[error("stopped after {read} files; nothing is kept of a scan")]
    ScanStopped {
        /// Files that were read.
        read: u64,
    },
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
}

impl Error {
    /// Its class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::List(ListError::Store(error)) => FileError::from(error.clone()).class(),
            Self::List(ListError::Pattern { .. }) => ErrorClass::Usage,
            Self::List(ListError::Line { .. } | ListError::Catalogue { .. } | ListError::Assets { .. }) => {
                ErrorClass::Conflict
            }
            Self::List(_) => ErrorClass::NotFound,
            Self::Usage(conflict) if conflict.is_of_stored() => ErrorClass::Conflict,
            Self::Usage(_) => ErrorClass::Usage,
            Self::OtherOutput { .. } | Self::UnknownOutput { .. } => ErrorClass::Conflict,
            Self::Unchecked(error) => FileError::from(error.clone()).class(),
            Self::Journal(error) if error.is_conflict() => ErrorClass::Conflict,
            Self::Merge(MergeError::Journal(error)) if !error.is_conflict() => ErrorClass::Unavailable,
            Self::Merge(MergeError::Damaged { .. }) => ErrorClass::File,
            Self::Merge(_) => ErrorClass::Conflict,
            Self::Journal(_) | Self::Stopped { .. } | Self::ScanStopped { .. } => ErrorClass::Unavailable,
            Self::Vanished { .. }
            | Self::Replaced { .. }
            | Self::Failures { .. }
            | Self::Mismatch { .. }
            | Self::Combine(_) => ErrorClass::File,
            Self::Outage { class, .. } => *class,
            Self::Internal(_) => ErrorClass::Unavailable,
        }
    }

    /// Its code.
    pub fn code(&self) -> Code {
        match self {
            Self::File(error) => error.code(),
            Self::List(ListError::Store(error)) | Self::Unchecked(error) => {
                FileError::from(error.clone()).code()
            }
            Self::List(_) => Code::Listing,
            Self::Journal(_) => Code::Journal,
            Self::Merge(_) => Code::Shards,
            Self::Usage(_) => Code::Usage,
            Self::Vanished { .. } => Code::FilesVanished,
            Self::Replaced { .. } => Code::FilesReplaced,
            Self::OtherOutput { .. } | Self::UnknownOutput { .. } => Code::OutputNotInJournal,
            Self::Failures { .. } => Code::Failures,
            Self::Combine(_) => Code::Combine,
            Self::Mismatch { .. } => Code::Mismatch,
            Self::Internal(_) => Code::Internal,
            Self::Outage { .. } => Code::SourceUnavailable,
            Self::ScanStopped { .. } | Self::Stopped { .. } => Code::Stopped,
        }
    }

    /// What the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        use OptionName as O;
        Some(match self {
            Self::File(error) => return error.remedy(),
            Self::List(error) => return error.remedy(),
            Self::Journal(error) => return error.remedy(),
            Self::Merge(error) => return error.remedy(),
            Self::Combine(error) => return error.remedy(),
            Self::Usage(conflict) => return conflict.remedy(),
            Self::Internal(_) | Self::ScanStopped { .. } => return None,
            Self::Mismatch { .. } => Remedy::set(O::OnMismatch, "split", "make each a group")
                .or(Remedy::set(O::OnMismatch, "skip", "keep the largest"))
                .or(Remedy::set(O::OnChange, "drop", "drop files that were recorded but never written"))
                .or(Remedy::advice("list all differences with a scan")),
            Self::Vanished { .. } => Remedy::set(O::OnChange, "drop", "leave them out"),
            Self::Replaced { .. } => Remedy::set(O::OnChange, "update", "read them again"),
            Self::Unchecked(_) => Remedy::advice("run the same command again"),
            Self::OtherOutput { .. } => {
                Remedy::turn_on(O::Overwrite, "replace it with what the journal describes")
            }
            Self::UnknownOutput { .. } => Remedy::turn_on(O::Journal, "name the journal that belongs to it")
                .or(Remedy::advice("name all files and do not append"))
                .or(Remedy::turn_on(O::Overwrite, "replace it")),
            Self::Failures { .. } => Remedy::advice("run again to retry files whose store was unavailable")
                .or(Remedy::set(O::OnFailure, "retry", "retry all of them"))
                .or(Remedy::set(O::OnFailure, "skip", "leave them out"))
                .or(Remedy::set(O::OnChange, "drop", "drop those of earlier runs")),
            Self::Stopped { .. } => Remedy::advice("run the same command again to continue"),
            Self::Outage { .. } => Remedy::advice("run the same command again when the store answers"),
        })
    }

    /// Renders the error as one line, with its remedy in parentheses and its code in brackets.
    pub fn render(&self, notation: Notation) -> String {
        notation.line(self, self.remedy().as_ref(), self.code())
    }
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn size((count, bytes): (u64, u64)) -> String {
    format!("{} of {bytes} bytes", files(count))
}

fn some(first: &[String], count: u64) -> String {
    let first = first.get(..3).unwrap_or(first);
    let more = count.saturating_sub(first.len() as u64);
    let shown = first.join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

fn of_eras(eras: &[(u64, String)]) -> String {
    let shown: Vec<_> =
        eras.iter().take(5).map(|(count, first)| format!("{} from {first}", files(*count))).collect();
    let more = if eras.len() > shown.len() { ", …" } else { "" };
    shown.join("; ") + more
}

/// Options of a run that exclude each other, or do not suffice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionConflict {
    /// One output per file, and dimensions to join files along.
    #[error("--each cannot be combined with --concat-dim or --stack-dim")]
    EachWithDimensions,
    /// Neither one output per file nor a dimension.
    #[error("no dimension to combine files along")]
    NoDimension,
    /// One output per file in an Icechunk repository.
    #[error("--each does not apply to Icechunk repositories, which hold one dataset")]
    EachInRepository,
    /// One output per file, read by several machines.
    #[error("per-file outputs cannot be divided into shards")]
    EachInShards,
    /// A journal in a store, in a run that writes an output.
    #[error("only the journal of a shard can be in a store")]
    RemoteJournal,
    /// A repository that has data, in a run that does not append.
    #[error("the repository already has files of an earlier run")]
    NotAppended,
    /// Two files whose outputs would have one name.
    #[error("{one} and {other} map to the same output, {output}")]
    SameOutput {
        /// The first file.
        one: String,
        /// The second file.
        other: String,
        /// The output.
        output: String,
    },
}

impl OptionConflict {
    /// Returns whether the options are valid, but not for the files and outputs that are stored.
    pub(crate) fn is_of_stored(&self) -> bool {
        matches!(self, Self::NotAppended | Self::SameOutput { .. })
    }

    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        use OptionName as O;
        let each = Remedy::turn_on(O::Each, "write one output per file");
        Some(match self {
            Self::NoDimension => {
                Remedy::turn_on(O::ConcatDim, "join the files along a dimension that they have")
                    .or(Remedy::turn_on(O::StackDim, "add a new dimension"))
                    .or(each)
            }
            Self::NotAppended => Remedy::turn_on(O::Append, "add what is new"),
            Self::SameOutput { .. } => Remedy::advice("read them in separate runs, with different outputs"),
            Self::EachInShards => Remedy::advice("run a batch on each machine, for some of the files"),
            Self::RemoteJournal => Remedy::turn_on(O::Journal, "choose a local path"),
            Self::EachWithDimensions | Self::EachInRepository => return None,
        })
    }
}
