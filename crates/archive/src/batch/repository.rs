//! Commits the combined dataset to an Icechunk repository.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use virtualize::{
    CommitMode, CommitOptions, Committed, Error as FileError, History, IcechunkError, Options, Relocation,
    Update, Urls, VirtualStore, zarr::ChunkReadError,
};

use super::{
    Batch,
    combined::{Chain, Combination, Rows, id_of},
    extension::{Extension, Grown},
    output::Writing,
};
use crate::{
    Error, Event, Journal, JournalError, OptionConflict,
    join::{JoinedChunks, collect},
    plan::Selection,
    repository,
};

/// The fact that stores the record of the last commit.
const COMMITTED: &str = "commit";
/// The fact that stores the record of a commit in progress. The commit may have succeeded even though the run was
/// killed before it recorded that.
const COMMITTING: &str = "committing";
/// The commit property that identifies a commit: the digest of the dataset, and a random number.
const MARK: &str = "virtualize-batch";

/// The journal's record of a commit.
#[derive(Clone, Serialize, Deserialize)]
struct Record {
    /// Repository, branch and group.
    place: String,
    /// Value of the identifying property.
    mark: String,
    /// ID of the commit's snapshot; empty until the commit is done.
    snapshot: String,
    /// Digest of the dataset.
    digest: String,
    /// Number of files, and the digest of their order and references.
    files: usize,
    order: String,
    /// Metadata documents of the nodes, by path.
    documents: BTreeMap<String, Value>,
    /// Arrays into which others have written chunks.
    touched: BTreeSet<String>,
}

