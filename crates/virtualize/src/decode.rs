//! Decoding of the elements of single chunks.

use serde_json::Value;
use virtualize_codec::CodecFailure;
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, Implementation, ZarrFormat, chunk_indices};

use crate::error::ArrayError;

/// Returns the shape of the chunk at a position. At the edges of a regular grid, this is the shape of a whole chunk.
pub(crate) fn chunk_shape(array: &Array, position: u64) -> Option<Vec<u64>> {
    match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => Some(chunk.clone()),
        ChunkGrid::Rectilinear(edges) => {
            let at = chunk_indices(position, &array.chunk_grid.counts(&array.shape))?;
            edges.iter().zip(at).map(|(edges, at)| edges.get(usize::try_from(at).ok()?).copied()).collect()
        }
    }
}

/// Returns the indices of a chunk as in its key: `0.1`.
pub(crate) fn chunk_name(indices: &[u64]) -> String {
    if indices.is_empty() {
        return "0".to_owned();
    }
    indices.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// Returns the number of elements of a shape.
pub(crate) fn count(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1, |all: u64, n| all.checked_mul(*n))
}

/// Returns the order of axes of stored elements: axis `i` of them is axis `order[i]` of the array. Several `transpose`
/// codecs at the start of a chain count as one.
pub(crate) fn stored_order(codecs: &[Codec], rank: usize) -> Result<Vec<usize>, ArrayError> {
    let mut whole: Vec<usize> = (0..rank).collect();
    let mut is_first = true;
    for codec in codecs {
        match codec {
            Codec::Transpose { order } if is_first => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..rank) {
                    let text = format!("transpose: {order:?} is not an order of {rank} axes");
                    return Err(ArrayError::invalid(text));
                }
                whole = order.iter().filter_map(|axis| whole.get(*axis).copied()).collect();
            }
            Codec::Transpose { .. } => return Err(ArrayError::invalid("transpose behind another codec")),
            arithmetic => is_first &= arithmetic.is_arithmetic(),
        }
    }
    Ok(whole)
}

/// Returns the elements of a chunk of fixed size, in stored order and byte order.
pub(crate) fn elements(array: &Array, shape: &[u64], bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let count = count(shape).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| CodecFailure::Parameters {
        codec: "chunk",
        reason: format!("a shape of {shape:?} elements"),
    })?;
    virtualize_codec::decode_values(&array.data_type, &complete_codecs(array, shape), bytes, count)
}

/// Returns decoded elements in the order of the array's axes. Elements of variable length are returned unchanged.
pub(crate) fn in_order(array: &Array, shape: &[u64], values: Vec<u8>) -> Result<Vec<u8>, ArrayError> {
    let order = stored_order(&array.codecs, shape.len())?;
    if order.is_sorted() {
        return Ok(values);
    }
    let mut ordered = values.clone();
    reorder(array, (shape, &order), &values, &mut ordered, false)?;
    Ok(ordered)
}

/// Copies the elements of a chunk from stored to row-major order, or back. Elements of variable length keep their order.
pub(crate) fn reorder(
    array: &Array,
    (shape, order): (&[u64], &[usize]),
    from: &[u8],
    to: &mut [u8],
    is_back: bool,
) -> Result<(), ArrayError> {
    let size = usize::try_from(array.data_type.size().unwrap_or(0)).unwrap_or(0);
    if order.is_sorted() || size == 0 {
        to.copy_from_slice(from);
        return Ok(());
    }
    let start = vec![0; shape.len()];
    let (rows, stored) = (Region::new(shape, &start), Region::permuted(shape, order, &start));
    let (target, source) = if is_back { (&stored, &rows) } else { (&rows, &stored) };
    copy_region((to, target), (from, source), shape, size).ok_or(ArrayError::TOO_FEW_ELEMENTS)
}

