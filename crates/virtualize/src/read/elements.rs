//! Decoding of chunks to little-endian elements.

use virtualize_codec::{CodecFailure, Decoder};
use virtualize_zarr::{Array, Codec, DataType, Endian, in_byte_order};

use super::{
    ForeignDecoder, little_endian,
    run::{Scratch, reserve},
};
use crate::{
    decode::{self, complete_codecs, reorder, stored_order},
    error::ArrayError,
};

/// Decodes the chunks of an array.
pub(super) struct Elements<'a> {
    pub(super) array: &'a Array,
    /// Axis `i` of stored elements is axis `order[i]` of the array.
    order: Vec<usize>,
    swap: Swap,
    /// Maximum number of bytes of a chunk.
    most: u64,
    foreign: Option<&'a ForeignDecoder>,
}

/// What makes stored elements little-endian.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Swap {
    Nothing,
    /// Reverse the bytes of each number, of so many bytes.
    Numbers(usize),
    /// Convert the fields of structures.
    Fields,
}

impl<'a> Elements<'a> {
    pub(super) fn new(
        array: &'a Array,
        most: u64,
        foreign: Option<&'a ForeignDecoder>,
    ) -> Result<Self, ArrayError> {
        let swap = match (&array.data_type, array.endian()) {
            (DataType::Struct(_), _) if array.data_type == little_endian(&array.data_type) => Swap::Nothing,
            (DataType::Struct(_), _) => Swap::Fields,
            (_, Endian::Little) => Swap::Nothing,
            (number, Endian::Big) => match usize::try_from(number.number_size()) {
                Ok(size) if size > 1 => Swap::Numbers(size),
                _ => Swap::Nothing,
            },
        };
        let order = stored_order(&array.codecs, array.shape.len())?;
        Ok(Self { array, order, swap, most, foreign })
    }

    /// Returns whether bare elements are little-endian as they are stored.
    pub(super) fn is_native(&self) -> bool {
        self.swap == Swap::Nothing
    }

    /// Returns the size of a chunk in bytes.
    pub(super) fn length(&self, shape: &[u64]) -> Result<usize, ArrayError> {
        let size = self.array.data_type.size().ok_or(ArrayError::VARIABLE_SIZE)?;
        super::within(self.array, shape, self.most, "a chunk")?;
        let bytes = decode::count(shape).and_then(|count| usize::try_from(count.checked_mul(size)?).ok());
        bytes.ok_or(ArrayError::TOO_FEW_ELEMENTS)
    }

    /// Decodes a chunk into `out`, which has its length. Its elements are in stored order.
    pub(super) fn decode_into(
        &self,
        shape: &[u64],
        bytes: &[u8],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let decoder = decoder(&mut scratch.decoder, self.array, shape)?;
        let is_image = self.array.codecs.iter().any(|codec| matches!(codec, Codec::Image { .. }));
        if is_image && self.foreign.is_some() {
            // Other decoders of images are faster than ours, if there are any.
            let Err(error) = self.decode_foreign(String::new(), shape, bytes, out) else { return Ok(()) };
            decoder.decode(bytes, out, &mut scratch.codec).map_err(|_| error)?;
            return self.swap(out);
        }
        match decoder.decode(bytes, out, &mut scratch.codec) {
            Err(CodecFailure::NoDecoder(codec)) => self.decode_foreign(codec, shape, bytes, out),
            Err(error) => Err(error.into()),
            Ok(()) => self.swap(out),
        }
    }

    /// Decodes a chunk into memory of its own, and returns its elements in stored order.
    pub(super) fn decode<'s>(
        &self,
        shape: &[u64],
        bytes: &[u8],
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], ArrayError> {
        let length = self.length(shape)?;
        let mut elements = std::mem::take(&mut scratch.elements);
        if Decoder::is_plausible(bytes.len(), length) || self.foreign.is_some() {
            reserve(&mut elements, length)?;
            self.decode_into(shape, bytes, elements.get_mut(..length).unwrap_or_default(), scratch)?;
        } else {
            let count = decode::count(shape).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            elements = decoder(&mut scratch.decoder, self.array, shape)?.decode_growing(bytes, count)?;
            self.swap(&mut elements)?;
        }
        scratch.elements = elements;
        scratch.elements.get(..length).ok_or(ArrayError::TOO_FEW_ELEMENTS)
    }

    /// Returns a decoded chunk in row-major order.
    pub(super) fn row_major(
        &self,
        shape: &[u64],
        bytes: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, ArrayError> {
        let mut ordered = Vec::new();
        let length = self.length(shape)?;
        if self.order.is_sorted() && Decoder::is_plausible(bytes.len(), length) {
            reserve(&mut ordered, length)?;
            self.decode_into(shape, bytes, &mut ordered, scratch)?;
            return Ok(ordered);
        }
        let elements = self.decode(shape, bytes, scratch)?;
        reserve(&mut ordered, elements.len())?;
        reorder(self.array, (shape, &self.order), elements, &mut ordered, false)?;
        Ok(ordered)
    }

    fn decode_foreign(
        &self,
        codec: String,
        shape: &[u64],
        bytes: &[u8],
        out: &mut [u8],
    ) -> Result<(), ArrayError> {
        let Some(foreign) = self.foreign else { return Err(CodecFailure::NoDecoder(codec).into()) };
        let decoded = foreign(bytes, self.array, shape).map_err(ArrayError::invalid)?;
        if decoded.len() != out.len() {
            let failure = CodecFailure::TooShort { expected: out.len(), found: decoded.len() };
            return Err(failure.into());
        }
        reorder(self.array, (shape, &self.order), &decoded, out, true)
    }

    /// Makes elements little-endian.
    pub(super) fn swap(&self, elements: &mut [u8]) -> Result<(), ArrayError> {
        match self.swap {
            Swap::Nothing => {}
            Swap::Numbers(2) => reverse::<2>(elements),
            Swap::Numbers(4) => reverse::<4>(elements),
            Swap::Numbers(size) => elements.chunks_exact_mut(size).for_each(<[u8]>::reverse),
            Swap::Fields => {
                let converted = in_byte_order(elements, &self.array.data_type, self.array.endian());
                let converted = converted.filter(|converted| converted.len() == elements.len());
                elements.copy_from_slice(
                    &converted.ok_or(ArrayError::invalid("its byte order cannot be changed"))?,
                );
            }
        }
        Ok(())
    }
}

fn reverse<const N: usize>(elements: &mut [u8]) {
    elements.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
}

/// A decoder that is kept for the next chunk, and the chunks that it decodes.
pub(super) struct Kept {
    shape: Vec<u64>,
    data_type: DataType,
    codecs: Vec<Codec>,
    decoder: Decoder,
}

/// Returns the decoder of the chunks of an array that have a shape. A batch may have chunks of several arrays.
fn decoder<'d>(kept: &'d mut Option<Kept>, array: &Array, shape: &[u64]) -> Result<&'d Decoder, ArrayError> {
    let is_of =
        |kept: &Kept| kept.shape == shape && kept.data_type == array.data_type && kept.codecs == array.codecs;
    if !kept.as_ref().is_some_and(is_of) {
        let (data_type, codecs) = (array.data_type.clone(), array.codecs.clone());
        let decoder = Decoder::new(&data_type, &complete_codecs(array, shape))?;
        *kept = Some(Kept { shape: shape.to_vec(), data_type, codecs, decoder });
    }
    kept.as_ref().map(|kept| &kept.decoder).ok_or(ArrayError::TOO_FEW_ELEMENTS)
}
