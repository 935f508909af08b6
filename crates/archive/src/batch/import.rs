//! Imports the parts that other machines read.

use std::ops::Range;

use futures::{StreamExt, stream};
use tokio::sync::mpsc;

use super::{Batch, OnFailure};
use crate::{
    Error, Event, Journal,
    event::Events,
    journal::{Outcome, class_name},
    parts::{CheckedPart, Expected, ListingId, PartFile, PartHeader, PartRow, PartSet, PartsError, locate},
};

/// Number of parts that are checked at once.
const AT_ONCE: usize = 4;

/// A step of an import.
enum Step {
    /// Files of a part.
    Rows(Vec<PartRow>),
    /// A part whose files were all sent.
    End(String, Box<PartHeader>),
}

impl Batch {
    /// Checks all parts before anything changes: they must have the files at the positions `unread`, which the journal
    /// does not have. Returns them in the order of their files.
    pub(super) async fn check_parts(
        &self,
        listing: ListingId,
        unread: &[Range<u64>],
    ) -> Result<Vec<CheckedPart>, Error> {
        if self.parts.is_empty() {
            return Ok(Vec::new());
        }
        self.check_combined()?;
        let files = listing.files;
        let expected = Expected { options: self.row_options(), listing };
        let mut set = PartSet::default();
        let locations = locate(&self.parts, &self.options.store).await?;
        let open = |location: String| async move {
            let part = PartFile::open(&location, &self.options.store).await;
            (location, part)
        };
        let mut opened = stream::iter(locations).map(open).buffered(AT_ONCE);
        while let Some((location, part)) = opened.next().await {
            self.go_on()?;
            match part {
                Ok(part) => set.add(&location, &part, &expected)?,
                // It may be in the folder of the parts.
                Err(PartsError::Plan { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(set.complete(files, unread)?)
    }

    /// Adds the files of checked parts to the journal. The next part is read while one is added.
    pub(super) async fn import(
        &self,
        journal: Journal,
        parts: Vec<CheckedPart>,
        events: &Events,
    ) -> Result<Journal, Error> {
        if parts.is_empty() {
            return Ok(journal);
        }
        let (sender, receiver) = mpsc::channel(1);
        let (skip_failures, events) = (self.run.on_failure == OnFailure::Retry, events.clone());
        let added = tokio::task::spawn_blocking(move || add(journal, receiver, skip_failures, &events));
        let sent = self.send(parts, sender).await;
        let added = added.await.map_err(|error| Error::Internal(error.to_string()))?;
        // If the journal fails, sending fails as a consequence.
        let journal = added?;
        sent.map(|()| journal)
    }

    /// Reads parts and sends their files.
    async fn send(&self, parts: Vec<CheckedPart>, sender: mpsc::Sender<Step>) -> Result<(), Error> {
        for checked in parts {
            self.go_on()?;
            let part = PartFile::open(&checked.location, &self.options.store).await?;
            if !checked.is(&part) {
                let reason = "it was replaced while it was imported".to_owned();
                return Err(PartsError::Damaged { name: part.name, kind: "part", reason }.into());
            }
            let sender = sender.clone();
            let sent = tokio::task::spawn_blocking(move || {
                for rows in part.rows() {
                    if sender.blocking_send(Step::Rows(rows?)).is_err() {
                        break;
                    }
                }
                let _ = sender.blocking_send(Step::End(part.name, Box::new(part.header)));
                Ok::<_, PartsError>(())
            });
            sent.await.map_err(|error| Error::Internal(error.to_string()))??;
        }
        Ok(())
    }
}

/// Adds files to the journal as they arrive, a transaction for each step.
fn add(
    mut journal: Journal,
    mut steps: mpsc::Receiver<Step>,
    skip_failures: bool,
    events: &Events,
) -> Result<Journal, Error> {
    let mut imported = 0;
    while let Some(step) = steps.blocking_recv() {
        match step {
            Step::Rows(rows) => {
                rows.iter().filter_map(failure).for_each(|event| events.tell(event));
                let rows = rows.into_iter().map(|row| (row.item.url, row.outcome)).collect();
                imported += journal.import(rows, skip_failures)?;
            }
            Step::End(part, header) => {
                let PartHeader { files, failed, seconds, requests, bytes, .. } = *header;
                let (shard, imported) = (header.shard.to_string(), std::mem::take(&mut imported));
                journal.add_part(&part, &shard, files)?;
                events.tell(Event::Imported {
                    part,
                    shard,
                    files,
                    imported,
                    failed,
                    seconds,
                    requests,
                    bytes,
                });
            }
        }
    }
    Ok(journal)
}

/// Returns the event of a file that could not be read.
fn failure(row: &PartRow) -> Option<Event> {
    let Outcome::Failed(failed) = &row.outcome else { return None };
    Some(Event::Failed {
        url: row.item.url.clone(),
        attempts: failed.attempts,
        class: class_name(failed.class).to_owned(),
        error: failed.error.clone(),
    })
}
