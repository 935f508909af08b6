//! Adds files that other machines read.

use rusqlite::OptionalExtension;

use super::{
    Journal, JournalError, Outcome, Work,
    rows::State,
    saved,
    work::{self, ITEM, known_of},
};
use crate::Item;

impl Journal {
    /// Records how files ended, by URL, in one transaction. Files that are done already stay as they are, and so do
    /// those that failed; with `skip_failures`, failures are not recorded at all. Returns the number of files that are
    /// done now and were not before. A file that was replaced after another machine read it stays to be read.
    pub(crate) fn import(
        &mut self,
        files: Vec<(String, Outcome)>,
        skip_failures: bool,
    ) -> Result<u64, JournalError> {
        let Self { connection, known, run, .. } = self;
        let known = known.get_mut();
        let mut all = || {
            let transaction = connection.transaction()?;
            let mut done = 0;
            for (url, outcome) in &files {
                let sql = format!("SELECT {ITEM}, class IS NOT NULL FROM files WHERE url = ?1");
                let mut statement = transaction.prepare_cached(&sql)?;
                let found = statement.query_row([url], |row| Ok((known_of(row)?, row.get(7)?)));
                let Some((file, failed_before)): Option<(_, bool)> = found.optional()? else {
                    return Err(rusqlite::Error::QueryReturnedNoRows);
                };
                let is_failure = matches!(outcome, Outcome::Failed(_));
                // A file that failed before and is pending is to be read again.
                let is_pending = is_failure && (skip_failures || failed_before);
                if file.state == State::Done || is_pending || is_stale(&file.item, outcome) {
                    continue;
                }
                let work = Work { id: file.id, item: file.item };
                work::finish(&transaction, known, *run, work, outcome)?;
                done += u64::from(!is_failure);
            }
            transaction.commit()?;
            Ok(done)
        };
        let done: rusqlite::Result<u64> = all();
        if done.is_err() {
            // Its rows are not those of the database once a transaction was rolled back.
            *known = saved::Known::default();
        }
        done.map_err(|error| self.failed(error))
    }
}

/// Returns whether another version of the file was read than the one that is listed.
fn is_stale(listed: &Item, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done(done) => !done.replaced && !listed.listed().agrees(&done.opened.listed()),
        Outcome::Failed(_) => false,
    }
}
