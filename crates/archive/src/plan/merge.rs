//! Merges eras whose files are compatible though their storage, or the types of their numbers, differ.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use super::{
    arrange::{arrange, extent_of, number},
    files::Files,
    model::{Block, Era, Known, Plan, Source},
    options::PlanOptions,
    overlap::{Change, resolve},
};
use crate::{
    Layout,
    compat::{
        DimRole, MAX_KEPT, Signature,
        geometry::Geometry,
        numbers_agree,
        storage::{ArrayParts, ChunkLayout},
    },
    values::Scalar,
};

/// Maximum number of eras for which merging is tried.
const MAX_ERAS: usize = 1024;

/// Maximum number of files whose coordinates are cached.
const MAX_COORDINATES: usize = 10_000;

/// Merges eras whose files differ only in what the files' places, or conversion of numbers, can reconcile.
pub(crate) fn merge(
    files: &Files,
    eras: Vec<Era>,
    known: &Known<'_>,
    layout: &Layout,
    options: &PlanOptions,
) -> Vec<Era> {
    if eras.len() < 2 || eras.len() > MAX_ERAS || layout.along.is_empty() {
        return eras;
    }
    let kinds = Kinds::new(files, known);
    let mut of_core: BTreeMap<String, Vec<Era>> = BTreeMap::new();
    let mut merged = Vec::new();
    for era in eras {
        match kinds.common_core(files, &era) {
            Some(core) => of_core.entry(core).or_default().push(era),
            None => merged.push(era),
        }
    }
    let merging = Merging { files, kinds, known, layout, options, coordinates: RefCell::default() };
    merged.extend(of_core.into_values().flat_map(|eras| merging.merge(eras)));
    merged.sort_by_key(|era| era.first().copied());
    merged
}

/// The signatures of files by the number of their kind, as far as they are known.
struct Kinds<'a>(Vec<Option<&'a Signature>>);

impl<'a> Kinds<'a> {
    fn new(files: &Files, known: &'a Known<'_>) -> Self {
        Self(files.kinds().iter().map(|kind| known.signatures.get(&kind.storage)).collect())
    }

    fn get(&self, kind: u32) -> Option<&'a Signature> {
        *self.0.get(usize::try_from(kind).ok()?)?
    }

    /// Returns the core digest that all files of an era share.
    fn common_core(&self, files: &Files, era: &Era) -> Option<String> {
        let kinds: BTreeSet<u32> = era.iter().map(|file| files.kind_of(*file)).collect();
        let mut found = kinds.into_iter().map(|kind| self.get(kind).map(Signature::core_digest));
        let first = found.next()??;
        found.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }
}

type RowAndDimension = (u64, String);

/// Merges eras of one core digest.
struct Merging<'a> {
    files: &'a Files,
    kinds: Kinds<'a>,
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
        let signature = |era: &Era| self.kinds.get(self.files.kind_of(*era.first()?));
        signature(one).zip(signature(other)).is_some_and(|(one, other)| one.may_share_storage(other))
    }

    fn is_possible(&self, eras: &[&Era]) -> bool {
        let mut era: Era = eras.iter().copied().flatten().copied().collect();
        era.sort_unstable();
        let source = Source { files: self.files, url: self.known.url };
        let coordinates = |row: u64, name: &str| self.coordinates(row, name);
        // Files that no selection separates are refused later, with the reason, if nothing else distinguishes them.
        let changes = resolve(source, &era, &coordinates, self.layout, self.options.on_duplicate);
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return self.fit(self.files, &era);
        }
        let mut files = self.files.clone();
        apply(changes, &mut files, &mut era);
        self.fit(&files, &era)
    }

    fn fit(&self, files: &Files, era: &Era) -> bool {
        let source = Source { files, url: self.known.url };
        let Self { kinds, layout, options, .. } = self;
        Candidate { source, era, kinds, layout, options }.check().is_some()
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

/// Applies changes to files that overlap others.
pub(super) fn apply(changes: Vec<(u32, Change)>, files: &mut Files, era: &mut Era) {
    let mut left_out = BTreeSet::new();
    for (file, change) in changes {
        match change {
            Change::LeftOut => drop(left_out.insert(file)),
            Change::Clipped(extent, _) => files.set_extent(file, extent),
        }
    }
    era.retain(|file| !left_out.contains(file));
}

fn concatenated(mut era: Era, mut other: Era) -> Era {
    era.append(&mut other);
    era.sort_unstable();
    era
}

/// Files of several signatures that may be compatible.
struct Candidate<'a> {
    source: Source<'a>,
    era: &'a Era,
    kinds: &'a Kinds<'a>,
    layout: &'a Layout,
    options: &'a PlanOptions,
}

impl Candidate<'_> {
    /// Returns `Some` if all arrays can be joined.
    fn check(&self) -> Option<()> {
        let kinds: BTreeSet<u32> = self.era.iter().map(|file| self.source.files.kind_of(*file)).collect();
        let signatures: Vec<&Signature> =
            kinds.into_iter().map(|kind| self.kinds.get(kind)).collect::<Option<_>>()?;
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
        let arranged = arrange(self.source, self.era, self.layout, self.options, &mut Plan::default());
        let (blocks, sizes) = arranged.ok()?;
        differing.into_iter().all(|path| self.check_array(path, &blocks, &sizes).is_some()).then_some(())
    }

    fn check_array(&self, path: &str, blocks: &[Block], sizes: &[Vec<u64>]) -> Option<()> {
        let mut sizes = sizes.to_vec();
        let mut parts: BTreeMap<Vec<usize>, ChunkLayout> = BTreeMap::new();
        let (mut first, mut bytes) = (None, 0_u64);
        for block in blocks {
            let at: Vec<usize> =
                block.at.iter().map(|n| usize::try_from(*n)).collect::<Result<_, _>>().ok()?;
            let signature = self.kinds.get(self.source.files.kind_of(number(block)))?;
            let stored = signature.stored.get(path)?;
            let (leading, _) = *first.get_or_insert((stored, signature.arrays.get(path)?));
            let extent = extent_of(self.source, block)?;
            let lengths: Vec<u64> = extent.extents().iter().map(|extent| extent.size).collect();
            let part = stored.chunk_layout(&lengths, stored.codecs == leading.codecs)?;
            for ((role, n), sizes) in stored.roles.iter().zip(&at).zip(&mut sizes) {
                if let DimRole::Axis(axis) = role {
                    *sizes.get_mut(*n)? = *part.shape.get(*axis)?;
                }
            }
            bytes =
                bytes.saturating_add(part.shape.iter().fold(stored.element, |all, n| all.saturating_mul(*n)));
            let at = stored.roles.iter().zip(at);
            let at = at.map(|(role, n)| if *role == DimRole::Invariant { 0 } else { n }).collect();
            parts.insert(at, part);
        }
        if bytes > MAX_KEPT {
            parts.values_mut().for_each(|part| part.is_read = false);
        }
        let (stored, signed) = first?;
        let shape = parts.values().next()?.shape.clone();
        let names: Vec<String> = self.layout.along.iter().map(|along| along.name().to_owned()).collect();
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = Geometry::new(&stored.roles, &shape, &signed.dimensions, &names, &sizes)?;
        let layouts = parts.values().collect();
        let parts = ArrayParts { always_copied: false, is_plain: stored.is_plain, layouts };
        parts.storage(&geometry, self.layout.rectilinear).ok().map(drop)
    }
}
