//! Merges eras whose files are compatible though their storage, or the types of their numbers, differ.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use super::{
    arrange::arrange,
    extent::FileExtent,
    model::{Era, Known, Plan, Signatures},
    options::PlanOptions,
    overlap::resolve,
};
use crate::{
    Layout,
    compat::{
        DimRole, MAX_KEPT, Signature,
        geometry::Geometry,
        numbers_agree,
        storage::{ArrayParts, StorageOptions},
    },
    values::Scalar,
};

/// Maximum number of eras for which merging is tried.
const MAX_ERAS: usize = 1024;

/// Maximum number of files whose coordinates are cached.
const MAX_COORDINATES: usize = 10_000;

/// Merges eras whose files differ only in what the files' places, or conversion of numbers, can reconcile.
pub(crate) fn merge(eras: Vec<Era>, known: &Known<'_>, layout: &Layout, options: &PlanOptions) -> Vec<Era> {
    if eras.len() < 2 || eras.len() > MAX_ERAS || layout.along.is_empty() {
        return eras;
    }
    let cores: BTreeMap<&str, String> = known
        .signatures
        .iter()
        .map(|(storage, signature)| (storage.as_str(), signature.core_digest()))
        .collect();
    let mut of_core: BTreeMap<&String, Vec<Era>> = BTreeMap::new();
    let mut merged = Vec::new();
    for era in eras {
        match common(&era.1, &cores) {
            Some(core) => of_core.entry(core).or_default().push(era),
            None => merged.push(era),
        }
    }
    let merging = Merging { known, layout, options, coordinates: RefCell::default() };
    merged.extend(of_core.into_values().flat_map(|eras| merging.merge(eras)));
    merged.sort_by_key(|(_, files)| files.first().map(|file| file.row));
    merged
}

/// Returns the core digest that all files of an era share.
fn common<'a>(files: &[FileExtent], cores: &'a BTreeMap<&str, String>) -> Option<&'a String> {
    let storages: BTreeSet<&str> = files.iter().map(|file| file.storage.as_str()).collect();
    let mut found = storages.into_iter().map(|storage| cores.get(storage));
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

type RowAndDimension = (u64, String);

/// Merges eras of one core digest.
struct Merging<'a> {
    known: &'a Known<'a>,
    layout: &'a Layout,
    options: &'a PlanOptions,
    /// Coordinates of files that overlap others, by row and dimension; each file is read once.
    coordinates: RefCell<HashMap<RowAndDimension, Option<Vec<Scalar>>>>,
}

impl Merging<'_> {
    /// Merges all eras if they are compatible; otherwise each half by itself, and then one half's eras with the other's.
    fn merge(&self, mut eras: Vec<Era>) -> Vec<Era> {
        if eras.len() < 2 || self.is_possible(&eras.iter().collect::<Vec<_>>()) {
            return eras.into_iter().reduce(concatenated).into_iter().collect();
        }
        let others = eras.split_off(eras.len().div_ceil(2));
        let mut merged = self.merge(eras);
        for era in self.merge(others) {
            match merged
                .iter()
                .position(|there| self.may_be_possible(there, &era) && self.is_possible(&[there, &era]))
            {
                Some(at) => {
                    let there = merged.remove(at);
                    merged.insert(at, concatenated(there, era));
                }
                None => merged.push(era),
            }
        }
        merged
    }

    /// Returns false if the first signatures of two eras rule it out, wherever the files are placed.
    fn may_be_possible(&self, one: &Era, other: &Era) -> bool {
        let signature = |(_, files): &Era| self.known.signatures.get(&files.first()?.storage);
        signature(one).zip(signature(other)).is_some_and(|(one, other)| one.may_share_storage(other))
    }

    fn is_possible(&self, eras: &[&Era]) -> bool {
        let mut files: Vec<&FileExtent> = eras.iter().flat_map(|(_, files)| files).collect();
        files.sort_by_key(|file| file.row);
        let Self { known, layout, options, .. } = self;
        let coordinates = |row: u64, name: &str| self.coordinates(row, name);
        // Files that no selection separates are refused later, with the reason, if nothing else distinguishes them.
        let clipped = resolve(&files, &coordinates, layout, options.on_duplicate, &mut Plan::default());
        let clipped = clipped.unwrap_or_default();
        if let Some(clipped) = &clipped {
            files = clipped.iter().collect();
        }
        Candidate { files: &files, signatures: &known.signatures, layout, options }.check().is_some()
    }

    fn coordinates(&self, row: u64, name: &str) -> Option<Vec<Scalar>> {
        let key = (row, name.to_owned());
        if let Some(known) = self.coordinates.borrow().get(&key) {
            return known.clone();
        }
        let found = (self.known.coordinates)(row, name);
        let mut kept = self.coordinates.borrow_mut();
        if kept.len() < MAX_COORDINATES {
            kept.insert(key, found.clone());
        }
        found
    }
}

