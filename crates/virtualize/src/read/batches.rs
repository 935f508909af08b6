//! Reads batches of chunks, decoded or as they are stored.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use virtualize_zarr::{Array, ChunkEntry, Reference, chunk_position};

use super::{
    ArrayReader, ChunkAddress, ChunkPart, DEFAULT_LIMIT,
    elements::Elements,
    place::all,
    run::{self, Extent, Scratch, Work},
};
use crate::{
    decode::{self, chunk_name},
    error::{ArrayError, Error},
    store::VirtualStore,
};

/// A chunk, or the reason why there is none; `None` for a missing one.
pub(super) type Answer = Result<Option<Bytes>, ArrayError>;

/// A chunk that was found in the hierarchy.
struct Item<'a> {
    /// Number in the batch.
    number: usize,
    address: &'a ChunkAddress,
    array: &'a Array,
    shape: Vec<u64>,
    inline: Option<&'a [u8]>,
}

struct Collect<'a> {
    reader: &'a ArrayReader,
    arrays: BTreeMap<&'a str, Result<Elements<'a>, ArrayError>>,
    is_decoded: bool,
    answers: Vec<OnceLock<Answer>>,
}

/// A chunk of a batch, and the part of its stored bytes that is read. Decoded chunks are read whole.
pub(super) type Request<'a> = (&'a ChunkAddress, ChunkPart);

/// Reads all chunks of a batch, decoded or as they are stored. Those of each array are read together.
pub(super) fn read(
    reader: &ArrayReader,
    chunks: &[Request<'_>],
    is_decoded: bool,
) -> Vec<Result<Option<Bytes>, Error>> {
    let mut by_store: Vec<(Arc<VirtualStore>, Vec<usize>)> = Vec::new();
    let mut by_path = BTreeMap::<&str, Vec<usize>>::new();
    for (number, (chunk, _)) in chunks.iter().enumerate() {
        by_path.entry(&chunk.path).or_default().push(number);
    }
    let mut answers: Vec<_> = chunks.iter().map(|_| Ok(None)).collect();
    let mut answer = |number: usize, answer| {
        if let Some(place) = answers.get_mut(number) {
            *place = answer;
        }
    };
    for (path, numbers) in by_path {
        let positions = || {
            let array = reader.store.metadata().hierarchy.array(path);
            let of = |number: &usize| position(array?, &chunks.get(*number)?.0.indices).ok();
            numbers.iter().filter_map(of).collect()
        };
        match reader.store.with_chunks(path, positions, reader.interrupt.as_deref()) {
            Ok(store) => match by_store.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &store)) {
                Some((_, known)) => known.extend(numbers),
                None => by_store.push((store, numbers)),
            },
            Err(error) => numbers.iter().for_each(|number| answer(*number, Err(error.clone()))),
        }
    }
    for (store, numbers) in by_store {
        let some: Vec<_> = numbers.iter().filter_map(|number| chunks.get(*number).copied()).collect();
        let read = of_store(reader, &store, &some, is_decoded);
        for ((number, (chunk, _)), read) in numbers.into_iter().zip(&some).zip(read) {
            answer(number, read.map_err(|error| reader.error(&chunk.path, error)));
        }
    }
    answers
}

