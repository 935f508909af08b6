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

/// Why journals of shards cannot be merged. Each message is one line that names the journal or the shard.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal is damaged.
    #[error("{name}: damaged journal: {reason}")]
    Damaged {
        /// The journal.
        name: String,
        /// Reason.
        reason: String,
    },
    /// Not all files of the shard were read.
    #[error("{name}: {} is not complete", shard.as_ref().map_or("its shard".to_owned(), |it| format!("shard {it}")))]
    Incomplete {
        /// The journal.
        name: String,
        /// The shard, such as `3/10`, if the journal is that of a shard.
        shard: Option<String>,
    },
    /// The shard is of another list of files.
    #[error("{name}: shard {shard} of another list of files")]
    List {
        /// The journal.
        name: String,
        /// The shard.
        shard: String,
    },
    /// The shard was read with other options.
    #[error("{name}: shard {shard} was read with other options: {}", list(differences))]
    Options {
        /// The journal.
        name: String,
        /// The shard.
        shard: String,
        /// The options that differ, with their values in the journal (before) and in this run (now).
        differences: Vec<OptionDifference>,
    },
    /// Two journals have the same shard.
    #[error("{first} and {second} both have shard {shard}")]
    Duplicate {
        /// The first journal.
        first: String,
        /// The second.
        second: String,
        /// The shard.
        shard: String,
    },
    /// Two shards are of different numbers of shards.
    #[error("{first} has shard {one}, but {second} has shard {other}")]
    Division {
        /// The first journal.
        first: String,
        /// The second.
        second: String,
        /// Shard of the first.
        one: String,
        /// Shard of the second.
        other: String,
    },
    /// Shards without a journal.
    #[error("missing {} {}{}", if *count == 1 { "shard" } else { "shards" }, first.join(", "),
        if *count > first.len() as u64 { format!(" and {} more", count - first.len() as u64) } else { String::new() })]
    Missing {
        /// Number of missing shards.
        count: u64,
        /// The first of them.
        first: Vec<String>,
    },
}

impl MergeError {
    pub(crate) fn damaged(name: &str, reason: impl ToString) -> Self {
        Self::Damaged { name: name.to_owned(), reason: reason.to_string().replace('\n', " ") }
    }

    /// Returns the remedy to suggest to the user, if any.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::Journal(JournalError::Locked { .. }) => Remedy::advice("wait until the shard is complete"),
            Self::Journal(JournalError::Full { .. }) => Remedy::advice("free some space, and run again"),
            Self::Journal(_) | Self::Damaged { .. } => {
                Remedy::advice("if it is the journal of a shard, delete it and read the shard again")
            }
            Self::Incomplete { .. } => Remedy::advice("run the command of the shard again"),
            Self::List { .. } => Remedy::advice("give the same list of files to all shards and to the merge"),
            Self::Options { .. } => Remedy::advice("give the same options to all shards and to the merge"),
            Self::Duplicate { .. } | Self::Division { .. } => {
                Remedy::advice("merge one journal of each shard")
            }
            Self::Missing { .. } => Remedy::advice("read the missing shards on any machine"),
        })
    }
}

fn list(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
