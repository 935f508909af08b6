//! The journal: the state of each file of a run in one SQLite file, from which a run that was killed resumes.
//!
//! One process at a time: SQLite's own lock is held while the journal is open, and is released when its process ends.
//! The write-ahead log keeps the journal consistent if the process is killed or power fails. The last few records may
//! then be lost; the run reads those files again.

mod codec;
mod files;
mod record;
mod shard;
#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    io::Read,
    path::{Path, PathBuf},
};

use JournalErrorKind as Kind;
use rusqlite::{Connection, OpenFlags, Row, params, types::FromSql};
use virtualize::{Code, ErrorClass, OptionName, Remedy};
use virtualize_store::local_path;

use crate::{Error, Item};

pub(crate) use files::{Accept, Listing, Planned, ToCheck};
pub use files::{FailureState, JournalState, OutputState};
pub(crate) use record::{Done, Failure, FileRecord, Outcome, Record, Work, class_name, json_text};
pub(crate) use shard::Sealed;

type Result<T, E = JournalError> = std::result::Result<T, E>;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    connection: Connection,
    path: PathBuf,
    /// Number of this run, from 1.
    run: i64,
    /// Rows of the tables of documents, nodes and kinds.
    cache: RefCell<record::Cache>,
}

impl Journal {
    /// Opens or creates a journal. No other process can open it until it is closed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |error: rusqlite::Error| JournalError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        lock(&connection).map_err(failed)?;
        settle(&mut connection, path)?;
        let mut journal = Self::of_connection(connection, path);
        journal.execute("UPDATE facts SET value = CAST(value AS INTEGER) + 1 WHERE name = 'run'", [])?;
        journal.run = journal.get("SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'run'", [])?;
        Ok(journal)
    }

    /// Opens an existing journal without locking it or changing its contents. `name` is its name for messages.
    pub(crate) fn open_read_only(path: &Path, name: &Path) -> Result<Self> {
        let failed = |error: rusqlite::Error| JournalError::of(name, error);
        // Only a connection that may write removes its shared memory file.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(std::time::Duration::ZERO).map_err(failed)?;
        check(&connection, name)?;
        Ok(Self::of_connection(connection, name))
    }

    /// Copies the journal to a new file.
    pub(crate) fn copy(&self, to: &Path) -> Result<()> {
        self.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map(drop)
    }

    /// Returns an empty journal on disk that vanishes when it is closed.
    pub(crate) fn temporary() -> Result<Self> {
        let path = Path::new("temporary journal");
        let mut connection = Connection::open("").map_err(|error| JournalError::of(path, error))?;
        settle(&mut connection, path)?;
        Ok(Self::of_connection(connection, path))
    }

    fn of_connection(connection: Connection, path: &Path) -> Self {
        connection.set_prepared_statement_cache_capacity(64);
        Self { connection, path: path.to_owned(), run: 0, cache: RefCell::default() }
    }

    /// Deletes a journal that cannot be opened because it is damaged or of another version. Leaves any other file
    /// alone.
    ///
    /// # Errors
    /// [`JournalError`]; a file that is not a journal stays.
    pub(crate) fn remove_unusable(path: &Path) -> Result<()> {
        match Self::open(path).map(drop).map_err(|error| (error.kind, error)) {
            Ok(()) => return Ok(()),
            Err((JournalErrorKind::Version, _)) => {}
            Err((JournalErrorKind::NotAJournal | JournalErrorKind::Failed, _))
                if is_damaged_journal(path) => {}
            Err((_, error)) => return Err(error),
        }
        // SQLite's side files first: a new journal would take them for its own.
        for end in ["-journal", "-wal", "-shm", ""] {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            match std::fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(JournalError::failed(path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether this is the journal's first run.
    pub(crate) fn is_new(&self) -> bool {
        self.run == 1
    }

    /// Returns the path of the journal.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a fact of the whole run, such as the folder that names are relative to.
    pub(crate) fn fact(&self, name: &str) -> Result<Option<String>> {
        self.find("SELECT value FROM facts WHERE name = ?1", [name])
    }

    /// Stores a fact, or deletes it.
    pub(crate) fn set_fact(&self, name: &str, value: Option<&str>) -> Result<()> {
        let done = match value {
            Some(value) => self
                .execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)", params![name, value]),
            None => self.execute("DELETE FROM facts WHERE name = ?1", [name]),
        };
        done.map(drop)
    }

    fn failed(&self, error: rusqlite::Error) -> JournalError {
        JournalError::of(&self.path, error)
    }

    /// Runs statements.
    fn query<'a, T>(&'a self, run: impl FnOnce(&'a Connection) -> rusqlite::Result<T>) -> Result<T> {
        run(&self.connection).map_err(|error| self.failed(error))
    }

    /// Runs statements in one transaction.
    fn transact<T>(
        &mut self,
        run: impl FnOnce(&Connection, &mut record::Cache, i64) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let Self { connection, cache, run: number, .. } = self;
        let cache = cache.get_mut();
        let done = connection.transaction().and_then(|transaction| {
            let done = run(&transaction, cache, *number)?;
            transaction.commit()?;
            Ok(done)
        });
        if done.is_err() {
            // Its rows are not those of the database once a transaction was rolled back.
            *cache = record::Cache::default();
        }
        done.map_err(|error| self.failed(error))
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
        self.query(|connection| connection.prepare_cached(sql)?.execute(values))
    }

    /// Returns all rows.
    fn all<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.query(|connection| connection.prepare_cached(sql)?.query_map(values, row)?.collect())
    }

    /// Calls a function for each row, one after the other.
    fn for_each<E: From<JournalError>>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<Result<(), E>>,
    ) -> Result<(), E> {
        let failed = |error| E::from(self.failed(error));
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(values).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(row).map_err(failed)??;
        }
        Ok(())
    }

    /// Returns the first column of all rows.
    fn column<T: FromSql>(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<T>> {
        self.all(sql, values, |row| row.get(0))
    }

    /// Returns the first value of the only row.
    fn get<T: FromSql>(&self, sql: &str, values: impl rusqlite::Params) -> Result<T> {
        self.query(|connection| connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)))
    }

    /// Returns the first value of the only row, if there is one.
    fn find<T: FromSql>(&self, sql: &str, values: impl rusqlite::Params) -> Result<Option<T>> {
        Ok(self.column(sql, values)?.pop())
    }
}

