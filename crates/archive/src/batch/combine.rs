//! Combines files into one dataset, from the rows of the journal alone: all of them, or those that follow the files of an
//! output, without looking at these again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use virtualize::{
    ArrayValues, Code, ErrorClass, OptionName, Options, Remedy, VirtualStore, from_text, to_text,
    zarr::{Hierarchy, NodePath, node, readers::ReaderSetup},
};
use virtualize_remedy::alternatives;

use crate::{
    Along, Error, Event, Item, Journal, Layout, Member, Result,
    compat::{Difference, Signature, differences, form_segments},
    error::{CombineError, Note, Problem},
    event::Events,
    file::{FileChunks, Head, Members},
    join::{self, ChunkPlaces, Combined, Extended, JoinedChunks, combine},
    journal::{Failure, FileRecord, JournalError, Planned, Record, json_text},
    plan::{
        FileExtent, Files, Known, OnMismatch, Plan, PlanOptions, PlannedSet, Refused, Signatures,
        coordinates, plan,
    },
    read::read_member,
    values::index,
};

/// Maximum number of differences that an error names.
const NAMED: usize = 3;
/// Maximum number of signatures that are compared.
const MAX_SIGNATURES: usize = 1000;
/// Maximum number of signatures with which options are tried.
const MAX_TRIED: usize = 10_000;
/// Maximum number of new files that a dry run lists.
const MAX_PLACED: usize = 20;
/// Number of files between two progress events.
const TOLD: u64 = 100;

/// The planned arrangement of the files, before they are combined.
pub(super) struct Combination {
    pub(super) plan: Plan,
    pub(super) layout: Layout,
    /// Rows of the journal in order: a row number of the plan is an index into these.
    pub(super) ids: Vec<i64>,
    /// Identifies the rows and options: equal digests mean equal outputs.
    pub(super) digest: String,
    /// Identifies the options.
    pub(super) options_digest: String,
    /// Storage digest of all files, if they have the same one.
    pub(super) storage: Option<String>,
}

impl Combination {
    /// Plans the arrangement of the journal's files. `others` describes further options that the output depends on.
    pub(super) fn plan(
        journal: &Journal,
        layout: &Layout,
        options: &PlanOptions,
        others: &str,
    ) -> Result<Self> {
        let options_digest = options_digest(options, others);
        let mut digest = options_digest.clone();
        let mut ids = Vec::new();
        let (files, signatures) = planned(journal, MAX_SIGNATURES, |id, run| {
            digest = with_row(&digest, id, run);
            ids.push(id);
        })?;
        let of_row = |row: u64, name: &str| {
            let head = journal.head(u64::try_from(id_of(&ids, row)?).ok()?).ok()?;
            coordinates(&head.hierarchy(), name, |path, array| {
                Some(ArrayValues::of_array(array, head.values.get(path)?.clone()))
            })
        };
        let url = |row: u64| id_of(&ids, row).and_then(|id| journal.url(id).ok()).unwrap_or_default();
        let known = Known { signatures, coordinates: &of_row, url: &url };
        let plan = match plan(files, &known, layout, options) {
            Ok(plan) => plan,
            Err(error @ (CombineError::Sets { .. } | CombineError::Subject { .. })) => {
                let (files, signatures) = planned(journal, MAX_TRIED, |_, _| {})?;
                let known = known.with(signatures);
                let is_written = journal.is_used()?;
                let files = Refused { files: &files, known: &known, layout, options, is_written };
                return Err(refused(error, &files, journal));
            }
            Err(error) => return Err(error.into()),
        };
        let storage = known.signatures.first_key_value().map(|(storage, _)| storage.clone());
        let storage = storage.filter(|_| known.signatures.len() == 1);
        let layout = layout.clone();
        Ok(Self { plan, layout, ids, digest, options_digest, storage })
    }

    /// Returns the number of files in the plan.
    pub(super) fn files(&self) -> usize {
        self.plan.sets.iter().map(|set| set.blocks.len()).sum()
    }

    /// Returns the journal's rows that the plan includes.
    pub(super) fn rows(&self) -> Vec<i64> {
        let blocks = self.plan.sets.iter().flat_map(|set| &set.blocks);
        blocks.filter_map(|block| id_of(&self.ids, block.row)).collect()
    }

