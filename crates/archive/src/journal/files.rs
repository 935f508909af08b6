//! The files of a journal. A run stages its listing page by page, compares it with the journal, and accepts it in one
//! transaction. Staged files are in temporary tables: a run that is killed or rejected before then leaves no trace of
//! them.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    path::Path,
    sync::Arc,
};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;
use virtualize::ErrorClass;

use super::{
    DONE, FAILED, ITEM, Journal, JournalError, OPEN, Outcome, PENDING, Result, UNNAMED, USED, Work,
    differing, number,
    record::{self, Cache, NamedOutcome, Related, class_name, class_named, versions},
    set_number, signed, unsigned, work_of,
};
use crate::{Item, list::Few};

/// The files that were looked at, up to a condition.
const LOOKED: &str = "looked CROSS JOIN files ON files.id = looked.known WHERE";

/// Counts of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Listing {
    /// Number of files listed so far.
    pub(crate) files: u64,
    /// Number of those that have to be read.
    pub(crate) pending: u64,
    /// Number of listed items: a file may be listed repeatedly.
    pub(crate) items: u64,
    /// Positions of the items that have to be read.
    pub(super) unread: Vec<Range<u64>>,
}

impl Listing {
    /// Returns the positions of the items that have to be read: all, if the run starts over.
    pub(crate) fn unread(&self, restart: bool) -> Vec<Range<u64>> {
        if restart { std::iter::once(0..self.items).collect() } else { self.unread.clone() }
    }

    /// Counts the next item: whether it is a new file, and whether that has to be read.
    pub(super) fn count(&mut self, is_new: bool, is_pending: bool) {
        let position = self.items;
        self.items += 1;
        self.files += u64::from(is_new);
        if is_new && is_pending {
            self.pending += 1;
            match self.unread.last_mut() {
                Some(last) if last.end == position => last.end += 1,
                _ => self.unread.push(position..position + 1),
            }
        }
    }
}

/// Number of files of this run's listing by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Not read yet.
    pub(crate) pending: u64,
    /// Read successfully.
    pub(crate) done: u64,
    /// Failed.
    pub(crate) failed: u64,
}

impl Counts {
    pub(crate) fn all(self) -> u64 {
        self.pending + self.done + self.failed
    }
}

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

/// A file that is done, but may have changed since.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ToCheck {
    /// Its row.
    pub(crate) id: i64,
    /// The file.
    pub(crate) item: Item,
    /// The other files that it depends on.
    pub(crate) related: Related,
    /// Whether its listing does not show whether it has changed.
    pub(crate) is_untold: bool,
}

/// URL of a file that was not read, and class and error of its failure.
type Unread = (String, Option<(ErrorClass, String)>);

impl Journal {
    /// Stages listed files; `listing` holds the counts so far.
    pub(crate) fn stage(&mut self, items: &[Item], listing: &mut Listing) -> Result<()> {
        self.transact(|connection, _, _| items.iter().try_for_each(|item| stage(connection, item, listing)))
    }

    /// Returns listed files that are done and may have changed, ordered by URL: at most `most` after the URL `after`. Their
    /// listing does not show it, or they depend on other files.
    pub(crate) fn to_check(&self, after: &str, most: u64) -> Result<Vec<ToCheck>> {
        let untold = "listing.etag IS NULL AND listing.modified IS NULL";
        let of = format!(
            "listing CROSS JOIN files ON files.id = listing.known LEFT JOIN contents ON contents.id = files.id
            WHERE listing.url > ?1 AND state = 1 AND NOT changed AND (related IS NOT NULL OR ({untold}))
            ORDER BY listing.url LIMIT ?2"
        );
        self.all(
            &format!("SELECT {ITEM}, related, {untold} FROM {of}"),
            params![after, signed(most)],
            to_check,
        )
    }

    /// Returns the last files that are done and not listed.
    pub(crate) fn last_unlisted(&self, most: u64) -> Result<Vec<ToCheck>> {
        let files = format!("SELECT * FROM files WHERE state = 1 AND {UNNAMED} ORDER BY id DESC LIMIT ?1");
        let of = format!("({files}) AS files LEFT JOIN contents ON contents.id = files.id");
        self.all(&format!("SELECT {ITEM}, related, 1 FROM {of}"), [signed(most)], to_check)
    }

