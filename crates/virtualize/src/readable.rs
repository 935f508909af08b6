//! `readable_by`: arrays that some wanted reader would not decode are spelled otherwise, made anew inline where they are
//! small, or left out.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_map::{
    ChunkContent, Diagnostic, ElementTransform, InlineTask, MapOptions, Mapped, Piece, PieceBytes, Severity,
};
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, FillValue, SourceId, ZarrFormat,
    readers::{Client, Reader, plain_codecs, untransposed, verdict},
};

use crate::inline::leave_out;

/// What becomes of an array.
struct Change {
    /// Without chunks.
    array: Array,
    /// Whether the chunks stay.
    keeps_chunks: bool,
    /// Chunks that are to be made.
    tasks: Vec<InlineTask>,
}

/// Changes what some client would not decode; the tasks that this needs are left in `mapped`. To be called when all
/// chunks are in their places, and followed by [`leave_out_unreadable`].
pub(crate) fn adapt(mapped: &mut Mapped, clients: &[Client], options: &MapOptions) {
    let format = mapped.hierarchy.format;
    let arrays = mapped.hierarchy.arrays();
    let unread = arrays.into_iter().filter(|(path, array)| !is_read(path, array, format, clients));
    let changes: Vec<_> = unread
        .filter_map(|(path, array)| {
            let change = change(&path, array, format, clients, options)?;
            Some((path, change))
        })
        .collect();
    for (path, change) in changes {
        let message = match (change.tasks.is_empty(), change.keeps_chunks) {
            (true, true) => "its axes lie in the order in which they are stored",
            (false, true) => "chunks that are missing are written",
            (_, false) => "its chunks are made anew and inlined",
        };
        if let Some(place) = mapped.hierarchy.array_mut(&path) {
            let chunks = std::mem::take(&mut place.chunks);
            *place = change.array;
            place.chunks = if change.keeps_chunks { chunks } else { ChunkManifest::default() };
        }
        mapped.tasks.extend(change.tasks);
        mapped.report.diagnostics.push(Diagnostic {
            severity: Severity::Info,
            code: "reader-adapted",
            path: format!("/{path}"),
            message: format!("for the readers that are wanted, {message}"),
            remedy: None,
        });
    }
}

/// Leaves out what some client would not decode.
pub(crate) fn leave_out_unreadable(mapped: &mut Mapped, clients: &[Client]) {
    let format = mapped.hierarchy.format;
    let arrays = mapped.hierarchy.arrays();
    let refused: Vec<_> = arrays
        .into_iter()
        .filter_map(|(path, array)| {
            let why = lacking(&path, array, format, clients);
            (!why.is_empty()).then(|| (path, why.join("; ")))
        })
        .collect();
    for (path, why) in refused {
        let message = format!("the array is left out: not readable by {why}");
        leave_out(mapped, &path, "reader-lacks", message, why);
    }
}

/// Who does not decode it, and why. Scalars, which describe rasters but are none, stay for GDAL.
fn lacking(path: &str, array: &Array, format: ZarrFormat, clients: &[Client]) -> Vec<String> {
    let lack = |client: &Client| {
        if client.reader == Reader::Gdal && array.shape.is_empty() {
            return None;
        }
        let why = client.lacks(&verdict(client.reader, path, array, format))?;
        Some(format!("{client}: {why}"))
    };
    clients.iter().filter_map(lack).collect()
}

fn is_read(path: &str, array: &Array, format: ZarrFormat, clients: &[Client]) -> bool {
    lacking(path, array, format, clients).is_empty()
}

/// The first way that all clients decode: another order of axes; missing chunks written; all chunks made anew.
fn change(
    path: &str,
    array: &Array,
    format: ZarrFormat,
    clients: &[Client],
    options: &MapOptions,
) -> Option<Change> {
    let bare = without_chunks(array);
    let respelled = untransposed(array).map(|respelled| without_chunks(&respelled));
    let plain = plain_codecs(array, format).map(|codecs| Array { codecs, ..bare.clone() });
    let plain_respelled = plain.as_ref().and_then(untransposed);
    let kept = [Some(bare), respelled.clone()].into_iter().flatten();
    let spellings = kept.clone().map(|spelt| (spelt, false)).chain(kept.map(|spelt| (spelt, true)));
    let anew = [plain, plain_respelled].into_iter().flatten();
    let spellings = spellings.chain(anew.flat_map(|spelt| [(spelt.clone(), false), (spelt, true)]));
    spellings
        .filter_map(|(spelt, fills)| Remake::new(array, spelt, fills, options))
        .find(|remake| is_read(path, &remake.preview(), format, clients))
        .map(|remake| remake.change(path))
}

/// All but the chunks, of which there may be millions.
fn without_chunks(array: &Array) -> Array {
    Array {
        shape: array.shape.clone(),
        data_type: array.data_type.clone(),
        chunk_grid: array.chunk_grid.clone(),
        fill_value: array.fill_value.clone(),
        codecs: array.codecs.clone(),
        dimension_names: array.dimension_names.clone(),
        attributes: array.attributes.clone(),
        chunks: ChunkManifest::default(),
    }
}