/// Reads the chunks of a batch that are in one store.
fn of_store(
    reader: &ArrayReader,
    store: &VirtualStore,
    chunks: &[Request<'_>],
    is_decoded: bool,
) -> Vec<Answer> {
    let mut work = Collect {
        reader,
        arrays: BTreeMap::new(),
        is_decoded,
        answers: chunks.iter().map(|_| OnceLock::new()).collect(),
    };
    let mut items = Vec::new();
    let mut extent = Extent { items: 0, bytes: 0, held: 0, is_local: true };
    let files = reader.files(store);
    for (number, request) in chunks.iter().enumerate() {
        match work.find(store, number, *request) {
            Ok(Some((item, place))) => {
                extent.is_local &= place.is_none_or(|place| files.is_local(place.source));
                let bytes = decode::count(&item.shape).unwrap_or(u64::MAX).saturating_mul(8);
                extent.items += u64::from(work.is_decoded);
                extent.bytes = extent.bytes.saturating_add(bytes);
                extent.held = extent.held.max(bytes);
                items.push(Ok((item, place)));
            }
            Ok(None) => work.answer(number, Ok(None)),
            Err(error) => work.answer(number, Err(error)),
        }
    }
    let done = run::run(Box::new(items.into_iter()), extent, files, &work);
    let answer = |answer: OnceLock<Answer>| match (&done, answer.into_inner()) {
        (Ok(()), Some(answer)) => answer,
        (Err(error), _) => Err(error.clone()),
        (Ok(()), None) => Err(ArrayError::TOO_FEW_ELEMENTS),
    };
    work.answers.into_iter().map(answer).collect()
}

impl<'a> Collect<'a> {
    fn answer(&self, number: usize, answer: Answer) {
        if let Some(slot) = self.answers.get(number) {
            drop(slot.set(answer));
        }
    }

    /// Finds a chunk and the location of its bytes; `None` if it is missing.
    fn find(
        &mut self,
        store: &'a VirtualStore,
        number: usize,
        (address, part): Request<'a>,
    ) -> Result<Option<(Item<'a>, Option<Reference>)>, ArrayError> {
        let array = store.hierarchy.array(&address.path).ok_or(ArrayError::NO_ARRAY)?;
        let position = position(array, &address.indices)?;
        let Some(entry) = array.chunks.get(position) else { return Ok(None) };
        let shape = decode::chunk_shape(array, position).ok_or_else(|| ArrayError::no_chunk(position))?;
        if self.is_decoded && array.data_type.size().is_some() {
            self.arrays.entry(&address.path).or_insert_with(|| self.reader.elements(array));
        }
        let (inline, place) = match entry {
            ChunkEntry::Inline(bytes) => (Some(bytes.as_ref()), None),
            ChunkEntry::Reference(place) => (None, Some(place)),
        };
        let length = inline.map_or_else(|| place.map_or(0, |place| place.length), |bytes| bytes.len() as u64);
        let range = part.range(length);
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let inline = inline.and_then(|bytes| bytes.get(at(range.start)..at(range.end())));
        let place = place.map(|place| Reference {
            offset: place.offset.saturating_add(range.start),
            length: range.length,
            ..place
        });
        Ok(Some((Item { number, address, array, shape, inline }, place)))
    }

    /// Decodes a chunk. Elements of variable length are in the layout of `vlen-utf8` and `vlen-bytes`.
    fn decoded(&self, item: &Item<'_>, stored: &[u8], scratch: &mut Scratch) -> Result<Vec<u8>, ArrayError> {
        let decoded = match self.arrays.get(item.address.path.as_str()) {
            Some(elements) => {
                elements.as_ref().map_err(Clone::clone)?.row_major(&item.shape, stored, scratch)
            }
            None => decode::variable(item.array, stored, &item.shape, DEFAULT_LIMIT),
        };
        decoded.map_err(|error| error.in_chunk(&chunk_name(&item.address.indices)))
    }
}

impl<'a> Work<Item<'a>> for Collect<'a> {
    fn run(
        &self,
        item: Item<'a>,
        bytes: Result<run::Bytes<'_>, ArrayError>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let mut read = std::mem::take(&mut scratch.read);
        let answer = bytes.and_then(|bytes| {
            let bytes = item.inline.map_or(bytes, run::Bytes::Here);
            let stored = all(bytes, &mut read)?;
            match self.is_decoded {
                true => Ok(Some(self.decoded(&item, stored, scratch)?.into())),
                false => Ok(Some(Bytes::copy_from_slice(stored))),
            }
        });
        scratch.read = read;
        let answer = match answer {
            Err(error) if self.reader.missing.is_some() && error.is_of_source() => {
                self.reader.note(&item.address.path, error.in_chunk(&chunk_name(&item.address.indices)));
                Ok(None)
            }
            answer => answer,
        };
        self.answer(item.number, answer);
        Ok(())
    }
}

/// Returns the row-major position of a chunk in the grid.
pub(super) fn position(array: &Array, indices: &[u64]) -> Result<u64, ArrayError> {
    let counts = array.chunk_grid.counts(&array.shape);
    chunk_position(indices.iter().copied(), &counts).ok_or_else(|| {
        ArrayError::invalid(format!("there is no chunk {indices:?} in a grid of {counts:?} chunks"))
    })
}

/// Returns the size of a decoded chunk in bytes; `None` for types of variable size and for positions outside the grid.
pub fn chunk_size(array: &Array, position: u64) -> Option<u64> {
    let counts = array.chunk_grid.counts(&array.shape);
    let shape = decode::chunk_shape(array, position)?;
    let is_inside = decode::count(&counts).is_none_or(|count| position < count);
    is_inside.then(|| decode::count(&shape)?.checked_mul(array.data_type.size()?)).flatten()
}

/// Decodes a chunk from its stored bytes. Returns its elements in row-major order and little-endian byte order,
/// including those outside the array. `position` is row-major in the grid.
///
/// # Errors
/// [`Error::Values`] if no such array or chunk, or the chunk has more than `most` bytes, is damaged, or has a
/// type of variable size or a codec without a decoder here (of images).
pub fn decode_chunk(
    store: &VirtualStore,
    path: &str,
    position: u64,
    stored: &Bytes,
    most: u64,
) -> Result<Bytes, Error> {
    let array = store.hierarchy.array(path).ok_or(ArrayError::NO_ARRAY);
    let decoded = array.and_then(|array| decoded(array, position, stored, most));
    decoded.map_err(|error| Error::of_array(store.name(), path, error))
}

fn decoded(array: &Array, position: u64, stored: &Bytes, most: u64) -> Result<Bytes, ArrayError> {
    let outside = || ArrayError::no_chunk(position);
    chunk_size(array, position).ok_or_else(outside)?;
    let shape = decode::chunk_shape(array, position).ok_or_else(outside)?;
    let elements = Elements::new(array, most, None)?;
    let decoded = elements.row_major(&shape, stored, &mut Scratch::default());
    decoded.map(Into::into).map_err(|error| error.in_chunk(&position.to_string()))
}