    /// Describes where the files that this run read are in the combined dataset.
    pub(super) fn placed(&self, journal: &Journal) -> Result<Vec<String>> {
        let (mut all, mut count, new) = (Vec::new(), 0, journal.rows_of_this_run()?);
        for set in &self.plan.sets {
            for block in &set.blocks {
                let id = id_of(&self.ids, block.row).ok_or(CombineError::Nothing)?;
                if !new.contains(&id) {
                    continue;
                }
                count += 1;
                if count > MAX_PLACED {
                    continue;
                }
                let along =
                    self.layout.along.iter().zip(&block.at).zip(&set.sizes).map(|((along, at), sizes)| {
                        let before = sizes.iter().take(index(*at));
                        let (start, all): (u64, u64) = (before.sum(), sizes.iter().sum());
                        let size = sizes.get(index(*at)).copied().unwrap_or(0);
                        let end = start + size.saturating_sub(1);
                        let range = if size > 1 { format!("{start} to {end}") } else { start.to_string() };
                        format!("{} {range} of {all}", along.name())
                    });
                let (places, group) = (along.collect::<Vec<_>>().join(", "), &set.group);
                let group = if group.is_empty() { String::new() } else { format!(" in group {group}") };
                all.push(format!("{}: elements {places}{group}", journal.url(id)?));
            }
        }
        if count > MAX_PLACED {
            all.push(format!("{count} new or replaced files in all"));
        }
        Ok(all)
    }

    /// Combines the metadata of the files, each set in its own group.
    pub(super) fn combine<'a>(
        &'a self,
        journal: &'a Mutex<Journal>,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<CombinedFiles<'a>> {
        let (mut done, files) = (0, self.files() as u64);
        let mut step = || {
            if cancel.is_cancelled() {
                return Err(Error::Stopped { done: files, files });
            }
            if done % TOLD == 0 {
                events.tell(Event::Combining { done, files });
            }
            done += 1;
            Ok(())
        };
        let (mut notes, mut moved): (Vec<Note>, _) = (self.plan.notes.clone(), BTreeMap::new());
        let mut members = Rows::new(journal, &self.ids, cancel);
        let mut groups = Vec::with_capacity(self.plan.sets.len());
        for set in &self.plan.sets {
            let combined: Combined<'_> = combine(set, &self.layout, &mut members, &mut step)?;
            groups.push((set.group.clone(), combined));
        }
        let format = groups.first().ok_or(CombineError::Nothing)?.1.hierarchy.format;
        let mut hierarchy = Hierarchy::new(format);
        if let ([_, ..], Some(along)) = (self.plan.segments.as_slice(), self.layout.along.first()) {
            let (segments, along) = (self.plan.segments.clone(), along.name());
            let described = join::form_dataset(&mut groups, segments, along, &self.layout, &mut notes)?;
            let text = format!(
                "files are stored differently and form {} groups: virtualize reads them as one dataset, other readers see the \
                 groups",
                groups.len()
            );
            notes.push(Note::new("segments", text));
            hierarchy.root.attributes = virtualize::segments::attributes(&described);
        } else if let [(first, _), .., (last, _)] = groups.as_slice() {
            let text = format!("the files form {} separate datasets, {first} to {last}", groups.len());
            notes.push(Note::new("groups", text));
        }
        let mut chunks = ChunkPlaces::default();
        for (path, combined) in groups {
            notes.extend(combined.notes);
            for (inner, dropped) in combined.moved {
                let inner = if inner.is_empty() { path.clone() } else { node::join(&path, &inner) };
                moved.insert(inner, dropped);
            }
            chunks.extend(
                combined.chunks.into_iter().map(|(inner, chunks)| (node::join(&path, &inner), chunks)),
            );
            if let Some(group) = hierarchy.root.make_group(&path) {
                let described = std::mem::take(&mut group.attributes);
                *group = combined.hierarchy.root;
                group.attributes.extend(described);
            }
        }
        virtualize::segments::check(&hierarchy).map_err(|reason| {
            let remedy =
                Remedy::set(OptionName::OnMismatch, "split", "write the groups as datasets of their own");
            CombineError::of("segments", Problem::new(reason).with(remedy))
        })?;
        notes.extend(rules_without_effect(&self.layout, &hierarchy));
        let setup = ReaderSetup::of(&hierarchy);
        let notes = notes.iter().map(|note| format!("{}: {}", note.subject, note.text));
        let notes = notes.chain(setup.hint()).collect();
        Ok(CombinedFiles { hierarchy, chunks: JoinedChunks::new(members, chunks), moved, notes })
    }
}