fn concatenated((name, mut files): Era, (_, mut others): Era) -> Era {
    files.append(&mut others);
    files.sort_by_key(|file| file.row);
    (name, files)
}

/// Files of several signatures that may be compatible.
struct Candidate<'a> {
    files: &'a [&'a FileExtent],
    signatures: &'a Signatures,
    layout: &'a Layout,
    options: &'a PlanOptions,
}

impl Candidate<'_> {
    /// Returns `Some` if all arrays can be joined.
    fn check(&self) -> Option<()> {
        let storages: BTreeSet<&str> = self.files.iter().map(|file| file.storage.as_str()).collect();
        let signatures: Vec<&Signature> =
            storages.into_iter().map(|storage| self.signatures.get(storage)).collect::<Option<_>>()?;
        let first = signatures.first()?;
        if !first.numbers.keys().all(|path| numbers_agree(path, &signatures)) {
            return None;
        }
        // If all arrays are stored alike, joining the files reports the reason why that fails.
        let differing: Vec<&String> =
            first.stored.keys().filter(|path| !Signature::is_stored_alike(path, &signatures)).collect();
        if differing.is_empty() {
            return Some(());
        }
        let (blocks, sizes) = arrange(self.files, self.layout, self.options, &mut Plan::default()).ok()?;
        differing.into_iter().all(|path| self.check_array(path, &blocks, &sizes).is_some()).then_some(())
    }

    fn check_array(
        &self,
        path: &str,
        blocks: &BTreeMap<Vec<usize>, &FileExtent>,
        sizes: &[Vec<u64>],
    ) -> Option<()> {
        let mut sizes = sizes.to_vec();
        let mut parts = BTreeMap::new();
        let (mut first, mut bytes) = (None, 0_u64);
        for (at, file) in blocks {
            let signature = self.signatures.get(&file.storage)?;
            let stored = signature.stored.get(path)?;
            let (leading, _) = *first.get_or_insert((stored, signature.arrays.get(path)?));
            let lengths: Vec<u64> = file.extents.iter().map(|extent| extent.size).collect();
            let part = stored.chunk_layout(&file.url, &lengths, stored.codecs == leading.codecs)?;
            for ((role, n), sizes) in stored.roles.iter().zip(at).zip(&mut sizes) {
                if let DimRole::Axis(axis) = role {
                    *sizes.get_mut(*n)? = *part.shape.get(*axis)?;
                }
            }
            bytes =
                bytes.saturating_add(part.shape.iter().fold(stored.element, |all, n| all.saturating_mul(*n)));
            let at = stored.roles.iter().zip(at);
            let at = at.map(|(role, n)| if *role == DimRole::Invariant { 0 } else { *n }).collect();
            parts.insert(at, part);
        }
        if bytes > MAX_KEPT {
            parts.values_mut().for_each(|part| part.is_read = false);
        }
        let (stored, signed) = first?;
        let shape = parts.values().next()?.shape.to_vec();
        let names: Vec<String> = self.layout.along.iter().map(|along| along.name().to_owned()).collect();
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = Geometry::new(&stored.roles, &shape, &signed.dimensions, &names, &sizes)?;
        let Layout { rectilinear, inline_limit, .. } = *self.layout;
        let options = StorageOptions { rectilinear, inline_limit };
        let parts = ArrayParts { url: "", always_copied: false, is_plain: stored.is_plain, parts };
        parts.storage(&geometry, options).ok().map(drop)
    }
}
