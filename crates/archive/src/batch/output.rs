//! Writes the combined dataset.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtualize::{Destination, Error as FileError, Format, PreparedOutput, VirtualStore};
use virtualize_store::OutputLock;

use super::{
    Batch, Target,
    combined::{Combination, CombinedFiles, Rows},
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
        let combination = Combination::plan(&journal, &combine.layout, &combine.plan, &others)?;
        self.say_plan(&combination, summary, events);
        summary.output = Some(self.output.clone());
        let digest = combination.digest.clone();
        if matches!(present, Present::Written { plan } if *plan == digest) {
            summary.notes.push("nothing is new: the output is as it was".to_owned());
            summary.python = python::lines(&self.target, &self.output, &summary.eras);
            return Ok(());
        }
        let journal = Arc::new(Mutex::new(journal));
        let mut writing = Writing { batch: self, journal, events, summary };
        let receipt = writing.all(combination, present, lock).await?;
        Ok(writing.journal().finish_output(&name, &receipt)?)
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
}

impl Writing<'_> {
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
            for text in &notes {
                events.tell(Event::Note { text: text.clone() });
            }
            events.tell(Event::Writing { target: output.clone() });
            let written = write(&VirtualStore::of(hierarchy, output), &mut chunks).map_err(of_files);
            Ok::<_, Error>((written?, notes))
        });
        let (written, notes) = written.await.map_err(|error| Error::Internal(error.to_string()))??;
        self.summary.notes.extend(notes);
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