/// Returns the text or bytes of variable length of a chunk in the layout of `vlen-utf8` and `vlen-bytes`: the number of
/// elements, then the length and bytes of each element, all numbers little-endian 32-bit integers, without trailing bytes. Equal elements are equal bytes, however
/// they are compressed.
pub(crate) fn variable(array: &Array, bytes: &[u8], shape: &[u64], most: u64) -> Result<Vec<u8>, ArrayError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let is_layout = |codec: &Codec| matches!(codec, Codec::VlenUtf8 | Codec::VlenBytes);
    if !array.codecs.iter().any(is_layout) {
        return Err(CodecFailure::NoDecoder("another layout of text".to_owned()).into());
    }
    let mut bytes = virtualize_codec::decode_variable(&array.codecs, bytes, most)?;
    let count = count(shape).and_then(|count| usize::try_from(count).ok());
    let end = variable_end(&bytes, count.unwrap_or(usize::MAX), array.data_type == DataType::String)?;
    bytes.truncate(end);
    Ok(bytes)
}

/// Returns the elements of the layout that [`variable`] returns.
pub(crate) fn variable_elements(values: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = values.get(4..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (element, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(element)
    })
}

/// Returns the elements of a decoded chunk, of fixed or variable length.
pub(crate) fn each_element<'a>(array: &Array, values: &'a [u8]) -> Box<dyn Iterator<Item = &'a [u8]> + 'a> {
    match array.data_type.size().and_then(|size| usize::try_from(size).ok()) {
        None => Box::new(variable_elements(values)),
        Some(size) => Box::new(values.chunks(size.max(1))),
    }
}

/// Returns the offset of the end of the last element.
fn variable_end(bytes: &[u8], count: usize, is_text: bool) -> Result<usize, ArrayError> {
    let wrong = |at: usize, found: &str, expected: &str| {
        ArrayError::invalid(format!("text of variable length at byte {at}: {found}, expected {expected}"))
    };
    let number = |at: usize| {
        let four = at.checked_add(4).and_then(|end| bytes.get(at..end)?.try_into().ok());
        let four = four.ok_or_else(|| wrong(at, "the end", "4 bytes"))?;
        Ok::<usize, ArrayError>(usize::try_from(u32::from_le_bytes(four)).unwrap_or(usize::MAX))
    };
    let found = number(0)?;
    if found != count {
        return Err(wrong(0, &format!("{found} elements"), &count.to_string()));
    }
    let mut at = 4_usize;
    for _ in 0..count {
        let length = number(at)?;
        at = at.saturating_add(4);
        let end = at.saturating_add(length);
        let element = bytes.get(at..end).ok_or_else(|| wrong(at, "the end", &format!("{length} bytes")))?;
        if is_text && std::str::from_utf8(element).is_err() {
            return Err(wrong(at, "other bytes", "UTF-8"));
        }
        at = end;
    }
    Ok(at)
}

/// Returns the codecs, completed by properties that follow from the array and the chunk's shape.
pub(crate) fn complete_codecs(array: &Array, shape: &[u64]) -> Vec<Codec> {
    let mut chain = array.codecs.clone();
    Codec::complete(&mut chain, &array.data_type, shape);
    chain
}

/// A codec that the Python package `virtualize` registers with zarr-python and numcodecs.
///
/// ```
/// use virtualize::{PackageCodec, zarr::ZarrFormat};
///
/// let entry = serde_json::json!({"name": "virtualize.packbits"});
/// let codec = PackageCodec::parse(&entry, ZarrFormat::V3).unwrap();
/// assert_eq!(codec.decode(&[0xFE, 7], 1 << 20).unwrap(), [7, 7, 7]);
/// assert!(codec.decode(&[0xFE, 7], 2).is_err());
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct PackageCodec(Codec);

impl PackageCodec {
    /// Parses a codec's entry in a metadata document: `{"id": …}` in Zarr v2, `{"name": …}` in v3. `None` for names that
    /// the package does not register and for invalid configurations.
    pub fn parse(entry: &Value, format: ZarrFormat) -> Option<Self> {
        Codec::from_own(entry, format).map(Self)
    }