/// Returns a note about each array that the layout names and no file has, or that is not taken from the first file as the
/// layout says.
fn rules_without_effect(layout: &Layout, hierarchy: &Hierarchy) -> Vec<Note> {
    let arrays = hierarchy.arrays();
    let paths = || arrays.iter().map(|(path, _)| path.as_str());
    // Each set is a group, so paths in files are ends of paths in the output.
    let is_named = |path: &str, name: &str| {
        let name = name.trim_start_matches('/');
        path == name || path.ends_with(&format!("/{name}"))
    };
    let named = [&layout.concat_vars, &layout.assume_equal, &layout.optional].into_iter().flatten();
    let unknown = named.filter(|name| *name != "*" && !paths().any(|path| is_named(path, name)));
    let text = |name: &String| format!("no file has this array{}", alternatives("arrays", name, paths()));
    let unknown = unknown.map(|name| Note::new(name, text(name)));
    let joined = layout.assume_equal.iter().filter_map(|name| {
        let array = arrays.iter().find(|(path, _)| is_named(path, name))?.1;
        let along = layout.along.iter().map(Along::name);
        let dimension =
            along.into_iter().find(|own| array.dimension_names.iter().flatten().any(|it| it == own))?;
        Some(Note::new(
            name,
            format!("files are joined along its dimension {dimension}: the rule first has no effect"),
        ))
    });
    unknown.chain(joined).collect()
}

/// The combined dataset.
pub(super) struct CombinedFiles<'a> {
    /// Its metadata.
    pub(super) hierarchy: Hierarchy,
    /// Its chunks.
    pub(super) chunks: JoinedChunks<'a, Rows<'a>>,
    /// Groups whose images are placed side by side, with the attributes of a single image that were dropped.
    pub(super) moved: BTreeMap<NodePath, Vec<String>>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// The files of a plan in the journal.
#[derive(Clone)]
pub(super) struct Rows<'a> {
    journal: &'a Mutex<Journal>,
    ids: &'a [i64],
    cancel: CancellationToken,
}

impl<'a> Rows<'a> {
    /// Creates a reader of files by their index in `ids`.
    fn new(journal: &'a Mutex<Journal>, ids: &'a [i64], cancel: &CancellationToken) -> Self {
        Self { journal, ids, cancel: cancel.clone() }
    }

    /// Returns the row of the journal, and the journal.
    fn find(&self, row: u64) -> Result<(u64, MutexGuard<'_, Journal>)> {
        let id = id_of(self.ids, row).and_then(|id| u64::try_from(id).ok()).ok_or(CombineError::Nothing)?;
        Ok((id, locked(self.journal)))
    }
}

impl Members for Rows<'_> {
    fn head(&mut self, row: u64) -> Result<Head> {
        let (id, journal) = self.find(row)?;
        Ok(journal.head(id)?)
    }

    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks> {
        if self.cancel.is_cancelled() {
            let files = self.ids.len() as u64;
            return Err(Error::Stopped { done: files, files });
        }
        let (id, journal) = self.find(row)?;
        Ok(journal.chunks(id, path)?)
    }
}

/// Returns the entry of `ids` for a row number of the plan.
pub(super) fn id_of(ids: &[i64], row: u64) -> Option<i64> {
    ids.get(usize::try_from(row).ok()?).copied()
}

/// Returns the digest of options; `others` describes those that the plan does not depend on. It is that of a plan without rows.
pub(super) fn options_digest(options: &PlanOptions, others: &str) -> String {
    hex::encode(Sha256::digest(format!("{options:?} {others}")))
}

/// Adds a file to the digest of rows and options, by its row in the journal and the run that read it: together they identify
/// its record.
fn with_row(digest: &str, id: i64, run: i64) -> String {
    let hasher = Sha256::new().chain_update(digest).chain_update(id.to_le_bytes());
    hex::encode(hasher.chain_update(run.to_le_bytes()).finalize())
}

