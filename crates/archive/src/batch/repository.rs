//! Commits the combined dataset to an Icechunk repository.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use virtualize::{CommitMode, CommitOptions, Error as FileError, History, IcechunkError, Options, Update};

use super::{
    Batch,
    combined::{Combination, id_of},
    output::Writing,
};
use crate::{Error, Event, JournalError, OptionConflict, plan::Selection, repository};

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
        let store = self.put_together(combination.clone()).await?;
        let files = combination.files();
        let mut record = Record {
            place: self.place(&options),
            mark: format!("{} {:016x}", combination.digest, fastrand::u64(..)),
            snapshot: String::new(),
            digest: combination.digest.clone(),
            files,
            order: combination.order(files, self.batch).unwrap_or_default(),
            documents: virtualize::documents_of(&store, &options.group)?,
            touched: BTreeSet::new(),
        };
        let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
        self.events.tell(Event::Writing { target: output.clone() });
        {
            let journal = self.journal();
            journal.set_fact(COMMITTING, Some(&text(&record, journal.path())?))?;
        }
        let mut options = options;
        options.properties.insert(MARK.to_owned(), record.mark.clone());
        let done = repository::commit_or_append(&store, output, &options, reaching).await?;
        (record.snapshot, record.touched) = (done.snapshot.clone(), done.touched);
        self.keep(&record)?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.snapshot = Some(done.snapshot);
        self.summary.python = Some(done.python);
        Ok(())
    }
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
