//! A run over many files.

mod builder;
mod combined;
mod each;
mod fingerprint;
mod member;
mod output;
mod python;
mod read;
#[cfg(feature = "icechunk")]
mod repository;
mod summary;
mod target;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use virtualize::{Options, Relocation};

pub use builder::BatchBuilder;
pub use summary::Summary;
pub use target::Target;

use crate::{
    Error, Event, Journal,
    engine::{EngineOptions, FileReader, run_journal},
    event::Events,
    journal::{Listing, journal_beside},
    list::{Assets, Filter, Input, ListOptions, list},
};
use each::Each;
use output::Combine;
use read::Becomes;

/// Most listed files that go to the journal at once.
const LISTED: usize = 1000;
/// Most files that an error or a summary names.
const NAMED: u64 = 10;

/// What is done with many files: each becomes references of its own.
///
/// ```no_run
/// # async fn run() -> Result<(), virtualize_archive::Error> {
/// use virtualize_archive::Batch;
///
/// let batch = Batch::builder("refs/").inputs(["s3://bucket/era5/**/*.nc"]).each().build();
/// let summary = batch.run(|event| eprintln!("{event:?}")).await?;
/// println!("{} of {} files", summary.files - summary.failed, summary.files);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    inputs: Vec<Input>,
    filter: Filter,
    assets: Assets,
    output: String,
    target: Target,
    each: bool,
    combine: Combine,
    overwrite: bool,
    relocation: Relocation,
    options: Options,
    journal: Option<PathBuf>,
    files: usize,
    attempts: u32,
    wait: Duration,
    retry_failed: bool,
    max_failures: u64,
    skip_failed: bool,
    append: bool,
    drop_vanished: bool,
    restart: bool,
    cancel: CancellationToken,
}

impl Batch {
    /// What is to be done; `output` is a path or url.
    pub fn builder(output: impl Into<String>) -> BatchBuilder {
        BatchBuilder::new(output.into())
    }

    /// Where the journal is kept.
    pub fn journal_path(&self) -> PathBuf {
        self.journal.clone().unwrap_or_else(|| journal_beside(&self.output))
    }

    /// Does it, or goes on with it where the journal says that it was begun. Needs a tokio runtime with I/O and time;
    /// files are read on all of its threads.
    ///
    /// # Errors
    /// [`Error`]. The output is then as it was, but that outputs of single files may have come to it.
    pub async fn run(&self, events: impl Fn(Event) + Send + Sync + 'static) -> Result<Summary, Error> {
        let start = Instant::now();
        self.check()?;
        let totals = Arc::new(Totals::default());
        let events = Events::new({
            let totals = Arc::clone(&totals);
            move |event| {
                totals.add(&event);
                events(event);
            }
        });
        let mut journal = self.open_journal()?;
        self.list(&mut journal, &events).await?;
        let reader = Arc::new(self.reader(&mut journal)?);
        let journal = run_journal(journal, reader, &self.engine(), &events).await?;
        let mut summary = self.summary(&journal, &totals)?;
        if self.each {
            summary.output = Some(self.output.clone());
        } else {
            self.may_be_written(&summary)?;
            self.write_combined(journal, &self.combine, &mut summary, &events).await?;
        }
        summary.seconds = start.elapsed().as_secs_f64();
        events.tell(Event::Done { summary: summary.clone() });
        Ok(summary)
    }