/// Chunks of an array that are to be made in another spelling of it.
struct Remake<'a> {
    old: &'a Array,
    /// Without chunks.
    new: Array,
    /// Whether the chunks that there are stay as they are.
    keeps_chunks: bool,
    /// Positions without a chunk that get one.
    filled: Vec<u64>,
    /// Shape of a chunk in stored order.
    shape: Vec<u64>,
    /// An element of the fill value as it is stored.
    background: Bytes,
}

impl<'a> Remake<'a> {
    /// `None` where it would inline more than is allowed.
    fn new(old: &'a Array, new: Array, fills: bool, options: &MapOptions) -> Option<Self> {
        let ChunkGrid::Regular(chunk) = &old.chunk_grid else { return None };
        let all = old.chunk_grid.counts(&old.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n))?;
        let missing = all.checked_sub(old.chunks.len())?;
        let keeps_chunks = codecs_of_chunks(&new).eq(codecs_of_chunks(old));
        if fills && (missing == 0 || missing > options.constant_chunk_limit) {
            return None;
        }
        let size = old.data_type.size()?;
        let bytes = chunk.iter().try_fold(size, |bytes, n| bytes.checked_mul((*n).max(1)))?;
        let inlined =
            if keeps_chunks { 0 } else { old.chunks.len() }.checked_add(if fills { missing } else { 0 })?;
        if bytes.checked_mul(inlined)? > options.inline_limit {
            return None;
        }
        let filled = match fills {
            true => (0..all).filter(|position| old.chunks.get(*position).is_none()).collect(),
            false => Vec::new(),
        };
        let zero = || FillValue::zero(&old.data_type);
        let fill = old.fill_value.clone().unwrap_or_else(zero);
        let background = fill.to_stored(&old.data_type, old.endian())?.into();
        Some(Self { old, new, keeps_chunks, filled, shape: stored_shape(chunk, &old.codecs)?, background })
    }

    /// The new array with chunks of no bytes where some will be made.
    fn preview(&self) -> Array {
        let made_anew = || self.old.chunks.iter().map(|(position, _)| (position, Bytes::new())).collect();
        let mut chunks = match self.keeps_chunks {
            true => self.old.chunks.clone(),
            false => ChunkManifest { references: Vec::new(), inline: made_anew() },
        };
        chunks.inline.extend(self.filled.iter().map(|position| (*position, Bytes::new())));
        Array { chunks, ..self.new.clone() }
    }

    fn change(self, path: &str) -> Change {
        let mut tasks = if self.keeps_chunks { Vec::new() } else { self.tasks(path) };
        if !self.filled.is_empty() {
            tasks.push(self.task(path, self.filled.clone(), Vec::new()));
        }
        Change { array: self.new, keeps_chunks: self.keeps_chunks, tasks }
    }

    /// One task a chunk; one for all positions of a chunk that is written more than once.
    fn tasks(&self, path: &str) -> Vec<InlineTask> {
        let mut here: BTreeMap<&Bytes, Vec<u64>> = BTreeMap::new();
        let mut tasks = Vec::new();
        for (position, entry) in self.old.chunks.iter() {
            match entry {
                ChunkEntry::Inline(bytes) => here.entry(bytes).or_default().push(position),
                ChunkEntry::Reference(at) => {
                    let range = ByteRange::new(at.offset, at.length);
                    let piece = self.piece(at.source, PieceBytes::At(range));
                    tasks.push(self.task(path, vec![position], vec![piece]));
                }
            }
        }
        tasks.extend(here.into_iter().map(|(bytes, positions)| {
            let piece = self.piece(SourceId::default(), PieceBytes::Here(bytes.clone()));
            self.task(path, positions, vec![piece])
        }));
        tasks
    }

    fn task(&self, path: &str, positions: Vec<u64>, pieces: Vec<Piece>) -> InlineTask {
        let (shape, background) = (self.shape.clone(), self.background.clone());
        InlineTask {
            array: path.to_owned(),
            positions,
            content: ChunkContent::Assemble { shape, background, pieces },
        }
    }

    fn piece(&self, source: SourceId, bytes: PieceBytes) -> Piece {
        let start = vec![0; self.shape.len()];
        Piece {
            source,
            bytes,
            codecs: self.old.codecs.clone(),
            shape: self.shape.clone(),
            from: start.clone(),
            to: start,
            extent: self.shape.clone(),
            transform: ElementTransform::None,
        }
    }
}

/// Shape of a chunk as it is stored, after any `transpose`.
fn stored_shape(chunk: &[u64], codecs: &[Codec]) -> Option<Vec<u64>> {
    let sizes: Vec<u64> = chunk.iter().map(|n| (*n).max(1)).collect();
    codecs.iter().try_fold(sizes, |sizes, codec| match codec {
        Codec::Transpose { order } => order.iter().map(|axis| sizes.get(*axis).copied()).collect(),
        _ => Some(sizes),
    })
}

/// The codecs that the bytes of chunks depend on: all but those that move axes.
fn codecs_of_chunks(array: &Array) -> impl Iterator<Item = &Codec> {
    array.codecs.iter().filter(|codec| !matches!(codec, Codec::Transpose { .. }))
}
