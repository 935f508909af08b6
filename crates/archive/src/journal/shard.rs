//! The journals of shards: sealed once all files of the shard are read, and imported into the journal of another run.

use std::collections::BTreeMap;

use rusqlite::{Connection, OpenFlags, OptionalExtension, types::ValueRef};
use sha2::{Digest as _, Sha256};
use virtualize::Remedy;

use super::{
    Done, Failed, Journal, JournalError, OptionDifference, Outcome, Record, Work,
    rows::State,
    saved, schema,
    work::{self, ITEM, known_of, signed, unsigned},
};
use crate::Shard;

/// The facts that identify the shard and the list that it belongs to, and the digest of a complete journal.
const SHARD: &str = "shard";
const LIST: &str = "list";
const SEAL: &str = "seal";

/// The tables of which a seal is the digest.
const TABLES: [&str; 7] = ["options", "files", "contents", "chunks", "nodes", "documents", "kinds"];
/// Number of files that are imported in one transaction.
const PAGE: u64 = 1000;

/// What identifies the complete journal of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sealed {
    /// The shard.
    pub(crate) shard: Shard,
    /// Number of its files.
    pub(crate) files: u64,
    /// Number of those that could not be read.
    pub(crate) failed: u64,
    /// Digest of the list of files.
    list: String,
    /// The options on which records depend.
    options: BTreeMap<String, String>,
    /// Digest of all records.
    digest: String,
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
    #[error("{name}: shard {shard} was read with other options: {}", super::error::list(differences))]
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
            Self::Missing { .. } => Remedy::advice("read them on any machine"),
        })
    }
}

impl Sealed {
    /// Checks that the shard belongs to a run with these options, over this list.
    pub(crate) fn check(
        &self,
        name: &str,
        options: &BTreeMap<String, String>,
        list: &str,
    ) -> Result<(), MergeError> {
        let (name, shard) = (name.to_owned(), self.shard.to_string());
        let differences = OptionDifference::between(&self.options, options);
        if !differences.is_empty() {
            return Err(MergeError::Options { name, shard, differences });
        }
        if self.list != list { Err(MergeError::List { name, shard }) } else { Ok(()) }
    }
}

impl Journal {
    /// Returns the seal of a journal that was complete, and removes it: the journal may change.
    pub(crate) fn unseal(&self) -> Result<Option<Sealed>, MergeError> {
        if self.fact(SEAL)?.is_none() {
            return Ok(None);
        }
        let sealed = self.sealed(&self.path.display().to_string())?;
        self.set_fact(SEAL, None)?;
        Ok(Some(sealed))
    }

    /// Records which shard of which list the journal has.
    pub(crate) fn set_shard(&self, shard: Shard, list: &str) -> Result<(), JournalError> {
        self.set_fact(SHARD, Some(&shard.to_string()))?;
        self.set_fact(LIST, Some(list))
    }

