//! The encoding of records: integers of variable length (seven bits a byte, the lowest first, LEB128), chunk tables, and
//! texts as their difference from a similar one (Zstandard).
//!
//! Chunks of an array:
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
//! An empty list of chunks has no bytes.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use bytes::{Buf, Bytes};
use virtualize::zarr::{
    ChunkEntry, ChunkManifest, Lengths, Reference, References, ReferencesBuilder, SourceId,
};
use zstd::bulk::{Compressor, Decompressor};

/// Flags of a column of chunks.
const POSITIONS: u64 = 1;
const LENGTHS: u64 = 2;

/// Encodes the chunks of an array. `source_of` assigns each source its index in the record.
pub(super) fn encode_chunks(manifest: &ChunkManifest, mut source_of: impl FnMut(SourceId) -> u32) -> Vec<u8> {
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

/// Decodes chunks, whose chunks are in `sources` sources; `None` if the bytes are damaged. Memory is bounded by the
/// number of bytes.
pub(super) fn decode_chunks(bytes: Bytes, sources: usize) -> Option<ChunkManifest> {
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

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    let low = |number: u64| number.to_le_bytes()[0] & 0x7f;
    while number >= 0x80 {
        out.push(low(number) | 0x80);
        number >>= 7;
    }
    out.push(low(number));
}

/// Appends the difference of two numbers, which is short if they are close.
pub(super) fn put_difference(out: &mut Vec<u8>, number: u64, from: u64) {
    let difference = number.wrapping_sub(from).cast_signed();
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// Appends bytes with their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote. Every function returns `None` where the bytes end early.
pub(super) struct Reader(pub(super) Bytes);

impl Reader {
    /// Returns the next number.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.first()?;
            self.0.advance(1);
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Returns the next number, of which there is only the difference to another.
    pub(super) fn number_from(&mut self, from: u64) -> Option<u64> {
        let difference = self.number()?;
        let difference = (difference >> 1).cast_signed() ^ -(difference & 1).cast_signed();
        Some(from.wrapping_add(difference.cast_unsigned()))
    }

    /// Returns a number of things that take at least a byte each.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// Returns the next bytes, which share the memory of all.
    pub(super) fn bytes(&mut self) -> Option<Bytes> {
        let length = self.count()?;
        Some(self.0.split_to(length))
    }

    /// Returns the next text.
    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.into()).ok()
    }

    /// Returns the next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.0.first()?;
        self.0.advance(1);
        Some(byte)
    }
}

/// Compression level.
const LEVEL: i32 = 1;
/// Maximum number of bytes of the first text that others are compared with.
const MAX_BASE: usize = 64 << 10;
/// Maximum length of a text.
const MAX_TEXT: u64 = 4 << 30;

/// The first of many texts, and what encodes and decodes the others.
pub(super) struct Dictionary {
    base: Vec<u8>,
    is_whole: bool,
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
}

impl Dictionary {
    pub(super) fn new(base: &[u8]) -> Self {
        let start = base.get(..MAX_BASE).unwrap_or(base);
        let is_whole = start.len() == base.len();
        Self { base: start.to_vec(), is_whole, compressor: None, decompressor: None }
    }

    /// Returns what must be stored for [`Self::new`].
    pub(super) fn base(&self) -> &[u8] {
        &self.base
    }

    /// Returns whether a text is the first one.
    pub(super) fn is_first(&self, text: &[u8]) -> bool {
        self.is_whole && text == self.base
    }

