use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::{
    Layout, Member, Result,
    compat::{ArraySignature, Difference, Signature, differences},
    journal::{Failure, FileRecord, Journal, JournalError, Planned, Record, json_text},
    plan::{
        FileExtent, Files, Known, OnDuplicate, PlanOptions, Proposal, Range, Refused, Signatures, merge, plan,
    },
    values::{Scalar, calendar::decode},
};

/// Maximum number of signatures that are kept to report differences.
const KEPT: usize = 1000;
/// Maximum number of signatures with which options are tried.
const MAX_TRIED: usize = 10_000;

/// What a scan records of a file, besides its signature.
#[derive(Serialize, Deserialize)]
struct Seen {
    /// Number of stored chunks of all arrays.
    chunks: u64,
    /// Properties that decide compatibility with files that store the same content differently; `None` if they cannot
    /// be determined.
    extent: Option<FileExtent>,
}

/// Returns the record of a file. Its kind is that of files with exactly this signature.
pub(super) fn record(member: &Member, layout: &Layout) -> Result<Record, Failure> {
    let signature = json_text(&Signature::of(member, layout))?;
    let chunks = member.hierarchy.arrays().iter().map(|(_, array)| array.chunks.len()).sum();
    let seen = Seen { chunks, extent: FileExtent::of(member, layout).ok() };
    Ok(Record::Member(Box::new(FileRecord {
        storage: hex::encode(Sha256::digest(&signature)),
        signature: signature.into(),
        extent: json_text(&seen)?,
        ..FileRecord::default()
    })))
}

/// Groups the files of a journal. Also returns the options of a batch that write all of them; `None` if none is known.
pub(super) fn group(journal: &Journal, layout: &Layout) -> Result<(FileSets, Option<Proposal>)> {
    let dimensions = layout.along.len();
    let (mut sets, mut files, mut signatures) = (FileSets::default(), Files::default(), Signatures::new());
    let mut kinds = HashMap::new();
    for key in journal.signature_digests()? {
        let signature: Signature = parse(journal, &journal.signature(&key)?)?;
        let (digest, storage) = (signature.digest(), signature.storage_digest());
        let set = sets.set(&digest, &signature, dimensions);
        kinds.insert(key, (set, files.kind(&storage, || digest)));
        if signatures.len() < MAX_TRIED {
            signatures.entry(storage).or_insert(signature);
        }
    }
    journal.for_each_planned(0, |Planned { id, storage, extent, .. }| {
        let (Seen { chunks, extent }, item) = (parse(journal, &extent)?, journal.item(id)?);
        let Some((set, kind)) = kinds.get(&*storage).copied() else { return Ok(()) };
        let extents = extent.as_ref().map(|extent| &*extent.0).unwrap_or_default();
        let sizes = (0..dimensions).map(|n| extents.get(n).map_or(0, |extent| extent.size));
        if let Some(set) = sets.sets.get_mut(set) {
            set.add(item.size.unwrap_or(0), chunks, sizes);
        }
        let coordinate = |n: usize| extents.get(n)?.range.as_ref().map(Coordinate::of);
        let coordinates = (0..dimensions).map(coordinate).collect();
        sets.files.push(File { url: item.url.into(), set, coordinates });
        if let Some(extent) = extent {
            files.push(kind, extent);
        }
        Ok::<_, JournalError>(())
    })?;
    let are_known = files.len() == sets.len();
    let proposal = if are_known { sets.merge(&files, signatures, layout) } else { None };
    Ok((sets, proposal))
}

fn parse<T: DeserializeOwned>(journal: &Journal, text: &str) -> Result<T, JournalError> {
    serde_json::from_str(text).map_err(|error| JournalError::failed(journal.path(), error))
}

/// Range of coordinates of a file along a dimension.
#[derive(Clone, PartialEq, Debug)]
pub struct Coordinate {
    /// First coordinate; times as dates.
    pub first: String,
    /// Last coordinate; times as dates.
    pub last: String,
    /// First coordinate as a number that orders files; for times, comparable across calendars.
    order: f64,
}

