//! Zarr v3 as files: `zarr.json` of every node, the chunks of arrays that are inline as a whole, `references.json`.
//!
//! A Zarr reader that does not resolve references must not mistake a virtual chunk for a missing one and return fill
//! values. The `zarr.json` of an array with virtual chunks therefore declares, by both mechanisms of the
//! specification, that the array needs an extension: a storage transformer, and a member with `must_understand`. The
//! root's consolidated metadata lists only nodes that any Zarr v3 reader can read. `references.json` contains the
//! whole hierarchy without these marks.

use serde_json::{Value, json};
use virtualize_zarr::{Array, ChunkEntry, Hierarchy, ZarrFormat};

use crate::{
    EmitError, Sink,
    consolidated::{Documents, consolidated_root, documents},
    format::{Entry, Format, Writer, fsspec_python},
    references::{self, ChunkKeys},
};

/// Name of the reference file of the whole hierarchy, beside the root's `zarr.json`.
const REFERENCES: &str = "references.json";
/// Name of the extension that `zarr.json` declares for an array with virtual chunks.
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

/// Writes all files, the root's `zarr.json` last.
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

/// Returns whether an array has a virtual chunk.
fn has_references(array: &Array) -> bool {
    array.chunks.iter().any(|(_, chunk)| matches!(chunk, ChunkEntry::Reference(_)))
}

/// Makes readers that follow the specification reject an array.
fn mark(document: &mut Value) {
    if let Some(members) = document.as_object_mut() {
        let place = json!({"root": REFERENCES});
        members.insert("storage_transformers".into(), json!([{"name": MARK, "configuration": place}]));
        members.insert(MARK.into(), json!({"must_understand": true, "root": REFERENCES}));
    }
}

/// Writes the inline chunks of an array, one file each.
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
