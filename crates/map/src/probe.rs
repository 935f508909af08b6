//! A sample of the chunks that stay references, decoded as Zarr readers do, before an array is offered. libtiff and libhdf5
//! ignore bytes after the end of a chunk, and libhdf5 reads chunks at the edge of a dataset that end with its last element;
//! Zarr readers fail on both, and on images of another size than their chunk. The caller decodes the chunks between
//! [`sample`] and [`settle`].

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;
use virtualize_bytes::ByteRange;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{Array, ChunkGrid, Codec, Implementation, NodePath, Reference, chunk_indices};

use crate::readable::stored_shape;
use crate::tiff::stored_type;
use crate::{ChunkContent, ElementTransform, InlineTask, MapOptions, Mapped, Omitted, Piece, PieceBytes};

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
                && let Some(decoded_left) = decoded.checked_sub(decoded_bytes(array, position))
            {
                (stored, decoded) = (stored_left, decoded_left);
                chunks.push((position, chunk));
            }
        }
        (path, chunks)
    });
    sampled.filter(|(_, chunks)| !chunks.is_empty()).collect()
}

/// Returns the bytes of memory to decode a chunk; 0 for images, of which only the header is read.
fn decoded_bytes(array: &Array, position: u64) -> u64 {
    match (image_codec(array), used(array, position)) {
        (Some(_), _) => 0,
        (None, Some((_, shape))) => {
            let size = stored_type(array).size().unwrap_or(u64::MAX);
            shape.iter().fold(size, |bytes, n| bytes.saturating_mul(*n))
        }
        (None, None) => u64::MAX,
    }
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
