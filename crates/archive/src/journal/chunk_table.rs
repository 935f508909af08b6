//! The chunks of an array of a file, as bytes.
//!
//! ```text
//! columns                                          number
//!   source · 4 + flags                             flags: 1 positions follow, 2 each chunk has a length of its own
//!   chunks                                         number
//!   positions, if they are not 0, 1, 2, …          first, then the number of positions skipped
//!   lengths                                        one for all, or differences
//!   offsets                                        differences from the end of the chunk before
//! buffers of inline chunks                         number, then length and bytes of each
//! inline chunks                                    number, then positions skipped and index of the buffer of each
//! ```
//!
//! No chunks are no bytes.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use virtualize::zarr::{
    ChunkEntry, ChunkManifest, Lengths, Reference, References, ReferencesBuilder, SourceId,
};

use super::varint::{Reader, put, put_bytes, put_difference};

const POSITIONS: u64 = 1;
const LENGTHS: u64 = 2;

/// Encodes the chunks of a manifest. `source_of` assigns each source its index in the record.
pub(super) fn encode(manifest: &ChunkManifest, mut source_of: impl FnMut(SourceId) -> u32) -> Vec<u8> {
    let mut columns: BTreeMap<u32, ReferencesBuilder> = BTreeMap::new();
    let mut inline = BTreeMap::new();
    for (position, entry) in manifest.iter() {
        match entry {
            ChunkEntry::Inline(bytes) => drop(inline.insert(position, bytes)),
            ChunkEntry::Reference(Reference { source, offset, length }) => {
                columns.entry(source_of(source)).or_default().push(position, offset, length);
            }
        }
    }
    let columns: Vec<References> =
        columns.into_iter().flat_map(|(source, column)| column.finish(SourceId(source))).collect();
    let mut out = Vec::new();
    if columns.is_empty() && inline.is_empty() {
        return out;
    }
    put(&mut out, columns.len() as u64);
    for column in &columns {
        put_column(&mut out, column);
    }
    put_inline(&mut out, &inline);
    out
}

fn put_column(out: &mut Vec<u8>, column: &References) {
    let chunks: Vec<(u64, Reference)> = column.iter().collect();
    let has_gaps = (0..).zip(&chunks).any(|(at, (position, _))| *position != at);
    let first = chunks.first().map(|(_, chunk)| chunk.length).unwrap_or_default();
    let differ = chunks.iter().any(|(_, chunk)| chunk.length != first);
    let flags = if has_gaps { POSITIONS } else { 0 } | if differ { LENGTHS } else { 0 };
    put(out, u64::from(column.source.0) << 2 | flags);
    put(out, chunks.len() as u64);
    if has_gaps {
        put_positions(out, chunks.iter().map(|(position, _)| *position));
    }
    let mut last = 0;
    for (_, chunk) in chunks.iter().take(if differ { usize::MAX } else { 1 }) {
        put_difference(out, chunk.length, last);
        last = chunk.length;
    }
    let mut end = 0;
    for (_, Reference { offset, length, .. }) in chunks {
        put_difference(out, offset, end);
        end = offset.wrapping_add(length);
    }
}

fn put_positions(out: &mut Vec<u8>, positions: impl Iterator<Item = u64>) {
    let mut next = 0;
    for position in positions {
        put(out, position.wrapping_sub(next));
        next = position.wrapping_add(1);
    }
}

fn put_inline(out: &mut Vec<u8>, inline: &BTreeMap<u64, &Bytes>) {
    let mut indices = HashMap::new();
    let mut buffers = Vec::new();
    let of_chunks: Vec<u64> = inline
        .values()
        .map(|bytes| {
            *indices.entry(bytes.as_ref()).or_insert_with(|| {
                buffers.push(bytes.as_ref());
                buffers.len() as u64 - 1
            })
        })
        .collect();
    put(out, buffers.len() as u64);
    for buffer in buffers {
        put_bytes(out, buffer);
    }
    put(out, inline.len() as u64);
    put_positions(out, inline.keys().copied());
    for buffer in of_chunks {
        put(out, buffer);
    }
}

