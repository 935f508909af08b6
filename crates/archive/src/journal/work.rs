//! Queries and updates of the files' rows.

use std::sync::Arc;

use rusqlite::{Connection, Row, Transaction, params, types::FromSql};
use serde_json::json;

use super::{
    Done, Failed, Journal, JournalError, Outcome, Record, Work, accept,
    rows::{Counts, State, class_name},
    saved,
    schema::OPEN,
};
use crate::Item;

/// Converts an integer to SQLite's type, saturating.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A file and its state in the journal.
pub(super) struct Known {
    pub(super) id: i64,
    pub(super) item: Item,
    pub(super) state: State,
}

/// Columns of [`known_of`].
pub(super) const ITEM: &str =
    "files.id, files.url, files.size, files.etag, files.modified, files.properties, files.state";

pub(super) fn known_of(row: &Row<'_>) -> rusqlite::Result<Known> {
    let properties: Option<String> = row.get(5)?;
    let properties = properties.map(|text| serde_json::from_str(&text)).transpose();
    let item = Item {
        url: row.get(1)?,
        size: row.get::<_, Option<i64>>(2)?.map(unsigned),
        etag: row.get(3)?,
        modified: row.get(4)?,
        properties: properties.unwrap_or_default().unwrap_or_default(),
    };
    Ok(Known { id: row.get(0)?, item, state: State::of(row.get(6)?) })
}

/// Returns the file of a row.
pub(super) fn work(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<Work> {
    let mut statement = transaction.prepare_cached(&format!("SELECT {ITEM} FROM files WHERE id = ?1"))?;
    let known = statement.query_row([id], known_of)?;
    Ok(Work { id, item: known.item })
}

/// Records how reading a file ended.
pub(super) fn finish(
    transaction: &Transaction<'_>,
    memory: &mut saved::Known,
    run: i64,
    work: Work,
    outcome: &Outcome,
) -> rusqlite::Result<()> {
    match outcome {
        Outcome::Done(done) => self::done(transaction, memory, run, work, done),
        Outcome::Failed(failed) => self::failed(transaction, work.id, failed),
    }
}

fn failed(transaction: &Transaction<'_>, id: i64, failed: &Failed) -> rusqlite::Result<()> {
    let sql = "UPDATE files SET state = ?2, attempts = ?3, class = ?4, error = ?5 WHERE id = ?1";
    let state = State::Failed.number();
    let mut statement = transaction.prepare_cached(sql)?;
    statement.execute(params![id, state, failed.attempts, class_name(failed.class), failed.error]).map(drop)
}

/// Stores the record of a file that was read.
fn done(
    transaction: &Transaction<'_>,
    memory: &mut saved::Known,
    run: i64,
    Work { id, item: listed }: Work,
    done: &Done,
) -> rusqlite::Result<()> {
    let Item { size, etag, modified, .. } = done.opened.clone();
    let item = match done.replaced {
        true => Item { size, etag, modified, ..listed },
        // Fills in only what the listing left out.
        false => Item {
            size: listed.size.or(size),
            etag: listed.etag.or(etag),
            modified: listed.modified.or(modified),
            ..listed
        },
    };
    let (written, member) = match &done.record {
        Record::Written { name, receipt } => (Some((name, receipt)), None),
        Record::Member(member) => (None, Some(saved::save(transaction, memory, id, &item, member)?)),
    };
    let sql = "UPDATE files SET size = ?2, etag = ?3, modified = ?4, state = 1, attempts = ?5, class = NULL,
        error = NULL, written = ?6, receipt = ?7, run = ?8 WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        id,
        item.size.map(signed),
        item.etag,
        item.modified,
        done.attempts,
        written.map(|(name, _)| name),
        written.map(|(_, receipt)| receipt),
        run,
    ])?;
    let sql = "INSERT OR REPLACE INTO contents
        (id, milliseconds, requests, bytes, warnings, kind, extent, sources, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    transaction.prepare_cached(sql)?.execute(params![
        id,
        milliseconds(done.seconds),
        signed(done.requests),
        signed(done.bytes),
        (!done.warnings.is_empty()).then(|| json!(done.warnings).to_string()),
        member.as_ref().map(|member| member.kind),
        member.as_ref().map(|member| &member.extent),
        member.as_ref().and_then(|member| member.sources.as_ref()),
        member.as_ref().map(|member| &member.record),
    ])?;
    Ok(())
}

fn milliseconds(seconds: f64) -> Option<i64> {
    let duration = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    i64::try_from(duration.as_millis()).ok()
}

/// A file that is done, as the plan needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    /// Its row.
    pub(crate) id: i64,
    /// Number of the run that read it.
    pub(crate) run: i64,
    /// [`crate::compat::Signature::storage_digest`].
    pub(crate) storage: Arc<str>,
    /// The [`crate::plan::FileExtent`], as JSON.
    pub(crate) extent: String,
}

fn planned(connection: &Connection, known: &mut saved::Known, row: &Row<'_>) -> rusqlite::Result<Planned> {
    let kind = known.kind(connection, row.get(2)?)?;
    let extent = kind.extent.decode(row.get_ref(3)?.as_blob()?);
    let extent = extent.and_then(|extent| String::from_utf8(extent).ok());
    let extent = extent.ok_or_else(|| saved::damaged("an extent"))?;
    Ok(Planned { id: row.get(0)?, run: row.get(1)?, storage: Arc::clone(&kind.storage), extent })
}

