//! Adapts arrays to the readers that the user wants. An array that one of them does not decode gets other metadata where
//! that suffices, is re-encoded and inlined where it is small, and is omitted otherwise.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_remedy::Code;
use virtualize_zarr::readers::{ChunkFacts, Client, Reader, compatibility, plain_codecs, untransposed};
use virtualize_zarr::{Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, FillValue, SourceId, ZarrFormat};

use crate::{
    ChunkContent, ElementTransform, InlineTask, MapOptions, Mapped, Omitted, Piece, PieceBytes, StoredChange,
};

impl Mapped {
    /// Changes or leaves out the arrays that one of the clients would not decode. Chunks that are still to be made
    /// count as present, with an odd number of bytes.
    pub fn adapt_to(&mut self, clients: &[Client], options: &MapOptions) {
        if clients.is_empty() {
            return;
        }
        let mut pending: BTreeMap<&str, Vec<&InlineTask>> = BTreeMap::new();
        for task in &self.tasks {
            pending.entry(&task.array).or_default().push(task);
        }
        let format = self.hierarchy.format;
        let (mut changes, mut refused) = (Vec::new(), Vec::new());
        for (path, array) in self.hierarchy.arrays() {
            let old = Stored::new(array, pending.get(path.as_str()).map_or(&[][..], Vec::as_slice));
            let why = refusals(&path, array, old.facts, format, clients);
            if why.is_empty() {
                continue;
            }
            match change(&path, &old, format, clients, options) {
                Some(remake) => {
                    let tasks = remake.tasks(&path);
                    changes.push((path, remake.new, remake.keeps_chunks, tasks));
                }
                None => {
                    let reason = why.join("; ");
                    let message = format!("array omitted: not readable by {reason}");
                    let (code, remedy, with_companions) = (Code::ReaderLacks, None, false);
                    refused.push((path, Omitted { code, message, reason, remedy, with_companions }));
                }
            }
        }
        for (path, new, keeps_chunks, tasks) in changes {
            let message = match (tasks.is_empty(), keeps_chunks) {
                (true, true) => "its axes are in the order in which they are stored",
                (false, true) => "missing chunks are written",
                (_, false) => "its chunks are re-encoded and inlined",
            };
            if let Some(array) = self.hierarchy.array_mut(&path) {
                let chunks = std::mem::replace(array, new).chunks;
                if keeps_chunks {
                    array.chunks = chunks;
                } else {
                    self.tasks.retain(|task| task.array != path);
                }
            }
            self.tasks.extend(tasks);
            let message = format!("adapted to the requested readers: {message}");
            self.report.info(Code::ReaderAdapted, &path, message);
        }
        self.omit(refused);
    }
}

/// Returns who does not decode an array, and why. Scalars, which describe rasters but are none, stay for GDAL.
fn refusals(
    path: &str,
    array: &Array,
    chunks: ChunkFacts,
    format: ZarrFormat,
    clients: &[Client],
) -> Vec<String> {
    let found = compatibility(path, array, chunks, format);
    let refusal = |client: &Client| {
        if client.reader == Reader::Gdal && array.shape.is_empty() {
            return None;
        }
        let (_, compatibility) = found.iter().find(|(reader, _)| *reader == client.reader)?;
        let why = client.obstacle(compatibility)?;
        Some(format!("{client}: {why}"))
    };
    clients.iter().filter_map(refusal).collect()
}

/// An array as it is stored, with the chunks that are still to be made.
struct Stored<'a> {
    array: &'a Array,
    pending: &'a [&'a InlineTask],
    /// Positions of pending chunks.
    made: BTreeSet<u64>,
    /// Number of chunks.
    len: u64,
    facts: ChunkFacts,
}

impl<'a> Stored<'a> {
    fn new(array: &'a Array, pending: &'a [&'a InlineTask]) -> Self {
        let made: BTreeSet<u64> = pending.iter().flat_map(|task| task.positions.iter().copied()).collect();
        let added = made.iter().filter(|position| array.chunks.get(**position).is_none()).count();
        let len = array.chunks.len().saturating_add(added as u64);
        let mut facts = ChunkFacts::of(array);
        facts.has_odd_length |= !made.is_empty();
        facts.shows_fill_value &= positions(array).is_none_or(|all| len < all);
        Self { array, pending, made, len, facts }
    }
}

/// Returns the first form that all clients decode: another order of axes; missing chunks written; all chunks re-encoded.
fn change<'a>(
    path: &str,
    old: &'a Stored<'a>,
    format: ZarrFormat,
    clients: &[Client],
    options: &MapOptions,
) -> Option<Remake<'a>> {
    let bare = Array { chunks: ChunkManifest::default(), ..old.array.clone() };
    let plain = plain_codecs(old.array, format).map(|codecs| Array { codecs, ..bare.clone() });
    let plain_reordered = plain.as_ref().and_then(untransposed);
    let reordered = untransposed(&bare);
    let kept = [Some(bare), reordered].into_iter().flatten();
    let forms = kept.clone().map(|form| (form, false)).chain(kept.map(|form| (form, true)));
    let re_encoded = [plain, plain_reordered].into_iter().flatten();
    let forms = forms.chain(re_encoded.flat_map(|form| [(form.clone(), false), (form, true)]));
    forms
        .filter_map(|(form, fills)| Remake::new(old, form, fills, options))
        .find(|remake| refusals(path, &remake.new, remake.facts(), format, clients).is_empty())
}

/// Returns the number of positions for chunks.
fn positions(array: &Array) -> Option<u64> {
    array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n))
}

