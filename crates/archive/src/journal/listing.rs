//! Stages a run's listing page by page, compares it with the journal, and accepts it in one transaction. Staged files
//! are in temporary tables: a run that is killed or rejected before then leaves no trace of them.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;
use virtualize::ErrorClass;

use super::{
    Journal, JournalError, OptionDifference,
    rows::{Counts, Found, Listing, State, class_name},
    work::{ITEM, known_of, signed, unsigned},
};
use crate::{Item, list::Few};

/// Temporary tables. `listing`: `position` is the place in this run's listing, `known` the file's row, `changed`
/// whether the file was replaced. `looked`: files that the listing says too little about and that a check found gone or
/// replaced. `names`: names of outputs.
pub(super) const STAGED: &str = "
CREATE TEMP TABLE listing (
    position INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    known INTEGER,
    changed INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER,
    properties TEXT
);
CREATE INDEX listing_known ON listing (known);
CREATE TEMP TABLE looked (
    known INTEGER PRIMARY KEY,
    gone INTEGER NOT NULL,
    size INTEGER, etag TEXT, modified INTEGER
);
CREATE TEMP TABLE names (name TEXT PRIMARY KEY, url TEXT NOT NULL) WITHOUT ROWID;
";

/// Condition: the file is in some output.
const USED: &str = "(committed IS NOT NULL OR (written IS NOT NULL AND state = 1))";
/// Condition: the current version of the file is in no output, and this run does not list the file.
const UNWRITTEN: &str = "NOT (state = 1 AND (coalesce(committed = run, 0) OR written IS NOT NULL))
    AND NOT EXISTS (SELECT 1 FROM listing WHERE known = files.id)";