impl Journal {
    /// Returns the rows of files still to read, in the order of the listing.
    pub(crate) fn pending(&self) -> Result<Vec<i64>, JournalError> {
        let sql = format!("SELECT id FROM files WHERE {OPEN} AND state = 0 ORDER BY position, id");
        self.column(&sql, [])
    }

    /// Counts the files by state.
    pub(crate) fn counts(&self) -> Result<Counts, JournalError> {
        let count = || {
            let sql = format!("SELECT count(*) FROM files WHERE {OPEN} AND state = ?1");
            let mut statement = self.connection.prepare_cached(&sql)?;
            let mut of = |state: State| statement.query_row([state.number()], |row| row.get(0)).map(unsigned);
            let (pending, failed) = (of(State::Pending)?, of(State::Failed)?);
            let files = accept::number(&self.connection, "files")?;
            Ok(Counts { pending, failed, done: files.saturating_sub(pending + failed) })
        };
        let done: rusqlite::Result<_> = count();
        done.map_err(|error| self.failed(error))
    }

    /// Returns the errors of failed files.
    pub(crate) fn failures(&self, most: u64) -> Result<Vec<String>, JournalError> {
        let sql = format!(
            "SELECT coalesce(error, url) FROM files WHERE {OPEN} AND state = 2 ORDER BY position, id LIMIT ?1"
        );
        self.column(&sql, [signed(most)])
    }

    /// Returns row, name and receipt of files with an output of their own: at most `most` rows after the row `after`.
    pub(crate) fn written(&self, after: i64, most: u64) -> Result<Vec<(i64, String, String)>, JournalError> {
        let all = || {
            let sql = "SELECT id, written, coalesce(receipt, '') FROM files
                WHERE id > ?1 AND state = 1 AND written IS NOT NULL ORDER BY id LIMIT ?2";
            let mut statement = self.connection.prepare_cached(sql)?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            statement.query_map(params![after, signed(most)], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }

    /// Schedules a file to be read again.
    pub(crate) fn again(&self, id: i64) -> Result<(), JournalError> {
        let sql = "UPDATE files SET state = 0, attempts = 0 WHERE id = ?1";
        self.connection.execute(sql, [id]).map(drop).map_err(|error| self.failed(error))
    }

    /// Returns the members, in order.
    #[cfg(test)]
    pub(crate) fn planned(&self) -> Result<Vec<Planned>, JournalError> {
        self.rows_after(0)
    }

    /// Returns the members whose rows follow the row `through`, in order.
    pub(crate) fn rows_after(&self, through: i64) -> Result<Vec<Planned>, JournalError> {
        let mut planned = Vec::new();
        self.for_each_planned(through, |row| {
            planned.push(row);
            Ok::<_, JournalError>(())
        })?;
        Ok(planned)
    }

    /// Calls a function for each member whose row follows the row `through`, in order.
    pub(crate) fn for_each_planned<E: From<JournalError>>(
        &self,
        through: i64,
        mut take: impl FnMut(Planned) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(self.failed(error));
        let known = &mut self.known.borrow_mut();
        let sql =
            "SELECT files.id, run, kind, extent FROM files CROSS JOIN contents ON contents.id = files.id
            WHERE files.id > ?1 AND state = 1 AND kind IS NOT NULL ORDER BY position, files.id";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([through]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(planned(&self.connection, known, row).map_err(failed)?)?;
        }
        Ok(())
    }

    /// Returns the extent of a member, as JSON.
    pub(crate) fn extent(&self, id: i64) -> Result<String, JournalError> {
        let find = || {
            let known = &mut self.known.borrow_mut();
            let sql = "SELECT files.id, run, kind, extent FROM files JOIN contents ON contents.id = files.id
                WHERE files.id = ?1";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([id])?;
            let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            planned(&self.connection, known, row).map(|row| row.extent)
        };
        find().map_err(|error| self.failed(error))
    }

    /// Returns the URL of a file.
    pub(crate) fn url(&self, id: i64) -> Result<String, JournalError> {
        let find = || {
            let mut statement = self.connection.prepare_cached("SELECT url FROM files WHERE id = ?1")?;
            statement.query_row([id], |row| row.get(0))
        };
        find().map_err(|error| self.failed(error))
    }

    /// Returns the storage digest of a file.
    pub(crate) fn storage_of(&self, url: &str) -> Result<String, JournalError> {
        let sql =
            "SELECT storage FROM files JOIN contents USING (id) JOIN kinds ON kinds.id = kind WHERE url = ?1";
        self.connection.query_row(sql, [url], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    /// Returns the signature digests of all files that were read, with the number of files of each, in the order of
    /// their first files.
    pub(crate) fn signature_digests(&self) -> Result<Vec<(String, u64)>, JournalError> {
        let all = || {
            let sql =
                "SELECT storage, count(*) FROM files JOIN contents USING (id) JOIN kinds ON kinds.id = kind
                WHERE state = 1 GROUP BY kind ORDER BY min(position)";
            let mut statement = self.connection.prepare(sql)?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row.get(1)?)));
            statement.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }

    /// Returns the signature with a digest, as JSON.
    pub(crate) fn signature(&self, digest: &str) -> Result<String, JournalError> {
        let sql = "SELECT signature FROM kinds WHERE storage = ?1";
        self.connection.query_row(sql, [digest], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    pub(super) fn column<T: FromSql>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<T>, JournalError> {
        let all = || {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }
}
