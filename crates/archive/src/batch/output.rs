//! Writes the combined dataset.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtualize::{
    Destination, Error as FileError, Format, PreparedOutput, Relocation, VirtualStore, zarr::HierarchyChunks,
};
use virtualize_store::{OutputLock, Receipt};

use super::{
    Batch, Target,
    combined::{Chain, Combination, CombinedFiles, Rows},
    extension::{Extension, Grown, Tail},
    present::{self, Present},
    python,
};
use crate::{
    Error, Event, Journal, Layout, Summary, error::CombineError, event::Events, join::JoinedChunks,
    plan::PlanOptions,
};

/// Options of combining files.
#[derive(Clone, Debug)]
pub(super) struct Combine {
    pub(super) layout: Layout,
    pub(super) plan: PlanOptions,
}

impl Batch {
    /// Combines the files of the journal and writes the output, unless it is already up to date.
    pub(super) async fn write_combined(
        &self,
        journal: Journal,
        (present, lock): (&Present, Option<&OutputLock>),
        summary: &mut Summary,
        events: &Events,
    ) -> Result<(), Error> {
        let combine = &self.combine;
        let others = format!("{:?} {:?} {}", self.target, self.relocation, self.output);
        let name = present::name(&self.output);
        summary.output = Some(self.output.clone());
        let grown = Grown::of(&journal, &name, &Chain::of_options(&combine.plan, &others))?;
        let journal = Arc::new(Mutex::new(journal));
        let mut writing = Writing { batch: self, journal, events, summary, tail: None };
        if let Some(grown) = grown
            && writing.extended(grown, present, lock).await?
        {
            return Ok(());
        }
        let combination = Combination::plan(&writing.journal(), &combine.layout, &combine.plan, &others)?;
        self.say_plan(&combination, writing.summary, events);
        if matches!(present, Present::Written { plan } if *plan == combination.digest) {
            writing.nothing_is_new();
            return Ok(());
        }
        let receipt = writing.all(combination, present, lock).await?;
        writing.finish(&receipt)
    }

    /// Reports the eras and the skipped files of a plan.
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

/// State of an output that is being written.
pub(super) struct Writing<'a> {
    pub(super) batch: &'a Batch,
    /// Locked briefly by each thread that works on the output.
    pub(super) journal: Arc<Mutex<Journal>>,
    pub(super) events: &'a Events,
    pub(super) summary: &'a mut Summary,
    /// What a later run needs to extend the output.
    tail: Option<Tail>,
}