/// Condition: this run does not list the file.
const UNNAMED: &str = "NOT EXISTS (SELECT 1 FROM listing WHERE known = files.id)";
/// Condition: the file no longer exists in its store.
const GONE: &str = "EXISTS (SELECT 1 FROM looked WHERE known = files.id AND gone)";

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

    /// Returns files that are done and whose listing does not show whether they have changed, ordered by URL: at most
    /// `most` after the URL `after`. With `append`, that includes files that are not listed.
    pub(crate) fn untold(
        &self,
        append: bool,
        after: &str,
        most: u64,
    ) -> Result<Vec<(i64, Item)>, JournalError> {
        let all = || {
            let sql = format!(
                "SELECT {ITEM} FROM files WHERE url > ?1 AND state = 1 AND (EXISTS (SELECT 1 FROM listing
                    WHERE known = files.id AND NOT changed AND listing.etag IS NULL AND listing.modified IS NULL)
                    OR (?2 AND {UNNAMED}))
                ORDER BY url LIMIT ?3"
            );
            let mut statement = self.connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![after, append, signed(most)], known_of)?;
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
            true => self.some(&format!("{GONE} AND {UNNAMED}"), most),
            false => self.some(&format!("{USED} AND {UNNAMED}"), most),
        }
    }

    /// Returns unlisted files of earlier runs that were replaced since.
    pub(crate) fn replaced(&self, most: u64) -> Result<Few, JournalError> {
        let other = "EXISTS (SELECT 1 FROM looked WHERE known = files.id AND NOT gone)";
        self.some(&format!("{other} AND {UNNAMED}"), most)
    }

    /// Returns unlisted files of earlier runs that are in no output.
    pub(crate) fn unwritten(&self, most: u64) -> Result<Few, JournalError> {
        self.some(UNWRITTEN, most)
    }

    fn some(&self, condition: &str, most: u64) -> Result<Few, JournalError> {
        let count = format!("SELECT count(*) FROM files WHERE {condition}");
        let count: i64 =
            self.connection.query_row(&count, [], |row| row.get(0)).map_err(|error| self.failed(error))?;
        let sql = format!("SELECT url FROM files WHERE {condition} ORDER BY position, id LIMIT ?1");
        Ok(Few { count: unsigned(count), first: self.column(&sql, [signed(most)])? })
    }

    /// Returns the options of the journal that differ from these.
    pub(crate) fn other_options(
        &self,
        options: &BTreeMap<String, String>,
    ) -> Result<Vec<OptionDifference>, JournalError> {
        let before: BTreeMap<String, String> = {
            let all = || {
                let mut statement = self.connection.prepare("SELECT name, value FROM options")?;
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            };
            let found: rusqlite::Result<_> = all();
            found.map_err(|error| self.failed(error))?
        };
        if before.is_empty() {
            return Ok(Vec::new());
        }
        Ok(OptionDifference::between(&before, options))
    }

    /// Returns whether the journal records any output.
    pub(crate) fn is_used(&self) -> Result<bool, JournalError> {
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM outputs) OR EXISTS (SELECT 1 FROM files WHERE {USED})");
        self.connection.query_row(&sql, [], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    /// Accepts the staged listing, together with the options and a fact of the run, atomically: from then on the
    /// journal's files are those of this run.
    pub(crate) fn accept(
        &mut self,
        how: Accept,
        options: &BTreeMap<String, String>,
        fact: Option<(&str, &str)>,
    ) -> Result<Counts, JournalError> {
        let mut all = || {
            let transaction = self.connection.transaction()?;
            if how.restart {
                restart(&transaction)?;
            }
            forget(&transaction, how)?;
            take_over(&transaction, how.append)?;
            if how.retry_failed {
                transaction.execute("UPDATE files SET state = 0, attempts = 0 WHERE state = 2", [])?;
            } else if how.retry_unavailable {
                let sql = "UPDATE files SET state = 0, attempts = 0 WHERE state = 2 AND class = ?1";
                transaction.execute(sql, [class_name(ErrorClass::Unavailable)])?;
            }
            for (name, value) in options {
                let sql = "INSERT OR REPLACE INTO options (name, value) VALUES (?1, ?2)";
                transaction.execute(sql, params![name, value])?;
            }
            if let Some((name, value)) = fact {
                let sql = "INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)";
                transaction.execute(sql, params![name, value])?;
            }
            transaction.execute_batch("DELETE FROM listing; DELETE FROM looked; DELETE FROM names")?;
            transaction.commit()
        };
        let done = all();
        done.map_err(|error| self.failed(error))?;
        if how.restart {
            self.run = 1;
        }
        self.counts()
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

/// Deletes the files, outputs, options and facts of earlier runs, and treats every staged file as new.
fn restart(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM contents; DELETE FROM chunks; DELETE FROM files; DELETE FROM documents; DELETE FROM nodes;
        DELETE FROM kinds; DELETE FROM options; DELETE FROM outputs;
        DELETE FROM facts WHERE name NOT IN ('program', 'run'); UPDATE facts SET value = '1' WHERE name = 'run';
        UPDATE listing SET known = NULL, changed = 0; DELETE FROM looked",
    )
}

/// Deletes the files that are not part of this run.
fn forget(transaction: &Transaction<'_>, how: Accept) -> rusqlite::Result<()> {
    let condition = match (how.append, how.drop_unwritten) {
        (false, _) => UNNAMED.to_owned(),
        (true, false) => format!("{GONE} AND {UNNAMED}"),
        (true, true) => format!("{UNNAMED} AND ({GONE} OR {UNWRITTEN})"),
    };
    transaction.execute(&format!("DELETE FROM files WHERE {condition}"), []).map(drop)
}

/// Assigns rows and positions to the listed files, and discards the records of files that have changed.
fn take_over(transaction: &Transaction<'_>, append: bool) -> rusqlite::Result<()> {
    let again =
        "state = 0, attempts = 0, class = NULL, error = NULL, kind = NULL, extent = NULL, sources = NULL";
    transaction.execute_batch(&format!(
        "UPDATE files SET {again}, size = l.size, etag = l.etag, modified = l.modified, properties = l.properties
            FROM listing AS l WHERE l.known = files.id AND l.changed;
        UPDATE files SET {again}, size = l.size, etag = l.etag, modified = l.modified
            FROM looked AS l WHERE l.known = files.id;
        DELETE FROM contents WHERE id IN (SELECT id FROM files WHERE state = 0)"
    ))?;
    if !append {
        let sql = "UPDATE files SET position = l.position FROM listing AS l WHERE l.known = files.id";
        transaction.execute(sql, [])?;
    }
    // New files follow all others. Without append only listed files remain, in the order of the listing.
    let sql = "INSERT INTO files (url, position, size, etag, modified, properties, state)
        SELECT url, position + CASE WHEN ?1 THEN (SELECT coalesce(1 + max(position), 0) FROM files) ELSE 0 END,
            size, etag, modified, properties, 0 FROM listing WHERE known IS NULL ORDER BY listing.position";
    transaction.execute(sql, [append]).map(drop)
}
