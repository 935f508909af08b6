//! The files to plan.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::extent::{FileExtent, Units};

/// The extents of all files, in the order of their rows: the first file has row 0. A file along one dimension takes
/// 72 bytes, unless its coordinates are text or it has units of its own.
#[derive(Clone, Debug, Default)]
pub struct Files {
    files: Vec<File>,
    kinds: Vec<Kind>,
    of_storage: HashMap<String, u32>,
    units: HashSet<Arc<Units>>,
    last_units: Option<Arc<Units>>,
}

#[derive(Clone, Debug)]
struct File {
    kind: u32,
    extent: FileExtent,
}

/// Files that equal each other in all but their values and places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    /// [`crate::compat::Signature::digest`]: files of equal signatures are compatible.
    pub(super) signature: String,
    /// [`crate::compat::Signature::storage_digest`]: how files store their arrays decides whether files of different
    /// signatures are compatible.
    pub(super) storage: String,
}

impl Files {
    /// Declares a kind of files by the storage digest and the digest of their signature, and returns its number.
    pub fn kind(&mut self, storage: &str, signature: impl FnOnce() -> String) -> u32 {
        if let Some(known) = self.of_storage.get(storage) {
            return *known;
        }
        let number = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        self.kinds.push(Kind { signature: signature(), storage: storage.to_owned() });
        self.of_storage.insert(storage.to_owned(), number);
        number
    }

    /// Adds the next file.
    pub fn push(&mut self, kind: u32, mut extent: FileExtent) {
        for extent in extent.extents_mut() {
            if let Some(units) = extent.range.as_mut().and_then(|range| range.units.as_mut()) {
                self.share(units);
            }
        }
        self.files.push(File { kind, extent });
    }

    /// Reserves memory for further files.
    pub fn reserve(&mut self, files: usize) {
        self.files.reserve_exact(files);
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Replaces units by equal ones of an earlier file.
    fn share(&mut self, units: &mut Arc<Units>) {
        if let Some(last) = self.last_units.as_ref().filter(|last| *last == units) {
            *units = Arc::clone(last);
            return;
        }
        match self.units.get(units) {
            Some(known) => *units = Arc::clone(known),
            None => drop(self.units.insert(Arc::clone(units))),
        }
        self.last_units = Some(Arc::clone(units));
    }

    /// Returns the numbers of all files.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.files.len()).unwrap_or(u32::MAX)
    }

    /// Returns the extent of a file.
    pub(super) fn extent(&self, file: u32) -> Option<&FileExtent> {
        self.get(file).map(|file| &file.extent)
    }

    /// Replaces the extent of a file.
    pub(super) fn set_extent(&mut self, file: u32, extent: FileExtent) {
        if let Some(slot) = usize::try_from(file).ok().and_then(|at| self.files.get_mut(at)) {
            slot.extent = extent;
        }
    }

    /// Returns the number of a file's kind.
    pub(super) fn kind_of(&self, file: u32) -> u32 {
        self.get(file).map_or(u32::MAX, |file| file.kind)
    }

    /// Returns the kinds; their numbers are their places.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the digest of a file's signature.
    pub(super) fn signature(&self, file: u32) -> &str {
        let kind = usize::try_from(self.kind_of(file)).ok().and_then(|kind| self.kinds.get(kind));
        kind.map_or("", |kind| &kind.signature)
    }

    /// Returns the number of the first kind with the same signature, for each kind.
    pub(super) fn first_kinds(&self) -> Vec<u32> {
        let mut first: BTreeMap<&str, u32> = BTreeMap::new();
        let kinds = (0_u32..).zip(&self.kinds);
        kinds.map(|(number, kind)| *first.entry(&kind.signature).or_insert(number)).collect()
    }

    fn get(&self, file: u32) -> Option<&File> {
        self.files.get(usize::try_from(file).ok()?)
    }
}
