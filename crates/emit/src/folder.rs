//! Zarr v3 as files: `zarr.json` of every node, the chunks of arrays that are inline as a whole, `references.json`.
//!
//! A reader that knows nothing of references must not take chunks that lie elsewhere for chunks that were never written,
//! and show fill values. So the `zarr.json` of such an array says, in the two ways that the specification has, that it
//! cannot be read without more, and the root's consolidated metadata names only what can. `references.json` has all of it
//! plainly.

use serde_json::{Value, json};
use virtualize_zarr::{Array, ChunkEntry, Hierarchy, ZarrFormat};

use crate::{
    EmitError, Sink,
    consolidated::{Documents, consolidated_root, documents},
    format::{Entry, Format, Writer, fsspec_python},
    references::{self, ChunkKeys},
};

/// The reference file of the whole hierarchy, beside the root's `zarr.json`.
const REFERENCES: &str = "references.json";
/// What says in `zarr.json` that chunks lie elsewhere.
const MARK: &str = "virtual_references";

pub(crate) const ZARR3: Entry = Entry {
    name: "zarr3",
    summary: "A folder or prefix: Zarr v3 metadata and inline chunks as files, and references.json",
    zarr_format: ZarrFormat::V3,
    extensions: &["zarr"],
    suffix: ".zarr",
    media_type: "application/zip",
    python: |output, arguments| {
        fsspec_python(&format!("{}/{REFERENCES}", output.trim_end_matches('/')), arguments)
    },
    writer: Writer::Folder(write),
};

/// Writes everything, the root's `zarr.json` last.
fn write(hierarchy: &Hierarchy, _: Format, sink: &mut dyn Sink) -> Result<(), EmitError> {
    let mut nodes = documents(hierarchy)?;
    nodes.retain(|(key, _)| key != "zarr.json");
    let mut readable = Documents::new();
    for (key, mut document) in nodes {
        let array = hierarchy.array(key.trim_end_matches("/zarr.json"));
        match array.is_some_and(has_references) {
            true => mark(&mut document),
            false => readable.push((key.clone(), document.clone())),
        }
        sink.put(&key, &text(&document))?;
    }
    for (path, array) in hierarchy.arrays() {
        if !has_references(array) {
            chunks(&path, array, sink)?;
        }
    }
    references::write(hierarchy, &mut sink.create(REFERENCES)?)?;
    Ok(sink.put("zarr.json", &text(&consolidated_root(hierarchy, &readable)))?)
}

fn has_references(array: &Array) -> bool {
    array.chunks.iter().any(|(_, chunk)| matches!(chunk, ChunkEntry::Reference(_)))
}

/// Makes readers that follow the specification refuse an array.
fn mark(document: &mut Value) {
    if let Some(members) = document.as_object_mut() {
        let place = json!({"root": REFERENCES});
        members.insert("storage_transformers".into(), json!([{"name": MARK, "configuration": place}]));
        members.insert(MARK.into(), json!({"must_understand": true, "root": REFERENCES}));
    }
}

fn chunks(path: &str, array: &Array, sink: &mut dyn Sink) -> Result<(), EmitError> {
    let counts = array.chunk_grid.counts(&array.shape);
    let mut keys = ChunkKeys::new(path.as_bytes().to_vec(), counts, ZarrFormat::V3);
    let mut key = Vec::new();
    for (position, bytes) in &array.chunks.inline {
        key.clear();
        if !keys.write(*position, &mut key) {
            return Err(keys.outside(path, *position));
        }
        sink.put(&String::from_utf8_lossy(&key), bytes)?;
    }
    Ok(())
}

fn text(document: &Value) -> Vec<u8> {
    format!("{document:#}\n").into_bytes()
}
