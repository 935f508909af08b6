//! Stages a run's listing page by page, compares it with the journal, and accepts it in one transaction. Staged files
//! are in temporary tables: a run that is killed or rejected before then leaves no trace of them.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use super::{
    Journal, JournalError, OptionDifference,
    rows::{Found, Listing, State},
    schema::OPEN,
    work::{ITEM, known_of, signed, unsigned},
};
use crate::{Item, list::Few};

/// Temporary tables. `listing`: `position` is the place in this run's listing, `known` the file's row, `changed`
/// whether the file was replaced. `looked`: files that the listing says too little about and that a check found gone or
/// replaced. `names`: names of outputs. `dropped`: files whose content is no longer valid.
pub(super) const STAGED: &str = "
CREATE TEMP TABLE listing (
    position INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    known INTEGER,
    changed INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER,
    properties TEXT
);
CREATE INDEX listing_known ON listing (known) WHERE known IS NOT NULL;
CREATE TEMP TABLE looked (
    known INTEGER PRIMARY KEY,
    gone INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER
);
CREATE TEMP TABLE names (name TEXT PRIMARY KEY, url TEXT NOT NULL) WITHOUT ROWID;
CREATE TEMP TABLE dropped (file INTEGER PRIMARY KEY);
";

/// Condition: the file is in some output.
const USED: &str = "(committed IS NOT NULL OR (written IS NOT NULL AND state = 1))";
/// Condition: this run does not list the file.
pub(super) const UNNAMED: &str = "NOT EXISTS (SELECT 1 FROM listing WHERE known = files.id)";

/// The files that were looked at, up to a condition.
const LOOKED: &str = "looked CROSS JOIN files ON files.id = looked.known WHERE";

impl Journal {
    /// Stages listed files; `listing` holds the counts so far.
    pub(crate) fn stage(&mut self, items: &[Item], listing: &mut Listing) -> Result<(), JournalError> {
        let mut all = || {
            let transaction = self.connection.transaction()?;
            for item in items {
                stage(&transaction, item, listing)?;
            }
            transaction.commit()
        };
        let done = all();
        done.map_err(|error| self.failed(error))
    }

    /// Returns listed files that are done and whose listing does not show whether they have changed, ordered by URL: at
    /// most `most` after the URL `after`.
    pub(crate) fn untold(&self, after: &str, most: u64) -> Result<Vec<(i64, Item)>, JournalError> {
        let sql = format!(
            "SELECT {ITEM} FROM listing CROSS JOIN files ON files.id = listing.known
            WHERE listing.url > ?1 AND state = 1 AND NOT changed AND listing.etag IS NULL AND listing.modified IS NULL
            ORDER BY listing.url LIMIT ?2"
        );
        self.items(&sql, params![after, signed(most)])
    }

    /// Returns files that are done and not listed, ordered by URL: at most `most` after the URL `after`.
    pub(crate) fn unlisted(&self, after: &str, most: u64) -> Result<Vec<(i64, Item)>, JournalError> {
        let sql = format!(
            "SELECT {ITEM} FROM files WHERE url > ?1 AND state = 1 AND {UNNAMED} ORDER BY url LIMIT ?2"
        );
        self.items(&sql, params![after, signed(most)])
    }

    /// Returns the last files that are done and not listed, ordered by URL.
    pub(crate) fn last_unlisted(&self, most: u64) -> Result<Vec<(i64, Item)>, JournalError> {
        let sql = format!(
            "SELECT * FROM (SELECT {ITEM} FROM files WHERE state = 1 AND {UNNAMED} ORDER BY id DESC LIMIT ?1)
            ORDER BY url"
        );
        self.items(&sql, [signed(most)])
    }

    fn items(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<(i64, Item)>, JournalError> {
        let all = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(values, known_of)?;
            rows.map(|row| row.map(|known| (known.id, known.item))).collect()
        };
        let done: rusqlite::Result<Vec<_>> = all();
        done.map_err(|error| self.failed(error))
    }

