//! Writes the combined dataset.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use virtualize::{
    Code, CommitMode, CommitOptions, CommitRecord, Committed, Destination, Error as FileError, ErrorClass,
    History, OptionName, Options, Relocation, Remedy, StoreError, StoreOptions, VirtualStore,
    zarr::{ChunkReader, node},
};
use virtualize_store::{OutputLock, Receipt, local_path, receipt, url_of};

use super::{
    Batch, Target,
    combine::{Arranged, Combination, CombinedFiles, Extension, Grown, Rows, Tail, locked, options_digest},
};
use crate::{
    Error, Event, Journal, JournalError, Result, Summary,
    error::{CombineError, files},
    event::Events,
    join::{self, JoinedChunks},
    plan::Plan,
};

impl Batch {
    /// Combines the files of the journal and writes the output, unless it is already up to date.
    pub(super) async fn write_combined(
        &self,
        journal: Journal,
        (present, lock): (&Present, Option<&OutputLock>),
        summary: &mut Summary,
        events: &Events,
    ) -> Result<()> {
        let others = format!("{:?} {:?} {}", self.target, self.relocation, self.output);
        let name = output_name(&self.output);
        summary.output = Some(self.output.clone());
        let grown = Grown::of(&journal, &name, &options_digest(&self.plan, &others))?;
        let journal = &Mutex::new(journal);
        let mut writing = Writing { batch: self, journal, events, summary, tail: None };
        if let Some(grown) = grown.filter(|_| !self.run.dry_run)
            && writing.extended(grown, present).await?
        {
            return Ok(());
        }
        let combination = Combination::plan(&writing.journal(), &self.layout, &self.plan, &others)?;
        let Plan { sets, omitted, .. } = &combination.plan;
        events.tell(Event::Sets { files: sets.iter().map(|set| set.blocks.len() as u64).collect() });
        for out in omitted {
            events.tell(Event::Skipped { url: out.url.clone(), reason: out.reason.clone() });
        }
        writing.summary.skipped = omitted.len() as u64;
        writing.summary.sets = sets.iter().map(|set| set.group.clone()).collect();
        if matches!(present, Present::Written { plan } if *plan == combination.digest) {
            return writing.nothing_is_new();
        }
        if self.run.dry_run {
            let placed = combination.placed(&writing.journal())?;
            writing.combine(&combination, self.follows(present)).await?;
            writing.summary.notes.extend(placed);
            return Ok(());
        }
        let receipt = writing.all(combination, present, lock).await?;
        writing.finish(&receipt)
    }

    /// Whether the output takes the place of one that users of the archive read.
    fn follows(&self, present: &Present) -> bool {
        present.is_ours() && !self.overwrite
    }
}

/// State of an output that is being written.
pub(super) struct Writing<'a> {
    pub(super) batch: &'a Batch,
    pub(super) journal: &'a Mutex<Journal>,
    pub(super) events: &'a Events,
    pub(super) summary: &'a mut Summary,
    /// What a later run needs to extend the output.
    pub(super) tail: Option<Tail>,
}

impl<'a> Writing<'a> {
    /// Leaves the output as it is if no files follow, or extends a repository by those that do. Returns whether that was
    /// possible.
    async fn extended(&mut self, grown: Grown, present: &Present) -> Result<bool> {
        match &self.batch.target {
            Target::References(_) => {
                let is_there = matches!(present, Present::Written { plan } if *plan == grown.tail.digest);
                if !is_there || !grown.rows.is_empty() {
                    return Ok(false);
                }
                self.say_files(grown.tail.files);
                self.nothing_is_new()?;
                Ok(true)
            }
            Target::Icechunk(options) => Box::pin(self.extend_repository(grown, options)).await,
        }
    }

    /// Reports the number of files of an output that is extended.
    pub(super) fn say_files(&mut self, files: u64) {
        self.events.tell(Event::Sets { files: vec![files] });
        self.summary.sets = vec![String::new()];
    }

    fn nothing_is_new(&mut self) -> Result<()> {
        self.summary.notes.push("up to date; nothing written".to_owned());
        self.summary.python = self.python()?;
        Ok(())
    }

