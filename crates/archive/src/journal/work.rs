//! Queries and updates of the files' rows.

use std::sync::Arc;

use rusqlite::{Row, Transaction, params, types::FromSql};
use serde_json::json;

use super::{
    Content, Done, Failed, Journal, JournalError, Outcome, Work,
    rows::{Counts, State, class_name},
    saved,
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

/// Records how reading a file ended. `known` is the file as its row describes it.
pub(super) fn finish(
    transaction: &Transaction<'_>,
    memory: &mut saved::Known,
    run: i64,
    id: i64,
    outcome: &Outcome,
) -> rusqlite::Result<()> {
    match outcome {
        Outcome::Done(done) => self::done(transaction, memory, run, id, done),
        Outcome::Failed(failed) => self::failed(transaction, id, failed),
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
    id: i64,
    done: &Done,
) -> rusqlite::Result<()> {
    let listed = work(transaction, id)?.item;
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
        Content::Written { name, receipt } => (Some((name, receipt)), None),
        Content::Member(member) => (None, Some(saved::save(transaction, memory, id, &item, member)?)),
    };
    let sql =
        "UPDATE files SET size = ?2, etag = ?3, modified = ?4, state = ?5, attempts = ?6, class = NULL, error = NULL,
        seconds = ?7, requests = ?8, bytes = ?9, warnings = ?10, written = ?11, receipt = ?12, kind = ?13,
        extent = ?14, sources = ?15, run = ?16 WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        id,
        item.size.map(signed),
        item.etag,
        item.modified,
        State::Done.number(),
        done.attempts,
        done.seconds,
        signed(done.requests),
        signed(done.bytes),
        (!done.warnings.is_empty()).then(|| json!(done.warnings).to_string()),
        written.map(|(name, _)| name),
        written.map(|(_, receipt)| receipt),
        member.as_ref().map(|member| member.kind),
        member.as_ref().map(|member| &member.extent),
        member.as_ref().and_then(|member| member.sources.as_ref()),
        run,
    ])?;
    Ok(())
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

impl Journal {
    /// Returns the rows of files still to read, in the order of the listing.
    pub(crate) fn pending(&self) -> Result<Vec<i64>, JournalError> {
        self.column("SELECT id FROM files WHERE state = 0 ORDER BY position, id", [])
    }

    /// Counts the files by state.
    pub(crate) fn counts(&self) -> Result<Counts, JournalError> {
        let count = || {
            let mut statement =
                self.connection.prepare("SELECT state, count(*) FROM files GROUP BY state")?;
            let mut rows = statement.query([])?;
            let mut counts = Counts::default();
            while let Some(row) = rows.next()? {
                let number = unsigned(row.get(1)?);
                match State::of(row.get(0)?) {
                    State::Pending => counts.pending = number,
                    State::Done => counts.done = number,
                    State::Failed => counts.failed = number,
                }
            }
            Ok(counts)
        };
        count().map_err(|error| self.failed(error))
    }

    /// Returns the errors of failed files.
    pub(crate) fn failures(&self, most: u64) -> Result<Vec<String>, JournalError> {
        let sql = "SELECT coalesce(error, url) FROM files WHERE state = 2 ORDER BY position, id LIMIT ?1";
        self.column(sql, [signed(most)])
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
    pub(crate) fn planned(&self) -> Result<Vec<Planned>, JournalError> {
        let all = || {
            let known = &mut self.known.borrow_mut();
            let sql = "SELECT id, run, kind, extent FROM files WHERE state = 1 AND kind IS NOT NULL
                ORDER BY position, id";
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            let mut planned = Vec::new();
            while let Some(row) = rows.next()? {
                let kind = known.kind(&self.connection, row.get(2)?)?;
                let extent = kind.extent.decode(row.get_ref(3)?.as_blob()?);
                let extent = extent.and_then(|extent| String::from_utf8(extent).ok());
                let extent = extent.ok_or_else(|| saved::damaged("an extent"))?;
                let storage = Arc::clone(&kind.storage);
                planned.push(Planned { id: row.get(0)?, run: row.get(1)?, storage, extent });
            }
            Ok(planned)
        };
        let done: rusqlite::Result<_> = all();
        done.map_err(|error| self.failed(error))
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
        let sql = "SELECT storage FROM files JOIN kinds ON kinds.id = kind WHERE url = ?1";
        self.connection.query_row(sql, [url], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    /// Returns the signature digests of all files that were read, with the number of files of each, in the order of
    /// their first files.
    pub(crate) fn signature_digests(&self) -> Result<Vec<(String, u64)>, JournalError> {
        let all = || {
            let sql = "SELECT storage, count(*) FROM files JOIN kinds ON kinds.id = kind
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
