use serde_json::Value;
use virtualize_hdf5::model::{Datatype, Element};
use virtualize_map::hdf5::{ObjectNames, reference_part, reference_path};
use virtualize_map::{Piece, ReferenceText};
use virtualize_zarr::Codec;

use super::sources::{Context, Fetched};
use super::{Failure, assemble, place};

/// The elements of a chunk, each looked up in the heap of the file from which it comes.
pub(super) async fn chunk(
    context: &Context<'_>,
    shape: &[u64],
    datatype: &Datatype,
    pieces: &[Piece],
    fetched: &Fetched,
) -> Result<Vec<Element>, Failure> {
    const WIDTH: usize = size_of::<u64>();
    // The chunk is first made of numbers: which of these elements is where.
    let mut known = vec![Element::Object(None)];
    let mut whole = vec![0; assemble::count(shape, WIDTH, context.limits)?.saturating_mul(WIDTH)];
    for piece in pieces {
        let raw = assemble::elements(context.limits, piece, fetched, pointer_size(datatype)?)?;
        let elements = context.elements(piece.source, datatype, &raw).await?;
        let numbers = known.len() as u64..;
        let numbers: Vec<u8> = numbers.take(elements.len()).flat_map(u64::to_le_bytes).collect();
        known.extend(elements);
        place::lay(&mut whole, shape, &numbers, piece, WIDTH)?;
    }
    let numbers = whole.as_chunks::<WIDTH>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let element = |number| usize::try_from(number).ok().and_then(|at| known.get(at)).cloned();
    Ok(numbers.filter_map(element).collect())
}

/// Bytes of a stored element, which points into the global heap.
fn pointer_size(datatype: &Datatype) -> Result<usize, Failure> {
    match datatype {
        Datatype::VariableString { size, .. }
        | Datatype::Sequence { size, .. }
        | Datatype::Reference { size, .. } => {
            usize::try_from(*size).map_err(|error| Failure::Chunk(error.to_string()))
        }
        _ => Err(Failure::Chunk("the type has no variable length".to_owned())),
    }
}

/// The layout that `vlen-utf8` and `vlen-bytes` share: the number of elements, then length and bytes of each, all
/// numbers as little-endian 32-bit integers. References are text. At most about `most` bytes.
pub(super) fn encode(
    codecs: &[Codec],
    elements: &[Element],
    references: (&ObjectNames, ReferenceText),
    most: u64,
) -> Result<Vec<u8>, Failure> {
    let is_text = codecs.contains(&Codec::VlenUtf8);
    let mut out = length(elements.len())?.to_vec();
    for element in elements {
        let text = reference(element, references)?;
        let bytes = match (element, &text) {
            (_, Some(text)) => text.as_bytes(),
            (Element::Text(text), _) => text.as_bytes(),
            (Element::Bytes(bytes), _) if !is_text => bytes,
            (Element::Bytes(_), _) => return Err(Failure::Chunk("a string is not UTF-8".to_owned())),
            _ => return Err(Failure::Chunk("an element is neither text nor bytes".to_owned())),
        };
        if (out.len() as u64).saturating_add(bytes.len() as u64) > most {
            return Err(Failure::Chunk(format!("its text takes more than {most} bytes")));
        }
        out.extend_from_slice(&length(bytes.len())?);
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

/// The text of an element if it is a reference.
fn reference(
    element: &Element,
    (objects, text): (&ObjectNames, ReferenceText),
) -> Result<Option<String>, Failure> {
    if matches!(element, Element::Text(_) | Element::Bytes(_)) {
        return Ok(None);
    }
    let path = reference_path(element, objects).map_err(|error| Failure::Chunk(error.to_string()))?;
    Ok(Some(match text {
        ReferenceText::Path => path,
        ReferenceText::Part => {
            reference_part(element).map_or(String::new(), |part| Value::Object(part).to_string())
        }
    }))
}

fn length(count: usize) -> Result<[u8; 4], Failure> {
    let count = u32::try_from(count).map_err(|_| Failure::Chunk(format!("{count} does not fit 32 bits")))?;
    Ok(count.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::Address;
    use virtualize_hdf5::model::Selection;

    use super::*;

    const PATH: ReferenceText = ReferenceText::Path;

    /// As `numcodecs.VLenUTF8().encode(np.array(["ä", ""], dtype=object))` writes it.
    #[test]
    fn layout_of_vlen_utf8() {
        let elements = [Element::Text("ä".to_owned()), Element::Text(String::new())];
        let expected = [2, 0, 0, 0, 2, 0, 0, 0, 0xC3, 0xA4, 0, 0, 0, 0];
        assert_eq!(
            encode(&[Codec::VlenUtf8], &elements, (&ObjectNames::default(), PATH), 1 << 20).unwrap(),
            expected
        );
    }

    #[test]
    fn bytes_are_no_text() {
        let elements = [Element::Bytes(vec![0xFF])];
        assert!(encode(&[Codec::VlenUtf8], &elements, (&ObjectNames::default(), PATH), 1 << 20).is_err());
        assert_eq!(
            encode(&[Codec::VlenBytes], &elements, (&ObjectNames::default(), PATH), 1 << 20).unwrap(),
            [1, 0, 0, 0, 1, 0, 0, 0, 0xFF]
        );
    }

    #[test]
    fn references_are_paths() {
        let elements = [Element::Object(None)];
        let encode = |elements: &[Element]| {
            encode(&[Codec::VlenUtf8], elements, (&ObjectNames::default(), PATH), 1 << 20)
        };
        assert_eq!(encode(&elements).unwrap(), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(encode(&[Element::Object(Some(Address(7)))]).is_err(), "no link leads there");
        assert!(encode(&[Element::Region(Address(7), Selection::All)]).is_err(), "no link leads there");
    }

    /// Many references may lead to one object with a long path.
    #[test]
    fn text_ends_at_a_limit() {
        let elements = vec![Element::Text("x".repeat(1000)); 100];
        let names = ObjectNames::default();
        let most = |most| super::encode(&[Codec::VlenUtf8], &elements, (&names, PATH), most);
        assert!(most(100_500).is_ok() && most(50_000).is_err());
    }
}
