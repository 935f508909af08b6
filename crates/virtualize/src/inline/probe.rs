//! Examination of stored chunk bytes on request of the mapping.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError};
use virtualize_codec::image::Header;
use virtualize_codec::lerc::{self, Head, Layout};
use virtualize_codec::{CodecFailure, jpeg};
use virtualize_map::tiff::{self, LercChunk, lerc_outer_codecs, stored_type};
use virtualize_map::{Finding, LercLayout, Mapped, image_codec, keeps_jpeg_colors};
use virtualize_zarr::{Array, Codec, DataType, NodePath, Reference};

use super::{ChunkMaker, assemble};
use crate::{decode, error::Failure};

/// Number of chunks whose first bytes are fetched together.
const FRONTS: usize = 1 << 12;
/// Number of whole chunks that are fetched together.
const WHOLES: usize = 1 << 4;
/// Bytes that Deflate may need for its own tables.
const DEFLATED_HEAD: u64 = 1 << 10;
/// Number of bytes that contain the header of an image.
const IMAGE_FRONT: u64 = 1 << 16;

const NO_LERC: &str = "the array has no LERC codec";

type Chunks = Vec<(u64, Reference)>;

/// Returns the LERC chunks of each array that Zarr readers decode differently from libtiff, or why one could not be examined.
pub(crate) async fn lerc_masks(
    maker: &ChunkMaker<'_>,
    mapped: &Mapped,
) -> Result<BTreeMap<NodePath, Result<Chunks, String>>, ReadError> {
    let mut found = BTreeMap::new();
    for (path, chunks) in tiff::lerc_to_examine(mapped) {
        let Some(array) = mapped.hierarchy.array(&path) else { continue };
        let answer = match masked(maker, array, chunks).await {
            Ok(chunks) => Ok(chunks),
            Err(Failure::Chunk(why)) => Err(why),
            Err(Failure::Read(error)) => return Err(error),
        };
        found.insert(path, answer);
    }
    Ok(found)
}

/// Decodes a sample of chunks as Zarr readers do. Chunks that cannot be read are omitted.
pub(crate) async fn examine(
    maker: &ChunkMaker<'_>,
    mapped: &Mapped,
    sample: BTreeMap<NodePath, Chunks>,
) -> Result<BTreeMap<NodePath, Vec<(u64, Finding)>>, ReadError> {
    let arrays: Vec<_> = sample
        .into_iter()
        .filter_map(|(path, chunks)| Some((mapped.hierarchy.array(&path)?, path, chunks)))
        .collect();
    let mut ranges = Vec::new();
    for (array, _, chunks) in &arrays {
        ranges.extend(chunks.iter().map(|(_, chunk)| (chunk.source, examined_range(array, chunk))));
    }
    let fetched = maker.fetch(ranges.into_iter()).await?;
    let findings = arrays.iter().map(|(array, path, chunks)| {
        let found = chunks.iter().filter_map(|(position, chunk)| {
            let bytes = fetched.range(chunk.source, examined_range(array, chunk)).ok()?;
            Some((*position, finding(array, *position, bytes)?))
        });
        (path.clone(), found.collect::<Vec<_>>())
    });
    Ok(findings.filter(|(_, found)| !found.is_empty()).collect())
}

/// Returns the bytes of a chunk that show what readers make of it.
fn examined_range(array: &Array, chunk: &Reference) -> ByteRange {
    let is_front_enough = image_codec(array).is_some_and(|name| name != "imagecodecs_lerc");
    let length = if is_front_enough { chunk.length.min(IMAGE_FRONT) } else { chunk.length };
    ByteRange::new(chunk.offset, length)
}

/// Returns what a Zarr reader makes of a chunk, given its bytes or, for an image, its first bytes; `None` if unknown.
pub(crate) fn finding(array: &Array, position: u64, bytes: &[u8]) -> Option<Finding> {
    if let Some(codec) = image_codec(array) {
        return image_finding(array, position, codec, bytes);
    }
    let shape = decode::chunk_shape(array, position)?;
    let codecs: Vec<Codec> =
        decode::complete_codecs(array, &shape).into_iter().filter(|codec| !codec.is_arithmetic()).collect();
    let size = decode::count(&shape)?.checked_mul(stored_type(array).size()?)?;
    if codecs.last() == Some(&Codec::Fletcher32) && virtualize_codec::has_swapped_checksum(bytes) {
        return Some(Finding::Longer);
    }
    Some(match virtualize_codec::decode_exact(&codecs, bytes, usize::try_from(size).ok()?) {
        Ok(_) => Finding::Exact,
        Err(CodecFailure::TooLong { .. }) => Finding::Longer,
        Err(CodecFailure::TooShort { found, .. }) => Finding::Shorter(found as u64),
        Err(CodecFailure::NoDecoder(_)) => return None,
        Err(error) => Finding::Damaged(error.to_string()),
    })
}

