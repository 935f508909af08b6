//! What is asked of the tables and written to them.

use rusqlite::{OptionalExtension, Row, Transaction, params, types::FromSql};
use serde_json::{Value, json};
use virtualize::zarr::Source;

use super::{
    Content, Done, Failed, Journal, JournalError, Listing, MemberRow, Outcome, Work,
    rows::{Counts, State},
};
use crate::{Item, error::class_name};

/// A whole number as SQLite has them.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A file as the journal has it.
struct Known {
    id: i64,
    item: Item,
    state: State,
    seen: i64,
}

/// What listing a file came to.
struct Seen {
    /// Whether it is to be read.
    pending: bool,
    /// Whether this run's listing had it before.
    again: bool,
}

/// Takes note of a listed file: new ones and changed ones are to be read.
fn list(transaction: &Transaction<'_>, run: i64, position: u64, item: &Item) -> rusqlite::Result<Seen> {
    let Some(known) = known(transaction, &item.url)? else {
        return anew(transaction, run, position, item);
    };
    let id = known.id;
    if known.seen == run {
        return Ok(Seen { pending: false, again: true });
    }
    if differs(&known.item, item) {
        transaction.prepare_cached("DELETE FROM contents WHERE id = ?1")?.execute([id])?;
        return anew(transaction, run, position, item);
    }
    let sql = "UPDATE files SET position = ?2, seen = ?3 WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![id, signed(position), run])?;
    Ok(Seen { pending: known.state == State::Pending, again: false })
}

/// A file that is to be read, of which nothing is known beside its listing.
fn anew(transaction: &Transaction<'_>, run: i64, position: u64, item: &Item) -> rusqlite::Result<Seen> {
    let sql = "INSERT INTO files (url, position, seen, size, etag, modified, properties, state)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)
        ON CONFLICT (url) DO UPDATE SET position = excluded.position, seen = excluded.seen, size = excluded.size,
            etag = excluded.etag, modified = excluded.modified, properties = excluded.properties, state = 0,
            attempts = 0, class = NULL, error = NULL, era = NULL, brief = NULL, written = NULL";
    transaction.prepare_cached(sql)?.execute(params![
        item.url,
        signed(position),
        run,
        item.size.map(signed),
        item.etag,
        item.modified,
        properties(item)
    ])?;
    Ok(Seen { pending: true, again: false })
}

/// Whether a file is no longer what it was. Times count where there are no etags: copies of a store may have others.
fn differs(known: &Item, now: &Item) -> bool {
    fn both<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> Option<bool> {
        Some(one? != other?)
    }
    let size = both(known.size.as_ref(), now.size.as_ref()).unwrap_or(false);
    let etag = both(known.etag.as_ref(), now.etag.as_ref());
    let modified = || both(known.modified.as_ref(), now.modified.as_ref()).unwrap_or(false);
    size || etag.unwrap_or_else(modified) || known.properties != now.properties
}

fn properties(item: &Item) -> String {
    Value::Object(item.properties.clone()).to_string()
}

const ITEM: &str = "id, url, size, etag, modified, properties, state, seen";

fn known_of(row: &Row<'_>) -> rusqlite::Result<Known> {
    let properties: String = row.get(5)?;
    let item = Item {
        url: row.get(1)?,
        size: row.get::<_, Option<i64>>(2)?.map(unsigned),
        etag: row.get(3)?,
        modified: row.get(4)?,
        properties: serde_json::from_str(&properties).unwrap_or_default(),
    };
    Ok(Known { id: row.get(0)?, item, state: State::of(row.get(6)?), seen: row.get(7)? })
}

fn known(transaction: &Transaction<'_>, url: &str) -> rusqlite::Result<Option<Known>> {
    let mut statement = transaction.prepare_cached(&format!("SELECT {ITEM} FROM files WHERE url = ?1"))?;
    statement.query_row([url], known_of).optional()
}