/// Returns all files, and the first `most` signatures. Calls `each` with the row of each file, and the run that read it.
fn planned(journal: &Journal, most: usize, mut each: impl FnMut(i64, i64)) -> Result<(Files, Signatures)> {
    let (mut files, mut signatures) = (Files::default(), Signatures::new());
    files.reserve(usize::try_from(journal.counts()?.done).unwrap_or_default());
    for storage in journal.signature_digests()? {
        let signature = serde_json::from_str::<Signature>(&journal.signature(&storage)?);
        let signature = signature
            .map_err(|error| JournalError::failed(journal.path(), format!("signature {storage}: {error}")))?;
        files.kind(&storage, || signature.digest());
        if signatures.len() < most {
            signatures.insert(storage, signature);
        }
    }
    journal.for_each_planned(0, |Planned { id, run, storage, extent }| {
        each(id, run);
        let extent = parse_extent(journal, id, &extent)?;
        // Rows refer to signatures, which are all known.
        let kind = files.kind(&storage, String::new);
        files.push(kind, extent);
        Ok::<_, Error>(())
    })?;
    Ok((files, signatures))
}

/// Parses the extent of a row of the journal.
pub(super) fn parse_extent(journal: &Journal, id: i64, extent: &str) -> Result<FileExtent, JournalError> {
    serde_json::from_str(extent)
        .map_err(|error| JournalError::failed(journal.path(), format!("row {id}: {error}")))
}

/// Returns the error of files that cannot be joined: how the first files of the first two sets of compatible files differ, and
/// what joins all files.
fn refused(error: CombineError, refused: &Refused<'_>, journal: &Journal) -> Error {
    let mut remedies = refused.remedies(&error);
    if remedies.is_empty() {
        remedies.extend(error.remedy());
    }
    if refused.is_written {
        let effect = "omit files that the output does not have yet";
        remedies.push(Remedy::set(OptionName::OnChange, "drop", effect));
    }
    let remedies = remedies.into_iter().reduce(Remedy::or);
    let CombineError::Sets { sets } = &error else {
        return Error::new(ErrorClass::File, Code::Combine, error.to_string(), remedies);
    };
    let of_file = |url: &str| refused.known.signatures.get(&journal.storage_of(url).ok()?);
    let first = sets.first().map_or("", |(_, url)| url.as_str());
    let is_combined = refused.options.on_mismatch == OnMismatch::Combine && refused.layout.along.len() == 1;
    // The other sets, each with the array that keeps its files from being segments of one dataset, if an array does.
    let obstacle = |url: &str| match of_file(first).zip(of_file(url)).filter(|_| is_combined) {
        Some((one, other)) => form_segments(&[one, other], refused.layout).err(),
        None => Some(None),
    };
    let others = sets.iter().skip(1);
    let others = others.filter_map(|(files, url)| Some((*files, url.as_str(), obstacle(url)?)));
    let mut others: Vec<(u64, &str, Option<String>)> = others.collect();
    if others.is_empty() {
        // Each pair can be combined, but not all together.
        others.extend(sets.iter().skip(1).map(|(files, url)| (*files, url.as_str(), None)));
    }
    let (second, path) = others.first().map_or(("", &None), |(_, url, path)| (*url, path));
    let differences = of_file(first).zip(of_file(second)).map(|(left, right)| differences(left, right));
    let mut differences = differences.unwrap_or_default();
    if let Some(path) = path
        && differences.iter().any(|one| one.path == *path)
    {
        differences.retain(|one| one.path == *path);
    }
    if is_combined && differences.iter().any(|one| !one.is_of_storage()) {
        differences.retain(|one| !one.is_of_storage());
    }
    let mut texts: Vec<String> = differences.iter().take(NAMED).map(Difference::sentence).collect();
    match differences.len().saturating_sub(NAMED) {
        0 => {}
        1 => texts.push("and one more difference".to_owned()),
        more => texts.push(format!("and {more} more differences")),
    }
    let count: u64 = sets.iter().map(|(files, _)| files).sum();
    let others: u64 = others.iter().map(|(files, ..)| files).sum();
    let (folder, name) = second.rsplit_once('/').unwrap_or_default();
    let second = if first.rsplit_once('/').is_some_and(|(other, _)| other == folder) { name } else { second };
    let first = first.strip_prefix("file://").unwrap_or(first);
    let second = second.strip_prefix("file://").unwrap_or(second);
    let texts = texts.join("; ");
    let message = format!("{others} of {count} files cannot be joined with {first}: in {second}, {texts}");
    Error::new(ErrorClass::File, Code::Mismatch, message, remedies)
}