    /// Returns the code that opens the output: the group that was recorded when it was written.
    /// `None` for a repository without one.
    pub(super) fn python(&self) -> Result<Option<String>> {
        let Batch { target, output, .. } = self.batch;
        let group = self.journal().fact(&group_fact(output))?;
        let group = group.or_else(|| self.summary.sets.first().cloned()).unwrap_or_default();
        if let Some(inner) = group.strip_prefix(UNPACKED) {
            let (branch, outer) = match target {
                Target::Icechunk(options) => (options.branch.as_str(), options.group.trim_matches('/')),
                Target::References(_) => ("main", ""),
            };
            let group =
                [outer, inner].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            let given = [("branch", branch, "main"), ("group", &group, "")];
            let given = given.into_iter().filter(|(_, value, default)| value != default);
            let arguments: String = given.map(|(name, value, _)| format!(", {name}={value:?}")).collect();
            let code = format!("ds = xr.open_dataset({output:?}, engine=\"virtualize\"{arguments})");
            return Ok(Some(format!("import xarray as xr\n{code}")));
        }
        let group = if group.is_empty() { String::new() } else { format!(", group={group:?}") };
        let Target::References(format) = target else { return Ok(None) };
        Ok(Some(format.python(output, &group)))
    }

    /// Records that the output was extended as described by `tail`, or written, and what a later run needs to extend it.
    pub(super) fn finish(&mut self, receipt: &str) -> Result<()> {
        let name = output_name(&self.batch.output);
        self.journal().finish_output(&name, receipt)?;
        match self.tail.take() {
            Some(tail) => tail.store(&self.journal(), &name),
            None => Ok(()),
        }
    }

    /// Combines the files and publishes the output. Returns its receipt.
    async fn all(
        &mut self,
        combination: Combination,
        present: &Present,
        lock: Option<&OutputLock>,
    ) -> Result<String> {
        let Batch { target, output, options, overwrite, relocation, .. } = self.batch;
        let (name, digest, rows) = (output_name(output), combination.digest.clone(), combination.rows());
        match target {
            Target::References(format) => {
                let overwrite = *overwrite || present.is_ours();
                let (store, mut chunks) = self.combine(&combination, self.batch.follows(present)).await?;
                let destination = Destination { format: *format, target: output, relocation, overwrite };
                let prepared = virtualize::prepare_chunks(&store, &mut chunks, destination);
                let prepared = prepared.map_err(of_files)?;
                self.batch.go_on()?;
                let content = prepared.content().to_string();
                self.journal().begin_output(&name, (&digest, &content), rows, false)?;
                if let Some(lock) = lock {
                    lock.check().await.map_err(virtualize::Error::from)?;
                }
                let receipt = prepared.publish(&options.store).await?;
                self.summary.python = self.python()?;
                Ok(receipt.to_string())
            }
            Target::Icechunk(options) => {
                self.batch.go_on()?;
                self.commit(combination, options).await?;
                self.journal().begin_output(&name, (&digest, ""), rows, false)?;
                Ok(String::new())
            }
        }
    }

