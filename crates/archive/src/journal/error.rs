use std::{
    fmt,
    path::{Path, PathBuf},
};

use virtualize::{OptionName, Remedy};

/// Why a journal cannot be used. One line each.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has it open.
    #[error("{}: another process works on this journal", path.display())]
    Locked {
        /// The journal.
        path: PathBuf,
    },
    /// The file is something else, or damaged.
    #[error("{}: not a journal of virtualize: {reason}", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// It was written by another version of this program.
    #[error("{}: journal of version {found}, expected {expected}", path.display())]
    Version {
        /// The journal.
        path: PathBuf,
        /// Version found.
        found: String,
        /// The one that is known.
        expected: String,
    },
    /// It was begun with options that lead to another result.
    #[error("{}: begun with other options: {}", path.display(), list(differences))]
    OtherOptions {
        /// The journal.
        path: PathBuf,
        /// What differs, by name.
        differences: Vec<OptionDifference>,
    },
    /// The disk, or SQLite.
    #[error("{}: {reason}", path.display())]
    Failed {
        /// The journal.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// An option of a journal that is not the one of this run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionDifference {
    /// Its name.
    pub name: String,
    /// With what the journal was begun.
    pub before: String,
    /// What was given now.
    pub now: String,
}

impl fmt::Display for OptionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {}, is {}", self.name, self.before, self.now)
    }
}

impl JournalError {
    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, NotADatabase};
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseLocked) => Self::Locked { path },
            Some(NotADatabase | DatabaseCorrupt) => Self::NotAJournal { path, reason: error.to_string() },
            _ => Self::Failed { path, reason: error.to_string().replace('\n', " ") },
        }
    }

    /// Whether the user asked for what cannot be.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Locked { .. })
    }

    /// What the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        let elsewhere = Remedy::turn_on(OptionName::Journal, "choose another place");
        Some(match self {
            Self::Locked { .. } => Remedy::advice("wait for the other run, or stop it"),
            Self::NotAJournal { .. } => elsewhere,
            Self::Version { .. } | Self::OtherOptions { .. } => {
                Remedy::turn_on(OptionName::Restart, "start again").or(elsewhere)
            }
            Self::Failed { .. } => return None,
        })
    }
}

fn list(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
