//! Adds files that other machines read.

use rusqlite::OptionalExtension;

use super::{Journal, JournalError, Outcome, rows::State, work};

impl Journal {
    /// Records how files ended, by URL, in one transaction. Files that are done already stay as they are, and so do
    /// those that failed; with `skip_failures`, failures are not recorded at all. Returns the number of files that are
    /// done now and were not before.
    pub(crate) fn import(
        &mut self,
        files: Vec<(String, Outcome)>,
        skip_failures: bool,
    ) -> Result<u64, JournalError> {
        let mut all = || {
            let Self { connection, known: recorded, run, .. } = &mut *self;
            let transaction = connection.transaction()?;
            let mut done = 0;
            for (url, outcome) in &files {
                let sql = "SELECT id, state, class IS NOT NULL FROM files WHERE url = ?1";
                let mut statement = transaction.prepare_cached(sql)?;
                let known = statement.query_row([url], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                let Some((id, state, failed_before)): Option<(i64, i64, bool)> = known.optional()? else {
                    return Err(rusqlite::Error::QueryReturnedNoRows);
                };
                let is_failure = matches!(outcome, Outcome::Failed(_));
                // A file that failed before and is pending is to be read again.
                if State::of(state) == State::Done || (is_failure && (skip_failures || failed_before)) {
                    continue;
                }
                work::finish(&transaction, recorded.get_mut(), *run, id, outcome)?;
                done += u64::from(!is_failure);
            }
            transaction.commit()?;
            Ok(done)
        };
        let done = all();
        done.map_err(|error| self.failed(error))
    }
}
