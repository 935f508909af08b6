//! Reference JSON: metadata as text, chunks as `[url, offset, length]` or inline.

use std::io;

use virtualize_zarr::{Array, ChunkEntry, Hierarchy, Reference, ZarrFormat};

use crate::{
    EmitError,
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
pub(crate) fn write(hierarchy: &Hierarchy, out: &mut dyn io::Write) -> Result<(), EmitError> {
    let mut refs = RefsWriter::new(out);
    for (key, document) in documents(hierarchy)? {
        refs.text(&key, &document.to_string())?;
    }
    let urls: Vec<Vec<u8>> = hierarchy.sources.iter().map(|source| reference_start(&source.url)).collect();
    for (path, array) in hierarchy.arrays() {
        ArrayChunks::new(&path, array, hierarchy.format).write(&urls, &mut refs)?;
    }
    Ok(refs.finish()?)
}

/// Returns the text between a chunk's key and its offset.
fn reference_start(url: &str) -> Vec<u8> {
    let mut start = b"\":[".to_vec();
    escape(url, &mut start);
    start.push(b',');
    start
}

/// Writer of the chunks of one array.
struct ArrayChunks<'a> {
    path: &'a str,
    array: &'a Array,
    keys: ChunkKeys,
}

impl<'a> ArrayChunks<'a> {
    fn new(path: &'a str, array: &'a Array, format: ZarrFormat) -> Self {
        let counts = array.chunk_grid.counts(&array.shape);
        let mut start = vec![b'"'];
        escape_inner(path, &mut start);
        Self { path, array, keys: ChunkKeys::new(start, counts, format) }
    }

    fn write(mut self, urls: &[Vec<u8>], refs: &mut RefsWriter<'_>) -> Result<(), EmitError> {
        for (position, entry) in self.array.chunks.iter() {
            let buffer = refs.entry()?;
            if !self.keys.write(position, buffer) {
                return Err(self.keys.outside(self.path, position));
            }
            match entry {
                ChunkEntry::Reference(reference) => {
                    let url = urls.get(reference.source.index());
                    buffer
                        .extend_from_slice(url.ok_or_else(|| self.nowhere(position, reference, urls.len()))?);
                    number(reference.offset, buffer);
                    buffer.push(b',');
                    number(reference.length, buffer);
                    buffer.push(b']');
                }
                ChunkEntry::Inline(bytes) => {
                    buffer.extend_from_slice(b"\":");
                    inline(bytes, buffer);
                }
            }
        }
        Ok(())
    }

    /// Returns the error for a chunk in a source that the hierarchy does not list.
    fn nowhere(&self, position: u64, reference: Reference, sources: usize) -> EmitError {
        let path = format!("/{}", self.path);
        EmitError::Source { path, position, source_index: reference.source.0, sources }
    }
}

/// Returns the number of chunks of a grid, at most 2⁶³.
pub(crate) fn grid_total(counts: &[u64]) -> u64 {
    let all = counts.iter().fold(1u128, |product, n| product.saturating_mul(u128::from(*n)));
    u64::try_from(all).unwrap_or(u64::MAX).min(1 << 63)
}

/// Serializer of chunk keys, for ascending positions.
pub(crate) struct ChunkKeys {
    prefix: Vec<u8>,
    separator: u8,
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// Number of chunks, at most 2⁶³, so that sums of coordinates do not overflow. Positions from here on are outside
    /// the grid.
    total: u64,
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
        let total = grid_total(&counts);
        let coordinates = vec![0; counts.len()];
        Self { prefix, separator, counts, total, last: 0, coordinates }
    }

    /// Appends the key of a position. Returns `false` if the position is outside the grid.
    pub(crate) fn write(&mut self, position: u64, out: &mut Vec<u8>) -> bool {
        if position >= self.total {
            return false;
        }
        self.move_to(position);
        out.extend_from_slice(&self.prefix);
        for (axis, coordinate) in self.coordinates.iter().enumerate() {
            if axis > 0 {
                out.push(self.separator);
            }
            number(*coordinate, out);
        }
        true
    }

    /// Returns the error for a position outside the grid.
    pub(crate) fn outside(&self, path: &str, position: u64) -> EmitError {
        EmitError::Position { path: format!("/{path}"), position, counts: self.counts.clone() }
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
