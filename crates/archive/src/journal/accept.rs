//! Accepts a staged listing.

use std::collections::BTreeMap;

use rusqlite::{Transaction, params};
use virtualize::ErrorClass;

use super::{
    Journal, JournalError,
    listing::UNNAMED,
    rows::{Counts, class_name},
    saved,
    schema::OPEN,
    work::signed,
};

/// How to accept a listing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accept {
    /// Adds the listed files to those in the journal.
    pub(crate) append: bool,
    /// Deletes everything in the journal first.
    pub(crate) restart: bool,
    /// Deletes files that are in no output, unless they are listed.
    pub(crate) drop_unwritten: bool,
    /// Schedules failed files again.
    pub(crate) retry_failed: bool,
    /// Schedules files again that failed because their store was unavailable.
    pub(crate) retry_unavailable: bool,
}

impl Journal {
    /// Accepts the staged listing, together with the options and a fact of the run, atomically: from then on the
    /// journal's files are those of this run.
    pub(crate) fn accept(
        &mut self,
        how: Accept,
        options: &BTreeMap<String, String>,
        fact: Option<(&str, &str)>,
    ) -> Result<Counts, JournalError> {
        let done = self.accept_all(how, options, fact);
        done.map_err(|error| self.failed(error))?;
        if how.restart {
            self.run = 1;
            self.known = saved::Known::default().into();
        }
        self.counts()
    }

    fn accept_all(
        &mut self,
        how: Accept,
        options: &BTreeMap<String, String>,
        fact: Option<(&str, &str)>,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        if how.restart {
            restart(&transaction)?;
        }
        let files = number(&transaction, "files")? - forget(&transaction, how)?;
        let files = files + take_over(&transaction, how.append)?;
        set_number(&transaction, "files", files)?;
        if how.retry_failed {
            let sql = format!("UPDATE files SET state = 0, attempts = 0 WHERE {OPEN} AND state = 2");
            transaction.execute(&sql, [])?;
        } else if how.retry_unavailable {
            let sql =
                format!("UPDATE files SET state = 0, attempts = 0 WHERE {OPEN} AND state = 2 AND class = ?1");
            transaction.execute(&sql, [class_name(ErrorClass::Unavailable)])?;
        }
        for (name, value) in options {
            let sql = "INSERT OR REPLACE INTO options (name, value) VALUES (?1, ?2)";
            transaction.execute(sql, params![name, value])?;
        }
        if let Some((name, value)) = fact {
            let sql = "INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)";
            transaction.execute(sql, params![name, value])?;
        }
        transaction.execute_batch(
            "DELETE FROM listing; DELETE FROM looked; DELETE FROM names; DELETE FROM dropped",
        )?;
        transaction.commit()
    }
}

/// Returns a fact that is a number.
pub(super) fn number(connection: &rusqlite::Connection, name: &str) -> rusqlite::Result<u64> {
    let sql = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?1";
    connection.query_row(sql, [name], |row| row.get(0)).map(super::work::unsigned)
}

fn set_number(transaction: &Transaction<'_>, name: &str, number: u64) -> rusqlite::Result<()> {
    let sql = "UPDATE facts SET value = ?2 WHERE name = ?1";
    transaction.execute(sql, params![name, number.to_string()]).map(drop)
}

/// Deletes the files, outputs, options and facts of earlier runs, and treats every staged file as new.
fn restart(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM tails; DELETE FROM begun; DELETE FROM contents; DELETE FROM chunks; DELETE FROM files;
        DELETE FROM documents; DELETE FROM nodes; DELETE FROM kinds; DELETE FROM options; DELETE FROM outputs;
        DELETE FROM facts WHERE name NOT IN ('program', 'run', 'files', 'next');
        UPDATE facts SET value = '1' WHERE name = 'run'; UPDATE facts SET value = '0' WHERE name IN ('files', 'next');
        UPDATE listing SET known = NULL, changed = 0; DELETE FROM looked",
    )
}

/// Deletes the files that are not part of this run. Returns their number.
fn forget(transaction: &Transaction<'_>, how: Accept) -> rusqlite::Result<u64> {
    let gone = "SELECT known FROM looked WHERE gone AND NOT EXISTS
        (SELECT 1 FROM listing WHERE listing.known = looked.known)";
    let files = match (how.append, how.drop_unwritten) {
        (false, _) => format!("SELECT id FROM files WHERE {UNNAMED}"),
        (true, false) => gone.to_owned(),
        (true, true) => format!("{gone} UNION SELECT id FROM files WHERE {OPEN} AND {UNNAMED}"),
    };
    transaction.execute(&format!("INSERT OR IGNORE INTO dropped {files}"), [])?;
    let deleted = transaction.execute("DELETE FROM files WHERE id IN (SELECT file FROM dropped)", [])?;
    Ok(deleted as u64)
}

/// Assigns rows and positions to the listed files, and discards the records of files that have changed. Returns the
/// number of new files.
fn take_over(transaction: &Transaction<'_>, append: bool) -> rusqlite::Result<u64> {
    let again = "state = 0, attempts = 0, class = NULL, error = NULL";
    // The unary plus makes SQLite look up each of the few files that changed, instead of each file there.
    transaction.execute_batch(&format!(
        "UPDATE files SET {again}, size = l.size, etag = l.etag, modified = l.modified, properties = l.properties
            FROM listing AS l WHERE files.id = +l.known AND l.changed;
        UPDATE files SET {again}, size = l.size, etag = l.etag, modified = l.modified
            FROM looked AS l WHERE files.id = +l.known;
        INSERT OR IGNORE INTO dropped SELECT known FROM listing WHERE changed UNION ALL SELECT known FROM looked;
        DELETE FROM contents WHERE id IN (SELECT file FROM dropped);
        DELETE FROM chunks WHERE (node, file) IN (SELECT nodes.id, file FROM dropped CROSS JOIN nodes)"
    ))?;
    if !append {
        transaction.execute(
            "UPDATE files SET position = l.position FROM listing AS l
            WHERE files.id = +l.known AND files.position <> l.position",
            [],
        )?;
    }
    // New files follow all others. Without append only listed files remain, in the order of the listing.
    let first = if append { number(transaction, "next")? } else { 0 };
    let sql = "INSERT INTO files (url, position, size, etag, modified, properties, state)
        SELECT url, position + ?1, size, etag, modified, properties, 0 FROM listing WHERE +known IS NULL
        ORDER BY listing.position";
    let new = transaction.execute(sql, [signed(first)])?;
    let listed: i64 =
        transaction.query_row("SELECT coalesce(1 + max(position), 0) FROM listing", [], |row| row.get(0))?;
    set_number(transaction, "next", first + super::work::unsigned(listed))?;
    Ok(new as u64)
}
