//! Tells the files of an output from other files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{folder, format::ZMETADATA};

/// Documents that [`foreign_file`] needs, or the start of them.
pub const DOCUMENTS: &[&str] = &[folder::REFERENCES, ZMETADATA];

/// Returns the first file of a folder that is not part of an output of several files, or what else the folder is;
/// `None` if the folder is an output. `keys` are the files of the folder, and `documents` those of [`DOCUMENTS`] that
/// exist.
///
/// Only references are recognized, which can be written again: the chunks of a `zarr3` output belong to arrays that
/// `references.json` lists, and a `kerchunk-parquet` output consists of tables. If such a document is damaged, all nodes
/// of the folder count as listed.
pub fn foreign_file(keys: &BTreeSet<String>, documents: &BTreeMap<&str, Vec<u8>>) -> Option<String> {
    let below = |folder: &str| keys.iter().any(|key| key.starts_with(folder));
    if below("snapshots/") && (keys.contains("repo") || below("refs/")) {
        return Some("an Icechunk repository".to_owned());
    }
    let nodes = documents.get(folder::REFERENCES).map(|text| nodes(text, keys)).unwrap_or_default();
    let arrays = documents.get(ZMETADATA).and_then(|text| arrays(text, keys));
    let is_ours = |key: &str| match &arrays {
        _ if nodes.contains(folder::ROOT) => {
            // A key that ends in a slash is a folder.
            let chunk = key.trim_end_matches(|c: char| c.is_ascii_digit() || c == '/').strip_suffix("/c");
            key == folder::REFERENCES
                || nodes.contains(key)
                || !key.ends_with('/')
                    && chunk.is_some_and(|array| nodes.contains(&format!("{array}/{}", folder::ROOT)))
        }
        // A folder that is empty since its tables were deleted.
        Some(arrays) if key.ends_with('/') => arrays.iter().any(|array| format!("{array}/").starts_with(key)),
        Some(arrays) => {
            let table = key.rsplit_once('/').and_then(|(array, name)| {
                let number = name.strip_prefix("refs.")?.strip_suffix(".parq")?;
                (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(array)
            });
            key == ZMETADATA || table.is_some_and(|array| arrays.contains(array))
        }
        None => false,
    };
    keys.iter().find(|key| !is_ours(key)).cloned()
}

/// Returns the keys of the metadata documents of a `references.json`, with which it starts, one per line.
fn nodes(text: &[u8], keys: &BTreeSet<String>) -> BTreeSet<String> {
    let is_document = |key: &str| key.rsplit('/').next() == Some(folder::ROOT);
    let Some(entries) = text.strip_prefix(b"{\"version\":1,\"refs\":{\n") else {
        let damaged = is_damaged(text, "refs");
        return keys.iter().filter(|key| damaged && is_document(key)).cloned().collect();
    };
    let key = |line: &[u8]| serde_json::Deserializer::from_slice(line).into_iter().next()?.ok();
    let keys = entries.split(|byte| *byte == b'\n').map_while(key);
    keys.take_while(|key: &String| is_document(key)).collect()
}

/// Returns whether a document is not that of any program: not JSON, or without its main member.
fn is_damaged(text: &[u8], member: &str) -> bool {
    // Of a larger document, only the start may have been read.
    let document: Option<Value> = serde_json::from_slice(text).ok();
    text.len() < 1 << 20 && document.is_none_or(|document| document.get(member).is_none())
}

/// Returns the paths of the arrays of a `.zmetadata` that belongs to Parquet tables.
fn arrays(text: &[u8], keys: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    if is_damaged(text, "metadata") {
        return Some(
            keys.iter().filter_map(|key| key.rsplit_once('/')).map(|(array, _)| array.to_owned()).collect(),
        );
    }
    let document: Value = serde_json::from_slice(text).ok()?;
    document.get("record_size")?.as_u64()?;
    let keys = document.get("metadata")?.as_object()?.keys();
    Some(keys.filter_map(|key| key.strip_suffix("/.zarray")).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(keys: &[&str], documents: &[(&'static str, &str)]) -> Option<String> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        foreign_file(&keys, &documents.iter().map(|(key, text)| (*key, text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn zarr_outputs_have_the_nodes_of_their_references() {
        let text = r#"{"version":1,"refs":{
"zarr.json":"{}",
"a/zarr.json":"{}",
"g/b/zarr.json":"{}",
"a/c/0":"x"
}}
"#;
        let references = ("references.json", text);
        let ours = ["references.json", "zarr.json", "a/zarr.json", "a/c/0/12", "g/b/zarr.json", "g/b/c"];
        assert_eq!(foreign(&ours, &[references]), None);
        for key in
            ["a/notes.txt", "a/c/x", "b/zarr.json", "b/c/0", "c/0", ".DS_Store", "a/c/0 (a link)", "a/c/"]
        {
            assert_eq!(foreign(&[&ours[..], &[key]].concat(), &[references]), Some(key.to_owned()));
        }
        // A store with data of its own.
        assert!(foreign(&["zarr.json", "a/zarr.json", "a/c/0"], &[]).is_some());
        let other = ("references.json", r#"{"version": 1, "refs": {"zarr.json": "{}"}}"#);
        assert!(foreign(&["references.json", "zarr.json"], &[other]).is_some());
        let damaged = ("references.json", "{}");
        assert_eq!(foreign(&ours, &[damaged]), None);
        assert!(foreign(&[&ours[..], &["a/notes.txt"]].concat(), &[damaged]).is_some());
    }

    #[test]
    fn parquet_outputs_have_the_arrays_of_their_metadata() {
        let metadata = (".zmetadata", r#"{"metadata":{".zgroup":{},"g/a/.zarray":{}},"record_size":10}"#);
        let ours = [".zmetadata", "g/a/refs.0.parq", "g/a/refs.12.parq"];
        assert_eq!(foreign(&ours, &[metadata]), None);
        assert_eq!(foreign(&[&ours[..], &["g/a/"]].concat(), &[metadata]), None);
        for key in ["g/b/", "g/a/refs..parq", "g/b/refs.0.parq", "g/a/refs.x.parq", "refs.0.parq", "g/a/0.0"]
        {
            assert_eq!(foreign(&[&ours[..], &[key]].concat(), &[metadata]), Some(key.to_owned()));
        }
        assert_eq!(foreign(&ours, &[(".zmetadata", "{\"metadata\":{")]), None);
        assert!(foreign(&[".zmetadata", "a/0"], &[(".zmetadata", "{}")]).is_some());
        // Consolidated metadata of a Zarr v2 store.
        let store = (".zmetadata", r#"{"metadata":{"a/.zarray":{}},"zarr_consolidated_format":1}"#);
        assert!(foreign(&[".zmetadata", "a/0"], &[store]).is_some());
    }

    #[test]
    fn repositories_are_named() {
        let keys = ["repo", "snapshots/A", "chunks/B"];
        assert_eq!(foreign(&keys, &[]), Some("an Icechunk repository".to_owned()));
    }
}