/// An array in another form, with the chunks that this form needs.
struct Remake<'a> {
    old: &'a Stored<'a>,
    /// Without chunks.
    new: Array,
    /// Whether existing chunks stay as they are.
    keeps_chunks: bool,
    /// Positions without a chunk that get one.
    filled: Vec<u64>,
    /// Shape of a chunk in stored order.
    shape: Vec<u64>,
    /// An element of the fill value in stored order.
    background: Bytes,
}

impl<'a> Remake<'a> {
    /// Returns `None` where more would be inlined than the options allow.
    fn new(old: &'a Stored<'a>, new: Array, fills: bool, options: &MapOptions) -> Option<Self> {
        let array = old.array;
        let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return None };
        let (all, present) = (positions(array)?, old.len);
        let missing = all.checked_sub(present)?;
        let keeps_chunks = codecs_of_chunks(&new).eq(codecs_of_chunks(array));
        if fills && (missing == 0 || missing > options.constant_chunk_limit) {
            return None;
        }
        let size = array.data_type.size()?;
        let bytes = chunk.iter().try_fold(size, |bytes, n| bytes.checked_mul((*n).max(1)))?;
        let inlined = if keeps_chunks { 0 } else { present }.checked_add(if fills { missing } else { 0 })?;
        if bytes.checked_mul(inlined)? > options.inline_limit {
            return None;
        }
        let has_no_chunk = |at: &u64| !old.made.contains(at) && old.array.chunks.get(*at).is_none();
        let filled = if fills { (0..all).filter(has_no_chunk).collect() } else { Vec::new() };
        // Content that is encoded in the array's codecs when it is made, and cannot be made in others.
        let is_encoded = |task: &&InlineTask| matches!(&task.content, ChunkContent::Stored { change, .. } if *change != StoredChange::ReverseBits);
        if !keeps_chunks && old.pending.iter().any(is_encoded) {
            return None;
        }
        let fill = array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&array.data_type));
        let background = fill.to_stored(&array.data_type, array.endian())?.into();
        Some(Self { old, new, keeps_chunks, filled, shape: stored_shape(chunk, &array.codecs)?, background })
    }

    /// Returns the facts about the chunks of the new array. Chunks that do not exist yet may have an odd number of bytes.
    fn facts(&self) -> ChunkFacts {
        let adds_chunks = !self.filled.is_empty() || !self.keeps_chunks;
        ChunkFacts {
            shows_fill_value: self.old.facts.shows_fill_value && self.filled.is_empty(),
            has_odd_length: self.old.facts.has_odd_length || adds_chunks,
        }
    }

    /// Returns a task for each chunk that does not stay, one for all positions of an inline chunk that occurs more than once,
    /// and one for the missing chunks.
    fn tasks(&self, path: &str) -> Vec<InlineTask> {
        let mut tasks = Vec::new();
        if !self.filled.is_empty() {
            tasks.push(self.assembled(path, self.filled.clone(), Vec::new()));
        }
        if self.keeps_chunks {
            return tasks;
        }
        let mut inline: BTreeMap<&Bytes, Vec<u64>> = BTreeMap::new();
        tasks.extend(self.old.pending.iter().map(|task| match task.content {
            ChunkContent::Stored { source, range, change: StoredChange::ReverseBits } => {
                let mut piece = self.piece(source, PieceBytes::At(range));
                piece.codecs.push(Codec::BitOrder);
                self.assembled(path, task.positions.clone(), vec![piece])
            }
            // Assembled chunks end in the codecs of the array.
            _ => (*task).clone(),
        }));
        for (position, entry) in self.old.array.chunks.iter() {
            match entry {
                _ if self.old.made.contains(&position) => {}
                ChunkEntry::Inline(bytes) => inline.entry(bytes).or_default().push(position),
                ChunkEntry::Reference(at) => {
                    let range = ByteRange::new(at.offset, at.length);
                    let piece = self.piece(at.source, PieceBytes::At(range));
                    tasks.push(self.assembled(path, vec![position], vec![piece]));
                }
            }
        }
        tasks.extend(inline.into_iter().map(|(bytes, positions)| {
            let piece = self.piece(SourceId::default(), PieceBytes::Here(bytes.clone()));
            self.assembled(path, positions, vec![piece])
        }));
        tasks
    }

    fn assembled(&self, path: &str, positions: Vec<u64>, pieces: Vec<Piece>) -> InlineTask {
        let (shape, background) = (self.shape.clone(), self.background.clone());
        let content = ChunkContent::Assemble { shape, background, pieces };
        InlineTask { array: path.to_owned(), positions, content }
    }

    fn piece(&self, source: SourceId, bytes: PieceBytes) -> Piece {
        let codecs = self.old.array.codecs.clone();
        Piece::whole(source, bytes, codecs, self.shape.clone(), ElementTransform::None)
    }
}

/// Returns the shape of a chunk as it is stored, after any `transpose`.
pub(crate) fn stored_shape(chunk: &[u64], codecs: &[Codec]) -> Option<Vec<u64>> {
    let sizes: Vec<u64> = chunk.iter().map(|n| (*n).max(1)).collect();
    codecs.iter().try_fold(sizes, |sizes, codec| match codec {
        Codec::Transpose { order } => order.iter().map(|axis| sizes.get(*axis).copied()).collect(),
        _ => Some(sizes),
    })
}

/// Returns the codecs on which the bytes of chunks depend: all but those that move axes.
fn codecs_of_chunks(array: &Array) -> impl Iterator<Item = &Codec> {
    array.codecs.iter().filter(|codec| !matches!(codec, Codec::Transpose { .. }))
}