impl Coordinate {
    fn of(range: &Range) -> Self {
        let described = |value: &Scalar| {
            let date = range.units().and_then(|units| decode(value, units, range.calendar()));
            date.map(|(time, date)| (as_float(time), date)).unwrap_or_else(|| match value {
                Scalar::Text(text) => (f64::NAN, text.to_string()),
                Scalar::Float(number) => (*number, number.to_string()),
                whole => (whole.to_i128().map_or(f64::NAN, as_float), whole.to_string()),
            })
        };
        let ((order, first), (_, last)) = (described(&range.first), described(&range.last));
        Self { first, last, order }
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is for the order of files, which are further apart")]
fn as_float(number: i128) -> f64 {
    number as f64
}

/// Files grouped into sets. A file takes a few hundred bytes of memory.
#[derive(Clone, Debug, Default)]
pub struct FileSets {
    /// Sets in order of first occurrence.
    sets: Vec<FileSet>,
    by_digest: HashMap<String, Vec<usize>>,
    files: Vec<File>,
}

/// Files with one signature.
#[derive(Clone, PartialEq, Debug)]
pub struct FileSet {
    /// Digest of the signature. Sets with the same digest differ in optional arrays.
    pub digest: String,
    /// Signature with all optional arrays of its files; kept for the first 1,000 sets.
    pub(crate) signature: Option<Signature>,
    /// Number of files.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Total number of stored chunks.
    pub chunks: u64,
    /// Minimum and maximum number of elements per file, and the total of all files, along each dimension of the layout.
    pub extents: Vec<[u64; 3]>,
}

#[derive(Clone, Debug)]
struct File {
    url: Box<str>,
    set: usize,
    coordinates: Box<[Option<Coordinate>]>,
}

/// Consecutive files of one set.
#[derive(Clone, PartialEq, Debug)]
pub struct FileRun<'a> {
    /// Index of the set.
    pub set: usize,
    /// The files, in order.
    pub files: Vec<&'a str>,
    /// First and last coordinate along each dimension of the layout, if known.
    pub coordinates: Vec<Option<(&'a str, &'a str)>>,
    /// Differences from the previous run; `None` if unknown.
    pub differences: Option<Arc<Vec<Difference>>>,
}

impl FileSets {
    /// Returns the set of files with a signature: the first with this digest whose optional arrays agree, or else a new one.
    fn set(&mut self, digest: &str, signature: &Signature, dimensions: usize) -> usize {
        let alike = self.by_digest.entry(digest.to_owned()).or_default();
        let of_set = |set: &&usize| self.sets.get(**set).is_some_and(|set| set.takes(signature));
        if let Some(set) = alike.iter().find(of_set) {
            if let Some(known) = self.sets.get_mut(*set).and_then(|set| set.signature.as_mut()) {
                for (path, array) in &signature.optional {
                    known.optional.entry(path.clone()).or_insert_with(|| array.clone());
                }
            }
            return *set;
        }
        let set = self.sets.len();
        alike.push(set);
        let signature = (set < KEPT).then(|| signature.clone());
        let extents = vec![[u64::MAX, 0, 0]; dimensions];
        let digest = digest.to_owned();
        self.sets.push(FileSet { digest, signature, files: 0, bytes: 0, chunks: 0, extents });
        set
    }

    /// Merges sets whose files are compatible despite different storage. Returns the options of a batch that write all
    /// files; `None` if none is known.
    fn merge(&mut self, extents: &Files, signatures: Signatures, layout: &Layout) -> Option<Proposal> {
        let mut sets: Vec<Vec<u32>> = vec![Vec::new(); self.sets.len()];
        for (row, file) in (0..).zip(&self.files) {
            sets.get_mut(file.set)?.push(row);
        }
        let has_optional =
            |set: &FileSet| set.signature.as_ref().is_some_and(|known| !known.optional.is_empty());
        if self.files.is_empty() || layout.along.is_empty() || self.sets.iter().any(has_optional) {
            return None;
        }
        let options = PlanOptions { on_duplicate: OnDuplicate::First, ..PlanOptions::default() };
        let known = Known { signatures, ..Known::nothing() };
        let merged = merge(extents, sets, &known, layout, &options);
        let options = PlanOptions::default();
        let proposal = match plan(extents.clone(), &known, layout, &options) {
            Ok(plan) => Some(Proposal::default().with(&plan)),
            Err(error) => {
                Refused { files: extents, known: &known, layout, options: &options, is_written: false }
                    .best(&error)
            }
        };
        let mut before: Vec<Option<FileSet>> = std::mem::take(&mut self.sets).into_iter().map(Some).collect();
        for (set, rows) in merged.into_iter().enumerate() {
            let mut whole: Option<FileSet> = None;
            for row in rows {
                let file = usize::try_from(row).ok().and_then(|row| self.files.get_mut(row));
                let Some(file) = file else { continue };
                let old = before.get_mut(std::mem::replace(&mut file.set, set)).and_then(Option::take);
                match (&mut whole, old) {
                    (Some(whole), Some(old)) => whole.join(&old),
                    (None, old) => whole = old,
                    (Some(_), None) => {}
                }
            }
            self.sets.extend(whole);
        }
        proposal
    }

