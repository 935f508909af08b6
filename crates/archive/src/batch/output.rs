//! Writes the combined dataset.

use std::path::Path;

use virtualize::{VirtualStore, zarr::Hierarchy};

use super::{Batch, Summary, Target, combined::Combination};
use crate::{Error, Event, Journal, Layout, combine::PlanOptions, event::Events};

/// The digest of what was written last.
const WRITTEN: &str = "written";
/// The digest of what is being committed: it may be there though it is not known to be written.
#[cfg(feature = "icechunk")]
const COMMITTING: &str = "committing";

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
        mut journal: Journal,
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
            return Ok(());
        }
        let (events_, cancel) = (events.clone(), self.cancel.clone());
        let joined = tokio::task::spawn_blocking(move || {
            let joined = combination.hierarchy(&journal, &events_, &cancel);
            (journal, joined)
        });
        let (back, joined) = joined.await.map_err(|error| Error::Internal(error.to_string()))?;
        journal = back;
        let (hierarchy, notes) = joined?;
        for text in notes {
            events.tell(Event::Note { text: text.clone() });
            summary.notes.push(text);
        }
        events.tell(Event::Writing { target: self.output.clone() });
        self.write_hierarchy(&mut journal, hierarchy, &digest, summary).await?;
        journal.set_fact(WRITTEN, Some(&digest))?;
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

    async fn write_hierarchy(
        &self,
        journal: &mut Journal,
        hierarchy: Hierarchy,
        digest: &str,
        summary: &mut Summary,
    ) -> Result<(), Error> {
        let mut store = VirtualStore::of(hierarchy, self.output.clone());
        store.relocate(&self.relocation)?;
        match &self.target {
            Target::References(format) if format.is_several_files() => {
                let ours = journal.fact(WRITTEN)?.is_some();
                let (output, options) = (&self.output, &self.options.store);
                virtualize::write_folder(&store, *format, output, self.overwrite || ours, options).await?;
            }
            Target::References(format) => {
                virtualize::write(&store, *format, &self.output, &self.options.store).await?;
            }
            #[cfg(feature = "icechunk")]
            Target::Icechunk(options) => {
                let python = self.commit(journal, &store, options, digest).await?;
                summary.python = python;
            }
        }
        #[cfg(not(feature = "icechunk"))]
        let _ = digest;
        summary.python.get_or_insert_with(|| super::python::lines(&self.target, &self.output, &summary.eras));
        Ok(())
    }

    /// Commits what the repository does not have yet.
    #[cfg(feature = "icechunk")]
    async fn commit(
        &self,
        journal: &mut Journal,
        store: &VirtualStore,
        options: &virtualize::CommitOptions,
        digest: &str,
    ) -> Result<Option<String>, Error> {
        use virtualize::{CommitMode, Error as FileError, IcechunkError, commit};
        let again = journal.fact(WRITTEN)?.is_some();
        let killed = journal.fact(COMMITTING)?.as_deref() == Some(digest);
        let mut options = options.clone();
        if again && options.mode == CommitMode::Add {
            if !self.append && !self.overwrite {
                let reason =
                    "the repository has the files of the last run; --append brings what is new into it";
                return Err(Error::Usage(reason.to_owned()));
            }
            // Written anew from the journal, in one commit.
            options.mode = CommitMode::Replace;
        }
        journal.set_fact(COMMITTING, Some(digest))?;
        let done = commit(store, &self.output, &options, &self.options.store).await;
        let result = match done {
            Ok(done) => Ok(Some(done.python)),
            Err(FileError::Icechunk {
                source: IcechunkError::Exists { .. } | IcechunkError::Append { .. },
                ..
            }) if killed && self.is_committed(store, &options).await? => Ok(None),
            Err(error) => Err(error.into()),
        };
        journal.set_fact(COMMITTING, None)?;
        result
    }

    /// Whether the repository refers to all files of a dataset already.
    #[cfg(feature = "icechunk")]
    async fn is_committed(
        &self,
        store: &VirtualStore,
        options: &virtualize::CommitOptions,
    ) -> Result<bool, Error> {
        use std::collections::BTreeSet;
        let reading = virtualize::ReadOptions {
            store: self.options.store.clone(),
            version: options.branch.clone(),
            ..virtualize::ReadOptions::default()
        };
        let there = virtualize::read_references(&self.output, &reading).await?;
        let known: BTreeSet<&str> =
            there.hierarchy.sources.iter().map(|source| source.url.as_str()).collect();
        Ok(store.hierarchy.sources.iter().all(|source| known.contains(source.url.as_str())))
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
