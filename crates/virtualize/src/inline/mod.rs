//! Makes the chunks that references cannot say: fetches their pieces, decodes and places them, and encodes the result
//! with the array's own codecs. An array of which one chunk fails is left out whole, never shown in part.

mod assemble;
pub(crate) mod jpeg;
pub(crate) mod lerc;
mod place;
mod prefixed;
mod sources;
mod vlen;

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Limits, ReadError, ReadErrorKind};
use virtualize_codec::lerc::Layout;
use virtualize_map::{ChunkContent, Diagnostic, InlineTask, Mapped, Severity};
use virtualize_zarr::{Array, Codec, Hierarchy, NodePath};

pub(crate) use self::sources::{Context, Fetched};

/// Encoded bytes that are fetched together, so that memory stays bounded.
const BATCH: u64 = 64 << 20;

/// Bytes of memory for an inline chunk beside its bytes.
const POSITION: u64 = 64;

/// Why a chunk could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The chunk's own fault: its array is left out.
    Chunk(String),
    /// The file cannot be read any more: nothing can be trusted.
    Read(ReadError),
}

/// Does all tasks of a mapped file and puts their chunks into its hierarchy.
pub(crate) async fn run(context: &Context<'_>, mapped: &mut Mapped) -> Result<(), ReadError> {
    let tasks = std::mem::take(&mut mapped.tasks);
    let mut failed: BTreeMap<NodePath, String> = BTreeMap::new();
    for batch in batches(&tasks) {
        let fetched = context.fetch(batch.iter().flat_map(|task| task.content.ranges())).await?;
        for task in batch {
            if failed.contains_key(&task.array) {
                continue;
            }
            match chunk(context, task, &fetched, &mapped.hierarchy).await {
                Ok(bytes) => {
                    let positions = (task.positions.len() as u64).saturating_mul(POSITION);
                    let bytes_held = positions.saturating_add(bytes.len() as u64);
                    context.sources.budget().take("chunks that are put inline", bytes_held)?;
                    place_inline(&mut mapped.hierarchy, task, &bytes);
                }
                Err(Failure::Chunk(reason)) => drop(failed.insert(task.array.clone(), reason)),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
    }
    for (path, reason) in failed {
        if matches!(context.model, crate::formats::Model::Tiff(..)) {
            lerc::remove_image(mapped, &path);
        }
        let message = format!("left out: a chunk that has to be inlined cannot be made: {reason}");
        leave_out(mapped, &path, "inline-failed", message, reason);
    }
    Ok(())
}

/// Cuts the tasks so that the encoded bytes of a batch stay below [`BATCH`] (one task alone may have more).
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

/// The encoded bytes of one chunk.
async fn chunk(
    context: &Context<'_>,
    task: &InlineTask,
    fetched: &Fetched,
    hierarchy: &Hierarchy,
) -> Result<Bytes, Failure> {
    let array =
        hierarchy.array(&task.array).ok_or_else(|| Failure::Chunk("there is no such array".into()))?;
    match &task.content {
        ChunkContent::AsStored { source, range } => fetched.range(*source, *range).cloned(),
        ChunkContent::Prefixed { source, range, prefix, prefix_bits, word } => {
            Ok(prefixed::join(prefix, *prefix_bits, fetched.range(*source, *range)?, *word).into())
        }
        ChunkContent::BitsReversed { source, range } => {
            Ok(fetched.range(*source, *range)?.iter().map(|byte| byte.reverse_bits()).collect())
        }
        ChunkContent::TallerImage { source, range, width, rows, height } => {
            taller(context.limits, array, fetched.range(*source, *range)?, (*width, *rows, *height))
        }
        ChunkContent::Lerc { source, range, rows, height, columns, samples, has_alpha } => {
            let bytes = fetched.range(*source, *range)?;
            let layout = Layout { rows: *rows, columns: *columns, samples: *samples, has_alpha: *has_alpha };
            lerc::made_anew(context.limits, array, bytes, layout, *height)
        }
        ChunkContent::Assemble { shape, background, pieces } => {
            let raw = assemble::chunk(context.limits, shape, background, pieces, fetched)?;
            assemble::encode(&array.codecs, raw)
        }
        ChunkContent::Variable { shape, datatype, pieces, objects, text } => {
            let elements = vlen::chunk(context, shape, datatype, pieces, fetched).await?;
            let most = context.sources.budget().left();
            let text = vlen::encode(&array.codecs, &elements, (objects, *text), most)?;
            assemble::encode(&array.codecs, text)
        }
    }
}

/// An image with more rows, by the codec of its array.
fn taller(
    limits: &Limits,
    array: &Array,
    bytes: &[u8],
    (width, rows, height): (u64, u64, u64),
) -> Result<Bytes, Failure> {
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
        _ => return Err(Failure::Chunk("images of this format cannot be made taller".into())),
    };
    taller.map(Bytes::from).map_err(|error| {
        Failure::Chunk(format!(
            "its last strip: {error}; a rectilinear chunk grid (Zarr v3) references it as it is"
        ))
    })
}

fn place_inline(hierarchy: &mut Hierarchy, task: &InlineTask, bytes: &Bytes) {
    if let Some(array) = hierarchy.array_mut(&task.array) {
        array.chunks.inline.extend(task.positions.iter().map(|position| (*position, bytes.clone())));
    }
}

/// Takes an array out of the hierarchy, and says so.
pub(crate) fn leave_out(
    mapped: &mut Mapped,
    path: &str,
    code: &'static str,
    message: String,
    reason: String,
) {
    remove(&mut mapped.hierarchy, path);
    mapped.report.arrays.entry(path.to_owned()).or_default().left_out = Some(reason);
    mapped.report.diagnostics.push(Diagnostic {
        severity: Severity::Warning,
        code,
        path: format!("/{path}"),
        message,
        remedy: None,
    });
}

/// Takes a node out of the hierarchy.
fn remove(hierarchy: &mut Hierarchy, path: &str) {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some(group) = hierarchy.root.group_mut(parent) {
        group.children.remove(name);
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error.kind {
            ReadErrorKind::Limit => Self::Chunk(error.to_string()),
            _ => Self::Read(error),
        }
    }
}