    pub(super) fn journal(&self) -> MutexGuard<'a, Journal> {
        locked(self.journal)
    }

    /// Combines the metadata of the files. Returns the dataset, and what reads its chunks. If the dataset `follows` one that
    /// any reader unpacks, refuses one that only `engine="virtualize"` unpacks.
    pub(super) async fn combine<'b>(
        &mut self,
        combination: &'b Combination,
        follows: bool,
    ) -> Result<(VirtualStore, JoinedChunks<'b, Rows<'b>>)>
    where
        'a: 'b,
    {
        let output = &self.batch.output;
        let CombinedFiles { hierarchy, mut chunks, moved, mut notes } =
            combination.combine(self.journal, self.events, &self.batch.cancel)?;
        self.tail = Tail::of(combination, &hierarchy, &self.journal())?;
        let mut store = VirtualStore::of(hierarchy, output.clone());
        // Positions of the whole follow from the joined coordinates.
        let Options { map, store: reaching, .. } = &self.batch.options;
        let is_wanted = |group: &str| map.spatial_conventions || moved.contains_key(group);
        virtualize::declare_joined_grids(&mut store, &mut chunks, reaching, &is_wanted).await;
        for (path, mut dropped) in moved {
            let group = store.hierarchy.group(&path).map(|group| &group.attributes);
            dropped.retain(|name| !group.is_some_and(|attributes| attributes.contains_key(name)));
            let note = join::note(&path, dropped);
            notes.extend(note.map(|note| format!("{}: {}", note.subject, note.text)));
        }
        let (hierarchy, journal) = (&store.hierarchy, self.journal());
        let arrays = hierarchy.arrays();
        let first = node::first_group(arrays.iter().map(|(path, _)| path.as_str()));
        let factors = ["scale_factor_variable", "add_offset_variable"];
        let mut arrays = arrays.iter();
        let packed =
            arrays.find(|(_, array)| factors.iter().any(|name| array.attributes.contains_key(*name)));
        let group = match packed {
            _ if !combination.plan.segments.is_empty() => UNPACKED.to_owned(),
            Some(_) => format!("{UNPACKED}{first}"),
            None => first.to_owned(),
        };
        let former = journal.fact(&group_fact(output))?.filter(|_| follows);
        if let (Some((path, _)), Some(former)) = (packed, former)
            && !former.starts_with(UNPACKED)
        {
            let message = format!(
                "{output}: packing of {path} differs in the new files, so that readers of the archive would read packed \
                 numbers instead of values, except with engine=\"virtualize\""
            );
            let remedy = Remedy::advice("write all files to a new output")
                .or(Remedy::turn_on(OptionName::Overwrite, "change this one"));
            return Err(Error::new(ErrorClass::Conflict, Code::Mismatch, message, remedy));
        }
        if !self.batch.run.dry_run {
            journal.set_fact(&group_fact(output), Some(&group))?;
        }
        for text in &notes {
            self.events.tell(Event::Note { text: text.clone() });
        }
        self.summary.notes.extend(notes);
        self.events.tell(Event::Writing { target: output.clone() });
        Ok((store, chunks))
    }
}

/// Prefix of the group that [`group_fact`] records if only `engine="virtualize"` reads the values of the dataset: the
/// groups are segments of it, or variables contain packing that differs.
const UNPACKED: &str = "*";

/// Returns the name of the fact that records which group of an output the printed code opens.
fn group_fact(output: &str) -> String {
    format!("group {}", output_name(output))
}

/// Returns the error of files whose chunks could not be read while the output was written.
pub(super) fn of_files(error: FileError) -> Error {
    let FileError::Chunks { source } = &error else { return error.into() };
    if let Some(error) = source.downcast_ref::<CombineError>() {
        return error.clone().into();
    }
    match source.downcast_ref() {
        Some(Error::Combine(error)) => error.clone().into(),
        Some(Error::Stopped { done, files }) => Error::Stopped { done: *done, files: *files },
        _ => error.into(),
    }
}

/// What exists at the location of a combined output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Present {
    /// Nothing.
    Nothing,
    /// An output of this journal, from the rows and options with this digest.
    Written { plan: String },
    /// An output that an interrupted run was publishing.
    Unfinished,
    /// An output that the journal has no record of.
    Unknown,
    /// An output that differs from the one the journal recorded.
    Other { found: Receipt, expected: Option<Receipt> },
}

impl Present {
    /// Inspects an output. If an interrupted run published it without recording that, updates the journal. In a bucket
    /// that cannot be verified: the store assigns the identity of objects on upload, too late for such a run to record
    /// it.
    pub(super) async fn of(
        output: &str,
        several_files: bool,
        journal: &mut Journal,
        options: &StoreOptions,
    ) -> Result<Self> {
        let found = receipt(output, several_files, options).await.map_err(virtualize::Error::from)?;
        let Some(found) = found else { return Ok(Self::Nothing) };
        let name = output_name(output);
        let Some(known) = journal.output(&name)? else { return Ok(Self::Unknown) };
        let there = found.to_string();
        if known.receipt.as_ref() == Some(&there) {
            return Ok(Self::Written { plan: known.plan.unwrap_or_default() });
        }
        if known.begun.as_ref() == Some(&there) {
            journal.finish_output(&name, &there)?;
            return Ok(Self::Written { plan: known.begun_plan.unwrap_or_default() });
        }
        if known.begun.is_some() && local_path(output).is_none() {
            journal.keep_begun()?;
            return Ok(Self::Unfinished);
        }
        // No run has recorded a complete output.
        if known.receipt.is_none() {
            return Ok(Self::Unknown);
        }
        Ok(Self::Other { found, expected: known.receipt.as_deref().and_then(Receipt::parse) })
    }

