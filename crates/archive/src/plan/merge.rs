//! Eras of files that can stand beside each other though they are stored in several ways.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use super::{
    arrange::arrange,
    extent::Brief,
    model::{Era, Kinds, Known, Plan},
    options::PlanOptions,
    overlap::resolve,
};
use crate::{
    Layout,
    compat::{
        Place, Signature, Stored,
        geometry::Geometry,
        numbers_agree,
        storage::{Allowed, Laid, MOST_KEPT, Parts, decide},
    },
    values::Scalar,
};

/// Most eras of which it is tried.
const MOST: usize = 1024;

/// Joins eras whose files agree in all but what their parts' places, or their numbers, decide.
pub(crate) fn merge(eras: Vec<Era>, known: &Known<'_>, layout: &Layout, options: &PlanOptions) -> Vec<Era> {
    if eras.len() < 2 || eras.len() > MOST || layout.along.is_empty() {
        return eras;
    }
    let agreements: BTreeMap<&str, String> =
        known.kinds.iter().map(|(kind, signature)| (kind.as_str(), signature.agreement())).collect();
    let mut alike: BTreeMap<&String, Vec<Era>> = BTreeMap::new();
    let mut merged = Vec::new();
    for era in eras {
        match common(&era.1, &agreements) {
            Some(agreement) => alike.entry(agreement).or_default().push(era),
            None => merged.push(era),
        }
    }
    let merging = Merging { known, layout, options, coordinates: RefCell::default() };
    merged.extend(alike.into_values().flat_map(|eras| merging.groups(eras)));
    merged.sort_by_key(|(_, briefs)| briefs.first().map(|brief| brief.row));
    merged
}

/// What all files of an era agree in.
fn common<'a>(briefs: &[Brief], agreements: &'a BTreeMap<&str, String>) -> Option<&'a String> {
    let kinds: BTreeSet<&str> = briefs.iter().map(|brief| brief.kind.as_str()).collect();
    let mut found = kinds.into_iter().map(|kind| agreements.get(kind));
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

/// Eras of one agreement on their way to fewer.
struct Merging<'a> {
    known: &'a Known<'a>,
    layout: &'a Layout,
    options: &'a PlanOptions,
    /// Coordinates of files that overlap others, by row and dimension, so that each is read once.
    coordinates: RefCell<HashMap<OfRow, Option<Vec<Scalar>>>>,
}

/// Row and dimension.
type OfRow = (u64, String);

/// Most files whose coordinates are kept.
const MOST_COORDINATES: usize = 10_000;

impl Merging<'_> {
    /// All of them together if they can be, else each half by itself, and then one half's with the other's.
    fn groups(&self, mut eras: Vec<Era>) -> Vec<Era> {
        if eras.len() < 2 || self.is_possible(&eras.iter().collect::<Vec<_>>()) {
            return eras.into_iter().reduce(together).into_iter().collect();
        }
        let others = eras.split_off(eras.len().div_ceil(2));
        let mut groups = self.groups(eras);
        for era in self.groups(others) {
            match groups
                .iter()
                .position(|there| self.may_be_possible(there, &era) && self.is_possible(&[there, &era]))
            {
                Some(at) => {
                    let there = groups.remove(at);
                    groups.insert(at, together(there, era));
                }
                None => groups.push(era),
            }
        }
        groups
    }

    /// Whether the first kinds of two eras do not rule it out, wherever the files are.
    fn may_be_possible(&self, one: &Era, other: &Era) -> bool {
        let kind = |(_, briefs): &Era| self.known.kinds.get(&briefs.first()?.kind);
        let (Some(one), Some(other)) = (kind(one), kind(other)) else { return false };
        one.stored.iter().all(|(path, stored)| {
            let Some(others) = other.stored.get(path) else { return false };
            (stored.is_read && others.is_read) || stored.codecs == others.codecs
        })
    }

    fn is_possible(&self, eras: &[&Era]) -> bool {
        let mut briefs: Vec<&Brief> = eras.iter().flat_map(|(_, briefs)| briefs).collect();
        briefs.sort_by_key(|brief| brief.row);
        let Self { known, layout, options, .. } = self;
        let coordinates = |row: u64, name: &str| self.coordinates(row, name);
        // Files that cannot be cut are refused with the reason where nothing else tells them apart.
        let cut = resolve(&briefs, &coordinates, layout, options.on_duplicate, &mut Plan::default());
        let cut = cut.unwrap_or_default();
        if let Some(cut) = &cut {
            briefs = cut.iter().collect();
        }
        Together { briefs: &briefs, kinds: &known.kinds, layout, options }.is_possible().is_some()
    }

    fn coordinates(&self, row: u64, name: &str) -> Option<Vec<Scalar>> {
        let key = (row, name.to_owned());
        if let Some(known) = self.coordinates.borrow().get(&key) {
            return known.clone();
        }
        let found = (self.known.coordinates)(row, name);
        let mut kept = self.coordinates.borrow_mut();
        if kept.len() < MOST_COORDINATES {
            kept.insert(key, found.clone());
        }
        found
    }
}