    /// Returns the sets in order of first occurrence.
    pub fn sets(&self) -> &[FileSet] {
        &self.sets
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns whether files are ordered by their coordinates, which requires a known coordinate along every dimension.
    /// Otherwise files keep the order of the listing.
    pub fn is_ordered(&self) -> bool {
        let known = |file: &File| {
            let orders = file.coordinates.iter();
            !file.coordinates.is_empty()
                && orders.flatten().filter(|one| !one.order.is_nan()).count() == file.coordinates.len()
        };
        self.files.iter().all(known)
    }

    /// Returns runs of consecutive files of one set, in order.
    pub fn runs(&self) -> Vec<FileRun<'_>> {
        let mut files: Vec<&File> = self.files.iter().collect();
        if self.is_ordered() {
            files.sort_by(|one, other| {
                let pairs = one.coordinates.iter().flatten().zip(other.coordinates.iter().flatten());
                pairs
                    .map(|(one, other)| one.order.total_cmp(&other.order))
                    .find(|order| order.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        let mut known_differences: HashMap<(usize, usize), Option<Arc<Vec<Difference>>>> = HashMap::new();
        let mut before = None;
        let mut runs = Vec::new();
        for run in files.chunk_by(|one, other| one.set == other.set) {
            let Some(first) = run.first() else { continue };
            let from = before.replace(first.set);
            let differences = from.and_then(|from| {
                known_differences
                    .entry((from, first.set))
                    .or_insert_with(|| self.differences(from, first.set).map(Arc::new))
                    .clone()
            });
            let range = |at: usize| {
                let (first, last) = (first.coordinates.get(at)?, run.last()?.coordinates.get(at)?);
                Some((first.as_ref()?.first.as_str(), last.as_ref()?.last.as_str()))
            };
            runs.push(FileRun {
                set: first.set,
                files: run.iter().map(|file| &*file.url).collect(),
                coordinates: (0..first.coordinates.len()).map(range).collect(),
                differences,
            });
        }
        runs
    }

    /// Returns the differences between two sets; `None` if a signature was not kept.
    fn differences(&self, one: usize, other: usize) -> Option<Vec<Difference>> {
        let signature = |set: usize| self.sets.get(set)?.signature.as_ref();
        Some(differences(signature(one)?, signature(other)?))
    }
}

impl FileSet {
    /// Returns whether the optional arrays of files of the same digest agree.
    fn takes(&self, other: &Signature) -> bool {
        let agrees = |known: &Signature| {
            let mut optional = other.optional.iter();
            optional.all(|(path, array)| known.optional.get(path).is_none_or(|known| known == array))
        };
        self.signature.as_ref().map_or(other.optional.is_empty(), agrees)
    }

    /// Adds the files of a compatible set.
    fn join(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.chunks = self.chunks.saturating_add(other.chunks);
        for ([least, most, all], [others_least, others_most, others_all]) in
            self.extents.iter_mut().zip(&other.extents)
        {
            (*least, *most) = ((*least).min(*others_least), (*most).max(*others_most));
            *all = all.saturating_add(*others_all);
        }
        let Some((own, others)) = self.signature.as_mut().zip(other.signature.as_ref()) else { return };
        for (path, array) in &mut own.arrays {
            if let Some(other) = others.arrays.get(path) {
                array.merge(other);
            }
        }
    }

    /// Adds a file, given its bytes, its chunks, and its elements along each dimension.
    fn add(&mut self, bytes: u64, chunks: u64, sizes: impl Iterator<Item = u64>) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.chunks = self.chunks.saturating_add(chunks);
        for ([least, most, all], size) in self.extents.iter_mut().zip(sizes) {
            (*least, *most) = ((*least).min(size), (*most).max(size));
            *all = all.saturating_add(size);
        }
    }
}

impl FileSets {
    /// Returns the arrays of a set by path, including optional ones.
    pub(crate) fn arrays(&self, set: usize) -> BTreeMap<&str, &ArraySignature> {
        let signature = self.sets.get(set).and_then(|set| set.signature.as_ref());
        let arrays =
            signature.into_iter().flat_map(|signature| signature.arrays.iter().chain(&signature.optional));
        arrays.map(|(path, array)| (path.as_str(), array)).collect()
    }
}
