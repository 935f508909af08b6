use bytes::Bytes;
use virtualize_bytes::ReadError;
use virtualize_map::ChunkContent;
use virtualize_map::hdf5::{HeapPointer, HeapTask, HeapValues};

use super::assemble;
use super::error::{ChunkError, Failure};
use super::fetch::ChunkMaker;
use crate::source_formats::Pointed;

/// Reads the elements of a dataset, and what they point at. The inner error is the reason why that is not possible.
pub(crate) async fn heap_values(
    maker: &ChunkMaker<'_>,
    task: &HeapTask,
) -> Result<Result<HeapValues, String>, ReadError> {
    match read(maker, task).await {
        Ok(values) => Ok(Ok(values)),
        Err(Failure::Chunk(reason)) => Ok(Err(reason.to_string())),
        Err(Failure::Read(error)) => Err(error),
    }
}

async fn read(maker: &ChunkMaker<'_>, task: &HeapTask) -> Result<HeapValues, Failure> {
    let ChunkContent::Assemble { shape, background, pieces } = &task.content else {
        return Err(ChunkError::FixedLength.into());
    };
    let fetched = maker.fetch(task.content.ranges()).await.map_err(Failure::of_own_read)?;
    let mut elements = assemble::chunk(maker.limits, shape, background, pieces, &fetched)?;
    elements.extend_from_slice(&task.fill);
    let held = elements.len() as u64;
    maker.sources.budget().take("elements of variable length", held).map_err(Failure::Read)?;
    let mut values = Vec::with_capacity(task.pointers.len());
    for pointer in &task.pointers {
        let raw = stored_pointers(&elements, task.fill.len(), pointer).ok_or(ChunkError::FixedLength)?;
        let found = maker.resolve(task.heap, &raw, pointer.context.as_ref(), pointer.references).await?;
        values.push(found.into_iter().map(bytes).collect());
    }
    Ok(HeapValues { elements, values })
}

/// Returns the stored bytes of one pointer of each element.
fn stored_pointers(elements: &[u8], size: usize, pointer: &HeapPointer) -> Option<Vec<u8>> {
    let end = pointer.offset.checked_add(pointer.size)?;
    let of_element = |element: &[u8]| element.get(pointer.offset..end).map(<[u8]>::to_vec);
    let pointers: Option<Vec<_>> = elements.chunks_exact(size.max(1)).map(of_element).collect();
    Some(pointers?.concat())
}

fn bytes(value: Pointed) -> Bytes {
    match value {
        Pointed::Text(text) => text.into(),
        Pointed::Bytes(bytes) => bytes,
    }
}
