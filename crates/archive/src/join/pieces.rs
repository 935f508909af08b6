//! The parts of an array in all files, in a few bytes each.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash, Hasher},
    sync::Arc,
};

use smallvec::SmallVec;
use virtualize::zarr::DataType;

use crate::{compat::storage::ChunkLayout, values::sentinel::Sentinels};

/// Place of a part along each dimension of the layout; 0 along dimensions where the array is invariant.
pub(super) type Place = SmallVec<[u32; 2]>;

/// How an array is stored in a file, and how it differs from the first file's. Files share forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Form {
    /// Shape and chunks.
    pub(super) layout: ChunkLayout,
    /// Size of the values in bytes, if they were read.
    pub(super) values: Option<u64>,
    /// Data type and missing values, if they differ from those of the first file.
    pub(super) other: Option<Arc<(DataType, Sentinels)>>,
    /// Whether no chunk is missing.
    pub(super) is_complete: bool,
}

/// The part of an array in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Index of the file among the era's blocks.
    pub(super) block: u32,
    /// Index of its form.
    pub(super) form: u32,
    /// Index of its units; 0 for those of the first file.
    pub(super) units: u32,
}

/// The parts of an array.
#[derive(Debug)]
pub(super) struct Pieces {
    /// In the order in which they were added.
    list: Vec<Piece>,
    /// Indices into `list` by place. `None` if the order of the list is that of the places.
    by_place: Option<BTreeMap<Place, u32>>,
    forms: Vec<Arc<Form>>,
    of_forms: HashMap<Arc<Form>, u32>,
    /// Distinct units; the first stands for those of the first file.
    units: Vec<Arc<str>>,
    of_units: HashMap<Arc<str>, u32>,
    /// Values of all parts, one after the other.
    values: Vec<u8>,
    /// Where the values of each part start; empty if no part has values.
    starts: Vec<u64>,
    /// Whether values are no longer kept.
    are_dropped: bool,
    /// Digests of the values, where several files may have the same part.
    digests: BTreeMap<u32, String>,
    /// Number of chunks in all files.
    chunks: u64,
}

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sentinels = self.other.as_ref().map(|other| &other.1.elements);
        (&self.layout, self.values, self.is_complete, sentinels).hash(state);
    }
}

impl Form {
    /// Returns the number of chunks along each axis in the file.
    pub(super) fn counts(&self) -> Vec<u64> {
        let ChunkLayout { shape, chunk, .. } = &self.layout;
        let chunk = chunk.as_ref().unwrap_or(shape);
        shape.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect()
    }
}

impl Pieces {
    /// Creates an empty list. Set `in_order` if parts are added in order of place, each place once.
    pub(super) fn new(in_order: bool) -> Self {
        Self {
            list: Vec::new(),
            by_place: (!in_order).then(BTreeMap::new),
            forms: Vec::new(),
            of_forms: HashMap::new(),
            units: vec!["".into()],
            of_units: HashMap::new(),
            values: Vec::new(),
            starts: Vec::new(),
            are_dropped: false,
            digests: BTreeMap::new(),
            chunks: 0,
        }
    }

    /// Returns the number of parts.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the number of chunks in all files.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns a part.
    pub(super) fn get(&self, n: u32) -> Option<&Piece> {
        self.list.get(index(n))
    }

    /// Returns the first part in order of place.
    pub(super) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Iterates over the parts in order of place.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let in_order = self.by_place.is_none().then(|| 0..u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let others = self.by_place.iter().flat_map(|by_place| by_place.values().copied());
        in_order.into_iter().flatten().chain(others)
    }

    /// Returns the part at a place. If parts were added in order of place, `order` compares a part's block with it.
    pub(super) fn find(&self, place: &Place, order: impl Fn(u32) -> std::cmp::Ordering) -> Option<u32> {
        match &self.by_place {
            Some(by_place) => by_place.get(place).copied(),
            None => {
                let found = self.list.binary_search_by(|piece| order(piece.block)).ok()?;
                u32::try_from(found).ok()
            }
        }
    }

    /// Returns the form of a part.
    pub(super) fn form(&self, n: u32) -> Option<&Form> {
        self.forms.get(index(self.get(n)?.form)).map(Arc::as_ref)
    }

    /// Returns the forms that occur, that of the first part first. One may occur twice.
    pub(super) fn forms(&self) -> impl Iterator<Item = &Form> {
        self.first().and_then(|first| self.form(first)).into_iter().chain(self.forms.iter().map(Arc::as_ref))
    }

    /// Returns all forms by their index.
    pub(super) fn all_forms(&self) -> impl Iterator<Item = &Form> {
        self.forms.iter().map(Arc::as_ref)
    }

