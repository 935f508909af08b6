//! Commits the combined dataset to an Icechunk repository.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use virtualize::{
    CommitMode, CommitOptions, Committed, Error as FileError, History, IcechunkError, Options, Update, Urls,
    VirtualStore, zarr::ChunkReadError,
};

use super::{
    Batch,
    combined::{Combination, Rows, id_of},
    output::Writing,
};
use crate::{
    Error, JournalError, OptionConflict,
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
        let record = self.last_commit(&place, &options.branch).await?;
        let Some(record) = record.filter(|_| options.mode == CommitMode::Add) else {
            return self.commit_as(&combination, options.clone()).await;
        };
        let mut update = Update {
            base: Some(record.snapshot.clone()),
            documents: record.documents.clone(),
            grows: None,
            touched: record.touched.clone(),
        };
        let Batch { output, options: Options { store: reaching, .. }, run, overwrite, .. } = self.batch;
        match virtualize::inspect_branch(output, &options.branch, &update, reaching).await? {
            History::Empty => return self.commit_as(&combination, options.clone()).await,
            History::Whole if record.digest == combination.digest => {
                self.summary.notes.push("nothing is new: the repository is as it was".to_owned());
                self.summary.snapshot = Some(record.snapshot);
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

    /// Commits with an identifying property.
    async fn commit_as(&mut self, combination: &Combination, options: CommitOptions) -> Result<(), Error> {
        let record = Record {
            place: self.place(&options),
            mark: format!("{} {:016x}", combination.digest, fastrand::u64(..)),
            snapshot: String::new(),
            digest: combination.digest.clone(),
            files: combination.files(),
            order: combination.order(combination.files(), self.batch).unwrap_or_default(),
            documents: BTreeMap::new(),
            touched: BTreeSet::new(),
        };
        let (batch, journal) = (self.batch.clone(), Arc::clone(&self.journal));
        let runtime = tokio::runtime::Handle::current();
        let commit = move |store: &VirtualStore, chunks: &mut JoinedChunks<'_, Rows<'_>>| {
            let documents = virtualize::documents_of(store, &options.group)?;
            let record = Record { documents, ..record };
            {
                let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
                journal.set_fact(COMMITTING, Some(&text(&record, journal.path())?))?;
            }
            let mut options = options;
            options.properties.insert(MARK.to_owned(), record.mark.clone());
            let done = runtime.block_on(commit_chunks(store, chunks, &batch, &options))?;
            Ok((record, done))
        };
        let (mut record, done) = self.combine(combination.clone(), commit).await?;
        (record.snapshot, record.touched) = (done.snapshot.clone(), done.touched);
        self.keep(&record)?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.snapshot = Some(done.snapshot);
        self.summary.python = Some(done.python);
        Ok(())
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
        let mut hasher = Sha256::new();
        hasher.update(format!("{:?} {:?} {:?} {}", self.layout, self.options, batch.relocation, era.group));
        for block in era.blocks.get(..files)? {
            let selection =
                block.selection.as_deref().map(|Selection { start, end, of }| format!("{start} {end} {of}"));
            let selection = selection.unwrap_or_default();
            let (id, run) = (id_of(&self.ids, block.row)?, id_of(&self.runs, block.row)?);
            hasher.update(format!("{id} {run} {selection}"));
        }
        Some(hex::encode(hasher.finalize()))
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
