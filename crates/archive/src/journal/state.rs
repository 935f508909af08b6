//! What a journal records, for people.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, OpenFlags, Row, params};
use serde::Serialize;

use super::{JournalError, accept::number, schema, work::unsigned};

/// Number of messages of each class of failures.
const MESSAGES: i64 = 3;

const OUTPUTS: &str =
    "SELECT url, strftime('%Y-%m-%dT%H:%M:%SZ', written, 'unixepoch'), begun_plan IS NOT NULL
    FROM outputs ORDER BY url";

/// What a journal records.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct JournalState {
    /// Number of runs.
    pub runs: u64,
    /// Number of files listed.
    pub files: u64,
    /// Number of those that were read.
    pub read: u64,
    /// Number of those that failed.
    pub failed: u64,
    /// Number of those still to read.
    pub pending: u64,
    /// Number of files that were read and whose current version is in no output.
    pub unwritten: u64,
    /// The outputs, by URL.
    pub outputs: Vec<OutputState>,
    /// The failures by class.
    pub failures: Vec<FailureState>,
    /// The shard of the journal, such as `3/10`, if it has one.
    pub shard: Option<String>,
    /// Options on which rows depend.
    pub options: BTreeMap<String, String>,
    /// Arguments of the last run, without secrets, if it had any.
    pub command: Option<Vec<String>>,
}

/// A combined output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OutputState {
    /// Its URL.
    pub url: String,
    /// When it was published, such as `2026-01-31T12:00:00Z`; `None` if it never was.
    pub written: Option<String>,
    /// Whether a run began to publish it, and did not finish.
    pub unfinished: bool,
}

/// Failures of a class.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FailureState {
    /// The class.
    pub class: String,
    /// Number of files.
    pub files: u64,
    /// The first messages.
    pub first: Vec<String>,
}

impl JournalState {
    /// Reads the state of a journal without changing it.
    ///
    /// # Errors
    /// [`JournalError::Locked`] while a run works on the journal; others where it cannot be read.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let failed = |error: rusqlite::Error| JournalError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(std::time::Duration::ZERO).map_err(failed)?;
        schema::check(&connection, path)?;
        read(&connection).map_err(failed)
    }
}

fn read(connection: &Connection) -> rusqlite::Result<JournalState> {
    // One transaction, so that all numbers are those of one moment.
    let transaction = connection.unchecked_transaction()?;
    let by_state = "SELECT count(*) FROM files WHERE state = ?1";
    let count = |state: i64| transaction.query_row(by_state, [state], |row| row.get(0)).map(unsigned);
    let unwritten = format!("SELECT count(*) FROM files WHERE state = 1 AND {}", schema::OPEN);
    let command: Option<String> =
        all(&transaction, "SELECT value FROM facts WHERE name = 'command'", |row| row.get(0))?.pop();
    Ok(JournalState {
        runs: number(&transaction, "run")?,
        files: number(&transaction, "files")?,
        read: count(1)?,
        failed: count(2)?,
        pending: count(0)?,
        unwritten: transaction.query_row(&unwritten, [], |row| row.get(0)).map(unsigned)?,
        outputs: all(&transaction, OUTPUTS, |row| {
            Ok(OutputState { url: row.get(0)?, written: row.get(1)?, unfinished: row.get(2)? })
        })?,
        failures: failures(&transaction)?,
        shard: all(&transaction, "SELECT value FROM facts WHERE name = 'shard'", |row| row.get(0))?.pop(),
        options: all(&transaction, "SELECT name, value FROM options", |row| Ok((row.get(0)?, row.get(1)?)))?
            .into_iter()
            .collect(),
        command: command.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

fn failures(connection: &Connection) -> rusqlite::Result<Vec<FailureState>> {
    let classes =
        "SELECT coalesce(class, ''), count(*) FROM files WHERE state = 2 GROUP BY 1 ORDER BY 2 DESC, 1";
    let classes: Vec<(String, i64)> = all(connection, classes, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut first = connection.prepare(
        "SELECT coalesce(error, url) FROM files WHERE state = 2 AND coalesce(class, '') = ?1
        ORDER BY position, id LIMIT ?2",
    )?;
    let one = |(class, files): (String, i64)| {
        let messages = first.query_map(params![class, MESSAGES], |row| row.get(0))?;
        let first = messages.collect::<rusqlite::Result<_>>()?;
        Ok(FailureState { class, files: unsigned(files), first })
    };
    classes.into_iter().map(one).collect()
}

fn all<T>(
    connection: &Connection,
    sql: &str,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(sql)?.query_map([], row)?.collect()
}