    /// Rejects an output that must not be replaced without the user's consent. Only a run over all files may replace a
    /// single file that it did not write.
    pub(super) fn check(&self, output: &str, several_files: bool, append: bool) -> Result<()> {
        match self {
            Self::Other { found, expected } => {
                let size = |it: &Receipt| format!("{} of {} bytes", files(it.files), it.bytes);
                let expected = expected.as_ref().map(|it| format!(" ({})", size(it))).unwrap_or_default();
                let message =
                    format!("{output}: {}, which is not what this journal wrote{expected}", size(found));
                let effect = "replace it with what the journal describes";
                let remedy = Remedy::turn_on(OptionName::Overwrite, effect);
                Err(Error::new(ErrorClass::Conflict, Code::OutputNotInJournal, message, remedy))
            }
            Self::Unknown if append => {
                let message = format!(
                    "{output}: exists but is not recorded in the journal; appending could drop its files"
                );
                let remedy = Remedy::turn_on(OptionName::Journal, "name the journal that belongs to it")
                    .or(Remedy::advice("name all files and do not append"))
                    .or(Remedy::turn_on(OptionName::Overwrite, "replace it"));
                Err(Error::new(ErrorClass::Conflict, Code::OutputNotInJournal, message, remedy))
            }
            Self::Unknown if several_files => {
                Err(virtualize::Error::from(StoreError::Occupied { name: output.to_owned(), foreign: None })
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether this journal wrote the output.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Written { .. } | Self::Unfinished)
    }
}

/// Returns the journal's name for an output, independent of the working directory.
pub(super) fn output_name(output: &str) -> String {
    let output = output.trim_end_matches('/');
    url_of(output).unwrap_or_else(|_| output.to_owned())
}

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
        self.events.tell(Event::Writing { target: output.clone() });
        self.commit_store(&store, &mut extended.chunks(chunks), options, &tail.digest).await?;
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

    /// Combines the files, and commits them.
    async fn commit_as(&mut self, combination: Combination, options: CommitOptions) -> Result<()> {
        let follows = matches!(options.mode, CommitMode::Update(_)) && !self.batch.overwrite;
        let (store, mut chunks) = self.combine(&combination, follows).await?;
        self.commit_store(&store, &mut chunks, options, &combination.digest).await
    }

    /// Commits a dataset with an identifying property, then records and reports the commit.
    async fn commit_store(
        &mut self,
        store: &VirtualStore,
        chunks: &mut dyn ChunkReader,
        mut options: CommitOptions,
        digest: &str,
    ) -> Result<()> {
        let mut record = Record {
            place: self.place(&options),
            mark: format!("{digest} {:016x}", fastrand::u64(..)),
            snapshot: String::new(),
            digest: digest.to_owned(),
            documents: virtualize::documents_of(store, &options.group)?,
        };
        self.save(COMMITTING, &record)?;
        options.properties.insert(MARK.to_owned(), record.mark.clone());
        let Batch { output, relocation, options: Options { store: reaching, .. }, .. } = self.batch;
        let commit = virtualize::commit_chunks(store, chunks, relocation, output, &options, reaching);
        let done: Committed = commit.await.map_err(of_files)?;
        record.snapshot.clone_from(&done.snapshot);
        self.keep(&record)?;
        self.summary.notes.push(format!("{} chunks committed, snapshot {}", done.chunks, done.snapshot));
        self.summary.notes.extend(done.note());
        self.summary.snapshot = Some(done.snapshot);
        self.summary.python = Some(self.python()?.unwrap_or(done.python));
        Ok(())
    }
}

impl Record {
    fn earlier(&self) -> CommitRecord {
        CommitRecord { snapshot: Some(self.snapshot.clone()), documents: self.documents.clone() }
    }
}