/// Maximum number of new files. More are combined with all others, one part of the dataset after the other.
const MAX_NEW_FILES: usize = 1000;

/// What is known of an output without its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tail {
    /// Digest of the files and options, see [`with_row`].
    pub(super) digest: String,
    /// Number of files.
    pub(super) files: u64,
    /// Digest of the options.
    options: String,
    /// Storage digest of all files.
    storage: String,
    /// Row of the first file in order, and its extent.
    first: (i64, FileExtent),
    /// The same of the last one.
    last: (i64, FileExtent),
    /// The dataset without its chunks, see [`join::tail`]: references as JSON.
    hierarchy: String,
    /// The last row of the journal that the dataset includes.
    #[serde(skip)]
    through: i64,
}

/// An output that is extended.
pub(super) struct Extension<'a> {
    /// The whole dataset.
    pub(super) extended: Extended,
    /// Reads the chunks of the joined files.
    pub(super) chunks: JoinedChunks<'a, Rows<'a>>,
    /// Rows of the new files.
    pub(super) rows: Vec<i64>,
    /// What is known of the output then.
    pub(super) tail: Tail,
}

/// What a journal knows of an output and of the files that follow those of the output.
pub(super) struct Grown {
    pub(super) tail: Tail,
    pub(super) rows: Vec<Planned>,
}

impl Grown {
    /// Returns what is known of an output; `None` unless its files and options are those of when it was written.
    pub(super) fn of(journal: &Journal, output: &str, options: &str) -> Result<Option<Self>> {
        let Some((through, state)) = journal.tail(output)? else { return Ok(None) };
        let Ok(tail) = serde_json::from_slice::<Tail>(&state) else { return Ok(None) };
        if tail.options != options {
            return Ok(None);
        }
        Ok(Some(Self { tail: Tail { through, ..tail }, rows: journal.rows_after(through)? }))
    }
}

impl Tail {
    /// Describes a combined dataset; `None` if it cannot be extended.
    pub(super) fn of(
        combination: &Combination,
        hierarchy: &Hierarchy,
        journal: &Journal,
    ) -> Result<Option<Self>> {
        let Combination { plan, layout, ids, .. } = combination;
        let ([set], [_]) = (plan.sets.as_slice(), layout.along.as_slice()) else { return Ok(None) };
        let is_whole =
            set.blocks.len() == ids.len() && set.blocks.iter().all(|block| block.selection.is_none());
        let (Some(storage), true, true) = (&combination.storage, is_whole, layout.optional.is_empty()) else {
            return Ok(None);
        };
        let end = |block: Option<&crate::plan::Block>| {
            let id = block.and_then(|block| id_of(ids, block.row));
            let id = id.ok_or(CombineError::Nothing)?;
            let extent = journal.extent(id)?;
            Ok::<_, Error>((id, parse_extent(journal, id, &extent)?))
        };
        let (first, last) = (end(set.blocks.first())?, end(set.blocks.last())?);
        let Some(hierarchy) = text_of(&join::tail(hierarchy)) else { return Ok(None) };
        Ok(Some(Self {
            digest: combination.digest.clone(),
            files: ids.len() as u64,
            options: combination.options_digest.clone(),
            storage: storage.clone(),
            first,
            last,
            hierarchy,
            through: ids.iter().copied().max().unwrap_or(0),
        }))
    }

    /// Stores the tail of an output that was published.
    pub(super) fn store(&self, journal: &Journal, output: &str) -> Result<()> {
        let state = serde_json::to_vec(self)
            .map_err(|error| JournalError::failed(journal.path(), format!("tail: {error}")))?;
        Ok(journal.set_tail(output, self.through, &state)?)
    }
}

/// Returns a tail as text, if the text parses to the same tail.
fn text_of(tail: &Hierarchy) -> Option<String> {
    let text = to_text(tail, "tail").ok()?;
    let back = from_text(&text, &[], "tail").ok()?;
    (back == *tail).then(|| String::from_utf8(text).ok())?
}

