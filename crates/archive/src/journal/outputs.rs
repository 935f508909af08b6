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

    /// Records that an output of these rows is about to be published.
    pub(crate) fn begin_output(
        &mut self,
        url: &str,
        plan: &str,
        content: &str,
        rows: impl IntoIterator<Item = i64>,
    ) -> Result<(), JournalError> {
        let run = || {
            let transaction = self.connection.transaction()?;
            let sql = "INSERT INTO outputs (url, begun_plan, begun) VALUES (?1, ?2, ?3)
                ON CONFLICT (url) DO UPDATE SET begun_plan = excluded.begun_plan, begun = excluded.begun";
            transaction.execute(sql, params![url, plan, content])?;
            transaction.execute("UPDATE files SET begun = NULL WHERE begun IS NOT NULL", [])?;
            for id in rows {
                let sql = "UPDATE files SET begun = run WHERE id = ?1";
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
            let sql = "UPDATE outputs SET plan = begun_plan, receipt = ?2, begun_plan = NULL, begun = NULL WHERE url = ?1";
            transaction.execute(sql, params![url, receipt])?;
            transaction.execute("UPDATE files SET committed = begun, begun = NULL", [])?;
            transaction.commit()
        };
        let done = run();
        done.map_err(|error| self.failed(error))
    }

    /// Marks the rows of the pending output as committed: it may have been published.
    pub(crate) fn keep_begun(&self) -> Result<(), JournalError> {
        let sql = "UPDATE files SET committed = begun WHERE begun IS NOT NULL";
        self.connection.execute(sql, []).map(drop).map_err(|error| self.failed(error))
    }
}