    /// Returns all registered names, each once.
    pub fn names() -> Vec<&'static str> {
        Codec::own_names()
    }

    /// Returns whether [`PackageCodec::encode`] works.
    pub fn encodes(&self) -> bool {
        self.0.implementation() == Implementation::Complete
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    /// Damaged bytes; more than `most` decoded bytes.
    pub fn decode(&self, bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecFailure> {
        virtualize_codec::decode_variable(std::slice::from_ref(&self.0), bytes, most)
    }

    /// Encodes bytes.
    ///
    /// # Errors
    /// The codec is only decoded; parameters that do not fit the bytes.
    pub fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
        virtualize_codec::encode(std::slice::from_ref(&self.0), bytes)
    }
}

/// Box of elements in an array: its start, and the distance between its elements along each axis.
pub(crate) struct Region {
    /// Index of the first element in the buffer.
    start: u64,
    /// Distance between consecutive elements along each axis.
    strides: Vec<u64>,
}

impl Region {
    /// Returns the box that starts at an index of an array in row-major order.
    pub(crate) fn new(shape: &[u64], start: &[u64]) -> Self {
        let order: Vec<usize> = (0..shape.len()).collect();
        Self::permuted(shape, &order, start)
    }

    /// Returns the box that starts at an index of an array whose axis `order[i]` is axis `i` of its row-major buffer.
    pub(crate) fn permuted(shape: &[u64], order: &[usize], start: &[u64]) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut step = 1_u64;
        for axis in order.iter().rev() {
            if let (Some(stride), Some(size)) = (strides.get_mut(*axis), shape.get(*axis)) {
                *stride = step;
                step = step.saturating_mul(*size);
            }
        }
        Self { start: Self { start: 0, strides: strides.clone() }.offset(start), strides }
    }

    /// Returns the index in the buffer of an element of the box.
    fn offset(&self, at: &[u64]) -> u64 {
        let steps = at.iter().zip(&self.strides).map(|(at, step)| at.saturating_mul(*step));
        steps.fold(self.start, u64::saturating_add)
    }
}

/// Copies a box of `extent` elements, of `element` bytes each. Returns `None` if part of the box is outside its buffer;
/// rows that were copied before remain.
pub(crate) fn copy_region(
    target: (&mut [u8], &Region),
    source: (&[u8], &Region),
    extent: &[u64],
    element: usize,
) -> Option<()> {
    if extent.contains(&0) {
        return Some(());
    }
    let ((target, to), (source, from)) = (target, source);
    let bytes = |elements: u64| usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(element);
    let dim = |((count, from), to): ((&u64, &u64), &u64)| Dim::Even {
        count: usize::try_from(*count).unwrap_or(usize::MAX),
        from: bytes(*from),
        to: bytes(*to),
    };
    let dims: Vec<Dim<'_>> = extent.iter().zip(&from.strides).zip(&to.strides).map(dim).collect();
    let (from, to) = (bytes(from.start), bytes(to.start));
    copy(&merged(dims), element, (source, from), (target, to))
}

/// Elements along one axis of a source and a target, with distances in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dim<'a> {
    /// Evenly spaced elements in both.
    Even {
        /// Number of elements.
        count: usize,
        /// Distance between two of them in the source.
        from: usize,
        /// Distance between two of them in the target.
        to: usize,
    },
    /// Elements by their indices.
    Each {
        /// Index in the source plus `base`, and index in the target.
        pairs: &'a [(u64, u64)],
        /// Subtracted from the indices in the source.
        base: u64,
        /// Distance between consecutive indices in the source.
        from: usize,
        /// Distance between consecutive indices in the target.
        to: usize,
    },
}

