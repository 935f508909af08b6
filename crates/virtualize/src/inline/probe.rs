//! Examination of stored chunk bytes on request of the mapping.

use std::collections::BTreeMap;

use virtualize_bytes::{ByteRange, Limits, ReadError};
use virtualize_codec::jpeg;
use virtualize_codec::lerc::Head;
use virtualize_map::Mapped;
use virtualize_map::tiff::{LercChunk, ProbeAnswers, Probes, lerc_outer_codecs, stored_type};
use virtualize_zarr::{Array, Codec, DataType, NodePath, Reference, SourceId};

use super::error::{ChunkError, Failure};
use super::fetch::ChunkMaker;
use super::lerc::{codec_layout, decoded};

/// Number of chunks whose first bytes are fetched together.
const FRONTS: usize = 1 << 12;
/// Number of whole chunks that are fetched together.
const WHOLES: usize = 1 << 4;
/// Bytes that Deflate may need for its own tables.
const DEFLATED_HEAD: u64 = 1 << 10;
/// Number of bytes that usually contain the frame header of a JPEG stream.
const JPEG_FRONT: u64 = 1 << 11;

type Chunks = Vec<(u64, Reference)>;

/// Answers the questions of the mapping.
pub(crate) async fn answer(
    maker: &ChunkMaker<'_>,
    mapped: &Mapped,
    probes: Probes,
) -> Result<ProbeAnswers, ReadError> {
    let mut answers = ProbeAnswers::default();
    for (path, chunks) in probes.lerc_masks {
        if let Some(array) = mapped.hierarchy.array(&path) {
            note(&mut answers.lerc_masks, path, masked(maker, array, chunks).await)?;
        }
    }
    for (path, streams) in probes.jpeg_sampling {
        note(&mut answers.jpeg_sampling, path, first_subsampled(maker, &streams).await)?;
    }
    Ok(answers)
}

fn note<T>(
    answers: &mut BTreeMap<NodePath, Result<T, String>>,
    path: NodePath,
    answer: Result<T, Failure>,
) -> Result<(), ReadError> {
    let answer = match answer {
        Ok(answer) => Ok(answer),
        Err(Failure::Chunk(why)) => Err(why.to_string()),
        Err(Failure::Read(error)) => return Err(error),
    };
    answers.insert(path, answer);
    Ok(())
}

/// Returns the chunks that Zarr readers decode differently from libtiff.
async fn masked(maker: &ChunkMaker<'_>, array: &Array, chunks: Chunks) -> Result<Chunks, Failure> {
    let outer = lerc_outer_codecs(&array.codecs).ok_or(ChunkError::NoLerc)?;
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
                Err(source) => return Err(ChunkError::At { at: chunk.offset, source }.into()),
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

/// Returns the offset of the first JPEG stream with fewer samples of some colors.
async fn first_subsampled(
    maker: &ChunkMaker<'_>,
    streams: &[(SourceId, ByteRange)],
) -> Result<Option<u64>, Failure> {
    let front = |range: &ByteRange| ByteRange::new(range.start, range.length.min(JPEG_FRONT));
    for batch in streams.chunks(FRONTS) {
        let fronts = batch.iter().map(|(source, range)| (*source, front(range)));
        let fetched = maker.fetch(fronts).await.map_err(Failure::of_own_read)?;
        for (source, range) in batch {
            let fail = |source| ChunkError::At { at: range.start, source };
            let found = match jpeg::is_subsampled(fetched.range(*source, front(range))?).map_err(fail)? {
                Some(found) => found,
                None => {
                    let whole = maker.fetch(std::iter::once((*source, *range))).await;
                    let whole = whole.map_err(Failure::of_own_read)?;
                    jpeg::is_subsampled(whole.range(*source, *range)?).map_err(fail)?.unwrap_or(true)
                }
            };
            if found {
                return Ok(Some(range.start));
            }
        }
    }
    Ok(None)
}