impl Writing<'_> {
    /// Extends the output by files that follow all others, or leaves it as it is if there are none. Returns whether that was
    /// possible.
    async fn extended(
        &mut self,
        grown: Grown,
        present: &Present,
        lock: Option<&OutputLock>,
    ) -> Result<bool, Error> {
        match &self.batch.target {
            Target::References(format) => {
                let is_there = matches!(present, Present::Written { plan } if *plan == grown.tail.digest);
                if is_there && !grown.is_more() {
                    self.say_files(grown.tail.files);
                    self.nothing_is_new();
                    return Ok(true);
                }
                match is_there && format.is_several_files() {
                    true => Box::pin(self.extend_folder(grown, *format, lock)).await,
                    false => Ok(false),
                }
            }
            #[cfg(feature = "icechunk")]
            Target::Icechunk(options) => Box::pin(self.extend_repository(grown, options)).await,
        }
    }

    /// Extends an output of several files.
    async fn extend_folder(
        &mut self,
        grown: Grown,
        format: Format,
        lock: Option<&OutputLock>,
    ) -> Result<bool, Error> {
        let name = present::name(&self.batch.output);
        let known = self.journal().output(&name)?.and_then(|known| Receipt::parse(&known.receipt?));
        let (Some(expected), Some(extension)) = (known, self.extension(grown).await?) else {
            return Ok(false);
        };
        let batch = self.batch.clone();
        let prepared = tokio::task::spawn_blocking(move || {
            let Batch { output: target, relocation, options, .. } = &batch;
            let options = &options.store;
            let destination = Destination { format, target, relocation, overwrite: true, options };
            let Extension { hierarchy, changed, .. } = &extension;
            let store = VirtualStore::of(hierarchy.clone(), target.clone());
            let (mut chunks, others) = (HierarchyChunks::new(hierarchy), &mut std::iter::empty());
            let prepared =
                virtualize::prepare_extension(&store, &mut chunks, (changed, others), destination, &expected);
            (prepared, extension)
        });
        let (prepared, extension) = prepared.await.map_err(|error| Error::Internal(error.to_string()))?;
        // Writing all of the output fails for the same reason, or solves it.
        let Ok(prepared) = prepared else { return Ok(false) };
        self.batch.go_on()?;
        let content = prepared.content().to_string();
        let Extension { rows, tail, .. } = extension;
        self.journal().begin_output(&name, (&tail.digest, &content), rows, true)?;
        lock.map_or(Ok(()), OutputLock::check).map_err(virtualize::Error::from)?;
        let receipt = prepared.publish(&self.batch.options.store).await?;
        self.say_files(tail.files);
        self.summary.python = python::lines(&self.batch.target, &self.batch.output, &self.summary.eras);
        self.tail = Some(tail);
        self.finish(&receipt.to_string())?;
        Ok(true)
    }

    /// Returns the output extended by the new files; `None` if all files have to be combined.
    pub(super) async fn extension(&self, grown: Grown) -> Result<Option<Extension>, Error> {
        // Rewritten urls must be distinct from those of all other files.
        if self.batch.relocation != Relocation::Keep {
            return Ok(None);
        }
        let (journal, combine) = (Arc::clone(&self.journal), self.batch.combine.clone());
        let cancel = self.batch.cancel.clone();
        let extended = tokio::task::spawn_blocking(move || {
            grown.extend(&journal, &combine.layout, &combine.plan, &cancel)
        });
        extended.await.map_err(|error| Error::Internal(error.to_string()))?
    }

    /// Reports the number of files of an output that is extended.
    pub(super) fn say_files(&mut self, files: u64) {
        self.events.tell(Event::Eras { files: vec![files] });
        self.summary.eras = vec![String::new()];
    }

    fn nothing_is_new(&mut self) {
        self.summary.notes.push("nothing is new: the output is as it was".to_owned());
        let Batch { target, output, .. } = self.batch;
        self.summary.python = python::lines(target, output, &self.summary.eras);
    }

    /// Records that the output was extended as described by `tail`, or written, and what a later run needs to extend it.
    pub(super) fn finish(&mut self, receipt: &str) -> Result<(), Error> {
        let name = present::name(&self.batch.output);
        self.journal().finish_output(&name, receipt)?;
        match self.tail.take() {
            Some(tail) => tail.store(&self.journal(), &name),
            None => Ok(()),
        }
    }

    /// Records that an extension of a repository was committed.
    #[cfg(feature = "icechunk")]
    pub(super) fn finish_extension(&mut self, rows: Vec<i64>, tail: Tail) -> Result<(), Error> {
        let name = present::name(&self.batch.output);
        self.journal().begin_output(&name, (&tail.digest, ""), rows, true)?;
        self.tail = Some(tail);
        self.finish("")
    }

    /// Combines the files and publishes the output. Returns its receipt.
    async fn all(
        &mut self,
        combination: Combination,
        present: &Present,
        lock: Option<&OutputLock>,
    ) -> Result<String, Error> {
        let Batch { target, output, options, overwrite, .. } = self.batch;
        let lines = python::lines(target, output, &self.summary.eras);
        let (name, digest, rows) = (present::name(output), combination.digest.clone(), combination.rows());
        match target {
            Target::References(format) => {
                let is_ours = *overwrite || present.is_ours();
                let prepared = self.prepare(combination, *format, is_ours).await?;
                self.batch.go_on()?;
                let content = prepared.content().to_string();
                self.journal().begin_output(&name, (&digest, &content), rows, false)?;
                lock.map_or(Ok(()), OutputLock::check).map_err(virtualize::Error::from)?;
                let receipt = prepared.publish(&options.store).await?;
                self.summary.python = lines;
                Ok(receipt.to_string())
            }
            #[cfg(feature = "icechunk")]
            Target::Icechunk(options) => {
                self.batch.go_on()?;
                self.commit(combination, options).await?;
                self.journal().begin_output(&name, (&digest, ""), rows, false)?;
                Ok(String::new())
            }
        }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Combines the files, and writes the output beside its destination.
    async fn prepare(
        &mut self,
        combination: Combination,
        format: Format,
        overwrite: bool,
    ) -> Result<PreparedOutput, Error> {
        let batch = self.batch.clone();
        let prepare = move |store: &VirtualStore, chunks: &mut JoinedChunks<'_, Rows<'_>>| {
            let Batch { output: target, relocation, options, .. } = &batch;
            let destination = Destination { format, target, relocation, overwrite, options: &options.store };
            Ok(virtualize::prepare_chunks(store, chunks, destination)?)
        };
        self.combine(combination, prepare).await
    }

    /// Combines the files on a thread that may block, and writes them there: `write` gets their metadata and their chunks.
    pub(super) async fn combine<T: Send + 'static>(
        &mut self,
        combination: Combination,
        write: impl FnOnce(&VirtualStore, &mut JoinedChunks<'_, Rows<'_>>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (events, cancel) = (self.events.clone(), self.batch.cancel.clone());
        let (journal, output) = (Arc::clone(&self.journal), self.batch.output.clone());
        let written = tokio::task::spawn_blocking(move || {
            let CombinedFiles { hierarchy, mut chunks, notes } =
                combination.combine(&journal, &events, &cancel)?;
            let locked = journal.lock().unwrap_or_else(PoisonError::into_inner);
            let tail = Tail::of(&combination, &hierarchy, &locked)?;
            drop(locked);
            for text in &notes {
                events.tell(Event::Note { text: text.clone() });
            }
            events.tell(Event::Writing { target: output.clone() });
            let written = write(&VirtualStore::of(hierarchy, output), &mut chunks).map_err(of_files);
            Ok::<_, Error>((written?, notes, tail))
        });
        let (written, notes, tail) = written.await.map_err(|error| Error::Internal(error.to_string()))??;
        self.summary.notes.extend(notes);
        self.tail = tail;
        Ok(written)
    }
}

/// Returns the error of files whose chunks could not be read while the output was written.
fn of_files(error: Error) -> Error {
    let Error::File(FileError::Chunks { source }) = &error else { return error };
    if let Some(error) = source.downcast_ref::<CombineError>() {
        return error.clone().into();
    }
    match source.downcast_ref() {
        Some(Error::Combine(error)) => error.clone().into(),
        Some(Error::Stopped { done, files }) => Error::Stopped { done: *done, files: *files },
        _ => error,
    }
}