    /// Records that a file is gone or was replaced.
    pub(crate) fn found(&self, id: i64, found: &Found) -> Result<(), JournalError> {
        let (gone, now) = match found {
            Found::Gone => (true, Item::default()),
            Found::Another(item) => (false, item.clone()),
        };
        let sql =
            "INSERT OR REPLACE INTO looked (known, gone, size, etag, modified) VALUES (?1, ?2, ?3, ?4, ?5)";
        let done = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut it| it.execute(params![id, gone, now.size.map(signed), now.etag, now.modified]));
        done.map(drop).map_err(|error| self.failed(error))
    }

    /// Returns files that are in some output but no longer listed; for a run that appends, files that no longer exist
    /// in their store.
    pub(crate) fn vanished(&self, append: bool, most: u64) -> Result<Few, JournalError> {
        match append {
            true => self.some(&format!("{LOOKED} gone AND {UNNAMED}"), most),
            false => self.some(&format!("files WHERE {USED} AND {UNNAMED}"), most),
        }
    }

    /// Returns unlisted files of earlier runs that were replaced since.
    pub(crate) fn replaced(&self, most: u64) -> Result<Few, JournalError> {
        self.some(&format!("{LOOKED} NOT gone AND {UNNAMED}"), most)
    }

    /// Returns unlisted files of earlier runs that are in no output.
    pub(crate) fn unwritten(&self, most: u64) -> Result<Few, JournalError> {
        self.some(&format!("files WHERE {OPEN} AND {UNNAMED}"), most)
    }

    fn some(&self, of: &str, most: u64) -> Result<Few, JournalError> {
        let count: i64 = self
            .connection
            .query_row(&format!("SELECT count(*) FROM {of}"), [], |row| row.get(0))
            .map_err(|error| self.failed(error))?;
        let sql = format!("SELECT files.url FROM {of} ORDER BY position, id LIMIT ?1");
        Ok(Few { count: unsigned(count), first: self.column(&sql, [signed(most)])? })
    }

    /// Returns the options of the journal that differ from these.
    pub(crate) fn other_options(
        &self,
        options: &BTreeMap<String, String>,
    ) -> Result<Vec<OptionDifference>, JournalError> {
        let before = self.options()?;
        if before.is_empty() {
            return Ok(Vec::new());
        }
        Ok(OptionDifference::between(&before, options))
    }

    /// Returns the options of the journal.
    pub(super) fn options(&self) -> Result<BTreeMap<String, String>, JournalError> {
        let all = || {
            let mut statement = self.connection.prepare("SELECT name, value FROM options")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let found: rusqlite::Result<_> = all();
        found.map_err(|error| self.failed(error))
    }

    /// Returns whether the journal records any output.
    pub(crate) fn is_used(&self) -> Result<bool, JournalError> {
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM outputs) OR EXISTS (SELECT 1 FROM files WHERE {USED})");
        self.connection.query_row(&sql, [], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    /// Calls a function for each staged URL, in the order of the listing; if the run appends, also for the URLs already
    /// there.
    pub(crate) fn for_each_named<E: From<JournalError>>(
        &self,
        append: bool,
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(self.failed(error));
        let sql = format!("SELECT url FROM listing UNION ALL SELECT url FROM files WHERE ?1 AND {UNNAMED}");
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([append]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let url: String = row.get(0).map_err(failed)?;
            take(&url)?;
        }
        Ok(())
    }

    /// Assigns the name of an output to a file, or returns the file that already has it.
    pub(crate) fn claim_name(&self, name: &str, url: &str) -> Result<Option<String>, JournalError> {
        let sql = "INSERT OR IGNORE INTO names (name, url) VALUES (?1, ?2)";
        let claimed = self.connection.prepare_cached(sql).and_then(|mut it| it.execute(params![name, url]));
        match claimed.map_err(|error| self.failed(error))? {
            0 => self.has_name(name),
            _ => Ok(None),
        }
    }

    /// Returns the file whose output has a name.
    pub(crate) fn has_name(&self, name: &str) -> Result<Option<String>, JournalError> {
        let find = || {
            let mut statement = self.connection.prepare_cached("SELECT url FROM names WHERE name = ?1")?;
            statement.query_row([name], |row| row.get(0)).optional()
        };
        find().map_err(|error| self.failed(error))
    }

    /// Returns whether a URL is staged.
    pub(crate) fn is_staged(&self, url: &str) -> Result<bool, JournalError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM listing WHERE url = ?1)";
        self.connection.query_row(sql, [url], |row| row.get(0)).map_err(|error| self.failed(error))
    }
}

/// Stages a file, unless its URL is staged already, and counts it.
fn stage(transaction: &Transaction<'_>, item: &Item, listing: &mut Listing) -> rusqlite::Result<()> {
    let sql = format!("SELECT {ITEM} FROM files WHERE url = ?1");
    let known = transaction.prepare_cached(&sql)?.query_row([&item.url], known_of).optional()?;
    let changed = known.as_ref().is_some_and(|known| differs(&known.item, item));
    let is_pending = |state| state == State::Pending;
    let pending = changed || known.as_ref().is_none_or(|known| is_pending(known.state));
    let sql =
        "INSERT OR IGNORE INTO listing (position, url, known, changed, size, etag, modified, properties)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let new = transaction.prepare_cached(sql)?.execute(params![
        signed(listing.files),
        item.url,
        known.map(|known| known.id),
        changed,
        item.size.map(signed),
        item.etag,
        item.modified,
        (!item.properties.is_empty()).then(|| Value::Object(item.properties.clone()).to_string())
    ])?;
    listing.count(new > 0, pending);
    Ok(())
}

/// Returns whether a file differs from the version in the journal.
fn differs(known: &Item, now: &Item) -> bool {
    !known.listed().agrees(&now.listed()) || known.properties != now.properties
}
