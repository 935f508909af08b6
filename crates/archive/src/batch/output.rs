//! Writes the combined dataset.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use virtualize::VirtualStore;
#[cfg(feature = "icechunk")]
use virtualize::{CommitMode, CommitOptions, Error as FileError, IcechunkError, Options};

use super::{Batch, Summary, Target, combined::Combination, python};
use crate::{Error, Event, Journal, Layout, combine::PlanOptions, event::Events};

/// The digest of what was written last.
const WRITTEN: &str = "written";
/// The mark of the last commit that was begun: it may be there though it is not known to be written.
#[cfg(feature = "icechunk")]
const COMMITTING: &str = "committing";
/// The property of commits that has their mark: the digest of what is committed, and a random number.
#[cfg(feature = "icechunk")]
const MARK: &str = "virtualize-batch";

/// How files are put together.
#[derive(Clone, Debug)]
pub(super) struct Combine {
    pub(super) layout: Layout,
    pub(super) plan: PlanOptions,
}

impl Batch {
    /// Puts the files of the journal together and writes them, where that was not done yet.
    pub(super) async fn write_combined(
        &self,
        journal: Journal,
        combine: &Combine,
        summary: &mut Summary,
        events: &Events,
    ) -> Result<(), Error> {
        let others = format!("{:?} {:?} {}", self.target, self.relocation, self.output);
        let combination = Combination::plan(&journal, &combine.layout, &combine.plan, &others)?;
        self.say_plan(&combination, summary, events);
        let digest = combination.digest.clone();
        if journal.fact(WRITTEN)?.as_ref() == Some(&digest) && is_there(&self.output) {
            summary.notes.push("nothing is new: the output is as it was".to_owned());
            summary.output = Some(self.output.clone());
            summary.python = python::lines(&self.target, &self.output, &summary.eras);
            return Ok(());
        }
        let journal = Arc::new(Mutex::new(journal));
        let mut writing = Writing { batch: self, journal, events, summary };
        writing.all(combination).await?;
        writing.journal().set_committed(WRITTEN, &digest)?;
        summary.output = Some(self.output.clone());
        Ok(())
    }

    fn say_plan(&self, combination: &Combination, summary: &mut Summary, events: &Events) {
        let files = combination.plan.eras.iter().map(|era| era.blocks.len() as u64).collect();
        events.tell(Event::Eras { files });
        for out in &combination.plan.left_out {
            events.tell(Event::Skipped { url: out.url.clone(), reason: out.reason.clone() });
        }
        summary.skipped = combination.plan.left_out.len() as u64;
        summary.eras = combination.plan.eras.iter().map(|era| era.group.clone()).collect();
    }
}

/// An output that is being written.
struct Writing<'a> {
    batch: &'a Batch,
    /// Threads that work on it take it for a while.
    journal: Arc<Mutex<Journal>>,
    events: &'a Events,
    summary: &'a mut Summary,
}

impl Writing<'_> {
    /// Puts the files together and writes them.
    async fn all(&mut self, combination: Combination) -> Result<(), Error> {
        let Batch { target, output, options, overwrite, .. } = self.batch;
        let lines = python::lines(target, output, &self.summary.eras);
        match target {
            Target::References(format) => {
                let store = self.put_together(combination).await?;
                self.events.tell(Event::Writing { target: output.clone() });
                if format.is_several_files() {
                    let overwrite = *overwrite || self.journal().fact(WRITTEN)?.is_some();
                    virtualize::write_folder(&store, *format, output, overwrite, &options.store).await?;
                } else {
                    virtualize::write(&store, *format, output, &options.store).await?;
                }
                self.summary.python = lines;
                Ok(())
            }
            #[cfg(feature = "icechunk")]
            Target::Icechunk(options) => self.commit(combination, options).await,
        }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn put_together(&mut self, combination: Combination) -> Result<VirtualStore, Error> {
        let (events, cancel) = (self.events.clone(), self.batch.cancel.clone());
        let journal = Arc::clone(&self.journal);
        let joined = tokio::task::spawn_blocking(move || {
            let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            combination.hierarchy(&journal, &events, &cancel)
        });
        let joined = joined.await.map_err(|error| Error::Internal(error.to_string()))?;
        let (hierarchy, notes) = joined?;
        for text in notes {
            self.events.tell(Event::Note { text: text.clone() });
            self.summary.notes.push(text);
        }
        let mut store = VirtualStore::of(hierarchy, self.batch.output.clone());
        store.relocate(&self.batch.relocation)?;
        Ok(store)
    }
}

#[cfg(feature = "icechunk")]
impl Writing<'_> {
    /// Commits what the repository does not have yet: the part of the new files where they follow the others, else all
    /// anew, in one commit.
    async fn commit(&mut self, combination: Combination, options: &CommitOptions) -> Result<(), Error> {
        let last = self.last_commit(&options.branch).await?;
        if last.as_ref() == Some(&combination.digest) {
            self.summary.notes.push("the run that was ended before had committed all".to_owned());
            return Ok(());
        }
        let written = self.journal().fact(WRITTEN)?;
        // Else the run that committed it was killed before it kept which rows are in it.
        let rows_are_known = last.is_none() || last == written;
        if !rows_are_known {
            self.journal().set_fact(WRITTEN, last.as_deref())?;
        }
        let again = last.is_some() || (written.is_some() && is_there(&self.batch.output));
        if !again || options.mode != CommitMode::Add {
            return self.commit_as(combination, options.clone()).await;
        }
        if !self.batch.append && !self.batch.overwrite {
            let reason = "the repository has the files of the last run; --append brings what is new into it";
            return Err(Error::Usage(reason.to_owned()));
        }
        if let Some((tail, dimension)) = combination.tail().filter(|_| rows_are_known) {
            let options = CommitOptions { mode: CommitMode::Append(dimension), ..options.clone() };
            match self.commit_as(tail, options).await {
                Err(Error::File(FileError::Icechunk {
                    source: source @ IcechunkError::Append { .. },
                    ..
                })) => {
                    self.summary.notes.push(format!("{source}; all is written anew"));
                }
                other => return other,
            }
        }
        let options = CommitOptions { mode: CommitMode::Replace, ..options.clone() };
        self.commit_as(combination, options).await
    }

    /// The digest of what was committed last, if the repository has that commit: the run may have been killed before it
    /// wrote so.
    async fn last_commit(&self, branch: &str) -> Result<Option<String>, Error> {
        let Some(mark) = self.journal().fact(COMMITTING)? else { return Ok(None) };
        let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
        let is_there = virtualize::has_commit(output, branch, (MARK, &mark), reaching).await?;
        let digest = mark.split_once(' ').map_or(mark.as_str(), |(digest, _)| digest);
        Ok(is_there.then(|| digest.to_owned()))
    }

    /// Commits, with a mark by which the commit is known again.
    async fn commit_as(&mut self, combination: Combination, options: CommitOptions) -> Result<(), Error> {
        let mark = format!("{} {:016x}", combination.digest, fastrand::u64(..));
        let store = self.put_together(combination).await?;
        let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
        self.events.tell(Event::Writing { target: output.clone() });
        self.journal().set_fact(COMMITTING, Some(&mark))?;
        let mut options = options;
        options.properties.insert(MARK.to_owned(), mark);
        let done = virtualize::commit(&store, output, &options, reaching).await?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.python = Some(done.python);
        Ok(())
    }
}

/// Whether there is anything at a path; of urls it is taken for granted.
fn is_there(output: &str) -> bool {
    match output.split_once("://") {
        Some(("file", path)) => Path::new(path).exists(),
        Some(_) => true,
        None => Path::new(output).exists(),
    }
}
