use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    path::{Path, PathBuf},
};

use virtualize::{Code, ErrorClass, OptionName, Remedy};

use crate::Error;

/// Error of a journal. The message is one line.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct JournalError {
    /// What kind of error it is.
    pub kind: JournalErrorKind,
    path: PathBuf,
    reason: String,
}

/// Kinds of errors of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalErrorKind {
    /// Another process holds the journal's lock.
    Locked,
    /// The file is damaged or not a journal.
    NotAJournal,
    /// Another version of this program wrote the journal.
    Version,
    /// The journal was started with options that lead to a different result.
    OtherOptions,
    /// The disk is full.
    Full,
    /// The disk or SQLite failed.
    Failed,
}

use JournalErrorKind as Kind;

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
    pub(crate) fn new(kind: Kind, path: &Path, reason: impl Display) -> Self {
        Self { kind, path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn failed(path: &Path, reason: impl Display) -> Self {
        Self::new(Kind::Failed, path, reason)
    }

    pub(crate) fn not_a_journal(path: &Path, reason: impl Display) -> Self {
        Self::new(Kind::NotAJournal, path, format!("not a journal of virtualize: {reason}"))
    }

    pub(crate) fn version(path: &Path, found: impl Display, expected: impl Display) -> Self {
        Self::new(Kind::Version, path, format!("journal of version {found}, expected {expected}"))
    }

    pub(crate) fn other_options(path: &Path, differences: &[OptionDifference]) -> Self {
        Self::new(Kind::OtherOptions, path, format!("begun with other options: {}", differing(differences)))
    }

    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseLocked) => {
                Self::new(Kind::Locked, path, "another process works on this journal")
            }
            Some(NotADatabase | DatabaseCorrupt) => Self::not_a_journal(path, error),
            Some(DiskFull) => Self::new(Kind::Full, path, "the disk is full"),
            _ => Self::failed(path, error.to_string().replace('\n', " ")),
        }
    }

    /// Adds the row at which SQLite failed.
    pub(crate) fn at(self, row: u64) -> Self {
        let reason =
            if self.kind == Kind::Failed { format!("row {row}: {}", self.reason) } else { self.reason };
        Self { reason, ..self }
    }

    /// Returns whether the journal is one that this run cannot continue.
    pub fn is_conflict(&self) -> bool {
        !matches!(self.kind, Kind::Failed | Kind::Full | Kind::Locked)
    }

    /// Returns the remedy to suggest to the user, if any.
    pub fn remedy(&self) -> Option<Remedy> {
        let elsewhere = Remedy::turn_on(OptionName::Journal, "choose another place");
        Some(match self.kind {
            Kind::Locked => Remedy::advice("wait for the other run, or stop it"),
            Kind::NotAJournal => elsewhere,
            Kind::Full => Remedy::advice("free some space, and run the same command again"),
            Kind::Version | Kind::OtherOptions => {
                Remedy::turn_on(OptionName::Restart, "start again").or(elsewhere)
            }
            Kind::Failed => return None,
        })
    }
}

const READ_AGAIN: &str = "if it is the journal of a shard, delete it and read the shard again";

/// Returns the error of journals of shards that do not belong together.
pub(crate) fn shard_conflict(message: String, advice: &'static str) -> Error {
    Error::new(ErrorClass::Conflict, Code::Shards, message, Remedy::advice(advice))
}

/// Returns the error of the damaged journal of a shard.
pub(crate) fn shard_damaged(name: &str, reason: impl Display) -> Error {
    let message = format!("{name}: damaged journal: {}", reason.to_string().replace('\n', " "));
    Error::new(ErrorClass::File, Code::Shards, message, Remedy::advice(READ_AGAIN))
}

/// Returns the error of the journal of a shard that cannot be opened.
pub(super) fn shard_unopened(error: JournalError) -> Error {
    let class = if error.is_conflict() { ErrorClass::Conflict } else { ErrorClass::Unavailable };
    let advice = if error.kind == Kind::Locked { "wait until the shard is complete" } else { READ_AGAIN };
    Error::new(class, Code::Shards, error.to_string(), Remedy::advice(advice))
}

/// Lists options that differ.
pub(super) fn differing(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
