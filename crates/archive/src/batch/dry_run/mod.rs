//! What a run would do: lists the inputs, reads a sample of the files, writes nothing.

mod estimate;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
};

use futures::FutureExt;
use serde::Serialize;
use virtualize::Stats;

use super::{Batch, NAMED, RunOptions, Target, combined::Combination, member, present::Present};
use crate::{
    Error, Event, Item, Journal, JournalError, Layout,
    event::Events,
    journal::{Accept, Listing, Record, Survey},
    plan::{OnMismatch, PlanOptions},
    read::{FileReader, read_journal},
    scan::{Eras, Seen, look},
};
use estimate::{Conditions, Measured, estimate};
pub use estimate::{Estimate, Prices};

/// Options of a dry run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DryRunOptions {
    /// Number of files to read.
    pub sample: u64,
    /// Prices of requests.
    pub prices: Prices,
}

impl Default for DryRunOptions {
    fn default() -> Self {
        Self { sample: 20, prices: Prices::default() }
    }
}

/// What a run would do.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct DryRun {
    /// The listed files, compared with those of the journal.
    #[serde(flatten)]
    pub survey: Survey,
    /// Number of files of the output that are no longer listed.
    pub vanished: u64,
    /// Number of files of the sample.
    pub sample: u64,
    /// Requests and bytes of reading the sample.
    pub sample_stats: Stats,
    /// Groups of compatible files of the sample, the largest first. With one output per file, there are none.
    pub groups: Vec<SampleGroup>,
    /// Files of the sample that cannot be read.
    pub failed: Vec<SampleFailure>,
    /// Why the run would end without an output, one line each.
    pub refused: Vec<String>,
    /// Notes on the run, and on the combined files of the sample, one line each.
    pub notes: Vec<String>,
    /// What reading all files would take; `None` if no file of the sample could be read.
    pub estimate: Option<Estimate>,
    /// Maximum number of files read at once, which the estimate is for.
    pub at_once: u64,
    /// The prices of requests in the estimate.
    pub prices: Prices,
}

/// Compatible files of a sample.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SampleGroup {
    /// Number of files.
    pub files: u64,
    /// The first of them.
    pub first: String,
    /// Differences from the largest group, one line each; empty for that group.
    pub differences: Vec<String>,
}

/// A file of a sample that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SampleFailure {
    /// The file.
    pub url: String,
    /// Class of the error, such as `unavailable`.
    pub class: String,
    /// Why, in one line.
    pub error: String,
}

/// What is learned of the sample while it is read.
#[derive(Default)]
struct Sampled {
    /// Summaries of the files, by URL.
    seen: BTreeMap<String, Seen>,
    failed: Vec<SampleFailure>,
    read: u64,
    in_buckets: u64,
    seconds: f64,
}

