//! Commits the combined dataset to an Icechunk repository: an extension at the end, or one commit that replaces the dataset.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use virtualize::{
    Code, CommitMode, CommitOptions, CommitRecord, Committed, Error as FileError, ErrorClass, History,
    OptionName, Options, Relocation, Remedy, VirtualStore,
};

use super::{
    Batch,
    combine::{Arranged, Combination, Extension, Grown},
    write::{Writing, of_files, output_name},
};
use crate::{Error, Event, JournalError, Result};

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
    /// Metadata documents of the nodes, by path.
    documents: BTreeMap<String, Value>,
}

impl Writing<'_> {
    /// Commits the dataset, unless the repository already has it. Replaces the dataset of the last commit.
    pub(super) async fn commit(&mut self, combination: Combination, options: &CommitOptions) -> Result<()> {
        let place = self.place(options);
        let Some(record) = self.last_commit(&place, &options.branch).await? else {
            return self.commit_as(combination, options.clone()).await;
        };
        let Batch { output, options: Options { store: reaching, .. }, run, overwrite, .. } = self.batch;
        if options.mode != CommitMode::Add {
            // The group is replaced, unless the last commit did so with the same dataset.
            let mark = (MARK, record.mark.as_str());
            if record.digest == combination.digest
                && virtualize::find_commit(output, &options.branch, mark, reaching)
                    .await?
                    .is_some_and(|found| found.is_last)
            {
                self.unchanged(record);
                return Ok(());
            }
            return self.commit_as(combination, options.clone()).await;
        }
        let mut earlier = record.earlier();
        match virtualize::inspect_branch(output, &options.branch, &earlier, reaching).await? {
            History::Empty => return self.commit_as(combination, options.clone()).await,
            History::Whole if record.digest == combination.digest => {
                self.unchanged(record);
                return Ok(());
            }
            // Nodes of others stay, but not what they changed in the nodes of this dataset.
            _ if *overwrite => earlier.snapshot = None,
            History::Whole => {}
            History::Changed(source) => {
                return Err(FileError::Icechunk { name: output.clone(), source }.into());
            }
        }
        if !run.append && !overwrite {
            let message = "the repository already has files of an earlier run";
            let remedy = Remedy::turn_on(OptionName::Append, "add what is new");
            return Err(Error::new(ErrorClass::Conflict, Code::Usage, message, remedy));
        }
        let options = CommitOptions { mode: CommitMode::Update(earlier), ..options.clone() };
        self.commit_as(combination, options).await
    }

    /// Adds files to the repository that follow all others, or leaves it as it is if there are none. Returns whether that was
    /// possible.
    pub(super) async fn extend_repository(&mut self, grown: Grown, options: &CommitOptions) -> Result<bool> {
        self.batch.go_on()?;
        let Batch { output, options: Options { store: reaching, .. }, run, .. } = self.batch;
        let record = self.last_commit(&self.place(options), &options.branch).await?;
        let is_ours = |record: &Record| options.mode == CommitMode::Add && record.digest == grown.tail.digest;
        let Some(record) = record.filter(is_ours) else { return Ok(false) };
        let earlier = record.earlier();
        let found = virtualize::inspect_branch(output, &options.branch, &earlier, reaching).await?;
        if !matches!(found, History::Whole) || (!grown.rows.is_empty() && !run.append) {
            return Ok(false);
        }
        if grown.rows.is_empty() {
            self.say_files(grown.tail.files);
            self.unchanged(record);
            return Ok(true);
        }
        // Rewritten urls must be distinct from those of all other files.
        // Positions are computed when all files are combined.
        if self.batch.relocation != Relocation::Keep || self.batch.options.map.spatial_conventions {
            return Ok(false);
        }
        let Batch { layout, cancel, .. } = self.batch;
        let Some(arranged) = Arranged::new(&grown, &self.journal(), layout) else { return Ok(false) };
        let extension = arranged.join(&grown, (self.journal, cancel), layout);
        let Some(Extension { extended, chunks, rows, tail }) = extension else { return Ok(false) };
        self.say_files(tail.files);
        let options = CommitOptions { mode: CommitMode::Extend(earlier), ..options.clone() };
        let store = VirtualStore::of(extended.hierarchy.clone(), output.clone());
        let mut record = self.new_record(&options, &tail.digest);
        record.documents = virtualize::documents_of(&store, &options.group)?;
        self.save(COMMITTING, &record)?;
        self.events.tell(Event::Writing { target: output.clone() });
        let (mut chunks, options) = (extended.chunks(chunks), with_mark(options, &record));
        let keep = &Relocation::Keep;
        let done = virtualize::commit_chunks(&store, &mut chunks, keep, output, &options, reaching).await;
        self.committed(record, done.map_err(of_files)?)?;
        let name = output_name(output);
        self.journal().begin_output(&name, (&tail.digest, ""), rows, true)?;
        self.tail = Some(tail);
        self.finish("")?;
        Ok(true)
    }

    /// Identifies repository, branch and group in the journal.
    fn place(&self, options: &CommitOptions) -> String {
        let output = self.batch.output.trim_end_matches('/');
        format!("{output} {} {}", options.branch, options.group.trim_matches('/'))
    }

    /// Returns the record of the last commit. Completes the record first if the run was killed before it could.
    async fn last_commit(&self, place: &str, branch: &str) -> Result<Option<Record>> {
        let begun = self.record(COMMITTING)?.filter(|begun| begun.place == place);
        if let Some(begun) = begun {
            let Batch { output, options: Options { store: reaching, .. }, .. } = self.batch;
            let found = virtualize::find_commit(output, branch, (MARK, &begun.mark), reaching).await?;
            if let Some(found) = found {
                let record = Record { snapshot: found.snapshot, ..begun };
                self.keep(&record)?;
                return Ok(Some(record));
            }
        }
        Ok(self.record(COMMITTED)?.filter(|record| record.place == place))
    }

    fn record(&self, fact: &str) -> Result<Option<Record>> {
        let text = self.journal().fact(fact)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn save(&self, fact: &str, record: &Record) -> Result<()> {
        let journal = self.journal();
        let failed = |error| JournalError::failed(journal.path(), format!("record of the commit: {error}"));
        Ok(journal.set_fact(fact, Some(&serde_json::to_string(record).map_err(failed)?))?)
    }

    /// Records a commit that was made.
    fn keep(&self, record: &Record) -> Result<()> {
        self.save(COMMITTED, record)?;
        Ok(self.journal().set_fact(COMMITTING, None)?)
    }

    /// Reports that the last commit has everything.
    fn unchanged(&mut self, last: Record) {
        self.summary.notes.push("up to date; nothing written".to_owned());
        self.summary.snapshot = Some(last.snapshot);
    }

    /// Combines the files, and commits them with an identifying property.
    async fn commit_as(&mut self, combination: Combination, options: CommitOptions) -> Result<()> {
        let follows = matches!(options.mode, CommitMode::Update(_)) && !self.batch.overwrite;
        let (store, mut chunks) = self.combine(&combination, follows).await?;
        let mut record = self.new_record(&options, &combination.digest);
        record.documents = virtualize::documents_of(&store, &options.group)?;
        self.save(COMMITTING, &record)?;
        let Batch { output, relocation, options: Options { store: reaching, .. }, .. } = self.batch;
        let options = with_mark(options, &record);
        let commit =
            virtualize::commit_chunks(&store, &mut chunks, relocation, output, &options, reaching).await;
        self.committed(record, commit.map_err(of_files)?)
    }

    /// Returns the record of a commit that is about to be made.
    fn new_record(&self, options: &CommitOptions, digest: &str) -> Record {
        Record {
            place: self.place(options),
            mark: format!("{digest} {:016x}", fastrand::u64(..)),
            snapshot: String::new(),
            digest: digest.to_owned(),
            documents: BTreeMap::new(),
        }
    }

    /// Records and reports a commit.
    fn committed(&mut self, mut record: Record, done: Committed) -> Result<()> {
        let note = done.note();
        record.snapshot.clone_from(&done.snapshot);
        self.keep(&record)?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.notes.extend(note);
        self.summary.snapshot = Some(done.snapshot);
        self.summary.python = Some(self.python()?.unwrap_or(done.python));
        Ok(())
    }
}

/// Adds the property by which the commit of a record is found.
fn with_mark(mut options: CommitOptions, record: &Record) -> CommitOptions {
    options.properties.insert(MARK.to_owned(), record.mark.clone());
    options
}

impl Record {
    fn earlier(&self) -> CommitRecord {
        CommitRecord { snapshot: Some(self.snapshot.clone()), documents: self.documents.clone() }
    }
}