    /// Encodes a text: its length and one, then a Zstandard frame; a zero stands for the first text.
    pub(super) fn encode(&mut self, text: &[u8]) -> std::io::Result<Vec<u8>> {
        if text == self.base {
            return Ok(vec![0]);
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::with_dictionary(LEVEL, &self.base)?),
        };
        let mut out = Vec::new();
        put(&mut out, text.len() as u64 + 1);
        out.extend(compressor.compress(text)?);
        Ok(out)
    }

    /// Decodes a text; `None` if it is damaged.
    pub(super) fn decode(&mut self, encoded: &[u8]) -> Option<Vec<u8>> {
        let mut reader = Reader(bytes::Bytes::copy_from_slice(encoded));
        let Some(length) = reader.number()?.checked_sub(1).filter(|length| *length < MAX_TEXT) else {
            return (encoded == [0]).then(|| self.base.clone());
        };
        let length = usize::try_from(length).ok()?;
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::with_dictionary(&self.base).ok()?),
        };
        let text = decompressor.decompress(&reader.0, length).ok()?;
        (text.len() == length).then_some(text)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("base", &self.base.len()).finish_non_exhaustive()
    }
}

/// A cache that is emptied when the weight of its values exceeds a limit.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    limit: usize,
    weight: usize,
    values: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, weight: 0, values: HashMap::new() }
    }

    /// Returns what is cached under a key.
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.values.get_mut(key)
    }

    /// Caches a value. Weights are at least 1.
    pub(super) fn insert(&mut self, key: K, value: V, weight: usize) {
        if self.weight >= self.limit {
            (self.weight, self.values) = (0, HashMap::new());
        }
        self.weight = self.weight.saturating_add(weight.max(1));
        self.values.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
        let whole = encode_chunks(&manifest, |id| id.0);
        assert_eq!(decode_chunks(whole.clone().into(), 1), Some(manifest));
        assert_eq!(decode_chunks(whole.clone().into(), 0), None, "no such source");
        for end in 1..whole.len() {
            assert_eq!(decode_chunks(Bytes::copy_from_slice(whole.get(..end).unwrap()), 1), None);
        }
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                *bytes.get_mut(at).unwrap() = rng.u8(..);
            }
            if let Some(manifest) = decode_chunks(bytes.into(), 3) {
                assert!(manifest.len() < 100);
            }
        }
    }

    #[test]
    fn numbers_round_trip() {
        let numbers = [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX - 1, u64::MAX];
        let mut out = Vec::new();
        for (number, from) in numbers.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
            put(&mut out, number);
            put_difference(&mut out, number, from);
        }
        let mut reader = Reader(out.into());
        for (number, from) in numbers.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
            assert_eq!((reader.number(), reader.number_from(from)), (Some(number), Some(number)));
        }
        assert_eq!(reader.number(), None);
    }

    #[test]
    fn small_numbers_are_short_and_long_ones_end() {
        let mut out = Vec::new();
        put_difference(&mut out, 63, 64);
        assert_eq!(out, [1]);
        assert_eq!(Reader(vec![0xff; 20].into()).number(), None);
        assert_eq!(Reader(vec![5, 1].into()).bytes(), None);
    }

    #[test]
    fn texts_round_trip_and_take_little_if_they_differ_little() {
        let mut state = 1_u64;
        let mut noise = |length| {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..length).map(|_| next()).collect::<Vec<u8>>()
        };
        let base = noise(3000);
        let mut other = base.clone();
        other.splice(1000..1010, noise(20));
        let mut dictionary = Dictionary::new(&base);
        for text in [base, other, Vec::new(), noise(5000)] {
            let encoded = dictionary.encode(&text).unwrap();
            assert!(text.len() > 4000 || encoded.len() < 80, "{}", encoded.len());
            assert_eq!(Dictionary::new(dictionary.base()).decode(&encoded), Some(text));
        }
        for damaged in [&[][..], &[9], &[0, 0], &[200, 1, 2, 3]] {
            assert_eq!(dictionary.decode(damaged), None);
        }
        assert_eq!(Dictionary::new(&[]).decode(&[0]), Some(Vec::new()));
    }

    #[test]
    fn what_was_kept_last_stays() {
        let mut recent = Recent::new(10);
        for n in 0..1000 {
            recent.insert(n, "text", 2);
            assert!(recent.get(&n).is_some());
            assert!(recent.values.len() < 20);
        }
        assert!(recent.get(&1).is_none());
    }
}
