//! Combines all files into one dataset, from the rows of the journal alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
#[cfg(feature = "icechunk")]
use virtualize::zarr::ChunkReadError;
use virtualize::zarr::{Hierarchy, readers::ReaderSetup};
use virtualize_remedy::alternatives;

use crate::{
    Error, Event, Journal, Layout,
    compat::{Difference, Signature, differences},
    error::{CombineError, Note},
    event::Events,
    head::{FileChunks, Head, Members},
    join::{ChunkPlaces, Combined, JoinedChunks, combine},
    journal::{JournalError, Planned},
    plan::{FileExtent, Files, Known, Plan, PlanOptions, PlannedEra, Signatures, coordinates, plan},
};

/// Maximum number of differences that an error names.
const NAMED: usize = 3;
/// Maximum number of signatures that are compared.
const MAX_SIGNATURES: usize = 1000;
/// Number of files between two progress events.
const TOLD: u64 = 100;

/// The planned arrangement of the files, before they are combined.
#[derive(Clone)]
pub(super) struct Combination {
    pub(super) plan: Plan,
    pub(super) layout: Layout,
    pub(super) options: PlanOptions,
    /// Rows of the journal in order: a row number of the plan is an index into these.
    pub(super) ids: Vec<i64>,
    /// Runs in which these were read.
    #[cfg_attr(not(feature = "icechunk"), allow(dead_code, reason = "repositories alone are appended to"))]
    pub(super) runs: Vec<i64>,
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
    ) -> Result<Self, Error> {
        let mut chain = Chain::of_options(options, others);
        let options_digest = chain.digest();
        let (mut files, signatures) = kinds(journal)?;
        let count = usize::try_from(journal.counts()?.done).unwrap_or_default();
        files.reserve(count);
        let (mut ids, mut runs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        journal.for_each_planned(0, |Planned { id, run, storage, extent }| {
            chain.add(id, run);
            let extent = parse_extent(journal, id, &extent)?;
            ids.push(id);
            runs.push(run);
            // Rows refer to signatures, which are all known.
            let kind = files.kind(&storage, String::new);
            files.push(kind, extent);
            Ok::<_, Error>(())
        })?;
        let of_row = |row: u64, name: &str| {
            let (item, member) = journal.member(id_of(&ids, row)?).ok()?;
            coordinates(&member.member(item).ok()?, name)
        };
        let url = |row: u64| id_of(&ids, row).and_then(|id| journal.url(id).ok()).unwrap_or_default();
        let known = Known { signatures, coordinates: &of_row, url: &url };
        let plan = match plan(files, &known, layout, options) {
            Ok(plan) => plan,
            Err(CombineError::Eras { eras }) => return Err(mismatch(journal, &known.signatures, &eras)),
            Err(error) => return Err(error.into()),
        };
        let storage = known.signatures.first_key_value().map(|(storage, _)| storage.clone());
        let storage = storage.filter(|_| known.signatures.len() == 1);
        let digest = chain.digest();
        let (layout, options) = (layout.clone(), options.clone());
        Ok(Self { plan, layout, options, ids, runs, digest, options_digest, storage })
    }

    /// Returns the number of files in the plan.
    pub(super) fn files(&self) -> usize {
        self.plan.eras.iter().map(|era| era.blocks.len()).sum()
    }

    /// Returns the journal's rows that the plan includes.
    pub(super) fn rows(&self) -> Vec<i64> {
        let blocks = self.plan.eras.iter().flat_map(|era| &era.blocks);
        blocks.filter_map(|block| id_of(&self.ids, block.row)).collect()
    }

    /// Combines the metadata of the files, each era in its own group.
    pub(super) fn combine(
        &self,
        journal: &Arc<Mutex<Journal>>,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<CombinedFiles<'_>, Error> {
        let mut progress = Progress { events, cancel, done: 0, files: self.files() as u64 };
        let mut notes: Vec<Note> = self.plan.notes.clone();
        let mut members = Rows::new(journal, &self.ids, &self.plan.eras, cancel);
        let (mut whole, mut chunks): (Option<Hierarchy>, _) = (None, ChunkPlaces::default());
        for era in &self.plan.eras {
            let combined: Combined<'_> =
                combine(era, &self.layout, &self.options, &mut members, &mut || progress.step())?;
            notes.extend(combined.notes);
            chunks.graft(&era.group, combined.chunks);
            let whole = whole.get_or_insert_with(|| Hierarchy::new(combined.hierarchy.format));
            if let Some(group) = whole.root.make_group(&era.group) {
                *group = combined.hierarchy.root;
            }
        }
        let hierarchy = whole.ok_or(CombineError::Nothing)?;
        notes.extend(unknown_arrays(&self.layout, &hierarchy));
        let setup = ReaderSetup::of(&hierarchy);
        let notes = notes.iter().map(|note| format!("{}: {}", note.subject, note.text));
        let notes = notes.chain(setup.hint()).collect();
        Ok(CombinedFiles { hierarchy, chunks: JoinedChunks::new(members, chunks), notes })
    }
}

