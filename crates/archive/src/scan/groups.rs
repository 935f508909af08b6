use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use virtualize::ArrayValues;
use virtualize::zarr::{FillValue, node};

use crate::compat::{ArraySignature, Difference, Signature, differences, roles::length_along};
use crate::plan::{
    Cure, FileExtent, Files, Known, OnDuplicate, PlanOptions, Refused, Signatures, merge, plan,
};
use crate::values::{
    calendar::{self, Number},
    scalar::{Given, Scalar},
};
use crate::{Along, Layout, Member};

/// Maximum number of signatures that are kept to report differences.
const KEPT: usize = 1000;
/// Maximum number of signatures with which options are tried.
const MAX_TRIED: usize = 10_000;

/// Summary of a file that a scan keeps.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The file.
    pub url: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of stored chunks of all arrays.
    pub chunks: u64,
    /// Its signature.
    pub signature: Signature,
    /// First and last coordinate along each dimension of the layout, if known.
    pub coordinates: Vec<Option<Coordinate>>,
    /// Number of elements along each dimension of the layout.
    pub extents: Vec<u64>,
    /// Properties that decide compatibility with files that store the same content differently; `None` if they cannot
    /// be determined.
    pub extent: Option<FileExtent>,
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

impl Seen {
    /// Returns the summary of a file.
    pub fn of(member: &Member, layout: &Layout) -> Self {
        let hierarchy = &member.hierarchy;
        let listed = hierarchy.sources.first().map(|source| source.size);
        let signature = Signature::of(member, layout);
        Self {
            extent: FileExtent::of(member, layout).ok(),
            url: member.item.url.clone(),
            bytes: member.item.size.or(listed).unwrap_or(0),
            chunks: hierarchy.arrays().iter().map(|(_, array)| array.chunks.len()).sum(),
            signature,
            coordinates: layout.along.iter().map(|along| coordinate(member, along)).collect(),
            extents: layout.along.iter().map(|along| length_along(hierarchy, along)).collect(),
        }
    }
}

/// Returns the range of a file's coordinates along a dimension, from its name or catalogue entry, else from its
/// coordinate array.
fn coordinate(member: &Member, along: &Along) -> Option<Coordinate> {
    let name = along.name();
    if let Some(given) = member.given.get(name) {
        if let Some(Given { value: Scalar::Int(number), units: Some(units) }) = Given::of(given) {
            let number = Number::Whole(number.into());
            let (time, date) = calendar::decode(number, units, Some("proleptic_gregorian"))?;
            return Some(Coordinate { first: date.clone(), last: date, order: nanoseconds(time) });
        }
        let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
        return Some(Coordinate {
            first: text.clone(),
            last: text,
            order: given.as_f64().unwrap_or(f64::NAN),
        });
    }
    let is_named = |path: &str| node::name(path) == name;
    let (path, values) = member.values.iter().find(|(path, _)| is_named(path))?;
    let attributes = &member.hierarchy.array(path)?.attributes;
    let text = |name: &str| attributes.get(name).and_then(Value::as_str);
    let count = values.shape.iter().try_fold(1_u64, |count, length| count.checked_mul(*length))?;
    let said = |at: u64| {
        let number = number(values, at)?;
        let date = text("units").and_then(|units| calendar::decode(number, units, text("calendar")));
        Some(date.map_or_else(|| plain(number), |(time, date)| (nanoseconds(time), date)))
    };
    let ((order, first), (_, last)) = (said(0)?, said(count.checked_sub(1)?)?);
    Some(Coordinate { first, last, order })
}

#[expect(clippy::cast_precision_loss, reason = "it is for the order of files, which are further apart")]
fn nanoseconds(time: i128) -> f64 {
    time as f64
}

/// Returns a number as its sort key and as text.
fn plain(number: Number) -> (f64, String) {
    match number {
        Number::Whole(number) => (nanoseconds(number), number.to_string()),
        Number::Float(number) => (number, number.to_string()),
    }
}

/// Returns the element at an index.
fn number(values: &ArrayValues, at: u64) -> Option<Number> {
    let size = usize::try_from(values.data_type.size()?).ok()?;
    let start = usize::try_from(at).ok()?.checked_mul(size)?;
    let element = values.bytes.get(start..start.checked_add(size)?)?;
    let scalar = FillValue::Fixed(values.bytes.slice_ref(element));
    if values.data_type.is_integer() {
        return scalar.to_i128(&values.data_type).map(Number::Whole);
    }
    scalar.to_f64(&values.data_type).map(Number::Float)
}

