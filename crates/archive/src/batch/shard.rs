//! One machine's share of a batch: lists, reads a shard, writes its part.

use std::{collections::HashSet, convert::Infallible, sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};

use super::{Batch, OnFailure, listing};
use crate::{
    Error, Event, Item, OptionConflict,
    event::Events,
    journal::{Content, Listing, Outcome, Work},
    parts::{
        Expected, ListingDigest, ListingId, PartFile, PartHeader, PartRow, PartsError, PlanFile, PlanWriter,
        ShardNumber, Spent, encode, line, parse_line, shards_of, write, write_plan,
    },
    read::{Ended, Failure, Outage, WorkQueue, read_all},
};

/// Greatest length of a receipt in bytes, as JSON.
const RECEIPT: usize = 1024;
/// Most failures that a receipt names.
const NAMED: usize = 3;

/// A shard to read, and where its part is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Plan that lists the files; without it, the inputs are listed.
    pub plan: Option<String>,
    /// Number of the shard, from 1.
    pub number: u64,
    /// Number of shards.
    pub of: u64,
    /// Path or URL of the part.
    pub part: String,
}

/// What reading a shard came to: at most 1 KB as JSON, unless the part's location is longer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// Path or URL of the part.
    pub part: String,
    /// Digest that identifies the part.
    pub sha256: String,
    /// Size of the part in bytes.
    pub size: u64,
    /// The shard, such as `3/10`.
    pub shard: String,
    /// Number of files of the shard.
    pub files: u64,
    /// Number of files that could not be read.
    pub failed: u64,
    /// The first failures with their reasons, one line each.
    pub failures: Vec<String>,
    /// Duration of reading the shard, in seconds.
    pub seconds: f64,
    /// Number of requests.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the part was there already, so that no file was read.
    pub reused: bool,
}

impl Batch {
    /// Lists the inputs and writes the plan that workers read their shards from. Returns the number of files.
    ///
    /// A plan of the same files is left as it is; another one is replaced only with [`super::BatchBuilder::overwrite`].
    ///
    /// # Errors
    /// [`Error`].
    pub async fn write_plan(
        &self,
        plan: &str,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<u64, Error> {
        let events = Events::new(events);
        let mut writer = PlanWriter::new(plan)?;
        let mut files = 0;
        self.for_each_listed(None, &events, |items| {
            files += items.len() as u64;
            items.into_iter().try_for_each(|item| writer.add(item, plan))?;
            events.tell(Event::Listed { files, pending: files, complete: false });
            Ok(())
        })
        .await?;
        events.tell(Event::Listed { files, pending: files, complete: true });
        write_plan(plan, writer.finish(plan)?, self.overwrite, &self.options.store).await?;
        Ok(files)
    }

    /// Returns the shards of a plan that are to be read: those with files that the journal does not have. Checks first
    /// that the journal can be used.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn unread_shards(&self, plan: &str, of: u64) -> Result<Vec<ShardNumber>, Error> {
        self.check()?;
        self.check_combined()?;
        if !self.journal_path().exists() {
            let files = PlanFile::open(plan, &self.options.store).await?.listing.files;
            return Ok(shards_of(std::slice::from_ref(&(0..files)), of, files));
        }
        let (mut journal, restart) = self.open_journal(&Events::new(|_| ()))?;
        let mut listing = Listing::default();
        self.for_each_planned(plan, |items| Ok(journal.stage(&items, &mut listing)?)).await?;
        Ok(shards_of(&listing.unread(restart), of, listing.items))
    }