/// Returns a note about each array that the layout names and no file has.
fn unknown_arrays(layout: &Layout, hierarchy: &Hierarchy) -> Vec<Note> {
    let arrays = hierarchy.arrays();
    let paths = || arrays.iter().map(|(path, _)| path.as_str());
    // Each era is a group, so paths in files are ends of paths in the output.
    let exists = |name: &str| paths().any(|path| path == name || path.ends_with(&format!("/{name}")));
    let named = [&layout.concat_vars, &layout.assume_equal, &layout.optional].into_iter().flatten();
    let unknown = named.filter(|name| *name != "*" && !exists(name));
    let text = |name: &String| format!("no file has this array{}", alternatives("arrays", name, paths()));
    unknown.map(|name| Note::new(name, text(name))).collect()
}

/// The combined dataset.
pub(super) struct CombinedFiles<'a> {
    /// Its metadata.
    pub(super) hierarchy: Hierarchy,
    /// Its chunks.
    pub(super) chunks: JoinedChunks<'a, Rows<'a>>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// The files of a plan in the journal.
#[derive(Clone)]
pub(super) struct Rows<'a> {
    journal: Arc<Mutex<Journal>>,
    ids: &'a [i64],
    #[cfg_attr(not(feature = "icechunk"), expect(dead_code, reason = "for commits"))]
    eras: &'a [PlannedEra],
    cancel: CancellationToken,
}

impl<'a> Rows<'a> {
    /// Creates a reader of files by their index in `ids`.
    pub(super) fn new(
        journal: &Arc<Mutex<Journal>>,
        ids: &'a [i64],
        eras: &'a [PlannedEra],
        cancel: &CancellationToken,
    ) -> Self {
        Self { journal: Arc::clone(journal), ids, eras, cancel: cancel.clone() }
    }

    /// Returns the row of the journal, and the journal.
    fn find(&self, row: u64) -> Result<(u64, MutexGuard<'_, Journal>), Error> {
        let id = id_of(self.ids, row).and_then(|id| u64::try_from(id).ok()).ok_or(CombineError::Nothing)?;
        Ok((id, self.journal.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the urls of the sources of all files, read one file after the other.
    #[cfg(feature = "icechunk")]
    pub(super) fn source_urls(mut self) -> impl Iterator<Item = Result<String, ChunkReadError>> {
        let rows = self.eras.iter().flat_map(|era| &era.blocks).map(|block| block.row);
        let sources = rows.map(move |row| Ok::<_, Error>(self.chunks(row, "")?.sources));
        sources.flat_map(|sources| match sources {
            Ok(sources) => sources.iter().map(|source| Ok(source.url.clone())).collect(),
            Err(error) => vec![Err(error.into())],
        })
    }
}

impl Members for Rows<'_> {
    type Error = Error;

    fn head(&mut self, row: u64) -> Result<Head, Error> {
        let (id, mut journal) = self.find(row)?;
        Ok(journal.head(id)?)
    }

    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks, Error> {
        if self.cancel.is_cancelled() {
            let files = self.ids.len() as u64;
            return Err(Error::Stopped { done: files, files });
        }
        let (id, mut journal) = self.find(row)?;
        Ok(journal.chunks(id, path)?)
    }
}

/// Returns the entry of `ids` for a row number of the plan.
pub(super) fn id_of(ids: &[i64], row: u64) -> Option<i64> {
    ids.get(usize::try_from(row).ok()?).copied()
}

struct Progress<'a> {
    events: &'a Events,
    cancel: &'a CancellationToken,
    done: u64,
    files: u64,
}

impl Progress<'_> {
    fn step(&mut self) -> Result<(), Error> {
        let Self { done, files, .. } = *self;
        if self.cancel.is_cancelled() {
            return Err(Error::Stopped { done: files, files });
        }
        self.done += 1;
        if done % TOLD == 0 {
            self.events.tell(Event::Combining { done, files });
        }
        Ok(())
    }
}