    /// Seals a journal whose files are all read, and closes it as a single file.
    pub(crate) fn seal(self) -> Result<Sealed, MergeError> {
        let digest = digest(&self.connection).map_err(|error| self.failed(error))?;
        self.set_fact(SEAL, Some(&digest))?;
        let single = self.connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()));
        single.map_err(|error| self.failed(error))?;
        self.sealed(&self.path.display().to_string())
    }

    /// Opens the sealed journal of a shard to read it. `name` is its name for messages.
    pub(crate) fn open_sealed(file: &std::path::Path, name: &str) -> Result<(Self, Sealed), MergeError> {
        let named = std::path::Path::new(name);
        let failed = |error: rusqlite::Error| JournalError::of(named, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
        connection.busy_timeout(std::time::Duration::ZERO).map_err(failed)?;
        schema::check(&connection, named)?;
        let journal = Self::of_connection(connection, named)?;
        let intact: String = journal
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| MergeError::damaged(name, error))?;
        if intact != "ok" {
            return Err(MergeError::damaged(name, intact));
        }
        let sealed = journal.sealed(name)?;
        Ok((journal, sealed))
    }

    /// Checks the seal.
    fn sealed(&self, name: &str) -> Result<Sealed, MergeError> {
        let shard = self.fact(SHARD)?;
        let facts =
            (shard.as_deref().and_then(|shard| shard.parse().ok()), self.fact(LIST)?, self.fact(SEAL)?);
        let (Some(number), Some(list), Some(seal)) = facts else {
            return Err(MergeError::Incomplete { name: name.to_owned(), shard });
        };
        let digest = digest(&self.connection).map_err(|error| MergeError::damaged(name, error))?;
        if digest != seal {
            return Err(MergeError::damaged(name, "its records are not those that were written"));
        }
        let counts = self.counts()?;
        if counts.pending > 0 {
            return Err(MergeError::Incomplete { name: name.to_owned(), shard });
        }
        let (files, failed) = (counts.all(), counts.failed);
        Ok(Sealed { shard: number, files, failed, list, options: self.options()?, digest })
    }

    /// Adds the files of a sealed journal, as [`Self::import`] does. Calls `fail` for each file that could not be read.
    pub(crate) fn merge(
        &mut self,
        from: &Self,
        skip_failures: bool,
        mut fail: impl FnMut(String, u32, String, String),
    ) -> Result<u64, JournalError> {
        let (mut done, mut after) = (0, 0);
        loop {
            let sql = format!("SELECT id FROM files WHERE id > {after} ORDER BY id LIMIT ?1");
            let page: Vec<i64> = from.column(&sql, [signed(PAGE)])?;
            let Some(last) = page.last() else { return Ok(done) };
            after = *last;
            let files = page.into_iter().map(|id| from.outcome(id)).collect::<rusqlite::Result<Vec<_>>>();
            let files = files.map_err(|error| from.failed(error))?;
            for (url, outcome) in &files {
                if let Outcome::Failed(Failed { attempts, class, error }) = outcome {
                    fail(url.clone(), *attempts, super::class_name(*class).to_owned(), error.clone());
                }
            }
            done += self.import(&files, skip_failures)?;
        }
    }

    /// Adds files that another journal has, by URL, in one transaction. Files that are done or that failed in this run
    /// stay as they are; with `skip_failures`, failures are not added. Returns the number of files that are done now
    /// and were not before. A file that was replaced since it was listed stays to be read.
    pub(crate) fn import(
        &mut self,
        files: &[(String, Outcome)],
        skip_failures: bool,
    ) -> Result<u64, JournalError> {
        let Self { connection, known, run, .. } = self;
        let known = known.get_mut();
        let mut all = || {
            let transaction = connection.transaction()?;
            let mut added = 0;
            for (url, outcome) in files {
                let sql = format!("SELECT {ITEM}, class IS NOT NULL FROM files WHERE url = ?1");
                let mut statement = transaction.prepare_cached(&sql)?;
                let found = statement.query_row([url], |row| Ok((known_of(row)?, row.get(7)?)));
                let (file, failed_before): (_, bool) = found?;
                let may_add = match outcome {
                    // A file that failed before and is pending is to be read again.
                    Outcome::Failed(_) => !skip_failures && !failed_before,
                    Outcome::Done(done) => file.item.listed().agrees(&done.opened.listed()),
                };
                if file.state == State::Done || !may_add {
                    continue;
                }
                work::finish(&transaction, known, *run, Work { id: file.id, item: file.item }, outcome)?;
                added += u64::from(matches!(outcome, Outcome::Done(_)));
            }
            transaction.commit()?;
            Ok(added)
        };
        let added: rusqlite::Result<u64> = all();
        if added.is_err() {
            // Its rows are not those of the database once a transaction was rolled back.
            *known = saved::Known::default();
        }
        added.map_err(|error| self.failed(error))
    }

    /// Returns how reading a file ended.
    fn outcome(&self, id: i64) -> rusqlite::Result<(String, Outcome)> {
        let sql = "SELECT state, attempts, class, error, url FROM files WHERE id = ?1";
        let row = self.connection.prepare_cached(sql)?.query_row([id], |row| {
            let state: i64 = row.get(0)?;
            let class: Option<String> = row.get(2)?;
            let error: Option<String> = row.get(3)?;
            Ok((State::of(state), row.get::<_, u32>(1)?, class, error, row.get::<_, String>(4)?))
        })?;
        let (state, attempts, class, error, url) = row;
        if state != State::Done {
            let class = class.and_then(|class| super::class_named(&class));
            let class = class.ok_or_else(|| saved::damaged("a class of errors"))?;
            return Ok((url, Outcome::Failed(Failed { attempts, class, error: error.unwrap_or_default() })));
        }
        let (opened, member) = self.record(id)?;
        let sql = "SELECT milliseconds, requests, bytes, warnings FROM contents WHERE id = ?1";
        let done = self.connection.prepare_cached(sql)?.query_row([id], |row| {
            let milliseconds: Option<i64> = row.get(0)?;
            let warnings: Option<String> = row.get(3)?;
            Ok(Done {
                opened,
                replaced: false,
                attempts,
                seconds: std::time::Duration::from_millis(milliseconds.map_or(0, unsigned)).as_secs_f64(),
                requests: unsigned(row.get(1)?),
                retries: 0,
                bytes: unsigned(row.get(2)?),
                warnings: warnings.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
                record: Record::Member(Box::new(member)),
            })
        })?;
        Ok((url, Outcome::Done(Box::new(done))))
    }
}

/// Returns the digest of all records: SHA-256 of the type, length and bytes of each value, in the order of the tables.
fn digest(connection: &Connection) -> rusqlite::Result<String> {
    let mut hasher = Sha256::new();
    for fact in [SHARD, LIST] {
        let sql = "SELECT value FROM facts WHERE name = ?1";
        let value: Option<String> = connection.query_row(sql, [fact], |row| row.get(0)).optional()?;
        hasher.update(value.unwrap_or_default());
        hasher.update([0]);
    }
    for table in TABLES {
        let mut statement =
            connection.prepare(&format!("SELECT * FROM {table} NOT INDEXED ORDER BY 1, 2"))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                let number;
                let (kind, bytes) = match row.get_ref(column)? {
                    ValueRef::Null => (0_u8, &[][..]),
                    ValueRef::Integer(value) => {
                        number = value.to_le_bytes();
                        (1, &number[..])
                    }
                    ValueRef::Real(value) => {
                        number = value.to_le_bytes();
                        (2, &number[..])
                    }
                    ValueRef::Text(bytes) => (3, bytes),
                    ValueRef::Blob(bytes) => (4, bytes),
                };
                hasher.update([kind]);
                hasher.update((bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
        }
    }
    Ok(hex::encode(hasher.finalize()))
}
