//! Writes the combined dataset.

use std::sync::{Mutex, MutexGuard};

use virtualize::{
    Code, Destination, Error as FileError, ErrorClass, OptionName, Options, Remedy, StoreError, StoreOptions,
    VirtualStore, zarr::node,
};
use virtualize_store::{OutputLock, Receipt, local_path, receipt, url_of};

use super::{
    Batch, Target,
    combine::{Combination, CombinedFiles, Grown, Rows, Tail, locked, options_digest},
};
use crate::{
    Error, Event, Journal, Result, Summary,
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