/// Returns the default journal of an output: next to a local output, else in the current folder.
pub(crate) fn journal_next_to(output: &str) -> PathBuf {
    let trimmed = output.trim_end_matches('/');
    let mut journal = match trimmed.contains("://") {
        true => local_path(trimmed)
            .unwrap_or_else(|| trimmed.rsplit('/').next().unwrap_or(trimmed).into())
            .into_os_string(),
        // A relative path stays relative.
        false => trimmed.into(),
    };
    journal.push(".journal");
    journal.into()
}

/// Error of a journal. The message is one line.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct JournalError {
    /// What kind of error it is.
    pub(crate) kind: JournalErrorKind,
    path: PathBuf,
    reason: String,
}

/// Kinds of errors of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalErrorKind {
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

/// Returns the options that differ between a journal and this run, such as `copy-limit was 65536, is 0`.
pub(crate) fn differing(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let value = |options: &BTreeMap<String, String>, name| {
        options.get(name).map_or("none", String::as_str).to_owned()
    };
    let differ = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    differ.map(|name| format!("{name} was {}, is {}", value(before, name), value(now, name))).collect()
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

    pub(crate) fn other_options(path: &Path, differences: &[String]) -> Self {
        Self::new(Kind::OtherOptions, path, format!("begun with other options: {}", differences.join("; ")))
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
    pub(crate) fn is_conflict(&self) -> bool {
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
fn shard_unopened(error: JournalError) -> Error {
    let class = if error.is_conflict() { ErrorClass::Conflict } else { ErrorClass::Unavailable };
    let advice = if error.kind == Kind::Locked { "wait until the shard is complete" } else { READ_AGAIN };
    Error::new(class, Code::Shards, error.to_string(), Remedy::advice(advice))
}

/// SQLite application ID of a journal: "vjrn".
const APPLICATION: i32 = 0x766A_726E;
/// Version of the schema.
const VERSION: i32 = 9;
const TABLES: &str = include_str!("schema.sql");
const STAGED: &str = include_str!("staged.sql");

/// Condition: the current version of the file is in no output. That of the index of such files in `schema.sql`.
pub(super) const OPEN: &str = "NOT (state = 1 AND (written IS NOT NULL OR coalesce(committed = run, 0)))";
/// Condition: the file is in some output.
pub(super) const USED: &str = "(committed IS NOT NULL OR (written IS NOT NULL AND state = 1))";
/// Condition: this run does not list the file.
pub(super) const UNNAMED: &str = "NOT EXISTS (SELECT 1 FROM listing WHERE known = files.id)";

/// Converts an integer to SQLite's type, saturating.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// States of a file.
pub(super) const PENDING: i64 = 0;
pub(super) const DONE: i64 = 1;
pub(super) const FAILED: i64 = 2;

/// Columns of [`work_of`]; the state follows.
pub(super) const ITEM: &str =
    "files.id, files.url, files.size, files.etag, files.modified, files.properties, files.state";

/// Returns the file of a row.
pub(super) fn work_of(row: &Row<'_>) -> rusqlite::Result<Work> {
    let properties: Option<String> = row.get(5)?;
    let properties = properties.map(|text| serde_json::from_str(&text)).transpose();
    let item = Item {
        url: row.get(1)?,
        size: row.get::<_, Option<i64>>(2)?.map(unsigned),
        etag: row.get(3)?,
        modified: row.get(4)?,
        properties: properties.unwrap_or_default().unwrap_or_default(),
    };
    Ok(Work { id: row.get(0)?, item })
}

/// Returns a fact that is a number.
pub(super) fn number(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let sql = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?1";
    connection.query_row(sql, [name], |row| row.get(0)).map(unsigned)
}

pub(super) fn set_number(connection: &Connection, name: &str, number: u64) -> rusqlite::Result<()> {
    let sql = "UPDATE facts SET value = ?2 WHERE name = ?1";
    connection.execute(sql, params![name, number.to_string()]).map(drop)
}

/// Size of SQLite's cache of pages, in KiB.
const CACHE: i64 = 64 << 10;

/// Acquires the lock, which lasts until the connection is closed.
pub(super) fn lock(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE)?;
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")
}

/// Creates the tables of a new file; rejects a file of another version, or one that is not a journal.
pub(super) fn settle(connection: &mut Connection, path: &Path) -> Result<()> {
    let failed = |error| JournalError::of(path, error);
    let is_empty = "SELECT count(*) = 0 FROM sqlite_schema";
    if connection.query_row(is_empty, [], |row| row.get(0)).map_err(failed)? {
        create(connection).map_err(failed)?;
    } else {
        check(connection, path)?;
    }
    connection.execute_batch(STAGED).map_err(failed)
}

/// Rejects a file of another version of the schema or of the program, whose rows may differ, or one that is not a
/// journal.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<()> {
    let failed = |error| JournalError::of(path, error);
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) =
        (number("application_id").map_err(failed)?, number("user_version").map_err(failed)?);
    if application != APPLICATION {
        return Err(JournalError::not_a_journal(path, "another program's database"));
    }
    if version != VERSION {
        return Err(JournalError::version(path, version, VERSION));
    }
    let sql = "SELECT value FROM facts WHERE name = 'program'";
    let found: String = connection.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
    let expected = env!("CARGO_PKG_VERSION");
    if found == expected {
        return Ok(());
    }
    Err(JournalError::version(path, format!("{found} of the program"), expected))
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute(
        "INSERT INTO facts (name, value) VALUES ('program', ?1), ('run', '0'), ('files', '0'), ('next', '0')",
        [env!("CARGO_PKG_VERSION")],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Returns whether a file that cannot be opened is nevertheless a journal: by its header or, if the header names no
/// program, by its name.
pub(super) fn is_damaged_journal(path: &Path) -> bool {
    let mut header = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(100).read_to_end(&mut header));
    header.resize(100, 0);
    let program =
        header.get(68..72).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(i32::from_be_bytes);
    let is_named = path.extension().is_some_and(|extension| extension == "journal");
    read.is_ok()
        && header.starts_with(b"SQLite format 3\0")
        && (program == Some(APPLICATION) || (program == Some(0) && is_named))
}

#[cfg(test)]
mod header_tests {
    #[test]
    fn the_index_has_the_condition_of_its_queries() {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain(super::TABLES).contains(&format!("WHERE {};", super::OPEN)));
    }
}