fn together((name, mut briefs): Era, (_, mut others): Era) -> Era {
    briefs.append(&mut others);
    briefs.sort_by_key(|brief| brief.row);
    (name, briefs)
}

/// Files of several kinds that may be put together.
struct Together<'a> {
    briefs: &'a [&'a Brief],
    kinds: &'a Kinds,
    layout: &'a Layout,
    options: &'a PlanOptions,
}

impl Together<'_> {
    /// Something where all their arrays can be.
    fn is_possible(&self) -> Option<()> {
        let names: BTreeSet<&str> = self.briefs.iter().map(|brief| brief.kind.as_str()).collect();
        let kinds: Vec<&Signature> =
            names.into_iter().map(|kind| self.kinds.get(kind)).collect::<Option<_>>()?;
        let first = kinds.first()?;
        if !first.numbers.keys().all(|path| numbers_agree(path, &kinds)) {
            return None;
        }
        // Where those of no array differ, the reason is told when files are put together.
        let differing: Vec<&String> =
            first.stored.keys().filter(|path| !stored_alike(path, &kinds)).collect();
        if differing.is_empty() {
            return Some(());
        }
        let (blocks, sizes) = arrange(self.briefs, self.layout, self.options, &mut Plan::default()).ok()?;
        differing.into_iter().all(|path| self.array(path, &blocks, &sizes).is_some()).then_some(())
    }

    fn array(&self, path: &str, blocks: &BTreeMap<Vec<usize>, &Brief>, sizes: &[Vec<u64>]) -> Option<()> {
        let mut sizes = sizes.to_vec();
        let mut parts: BTreeMap<Vec<usize>, Part<'_>> = BTreeMap::new();
        let (mut first, mut bytes) = (None, 0_u64);
        for (at, brief) in blocks {
            let signature = self.kinds.get(&brief.kind)?;
            let stored = signature.stored.get(path)?;
            let (leading, _) = *first.get_or_insert((stored, signature.arrays.get(path)?));
            let part = Part::of(brief, stored, stored.codecs == leading.codecs)?;
            for ((place, n), sizes) in stored.places.iter().zip(at).zip(&mut sizes) {
                if let Place::Axis(axis) = place {
                    *sizes.get_mut(*n)? = *part.shape.get(*axis)?;
                }
            }
            bytes =
                bytes.saturating_add(part.shape.iter().fold(stored.element, |all, n| all.saturating_mul(*n)));
            let places = stored.places.iter().zip(at);
            parts.insert(
                places.map(|(place, n)| if *place == Place::Absent { 0 } else { *n }).collect(),
                part,
            );
        }
        if bytes > MOST_KEPT {
            parts.values_mut().for_each(|part| part.is_read = false);
        }
        let (stored, signed) = first?;
        let shape = parts.values().next()?.shape.clone();
        let names: Vec<String> = self.layout.along.iter().map(|along| along.name().to_owned()).collect();
        let sizes: Vec<&[u64]> = sizes.iter().map(Vec::as_slice).collect();
        let geometry = Geometry::new(&stored.places, &shape, &signed.dimensions, &names, &sizes)?;
        let allowed =
            Allowed { rectilinear: self.layout.rectilinear, inline_limit: self.layout.inline_limit };
        let parts = Parts { url: "", always: false, is_plain: stored.is_plain, pieces: &parts };
        decide(&parts, &geometry, allowed).ok().map(drop)
    }
}

/// The part of an array that is in one file.
struct Part<'a> {
    url: &'a str,
    shape: Vec<u64>,
    chunk: Option<Vec<u64>>,
    fits: bool,
    is_read: bool,
}

impl<'a> Part<'a> {
    fn of(brief: &'a Brief, stored: &Stored, fits: bool) -> Option<Self> {
        let extent = |axis: usize| {
            let dimension = stored.places.iter().position(|place| *place == Place::Axis(axis))?;
            brief.extents.get(dimension).map(|extent| extent.size)
        };
        let shape = stored.shape.iter().enumerate().map(|(axis, n)| n.or_else(|| extent(axis)));
        let shape: Vec<u64> = shape.collect::<Option<_>>()?;
        let chunk = stored.chunks.as_ref().map(|chunks| {
            chunks.iter().zip(&shape).map(|(chunk, n)| chunk.unwrap_or(*n)).collect::<Vec<_>>()
        });
        Some(Self { url: &brief.url, shape, chunk, fits, is_read: stored.is_read })
    }
}

impl Laid for Part<'_> {
    fn url(&self) -> &str {
        self.url
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn chunk(&self) -> Option<&[u64]> {
        self.chunk.as_deref()
    }

    fn fits(&self) -> bool {
        self.fits
    }

    fn is_read(&self) -> bool {
        self.is_read
    }
}

/// Whether chunks and codecs of an array agree, as far as they must.
fn stored_alike(path: &str, kinds: &[&Signature]) -> bool {
    let mut all = kinds.iter().map(|kind| kind.arrays.get(path).map(|array| (&array.chunks, &array.codecs)));
    let first = all.next();
    all.all(|other| Some(other) == first)
}
