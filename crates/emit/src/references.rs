//! Reference JSON: metadata as text, chunks as `[url, offset, length]` or inline.

use std::{io, ops::ControlFlow, sync::Arc};

use virtualize_zarr::{ChunkReader, ChunkRef, Hierarchy, Source, ZarrFormat};

use crate::{
    EmitError,
    array_chunks::ArrayChunks,
    consolidated::documents,
    format::{Entry, Writer, fsspec_python, kerchunk_python},
    json::{RefsWriter, escape, escape_inner, inline, number},
};

pub(crate) const KERCHUNK_JSON: Entry = Entry {
    name: "kerchunk-json",
    summary: "kerchunk JSON, version 1 (Zarr v2 keys)",
    zarr_format: ZarrFormat::V2,
    extensions: &["json"],
    suffix: ".json",
    media_type: "application/json",
    python: kerchunk_python,
    writer: Writer::File(write),
};

pub(crate) const ZARR3_JSON: Entry = Entry {
    name: "zarr3-json",
    summary: "The same JSON with Zarr v3 keys",
    zarr_format: ZarrFormat::V3,
    extensions: &[],
    python: fsspec_python,
    ..KERCHUNK_JSON
};

/// Writes the whole reference document.
pub(crate) fn write(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    out: &mut dyn io::Write,
) -> Result<(), EmitError> {
    let mut refs = RefsWriter::new(out);
    for (key, document) in documents(hierarchy)? {
        refs.text(&key, &document.to_string())?;
    }
    for (path, array) in hierarchy.arrays() {
        write_chunks(ArrayChunks::new(chunks, &path, array), &path, hierarchy.format, &mut refs)?;
    }
    Ok(refs.finish()?)
}

/// Writes the chunks of one array.
fn write_chunks(
    chunks: ArrayChunks<'_>,
    path: &str,
    format: ZarrFormat,
    refs: &mut RefsWriter<'_>,
) -> Result<(), EmitError> {
    let mut start = vec![b'"'];
    escape_inner(path, &mut start);
    let mut keys = ChunkKeys::new(start, chunks.counts.clone(), format);
    let mut last = LastSource::default();
    chunks.visit(|position, chunk| {
        let buffer = refs.entry()?;
        keys.write(position, buffer);
        match chunk {
            ChunkRef::Reference { source, offset, length } => {
                buffer.extend_from_slice(last.reference_start(source));
                number(offset, buffer);
                buffer.push(b',');
                number(length, buffer);
                buffer.push(b']');
            }
            ChunkRef::Inline(bytes) => {
                buffer.extend_from_slice(b"\":");
                inline(bytes, buffer);
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The source of the last reference.
#[derive(Default)]
struct LastSource {
    source: Option<Arc<Source>>,
    start: Vec<u8>,
}

impl LastSource {
    /// Returns the text between a chunk's key and its offset.
    fn reference_start(&mut self, source: &Arc<Source>) -> &[u8] {
        if !self.source.as_ref().is_some_and(|last| Arc::ptr_eq(last, source)) {
            self.start.clear();
            self.start.extend_from_slice(b"\":[");
            escape(&source.url, &mut self.start);
            self.start.push(b',');
            self.source = Some(Arc::clone(source));
        }
        &self.start
    }
}

/// Serializer of chunk keys, for ascending positions.
pub(crate) struct ChunkKeys {
    prefix: Vec<u8>,
    separator: u8,
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// Position of the last key.
    last: u64,
    /// Coordinates of `last`, slowest axis first.
    coordinates: Vec<u64>,
}

impl ChunkKeys {
    /// Returns a serializer for an array's chunks; `start` is the array's path, escaped for the output.
    pub(crate) fn new(start: Vec<u8>, counts: Vec<u64>, format: ZarrFormat) -> Self {
        let mut prefix = start;
        prefix.push(b'/');
        let separator = match format {
            ZarrFormat::V2 => b'.',
            ZarrFormat::V3 => b'/',
        };
        prefix.extend_from_slice(match (format, counts.is_empty()) {
            (ZarrFormat::V2, true) => b"0",
            (ZarrFormat::V2, false) => b"",
            (ZarrFormat::V3, true) => b"c",
            (ZarrFormat::V3, false) => b"c/",
        });
        let coordinates = vec![0; counts.len()];
        Self { prefix, separator, counts, last: 0, coordinates }
    }

    /// Appends the key of a position inside the grid and below 2⁶³.
    pub(crate) fn write(&mut self, position: u64, out: &mut Vec<u8>) {
        self.move_to(position);
        out.extend_from_slice(&self.prefix);
        for (axis, coordinate) in self.coordinates.iter().enumerate() {
            if axis > 0 {
                out.push(self.separator);
            }
            number(*coordinate, out);
        }
    }

    /// Moves the coordinates to a position, carrying the difference from the fastest axis upwards.
    fn move_to(&mut self, position: u64) {
        if position < self.last {
            self.coordinates.fill(0);
            self.last = 0;
        }
        let mut carry = position - self.last;
        for (coordinate, count) in self.coordinates.iter_mut().zip(&self.counts).rev() {
            let sum = *coordinate + carry;
            if sum < *count {
                *coordinate = sum;
                break;
            }
            (*coordinate, carry) = (sum % count, sum / count);
        }
        self.last = position;
    }
}