impl Batch {
    /// Lists the inputs, compares them with the journal, reads a sample of the files to be read, and estimates what the
    /// run takes. Writes neither an output nor the journal.
    ///
    /// # Errors
    /// [`Error`] if the inputs cannot be listed, or the store of the sample fails. What the run itself would be refused
    /// for is in [`DryRun::refused`].
    pub async fn dry_run(
        &self,
        options: &DryRunOptions,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<DryRun, Error> {
        self.check()?;
        let mut found = DryRun { at_once: self.files as u64, prices: options.prices, ..DryRun::default() };
        let earlier = self.stats();
        let sampled = Arc::new(Mutex::new(Sampled::default()));
        let events = Events::new({
            let sampled = Arc::clone(&sampled);
            move |event| {
                lock(&sampled).hear(&event);
                events(event);
            }
        });
        let items = self.survey(options.sample, &mut found, &events).await?;
        let listed = self.stats().since(&earlier);
        let measured = self.read_sample(items, &mut found, &sampled, &events).await?;
        let cores = available_parallelism().map_or(1, |cores| cores.get() as u64);
        let how =
            Conditions { at_once: found.at_once, cores, prices: options.prices, listings: listed.listings };
        found.estimate = estimate(&found.survey, &measured, &how);
        Ok(found)
    }

    /// Lists the inputs and compares them with the journal. Returns the sample.
    async fn survey(&self, most: u64, found: &mut DryRun, events: &Events) -> Result<Vec<Item>, Error> {
        let (mut journal, is_known) = self.journal_to_compare(found)?;
        let mut listing = Listing::default();
        self.for_each_listed(events, |items| {
            journal.stage(&items, &mut listing)?;
            events.tell(Event::Listed { files: listing.files, pending: listing.pending, complete: false });
            Ok(())
        })
        .await?;
        if is_known {
            self.recheck(&journal, &listing).await?;
            found.vanished = journal.vanished(self.run.append, NAMED)?.count;
            self.note_refusal(self.compare(&journal, events), found);
        } else {
            self.note_refusal(self.check_present().await, found);
        }
        if let Some(each) = self.each(&journal, !is_known)? {
            self.note_refusal(each.check_names(&journal, self.run.append && is_known), found);
        }
        let RunOptions { retry_failed, skip_failed, .. } = self.run;
        let how = Accept { retry_failed, retry_unavailable: !skip_failed, ..Accept::default() };
        found.survey = journal.survey(how)?;
        let Survey { files, to_read, .. } = found.survey;
        events.tell(Event::Listed { files, pending: to_read.min(most), complete: true });
        Ok(journal.sample(how, most)?)
    }

    /// Opens the journal, if the run would continue from it, or else an empty one. Also returns which of these it is.
    fn journal_to_compare(&self, found: &mut DryRun) -> Result<(Journal, bool), Error> {
        let path = self.journal_path();
        if !self.run.restart && path.exists() {
            match Journal::open_unchanged(&path) {
                Ok(journal) => {
                    let differences = journal.other_options(&self.row_options())?;
                    if differences.is_empty() {
                        return Ok((journal, true));
                    }
                    if journal.is_used()? {
                        let error = JournalError::OtherOptions { path, differences };
                        found.refused.push(self.text(&error.into()));
                    }
                }
                Err(error) => found.refused.push(self.text(&error.into())),
            }
        }
        Ok((Journal::temporary()?, false))
    }

    /// Refuses an output that the journal does not know and that a run would not replace.
    async fn check_present(&self) -> Result<(), Error> {
        #[cfg_attr(not(feature = "icechunk"), expect(irrefutable_let_patterns, reason = "the only target"))]
        let Target::References(format) = &self.target else { return Ok(()) };
        if self.each || self.overwrite || self.run.restart {
            return Ok(());
        }
        let several = format.is_several_files();
        let mut unknown = Journal::temporary()?;
        let present = Present::of(&self.output, several, &mut unknown, &self.options.store).await?;
        present.check(&self.output, several, self.run.append)
    }

    /// Reads the sample into a journal of its own, and combines it.
    async fn read_sample(
        &self,
        items: Vec<Item>,
        found: &mut DryRun,
        sampled: &Arc<Mutex<Sampled>>,
        events: &Events,
    ) -> Result<Measured, Error> {
        found.sample = items.len() as u64;
        let mut journal = Journal::temporary()?;
        journal.stage(&items, &mut Listing::default())?;
        journal.accept(Accept::default(), &BTreeMap::new(), None)?;
        let earlier = self.stats();
        let mut how = self.read_options();
        // Files that wait for a core would seem to take longer than they do.
        how.files = how.files.min(available_parallelism().map_or(1, usize::from));
        let reader = Arc::new(self.sample_reader(sampled));
        let journal = read_journal(journal, reader, &how, events).await?;
        found.sample_stats = self.stats().since(&earlier);
        let measured = {
            let mut sampled = lock(sampled);
            let seen = std::mem::take(&mut sampled.seen);
            found.groups = groups(&items, seen, &self.combine.layout);
            found.failed = std::mem::take(&mut sampled.failed);
            let Sampled { read, in_buckets, seconds, .. } = *sampled;
            let journal = journal.bytes_of_files()?;
            Measured { files: found.sample, read, in_buckets, seconds, journal, stats: found.sample_stats }
        };
        if !self.each && measured.read > 0 {
            self.combine_sample(journal, found, events).await?;
        }
        Ok(measured)
    }

    /// Returns the reader of the sample, which also summarizes each file.
    fn sample_reader(&self, sampled: &Arc<Mutex<Sampled>>) -> FileReader<Record> {
        let layout = Arc::new(self.combine.layout.clone());
        let (sampled, each) = (Arc::clone(sampled), self.each);
        FileReader::new(self.options.clone(), move |item, store, options| {
            let (layout, sampled) = (Arc::clone(&layout), Arc::clone(&sampled));
            async move {
                if each {
                    return Ok(Record::Written { name: item.url.clone(), receipt: String::new() });
                }
                let content = member::content(item, store, &layout, options).await?;
                let (seen, _) = look(item, store, options, layout.as_ref().clone(), false).await?;
                lock(&sampled).seen.insert(item.url.clone(), seen);
                Ok(content)
            }
            .boxed()
        })
    }

    /// Plans and combines the sample, to find what would be refused.
    async fn combine_sample(
        &self,
        journal: Journal,
        found: &mut DryRun,
        events: &Events,
    ) -> Result<(), Error> {
        let planned = self.combine.plan.clone();
        // Files between those of the sample are missing, and groups are reported on their own.
        let options = PlanOptions { allow_holes: true, on_mismatch: OnMismatch::Split, ..planned };
        let (layout, events, cancel) = (self.combine.layout.clone(), events.clone(), self.cancel.clone());
        let combined = tokio::task::spawn_blocking(move || {
            let combination = Combination::plan(&journal, &layout, &options, "")?;
            let combined = combination.combine(&Arc::new(Mutex::new(journal)), &events, &cancel)?;
            Ok(combined.notes)
        });
        match combined.await.map_err(|error| Error::Internal(error.to_string()))? {
            Ok(notes) => found.notes.extend(notes),
            Err(error @ (Error::Stopped { .. } | Error::Journal(_))) => return Err(error),
            Err(error) => found.refused.push(self.text(&error)),
        }
        if found.groups.len() > 1 && self.combine.plan.on_mismatch == OnMismatch::Stop {
            found.refused.push(format!(
                "the files of the sample form {} groups that are not compatible",
                found.groups.len()
            ));
        }
        Ok(())
    }

    /// Adds the reason for which a run would end, if that is one.
    fn note_refusal(&self, result: Result<(), Error>, found: &mut DryRun) {
        found.refused.extend(result.err().map(|error| self.text(&error)));
    }

    fn text(&self, error: &Error) -> String {
        error.render(self.options.notation)
    }
}

impl Sampled {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Started { url } => self.in_buckets += u64::from(is_in_bucket(url)),
            Event::Read { seconds, .. } => {
                self.read += 1;
                self.seconds += seconds;
            }
            Event::Failed { url, class, error, .. } => {
                let (url, class, error) = (url.clone(), class.clone(), error.clone());
                self.failed.push(SampleFailure { url, class, error });
            }
            _ => {}
        }
    }
}

fn lock(sampled: &Mutex<Sampled>) -> MutexGuard<'_, Sampled> {
    sampled.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether requests for a file are billed as those of a bucket.
fn is_in_bucket(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| !matches!(scheme, "file" | "http" | "https"))
}

/// Groups the files of a sample, in the order of the listing.
fn groups(items: &[Item], mut seen: BTreeMap<String, Seen>, layout: &Layout) -> Vec<SampleGroup> {
    let mut eras = Eras::default();
    items.iter().filter_map(|item| seen.remove(&item.url)).for_each(|seen| eras.add(seen));
    eras.merge(layout);
    let firsts = eras.firsts();
    let mut order: Vec<usize> = (0..eras.eras().len()).collect();
    order.sort_by_key(|era| std::cmp::Reverse(eras.eras().get(*era).map_or(0, |era| era.files)));
    let largest = order.first().copied().unwrap_or_default();
    let group = |era: usize| SampleGroup {
        files: eras.eras().get(era).map_or(0, |era| era.files),
        first: firsts.get(&era).copied().unwrap_or_default().to_owned(),
        differences: eras
            .differences(largest, era)
            .into_iter()
            .flatten()
            .map(|one| one.to_string())
            .collect(),
    };
    order.into_iter().map(group).collect()
}
