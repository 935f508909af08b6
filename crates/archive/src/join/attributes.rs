//! Merges the attributes of files.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use serde_json::{Map, Value};
use virtualize::zarr::cf::attributes::decides_values;

use crate::error::Note;

/// Attributes that refer to other arrays: those of the first file are kept.
const NAMING: [&str; 3] = ["bounds", "climatology", "coordinates"];

/// Maximum number of distinct values counted per attribute.
const MOST_VALUES: usize = 10_000;

/// Merged attributes of a group or array.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MergedAttributes {
    /// Attributes of the first file that no other file contradicts.
    pub(super) kept: Map<String, Value>,
    /// All attributes of the first file.
    first: Map<String, Value>,
    /// Hashes of the values of attributes that differ between files.
    differing: BTreeMap<String, BTreeSet<u64>>,
}

impl MergedAttributes {
    pub(super) fn new(first: &Map<String, Value>) -> Self {
        Self { kept: first.clone(), first: first.clone(), differing: BTreeMap::new() }
    }

    /// Merges the attributes of another file. The signatures already cover attributes that determine what an array's
    /// values mean.
    pub(super) fn add(&mut self, other: &Map<String, Value>, of_array: bool) {
        if *other == self.first && self.differing.is_empty() {
            return;
        }
        let Self { kept, first, differing } = self;
        let added = other.keys().filter(|name| !first.contains_key(*name));
        for name in first.keys().chain(added) {
            let (left, right) = (first.get(name), other.get(name));
            if (left == right && !differing.contains_key(name)) || (of_array && decides_values(name)) {
                continue;
            }
            if !(of_array && NAMING.contains(&name.as_str())) {
                kept.remove(name);
            }
            if !differing.contains_key(name) {
                differing.insert(name.clone(), [hash(left)].into());
            }
            let values = differing.get_mut(name).filter(|values| values.len() < MOST_VALUES);
            values.map(|values| values.insert(hash(right)));
        }
    }

    /// Returns notes on the attributes that were dropped.
    pub(super) fn notes(&self, path: &str) -> Vec<Note> {
        let subject = if path.is_empty() { "/" } else { path };
        let note = |(name, values): (&String, &BTreeSet<u64>)| {
            let many = if values.len() < MOST_VALUES { "" } else { "at least " };
            let done = if self.kept.contains_key(name) { "the first file's is kept" } else { "dropped" };
            let text = format!("attribute {name} has {many}{} different values: {done}", values.len());
            Note::new(subject, text)
        };
        self.differing.iter().map(note).collect()
    }
}

fn hash(value: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.map(Value::to_string).hash(&mut hasher);
    hasher.finish()
}
