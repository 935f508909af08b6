//! A run over many files.

mod combine;
mod each;
mod listing;
mod options;
mod shard;
mod write;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use virtualize::{
    Code, ErrorClass, OptionName, Options, Relocation, Remedy, Stats, zarr::readers::ReaderSetup,
};
use virtualize_store::{OutputLock, Traffic, create_folder, local_path};

use crate::{
    Error, Event, Journal, Layout, PlanOptions, Result, Summary,
    error::{files, some},
    event::Events,
    journal::{Failure, JournalError, journal_next_to},
    list::{Assets, Filter, Input},
    read::{FileReader, Outage, Process, ReadOptions, read_journal},
};
use options::{of_each, of_layout, of_options};
use write::Present;

pub use options::{
    BatchOptions, CoordSource, FileOptions, LayoutOptions, OnChange, OnFailure, RunOptions, Target,
};
pub use shard::{Shard, ShardPlan};

/// Maximum number of files that an error or a summary names.
const NAMED: u64 = 10;

/// Average wait before the first retry.
const WAIT: Duration = Duration::from_secs(1);
/// The fact that stores the arguments of the last run.
const COMMAND: &str = "command";

/// The part of the summary that counts the files that a run read.
type Totals = Mutex<Summary>;

/// A run over many files that writes one combined dataset, or one output per file.
///
/// ```no_run
/// # async fn run() -> Result<(), virtualize_archive::Error> {
/// use virtualize::Options;
/// use virtualize_archive::{Batch, Target};
///
/// let mut batch = Batch::new("refs/", Target::default(), Options::default());
/// batch.inputs = vec!["s3://bucket/era5/**/*.nc".into()];
/// batch.each = true;
/// let summary = batch.run(|event| eprintln!("{event:?}")).await?;
/// println!("{} of {} files", summary.files - summary.failed, summary.files);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    output: String,
    target: Target,
    options: Options,
    /// What names the files.
    pub inputs: Vec<Input>,
    /// Which of the listed files are selected.
    pub filter: Filter,
    /// Which assets of STAC items are read.
    pub assets: Assets,
    /// Whether to write one output per file below the folder or prefix, instead of one for all files.
    pub each: bool,
    /// How files are combined.
    pub layout: Layout,
    /// How incompatible files, and files with equal coordinates, are treated.
    pub plan: PlanOptions,
    /// Whether an output of several files (a folder or prefix) is replaced; a single JSON file always is.
    pub overwrite: bool,
    /// How the URLs of sources are written; relative URLs are relative to the output.
    pub relocation: Relocation,
    /// How the run proceeds.
    pub run: RunOptions,
    /// Maximum number of files read at once.
    pub files: usize,
    /// Stops the run; files read by then are in the journal.
    pub cancel: CancellationToken,
    /// The arguments that the journal records, so that people see what to run again. They must contain no secrets.
    pub command: Vec<String>,
}

impl Batch {
    /// Returns a batch that writes `target` to `output`, a path or url, with files mapped by `options`. The target
    /// determines the Zarr format.
    pub fn new(output: impl Into<String>, target: Target, mut options: Options) -> Self {
        options.map.format = target.zarr_format();
        options.store.traffic = Traffic::default();
        Self {
            output: output.into(),
            target,
            options,
            inputs: Vec::new(),
            filter: Filter::default(),
            assets: Assets::default(),
            each: false,
            layout: Layout::default(),
            plan: PlanOptions::default(),
            overwrite: false,
            relocation: Relocation::Keep,
            run: RunOptions::default(),
            files: 64,
            cancel: CancellationToken::new(),
            command: Vec::new(),
        }
    }

