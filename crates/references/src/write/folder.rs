//! Zarr v3 as files: `zarr.json` of every node, the chunks of arrays that are inline as a whole, `references.json`.
//!
//! A Zarr reader that does not resolve references must not mistake a virtual chunk for a missing one and return fill
//! values. The `zarr.json` of an array with virtual chunks therefore declares, by both mechanisms of the
//! specification, that the array needs an extension: a storage transformer, and a member with `must_understand`. The
//! root's consolidated metadata lists only nodes that any Zarr v3 reader can read. `references.json` contains the
//! whole hierarchy without these marks.

use std::{collections::BTreeSet, ops::ControlFlow};

use serde_json::{Value, json};
use virtualize_zarr::{Chunk, ChunkReader, Hierarchy, ZarrFormat};

use super::{
    EmitError, Sink,
    format::{Entry, Format, Writer, fsspec_python},
    json::{self, ChunkKeys},
    metadata::{Documents, consolidated_root, documents},
    visit_chunks,
};

/// Name of the root's metadata document.
pub(crate) const ROOT: &str = "zarr.json";
/// Name of the reference file of the whole hierarchy, next to the root's `zarr.json`.
pub(crate) const REFERENCES: &str = "references.json";
/// Name of the extension that `zarr.json` declares for an array with virtual chunks.
const MARK: &str = "virtual_references";

pub(crate) const ZARR3: Entry = Entry {
    name: "zarr3",
    summary: "A folder or prefix: Zarr v3 metadata and inline chunks as files, and references.json",
    zarr_format: ZarrFormat::V3,
    extensions: &["zarr"],
    suffix: ".zarr",
    python: |output, arguments| {
        fsspec_python(&format!("{}/{REFERENCES}", output.trim_end_matches('/')), arguments)
    },
    writer: Writer::Folder(write),
};

/// Writes all files, the root's `zarr.json` last.
fn write(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    _: Format,
    sink: &mut dyn Sink,
) -> Result<(), EmitError> {
    let virtual_arrays = virtual_arrays(hierarchy, chunks)?;
    let mut nodes = documents(hierarchy)?;
    nodes.retain(|(key, _)| key != ROOT);
    let mut readable = Documents::new();
    for (key, mut document) in nodes {
        if virtual_arrays.contains(key.trim_end_matches("/zarr.json")) {
            // Readers that follow the specification reject the array.
            if let Some(members) = document.as_object_mut() {
                let place = json!({"root": REFERENCES});
                members
                    .insert("storage_transformers".into(), json!([{"name": MARK, "configuration": place}]));
                members.insert(MARK.into(), json!({"must_understand": true, "root": REFERENCES}));
            }
        } else {
            readable.push((key.clone(), document.clone()));
        }
        sink.put(&key, &text(&document))?;
    }
    for (path, array) in hierarchy.arrays() {
        if virtual_arrays.contains(&path) {
            continue;
        }
        let counts = array.chunk_grid.counts(&array.shape);
        let mut keys = ChunkKeys::new(path.as_bytes().to_vec(), counts.clone(), ZarrFormat::V3);
        visit_chunks(chunks, &path, &counts, |position, chunk| {
            if let Chunk::Inline(bytes) = chunk {
                let mut key = Vec::new();
                keys.write(position, &mut key);
                sink.put(&String::from_utf8_lossy(&key), bytes)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    json::write(hierarchy, chunks, &mut sink.create(REFERENCES)?)?;
    Ok(sink.put(ROOT, &text(&consolidated_root(hierarchy, &readable)))?)
}

/// Returns the paths of the arrays that have a virtual chunk.
fn virtual_arrays(
    hierarchy: &Hierarchy,
    reader: &mut dyn ChunkReader,
) -> Result<BTreeSet<String>, EmitError> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        visit_chunks(reader, &path, &array.chunk_grid.counts(&array.shape), |_, chunk| {
            let is_virtual = matches!(chunk, Chunk::Reference { .. }) && found.insert(path.clone());
            Ok(if is_virtual { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(found)
}

fn text(document: &Value) -> Vec<u8> {
    format!("{document:#}\n").into_bytes()
}