/// Decodes a manifest whose chunks are in `sources` sources; `None` if the bytes are damaged. Memory is bounded by the
/// number of bytes.
pub(super) fn decode(bytes: Bytes, sources: usize) -> Option<ChunkManifest> {
    if bytes.is_empty() {
        return Some(ChunkManifest::default());
    }
    let mut reader = Reader(bytes);
    let columns = reader.count()?;
    let references = (0..columns).map(|_| column(&mut reader, sources)).collect::<Option<Vec<_>>>()?;
    let inline = inline(&mut reader)?;
    reader.0.is_empty().then_some(ChunkManifest { references, inline })
}

fn column(reader: &mut Reader, sources: usize) -> Option<References> {
    let start = reader.number()?;
    let source = SourceId(u32::try_from(start >> 2).ok()?);
    let count = reader.count()?;
    let positions = match start & POSITIONS {
        0 => None,
        _ => Some(positions(reader, count)?),
    };
    let lengths = match start & LENGTHS {
        0 if count == 0 => return None,
        0 => Lengths::Uniform(reader.number_from(0)?),
        _ => {
            let mut last = 0;
            let mut next = || {
                last = reader.number_from(last)?;
                u32::try_from(last).ok()
            };
            Lengths::Each((0..count).map(|_| next()).collect::<Option<Vec<_>>>()?.into())
        }
    };
    let (mut offsets, mut end) = (Vec::with_capacity(count), 0);
    for index in 0..count {
        let offset = reader.number_from(end)?;
        let length = match &lengths {
            Lengths::Uniform(length) => *length,
            Lengths::Each(each) => u64::from(*each.get(index)?),
        };
        offsets.push(offset);
        end = offset.checked_add(length)?;
    }
    let positions = positions.map(Into::into);
    (source.index() < sources).then(|| References { source, positions, offsets: offsets.into(), lengths })
}

fn positions(reader: &mut Reader, count: usize) -> Option<Vec<u64>> {
    let mut next = Some(0_u64);
    let mut position = || {
        let position = next?.checked_add(reader.number()?)?;
        next = position.checked_add(1);
        Some(position)
    };
    (0..count).map(|_| position()).collect()
}

fn inline(reader: &mut Reader) -> Option<BTreeMap<u64, Bytes>> {
    let buffers = reader.count()?;
    let buffers = (0..buffers).map(|_| reader.bytes()).collect::<Option<Vec<_>>>()?;
    let count = reader.count()?;
    let positions = positions(reader, count)?;
    let buffer = |position| Some((position, buffers.get(usize::try_from(reader.number()?).ok()?)?.clone()));
    positions.into_iter().map(buffer).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn damaged_bytes_are_refused_or_read_as_a_manifest() {
        let mut manifest = ChunkManifest::of(References {
            source: SourceId(0),
            positions: Some(vec![0, 2, 3].into()),
            offsets: vec![10, 1000, 5].into(),
            lengths: Lengths::Each(vec![5, 6, 7].into()),
        });
        manifest.inline = [(1, Bytes::from_static(b"abc")), (9, Bytes::from_static(b"abc"))].into();
        let whole = encode(&manifest, |id| id.0);
        assert_eq!(decode(whole.clone().into(), 1), Some(manifest));
        assert_eq!(decode(whole.clone().into(), 0), None, "no such source");
        for end in 1..whole.len() {
            assert_eq!(decode(Bytes::copy_from_slice(whole.get(..end).unwrap()), 1), None);
        }
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                *bytes.get_mut(at).unwrap() = rng.u8(..);
            }
            if let Some(manifest) = decode(bytes.into(), 3) {
                assert!(manifest.len() < 100);
            }
        }
    }
}