/// Files grouped into eras. A file takes a few hundred bytes of memory.
#[derive(Clone, Debug, Default)]
pub struct Eras {
    /// Eras in order of first occurrence.
    eras: Vec<Era>,
    by_digest: HashMap<String, Vec<usize>>,
    files: Vec<File>,
    signatures: Signatures,
    /// Extents of the files, as long as all are known; `None` after eras were merged.
    extents: Option<Files>,
}

/// Files with one signature.
#[derive(Clone, PartialEq, Debug)]
pub struct Era {
    /// Digest of the signature. Eras with the same digest differ in optional arrays.
    pub digest: String,
    /// Signature with all optional arrays of its files; kept for the first 1,000 eras.
    pub signature: Option<Signature>,
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
    era: usize,
    coordinates: Box<[Option<Coordinate>]>,
}

/// Consecutive files of one era.
#[derive(Clone, PartialEq, Debug)]
pub struct Stretch<'a> {
    /// Index of the era.
    pub era: usize,
    /// The files, in order.
    pub files: Vec<&'a str>,
    /// First and last coordinate along each dimension of the layout, if known.
    pub coordinates: Vec<Option<(&'a str, &'a str)>>,
    /// Differences from the previous stretch; `None` if unknown.
    pub differences: Option<Arc<Vec<Difference>>>,
}

impl Eras {
    /// Adds a file, in the order of the listing.
    pub fn add(&mut self, seen: Seen) {
        let digest = seen.signature.digest();
        let alike = self.by_digest.get(&digest).into_iter().flatten().copied();
        let era = alike.into_iter().find(|era| self.eras.get(*era).is_some_and(|era| era.takes(&seen)));
        let era = era.unwrap_or_else(|| self.new_era(digest.clone(), &seen));
        if let Some(era) = self.eras.get_mut(era) {
            era.add(&seen);
        }
        let coordinates = seen.coordinates.into_boxed_slice();
        if self.files.is_empty() {
            self.extents = Some(Files::default());
        }
        self.extents = self.extents.take().zip(seen.extent).map(|(mut files, extent)| {
            let storage = seen.signature.storage_digest();
            let kind = files.kind(&storage, || digest);
            files.push(kind, extent);
            if self.signatures.len() < MAX_TRIED {
                self.signatures.entry(storage).or_insert(seen.signature);
            }
            files
        });
        self.files.push(File { url: seen.url.into_boxed_str(), era, coordinates });
    }

    /// Merges eras whose files are compatible despite different storage. Call it once, after the last file. Returns the
    /// options of a batch that write all files; `None` if none is known.
    pub fn merge(&mut self, layout: &Layout) -> Option<Cure> {
        let extents = self.extents.take()?;
        let mut eras: Vec<Vec<u32>> = vec![Vec::new(); self.eras.len()];
        for (row, file) in (0..).zip(&self.files) {
            let era = eras.get_mut(file.era)?;
            era.push(row);
        }
        let has_optional = |era: &Era| era.signature.as_ref().is_some_and(|known| !known.optional.is_empty());
        if layout.along.is_empty() || self.eras.iter().any(has_optional) {
            return None;
        }
        let options = PlanOptions { on_duplicate: OnDuplicate::First, ..PlanOptions::default() };
        let known = Known { signatures: std::mem::take(&mut self.signatures), ..Known::nothing() };
        let merged = merge(&extents, eras, &known, layout, &options);
        let options = PlanOptions::default();
        let cure = match plan(extents.clone(), &known.with(known.signatures.clone()), layout, &options) {
            Ok(_) => Some(Cure::default()),
            Err(error) => {
                Refused { files: &extents, known: &known, layout, options: &options, is_written: false }
                    .best(&error)
            }
        };
        let mut before: Vec<Option<Era>> = std::mem::take(&mut self.eras).into_iter().map(Some).collect();
        for (era, rows) in merged.into_iter().enumerate() {
            let mut whole: Option<Era> = None;
            for row in rows {
                let file = usize::try_from(row).ok().and_then(|row| self.files.get_mut(row));
                let Some(file) = file else { continue };
                let old = before.get_mut(std::mem::replace(&mut file.era, era)).and_then(Option::take);
                match (&mut whole, old) {
                    (Some(whole), Some(old)) => whole.join(&old),
                    (None, old) => whole = old,
                    (Some(_), None) => {}
                }
            }
            self.eras.extend(whole);
        }
        self.by_digest.clear();
        cure
    }

