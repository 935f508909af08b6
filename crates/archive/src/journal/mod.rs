//! The journal: the state of each file of a run in one SQLite file, from which a run that was killed resumes.
//!
//! One process at a time: SQLite's own lock is held while the journal is open, and is released when its process ends.
//! The write-ahead log keeps the journal consistent if the process is killed or power fails. The last few records may
//! then be lost; the run reads those files again.

mod codec;
mod error;
mod files;
mod outputs;
mod record;
mod rows;
mod shard;
mod sql;

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, Row, params, types::FromSql};
use virtualize_store::local_path;

pub use error::{JournalError, JournalErrorKind, OptionDifference};
pub(crate) use error::{shard_conflict, shard_damaged};
pub(crate) use files::{Accept, Found, Listing, Planned};
pub use outputs::{FailureState, JournalState, OutputState};
pub(crate) use record::{
    Done, Failure, FileRecord, NodeRecord, Outcome, Record, Work, class_name, json_text,
};
pub(crate) use shard::Sealed;

type Result<T, E = JournalError> = std::result::Result<T, E>;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    path: PathBuf,
    /// Number of this run, from 1.
    run: i64,
    /// Rows of the tables of documents, nodes and kinds.
    cache: RefCell<rows::Cache>,
}

impl Journal {
    /// Opens or creates a journal. No other process can open it until it is closed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: rusqlite::Error| JournalError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        sql::lock(&connection).map_err(failed)?;
        sql::settle(&mut connection, path)?;
        let mut journal = Self::of_connection(connection, path);
        journal.execute("UPDATE facts SET value = CAST(value AS INTEGER) + 1 WHERE name = 'run'", [])?;
        journal.run = journal.get("SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'run'", [])?;
        Ok(journal)
    }

    /// Opens a journal without locking or changing it. `name` is its name for messages.
    pub(crate) fn open_read_only(path: &Path, name: &Path) -> Result<Self> {
        let failed = |error: rusqlite::Error| JournalError::of(name, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(std::time::Duration::ZERO).map_err(failed)?;
        sql::check(&connection, name)?;
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
        sql::settle(&mut connection, path)?;
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
    pub fn remove_unusable(path: &Path) -> Result<()> {
        match Self::open(path).map(drop).map_err(|error| (error.kind, error)) {
            Ok(()) => return Ok(()),
            Err((JournalErrorKind::Version, _)) => {}
            Err((JournalErrorKind::NotAJournal | JournalErrorKind::Failed, _))
                if sql::is_damaged_journal(path) => {}
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
    pub fn is_new(&self) -> bool {
        self.run == 1
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a fact of the whole run, such as the folder that names are relative to.
    pub fn fact(&self, name: &str) -> Result<Option<String>> {
        self.find("SELECT value FROM facts WHERE name = ?1", [name])
    }

    /// Stores a fact, or deletes it.
    pub fn set_fact(&self, name: &str, value: Option<&str>) -> Result<()> {
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
        run: impl FnOnce(&Connection, &mut rows::Cache, i64) -> rusqlite::Result<T>,
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
            *cache = rows::Cache::default();
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

/// Returns the default journal of an output: beside a local output, else in the current folder.
pub fn journal_beside(output: &str) -> PathBuf {
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

#[cfg(test)]
mod tests;
