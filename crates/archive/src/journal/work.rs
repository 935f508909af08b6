//! Queries and updates of the files' rows.

use rusqlite::{Row, Transaction, params, types::FromSql};
use serde_json::{Value, json};
use virtualize::zarr::Source;

use super::{
    Content, Done, Failed, Journal, JournalError, MemberRow, Outcome, Work,
    rows::{Counts, State, class_name},
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
    let properties: String = row.get(5)?;
    let item = Item {
        url: row.get(1)?,
        size: row.get::<_, Option<i64>>(2)?.map(unsigned),
        etag: row.get(3)?,
        modified: row.get(4)?,
        properties: serde_json::from_str(&properties).unwrap_or_default(),
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
    run: i64,
    id: i64,
    outcome: &Outcome,
) -> rusqlite::Result<()> {
    match outcome {
        Outcome::Done(done) => self::done(transaction, run, id, done),
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
fn done(transaction: &Transaction<'_>, run: i64, id: i64, done: &Done) -> rusqlite::Result<()> {
    let sql = match done.replaced {
        true => "UPDATE files SET size = ?2, etag = ?3, modified = ?4 WHERE id = ?1",
        // Fills in only what the listing left out.
        false => {
            "UPDATE files SET size = coalesce(size, ?2), etag = coalesce(etag, ?3), modified = coalesce(modified, ?4)
            WHERE id = ?1"
        }
    };
    let item = &done.opened;
    let values = params![id, item.size.map(signed), item.etag, item.modified];
    transaction.prepare_cached(sql)?.execute(values)?;
    let sql =
        "UPDATE files SET state = ?2, attempts = ?3, class = NULL, error = NULL, seconds = ?4, requests = ?5,
        bytes = ?6, warnings = ?7, written = ?8, receipt = ?9, era = ?10, brief = ?11, run = ?12 WHERE id = ?1";
    let (written, member) = match &done.record {
        Content::Written { name, receipt } => (Some((name, receipt)), None),
        Content::Member(member) => (None, Some(member.as_ref())),
    };
    transaction.prepare_cached(sql)?.execute(params![
        id,
        State::Done.number(),
        done.attempts,
        done.seconds,
        signed(done.requests),
        signed(done.bytes),
        json!(done.warnings).to_string(),
        written.map(|(name, _)| name),
        written.map(|(_, receipt)| receipt),
        member.map(|member| &member.signature_digest),
        member.map(|member| &member.brief),
        run,
    ])?;
    member.map_or(Ok(()), |member| keep(transaction, id, member))
}

/// Stores the content and the signature of a member.
fn keep(transaction: &Transaction<'_>, id: i64, member: &MemberRow) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO contents (id, hierarchy, sources, array_values, digests, given)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    transaction.prepare_cached(sql)?.execute(params![
        id,
        member.hierarchy,
        sources_text(&member.sources),
        member.values,
        json!(member.digests).to_string(),
        json!(member.given).to_string(),
    ])?;
    let sql = "INSERT OR IGNORE INTO eras (digest, signature) VALUES (?1, ?2)";
    transaction.prepare_cached(sql)?.execute(params![member.signature_digest, member.signature]).map(drop)
}

/// Serializes sources as JSON: an array of URL, entity tag, size and time of modification for each.
fn sources_text(sources: &[Source]) -> String {
    let one = |source: &Source| json!([source.url, source.etag, source.size, source.modified]);
    Value::Array(sources.iter().map(one).collect()).to_string()
}

fn sources_of(text: &str) -> Option<Vec<Source>> {
    type Parts = (String, Option<String>, u64, Option<i64>);
    let parts: Vec<Parts> = serde_json::from_str(text).ok()?;
    let one = |(url, etag, size, modified): Parts| Source { url, etag, size, modified };
    Some(parts.into_iter().map(one).collect())
}

/// A file that is done, as the plan needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    /// Its row.
    pub(crate) id: i64,
    /// Number of the run that read it.
    pub(crate) run: i64,
    /// [`crate::compat::Signature::storage_digest`].
    pub(crate) storage: String,
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

    /// Returns the files that are done, in order.
    pub(crate) fn planned(&self) -> Result<Vec<Planned>, JournalError> {
        let all = || {
            let sql = "SELECT id, run, era, brief FROM files WHERE state = 1 AND brief IS NOT NULL
                ORDER BY position, id";
            let mut statement = self.connection.prepare(sql)?;
            let row = |row: &Row<'_>| {
                Ok(Planned { id: row.get(0)?, run: row.get(1)?, storage: row.get(2)?, extent: row.get(3)? })
            };
            statement.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
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
        let sql = "SELECT era FROM files WHERE url = ?1";
        self.connection.query_row(sql, [url], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    /// Returns a member of the combined dataset.
    pub(crate) fn member(&self, id: i64) -> Result<(Item, MemberRow), JournalError> {
        let sql = format!(
            "SELECT {ITEM}, hierarchy, sources, array_values, digests, given FROM files JOIN contents USING (id) WHERE files.id = ?1"
        );
        let read = |row: &Row<'_>| {
            let text = |at: usize| row.get::<_, String>(at);
            let broken = |at: usize| {
                rusqlite::Error::InvalidColumnType(at, String::new(), rusqlite::types::Type::Text)
            };
            let member = MemberRow {
                hierarchy: row.get(7)?,
                sources: sources_of(&text(8)?).ok_or_else(|| broken(8))?,
                values: row.get(9)?,
                digests: serde_json::from_str(&text(10)?).map_err(|_| broken(10))?,
                given: serde_json::from_str(&text(11)?).map_err(|_| broken(11))?,
                ..MemberRow::default()
            };
            Ok((known_of(row)?.item, member))
        };
        let find = || self.connection.prepare_cached(&sql)?.query_row([id], read);
        find().map_err(|error| self.failed(error))
    }

    /// Returns the signature digests of all files that were read, with the number of files of each, in the order of
    /// their first files.
    pub(crate) fn signature_digests(&self) -> Result<Vec<(String, u64)>, JournalError> {
        let all = || {
            let sql = "SELECT era, count(*) FROM files WHERE state = 1 AND era IS NOT NULL
                GROUP BY era ORDER BY min(position)";
            let mut statement = self.connection.prepare(sql)?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row.get(1)?)));
            statement.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }

    /// Returns the signature with a digest, as JSON.
    pub(crate) fn signature(&self, digest: &str) -> Result<String, JournalError> {
        let sql = "SELECT signature FROM eras WHERE digest = ?1";
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
