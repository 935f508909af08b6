//! What Zarr readers decode.
//!
//! First, a sample of the chunks that stay references is decoded as Zarr readers do, before an array is offered. libtiff and libhdf5
//! ignore bytes after the end of a chunk, and libhdf5 reads chunks at the edge of a dataset that end with its last element;
//! Zarr readers fail on both, and on images of another size than their chunk. The caller decodes the chunks between
//! [`sample`] and [`settle`].
//!
//! Then arrays are adapted to the readers that the user wants. An array that one of them does not decode gets other metadata
//! where that suffices, is re-encoded and inlined where it is small, and is omitted otherwise.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;
use virtualize_bytes::ByteRange;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::readers::{ChunkFacts, Client, Reader, compatibility, plain_codecs, untransposed};
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, ChunkManifest, Codec, FillValue, Implementation, NodePath, Reference,
    SourceId, ZarrFormat, chunk_indices,
};

use crate::tiff::stored_type;
use crate::{
    ChunkContent, ElementTransform, InlineTask, MapOptions, Mapped, Omitted, Piece, PieceBytes, StoredChange,
};

/// Limits of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleLimits {
    /// Maximum number of chunks of an array.
    pub chunks: u64,
    /// Maximum number of stored bytes of all arrays.
    pub stored: u64,
    /// Maximum number of decoded bytes of all arrays.
    pub decoded: u64,
}

/// What a Zarr reader makes of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// As many bytes as the chunk has.
    Exact,
    /// More bytes.
    Longer,
    /// So many bytes, which are fewer.
    Shorter(u64),
    /// Lossless JPEG of another shape with as many samples, in order: readers decode it without its colors.
    OtherShape,
    /// An image that the array does not describe.
    OtherImage(String),
    /// An error.
    Damaged(String),
}

/// Returns the chunks to examine of each array: the first, the last, and others between them, as far as the limits allow.
pub fn sample(mapped: &Mapped, limits: SampleLimits) -> BTreeMap<NodePath, Vec<(u64, Reference)>> {
    let SampleLimits { mut stored, mut decoded, .. } = limits;
    let made = made(mapped);
    let is_decoded = |codec: &Codec| codec.is_arithmetic() || codec.implementation() != Implementation::None;
    let is_compressed = |array: &Array| {
        array.codecs.iter().any(Codec::is_bytes_to_bytes) && array.codecs.iter().all(is_decoded)
    };
    let arrays = mapped.hierarchy.arrays().into_iter().filter(|(_, array)| {
        image_codec(array).is_some() || is_compressed(array) && array.data_type.size().is_some()
    });
    let sampled = arrays.map(|(path, array)| {
        let columns = &array.chunks.references;
        let count: u64 = columns.iter().map(|column| column.len() as u64).sum();
        let wanted = limits.chunks.min(count);
        // Memory to decode a chunk; of images, only the header is read.
        let size = |position| match (image_codec(array), used(array, position)) {
            (Some(_), _) => 0,
            (None, Some((_, shape))) => {
                let size = stored_type(array).size().unwrap_or(u64::MAX);
                shape.iter().fold(size, |bytes, n| bytes.saturating_mul(*n))
            }
            (None, None) => u64::MAX,
        };
        let mut chunks = Vec::new();
        // The last chunk may be stored differently from the others.
        for step in (0..wanted.min(1)).chain(wanted.max(2) - 1..wanted).chain(1..wanted.max(2) - 1) {
            let index = (count - 1).saturating_mul(step).checked_div(wanted - 1).unwrap_or(0);
            let mut index = usize::try_from(index).unwrap_or(usize::MAX);
            let chunk = columns.iter().find_map(|column| {
                let chunk = column.get(index);
                index = index.saturating_sub(column.len());
                chunk
            });
            if let Some((position, chunk)) = chunk
                && !made.contains(&(path.as_str(), position))
                && let Some(stored_left) = stored.checked_sub(chunk.length)
                && let Some(decoded_left) = decoded.checked_sub(size(position))
            {
                (stored, decoded) = (stored_left, decoded_left);
                chunks.push((position, chunk));
            }
        }
        (path, chunks)
    });
    sampled.filter(|(_, chunks)| !chunks.is_empty()).collect()
}

/// Returns array and position of the chunks that are made. They replace those that are stored.
fn made(mapped: &Mapped) -> BTreeSet<(&str, u64)> {
    let tasks = mapped.tasks.iter();
    tasks.flat_map(|task| task.positions.iter().map(|at| (task.array.as_str(), *at))).collect()
}

/// Returns the name of the codec of images whose headers are read, if the array has one.
pub fn image_codec(array: &Array) -> Option<&'static str> {
    const NAMES: [&str; 6] = ["jpeg", "jpeg2k", "jpegxl", "lerc", "png", "webp"];
    array.codecs.iter().find_map(|codec| match codec {
        Codec::Image { name, .. } => NAMES.contains(&name.strip_prefix("imagecodecs_")?).then_some(*name),
        _ => None,
    })
}

/// Returns whether readers return the colors of the array's JPEG streams as they are stored. If some of them have fewer
/// samples, libtiff refuses the stream, and readers disagree on whether to convert its colors.
pub fn keeps_jpeg_colors(array: &Array) -> bool {
    const YCBCR: u64 = 3;
    let is_kept = |codec: &Codec| match codec {
        Codec::Image { name: "imagecodecs_jpeg", configuration } => {
            configuration.get("colorspace_jpeg").and_then(Value::as_u64) != Some(YCBCR)
        }
        _ => false,
    };
    array.codecs.iter().any(is_kept)
}