fn image_finding(array: &Array, position: u64, codec: &str, bytes: &[u8]) -> Option<Finding> {
    const LOSSLESS: u8 = 0xc3;
    let layout = LercChunk::of(array, position)?.layout;
    let (shape, size) = ((layout.rows, layout.columns, layout.samples), stored_type(array).number_size());
    let bare = match lerc_outer_codecs(&array.codecs) {
        Some(outer) => lerc::unwrap(outer, bytes, Head::BYTES).map(Cow::Owned),
        None => Ok(Cow::Borrowed(bytes)),
    };
    let header = match bare.and_then(|bytes| Header::find(codec, &bytes)) {
        Ok(header) => header?,
        Err(error) => return Some(Finding::Damaged(error.to_string())),
    };
    let jpeg = if codec == "imagecodecs_jpeg" { jpeg::Header::find(bytes).ok().flatten() } else { None };
    if jpeg.as_ref().is_some_and(jpeg::Header::is_subsampled) && keeps_jpeg_colors(array) {
        return Some(Finding::OtherImage(
            "a JPEG stream has fewer samples of some colors, but PhotometricInterpretation is not YCbCr: libtiff \
             refuses it, and other readers disagree on its colors"
                .to_owned(),
        ));
    }
    let is_lossless = jpeg.as_ref().is_some_and(|jpeg| jpeg.process == LOSSLESS);
    let converts_colors = |codec: &Codec| match codec {
        Codec::Image { configuration, .. } => {
            let from = configuration.get("colorspace_jpeg");
            from.is_some() && from != configuration.get("colorspace_data")
        }
        _ => false,
    };
    if is_lossless && array.codecs.iter().any(converts_colors) {
        let why = "a JPEG stream is lossless, but PhotometricInterpretation is YCbCr: readers refuse to convert its colors";
        return Some(Finding::OtherImage(why.to_owned()));
    }
    // Blobs of single samples, and those without alpha, are examined for masks.
    let has_other_samples = codec == "imagecodecs_lerc"
        && (stored_type(array).is_float() || layout.has_alpha)
        && header.samples != Some(layout.samples);
    Some(if header.fits(shape, size) || has_other_samples {
        Finding::Exact
    } else if is_lossless && header.has_as_many(shape, size) {
        // Without a color space, readers decode it.
        let is_bare = |codec: &Codec| match codec {
            Codec::Image { configuration, .. } => !configuration.contains_key("colorspace_data"),
            _ => true,
        };
        if array.codecs.iter().all(is_bare) { Finding::Exact } else { Finding::OtherShape }
    } else {
        let expected = Header { rows: shape.0, columns: shape.1, samples: Some(shape.2), bytes: Some(size) };
        Finding::OtherImage(format!("a stream has {header}, its chunk {expected}"))
    })
}

/// Returns the chunks that Zarr readers decode differently from libtiff.
async fn masked(maker: &ChunkMaker<'_>, array: &Array, chunks: Chunks) -> Result<Chunks, Failure> {
    let outer = lerc_outer_codecs(&array.codecs).ok_or_else(|| Failure::chunk(NO_LERC))?;
    let data_type = stored_type(array);
    let mut found = Chunks::new();
    for batch in chunks.chunks(FRONTS) {
        let fronts: Vec<_> =
            batch.iter().map(|(_, chunk)| (chunk.source, lerc_front(outer, chunk))).collect();
        let fetched = maker.fetch(fronts.iter().copied()).await.map_err(Failure::of_own_read)?;
        for ((position, chunk), (source, range)) in batch.iter().zip(fronts) {
            let Some(place) = LercChunk::of(array, *position) else { continue };
            let is_plain = Head::read(outer, fetched.range(source, range)?)
                .and_then(|head| head.is_plain(data_type, &codec_layout(&place.layout)));
            match is_plain {
                Ok(true) => {}
                Ok(false) => found.push((*position, *chunk)),
                Err(error) => return Err(format!("chunk at {:#x}: {error}", chunk.offset).into()),
            }
        }
    }
    without_padding(maker, array, outer, found).await
}