    /// Returns the index of a form, if it occurs.
    pub(super) fn form_index(&self, form: &Form) -> Option<u32> {
        self.of_forms.get(form).copied()
    }

    /// Returns the values of a part, if they were read and kept.
    pub(super) fn values(&self, n: u32) -> Option<&[u8]> {
        let size = usize::try_from(self.form(n)?.values?).ok()?;
        let start = usize::try_from(*self.starts.get(index(n))?).ok()?;
        self.values.get(start..start.checked_add(size)?)
    }

    /// Returns the units of a part, if they differ from those of the first file.
    pub(super) fn units(&self, n: u32) -> Option<&str> {
        let units = self.get(n)?.units;
        (units > 0).then(|| self.units.get(index(units))).flatten().map(AsRef::as_ref)
    }

    /// Returns whether some part has other units than the first file.
    pub(super) fn have_other_units(&self) -> bool {
        self.list.iter().any(|piece| piece.units > 0)
    }

    /// Returns the digest of a part.
    pub(super) fn digest(&self, n: u32) -> Option<&str> {
        self.digests.get(&n).map(String::as_str)
    }

    /// Returns whether values are still kept.
    pub(super) fn keeps_values(&self) -> bool {
        !self.are_dropped
    }

    /// Returns the index of units.
    pub(super) fn intern_units(&mut self, units: Option<&str>) -> Option<u32> {
        let Some(units) = units else { return Some(0) };
        if let Some(known) = self.of_units.get(units) {
            return Some(*known);
        }
        let (new, units) = (u32::try_from(self.units.len()).ok()?, Arc::<str>::from(units));
        self.units.push(Arc::clone(&units));
        self.of_units.insert(units, new);
        Some(new)
    }

    /// Returns the index of a form, which is added if it is new.
    pub(super) fn intern(&mut self, form: &Form) -> Option<u32> {
        if let Some(known) = self.of_forms.get(form) {
            return Some(*known);
        }
        let (new, form) = (u32::try_from(self.forms.len()).ok()?, Arc::new(form.clone()));
        self.forms.push(Arc::clone(&form));
        self.of_forms.insert(form, new);
        Some(new)
    }

    /// Adds the part of a block with the indices of its form and units. Returns `None` if there are too many.
    pub(super) fn push(
        &mut self,
        place: impl FnOnce() -> Place,
        (block, form, units): (u32, u32, u32),
        values: Option<&[u8]>,
        (digest, chunks): (Option<&str>, u64),
    ) -> Option<()> {
        let new = u32::try_from(self.list.len()).ok()?;
        if let Some(by_place) = &mut self.by_place {
            by_place.insert(place(), new);
            self.digests.extend(digest.map(|digest| (new, digest.to_owned())));
        }
        if values.is_some() || !self.starts.is_empty() {
            self.starts.resize(self.list.len(), 0);
            self.starts.push(self.values.len() as u64);
            self.values.extend_from_slice(values.unwrap_or_default());
        }
        self.chunks = self.chunks.checked_add(chunks)?;
        self.list.push(Piece { block, form, units });
        Some(())
    }

    /// Takes the values of all parts, one after the other, if they are in this order in memory and nothing else is.
    pub(super) fn take_values(&mut self) -> Option<Vec<u8>> {
        let mut end = 0_u64;
        for n in self.iter() {
            if self.starts.get(index(n)) != Some(&end) {
                return None;
            }
            end = end.checked_add(self.form(n)?.values?)?;
        }
        (end == self.kept()).then(|| std::mem::take(&mut self.values))
    }

    /// Returns the size of all values in bytes.
    pub(super) fn kept(&self) -> u64 {
        self.values.len() as u64
    }

    /// Stops keeping values, and forgets those of all parts.
    pub(super) fn drop_values(&mut self) {
        (self.values, self.starts, self.are_dropped) = (Vec::new(), Vec::new(), true);
        self.change_forms(|form| {
            form.values = None;
            form.layout.is_read = false;
        });
    }

    /// Replaces the values of all parts, given in the order in which these were added, and changes the forms accordingly.
    pub(super) fn set_values(&mut self, values: Vec<u8>, starts: Vec<u64>, change: impl Fn(&mut Form)) {
        (self.values, self.starts) = (values, starts);
        self.change_forms(change);
    }

    /// Gives all parts the units of the first file.
    pub(super) fn clear_units(&mut self) {
        self.list.iter_mut().for_each(|piece| piece.units = 0);
    }

    fn change_forms(&mut self, change: impl Fn(&mut Form)) {
        self.of_forms.clear();
        for (n, form) in (0..).zip(&mut self.forms) {
            change(Arc::make_mut(form));
            self.of_forms.entry(Arc::clone(form)).or_insert(n);
        }
    }
}

fn index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