    /// Returns the path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.run.journal.clone().unwrap_or_else(|| journal_next_to(&self.output))
    }

    /// Returns the requests, retries and bytes of this batch so far; [`Batch::run`] may be under way.
    pub fn stats(&self) -> Stats {
        self.options.store.traffic.stats()
    }

    /// Runs the batch, or resumes it from its journal. Without a dimension to combine files along, the only one whose
    /// coordinate differs between the first and the last file is used. Needs a tokio runtime with I/O and time; files are
    /// read on all of the runtime's threads.
    ///
    /// # Errors
    /// [`Error`]. The output is then unchanged, except that outputs of single files may have been added.
    pub async fn run(&self, events: impl Fn(Event) + Send + Sync + 'static) -> Result<Summary> {
        let (start, earlier) = (Instant::now(), self.stats());
        self.check()?;
        let totals = Arc::new(Totals::default());
        let events = Events::new({
            let totals = Arc::clone(&totals);
            move |event| {
                let mut total = totals.lock().unwrap_or_else(PoisonError::into_inner);
                match &event {
                    Event::Read { warnings, .. } => {
                        total.read += 1;
                        total.warnings += warnings.len() as u64;
                    }
                    Event::Imported { imported, .. } => total.imported += imported,
                    _ => {}
                }
                drop(total);
                events(event);
            }
        });
        let is_inferred = !self.each && self.layout.along.is_empty();
        let inferred = if is_inferred { Some(self.with_dimensions(&events).await?) } else { None };
        let batch = inferred.as_ref().unwrap_or(self);
        let result = match self.run.shard {
            _ if self.run.dry_run => batch.dry_run(&events, &totals).boxed_local().await,
            Some(shard) => batch.run_shard(shard, &events, &totals).boxed_local().await,
            None => {
                let lock = self.lock().await?;
                let result = batch.run_locked(lock.as_ref(), &events, &totals).boxed_local().await;
                if let Some(lock) = lock {
                    lock.release().await;
                }
                result
            }
        };
        let mut summary = result?;
        summary.seconds = start.elapsed().as_secs_f64();
        let stats = self.stats().since(&earlier);
        (summary.requests, summary.retries, summary.bytes) = (stats.requests, stats.retries, stats.bytes);
        events.tell(Event::Done { summary: summary.clone() });
        Ok(summary)
    }

    /// Runs the batch with a copy of the journal up to what would be written.
    async fn dry_run(&self, events: &Events, totals: &Totals) -> Result<Summary> {
        let path = self.journal_path();
        let folder = tempfile::tempdir().map_err(|error| JournalError::failed(&path, error))?;
        let copy = folder.path().join("journal");
        if path.exists() {
            Journal::open_read_only(&path, &path)?.copy(&copy)?;
        }
        let run = RunOptions { journal: Some(copy), ..self.run.clone() };
        let summary = Self { run, ..self.clone() }.run_locked(None, events, totals).await?;
        Ok(Summary { journal: path.display().to_string(), output: None, ..summary })
    }

    /// Locks the output for the duration of the run. A repository is locked while it is committed to.
    async fn lock(&self) -> Result<Option<OutputLock>> {
        let Target::References(_) = self.target else { return Ok(None) };
        let options = &self.options.store;
        let made = async {
            if let Some(path) = local_path(&self.output).filter(|_| self.each) {
                create_folder(&path)?;
            }
            OutputLock::acquire(&self.output, options).await
        };
        Ok(Some(made.await.map_err(virtualize::Error::from)?))
    }

    /// Runs the batch while the output is locked: lists, reads, then writes.
    async fn run_locked(
        &self,
        lock: Option<&OutputLock>,
        events: &Events,
        totals: &Totals,
    ) -> Result<Summary> {
        if !self.run.dry_run {
            self.remove_abandoned();
        }
        let (mut journal, restart) = self.open_journal(&self.journal_path(), events)?;
        let present = self.present(&mut journal).await?;
        let parts = self.list(&mut journal, restart, events).await?;
        if !self.command.is_empty() {
            journal.set_fact(COMMAND, Some(&serde_json::json!(self.command).to_string()))?;
        }
        let mut journal = self.merge(journal, parts, events).await?;
        if !self.run.merge.is_empty() {
            // Files may have changed since their shard was read: check them as those of earlier runs.
            let run = RunOptions {
                merge: Vec::new(),
                restart: false,
                on_failure: OnFailure::Skip,
                ..self.run.clone()
            };
            Self { run, ..self.clone() }.list(&mut journal, false, &Events::new(|_| ())).await?;
        }
        let setup = Arc::default();
        let reader = self.reader(&journal, &setup).await?;
        self.read(&mut journal, reader, events).await?;
        let mut summary = self.summary(&journal, totals)?;
        if self.each {
            summary.output = Some(self.output.clone());
            summary.notes.extend(setup.lock().unwrap_or_else(PoisonError::into_inner).hint());
        } else {
            let (count, allowed) = (summary.failed, self.run.max_failures);
            if count > allowed && self.run.on_failure != OnFailure::Skip {
                let failed = some(&summary.failures, count);
                let limit = if allowed > 0 { format!(" (max-failures is {allowed})") } else { String::new() };
                let message = format!("{} failed{limit}: {failed}", files(count));
                let remedy = Remedy::advice("run again to retry files whose store was unavailable")
                    .or(Remedy::set(OptionName::OnFailure, "retry", "retry all of them"))
                    .or(Remedy::set(OptionName::OnFailure, "skip", "omit them"))
                    .or(Remedy::set(OptionName::OnChange, "drop", "drop those of earlier runs"));
                return Err(Error::new(ErrorClass::File, Code::Failures, message, remedy));
            }
            self.write_combined(journal, (&present, lock), &mut summary, events).await?;
        }
        Ok(summary)
    }

    /// Returns what exists in place of a combined output, and refuses what must not be replaced.
    async fn present(&self, journal: &mut Journal) -> Result<Present> {
        let Target::References(format) = &self.target else { return Ok(Present::Nothing) };
        if self.each {
            return Ok(Present::Nothing);
        }
        let several = format.is_several_files();
        if several && self.overwrite {
            virtualize::check_replaceable(&self.output, true, &self.options.store).await?;
        }
        if self.run.restart && (!self.run.append || self.overwrite) {
            return Ok(Present::Unknown);
        }
        let present = Present::of(&self.output, several, journal, &self.options.store).await?;
        if self.run.restart {
            if matches!(present, Present::Nothing) {
                return Ok(Present::Unknown);
            }
            let name = &self.output;
            let message =
                format!("{name}: exists, and --restart forgets its files: appending would drop them");
            let remedy = Remedy::advice("name all files, with --restart and without --append")
                .or(Remedy::turn_on(OptionName::Overwrite, "replace it"));
            return Err(Error::new(ErrorClass::Conflict, Code::OutputNotInJournal, message, remedy));
        }
        if !self.overwrite {
            present.check(&self.output, several, self.run.append)?;
        }
        Ok(present)
    }

    /// Removes temporary files that killed runs left next to the output.
    fn remove_abandoned(&self) {
        if let Some(path) = local_path(&self.output) {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            virtualize_store::remove_abandoned(folder.unwrap_or(Path::new(".")), false);
            if self.each {
                virtualize_store::remove_abandoned(&path, true);
            }
        }
    }

    /// Refuses options that exclude each other.
    fn check(&self) -> Result<()> {
        if self.run.dry_run && (self.each || self.run.shard.is_some()) {
            return Err(Error::usage("--dry-run cannot be combined with --each or --shard", None));
        }
        if self.journal_path() == Path::new(&self.output) {
            let remedy = Remedy::turn_on(OptionName::Journal, "name another file");
            return Err(Error::usage("the journal cannot be the output", remedy));
        }
        if self.run.shard.is_some() {
            self.check_combined()?;
        } else if local_path(&self.journal_path().display().to_string()).is_none() {
            let remedy = Remedy::turn_on(OptionName::Journal, "choose a local path");
            return Err(Error::usage("only the journal of a shard can be in a store", remedy));
        }
        if self.each {
            let (layout, plan, usual) = (&self.layout, &self.plan, PlanOptions::default());
            let named = [&layout.concat_vars, &layout.assume_equal, &layout.optional, &layout.dropped];
            let is_given = !layout.names.is_empty()
                || !layout.coordinate_attributes.is_empty()
                || !layout.coordinate_properties.is_empty();
            let options = [
                ("--concat-dim or --stack-dim", !layout.along.is_empty()),
                ("--coord", is_given),
                ("--var", named.iter().any(|names| !names.is_empty())),
                ("--on-mismatch", plan.on_mismatch != usual.on_mismatch),
                ("--on-duplicate", plan.on_duplicate != usual.on_duplicate),
                ("--option allow-holes", plan.allow_holes),
            ];
            let others = options.into_iter().filter(|(_, is_set)| *is_set).map(|(option, _)| option);
            let others: Vec<&str> = others.collect();
            if !others.is_empty() {
                let message = format!(
                    "--each cannot be combined with {}: outputs of single files are not joined",
                    others.join(", ")
                );
                return Err(Error::usage(&message, None));
            }
        }
        if !self.each && self.options.ome_zarr {
            let remedy = Remedy::turn_on(OptionName::Each, "write the images of each file on their own");
            return Err(Error::usage("images of OME-Zarr cannot be joined", remedy));
        }
        Ok(())
    }

    /// Reads all pending files of the journal.
    async fn read(&self, journal: &mut Journal, reader: FileReader, events: &Events) -> Result<()> {
        let (files, attempts, cancel) = (self.files, self.run.attempts(), self.cancel.clone());
        let options = ReadOptions { files, attempts, wait: WAIT, cancel };
        let outages = read_journal(journal, Arc::new(reader), &options, events, false).await?;
        let Some(Outage { store, failure, .. }) = outages.into_iter().next() else { return Ok(()) };
        let (counts, Failure { class, error: reason, .. }) = (journal.counts()?, failure);
        Err(Error::Outage { store, class, reason, left: counts.pending, files: counts.all() })
    }

    /// Returns the options on which rows of the journal depend.
    fn row_options(&self) -> BTreeMap<String, String> {
        let mut all = of_options(&self.options);
        all.insert("each".to_owned(), self.each.to_string());
        all.extend(if self.each {
            of_each(&self.output, &self.target, &self.relocation)
        } else {
            of_layout(&self.layout)
        });
        all
    }

    /// Returns the reader of files. Schedules files again whose outputs no longer match their receipts. `setup` collects
    /// what readers of the outputs of single files need.
    async fn reader(&self, journal: &Journal, setup: &Arc<Mutex<ReaderSetup>>) -> Result<FileReader> {
        let options = self.options.clone();
        let Some(each) = self.each(journal, false)? else { return Ok(self.member_reader()) };
        for id in each.damaged(journal, &self.options.store).await? {
            journal.again(id)?;
        }
        let (each, setup) = (Arc::new(each), Arc::clone(setup));
        let process: Box<Process> = Box::new(move |item, store, options| {
            let (each, setup) = (Arc::clone(&each), Arc::clone(&setup));
            async move {
                let content = each.content(item, store, options).await?;
                let own = ReaderSetup::of(&store.hierarchy);
                setup.lock().unwrap_or_else(PoisonError::into_inner).merge(own);
                Ok(content)
            }
            .boxed()
        });
        Ok(FileReader::new(options, &self.relocation, process))
    }

    /// Returns the reader of files that are combined.
    fn member_reader(&self) -> FileReader {
        let layout = Arc::new(self.layout.clone());
        let process: Box<Process> = Box::new(move |item, store, options| {
            let layout = Arc::clone(&layout);
            async move { combine::member_content(item, store, &layout, options).await }.boxed()
        });
        // The position of the whole follows from the joined coordinates.
        let mut options = self.options.clone();
        options.map.spatial_conventions = false;
        FileReader::new(options, &self.relocation, process)
    }

    fn summary(&self, journal: &Journal, totals: &Totals) -> Result<Summary> {
        let (counts, totals) =
            (journal.counts()?, totals.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Ok(Summary {
            files: counts.all(),
            known: counts.done.saturating_sub(totals.read).saturating_sub(totals.imported),
            failed: counts.failed,
            failures: journal.failures(NAMED)?,
            journal: journal.path().display().to_string(),
            ..totals
        })
    }
}