    /// Reads the files of a shard and writes them as a part, on any machine. The part is complete, or it is not
    /// written. A part that is there already is kept, unless a store was not available for some of its files; a file
    /// that is no part is replaced only with [`super::BatchBuilder::overwrite`].
    ///
    /// Needs a tokio runtime with I/O and time; files are read on all of the runtime's threads.
    ///
    /// # Errors
    /// [`Error`]. Files that cannot be read are no error: the part records them.
    pub async fn read_shard(
        &self,
        shard: &Shard,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Receipt, Error> {
        let (start, earlier) = (Instant::now(), self.stats());
        let events = Events::new(events);
        self.check()?;
        self.check_combined()?;
        let Shard { plan, number, of, part } = shard;
        let number = ShardNumber::new(*number, *of)?;
        let (items, listing) = self.shard_files(plan.as_deref(), number, &events).await?;
        let expected = Expected { options: self.row_options(), listing };
        if let Some(receipt) = self.finished(part, number, &expected).await? {
            return Ok(receipt);
        }
        let first = number.range(expected.listing.files).start;
        let rows = self.read_rows(first, items, &events).await?;
        let stats = self.stats().since(&earlier);
        let seconds = start.elapsed().as_secs_f64();
        let spent = Spent { seconds, requests: stats.requests, bytes: stats.bytes };
        let (bytes, header, sha256) = encode(part, expected, number, spent, &rows)?;
        self.go_on()?;
        let size = bytes.len() as u64;
        write(part, bytes, &self.options.store).await.map_err(virtualize::Error::from)?;
        Ok(Receipt::new(part, (sha256, size), &header, &rows, false))
    }

    /// Refuses runs that several machines cannot share.
    pub(super) fn check_combined(&self) -> Result<(), Error> {
        if self.each { Err(OptionConflict::EachInParts.into()) } else { Ok(()) }
    }

    /// Returns the receipt of the part if it is there and complete.
    async fn finished(
        &self,
        location: &str,
        shard: ShardNumber,
        expected: &Expected,
    ) -> Result<Option<Receipt>, Error> {
        if self.run.restart {
            return Ok(None);
        }
        let part = match PartFile::open_if_there(location, &self.options.store).await {
            Err(PartsError::Version { .. }) | Ok(None) => return Ok(None),
            // It may be another file of the user.
            Err(PartsError::Damaged { .. } | PartsError::Plan { .. }) if self.overwrite => return Ok(None),
            Ok(Some(part)) => part,
            Err(error) => return Err(error.into()),
        };
        let is_stale = part.check(expected).is_err() || part.header.shard != shard;
        let again = part.header.unavailable > 0
            || (self.run.on_failure == OnFailure::Retry && part.header.failed > 0);
        if is_stale || again {
            return Ok(None);
        }
        let mut failed = Vec::new();
        for rows in part.rows() {
            let rows = rows?;
            if self.has_changed(&rows).await? {
                return Ok(None);
            }
            failed.extend(rows.into_iter().filter(|row| row.failure().is_some()));
            failed.truncate(NAMED);
        }
        let digest = (part.sha256().to_owned(), part.size());
        Ok(Some(Receipt::new(location, digest, &part.header, &failed, true)))
    }

    /// Returns whether a file was replaced after it was read, where its listing does not show it.
    async fn has_changed(&self, rows: &[PartRow]) -> Result<bool, Error> {
        let untold = rows.iter().filter(|row| row.item.etag.is_none() && row.item.modified.is_none());
        let opened = untold.filter_map(|row| Some((0, row.done()?.opened.clone())));
        let mut files: Vec<(i64, Item)> = opened.collect();
        files.sort_by(|(_, one), (_, other)| one.url.cmp(&other.url));
        let changed = listing::changed(files, self.files, &self.options.store).await;
        Ok(!changed.map_err(Error::Unchecked)?.is_empty())
    }

    /// Returns the files of a shard, and the identity of the listing.
    async fn shard_files(
        &self,
        plan: Option<&str>,
        shard: ShardNumber,
        events: &Events,
    ) -> Result<(Vec<Item>, ListingId), Error> {
        let (items, listing) = match plan {
            Some(plan) => {
                let plan = PlanFile::open(plan, &self.options.store).await?;
                (plan.range(shard.range(plan.listing.files)).await?, plan.listing)
            }
            None => self.listed_shard(shard, events).await?,
        };
        let files = items.len() as u64;
        events.tell(Event::Listed { files, pending: files, complete: true });
        Ok((items, listing))
    }

    /// Lists the inputs, and returns the files of a shard. Which these are shows only at the end; until then, files are
    /// kept as text.
    async fn listed_shard(
        &self,
        shard: ShardNumber,
        events: &Events,
    ) -> Result<(Vec<Item>, ListingId), Error> {
        let (mut digest, mut text, mut ends) = (ListingDigest::default(), Vec::new(), vec![0]);
        self.for_each_listed(None, events, |items| {
            for item in &items {
                digest.add(item);
                text.extend(line(item));
                ends.push(text.len());
            }
            Ok(())
        })
        .await?;
        let listing = digest.finish();
        let range = shard.range(listing.files);
        let count = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let bounds = ends.windows(2).skip(usize::try_from(range.start).unwrap_or(usize::MAX)).take(count);
        let item = |bounds: &[usize]| match bounds {
            [start, end] => text.get(*start..*end).and_then(parse_line),
            _ => None,
        };
        let items: Option<Vec<Item>> = bounds.map(item).collect();
        Ok((items.ok_or_else(|| Error::Internal("a listed file is no JSON".to_owned()))?, listing))
    }

    /// Reads files as a batch does, with retries and breakers.
    async fn read_rows(&self, first: u64, items: Vec<Item>, events: &Events) -> Result<Vec<PartRow>, Error> {
        let files = items.len() as u64;
        let mut queue = ShardQueue::new(items);
        let reader = Arc::new(self.member_reader());
        let ended = read_all(&mut queue, reader, &self.read_options(), events).await;
        let left = queue.left();
        match ended {
            Ok(outages) => match outages.into_iter().next() {
                Some(Outage { store, failure, .. }) => {
                    let Failure { class, error: reason } = failure;
                    Err(Error::Outage { store, class, reason, left, files })
                }
                None => Ok(queue.rows(first)),
            },
            Err(Ended::Stopped) => Err(Error::ShardStopped { read: files - left }),
            Err(Ended::Task(error)) => Err(Error::Internal(format!("a task ended early: {error}"))),
            Err(Ended::Queue(never)) => match never {},
        }
    }
}

impl Receipt {
    fn new(
        part: &str,
        (sha256, size): (String, u64),
        header: &PartHeader,
        rows: &[PartRow],
        reused: bool,
    ) -> Self {
        let failure = |row: &PartRow| {
            // The query of a URL may hold a signature.
            let plain = row.item.url.split('?').next().unwrap_or_default();
            Some(row.failure()?.error.replace(&row.item.url, plain))
        };
        let mut receipt = Self {
            part: part.to_owned(),
            sha256,
            size,
            shard: header.shard.to_string(),
            files: header.files,
            failed: header.failed,
            failures: rows.iter().filter_map(failure).take(NAMED).collect(),
            seconds: header.seconds,
            requests: header.requests,
            bytes: header.bytes,
            reused,
        };
        while receipt.length() > RECEIPT && !receipt.failures.is_empty() {
            receipt.shorten();
        }
        receipt
    }