/// Merges axes that are one evenly spaced axis in source and target, and drops those of one element.
pub(crate) fn merged(dims: Vec<Dim<'_>>) -> Vec<Dim<'_>> {
    let mut all: Vec<Dim<'_>> = Vec::with_capacity(dims.len());
    for dim in dims {
        match (all.last_mut(), dim) {
            (_, Dim::Even { count: 1, .. }) => {}
            (Some(Dim::Even { count: outer, from: far, to: wide }), Dim::Even { count, from, to })
                if from.checked_mul(count) == Some(*far) && to.checked_mul(count) == Some(*wide) =>
            {
                (*outer, *far, *wide) = (outer.saturating_mul(count), from, to);
            }
            _ => all.push(dim),
        }
    }
    all
}

/// Copies elements of `element` bytes along all axes, from an offset in the source to one in the target. `None` if any
/// of them is outside its buffer.
pub(crate) fn copy(
    dims: &[Dim<'_>],
    element: usize,
    (source, from): (&[u8], usize),
    (target, to): (&mut [u8], usize),
) -> Option<()> {
    match dims {
        [] => run((source, from), (target, to), element),
        [Dim::Even { count, from: step, to: stride }] if *step == element && *stride == element => {
            run((source, from), (target, to), count.checked_mul(element)?)
        }
        [Dim::Even { count, from: step, to: stride }] if matches!(element, 1 | 2 | 4 | 8) => {
            let steps = Steps { count: *count, from: *step, to: *stride };
            let copy = match element {
                1 => strided::<1>,
                2 => strided::<2>,
                4 => strided::<4>,
                _ => strided::<8>,
            };
            copy(steps, source.get(from..)?, target.get_mut(to..)?)
        }
        _ => each(dims, |dims, from, to| copy(dims, element, (source, from), (&mut *target, to)), from, to),
    }
}

/// Fills elements of the target along all axes. `None` if any of them is outside.
pub(crate) fn fill(dims: &[Dim<'_>], element: &[u8], target: &mut [u8], to: usize) -> Option<()> {
    match dims {
        [Dim::Even { count, to: stride, .. }] if *stride == element.len() => {
            let end = to.checked_add(count.checked_mul(element.len())?)?;
            let target = target.get_mut(to..end)?;
            match element.split_first() {
                Some((first, rest)) if rest.iter().all(|byte| byte == first) => target.fill(*first),
                _ => target.chunks_exact_mut(element.len().max(1)).for_each(|it| it.copy_from_slice(element)),
            }
            Some(())
        }
        [] => run((element, 0), (target, to), element.len()),
        _ => each(dims, |dims, _, to| fill(dims, element, &mut *target, to), 0, to),
    }
}

/// Calls a function for each index of the first axis, with the other axes and the offsets in source and target.
pub(crate) fn each<'a>(
    dims: &[Dim<'a>],
    mut visit: impl FnMut(&[Dim<'a>], usize, usize) -> Option<()>,
    from: usize,
    to: usize,
) -> Option<()> {
    match dims.split_first()? {
        (Dim::Even { count, from: step, to: stride }, rest) => (0..*count).try_for_each(|n| {
            let at = |start: usize, step: usize| start.checked_add(n.checked_mul(step)?);
            visit(rest, at(from, *step)?, at(to, *stride)?)
        }),
        (Dim::Each { pairs, base, from: step, to: stride }, rest) => {
            pairs.iter().try_for_each(|(source, target)| {
                let at = |start: usize, index: u64, step: usize| {
                    start.checked_add(usize::try_from(index).ok()?.checked_mul(step)?)
                };
                visit(rest, at(from, source.checked_sub(*base)?, *step)?, at(to, *target, *stride)?)
            })
        }
    }
}

fn run((source, from): (&[u8], usize), (target, to): (&mut [u8], usize), length: usize) -> Option<()> {
    let target = target.get_mut(to..to.checked_add(length)?)?;
    target.copy_from_slice(source.get(from..from.checked_add(length)?)?);
    Some(())
}

#[derive(Clone, Copy)]
struct Steps {
    count: usize,
    from: usize,
    to: usize,
}

/// Copies evenly spaced elements of `N` bytes.
fn strided<const N: usize>(steps: Steps, source: &[u8], target: &mut [u8]) -> Option<()> {
    let last = |step: usize| steps.count.checked_sub(1)?.checked_mul(step)?.checked_add(N);
    let (source, target) = (source.get(..last(steps.from)?)?, target.get_mut(..last(steps.to)?)?);
    let from = source.chunks(steps.from.max(1)).filter_map(<[u8]>::first_chunk::<N>);
    if steps.to == N {
        let (to, _) = target.as_chunks_mut::<N>();
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    } else {
        let to = target.chunks_mut(steps.to.max(1)).filter_map(<[u8]>::first_chunk_mut::<N>);
        to.zip(from).for_each(|(to, from)| *to = *from);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected bytes: `numcodecs.VLenUTF8().encode(np.array(["ä", ""], dtype=object))`.
    const TWO: [u8; 14] = [2, 0, 0, 0, 2, 0, 0, 0, 0xC3, 0xA4, 0, 0, 0, 0];

    #[test]
    fn what_follows_the_elements_does_not_count() {
        assert_eq!(variable_end(&TWO, 2, true).unwrap(), 14);
        assert_eq!(variable_end(&[&TWO[..], &[0; 3]].concat(), 2, true).unwrap(), 14);
        assert!(variable_elements(&TWO).eq(["ä".as_bytes(), b""]));
    }

    #[test]
    fn layouts_that_are_wrong_are_refused() {
        for (bytes, count, expected) in [
            (&TWO[..], 3, "at byte 0: 2 elements, expected 3"),
            (&TWO[..9], 2, "at byte 8: the end, expected 2 bytes"),
            (&TWO[..11], 2, "at byte 10: the end, expected 4 bytes"),
            (&[], 0, "at byte 0: the end, expected 4 bytes"),
            (&[1, 0, 0, 0, 1, 0, 0, 0, 0xC3], 1, "at byte 8: other bytes, expected UTF-8"),
            (&[1, 0, 0, 0, 255, 255, 255, 255], 1, "at byte 8: the end, expected 4294967295 bytes"),
        ] {
            let error = variable_end(bytes, count, true).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
        assert_eq!(variable_end(&[1, 0, 0, 0, 1, 0, 0, 0, 0xC3], 1, false).unwrap(), 9);
    }

    #[test]
    fn part_of_a_box_goes_to_its_place() {
        let mut chunk = *b"............";
        let (to, from) = (Region::new(&[3, 4], &[1, 2]), Region::new(&[2, 3], &[0, 1]));
        copy_region((&mut chunk, &to), (b"abcdef", &from), &[2, 2], 1).unwrap();
        assert_eq!(&chunk, b"......bc..ef");
    }

    #[test]
    fn elements_of_several_bytes_in_three_dimensions() {
        let mut chunk = *b"................";
        let (to, from) = (Region::new(&[2, 2, 2], &[0, 1, 0]), Region::new(&[2, 1, 2], &[0, 0, 1]));
        copy_region((&mut chunk, &to), (b"aabbccdd", &from), &[2, 1, 1], 2).unwrap();
        assert_eq!(&chunk, b"....bb......dd..");
    }

    #[test]
    fn scalars_and_nothing() {
        let mut chunk = *b"..";
        let scalar = Region::new(&[], &[]);
        copy_region((&mut chunk, &scalar), (b"ab", &scalar), &[], 2).unwrap();
        assert_eq!(&chunk, b"ab");
        let vector = Region::new(&[2], &[0]);
        copy_region((&mut chunk, &vector), (b"cd", &vector), &[0], 1).unwrap();
        assert_eq!(&chunk, b"ab");
    }

    #[test]
    fn axes_change_their_order() {
        let mut rows = *b"......";
        let (to, from) = (Region::new(&[2, 3], &[0, 0]), Region::permuted(&[2, 3], &[1, 0], &[0, 0]));
        copy_region((&mut rows, &to), (b"adbecf", &from), &[2, 3], 1).unwrap();
        assert_eq!(&rows, b"abcdef");
    }

    #[test]
    fn buffers_that_are_too_short_are_refused() {
        let mut chunk = *b"....";
        let (to, from) = (Region::new(&[4], &[3]), Region::new(&[2], &[0]));
        assert_eq!(copy_region((&mut chunk, &to), (b"ab", &from), &[2], 1), None);
        let far = Region::new(&[2], &[u64::MAX]);
        assert_eq!(copy_region((&mut chunk, &from), (b"ab", &far), &[2], 1), None);
    }
}