    /// Records that a file was replaced by another version, or is gone.
    pub(crate) fn found(&self, id: i64, now: Option<&Item>) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO looked (known, gone, size, etag, modified) VALUES (?1, ?2, ?3, ?4, ?5)";
        let gone = now.is_none();
        let Item { size, etag, modified, .. } = now.cloned().unwrap_or_default();
        self.execute(sql, params![id, gone, size.map(signed), etag, modified]).map(drop)
    }

    /// Returns files that are in some output but no longer listed; for a run that appends, files that no longer exist
    /// in their store.
    pub(crate) fn vanished(&self, append: bool, most: u64) -> Result<Few> {
        if append {
            self.some(&format!("{LOOKED} gone AND {UNNAMED}"), most)
        } else {
            self.some(&format!("files WHERE {USED} AND {UNNAMED}"), most)
        }
    }

    /// Returns unlisted files of earlier runs that were replaced since.
    pub(crate) fn replaced(&self, most: u64) -> Result<Few> {
        self.some(&format!("{LOOKED} NOT gone AND {UNNAMED}"), most)
    }

    /// Returns unlisted files of earlier runs that are in no output.
    pub(crate) fn unwritten(&self, most: u64) -> Result<Few> {
        self.some(&format!("files WHERE {OPEN} AND {UNNAMED}"), most)
    }

    fn some(&self, of: &str, most: u64) -> Result<Few> {
        let count = self.get(&format!("SELECT count(*) FROM {of}"), [])?;
        let sql = format!("SELECT files.url FROM {of} ORDER BY position, id LIMIT ?1");
        Ok(Few { count: unsigned(count), first: self.column(&sql, [signed(most)])? })
    }

    /// Returns the options of the journal that differ from these.
    pub(crate) fn other_options(&self, options: &BTreeMap<String, String>) -> Result<Vec<String>> {
        let before = self.options()?;
        Ok(if before.is_empty() { Vec::new() } else { differing(&before, options) })
    }

    /// Returns the options of the journal.
    pub(crate) fn options(&self) -> Result<BTreeMap<String, String>> {
        let options =
            self.all("SELECT name, value FROM options", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(options.into_iter().collect())
    }

    /// Returns the rows of the files that this run read.
    pub(crate) fn rows_of_this_run(&self) -> Result<HashSet<i64>> {
        Ok(self.column("SELECT id FROM files WHERE run = ?1", [self.run])?.into_iter().collect())
    }

    /// Returns whether the journal records any output.
    pub(crate) fn is_used(&self) -> Result<bool> {
        let files = format!("SELECT 1 FROM files WHERE {USED}");
        self.get(&format!("SELECT EXISTS (SELECT 1 FROM outputs) OR EXISTS ({files})"), [])
    }

    /// Calls a function for each staged URL, in the order of the listing; if the run appends, also for the URLs already
    /// there.
    pub(crate) fn for_each_named<E: From<JournalError>>(
        &self,
        append: bool,
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!("SELECT url FROM listing UNION ALL SELECT url FROM files WHERE ?1 AND {UNNAMED}");
        self.for_each(&sql, [append], |row| Ok(take(&row.get::<_, String>(0)?)))
    }

    /// Assigns the name of an output to a file, or returns the file that already has it.
    pub(crate) fn claim_name(&self, name: &str, url: &str) -> Result<Option<String>> {
        let sql = "INSERT OR IGNORE INTO names (name, url) VALUES (?1, ?2)";
        if self.execute(sql, params![name, url])? == 0 { self.has_name(name) } else { Ok(None) }
    }

    /// Returns the file whose output has a name.
    pub(crate) fn has_name(&self, name: &str) -> Result<Option<String>> {
        self.find("SELECT url FROM names WHERE name = ?1", [name])
    }

    /// Returns whether a URL is staged.
    pub(crate) fn is_staged(&self, url: &str) -> Result<bool> {
        self.get("SELECT EXISTS (SELECT 1 FROM listing WHERE url = ?1)", [url])
    }

    /// Accepts the staged listing, together with the options and a fact of the run, atomically: from then on the
    /// journal's files are those of this run.
    pub(crate) fn accept(
        &mut self,
        how: Accept,
        options: &BTreeMap<String, String>,
        fact: Option<(&str, &str)>,
    ) -> Result<Counts> {
        self.transact(|connection, _, _| {
            if how.restart {
                connection.execute_batch(RESTART)?;
            }
            let files = number(connection, "files")? - forget(connection, how)?;
            let files = files + take_over(connection, how.append)?;
            set_number(connection, "files", files)?;
            let again = format!("UPDATE files SET state = 0, attempts = 0 WHERE {OPEN} AND state = 2");
            if how.retry_failed {
                connection.execute(&again, [])?;
            } else if how.retry_unavailable {
                let class = class_name(ErrorClass::Unavailable);
                connection.execute(&format!("{again} AND class = ?1"), [class])?;
            }
            for (name, value) in options {
                let sql = "INSERT OR REPLACE INTO options (name, value) VALUES (?1, ?2)";
                connection.execute(sql, params![name, value])?;
            }
            if let Some((name, value)) = fact {
                let sql = "INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)";
                connection.execute(sql, params![name, value])?;
            }
            connection.execute_batch(
                "DELETE FROM listing; DELETE FROM looked; DELETE FROM names; DELETE FROM dropped",
            )
        })?;
        if how.restart {
            self.run = 1;
            self.cache = Cache::default().into();
        }
        self.counts()
    }

    /// Adds files that another journal has, by URL, in one transaction. Files that are done or that failed in this run
    /// stay as they are; with `skip_failures`, failures are not added. Returns the number of files that are done now
    /// and were not before. A file that was replaced since it was listed stays to be read.
    pub(crate) fn import(&mut self, files: &[NamedOutcome], skip_failures: bool) -> Result<u64> {
        self.transact(|connection, cache, run| {
            let mut added = 0;
            for (url, outcome) in files {
                let sql = format!("SELECT {ITEM}, state, class IS NOT NULL FROM files WHERE url = ?1");
                let mut statement = connection.prepare_cached(&sql)?;
                let found =
                    statement.query_row([url], |row| Ok((work_of(row)?, row.get(6)?, row.get(7)?)))?;
                let (work, state, failed_before): (Work, i64, bool) = found;
                let may_add = match outcome {
                    // A file that failed before and is pending is to be read again.
                    Err(_) => !skip_failures && !failed_before,
                    Ok(done) => work.item.listed().agrees(&done.opened.listed()),
                };
                if state != DONE && may_add {
                    record::finish(connection, cache, run, work, outcome)?;
                    added += u64::from(outcome.is_ok());
                }
            }
            Ok(added)
        })
    }

    /// Returns the rows of files still to read, in the order of the listing.
    pub(crate) fn pending(&self) -> Result<Vec<i64>> {
        let sql = format!("SELECT id FROM files WHERE {OPEN} AND state = 0 ORDER BY position, id");
        self.column(&sql, [])
    }

    /// Returns the files of rows.
    pub(crate) fn works(&self, rows: impl IntoIterator<Item = i64>) -> Result<Vec<Work>> {
        self.query(|connection| {
            let mut statement =
                connection.prepare_cached(&format!("SELECT {ITEM} FROM files WHERE id = ?1"))?;
            rows.into_iter().map(|id| statement.query_row([id], work_of)).collect()
        })
    }

    /// Records how reading files ended, in one transaction.
    pub(crate) fn finish(&mut self, ended: Vec<(Work, Outcome)>) -> Result<()> {
        self.transact(|connection, cache, run| {
            let mut ended = ended.into_iter();
            ended.try_for_each(|(work, outcome)| record::finish(connection, cache, run, work, &outcome))
        })
    }

    /// Sets whether a transaction is on the disk when it ends.
    pub(crate) fn set_durable(&self, is_durable: bool) -> Result<()> {
        let mode = if is_durable { "FULL" } else { "NORMAL" };
        self.query(|connection| connection.pragma_update(None, "synchronous", mode))
    }

    /// Returns the requests and bytes of reading all files.
    pub(crate) fn traffic(&self) -> Result<(u64, u64)> {
        let sql = "SELECT coalesce(sum(requests), 0), coalesce(sum(bytes), 0) FROM contents";
        self.query(|connection| {
            connection.query_row(sql, [], |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
        })
    }

    /// Returns the files that were not read, in the order of the listing.
    pub(crate) fn unread(&self) -> Result<Vec<Unread>> {
        let sql = "SELECT url, class, error FROM files WHERE state <> 1 ORDER BY position, id";
        self.all(sql, [], |row| {
            let class: Option<String> = row.get(1)?;
            let class = class.and_then(|class| class_named(&class));
            Ok((row.get(0)?, class.zip(row.get(2)?)))
        })
    }

    /// Counts the files by state.
    pub(crate) fn counts(&self) -> Result<Counts> {
        let sql = format!("SELECT count(*) FROM files WHERE {OPEN} AND state = ?1");
        let of = |state: i64| self.get(&sql, [state]).map(unsigned);
        let (pending, failed) = (of(PENDING)?, of(FAILED)?);
        let files = self.query(|connection| number(connection, "files"))?;
        Ok(Counts { pending, failed, done: files.saturating_sub(pending + failed) })
    }

    /// Returns the errors of failed files.
    pub(crate) fn failures(&self, most: u64) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT coalesce(error, url) FROM files WHERE {OPEN} AND state = 2 ORDER BY position, id LIMIT ?1"
        );
        self.column(&sql, [signed(most)])
    }

    /// Returns row, name and receipt of files with an output of their own: at most `most` rows after the row `after`.
    pub(crate) fn written(&self, after: i64, most: u64) -> Result<Vec<(i64, String, String)>> {
        let sql = "SELECT id, written, coalesce(receipt, '') FROM files
            WHERE id > ?1 AND state = 1 AND written IS NOT NULL ORDER BY id LIMIT ?2";
        self.all(sql, params![after, signed(most)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }

    /// Schedules a file to be read again.
    pub(crate) fn again(&self, id: i64) -> Result<()> {
        self.execute("UPDATE files SET state = 0, attempts = 0 WHERE id = ?1", [id]).map(drop)
    }

    /// Returns the members whose rows follow the row `through`, in order.
    pub(crate) fn rows_after(&self, through: i64) -> Result<Vec<Planned>> {
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
        let cache = &mut self.cache.borrow_mut();
        let sql =
            "SELECT files.id, run, kind, extent FROM files CROSS JOIN contents ON contents.id = files.id
            WHERE files.id > ?1 AND state = 1 AND kind IS NOT NULL ORDER BY position, files.id";
        self.for_each(sql, [through], |row| Ok(take(planned(&self.connection, cache, row)?)))
    }

    /// Returns the extent of a member, as JSON.
    pub(crate) fn extent(&self, id: i64) -> Result<String> {
        let cache = &mut self.cache.borrow_mut();
        let sql = "SELECT files.id, run, kind, extent FROM files JOIN contents ON contents.id = files.id
            WHERE files.id = ?1";
        self.query(|connection| {
            connection.prepare_cached(sql)?.query_row([id], |row| planned(connection, cache, row))
        })
        .map(|row| row.extent)
    }

    /// Returns the URL of a file.
    pub(crate) fn url(&self, id: i64) -> Result<String> {
        self.get("SELECT url FROM files WHERE id = ?1", [id])
    }

    /// Returns the storage digest of a file.
    pub(crate) fn storage_of(&self, url: &str) -> Result<String> {
        let sql =
            "SELECT storage FROM files JOIN contents USING (id) JOIN kinds ON kinds.id = kind WHERE url = ?1";
        self.get(sql, [url])
    }

    /// Returns the signature digests of all files that were read, in the order of their first files.
    pub(crate) fn signature_digests(&self) -> Result<Vec<String>> {
        let sql = "SELECT storage FROM files JOIN contents USING (id) JOIN kinds ON kinds.id = kind
            WHERE state = 1 GROUP BY kind ORDER BY min(position)";
        self.column(sql, [])
    }

    /// Returns the signature with a digest, as JSON.
    pub(crate) fn signature(&self, digest: &str) -> Result<String> {
        self.get("SELECT signature FROM kinds WHERE storage = ?1", [digest])
    }
}

fn to_check(row: &Row<'_>) -> rusqlite::Result<ToCheck> {
    let related: Option<String> = row.get(7)?;
    let related = related.map(|text| versions(&text)).transpose()?.unwrap_or_default();
    let Work { id, item } = work_of(row)?;
    Ok(ToCheck { id, item, related, is_untold: row.get(8)? })
}

fn planned(connection: &Connection, cache: &mut Cache, row: &Row<'_>) -> rusqlite::Result<Planned> {
    let kind = cache.kind(connection, row.get(2)?)?;
    let extent = kind.extent(row.get_ref(3)?.as_blob()?)?;
    Ok(Planned { id: row.get(0)?, run: row.get(1)?, storage: Arc::clone(&kind.storage), extent })
}

/// Stages a file, unless its URL is staged already, and counts it.
fn stage(connection: &Connection, item: &Item, listing: &mut Listing) -> rusqlite::Result<()> {
    let sql = format!("SELECT {ITEM} FROM files WHERE url = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let known = statement.query_row([&item.url], |row| Ok((work_of(row)?, row.get(6)?))).optional()?;
    let known: Option<(Work, i64)> = known;
    let changed = known.as_ref().is_some_and(|(known, _)| differs(&known.item, item));
    let pending = changed || known.as_ref().is_none_or(|(_, state)| *state == PENDING);
    let sql =
        "INSERT OR IGNORE INTO listing (position, url, known, changed, size, etag, modified, properties)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let new = connection.prepare_cached(sql)?.execute(params![
        signed(listing.files),
        item.url,
        known.map(|(known, _)| known.id),
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
const RESTART: &str = "DELETE FROM tails; DELETE FROM begun; DELETE FROM contents; DELETE FROM chunks; DELETE FROM files;
        DELETE FROM documents; DELETE FROM nodes; DELETE FROM kinds; DELETE FROM options; DELETE FROM outputs;
        DELETE FROM facts WHERE name NOT IN ('program', 'run', 'files', 'next');
        UPDATE facts SET value = '1' WHERE name = 'run'; UPDATE facts SET value = '0' WHERE name IN ('files', 'next');
        UPDATE listing SET known = NULL, changed = 0; DELETE FROM looked";

/// Deletes the files that are not part of this run. Returns their number.
fn forget(transaction: &Connection, how: Accept) -> rusqlite::Result<u64> {
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
fn take_over(transaction: &Connection, append: bool) -> rusqlite::Result<u64> {
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
    set_number(transaction, "next", first + unsigned(listed))?;
    Ok(new as u64)
}

/// Number of messages of each class of failures.
const MESSAGES: i64 = 3;
/// Marks the files of the output that was begun.
const COMMIT: &str = "UPDATE files SET committed = begun.run FROM begun WHERE files.id = +begun.file AND committed IS NOT begun.run";

/// The record of a combined output.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Known {
    /// Digest of the rows and options of the published output.
    pub(crate) plan: Option<String>,
    /// Receipt of the published output, see [`virtualize_store::Receipt`].
    pub(crate) receipt: Option<String>,
    /// Digest of the output that a run was about to publish; the run may have been killed before it recorded success.
    pub(crate) begun_plan: Option<String>,
    /// Content of that output in the form of a receipt; empty for a commit.
    pub(crate) begun: Option<String>,
}

impl Journal {
    /// Returns the record of an output; `None` if it was never written.
    pub(crate) fn output(&self, url: &str) -> Result<Option<Known>> {
        let sql = "SELECT plan, receipt, begun_plan, begun FROM outputs WHERE url = ?1";
        let found = self.all(sql, [url], |row| {
            Ok(Known { plan: row.get(0)?, receipt: row.get(1)?, begun_plan: row.get(2)?, begun: row.get(3)? })
        });
        Ok(found?.pop())
    }

    /// Records that an output is about to be published: of these rows alone, or with `more` of these and those of the
    /// output that was published last.
    pub(crate) fn begin_output(
        &mut self,
        url: &str,
        (plan, content): (&str, &str),
        rows: impl IntoIterator<Item = i64>,
        more: bool,
    ) -> Result<()> {
        self.transact(|connection, _, _| {
            let sql = "INSERT INTO outputs (url, begun_plan, begun, begun_more) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (url) DO UPDATE SET begun_plan = excluded.begun_plan, begun = excluded.begun,
                begun_more = excluded.begun_more";
            connection.execute(sql, params![url, plan, content, more])?;
            connection.execute("DELETE FROM begun", [])?;
            for id in rows {
                let sql = "INSERT OR IGNORE INTO begun (file, run) SELECT id, run FROM files WHERE id = ?1";
                connection.prepare_cached(sql)?.execute([id])?;
            }
            Ok(())
        })
    }

    /// Records that the pending output was published.
    pub(crate) fn finish_output(&mut self, url: &str, receipt: &str) -> Result<()> {
        self.transact(|connection, _, _| {
            let sql = "SELECT coalesce(begun_more, 0) FROM outputs WHERE url = ?1";
            let more: Option<bool> = connection.query_row(sql, [url], |row| row.get(0)).optional()?;
            let sql = "UPDATE outputs SET plan = begun_plan, receipt = ?2, begun_plan = NULL, begun = NULL,
                begun_more = NULL, written = unixepoch() WHERE url = ?1";
            connection.execute(sql, params![url, receipt])?;
            if !more.unwrap_or_default() {
                let sql = "UPDATE files SET committed = NULL
                    WHERE committed IS NOT NULL AND NOT EXISTS (SELECT 1 FROM begun WHERE file = files.id)";
                connection.execute(sql, [])?;
            }
            connection.execute(COMMIT, [])?;
            connection.execute("DELETE FROM begun", []).map(drop)
        })
    }

    /// Marks the rows of the pending output as committed: it may have been published.
    pub(crate) fn keep_begun(&self) -> Result<()> {
        self.execute(COMMIT, []).map(drop)
    }

    /// Returns what [`Self::set_tail`] stored for an output, with the last row of then. `None` if any of the files up to
    /// that row has changed since.
    pub(crate) fn tail(&self, output: &str) -> Result<Option<(i64, Vec<u8>)>> {
        let sql = "SELECT through, state FROM tails WHERE output = ?1";
        Ok(self.all(sql, [output], |row| Ok((row.get(0)?, row.get(1)?)))?.pop())
    }

    /// Stores what a later run needs to add files to an output of all files up to the row `through`.
    pub(crate) fn set_tail(&self, output: &str, through: i64, state: &[u8]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO tails (output, through, state) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![output, through, state]).map(drop)
    }
}

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
    /// A run works on the journal, or it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let journal = Journal::open_read_only(path, path)?;
        // One transaction, so that all numbers are those of one moment.
        let transaction = journal.query(rusqlite::Connection::unchecked_transaction)?;
        let count =
            |state: i64| journal.get("SELECT count(*) FROM files WHERE state = ?1", [state]).map(unsigned);
        let unwritten = format!("SELECT count(*) FROM files WHERE state = 1 AND {OPEN}");
        let outputs =
            "SELECT url, strftime('%Y-%m-%dT%H:%M:%SZ', written, 'unixepoch'), begun_plan IS NOT NULL
            FROM outputs ORDER BY url";
        let state = Self {
            runs: number(&transaction, "run").map_err(|error| journal.failed(error))?,
            files: number(&transaction, "files").map_err(|error| journal.failed(error))?,
            read: count(DONE)?,
            failed: count(FAILED)?,
            pending: count(PENDING)?,
            unwritten: journal.get(&unwritten, []).map(unsigned)?,
            outputs: journal.all(outputs, [], |row| {
                Ok(OutputState { url: row.get(0)?, written: row.get(1)?, unfinished: row.get(2)? })
            })?,
            failures: failures(&journal)?,
            shard: journal.fact("shard")?,
            options: journal.options()?,
            command: journal.fact("command")?.and_then(|text| serde_json::from_str(&text).ok()),
        };
        drop(transaction);
        Ok(state)
    }
}

fn failures(journal: &Journal) -> Result<Vec<FailureState>> {
    let classes =
        "SELECT coalesce(class, ''), count(*) FROM files WHERE state = 2 GROUP BY 1 ORDER BY 2 DESC, 1";
    let classes = journal.all(classes, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let first = "SELECT coalesce(error, url) FROM files WHERE state = 2 AND coalesce(class, '') = ?1
        ORDER BY position, id LIMIT ?2";
    let one = |(class, files): (String, i64)| {
        let first = journal.column(first, params![class, MESSAGES])?;
        Ok(FailureState { class, files: unsigned(files), first })
    };
    classes.into_iter().map(one).collect()
}