    /// Refuses options that do not go together.
    fn check(&self) -> Result<(), Error> {
        let along = &self.combine.layout.along;
        let problem = match self.each {
            true if !along.is_empty() => {
                "--each makes an output of each file, --concat-dim and --stack-dim one of all"
            }
            false if along.is_empty() => {
                "how are the files put together? give --concat-dim, --stack-dim, or --each for an output of each file"
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(problem.to_owned()))
    }

    fn engine(&self) -> EngineOptions {
        let (files, attempts, wait) = (self.files, self.attempts, self.wait);
        EngineOptions { files, attempts, wait, cancel: self.cancel.clone() }
    }

    /// The journal, which fits to the options.
    fn open_journal(&self) -> Result<Journal, Error> {
        let path = self.journal_path();
        if self.restart {
            Journal::remove(&path)?;
        }
        let mut journal = Journal::open(&path)?;
        journal.settle_options(&self.row_options())?;
        if self.retry_failed {
            journal.retry_failed()?;
        }
        Ok(journal)
    }

    /// The options on which rows of the journal depend.
    fn row_options(&self) -> BTreeMap<String, String> {
        let mut all = fingerprint::of_options(&self.options);
        all.insert("each".to_owned(), self.each.to_string());
        if self.each {
            all.insert("output".to_owned(), self.output.trim_end_matches('/').to_owned());
            all.insert("format".to_owned(), format!("{:?}", self.target));
            all.insert("urls".to_owned(), format!("{:?}", self.relocation));
        } else {
            all.extend(fingerprint::of_layout(&self.combine.layout));
        }
        all
    }

    /// Lists the inputs, and holds them against what the journal has.
    async fn list(&self, journal: &mut Journal, events: &Events) -> Result<(), Error> {
        let mut listing = Listing::default();
        let options =
            ListOptions { store: self.options.store.clone(), assets: self.assets.clone(), absent: false };
        let mut files = list(self.inputs.clone(), self.filter.clone(), options)?.ready_chunks(LISTED);
        while let Some(items) = files.next().await {
            if self.cancel.is_cancelled() {
                return Err(Error::Stopped { done: 0, files: listing.files });
            }
            let items = items.into_iter().collect::<Result<Vec<_>, _>>()?;
            journal.list(&items, &mut listing)?;
            events.tell(Event::Listed { files: listing.files, pending: listing.pending, complete: false });
        }
        for text in files.get_ref().tally().notes() {
            events.tell(Event::Note { text });
        }
        self.vanished(journal)?;
        let counts = journal.counts()?;
        events.tell(Event::Listed { files: counts.all(), pending: counts.pending, complete: true });
        Ok(())
    }

    fn vanished(&self, journal: &mut Journal) -> Result<(), Error> {
        let (count, first) = journal.vanished(NAMED)?;
        match count {
            0 => Ok(()),
            _ if self.append => Ok(journal.keep_vanished()?),
            _ if self.drop_vanished => Ok(journal.drop_vanished()?),
            _ => Err(Error::Vanished { count, first }),
        }
    }

    fn reader(&self, journal: &mut Journal) -> Result<FileReader<Becomes>, Error> {
        let make = match self.each {
            true => Becomes::Each(self.each(journal)?),
            false => Becomes::Member(self.combine.layout.clone()),
        };
        Ok(FileReader { options: self.options.clone(), make })
    }

    /// How outputs of single files are written. Those that are no longer there are made again.
    fn each(&self, journal: &mut Journal) -> Result<Each, Error> {
        #[cfg_attr(not(feature = "icechunk"), allow(irrefutable_let_patterns, reason = "of one kind then"))]
        let Target::References(format) = self.target else {
            return Err(Error::Usage("an Icechunk repository holds one dataset: not with --each".to_owned()));
        };
        let root = match journal.fact("root")? {
            Some(root) => root,
            None => {
                let mut urls = journal.listed()?;
                urls.sort_unstable();
                let root = each::root(&self.inputs, &urls).unwrap_or_default();
                journal.set_fact("root", Some(&root))?;
                root
            }
        };
        let each = Each {
            output: self.output.clone(),
            root,
            format,
            extension: self.target.extension(),
            overwrite: self.overwrite || !journal.is_new(),
            relocation: self.relocation.clone(),
        };
        for (id, name, bytes) in journal.written()? {
            if !each.is_there(&name, bytes) {
                journal.again(id)?;
            }
        }
        Ok(each)
    }

    fn summary(&self, journal: &Journal, totals: &Totals) -> Result<Summary, Error> {
        let counts = journal.counts()?;
        let read = totals.read.load(Ordering::Relaxed);
        Ok(Summary {
            files: counts.all(),
            read,
            known: counts.done.saturating_sub(read),
            failed: counts.failed,
            failures: journal.failures(NAMED)?,
            warnings: totals.warnings.load(Ordering::Relaxed),
            requests: totals.requests.load(Ordering::Relaxed),
            bytes: totals.bytes.load(Ordering::Relaxed),
            journal: journal.path().display().to_string(),
            ..Summary::default()
        })
    }

    /// Whether so many may have failed.
    fn may_be_written(&self, summary: &Summary) -> Result<(), Error> {
        if summary.failed <= self.max_failures || self.skip_failed {
            return Ok(());
        }
        let (count, allowed) = (summary.failed, self.max_failures);
        Err(Error::Failures { count, allowed, first: summary.failures.clone() })
    }
}

/// What the files of a run took together.
#[derive(Debug, Default)]
struct Totals {
    read: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    warnings: AtomicU64,
}

impl Totals {
    fn add(&self, event: &Event) {
        if let Event::Read { requests, bytes, warnings, .. } = event {
            self.read.fetch_add(1, Ordering::Relaxed);
            self.requests.fetch_add(*requests, Ordering::Relaxed);
            self.bytes.fetch_add(*bytes, Ordering::Relaxed);
            self.warnings.fetch_add(warnings.len() as u64, Ordering::Relaxed);
        }
    }
}
