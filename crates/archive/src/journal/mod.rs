//! What is known of each file of a run, in one SQLite file: a run that was killed goes on from it.
//!
//! One process at a time: SQLite's own lock is held as long as the journal is open, and is gone with its process. Its
//! write-ahead log keeps it whole whenever a process ends or power goes; what the last moments wrote may be lost then,
//! and is read again.

mod content;
mod error;
mod rows;
mod schema;
mod work;
mod writer;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

pub(crate) use content::{pack_hierarchy, pack_values, unpack};
pub use error::{JournalError, OptionDifference};
pub(crate) use rows::{Content, Done, Failed, Listing, MemberRow, Outcome, Work};
pub(crate) use work::Planned;
pub(crate) use writer::{Gone, Writer};

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    path: PathBuf,
    /// Number of this run, from 1 on.
    run: i64,
}

impl Journal {
    /// Opens a journal, or starts one. No other process can open it until it is closed.
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
        Ok(Self { connection, path: path.to_owned(), run })
    }

    /// Takes a journal away, where there is one that no process has open.
    ///
    /// # Errors
    /// [`JournalError`]; what is no journal stays.
    pub fn remove(path: &Path) -> Result<(), JournalError> {
        if !path.exists() {
            return Ok(());
        }
        let journal = match Self::open(path) {
            Ok(journal) => Some(journal),
            Err(JournalError::Version { .. }) => None,
            Err(error) => return Err(error),
        };
        let removed = std::fs::remove_file(path);
        drop(journal);
        removed.map_err(|error| JournalError::Failed { path: path.to_owned(), reason: error.to_string() })
    }

    /// Whether this is its first run.
    pub fn is_new(&self) -> bool {
        self.run == 1
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Holds the options of this run against those with which the journal was begun; those of a new journal are kept.
    ///
    /// # Errors
    /// [`JournalError::OtherOptions`] with what differs.
    pub fn settle_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), JournalError> {
        let before = self.options().map_err(|error| self.failed(error))?;
        if before.is_empty() {
            return self.keep_options(options).map_err(|error| self.failed(error));
        }
        let names: std::collections::BTreeSet<&String> = before.keys().chain(options.keys()).collect();
        let differ = names.into_iter().filter(|name| before.get(*name) != options.get(*name));
        let said = |found: Option<&String>| found.cloned().unwrap_or_else(|| "none".to_owned());
        let differences: Vec<_> = differ
            .map(|name| OptionDifference {
                name: name.clone(),
                before: said(before.get(name)),
                now: said(options.get(name)),
            })
            .collect();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(JournalError::OtherOptions { path: self.path.clone(), differences }),
        }
    }

    fn options(&self) -> rusqlite::Result<BTreeMap<String, String>> {
        let mut statement = self.connection.prepare("SELECT name, value FROM options")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    fn keep_options(&mut self, options: &BTreeMap<String, String>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for (name, value) in options {
            transaction.execute("INSERT INTO options (name, value) VALUES (?1, ?2)", params![name, value])?;
        }
        transaction.commit()
    }

    /// A fact of the whole run, such as the folder that names are relative to.
    pub fn fact(&self, name: &str) -> Result<Option<String>, JournalError> {
        let found = self
            .connection
            .query_row("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0))
            .optional();
        found.map_err(|error| self.failed(error))
    }

    /// Keeps a fact, or forgets it.
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

/// The journal of an output: beside a local one, in the current folder for others.
pub fn journal_beside(output: &str) -> PathBuf {
    let trimmed = output.trim_end_matches('/');
    let local = match trimmed.split_once("://") {
        Some(("file", path)) => Some(path),
        Some(_) => None,
        None => Some(trimmed),
    };
    let name = local.unwrap_or_else(|| trimmed.rsplit('/').next().unwrap_or(trimmed));
    PathBuf::from(format!("{name}.journal"))
}

#[cfg(test)]
mod tests;
