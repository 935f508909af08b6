//! Zarr v3 as files: `zarr.json` of every node, the chunks of arrays that are inline as a whole, `references.json`.
//!
//! A Zarr reader that does not resolve references must not mistake a virtual chunk for a missing one and return fill
//! values. The `zarr.json` of an array with virtual chunks therefore declares, by both mechanisms of the
//! specification, that the array needs an extension: a storage transformer, and a member with `must_understand`. The
//! root's consolidated metadata lists only nodes that any Zarr v3 reader can read. `references.json` contains the
//! whole hierarchy without these marks.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use serde_json::{Value, json};
use virtualize_zarr::{Array, ChunkReader, ChunkRef, Hierarchy, ZarrFormat, chunk_position};

use crate::{
    EmitError, Sink,
    array_chunks::ArrayChunks,
    changes::{Changes, Kept, counts_v3},
    consolidated::{Documents, consolidated_root, documents},
    format::{Entry, Format, Writer, fsspec_python},
    json::RefsWriter,
    old_references::OldReferences,
    references::{self, ChunkKeys},
};

/// Name of the root's metadata document.
const ROOT: &str = "zarr.json";
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
fn write(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    _: Format,
    sink: &mut dyn Sink,
    changes: Option<&Changes<'_>>,
) -> Result<(), EmitError> {
    let mut earlier = match changes {
        Some(changes) => Earlier::read(hierarchy, changes, sink)?,
        None => Earlier::default(),
    };
    let virtual_arrays = virtual_arrays(hierarchy, chunks, &mut earlier)?;
    let mut nodes = documents(hierarchy)?;
    nodes.retain(|(key, _)| key != ROOT);
    let mut readable = Documents::new();
    for (key, mut document) in nodes {
        match virtual_arrays.contains(key.trim_end_matches("/zarr.json")) {
            true => mark(&mut document),
            false => readable.push((key.clone(), document.clone())),
        }
        match text(&document) {
            text if earlier.documents.get(&key) == Some(&text) => sink.keep(&key)?,
            text => sink.put(&key, &text)?,
        }
    }
    for (path, array) in hierarchy.arrays() {
        if !virtual_arrays.contains(&path) {
            let start = earlier.keep_chunks((&path, array), changes, sink)?;
            inline_chunks(ArrayChunks::new(chunks, (&path, array), start), &path, sink)?;
        }
    }
    let copy = |path: &str, counts: &[u64], refs: &mut RefsWriter<'_>| earlier.copy(path, counts, refs);
    references::write_with(hierarchy, chunks, copy, &mut sink.create(REFERENCES)?)?;
    Ok(sink.put(ROOT, &text(&consolidated_root(hierarchy, &readable)))?)
}

/// The output that is extended.
#[derive(Default)]
struct Earlier {
    /// Contents of the `zarr.json` of nodes that still exist, by key.
    documents: BTreeMap<String, Vec<u8>>,
    references: Option<OldReferences>,
    /// What remains of the chunks of each array.
    kept: BTreeMap<String, Kept>,
}

impl Earlier {
    fn read(hierarchy: &Hierarchy, changes: &Changes<'_>, sink: &mut dyn Sink) -> Result<Self, EmitError> {
        if !changes.has(REFERENCES) {
            return Ok(Self::default());
        }
        let references = Some(OldReferences::open(REFERENCES, sink.open(REFERENCES)?)?);
        let mut this = Self { references, ..Self::default() };
        for (key, _) in documents(hierarchy)? {
            if key != ROOT && changes.has(&key) {
                let mut text = Vec::new();
                sink.open(&key)?.read_to_end(&mut text)?;
                this.documents.insert(key, text);
            }
        }
        for (path, array) in hierarchy.arrays() {
            let document = this.documents.get(&format!("{path}/zarr.json"));
            let document: Option<Value> = document.and_then(|text| serde_json::from_slice(text).ok());
            let before = document.as_ref().and_then(unmarked).as_ref().and_then(counts_v3);
            let counts = array.chunk_grid.counts(&array.shape);
            this.kept.insert(path.clone(), changes.of(&path, &counts, before));
        }
        Ok(this)
    }

    /// Returns the position from which on the chunks of an array are written anew.
    fn start(&self, path: &str) -> u64 {
        self.kept.get(path).map_or(0, |kept| kept.start)
    }

