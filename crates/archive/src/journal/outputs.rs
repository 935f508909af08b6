//! The outputs of a journal, and its state for people.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::{
    Journal, Result,
    sql::{DONE, FAILED, OPEN, PENDING, number, unsigned},
};

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
