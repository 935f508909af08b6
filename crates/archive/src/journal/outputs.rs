//! What is known of the combined outputs that were written.

use rusqlite::{OptionalExtension, params};

use super::{Journal, JournalError};

/// A combined output as the journal knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Known {
    /// Digest of the rows and options of what is there.
    pub(crate) plan: Option<String>,
    /// What was written, see [`virtualize_store::Receipt`].
    pub(crate) receipt: Option<String>,
    /// The digest of what a run was about to put there; it may have been killed before it noted that it did.
    pub(crate) begun_plan: Option<String>,
    /// What that was.
    pub(crate) begun: Option<String>,
}

impl Journal {
    /// What is known of an output; nothing where it was never written.
    pub(crate) fn output(&self, url: &str) -> Result<Option<Known>, JournalError> {
        let sql = "SELECT plan, receipt, begun_plan, begun FROM outputs WHERE url = ?1";
        let found = self.connection.query_row(sql, [url], |row| {
            Ok(Known { plan: row.get(0)?, receipt: row.get(1)?, begun_plan: row.get(2)?, begun: row.get(3)? })
        });
        found.optional().map_err(|error| self.failed(error))
    }

    /// An output of these rows is about to be put at its place.
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

    /// The output that was begun is at its place.
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

    /// The output may have the rows with which it was begun.
    pub(crate) fn keep_begun(&self) -> Result<(), JournalError> {
        let sql = "UPDATE files SET committed = begun WHERE begun IS NOT NULL";
        self.connection.execute(sql, []).map(drop).map_err(|error| self.failed(error))
    }
}
