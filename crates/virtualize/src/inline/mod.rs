//! Creation of chunks that references cannot express: fetches their pieces, decodes and places them, and encodes the
//! result with the array's own codecs. If one chunk fails, the whole array is omitted, never shown in part.

mod assemble;
mod error;
mod fetch;
mod lerc;
mod prefixed;
mod probe;
mod variable;

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Limits, ReadError};
use virtualize_map::{ChunkContent, InlineTask, LeftOut, Mapped};
use virtualize_zarr::{Array, Codec, Hierarchy, NodePath};

pub(crate) use self::error::{ChunkError, Failure};
pub(crate) use self::fetch::{ChunkMaker, Fetched};
pub(crate) use self::probe::answer;

/// Number of encoded bytes that are fetched together, which bounds memory use.
const BATCH: u64 = 64 << 20;

/// Memory overhead of an inline chunk besides its bytes.
const POSITION: u64 = 64;

/// Creates all chunks of a mapped file that have a recipe, and adds them to its hierarchy.
pub(crate) async fn run(maker: &ChunkMaker<'_>, mapped: &mut Mapped) -> Result<(), ReadError> {
    let mut tasks = std::mem::take(&mut mapped.tasks);
    // Files are opened one after the other, so that few are open at a time.
    tasks.sort_by_key(|task| task.content.sources().next());
    let mut failed: BTreeMap<NodePath, String> = BTreeMap::new();
    for batch in batches(&tasks) {
        let fetched = maker.fetch(batch.iter().flat_map(|task| task.content.ranges())).await?;
        for task in batch {
            if failed.contains_key(&task.array) {
                continue;
            }
            match chunk(maker, task, &fetched, &mapped.hierarchy).await {
                Ok(bytes) => {
                    let positions = (task.positions.len() as u64).saturating_mul(POSITION);
                    let bytes_held = positions.saturating_add(bytes.len() as u64);
                    maker.sources.budget().take("chunks that are put inline", bytes_held)?;
                    place_inline(&mut mapped.hierarchy, task, &bytes);
                }
                Err(Failure::Chunk(reason)) => drop(failed.insert(task.array.clone(), reason.to_string())),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
    }
    mapped.leave_out(failed.into_iter().map(|(path, reason)| (path, LeftOut::not_made(reason))));
    Ok(())
}

/// Splits the tasks into batches of at most [`BATCH`] encoded bytes. A batch of one task may be larger.
fn batches(mut tasks: &[InlineTask]) -> impl Iterator<Item = &[InlineTask]> {
    std::iter::from_fn(move || {
        let mut sum = 0_u64;
        let fitting = tasks.iter().take_while(|task| {
            let start = sum == 0;
            let bytes = task.content.ranges().map(|(_, range)| range.length);
            sum = bytes.fold(sum, u64::saturating_add).max(sum.saturating_add(1));
            start || sum <= BATCH
        });
        let count = fitting.count();
        let (batch, rest) = tasks.split_at_checked(count)?;
        tasks = rest;
        Some(batch).filter(|batch| !batch.is_empty())
    })
}

/// Returns the encoded bytes of one chunk.
async fn chunk(
    maker: &ChunkMaker<'_>,
    task: &InlineTask,
    fetched: &Fetched,
    hierarchy: &Hierarchy,
) -> Result<Bytes, Failure> {
    let array = hierarchy.array(&task.array).ok_or(ChunkError::NoArray)?;
    let made = match &task.content {
        ChunkContent::Prefixed { source, range, prefix, prefix_bits, word } => {
            prefixed::join(prefix, *prefix_bits, fetched.range(*source, *range)?, *word).into()
        }
        ChunkContent::BitsReversed { source, range } => {
            fetched.range(*source, *range)?.iter().map(|byte| byte.reverse_bits()).collect()
        }
        ChunkContent::TallerImage { source, range, width, rows, height } => {
            taller(maker.limits, array, fetched.range(*source, *range)?, (*width, *rows, *height))?
        }
        ChunkContent::Lerc { source, range, layout, height } => {
            lerc::without_mask(maker.limits, array, fetched.range(*source, *range)?, *layout, *height)?
        }
        ChunkContent::Assemble { shape, background, pieces } => {
            let raw = assemble::chunk(maker.limits, shape, background, pieces, fetched)?;
            assemble::encode(&array.codecs, raw)?
        }
        ChunkContent::Variable { shape, pieces, .. } => {
            let elements = variable::chunk(maker, shape, &task.content, pieces, fetched).await?;
            let text = variable::encode(&array.codecs, &elements, maker.sources.budget().left())?;
            assemble::encode(&array.codecs, text)?
        }
    };
    Ok(made)
}

/// Returns an image with more rows, in the format of its array's codec.
fn taller(
    limits: &Limits,
    array: &Array,
    bytes: &[u8],
    (width, rows, height): (u64, u64, u64),
) -> Result<Bytes, ChunkError> {
    let name = array.codecs.iter().find_map(|codec| match codec {
        Codec::Image { name, .. } => Some(*name),
        _ => None,
    });
    let taller = match name {
        Some("imagecodecs_jpeg") => virtualize_codec::jpeg::with_rows(bytes, width, rows, height),
        Some("imagecodecs_jpeg2k") => virtualize_codec::jpeg2000::with_rows(bytes, width, rows, height),
        Some("imagecodecs_png") => virtualize_codec::png::with_rows(bytes, width, rows, height),
        Some("imagecodecs_webp") => {
            virtualize_codec::webp::with_rows(bytes, width, rows, height, limits.structure_bytes)
        }
        _ => return Err(ChunkError::NotTaller),
    };
    taller.map(Bytes::from).map_err(ChunkError::LastStrip)
}

fn place_inline(hierarchy: &mut Hierarchy, task: &InlineTask, bytes: &Bytes) {
    if let Some(array) = hierarchy.array_mut(&task.array) {
        array.chunks.inline.extend(task.positions.iter().map(|position| (*position, bytes.clone())));
    }
}
