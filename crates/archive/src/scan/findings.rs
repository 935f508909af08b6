//! Collects the results of a scan in the order of the listing.

use std::collections::BTreeMap;
use std::pin::Pin;

use futures::{Stream, StreamExt};

use super::{FailedFile, Scan, look::Looked};
use crate::{
    Error, Event, Item,
    event::Events,
    journal::{Failed, Outcome, Work},
    read::{Failure, WorkQueue},
};

/// Maximum number of files that may be read ahead of a slow one.
const AHEAD: usize = 4096;
/// Number of listed files between two progress events.
const TOLD: u64 = 100;

/// Results collected while files are read.
pub(super) struct Findings<'a, S> {
    pub(super) items: Pin<&'a mut S>,
    pub(super) events: &'a Events,
    pub(super) found: Scan,
    /// Number of files listed so far.
    pub(super) listed: u64,
    /// Results that wait for those of earlier files.
    pub(super) waiting: BTreeMap<i64, Result<Looked, FailedFile>>,
    /// Index of the next file in order.
    pub(super) next: i64,
    /// Requests and bytes for the files read so far.
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl<S: Stream<Item = Result<Item, Error>> + Send> WorkQueue for Findings<'_, S> {
    type Record = Looked;
    type Error = Error;

    fn room(&self) -> usize {
        AHEAD.saturating_sub(self.waiting.len())
    }

    async fn take(&mut self, _most: usize) -> Result<Vec<Work>, Error> {
        let item = self.items.next().await.transpose()?;
        let complete = item.is_none();
        let work = item.map(|item| Work { id: self.listed.try_into().unwrap_or(i64::MAX), item });
        self.listed += u64::from(!complete);
        if complete || self.listed.is_multiple_of(TOLD) {
            self.events.tell(Event::Listed { files: self.listed, pending: self.listed, complete });
        }
        Ok(work.into_iter().collect())
    }

    async fn finished(&mut self, work: Work, outcome: Outcome<Looked>) -> Result<(), Error> {
        let looked = match outcome {
            Outcome::Done(done) => {
                self.requests = self.requests.saturating_add(done.requests);
                self.bytes = self.bytes.saturating_add(done.bytes);
                Ok(done.record)
            }
            Outcome::Failed(Failed { class, error, .. }) => {
                Err(FailedFile { url: work.item.url, class, error })
            }
        };
        self.add(work.id, looked);
        Ok(())
    }

    fn left(&mut self, work: Work, failure: &Failure) {
        let url = work.item.url;
        let error = format!("{url}: not read, since its store fails for file after file");
        self.add(work.id, Err(FailedFile { url, class: failure.class, error }));
    }
}

impl<S> Findings<'_, S> {
    /// Adds the result of a file, and forwards results in the order of the listing.
    fn add(&mut self, id: i64, looked: Result<Looked, FailedFile>) {
        self.waiting.insert(id, looked);
        while let Some(looked) = self.waiting.remove(&self.next) {
            self.next += 1;
            match looked {
                Ok((seen, _)) => self.found.eras.add(seen),
                Err(failed) => self.found.failed.push(failed),
            }
        }
    }
}
