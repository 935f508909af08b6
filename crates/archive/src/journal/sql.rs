//! The tables of a journal, and the SQL that its modules share.

use std::{io::Read, path::Path};

use rusqlite::{Connection, Row, params};

use super::{JournalError, Result, Work};
use crate::Item;

/// SQLite application ID of a journal: "vjrn".
const APPLICATION: i32 = 0x766A_726E;
/// Version of the schema.
const VERSION: i32 = 7;
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
mod tests {
    #[test]
    fn the_index_has_the_condition_of_its_queries() {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain(super::TABLES).contains(&format!("WHERE {};", super::OPEN)));
    }
}
