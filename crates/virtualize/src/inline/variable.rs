use virtualize_map::ChunkContent;
use virtualize_zarr::Codec;

use super::assemble;
use super::error::{ChunkError, Failure};
use super::fetch::{ChunkMaker, Fetched};
use crate::source_formats::Pointed;

/// Returns the elements of a chunk, each read from the file of its pointer. Elements that no piece covers are empty.
pub(super) async fn chunk(
    maker: &ChunkMaker<'_>,
    content: &ChunkContent,
    fetched: &Fetched,
) -> Result<Vec<Pointed>, Failure> {
    const WIDTH: usize = size_of::<u64>();
    let ChunkContent::Variable { shape, pieces, pointer_size, pointers, references } = content else {
        return Err(ChunkError::FixedLength.into());
    };
    let pointer_size = usize::try_from(*pointer_size).ok().filter(|size| *size > 0);
    let pointer_size = pointer_size.ok_or(ChunkError::FixedLength)?;
    // The chunk is first assembled from numbers, which are indices into the known elements.
    let mut known = vec![Pointed::Text(String::new())];
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

/// Encodes elements in the common layout of `vlen-utf8` and `vlen-bytes`: the number of elements, then the length and
/// bytes of each element. All numbers are little-endian 32-bit integers.
///
/// # Errors
/// More than about `most` bytes; bytes that are not UTF-8 in `vlen-utf8`.
pub(super) fn encode(codecs: &[Codec], elements: &[Pointed], most: u64) -> Result<Vec<u8>, ChunkError> {
    let is_text = codecs.contains(&Codec::VlenUtf8);
    let mut out = length(elements.len())?.to_vec();
    for element in elements {
        let bytes = match element {
            Pointed::Text(text) => text.as_bytes(),
            Pointed::Bytes(bytes) if !is_text => bytes,
            Pointed::Bytes(_) => return Err(ChunkError::NotUtf8),
        };
        if (out.len() as u64).saturating_add(bytes.len() as u64) > most {
            return Err(ChunkError::TooMuchText(most));
        }
        out.extend_from_slice(&length(bytes.len())?);
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

fn length(count: usize) -> Result<[u8; 4], ChunkError> {
    u32::try_from(count).map(u32::to_le_bytes).map_err(|_| ChunkError::Count(count))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Expected bytes: `numcodecs.VLenUTF8().encode(np.array(["ä", ""], dtype=object))`.
    #[test]
    fn layout_of_vlen_utf8() {
        let elements = [Pointed::Text("ä".to_owned()), Pointed::Text(String::new())];
        let expected = [2, 0, 0, 0, 2, 0, 0, 0, 0xC3, 0xA4, 0, 0, 0, 0];
        assert_eq!(encode(&[Codec::VlenUtf8], &elements, 1 << 20).unwrap(), expected);
    }

    #[test]
    fn bytes_are_no_text() {
        let elements = [Pointed::Bytes(Bytes::from_static(&[0xFF]))];
        assert!(encode(&[Codec::VlenUtf8], &elements, 1 << 20).is_err());
        assert_eq!(encode(&[Codec::VlenBytes], &elements, 1 << 20).unwrap(), [1, 0, 0, 0, 1, 0, 0, 0, 0xFF]);
    }

    #[test]
    fn text_is_limited() {
        let elements = vec![Pointed::Text("x".repeat(1000)); 100];
        let most = |most| encode(&[Codec::VlenUtf8], &elements, most);
        assert!(most(100_500).is_ok() && most(50_000).is_err());
    }
}