/// The file of a row.
pub(super) fn work(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<Work> {
    let mut statement = transaction.prepare_cached(&format!("SELECT {ITEM} FROM files WHERE id = ?1"))?;
    let known = statement.query_row([id], known_of)?;
    Ok(Work { id, item: known.item })
}

/// Keeps how the reading of a file ended.
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

fn done(transaction: &Transaction<'_>, run: i64, id: i64, done: &Done) -> rusqlite::Result<()> {
    if let Some(item) = &done.changed {
        let sql = "UPDATE files SET size = ?2, etag = ?3, modified = ?4 WHERE id = ?1";
        let values = params![id, item.size.map(signed), item.etag, item.modified];
        transaction.prepare_cached(sql)?.execute(values)?;
    }
    let sql =
        "UPDATE files SET state = ?2, attempts = ?3, class = NULL, error = NULL, seconds = ?4, requests = ?5,
        bytes = ?6, warnings = ?7, written = ?8, written_bytes = ?9, era = ?10, brief = ?11, run = ?12 WHERE id = ?1";
    let (written, member) = match &done.content {
        Content::Written { name, bytes } => (Some((name, bytes.map(signed))), None),
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
        written.and_then(|(_, bytes)| bytes),
        member.map(|member| &member.era),
        member.map(|member| &member.brief),
        run,
    ])?;
    member.map_or(Ok(()), |member| keep(transaction, id, member))
}

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
    transaction.prepare_cached(sql)?.execute(params![member.era, member.signature]).map(drop)
}

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

/// A file that is done, for the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    /// Its row.
    pub(crate) id: i64,
    /// Its place in this run's listing.
    pub(crate) position: u64,
    /// The run in which it was read.
    pub(crate) run: i64,
    /// Whether what was read then is in the output's last commit.
    pub(crate) committed: bool,
    /// The [`crate::combine::Brief`], as JSON.
    pub(crate) brief: String,
}

impl Journal {
    /// Takes note of files that the listing found; `listing` is what it came to before.
    pub(crate) fn list(&mut self, items: &[Item], listing: &mut Listing) -> Result<(), JournalError> {
        let run = self.run;
        let mut all = || {
            let transaction = self.connection.transaction()?;
            for item in items {
                let seen = list(&transaction, run, listing.files, item)?;
                listing.files += u64::from(!seen.again);
                listing.pending += u64::from(seen.pending);
            }
            transaction.commit()
        };
        let done = all();
        done.map_err(|error| self.failed(error))
    }

    /// Rows that are to be read, in the order of the listing.
    pub(crate) fn pending(&self) -> Result<Vec<i64>, JournalError> {
        let sql = "SELECT id FROM files WHERE seen = ?1 AND state = 0 ORDER BY position, id";
        self.column(sql, params![self.run])
    }

