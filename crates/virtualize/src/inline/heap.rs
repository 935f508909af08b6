use std::sync::Arc;

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
    let mut values = vec![Vec::new(); task.pointers.len()];
    for (at, pointer) in task.pointers.iter().enumerate() {
        if values.get(at).is_some_and(Vec::is_empty) {
            follow(maker, task, &elements, pointer, &mut values).await?;
        }
    }
    Ok(HeapValues { elements, values })
}

/// Reads the values of all pointers with the context of `pointer`, so that they share what is fetched.
async fn follow(
    maker: &ChunkMaker<'_>,
    task: &HeapTask,
    elements: &[u8],
    pointer: &HeapPointer,
    values: &mut [Vec<Bytes>],
) -> Result<(), Failure> {
    let alike = |other: &HeapPointer| Arc::ptr_eq(&pointer.context, &other.context);
    let size = task.fill.len();
    let stored = task.pointers.iter().filter(|other| alike(other));
    let stored: Option<Vec<_>> = stored.map(|other| stored_pointers(elements, size, other)).collect();
    let raw = stored.ok_or(ChunkError::FixedLength)?.concat();
    let found = maker.resolve(task.heap, &raw, pointer.context.as_ref(), pointer.references).await?;
    let mut found = found.into_iter().map(bytes);
    let count = elements.len().checked_div(size).unwrap_or(0);
    for (of_pointer, _) in values.iter_mut().zip(&task.pointers).filter(|(_, other)| alike(other)) {
        *of_pointer = found.by_ref().take(count).collect();
    }
    Ok(())
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