/// Identifies the rows of a plan, and the options that the output depends on. Further rows continue the chain.
#[derive(Clone, Debug)]
pub(super) struct Chain([u8; 32]);

impl Chain {
    /// Starts a chain with options; `others` describes those that the plan does not depend on.
    pub(super) fn of_options(options: &PlanOptions, others: &str) -> Self {
        Self(Sha256::digest(format!("{options:?} {others}")).into())
    }

    /// Continues a chain from its digest.
    pub(super) fn parse(digest: &str) -> Option<Self> {
        Some(Self(hex::decode(digest).ok()?.try_into().ok()?))
    }

    /// Adds the next file by its row in the journal, and the run that read it: together they identify its record.
    pub(super) fn add(&mut self, id: i64, run: i64) {
        let hasher = Sha256::new().chain_update(self.0);
        self.0 = hasher.chain_update(id.to_le_bytes()).chain_update(run.to_le_bytes()).finalize().into();
    }

    /// Returns the digest in hexadecimal.
    pub(super) fn digest(&self) -> String {
        hex::encode(self.0)
    }
}

/// Returns the kinds of all files, and the signatures of the first thousand.
fn kinds(journal: &Journal) -> Result<(Files, Signatures), Error> {
    let (mut files, mut signatures) = (Files::default(), Signatures::new());
    for (storage, _) in journal.signature_digests()? {
        let signature = serde_json::from_str::<Signature>(&journal.signature(&storage)?);
        let signature = signature.map_err(|error| JournalError::Failed {
            path: journal.path().to_owned(),
            reason: format!("signature {storage}: {error}"),
        })?;
        files.kind(&storage, || signature.digest());
        if signatures.len() < MAX_SIGNATURES {
            signatures.insert(storage, signature);
        }
    }
    Ok((files, signatures))
}

/// Parses the extent of a row of the journal.
pub(super) fn parse_extent(journal: &Journal, id: i64, extent: &str) -> Result<FileExtent, JournalError> {
    serde_json::from_str(extent).map_err(|error| JournalError::Failed {
        path: journal.path().to_owned(),
        reason: format!("row {id}: {error}"),
    })
}

/// Returns the error that describes how the first files of the first two eras differ.
fn mismatch(journal: &Journal, signatures: &Signatures, eras: &[(u64, String)]) -> Error {
    let of_file = |url: &str| signatures.get(&journal.storage_of(url).ok()?);
    let mut first = eras.iter().filter_map(|(_, url)| of_file(url));
    let differences = match (first.next(), first.next()) {
        (Some(left), Some(right)) => differences(left, right),
        _ => Vec::new(),
    };
    let more = differences.len().saturating_sub(NAMED);
    let said =
        |Difference { path, what, left, right }: &Difference| format!("/{path}: {what} {left}, {right}");
    let mut said: Vec<String> = differences.iter().take(NAMED).map(said).collect();
    if more > 0 {
        said.push(format!("and {more} more"));
    }
    Error::Mismatch { eras: eras.to_vec(), differences: said }
}