    fn length(&self) -> usize {
        serde_json::to_string(self).map_or(0, |text| text.len())
    }

    /// Halves the longest failure, or drops it if it is short.
    fn shorten(&mut self) {
        let longest = (0..self.failures.len()).max_by_key(|at| self.failures.get(*at).map(String::len));
        let Some(longest) = longest else { return };
        match self.failures.get_mut(longest) {
            Some(text) if text.chars().count() > 80 => {
                let half = text.chars().count() / 2;
                *text = text.chars().take(half).chain(['…']).collect();
            }
            _ => drop(self.failures.remove(longest)),
        }
    }
}

/// The files of a shard, in memory.
struct ShardQueue {
    waiting: std::iter::Enumerate<std::vec::IntoIter<Item>>,
    items: Vec<Option<(Item, Outcome)>>,
    /// Texts that many files have, once.
    shared: HashSet<Arc<str>>,
}

impl ShardQueue {
    fn new(items: Vec<Item>) -> Self {
        let outcomes = items.iter().map(|_| None).collect();
        Self { waiting: items.into_iter().enumerate(), items: outcomes, shared: HashSet::new() }
    }

    /// Returns the number of files that were not read.
    fn left(&self) -> u64 {
        self.items.iter().filter(|item| item.is_none()).count() as u64
    }

    fn rows(self, first: u64) -> Vec<PartRow> {
        let rows = (first..).zip(self.items);
        rows.filter_map(|(position, row)| row.map(|(item, outcome)| PartRow { position, item, outcome }))
            .collect()
    }

    fn share(&mut self, text: &mut Arc<str>) {
        match self.shared.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => drop(self.shared.insert(Arc::clone(text))),
        }
    }
}

impl WorkQueue for ShardQueue {
    type Record = Content;
    type Error = Infallible;

    async fn take(&mut self, most: usize) -> Result<Vec<Work>, Infallible> {
        let work = |(at, item)| Work { id: i64::try_from(at).unwrap_or(i64::MAX), item };
        Ok(self.waiting.by_ref().take(most).map(work).collect())
    }

    async fn finished(&mut self, work: Work, mut outcome: Outcome) -> Result<(), Infallible> {
        if let Outcome::Done(done) = &mut outcome
            && let Content::Member(member) = &mut done.record
        {
            self.share(&mut member.signature);
            member.nodes.iter_mut().for_each(|node| self.share(&mut node.document));
        }
        let at = usize::try_from(work.id).unwrap_or(usize::MAX);
        if let Some(slot) = self.items.get_mut(at) {
            *slot = Some((work.item, outcome));
        }
        Ok(())
    }
}