    /// Returns whether a chunk that remains is a reference.
    fn has_reference(&mut self, path: &str, counts: &[u64]) -> Result<bool, EmitError> {
        let start = self.start(path);
        let Some(references) = self.references.as_mut().filter(|_| start > 0) else { return Ok(false) };
        let entries = references.entries(path, counts, start)?;
        references.has_reference(&entries)
    }

    /// Makes an array without references be written anew if it had references, and therefore no files of inline chunks.
    fn forget_virtual(&mut self, path: &str) {
        let document = self.documents.get(&format!("{path}/zarr.json"));
        let document: Option<Value> = document.and_then(|text| serde_json::from_slice(text).ok());
        if document.is_some_and(|document| document.get(MARK).is_some()) {
            self.kept.remove(path);
        }
    }

    /// Keeps the files of inline chunks that remain. Returns the position from which on chunks are written anew.
    fn keep_chunks(
        &self,
        (path, array): (&str, &Array),
        changes: Option<&Changes<'_>>,
        sink: &mut dyn Sink,
    ) -> Result<u64, EmitError> {
        let start = self.start(path);
        let counts = array.chunk_grid.counts(&array.shape);
        for key in changes.filter(|_| start > 0).map(|changes| changes.below(path)).unwrap_or_default() {
            let indices = key.strip_prefix(path).and_then(|rest| rest.strip_prefix("/c"));
            let indices =
                indices.map(|rest| rest.split('/').skip(1).map(str::parse).collect::<Result<Vec<u64>, _>>());
            let Some(Ok(indices)) = indices else { continue };
            if chunk_position(indices, &counts).is_some_and(|position| position < start) {
                sink.keep(&key)?;
            }
        }
        Ok(start)
    }

    /// Copies the entries of chunks that remain. Returns the position from which on chunks are written anew.
    fn copy(&mut self, path: &str, counts: &[u64], refs: &mut RefsWriter<'_>) -> Result<u64, EmitError> {
        let start = self.start(path);
        if let Some(references) = self.references.as_mut().filter(|_| start > 0) {
            let entries = references.entries(path, counts, start)?;
            if !entries.is_empty() {
                references.copy(&entries, refs.entries()?)?;
            }
        }
        Ok(start)
    }
}

/// Returns the paths of the arrays that have a virtual chunk.
fn virtual_arrays(
    hierarchy: &Hierarchy,
    reader: &mut dyn ChunkReader,
    earlier: &mut Earlier,
) -> Result<BTreeSet<String>, EmitError> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        let chunks = ArrayChunks::new(reader, (&path, array), earlier.start(&path));
        if earlier.has_reference(&path, &chunks.counts)? {
            found.insert(path.clone());
            continue;
        }
        chunks.visit(|_, chunk| match chunk {
            ChunkRef::Inline(_) => Ok(ControlFlow::Continue(())),
            ChunkRef::Reference { .. } => {
                found.insert(path.clone());
                Ok(ControlFlow::Break(()))
            }
        })?;
        if !found.contains(&path) {
            earlier.forget_virtual(&path);
        }
    }
    Ok(found)
}

/// Returns an array's document without the marks of [`mark`].
fn unmarked(document: &Value) -> Option<Value> {
    let mut members = document.as_object()?.clone();
    members.remove("storage_transformers");
    members.remove(MARK);
    Some(members.into())
}

/// Makes readers that follow the specification reject an array.
fn mark(document: &mut Value) {
    if let Some(members) = document.as_object_mut() {
        let place = json!({"root": REFERENCES});
        members.insert("storage_transformers".into(), json!([{"name": MARK, "configuration": place}]));
        members.insert(MARK.into(), json!({"must_understand": true, "root": REFERENCES}));
    }
}

/// Writes the chunks of an array whose chunks are all inline, one file each.
fn inline_chunks(chunks: ArrayChunks<'_>, path: &str, sink: &mut dyn Sink) -> Result<(), EmitError> {
    let mut keys = ChunkKeys::new(path.as_bytes().to_vec(), chunks.counts.clone(), ZarrFormat::V3);
    let mut key = Vec::new();
    chunks.visit(|position, chunk| {
        if let ChunkRef::Inline(bytes) = chunk {
            key.clear();
            keys.write(position, &mut key);
            sink.put(&String::from_utf8_lossy(&key), bytes)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn text(document: &Value) -> Vec<u8> {
    format!("{document:#}\n").into_bytes()
}
