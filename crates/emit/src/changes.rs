//! What has changed since an output was written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use virtualize_zarr::{Array, ChunkGrid};

use crate::{Sink, array_chunks::grid_total};

/// What has changed since an output was written that is now extended.
pub(crate) struct Changes<'a> {
    /// Position of the first changed chunk of each array that has changed.
    changed: &'a BTreeMap<String, u64>,
    /// Keys of the files of the output.
    existing: BTreeSet<String>,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(changed: &'a BTreeMap<String, u64>, sink: &dyn Sink) -> Self {
        Self { changed, existing: sink.existing().into_iter().collect() }
    }

    /// Returns whether the output has a file.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.existing.contains(key)
    }

    /// Returns the keys of the files below a folder of the output.
    pub(crate) fn below(&self, folder: &str) -> Vec<String> {
        let folder = format!("{folder}/");
        let from = self.existing.range(folder.clone()..);
        from.take_while(|key| key.starts_with(&folder)).cloned().collect()
    }

    /// Returns what remains of the chunks of an array, given the number of chunks along each axis of its present and its
    /// earlier grid.
    pub(crate) fn of(&self, path: &str, counts: &[u64], before: Option<Vec<u64>>) -> Kept {
        let total = grid_total(counts);
        let same_rows =
            |before: &Vec<u64>| before.len() == counts.len() && before.get(1..) == counts.get(1..);
        let Some(before) = before.filter(same_rows) else { return Kept::default() };
        let start = self.changed.get(path).copied().unwrap_or(u64::MAX);
        let before = grid_total(&before);
        let start = start.min(total).min(before);
        Kept { start, all: start == total && start == before }
    }
}

/// What remains of the chunks of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Kept {
    /// Position from which on chunks are written anew.
    pub(crate) start: u64,
    /// Whether nothing has changed.
    pub(crate) all: bool,
}

/// Returns the number of chunks along each axis that `.zarray` declares.
pub(crate) fn counts_v2(zarray: &Value) -> Option<Vec<u64>> {
    let numbers = |name| -> Option<Vec<u64>> {
        zarray.get(name)?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()
    };
    Some(ChunkGrid::Regular(numbers("chunks")?).counts(&numbers("shape")?))
}

/// Returns the number of chunks along each axis that `zarr.json` declares.
pub(crate) fn counts_v3(document: &Value) -> Option<Vec<u64>> {
    let array = Array::from_zarr_json(document).ok()?.array;
    Some(array.chunk_grid.counts(&array.shape))
}
