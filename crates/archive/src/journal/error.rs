use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use virtualize::{OptionName, Remedy};

/// Errors of a journal. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process holds the journal's lock.
    #[error("{}: another process works on this journal", path.display())]
    Locked {
        /// The journal.
        path: PathBuf,
    },
    /// The file is damaged or not a journal.
    #[error("{}: not a journal of virtualize: {reason}", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// Another version of this program wrote the journal.
    #[error("{}: journal of version {found}, expected {expected}", path.display())]
    Version {
        /// The journal.
        path: PathBuf,
        /// Version found.
        found: String,
        /// Version of this program.
        expected: String,
    },
    /// The journal was started with options that lead to a different result.
    #[error("{}: begun with other options: {}", path.display(), list(differences))]
    OtherOptions {
        /// The journal.
        path: PathBuf,
        /// The options that differ, by name.
        differences: Vec<OptionDifference>,
    },
    /// The disk is full.
    #[error("{}: the disk is full", path.display())]
    Full {
        /// The journal.
        path: PathBuf,
    },
    /// The disk or SQLite failed.
    #[error("{}: {reason}", path.display())]
    Failed {
        /// The journal.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
}

/// An option whose value in the journal differs from this run's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionDifference {
    /// Name of the option.
    pub name: String,
    /// Value in the journal.
    pub before: String,
    /// Value in this run.
    pub now: String,
}

impl OptionDifference {
    /// Returns the options that differ, by name.
    pub(crate) fn between(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<Self> {
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let value = |found: Option<&String>| found.cloned().unwrap_or_else(|| "none".to_owned());
        let difference = |name: &String| Self {
            name: name.clone(),
            before: value(before.get(name)),
            now: value(now.get(name)),
        };
        let differ = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
        differ.map(difference).collect()
    }
}

impl fmt::Display for OptionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {}, is {}", self.name, self.before, self.now)
    }
}

impl JournalError {
    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase};
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseLocked) => Self::Locked { path },
            Some(NotADatabase | DatabaseCorrupt) => Self::NotAJournal { path, reason: error.to_string() },
            Some(DiskFull) => Self::Full { path },
            _ => Self::Failed { path, reason: error.to_string().replace('\n', " ") },
        }
    }

    /// Returns whether the journal is one that this run cannot continue.
    pub fn is_conflict(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Full { .. } | Self::Locked { .. })
    }

    /// Returns the remedy to suggest to the user, if any.
    pub fn remedy(&self) -> Option<Remedy> {
        let elsewhere = Remedy::turn_on(OptionName::Journal, "choose another place");
        Some(match self {
            Self::Locked { .. } => Remedy::advice("wait for the other run, or stop it"),
            Self::NotAJournal { .. } => elsewhere,
            Self::Full { .. } => Remedy::advice("free some space, and run the same command again"),
            Self::Version { .. } | Self::OtherOptions { .. } => {
                Remedy::turn_on(OptionName::Restart, "start again").or(elsewhere)
            }
            Self::Failed { .. } => return None,
        })
    }
}

pub(super) fn list(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
