//! Elements of variable length, which are read from the heap of their file.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use virtualize_bytes::{ReadError, ReadRanges};
use virtualize_hdf5::model::{Datatype, Element};
use virtualize_map::{
    ChunkContent, ReferenceText,
    hdf5::{HeapPointer, HeapPointers, HeapTask, HeapValues, reference_part, reference_path},
};
use virtualize_zarr::{Codec, SourceId};

use super::{ChunkMaker, Fetched, assemble};
use crate::{error::Failure, source_formats::SourceFile};

const FIXED_LENGTH: &str = "the type has no variable length";

/// Returns the elements of a chunk, each read from the file of its pointer. Elements that no piece covers are empty.
pub(super) async fn chunk(
    maker: &ChunkMaker<'_>,
    content: &ChunkContent,
    fetched: &Fetched,
) -> Result<Vec<Bytes>, Failure> {
    const WIDTH: usize = size_of::<u64>();
    let ChunkContent::Variable { shape, pieces, pointer_size, pointers, references } = content else {
        return Err(Failure::chunk(FIXED_LENGTH));
    };
    let pointer_size = usize::try_from(*pointer_size).ok().filter(|size| *size > 0);
    let pointer_size = pointer_size.ok_or_else(|| Failure::chunk(FIXED_LENGTH))?;
    // The chunk is first assembled from numbers, which are indices into the known elements.
    let mut known = vec![Bytes::new()];
    let mut whole = vec![0; assemble::count(shape, WIDTH, maker.limits)?.saturating_mul(WIDTH)];
    for piece in pieces {
        let raw = assemble::elements(maker.limits, piece, fetched, pointer_size)?;
        let elements = maker.resolve(piece.source, &raw, pointers.as_ref(), *references).await?;
        let numbers = known.len() as u64..;
        let numbers: Vec<u8> = numbers.take(elements.len()).flat_map(u64::to_le_bytes).collect();
        known.extend(elements);
        assemble::place(&mut whole, shape, &numbers, piece, WIDTH)?;
    }
    let numbers = whole.as_chunks::<WIDTH>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let element = |number| usize::try_from(number).ok().and_then(|at| known.get(at)).cloned();
    Ok(numbers.filter_map(element).collect())
}

impl ChunkMaker<'_> {
    /// Returns the elements that stored pointers of a file refer to: their bytes, or the text of references.
    pub(super) async fn resolve(
        &self,
        source: SourceId,
        raw: &[u8],
        context: &HeapPointers,
        references: Option<ReferenceText>,
    ) -> Result<Vec<Bytes>, Failure> {
        let other = match source {
            SourceId(0) => None,
            other => Some(self.open(other).await?),
        };
        let failed = |error| match error {
            virtualize_hdf5::Error::Read(error) if other.is_none() => Failure::of_own_read(error),
            virtualize_hdf5::Error::Read(error) => Failure::of_other_read(error),
            error => Failure::Chunk(error.to_string()),
        };
        let reader: &dyn ReadRanges = other.as_ref().map_or(self.own, |object| object.as_ref());
        let url = self.urls.get(source.index()).map_or("", String::as_str);
        let SourceFile::Hdf5(files) = self.file else {
            return Err(Failure::chunk("the source format has no elements of variable length"));
        };
        let file = files
            .get(source, url)
            .ok_or_else(|| format!("source {} is not an HDF5 file that was read", source.0))?;
        let HeapPointers { datatype, objects } = context;
        if let Datatype::Sequence { base, .. } = datatype {
            let read = virtualize_hdf5::read_sequences(reader, self.limits, file, base.size(), raw).await;
            return read.map_err(failed);
        }
        let elements = virtualize_hdf5::resolve_elements(reader, self.limits, file, datatype, raw).await;
        let most = self.sources.budget.left();
        let mut length = 0_u64;
        let bytes_of = |element: Element| {
            let text = match (element, references) {
                (Element::Text(text), _) => return Ok(text.into()),
                (Element::Bytes(bytes), _) => return Ok(bytes.into()),
                (_, None) => return Err(Failure::chunk("an element is neither text nor bytes")),
                (reference, Some(what)) => {
                    let path = reference_path(&reference, objects).map_err(|error| error.to_string())?;
                    match (what, reference_part(&reference)) {
                        (ReferenceText::Whole, Some(_)) => {
                            return Err(Failure::chunk("a reference leads to a part of an object"));
                        }
                        (ReferenceText::Path | ReferenceText::Whole, _) => path,
                        (ReferenceText::Part, part) => {
                            part.map_or(String::new(), |part| Value::Object(part).to_string())
                        }
                    }
                }
            };
            // Many references may point to one object with a long path.
            length = length.saturating_add(text.len() as u64);
            if length > most {
                return Err(format!("its text takes more than {most} bytes").into());
            }
            Ok(text.into())
        };
        elements.map_err(failed)?.into_iter().map(bytes_of).collect()
    }
}

