//! Attributes that files have in common.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use serde_json::{Map, Value};
use virtualize::zarr::cf::attributes::decides_values;

use crate::error::Note;

/// Attributes that name other arrays: those of the first file stay.
const NAMING: [&str; 3] = ["bounds", "climatology", "coordinates"];

/// Most values of an attribute that are told apart.
const MOST_VALUES: usize = 10_000;

/// Attributes of one group or array in all files that were seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MergedAttributes {
    /// Those of the first file that no other file contradicts.
    pub(super) kept: Map<String, Value>,
    /// All of the first file.
    first: Map<String, Value>,
    /// Hashes of the values of those that differ.
    differing: BTreeMap<String, BTreeSet<u64>>,
}

impl MergedAttributes {
    pub(super) fn new(first: &Map<String, Value>) -> Self {
        Self { kept: first.clone(), first: first.clone(), differing: BTreeMap::new() }
    }

    /// Takes a further file's attributes. Those of an array that say what values mean were compared already.
    pub(super) fn add(&mut self, other: &Map<String, Value>, of_array: bool) {
        if *other == self.first && self.differing.is_empty() {
            return;
        }
        let names: BTreeSet<&String> = self.first.keys().chain(other.keys()).collect();
        for name in names {
            let (left, right) = (self.first.get(name), other.get(name));
            if (left == right && !self.differing.contains_key(name)) || (of_array && decides_values(name)) {
                continue;
            }
            if !(of_array && NAMING.contains(&name.as_str())) {
                self.kept.remove(name);
            }
            let values = self.differing.entry(name.clone()).or_insert_with(|| [hash(left)].into());
            if values.len() < MOST_VALUES {
                values.insert(hash(right));
            }
        }
    }

    /// What was dropped.
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