    /// Files of this run's listing by state.
    pub(crate) fn counts(&self) -> Result<Counts, JournalError> {
        let count = || {
            let sql = "SELECT state, count(*) FROM files WHERE seen = ?1 GROUP BY state";
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([self.run])?;
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

    /// Files that this run's listing does not have: how many, and the first of them.
    pub(crate) fn vanished(&self, most: u64) -> Result<(u64, Vec<String>), JournalError> {
        let count = "SELECT count(*) FROM files WHERE seen <> ?1";
        let count = self.connection.query_row(count, [self.run], |row| row.get(0));
        let count = unsigned(count.map_err(|error| self.failed(error))?);
        let sql = "SELECT url FROM files WHERE seen <> ?1 ORDER BY position, id LIMIT ?2";
        let urls = self.column(sql, params![self.run, signed(most)])?;
        Ok((count, urls))
    }

    /// Forgets the files that this run's listing does not have.
    pub(crate) fn drop_vanished(&self) -> Result<(), JournalError> {
        let done = self.connection.execute("DELETE FROM files WHERE seen <> ?1", [self.run]);
        done.map(drop).map_err(|error| self.failed(error))
    }

    /// Takes the files that this run's listing does not have for listed, before those that it has.
    pub(crate) fn keep_vanished(&self) -> Result<(), JournalError> {
        let both = || {
            let sql = "UPDATE files SET position = position + (SELECT 1 + max(position) FROM files WHERE seen <> ?1)
                WHERE seen = ?1";
            self.connection.execute(sql, [self.run])?;
            self.connection.execute("UPDATE files SET seen = ?1 WHERE seen <> ?1", [self.run])
        };
        both().map(drop).map_err(|error| self.failed(error))
    }

    /// Files that could not be read, with their reasons.
    pub(crate) fn failures(&self, most: u64) -> Result<Vec<String>, JournalError> {
        let sql = "SELECT coalesce(error, url) FROM files WHERE seen = ?1 AND state = 2 ORDER BY position, id LIMIT ?2";
        self.column(sql, params![self.run, signed(most)])
    }

    /// All that is done is in the output's last commit, whose digest this is.
    pub(crate) fn set_committed(&mut self, fact: &str, digest: &str) -> Result<(), JournalError> {
        let mut all = || {
            let transaction = self.connection.transaction()?;
            let sql = "UPDATE files SET committed = CASE WHEN seen = ?1 AND state = 1 THEN run END";
            transaction.execute(sql, [self.run])?;
            let sql = "INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)";
            transaction.execute(sql, params![fact, digest])?;
            transaction.commit()
        };
        let done = all();
        done.map_err(|error| self.failed(error))
    }

    /// Files that could not be read are to be read again.
    pub(crate) fn retry_failed(&self) -> Result<(), JournalError> {
        let sql = "UPDATE files SET state = 0, attempts = 0 WHERE state = 2";
        self.connection.execute(sql, []).map(drop).map_err(|error| self.failed(error))
    }

    /// All that is done and has an output of its own: row, name, size.
    pub(crate) fn written(&self) -> Result<Vec<(i64, String, Option<u64>)>, JournalError> {
        let all = || {
            let sql = "SELECT id, written, written_bytes FROM files WHERE state = 1 AND written IS NOT NULL";
            let mut statement = self.connection.prepare(sql)?;
            let row =
                |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<i64>>(2)?.map(unsigned)));
            statement.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }

    /// A file is to be read again.
    pub(crate) fn again(&self, id: i64) -> Result<(), JournalError> {
        let sql = "UPDATE files SET state = 0, attempts = 0 WHERE id = ?1";
        self.connection.execute(sql, [id]).map(drop).map_err(|error| self.failed(error))
    }

    /// Urls of this run's listing, in its order.
    pub(crate) fn listed(&self) -> Result<Vec<String>, JournalError> {
        self.column("SELECT url FROM files WHERE seen = ?1 ORDER BY position, id", params![self.run])
    }

    /// What is done of this run's listing, in its order.
    pub(crate) fn planned(&self) -> Result<Vec<Planned>, JournalError> {
        let all = || {
            let sql =
                "SELECT id, position, run, coalesce(committed = run, 0), brief FROM files WHERE seen = ?1 AND state = 1 AND brief IS NOT NULL
                ORDER BY position, id";
            let mut statement = self.connection.prepare(sql)?;
            let row = |row: &Row<'_>| {
                Ok(Planned {
                    id: row.get(0)?,
                    position: unsigned(row.get(1)?),
                    run: row.get(2)?,
                    committed: row.get(3)?,
                    brief: row.get(4)?,
                })
            };
            statement.query_map([self.run], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }

    /// A member of the combined dataset.
    pub(crate) fn member(&self, id: i64) -> Result<(Item, MemberRow), JournalError> {
        let sql = format!(
            "SELECT {ITEM}, hierarchy, sources, array_values, digests, given FROM files JOIN contents USING (id) WHERE id = ?1"
        );
        let read = |row: &Row<'_>| {
            let text = |at: usize| row.get::<_, String>(at);
            let broken = |at: usize| {
                rusqlite::Error::InvalidColumnType(at, String::new(), rusqlite::types::Type::Text)
            };
            let member = MemberRow {
                hierarchy: row.get(8)?,
                sources: sources_of(&text(9)?).ok_or_else(|| broken(9))?,
                values: row.get(10)?,
                digests: serde_json::from_str(&text(11)?).map_err(|_| broken(11))?,
                given: serde_json::from_str(&text(12)?).map_err(|_| broken(12))?,
                ..MemberRow::default()
            };
            Ok((known_of(row)?.item, member))
        };
        let find = || self.connection.prepare_cached(&sql)?.query_row([id], read);
        find().map_err(|error| self.failed(error))
    }

    /// Digests of the eras of what is done, with their number of files, in the order of their first files.
    pub(crate) fn eras(&self) -> Result<Vec<(String, u64)>, JournalError> {
        let all = || {
            let sql = "SELECT era, count(*) FROM files WHERE seen = ?1 AND state = 1 AND era IS NOT NULL
                GROUP BY era ORDER BY min(position)";
            let mut statement = self.connection.prepare(sql)?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row.get(1)?)));
            statement.query_map([self.run], row)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }

    /// The signature of an era, as JSON.
    pub(crate) fn signature(&self, digest: &str) -> Result<String, JournalError> {
        let sql = "SELECT signature FROM eras WHERE digest = ?1";
        self.connection.query_row(sql, [digest], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    fn column<T: FromSql>(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<T>, JournalError> {
        let all = || {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()
        };
        all().map_err(|error| self.failed(error))
    }
}
