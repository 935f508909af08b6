//! Makes the chunks that references cannot say: fetches their pieces, decodes and places them, and encodes the result
//! with the array's own codecs. An array of which one chunk fails is left out whole, never shown in part.

mod assemble;
mod headed;
mod place;
mod vlen;

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError, ReadErrorKind, ReadRanges};
use virtualize_hdf5::model::Datatype;
use virtualize_map::hdf5::ObjectNames;
use virtualize_map::{ChunkContent, Diagnostic, InlineTask, Mapped, Piece, Severity};
use virtualize_zarr::{Codec, Hierarchy, Node, NodePath, SourceId};

use crate::formats::Model;

/// Encoded bytes that are fetched together, so that memory stays bounded.
const BATCH: u64 = 64 << 20;

/// Why a chunk could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The chunk's own fault: its array is left out.
    Chunk(String),
    /// The file cannot be read any more: nothing can be trusted.
    Read(ReadError),
}

/// What making a chunk needs beside its bytes.
pub(crate) struct Context<'a> {
    pub(crate) source: &'a dyn ReadRanges,
    pub(crate) limits: &'a Limits,
    pub(crate) model: &'a Model,
}

/// Does all tasks of a mapped file and puts their chunks into its hierarchy.
pub(crate) async fn run(context: &Context<'_>, mapped: &mut Mapped) -> Result<(), ReadError> {
    let tasks = std::mem::take(&mut mapped.tasks);
    let mut failed: BTreeMap<NodePath, String> = BTreeMap::new();
    for batch in batches(&tasks) {
        let fetched = fetch(context, batch).await?;
        for (task, encoded) in batch.iter().zip(fetched) {
            if failed.contains_key(&task.array) {
                continue;
            }
            match chunk(context, task, &encoded, &mapped.hierarchy).await {
                Ok(bytes) => place_inline(&mut mapped.hierarchy, task, &bytes),
                Err(Failure::Chunk(reason)) => drop(failed.insert(task.array.clone(), reason)),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
    }
    for (path, reason) in failed {
        leave_out(mapped, &path, reason);
    }
    Ok(())
}

/// Cuts the tasks so that the encoded bytes of a batch stay below [`BATCH`] (one task alone may have more).
fn batches(mut tasks: &[InlineTask]) -> impl Iterator<Item = &[InlineTask]> {
    std::iter::from_fn(move || {
        let mut sum = 0_u64;
        let fitting = tasks.iter().take_while(|task| {
            let start = sum == 0;
            sum = sum.saturating_add(ranges(task).map(|range| range.length).sum::<u64>().max(1));
            start || sum <= BATCH
        });
        let count = fitting.count();
        let (batch, rest) = tasks.split_at_checked(count)?;
        tasks = rest;
        Some(batch).filter(|batch| !batch.is_empty())
    })
}

/// The bytes of each piece of each task, all fetched together. A piece too large to be believed comes as nothing.
async fn fetch(context: &Context<'_>, tasks: &[InlineTask]) -> Result<Vec<Vec<Bytes>>, ReadError> {
    let believed = |range: ByteRange| match range.length > context.limits.structure_bytes {
        true => ByteRange::new(range.start, 0),
        false => range,
    };
    let wanted: Vec<_> = tasks.iter().flat_map(ranges).map(believed).collect();
    let mut bytes = match wanted.is_empty() {
        true => Vec::new(),
        false => context.source.read_ranges(&wanted).await?,
    }
    .into_iter();
    Ok(tasks.iter().map(|task| bytes.by_ref().take(ranges(task).count()).collect()).collect())
}

/// The byte ranges that a task needs.
fn ranges(task: &InlineTask) -> impl Iterator<Item = ByteRange> {
    let (stored, pieces) = match &task.content {
        ChunkContent::AsStored { range, .. }
        | ChunkContent::Headed { range, .. }
        | ChunkContent::BitsReversed { range, .. } => (Some(*range), &[][..]),
        ChunkContent::VariableHere { .. } => (None, &[][..]),
        ChunkContent::Assemble { pieces, .. } | ChunkContent::Variable { pieces, .. } => (None, &pieces[..]),
    };
    stored.into_iter().chain(pieces.iter().map(|piece| piece.range))
}

/// The encoded bytes of one chunk.
async fn chunk(
    context: &Context<'_>,
    task: &InlineTask,
    encoded: &[Bytes],
    hierarchy: &Hierarchy,
) -> Result<Bytes, Failure> {
    let array =
        hierarchy.array(&task.array).ok_or_else(|| Failure::Chunk("there is no such array".into()))?;
    match &task.content {
        ChunkContent::AsStored { source, range } => stored(*source, *range, encoded).cloned(),
        ChunkContent::Headed { source, range, head, head_bits } => {
            Ok(headed::join(head, *head_bits, stored(*source, *range, encoded)?).into())
        }
        ChunkContent::BitsReversed { source, range } => {
            Ok(stored(*source, *range, encoded)?.iter().map(|byte| byte.reverse_bits()).collect())
        }
        ChunkContent::Assemble { shape, background, pieces } => {
            let raw = assemble::chunk(context.limits, shape, background, pieces, encoded)?;
            assemble::encode(&array.codecs, raw)
        }
        ChunkContent::Variable { shape, datatype, pieces, objects } => {
            let null = Bytes::from(vec![0; vlen::pointer_size(datatype)?]);
            let raw = assemble::chunk(context.limits, shape, &null, pieces, encoded)?;
            variable(context, &array.codecs, datatype, &raw, objects).await
        }
        ChunkContent::VariableHere { elements, datatype, objects } => {
            variable(context, &array.codecs, datatype, elements, objects).await
        }
    }
}

/// Stored elements of variable length, encoded.
async fn variable(
    context: &Context<'_>,
    codecs: &[Codec],
    datatype: &Datatype,
    raw: &[u8],
    objects: &ObjectNames,
) -> Result<Bytes, Failure> {
    let elements = context.model.elements(context, datatype, raw).await?;
    assemble::encode(codecs, vlen::encode(codecs, &elements, objects)?)
}

/// The bytes of a range, all of them.
fn stored(source: SourceId, range: ByteRange, fetched: &[Bytes]) -> Result<&Bytes, Failure> {
    match fetched {
        [bytes] if bytes.len() as u64 == range.length && source == SourceId(0) => Ok(bytes),
        _ => Err(Failure::Chunk(format!("{range} cannot be read: the file ends before"))),
    }
}

fn place_inline(hierarchy: &mut Hierarchy, task: &InlineTask, bytes: &Bytes) {
    if let Some(array) = hierarchy.array_mut(&task.array) {
        array.chunks.inline.extend(task.positions.iter().map(|position| (*position, bytes.clone())));
    }
}

/// Takes an array out of the hierarchy, and says so.
fn leave_out(mapped: &mut Mapped, path: &str, reason: String) {
    remove(&mut mapped.hierarchy, path);
    mapped.report.arrays.entry(path.to_owned()).or_default().left_out = Some(reason.clone());
    mapped.report.diagnostics.push(Diagnostic {
        severity: Severity::Warning,
        code: "inline-failed",
        path: format!("/{path}"),
        message: format!("left out: a chunk that has to be inlined cannot be made: {reason}"),
        hint: None,
    });
}

/// Takes a node out of the hierarchy.
pub(crate) fn remove(hierarchy: &mut Hierarchy, path: &str) {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut group = &mut hierarchy.root;
    for step in parent.split('/').filter(|step| !step.is_empty()) {
        match group.children.get_mut(step) {
            Some(Node::Group(child)) => group = child,
            _ => return,
        }
    }
    group.children.remove(name);
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error.kind {
            ReadErrorKind::Limit => Self::Chunk(error.to_string()),
            _ => Self::Read(error),
        }
    }
}

/// The source of a piece is the file that is open.
pub(crate) fn is_here(piece: &Piece) -> Result<(), Failure> {
    match piece.source {
        SourceId(0) => Ok(()),
        SourceId(other) => Err(Failure::Chunk(format!("source {other} is not open"))),
    }
}