    /// Adds an empty era, and returns its index.
    fn new_era(&mut self, digest: String, seen: &Seen) -> usize {
        let era = self.eras.len();
        self.by_digest.entry(digest.clone()).or_default().push(era);
        let signature = (era < KEPT).then(|| seen.signature.clone());
        let extents = vec![[u64::MAX, 0, 0]; seen.extents.len()];
        self.eras.push(Era { digest, signature, files: 0, bytes: 0, chunks: 0, extents });
        era
    }

    /// Returns the eras in order of first occurrence.
    pub fn eras(&self) -> &[Era] {
        &self.eras
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

    /// Returns runs of consecutive files of one era, in order.
    pub fn stretches(&self) -> Vec<Stretch<'_>> {
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
        let mut told: HashMap<(usize, usize), Option<Arc<Vec<Difference>>>> = HashMap::new();
        let mut before = None;
        let mut stretches = Vec::new();
        for run in files.chunk_by(|one, other| one.era == other.era) {
            let Some(first) = run.first() else { continue };
            let from = before.replace(first.era);
            let differences = from.and_then(|from| {
                told.entry((from, first.era))
                    .or_insert_with(|| self.differences(from, first.era).map(Arc::new))
                    .clone()
            });
            stretches.push(stretch(run, differences));
        }
        stretches
    }

    /// Returns the differences between two eras; `None` if a signature was not kept.
    pub fn differences(&self, one: usize, other: usize) -> Option<Vec<Difference>> {
        let signature = |era: usize| self.eras.get(era)?.signature.as_ref();
        Some(differences(signature(one)?, signature(other)?))
    }
}

/// Summarizes a run of consecutive files.
fn stretch<'a>(run: &[&'a File], differences: Option<Arc<Vec<Difference>>>) -> Stretch<'a> {
    let (first, last) = (run.first(), run.last());
    let dimensions = first.map_or(0, |file| file.coordinates.len());
    let of = |file: Option<&&'a File>, at: usize| file.and_then(|file| file.coordinates.get(at)?.as_ref());
    let range = |at| Some((of(first, at)?.first.as_str(), of(last, at)?.last.as_str()));
    Stretch {
        era: first.map_or(0, |file| file.era),
        files: run.iter().map(|file| &*file.url).collect(),
        coordinates: (0..dimensions).map(range).collect(),
        differences,
    }
}

impl Era {
    /// Returns whether the optional arrays of a file of the same digest agree.
    fn takes(&self, seen: &Seen) -> bool {
        let agrees = |known: &Signature| {
            let mut optional = seen.signature.optional.iter();
            optional.all(|(path, array)| known.optional.get(path).is_none_or(|known| known == array))
        };
        self.signature.as_ref().map_or(seen.signature.optional.is_empty(), agrees)
    }

    /// Adds the files of a compatible era.
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

    fn add(&mut self, seen: &Seen) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(seen.bytes);
        self.chunks = self.chunks.saturating_add(seen.chunks);
        for ([least, most, all], extent) in self.extents.iter_mut().zip(&seen.extents) {
            (*least, *most) = ((*least).min(*extent), (*most).max(*extent));
            *all = all.saturating_add(*extent);
        }
        if let Some(signature) = &mut self.signature {
            for (path, array) in &seen.signature.optional {
                signature.optional.entry(path.clone()).or_insert_with(|| array.clone());
            }
        }
    }
}

impl Coordinate {
    /// Returns a range of coordinates; `order` is the number that orders files.
    pub fn new(first: impl Into<String>, last: impl Into<String>, order: f64) -> Self {
        Self { first: first.into(), last: last.into(), order }
    }
}

impl Eras {
    /// Returns the arrays of an era by path, including optional ones.
    pub fn arrays(&self, era: usize) -> BTreeMap<&str, &ArraySignature> {
        let signature = self.eras.get(era).and_then(|era| era.signature.as_ref());
        let arrays =
            signature.into_iter().flat_map(|signature| signature.arrays.iter().chain(&signature.optional));
        arrays.map(|(path, array)| (path.as_str(), array)).collect()
    }
}
