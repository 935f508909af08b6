//! Serializes the result of a scan as JSON.

use serde_json::{Value, json};

use super::{Scan, groups::Stretch};
use crate::Along;

impl Scan {
    /// Returns the result as JSON: `dimensions`, `eras` with their `arrays`, `stretches` of consecutive files with the
    /// `differences` from the previous one, and `failed`.
    pub fn to_json(&self) -> Value {
        let along = self.layout.along.iter().map(|along| match along {
            Along::Concat(name) => json!({"name": name, "kind": "concat"}),
            Along::Stack(name) => json!({"name": name, "kind": "stack"}),
        });
        let eras: Vec<Value> = (0..self.eras.eras().len()).map(|era| self.era(era)).collect();
        let stretches: Vec<Value> = self.eras.stretches().iter().map(|one| self.stretch(one)).collect();
        let failed = self.failed.iter().map(|one| json!({"url": one.url, "error": one.error}));
        json!({
            "dimensions": along.collect::<Vec<_>>(),
            "dimensions_are_guessed": self.is_guessed,
            "order": if self.eras.is_ordered() { "coordinates" } else { "listing" },
            "files": self.eras.len(),
            "eras": eras,
            "stretches": stretches,
            "failed": failed.collect::<Vec<_>>(),
        })
    }

    fn era(&self, at: usize) -> Value {
        let Some(era) = self.eras.eras().get(at) else { return Value::Null };
        let names = self.layout.along.iter().map(Along::name);
        let extents = names.zip(&era.extents).map(|(name, [least, most, all])| {
            (name.to_owned(), json!({"least": least, "most": most, "all": all}))
        });
        json!({
            "era": at,
            "digest": era.digest,
            "files": era.files,
            "bytes": era.bytes,
            "chunks": era.chunks,
            "extents": extents.collect::<serde_json::Map<_, _>>(),
            "arrays": self.eras.arrays(at),
            "groups": era.signature.as_ref().map(|signature| &signature.groups),
        })
    }

    fn stretch(&self, stretch: &Stretch<'_>) -> Value {
        let names = self.layout.along.iter().map(Along::name);
        let coordinates = names.zip(&stretch.coordinates).filter_map(|(name, range)| {
            let (first, last) = (*range)?;
            Some((name.to_owned(), json!({"first": first, "last": last})))
        });
        json!({
            "era": stretch.era,
            "files": stretch.files,
            "coordinates": coordinates.collect::<serde_json::Map<_, _>>(),
            "differences": stretch.differences.as_deref(),
        })
    }
}