/// Encodes elements in the common layout of `vlen-utf8` and `vlen-bytes`: the number of elements, then the length and
/// bytes of each element. All numbers are little-endian 32-bit integers.
///
/// # Errors
/// More than about `most` bytes; bytes that are not UTF-8 in `vlen-utf8`.
pub(super) fn encode(codecs: &[Codec], elements: &[Bytes], most: u64) -> Result<Vec<u8>, Failure> {
    let is_text = codecs.contains(&Codec::VlenUtf8);
    let mut out = length(elements.len())?.to_vec();
    for bytes in elements {
        if is_text && std::str::from_utf8(bytes).is_err() {
            return Err(Failure::chunk("a string is not UTF-8"));
        }
        if (out.len() as u64).saturating_add(bytes.len() as u64) > most {
            return Err(format!("its text takes more than {most} bytes").into());
        }
        out.extend_from_slice(&length(bytes.len())?);
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

fn length(count: usize) -> Result<[u8; 4], Failure> {
    let count32 = u32::try_from(count).map_err(|_| format!("{count} does not fit 32 bits"))?;
    Ok(count32.to_le_bytes())
}

/// Reads the elements of a dataset, and what they point at. The inner error is the reason why that is not possible.
pub(crate) async fn heap_values(
    maker: &ChunkMaker<'_>,
    task: &HeapTask,
) -> Result<Result<HeapValues, String>, ReadError> {
    match read(maker, task).await {
        Ok(values) => Ok(Ok(values)),
        Err(Failure::Chunk(reason)) => Ok(Err(reason)),
        Err(Failure::Read(error)) => Err(error),
    }
}

async fn read(maker: &ChunkMaker<'_>, task: &HeapTask) -> Result<HeapValues, Failure> {
    let ChunkContent::Assemble { shape, background, pieces } = &task.content else {
        return Err(Failure::chunk(FIXED_LENGTH));
    };
    let fetched = maker.fetch(task.content.ranges()).await.map_err(Failure::of_own_read)?;
    let mut elements = assemble::chunk(maker.limits, shape, background, pieces, &fetched)?;
    elements.extend_from_slice(&task.fill);
    let held = elements.len() as u64;
    maker.sources.budget.take("elements of variable length", held).map_err(Failure::Read)?;
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
    let raw = stored.ok_or_else(|| Failure::chunk(FIXED_LENGTH))?.concat();
    let found = maker.resolve(task.heap, &raw, pointer.context.as_ref(), pointer.references).await?;
    let mut found = found.into_iter();
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Expected bytes: `numcodecs.VLenUTF8().encode(np.array(["ä", ""], dtype=object))`.
    #[test]
    fn layout_of_vlen_utf8() {
        let elements = [Bytes::from("ä"), Bytes::new()];
        let expected = [2, 0, 0, 0, 2, 0, 0, 0, 0xC3, 0xA4, 0, 0, 0, 0];
        assert_eq!(encode(&[Codec::VlenUtf8], &elements, 1 << 20).unwrap(), expected);
    }

    #[test]
    fn bytes_are_not_text() {
        let elements = [Bytes::from_static(&[0xFF])];
        assert!(encode(&[Codec::VlenUtf8], &elements, 1 << 20).is_err());
        assert_eq!(encode(&[Codec::VlenBytes], &elements, 1 << 20).unwrap(), [1, 0, 0, 0, 1, 0, 0, 0, 0xFF]);
    }

    #[test]
    fn text_is_limited() {
        let elements = vec![Bytes::from("x".repeat(1000)); 100];
        let most = |most| encode(&[Codec::VlenUtf8], &elements, most);
        assert!(most(100_500).is_ok() && most(50_000).is_err());
    }
}