/// Returns the chunks with a masked pixel inside the image: GDAL pads tiles at the edge with NaN.
async fn without_padding(
    maker: &ChunkMaker<'_>,
    array: &Array,
    outer: &[Codec],
    chunks: Chunks,
) -> Result<Chunks, Failure> {
    let may_be_padding = |position: u64| {
        LercChunk::of(array, position).is_some_and(|place| place.sticks_out() && !place.layout.has_alpha)
    };
    let (at_the_edge, mut found): (Chunks, Chunks) =
        chunks.into_iter().partition(|(position, _)| may_be_padding(*position));
    for batch in at_the_edge.chunks(WHOLES) {
        let whole = |chunk: &Reference| (chunk.source, ByteRange::new(chunk.offset, chunk.length));
        let fetched = maker.fetch(batch.iter().map(|(_, chunk)| whole(chunk))).await;
        let fetched = fetched.map_err(Failure::of_own_read)?;
        for (position, chunk) in batch {
            let Some(place) = LercChunk::of(array, *position) else { continue };
            let (source, range) = whole(chunk);
            let bytes = fetched.range(source, range)?;
            if !is_valid_inside(maker.limits, stored_type(array), outer, bytes, &place) {
                found.push((*position, *chunk));
            }
        }
    }
    found.sort_unstable_by_key(|(position, _)| *position);
    Ok(found)
}

/// Returns whether a chunk decodes and none of its numbers inside the image is NaN.
fn is_valid_inside(
    limits: &Limits,
    data_type: &DataType,
    outer: &[Codec],
    bytes: &[u8],
    place: &LercChunk,
) -> bool {
    let Ok(values) = decoded(limits, data_type, outer, bytes, &place.layout) else { return false };
    let size = usize::try_from(data_type.number_size()).unwrap_or(1).max(1);
    let row = place.layout.columns.saturating_mul(place.layout.samples).max(1);
    let within = place.inside.1.saturating_mul(place.layout.samples);
    let numbers = values.chunks_exact(size).zip(0_u64..);
    let mut inside = numbers.filter(|(_, n)| n / row < place.inside.0 && n % row < within);
    inside.all(|(number, _)| !is_nan(number))
}

fn is_nan(number: &[u8]) -> bool {
    match (<[u8; 4]>::try_from(number), <[u8; 8]>::try_from(number)) {
        (Ok(four), _) => f32::from_le_bytes(four).is_nan(),
        (_, Ok(eight)) => f64::from_le_bytes(eight).is_nan(),
        _ => false,
    }
}

/// Returns the byte range of a LERC chunk that is needed to read its header.
fn lerc_front(outer: &[Codec], chunk: &Reference) -> ByteRange {
    let needed = match outer {
        [] => Head::BYTES as u64,
        [Codec::Zlib { .. }] => (Head::BYTES as u64).saturating_add(DEFLATED_HEAD),
        _ => chunk.length,
    };
    ByteRange::new(chunk.offset, needed.min(chunk.length))
}

/// Returns a chunk without its mask, with all rows.
pub(super) fn without_mask(
    limits: &Limits,
    array: &Array,
    bytes: &Bytes,
    layout: LercLayout,
    height: u64,
) -> Result<Bytes, Failure> {
    let outer = lerc_outer_codecs(&array.codecs).ok_or_else(|| Failure::chunk(NO_LERC))?;
    let data_type = stored_type(array);
    let whole = LercLayout { rows: height, ..layout };
    let size = size_of(limits, data_type, &whole)?;
    let mut values = decoded(limits, data_type, outer, bytes, &layout)?;
    values.resize(size, 0);
    let blob = lerc::encode(data_type, &codec_layout(&whole), &values)?;
    Ok(virtualize_codec::encode(outer, &blob)?.into())
}

/// Returns the numbers of a strip or tile, as libtiff returns them.
fn decoded(
    limits: &Limits,
    data_type: &DataType,
    outer: &[Codec],
    bytes: &[u8],
    layout: &LercLayout,
) -> Result<Vec<u8>, Failure> {
    // A blob is not much longer than its values: it adds a header, a mask and flags of blocks.
    let most = size_of(limits, data_type, layout)?.saturating_mul(2).saturating_add(1 << 16);
    let blobs = lerc::unwrap(outer, bytes, most)?;
    Ok(lerc::decode(&blobs, data_type, &codec_layout(layout))?)
}

fn codec_layout(layout: &LercLayout) -> Layout {
    let LercLayout { rows, columns, samples, has_alpha } = *layout;
    Layout { rows, columns, samples, has_alpha }
}

/// Returns the bytes of a strip or tile, if they fit the memory limit.
fn size_of(limits: &Limits, data_type: &DataType, layout: &LercLayout) -> Result<usize, Failure> {
    let size = layout.elements().and_then(|elements| elements.checked_mul(data_type.number_size()));
    size.filter(|size| *size <= limits.structure_bytes)
        .and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| assemble::too_large(&format!("{layout:?}")))
}