pub(super) fn locked(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first and the last file of an output, and the new files, in order.
pub(super) struct Arranged {
    set: PlannedSet,
    /// The first and the last file alone.
    known: PlannedSet,
    /// Rows and extents of the files of the set.
    ids: Vec<i64>,
    extents: Vec<FileExtent>,
}

impl Arranged {
    /// Arranges the new files after those of the output; `None` if all files have to be combined.
    pub(super) fn new(Grown { tail, rows }: &Grown, journal: &Journal, layout: &Layout) -> Option<Self> {
        let is_same = rows.iter().all(|row| *row.storage == *tail.storage);
        if rows.is_empty() || rows.len() > MAX_NEW_FILES || !is_same {
            return None;
        }
        let mut files = vec![tail.first.clone()];
        if tail.last.0 != tail.first.0 {
            files.push(tail.last.clone());
        }
        let count = files.len();
        for row in rows {
            files.push((row.id, serde_json::from_str(&row.extent).ok()?));
        }
        let (ids, extents): (Vec<i64>, Vec<FileExtent>) = files.into_iter().unzip();
        let mut planned = Files::default();
        let kind = planned.kind(&tail.storage, String::new);
        extents.iter().for_each(|extent| planned.push(kind, extent.clone()));
        let url = |row| id_of(&ids, row).and_then(|id| journal.url(id).ok()).unwrap_or_default();
        let known = Known { url: &url, ..Known::nothing() };
        let mut plan = plan(planned, &known, layout, &PlanOptions::default()).ok()?;
        let set = plan.sets.pop().filter(|_| plan.sets.is_empty() && plan.omitted.is_empty())?;
        let follows = (0..).zip(set.blocks.iter().take(count)).all(|(row, block)| block.row == row);
        if !follows || set.blocks.len() != ids.len() {
            return None;
        }
        let blocks = set.blocks.iter().take(count).cloned().collect();
        let sizes = set.sizes.iter().map(|sizes| sizes.iter().take(count).copied().collect()).collect();
        let known = PlannedSet { blocks, sizes, ..set.clone() };
        Some(Self { set, known, ids, extents })
    }

    /// Joins the files, and extends the dataset by what the new ones add; `None` if all files have to be combined.
    pub(super) fn join<'a>(
        &'a self,
        Grown { tail, rows }: &Grown,
        (journal, cancel): (&'a Mutex<Journal>, &CancellationToken),
        layout: &Layout,
    ) -> Option<Extension<'a>> {
        let before = from_text(tail.hierarchy.as_bytes(), &[], "tail").ok()?;
        let mut members = Rows::new(journal, &self.ids, cancel);
        let mut step = || Ok::<_, Error>(());
        // If the files cannot be joined, joining all reports why.
        let known = combine(&self.known, layout, &mut members, &mut step).ok()?;
        let joined = combine(&self.set, layout, &mut members, &mut step).ok()?;
        // The position of the whole changes, and is computed when all files are combined.
        if !joined.moved.is_empty() {
            return None;
        }
        let extended = join::extend(&before, &known.hierarchy, &joined.hierarchy)?;
        let digest = rows.iter().fold(tail.digest.clone(), |digest, row| with_row(&digest, row.id, row.run));
        let last = self.set.blocks.last().and_then(|block| usize::try_from(block.row).ok())?;
        let rows: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let tail = Tail {
            digest,
            files: tail.files.saturating_add(rows.len() as u64),
            last: (*self.ids.get(last)?, self.extents.get(last)?.clone()),
            hierarchy: text_of(&extended.tail())?,
            through: rows.iter().copied().fold(tail.through, i64::max),
            ..tail.clone()
        };
        Some(Extension { extended, chunks: JoinedChunks::new(members, joined.chunks), rows, tail })
    }
}

/// Returns the journal's record of a file: its references, and the values that decide its place among the other files.
pub(super) async fn member_content(
    item: &Item,
    store: &mut VirtualStore,
    layout: &Layout,
    options: &Options,
) -> Result<Record, Failure> {
    layout.drop_arrays(store);
    let packed = FileRecord::pack(store).map_err(|error| Failure::new(error, options.notation));
    let (row, hierarchy) = packed?;
    let member = read_member(item, store, hierarchy, layout, options).await?;
    let signature = Signature::of(&member, layout);
    let extent = FileExtent::of(&member, layout);
    let extent = extent.map_err(|error| Failure::of_layout(&error, options.notation))?;
    let Member { values, digests, given, .. } = member;
    Ok(Record::Member(Box::new(FileRecord {
        storage: signature.storage_digest(),
        signature: json_text(&signature)?.into(),
        extent: json_text(&extent)?,
        values: values.into_iter().map(|(path, values)| (path, values.bytes)).collect(),
        digests,
        given,
        ..row
    })))
}
