//! Records of the combined outputs.

use rusqlite::{OptionalExtension, params};

use super::{Journal, JournalError};

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
    pub(crate) fn output(&self, url: &str) -> Result<Option<Known>, JournalError> {
        let sql = "SELECT plan, receipt, begun_plan, begun FROM outputs WHERE url = ?1";
        let found = self.connection.query_row(sql, [url], |row| {
            Ok(Known { plan: row.get(0)?, receipt: row.get(1)?, begun_plan: row.get(2)?, begun: row.get(3)? })
        });
        found.optional().map_err(|error| self.failed(error))
    }

    /// Records that an output is about to be published: of these rows alone, or with `more` of these and those of the
    /// output that was published last.
    pub(crate) fn begin_output(
        &mut self,
        url: &str,
        (plan, content): (&str, &str),
        rows: impl IntoIterator<Item = i64>,
        more: bool,
    ) -> Result<(), JournalError> {
        let run = || {
            let transaction = self.connection.transaction()?;
            let sql = "INSERT INTO outputs (url, begun_plan, begun, begun_more) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (url) DO UPDATE SET begun_plan = excluded.begun_plan, begun = excluded.begun,
                begun_more = excluded.begun_more";
            transaction.execute(sql, params![url, plan, content, more])?;
            transaction.execute("DELETE FROM begun", [])?;
            for id in rows {
                let sql = "INSERT OR IGNORE INTO begun (file, run) SELECT id, run FROM files WHERE id = ?1";
                transaction.prepare_cached(sql)?.execute([id])?;
            }
            transaction.commit()
        };
        let done = run();
        done.map_err(|error| self.failed(error))
    }

    /// Records that the pending output was published.
    pub(crate) fn finish_output(&mut self, url: &str, receipt: &str) -> Result<(), JournalError> {
        let mut run = || {
            let transaction = self.connection.transaction()?;
            let sql = "SELECT coalesce(begun_more, 0) FROM outputs WHERE url = ?1";
            let more: bool =
                transaction.query_row(sql, [url], |row| row.get(0)).optional()?.unwrap_or_default();
            let sql = "UPDATE outputs SET plan = begun_plan, receipt = ?2, begun_plan = NULL, begun = NULL,
                begun_more = NULL, written = unixepoch() WHERE url = ?1";
            transaction.execute(sql, params![url, receipt])?;
            if !more {
                let sql = "UPDATE files SET committed = NULL
                    WHERE committed IS NOT NULL AND NOT EXISTS (SELECT 1 FROM begun WHERE file = files.id)";
                transaction.execute(sql, [])?;
            }
            transaction.execute(COMMIT, [])?;
            transaction.execute("DELETE FROM begun", [])?;
            transaction.commit()
        };
        let done = run();
        done.map_err(|error| self.failed(error))
    }

    /// Marks the rows of the pending output as committed: it may have been published.
    pub(crate) fn keep_begun(&self) -> Result<(), JournalError> {
        self.connection.execute(COMMIT, []).map(drop).map_err(|error| self.failed(error))
    }

    /// Returns what [`Self::set_tail`] stored for an output, with the last row of then. `None` if any of the files up to
    /// that row has changed since.
    #[allow(dead_code, reason = "appending to an output will use it")]
    pub(crate) fn tail(&self, output: &str) -> Result<Option<(i64, Vec<u8>)>, JournalError> {
        let sql = "SELECT through, state FROM tails WHERE output = ?1";
        let found = self.connection.query_row(sql, [output], |row| Ok((row.get(0)?, row.get(1)?)));
        found.optional().map_err(|error| self.failed(error))
    }

    /// Stores what a later run needs to add files to an output of all files up to the row `through`.
    #[allow(dead_code, reason = "appending to an output will use it")]
    pub(crate) fn set_tail(&self, output: &str, through: i64, state: &[u8]) -> Result<(), JournalError> {
        let sql = "INSERT OR REPLACE INTO tails (output, through, state) VALUES (?1, ?2, ?3)";
        let done = self.connection.execute(sql, params![output, through, state]);
        done.map(drop).map_err(|error| self.failed(error))
    }
}

/// Marks the files of the output that was begun.
const COMMIT: &str = "UPDATE files SET committed = begun.run FROM begun WHERE files.id = +begun.file AND committed IS NOT begun.run";
