//! What a listing would change, without changing the journal: staged files are in temporary tables.

use std::{cell::RefCell, path::Path};

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::{
    Accept, Journal, JournalError,
    rows::class_name,
    schema,
    work::{known_of, unsigned},
};
use crate::Item;

/// Condition on a staged file `l` and its row `f`: a run reads it. Parameters: whether failed files are tried again;
/// whether those of unavailable stores are; the name of their class.
const TO_READ: &str =
    "(l.known IS NULL OR l.changed OR f.state = 0 OR (f.state = 2 AND (?1 OR (?2 AND f.class = ?3)))
    OR EXISTS (SELECT 1 FROM looked WHERE known = l.known AND NOT gone))";
/// Tables and indices whose size depends on the number of files.
const OF_FILES: &str = "name IN ('files', 'sqlite_autoindex_files_1', 'open_files', 'contents', 'chunks')";

/// The staged files, compared with those of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Survey {
    /// Number of listed files.
    pub files: u64,
    /// Number of those that the journal does not have.
    pub new: u64,
    /// Number of those that were replaced since they were read.
    pub changed: u64,
    /// Number of those that a run would read: new and changed ones, and those that are tried again.
    pub to_read: u64,
    /// Number of listed files whose size is not known.
    pub without_size: u64,
    /// Size of the others in bytes.
    pub bytes: u64,
    /// Size of the files to read in bytes.
    pub bytes_to_read: u64,
}

impl Journal {
    /// Opens a journal without counting a run. No other process can open it until it is closed.
    pub(crate) fn open_unchanged(path: &Path) -> Result<Self, JournalError> {
        let failed = |error: rusqlite::Error| JournalError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        schema::lock(&connection).map_err(failed)?;
        schema::settle(&mut connection, path)?;
        Self::of_connection(connection, path)
    }

    /// Returns an empty journal on disk that vanishes when it is closed.
    pub(crate) fn temporary() -> Result<Self, JournalError> {
        let path = Path::new("temporary journal");
        let mut connection = Connection::open("").map_err(|error| JournalError::of(path, error))?;
        schema::settle(&mut connection, path)?;
        Self::of_connection(connection, path)
    }

    /// Compares the staged files with those of the journal.
    pub(crate) fn survey(&self, how: Accept) -> Result<Survey, JournalError> {
        let sql = format!(
            "SELECT count(*), count(*) FILTER (WHERE l.known IS NULL),
                count(*) FILTER (WHERE l.changed OR EXISTS (SELECT 1 FROM looked WHERE known = l.known AND NOT gone)),
                count(*) FILTER (WHERE {TO_READ}), count(*) FILTER (WHERE l.size IS NULL),
                total(l.size), total(l.size) FILTER (WHERE {TO_READ})
            FROM listing AS l LEFT JOIN files AS f ON f.id = l.known"
        );
        let found = self.connection.query_row(&sql, again(how), |row| {
            let count = |at: usize| row.get(at).map(unsigned);
            Ok(Survey {
                files: count(0)?,
                new: count(1)?,
                changed: count(2)?,
                to_read: count(3)?,
                without_size: count(4)?,
                bytes: whole(row.get(5)?),
                bytes_to_read: whole(row.get(6)?),
            })
        });
        found.map_err(|error| self.failed(error))
    }

    /// Returns at most `most` of the staged files that a run would read, evenly spread.
    pub(crate) fn sample(&self, how: Accept, most: u64) -> Result<Vec<Item>, JournalError> {
        let to_read = self.survey(how)?.to_read;
        let most = most.min(to_read);
        let all = || {
            let sql = format!(
                "SELECT l.position, l.url, l.size, l.etag, l.modified, l.properties, 0
                FROM listing AS l LEFT JOIN files AS f ON f.id = l.known WHERE {TO_READ} ORDER BY l.position"
            );
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query(again(how))?;
            let (mut items, mut at) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                if at == spread(items.len() as u64, most, to_read) {
                    items.push(known_of(row)?.item);
                }
                at += 1;
            }
            Ok(items)
        };
        all().map_err(|error| self.failed(error))
    }

    /// Returns the bytes that all files take together, without what they share.
    pub(crate) fn bytes_of_files(&self) -> Result<u64, JournalError> {
        let sql = format!("SELECT total(payload) FROM dbstat WHERE {OF_FILES}");
        self.connection.query_row(&sql, [], |row| row.get(0)).map(whole).map_err(|error| self.failed(error))
    }

    pub(super) fn of_connection(connection: Connection, path: &Path) -> Result<Self, JournalError> {
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self { connection, path: path.to_owned(), run: 0, known: RefCell::default() })
    }
}

/// Returns the parameters of [`TO_READ`].
fn again(how: Accept) -> (bool, bool, &'static str) {
    (how.retry_failed, how.retry_unavailable, class_name(virtualize::ErrorClass::Unavailable))
}

/// Returns the place of the sample's file `at` of `most` among all `files`: the first is the first of all, the last the
/// last.
fn spread(at: u64, most: u64, files: u64) -> u64 {
    let last = u128::from(files.saturating_sub(1));
    let place = u128::from(at) * last / u128::from(most.saturating_sub(1).max(1));
    if at < most { u64::try_from(place).unwrap_or(u64::MAX) } else { u64::MAX }
}

/// Converts a sum, which SQLite's `total` returns as a float so that it cannot overflow.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn whole(sum: f64) -> u64 {
    sum as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_evenly_spread() {
        let places = |most, files| (0..most).map(|at| spread(at, most, files)).collect::<Vec<_>>();
        assert_eq!(places(1, 1), [0]);
        assert_eq!(places(1, 9), [0]);
        assert_eq!(places(3, 3), [0, 1, 2]);
        assert_eq!(places(5, 101), [0, 25, 50, 75, 100]);
        assert_eq!(places(3, 10), [0, 4, 9]);
        assert_eq!(spread(3, 3, 10), u64::MAX, "no further file");
    }
}