impl Writing<'_> {
    /// Commits the part of the dataset that the repository does not have yet.
    pub(super) async fn commit(
        &mut self,
        combination: Combination,
        options: &CommitOptions,
    ) -> Result<(), Error> {
        let place = self.place(options);
        let record = match self.last_commit(&place, &options.branch).await? {
            Some(record) if self.is_made(&record, &combination, options).await? => {
                self.unchanged(record);
                return Ok(());
            }
            Some(record) if options.mode == CommitMode::Add => record,
            _ => return self.commit_as(&combination, options.clone()).await,
        };
        let mut update = record.update();
        let Batch { output, options: Options { store: reaching, .. }, run, overwrite, .. } = self.batch;
        match virtualize::inspect_branch(output, &options.branch, &update, reaching).await? {
            History::Empty => return self.commit_as(&combination, options.clone()).await,
            History::Whole if record.digest == combination.digest => {
                self.unchanged(record);
                return Ok(());
            }
            History::Whole => update.grows = combination.grows(&record, self.batch),
            History::Changed(_) if *overwrite => update.base = None,
            History::Changed(source) => return Err(changed(output, source)),
        }
        if !run.append && !overwrite {
            return Err(OptionConflict::NotAppended.into());
        }
        let commit = |update: Update| CommitOptions { mode: CommitMode::Update(update), ..options.clone() };
        let anew = Update { base: None, grows: None, ..update.clone() };
        match self.commit_as(&combination, commit(update)).await {
            Err(Error::File(FileError::Icechunk { source: IcechunkError::Foreign { .. }, .. }))
                if *overwrite =>
            {
                self.commit_as(&combination, commit(anew)).await
            }
            other => other,
        }
    }

    /// Adds files to the repository that follow all others, or leaves it as it is if there are none. Returns whether that was
    /// possible.
    pub(super) async fn extend_repository(
        &mut self,
        grown: Grown,
        options: &CommitOptions,
    ) -> Result<bool, Error> {
        self.batch.go_on()?;
        let Batch { output, options: Options { store: reaching, .. }, run, .. } = self.batch;
        let record = self.last_commit(&self.place(options), &options.branch).await?;
        let is_ours = |record: &Record| options.mode == CommitMode::Add && record.digest == grown.tail.digest;
        let Some(record) = record.filter(is_ours) else { return Ok(false) };
        let update = record.update();
        let found = virtualize::inspect_branch(output, &options.branch, &update, reaching).await?;
        if !matches!(found, History::Whole) || (grown.is_more() && !run.append) {
            return Ok(false);
        }
        if !grown.is_more() {
            self.say_files(grown.tail.files);
            self.unchanged(record);
            return Ok(true);
        }
        let (Some(extension), Some(mut order)) = (self.extension(grown).await?, Chain::parse(&record.order))
        else {
            return Ok(false);
        };
        extension.order.iter().for_each(|(id, run)| order.add(*id, *run));
        let Extension { hierarchy, rows, tail, .. } = extension;
        self.say_files(tail.files);
        let grows = self.batch.combine.layout.along.first().map(|along| along.name().to_owned());
        let mode = CommitMode::Update(Update { grows, ..update });
        let options = CommitOptions { mode, ..options.clone() };
        let store = VirtualStore::of(hierarchy, output.clone());
        let files = usize::try_from(tail.files).unwrap_or(usize::MAX);
        let mut record = self.new_record(&options, &tail.digest, files);
        (record.order, record.documents) =
            (order.digest(), virtualize::documents_of(&store, &options.group)?);
        begin(&self.journal(), &record)?;
        self.events.tell(Event::Writing { target: output.clone() });
        let done = virtualize::commit(&store, output, &with_mark(options, &record), reaching).await?;
        self.committed(record, done)?;
        self.finish_extension(rows, tail)?;
        Ok(true)
    }

    /// Returns the output extended by the new files; `None` if all files have to be combined.
    async fn extension(&self, grown: Grown) -> Result<Option<Extension>, Error> {
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

    /// Identifies repository, branch and group in the journal.
    fn place(&self, options: &CommitOptions) -> String {
        let output = self.batch.output.trim_end_matches('/');
        format!("{output} {} {}", options.branch, options.group.trim_matches('/'))
    }

    /// Returns the record of the last commit. Completes the record first if the run was killed before it could.
    async fn last_commit(&self, place: &str, branch: &str) -> Result<Option<Record>, Error> {
        let begun = self.record(COMMITTING)?.filter(|begun| begun.place == place);
        if let Some(begun) = begun {
            let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
            let found = virtualize::find_commit(output, branch, (MARK, &begun.mark), reaching).await?;
            if let Some(found) = found {
                let record = Record { snapshot: found.snapshot, touched: found.touched, ..begun };
                self.keep(&record)?;
                return Ok(Some(record));
            }
        }
        Ok(self.record(COMMITTED)?.filter(|record| record.place == place))
    }

    /// Returns whether a recorded commit is the one to make: an interrupted run made it, or it appended or replaced the
    /// same dataset. What was committed after a replacement is replaced again.
    async fn is_made(
        &self,
        record: &Record,
        combination: &Combination,
        options: &CommitOptions,
    ) -> Result<bool, Error> {
        let Batch { output, resumes, options: Options { store: reaching, .. }, .. } = self.batch;
        if *resumes {
            return Ok(true);
        }
        if options.mode == CommitMode::Add || record.digest != combination.digest {
            return Ok(false);
        }
        let mark = (MARK, record.mark.as_str());
        let found = virtualize::find_commit(output, &options.branch, mark, reaching).await?;
        Ok(found.is_some_and(|found| found.is_last || options.mode != CommitMode::Replace))
    }

    fn record(&self, fact: &str) -> Result<Option<Record>, Error> {
        let text = self.journal().fact(fact)?;
        // An earlier version stored the mark alone.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn keep(&self, record: &Record) -> Result<(), Error> {
        let journal = self.journal();
        journal.set_fact(COMMITTED, Some(&text(record, journal.path())?))?;
        Ok(journal.set_fact(COMMITTING, None)?)
    }

    /// Reports that the last commit has everything.
    fn unchanged(&mut self, last: Record) {
        self.summary.notes.push("nothing is new: the repository is as it was".to_owned());
        self.summary.snapshot = Some(last.snapshot);
    }

    /// Commits with an identifying property.
    async fn commit_as(&mut self, combination: &Combination, options: CommitOptions) -> Result<(), Error> {
        let files = combination.files();
        let record = Record {
            order: combination.order(files, self.batch).unwrap_or_default(),
            ..self.new_record(&options, &combination.digest, files)
        };
        let (batch, journal) = (self.batch.clone(), Arc::clone(&self.journal));
        let runtime = tokio::runtime::Handle::current();
        let commit = move |store: &VirtualStore, chunks: &mut JoinedChunks<'_, Rows<'_>>| {
            let documents = virtualize::documents_of(store, &options.group)?;
            let record = Record { documents, ..record };
            begin(&journal.lock().unwrap_or_else(PoisonError::into_inner), &record)?;
            let options = with_mark(options, &record);
            let done = runtime.block_on(commit_chunks(store, chunks, &batch, &options))?;
            Ok((record, done))
        };
        let (record, done) = self.combine(combination.clone(), commit).await?;
        self.committed(record, done)
    }

    /// Returns the record of a commit that is about to be made.
    fn new_record(&self, options: &CommitOptions, digest: &str, files: usize) -> Record {
        Record {
            place: self.place(options),
            mark: format!("{digest} {:016x}", fastrand::u64(..)),
            snapshot: String::new(),
            digest: digest.to_owned(),
            files,
            order: String::new(),
            documents: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Records and reports a commit.
    fn committed(&mut self, mut record: Record, done: Committed) -> Result<(), Error> {
        let note = done.note();
        (record.snapshot, record.touched) = (done.snapshot.clone(), done.touched);
        self.keep(&record)?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.notes.extend(note);
        self.summary.snapshot = Some(done.snapshot);
        self.summary.python = Some(done.python);
        Ok(())
    }
}

/// Records that a commit is about to be made.
fn begin(journal: &Journal, record: &Record) -> Result<(), Error> {
    Ok(journal.set_fact(COMMITTING, Some(&text(record, journal.path())?))?)
}

/// Adds the property by which the commit of a record is found.
fn with_mark(mut options: CommitOptions, record: &Record) -> CommitOptions {
    options.properties.insert(MARK.to_owned(), record.mark.clone());
    options
}

impl Record {
    fn update(&self) -> Update {
        Update {
            base: Some(self.snapshot.clone()),
            documents: self.documents.clone(),
            grows: None,
            touched: self.touched.clone(),
        }
    }
}

/// Commits a dataset with the chunks of a reader. Appending to the dataset of others needs all chunks in memory.
async fn commit_chunks(
    store: &VirtualStore,
    chunks: &mut JoinedChunks<'_, Rows<'_>>,
    batch: &Batch,
    options: &CommitOptions,
) -> Result<Committed, Error> {
    let Batch { output, relocation, options: Options { store: reaching, .. }, .. } = batch;
    if let CommitMode::Append(_) = options.mode {
        let hierarchy = collect(store.hierarchy.clone(), chunks).map_err(of_chunks)?;
        let mut whole = VirtualStore::of(hierarchy, store.name());
        whole.relocate(relocation)?;
        return repository::commit_or_append(&whole, output, options, reaching).await;
    }
    // Chunks that stay are not read, but the rules of a relocation may be those of their sources.
    let stay = matches!(&options.mode, CommitMode::Update(Update { grows: Some(_), .. }));
    let others = &mut stay.then(|| chunks.members().clone().source_urls()).into_iter().flatten();
    let (relocation, destination) = ((relocation, others as Urls<'_>), (output.as_str(), options));
    Ok(virtualize::commit_chunks(store, chunks, relocation, destination, reaching).await?)
}

/// Returns the error of chunks that could not be read.
fn of_chunks(error: ChunkReadError) -> Error {
    Error::File(FileError::Chunks { source: error.into() })
}

impl Combination {
    /// Returns the dimension along which the dataset was extended since a commit; `None` if anything else has changed.
    fn grows(&self, record: &Record, batch: &Batch) -> Option<String> {
        let [along] = self.layout.along.as_slice() else { return None };
        (self.order(record.files, batch)? == record.order).then(|| along.name().to_owned())
    }

    /// Returns a digest of the first `files` files along the only dimension, and of all options that affect where and
    /// how they are referenced.
    fn order(&self, files: usize, batch: &Batch) -> Option<String> {
        let ([_], [era]) = (self.layout.along.as_slice(), self.plan.eras.as_slice()) else { return None };
        let others = format!("{:?} {:?} {}", self.layout, batch.relocation, era.group);
        let mut chain = Chain::of_options(&self.options, &others);
        for block in era.blocks.get(..files)? {
            if let Some(Selection { start, end, .. }) = block.selection.as_deref() {
                chain.add(i64::try_from(*start).ok()?, i64::try_from(*end).ok()?);
            }
            chain.add(id_of(&self.ids, block.row)?, id_of(&self.runs, block.row)?);
        }
        Some(chain.digest())
    }
}

fn text(record: &Record, journal: &std::path::Path) -> Result<String, Error> {
    let failed = |error: serde_json::Error| JournalError::Failed {
        path: journal.to_owned(),
        reason: format!("what is committed: {error}"),
    };
    Ok(serde_json::to_string(record).map_err(failed)?)
}

fn changed(output: &str, source: IcechunkError) -> Error {
    Error::File(FileError::Icechunk { name: output.to_owned(), source })
}
