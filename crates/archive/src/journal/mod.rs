//! The journal: the state of each file of a run in one SQLite file, from which a run that was killed resumes.
//!
//! One process at a time: SQLite's own lock is held while the journal is open, and is released when its process ends.
//! The write-ahead log keeps the journal consistent if the process is killed or power fails. The last few records may
//! then be lost; the run reads those files again.

mod accept;
mod chunk_table;
mod dictionary;
mod error;
mod listing;
mod members;
mod outputs;
mod recent;
mod record;
mod rows;
mod saved;
mod schema;
mod shard;
mod state;
mod survey;
mod varint;
mod work;
mod writer;

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use virtualize_store::local_path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

pub(crate) use accept::Accept;
pub use error::{JournalError, OptionDifference};
pub(crate) use rows::{
    Done, Failed, Found, Listing, MemberRow, NodeRow, Outcome, Record, Work, class_name, class_named,
};
pub use shard::MergeError;
pub(crate) use shard::Sealed;
pub use state::{FailureState, JournalState, OutputState};
pub use survey::Survey;
pub(crate) use work::Planned;
pub(crate) use writer::{Gone, Writer};

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    path: PathBuf,
    /// Number of this run, from 1.
    run: i64,
    /// What is known of the tables of documents, nodes and kinds.
    known: RefCell<saved::Known>,
}

impl Journal {
    /// Opens or creates a journal. No other process can open it until it is closed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |error: rusqlite::Error| JournalError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        schema::lock(&connection).map_err(failed)?;
        schema::settle(&mut connection, path)?;
        let run = schema::next_run(&connection).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self { connection, path: path.to_owned(), run, known: RefCell::default() })
    }

    /// Deletes a journal that cannot be opened because it is damaged or of another version. Leaves any other file
    /// alone.
    ///
    /// # Errors
    /// [`JournalError`]; a file that is not a journal stays.
    pub fn remove_unusable(path: &Path) -> Result<(), JournalError> {
        match Self::open(path) {
            Ok(_) => return Ok(()),
            Err(JournalError::Version { .. }) => {}
            Err(JournalError::NotAJournal { .. } | JournalError::Failed { .. })
                if schema::is_damaged_journal(path) => {}
            Err(error) => return Err(error),
        }
        let failed =
            |error: std::io::Error| JournalError::Failed { path: path.to_owned(), reason: error.to_string() };
        // SQLite's side files first: a new journal would take them for its own.
        for end in ["-journal", "-wal", "-shm", ""] {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            match std::fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
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
    pub fn fact(&self, name: &str) -> Result<Option<String>, JournalError> {
        let found = self
            .connection
            .query_row("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0))
            .optional();
        found.map_err(|error| self.failed(error))
    }

    /// Stores a fact, or deletes it.
    pub fn set_fact(&self, name: &str, value: Option<&str>) -> Result<(), JournalError> {
        let done = match value {
            Some(value) => self
                .connection
                .execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)", params![name, value]),
            None => self.connection.execute("DELETE FROM facts WHERE name = ?1", [name]),
        };
        done.map(drop).map_err(|error| self.failed(error))
    }

    pub(crate) fn failed(&self, error: rusqlite::Error) -> JournalError {
        JournalError::of(&self.path, error)
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