/// Re-encodes the chunks that readers refuse although other programs read them, corrects the codecs of lossless JPEG, and
/// leaves out arrays that cannot be read. `code` is that of arrays without a readable chunk.
pub fn settle(
    mapped: &mut Mapped,
    findings: BTreeMap<NodePath, Vec<(u64, Finding)>>,
    code: Code,
    options: &MapOptions,
) {
    let mut new_tasks = Vec::new();
    for (path, findings) in findings {
        let Some(array) = mapped.hierarchy.array_mut(&path) else { continue };
        let is = |wanted: &Finding| findings.iter().any(|(_, finding)| finding == wanted);
        let is_edge = |(position, finding): &(u64, Finding)| {
            matches!(finding, Finding::Shorter(_))
                && used(array, *position).is_some_and(|(used, all)| used != all)
        };
        let other = findings.iter().find_map(|(_, finding)| match finding {
            Finding::OtherImage(why) => Some(why.clone()),
            Finding::OtherShape if is(&Finding::Exact) => Some("its JPEG streams differ in shape".to_owned()),
            _ => None,
        });
        let all_failed =
            findings.iter().all(|(_, finding)| matches!(finding, Finding::Shorter(_) | Finding::Damaged(_)));
        let omitted = if let Some(why) = other {
            let code = if image_codec(array) == Some("imagecodecs_jpeg") { Code::TiffJpeg } else { code };
            Some(Omitted::image(code, why, None))
        } else if is(&Finding::OtherShape) {
            for codec in &mut array.codecs {
                if let Codec::Image { name: "imagecodecs_jpeg", configuration } = codec {
                    configuration.retain(|key, _| !key.starts_with("colorspace"));
                }
            }
            None
        } else if is(&Finding::Longer) || findings.iter().any(is_edge) {
            match remade(&path, array, !is(&Finding::Longer), options) {
                Ok(tasks) => {
                    new_tasks.extend(tasks);
                    None
                }
                Err(omitted) => Some(omitted),
            }
        } else if all_failed {
            let why = findings.iter().find_map(|(position, finding)| match finding {
                Finding::Damaged(why) => Some(format!("chunk {position}: {why}")),
                Finding::Shorter(found) => Some(format!("chunk {position} decodes to {found} bytes only")),
                _ => None,
            });
            let why = format!("no chunk that was examined can be decoded: {}", why.unwrap_or_default());
            Some(Omitted::image(code, why, None))
        } else {
            None
        };
        mapped.omit(omitted.map(|why| (path, why)));
    }
    let made = made(mapped);
    new_tasks.retain(|task| task.positions.iter().all(|at| !made.contains(&(task.array.as_str(), *at))));
    mapped.tasks.extend(new_tasks);
}

/// Returns tasks that re-encode all chunks, or only those at the edges of the array.
fn remade(path: &str, array: &Array, edges: bool, options: &MapOptions) -> Result<Vec<InlineTask>, Omitted> {
    let size = stored_type(array).size().unwrap_or(0);
    let codecs: Vec<Codec> = array
        .codecs
        .iter()
        .filter(|codec| !codec.is_arithmetic() && !matches!(codec, Codec::Transpose { .. }))
        .cloned()
        .collect();
    let too_long =
        if edges { "end before the edge of a chunk" } else { "decode to more bytes than they have" };
    let mut tasks = Vec::new();
    let mut bytes = 0_u64;
    for (position, chunk) in array.chunks.references.iter().flat_map(|column| column.iter()) {
        let Some((used, shape)) = used(array, position) else { continue };
        if edges && used == shape {
            continue;
        }
        bytes = shape.iter().fold(size, |size, n| size.saturating_mul(*n)).saturating_add(bytes);
        if bytes > options.inline_limit {
            let why = format!(
                "chunks that {too_long} would have to be re-encoded and inlined: more than the limit of {} bytes",
                options.inline_limit
            );
            let remedy = Remedy::turn_on(OptionName::InlineLimit, "raise the limit");
            return Err(Omitted::image(Code::InlineLimit, why, Some(remedy)));
        }
        let stored = PieceBytes::At(ByteRange::new(chunk.offset, chunk.length));
        let whole = Piece::whole(chunk.source, stored, codecs.clone(), shape.clone(), ElementTransform::None);
        let piece = Piece { extent: used, ..whole };
        let background = Bytes::from(vec![0; usize::try_from(size).unwrap_or(0)]);
        let content = ChunkContent::Assemble { shape, background, pieces: vec![piece] };
        tasks.push(InlineTask { array: path.to_owned(), positions: vec![position], content });
    }
    Ok(tasks)
}

/// Returns the lengths of the part of a chunk inside the array, and those of the chunk, both in stored order.
fn used(array: &Array, position: u64) -> Option<(Vec<u64>, Vec<u64>)> {
    let (all, used): (Vec<u64>, Vec<u64>) = chunk_extents(array, position)?.into_iter().unzip();
    Some((stored_shape(&used, &array.codecs)?, stored_shape(&all, &array.codecs)?))
}

/// Returns the length of a chunk along each axis, and how much of it is inside the array.
pub(crate) fn chunk_extents(array: &Array, position: u64) -> Option<Vec<(u64, u64)>> {
    let indices = chunk_indices(position, &array.chunk_grid.counts(&array.shape))?;
    let extent = |(axis, index): (usize, u64)| match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => {
            let chunk = *chunk.get(axis)?;
            let start = index.checked_mul(chunk)?;
            Some((chunk, array.shape.get(axis)?.saturating_sub(start).min(chunk)))
        }
        ChunkGrid::Rectilinear(edges) => {
            let edge = *edges.get(axis)?.get(usize::try_from(index).ok()?)?;
            Some((edge, edge))
        }
    };
    indices.into_iter().enumerate().map(extent).collect()
}

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
