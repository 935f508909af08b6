//! Fill values of datasets, and the padding of variables that are shorter than their unlimited dimensions.

use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Dataset, Datatype, FillMessage, FillTime, FillValue as Stored, Layout};
use virtualize_zarr::{
    ChunkEntry, ChunkGrid, Codec, DataType, FillValue, chunk_indices, chunk_position, in_byte_order,
};

use super::chunks::{ChunkPlan, ChunkPlanner, INLINE_CHUNKS, can_encode};
use super::datatype::ElementType;
use super::dimensions::AxisDimension;
use crate::cf::netcdf_default_fill;
use crate::{ChunkContent, ElementTransform, Error, PieceBytes, Result};

/// The fill value of a dataset as one element of the array.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DatasetFill {
    /// The value of the message; the type's zero if there is a `problem`.
    pub(super) header: FillValue,
    /// What unallocated elements read as: `header`, or zero where the library never writes it.
    pub(super) unallocated: FillValue,
    /// Why the value of the message is not a scalar of the array's type.
    pub(super) problem: Option<&'static str>,
}

impl DatasetFill {
    /// Decodes the fill value message of a dataset.
    ///
    /// # Errors
    /// The value does not have the size of an element, or cannot be converted to the array's type.
    pub(super) fn of(dataset: &Dataset, element: &ElementType) -> Result<Self> {
        let zero = FillValue::zero(&element.data_type);
        let decoded = decode(&dataset.fill, element)?;
        let problem = decoded.as_ref().err().copied();
        let header = decoded.unwrap_or_else(|_| zero.clone());
        // Virtual datasets read as their fill value whatever its write time is.
        let is_written =
            dataset.fill.write_time != FillTime::Never || matches!(dataset.layout, Layout::Virtual(_));
        let unallocated = if is_written { header.clone() } else { zero };
        Ok(Self { header, unallocated, problem })
    }

    /// Refuses `missing` chunks that read as no scalar of the array's type.
    pub(super) fn check_missing(&self, missing: u64) -> Result<()> {
        match self.problem {
            Some(problem) if missing > 0 => {
                Err(Error::refused(format!("{missing} chunks are missing, and {problem}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns what unallocated elements read as, if a scalar of the array's type equals it.
    pub(super) fn background(&self) -> Option<&FillValue> {
        self.problem.is_none().then_some(&self.unallocated)
    }
}

/// Decodes a message; the inner error is the reason that no scalar equals its value. Undefined values, and the library's
/// default, are the type's zero.
fn decode(message: &FillMessage, element: &ElementType) -> Result<Result<FillValue, &'static str>> {
    let zero = || FillValue::zero(&element.data_type);
    let stored = match &message.value {
        Stored::User(stored) => stored,
        Stored::NetcdfDefault => {
            return Ok(Ok(netcdf_default_fill(&element.data_type).map_or_else(zero, |(_, value)| value)));
        }
        Stored::Undefined | Stored::Default => return Ok(Ok(zero())),
    };
    let items = element.axes.iter().try_fold(1u64, |n, axis| n.checked_mul(*axis));
    let expected = items.and_then(|n| n.checked_mul(element.stored_size));
    if expected != Some(stored.len() as u64) {
        let (found, expected) = (stored.len(), expected.unwrap_or(u64::MAX));
        return Err(malformed(format!("{found} bytes, an element has {expected}")));
    }
    let Some(size) = element.data_type.size().and_then(|size| usize::try_from(size).ok()) else {
        // A pointer into the global heap starts with the length of the text that it points at.
        let is_empty = stored.len() == 16 && stored.iter().take(4).all(|byte| *byte == 0);
        return Ok(if is_empty || stored.iter().all(|byte| *byte == 0) {
            Ok(FillValue::zero(&element.data_type))
        } else {
            Err("its fill value is text in the global heap")
        });
    };
    let inconvertible = || malformed("a value that cannot be converted".to_owned());
    let converted = match (element.transform.apply(stored, size), &element.transform) {
        (Some(converted), _) => converted,
        (None, ElementTransform::Float { .. }) => return Ok(Err("no 64-bit float equals its fill value")),
        (None, _) => return Err(inconvertible()),
    };
    let mut items = converted.chunks_exact(size.max(1));
    let first = items.next().unwrap_or_default();
    if items.any(|item| item != first) {
        return Ok(Err("its fill value differs within the array type"));
    }
    let little = in_byte_order(first, &element.data_type, element.endian).ok_or_else(inconvertible)?;
    Ok(Ok(FillValue::Fixed(little.into())))
}

fn malformed(problem: String) -> Error {
    Error::malformed("fill value message", problem)
}

/// Returns the place that declares the fill value of a dataset, for the report.
pub(super) fn fill_origin(message: &FillMessage, data_type: &DataType) -> String {
    let state = match (&message.value, message.version) {
        (Stored::NetcdfDefault, _) => {
            let name = netcdf_default_fill(data_type).map_or("CHAR", |(name, _)| name);
            return format!("default fill value, NC_FILL_{name}");
        }
        (Stored::User(_), None) => return "fill value of the variable".to_owned(),
        (Stored::User(_), _) => "user-defined",
        (Stored::Undefined, _) => "undefined",
        (Stored::Default, _) => "library default",
    };
    match message.version {
        Some(0) => format!("old fill value message (0x0004), {state}"),
        Some(version) => format!("fill value message, version {version}, {state}"),
        None => format!("no fill value message, {state}"),
    }
}

/// An array at the lengths of its dimensions.
pub(super) struct Padded {
    /// Shape of the array, with the axes of an array type.
    pub(super) shape: Vec<u64>,
    /// What elements beyond the end of the variable read as.
    pub(super) fill: FillValue,
}

impl ChunkPlanner<'_> {
    /// Pads an array to the lengths of its unlimited dimensions. Returns `None` if it has these lengths.
    ///
    /// Chunks beyond the end of the variable are missing. Chunks in which it ends are re-encoded, since what HDF5 stores in
    /// them beyond the end is undefined.
    ///
    /// # Errors
    /// The array cannot be padded. The plan is unchanged then.
    pub(super) fn padded(&self, plan: &mut ChunkPlan, axes: &[AxisDimension]) -> Result<Option<Padded>> {
        let lengths = axes.iter().map(|axis| axis.length.filter(|_| axis.unlimited));
        let lengths = lengths.chain(std::iter::repeat(None));
        let shape: Vec<u64> =
            self.shape.iter().zip(lengths).map(|(own, length)| length.unwrap_or(0).max(*own)).collect();
        if shape == self.shape {
            return Ok(None);
        }
        // Flattened datasets are compact, and chunked in the file.
        if !matches!(self.dataset.layout, Layout::Chunked(_) | Layout::Compact(_))
            || plan.chunk_shape.len() != shape.len()
        {
            return Err(unsupported("its layout is not chunked"));
        }
        let background = self.background.ok_or_else(|| unsupported("its fill value is not a scalar"))?;
        // What netCDF-C reads beyond the end of a variable without a fill value of its own.
        let is_number = matches!(self.dataset.datatype, Datatype::Integer(_) | Datatype::Float(_));
        let is_declared = matches!(self.dataset.fill.value, Stored::User(_));
        let default = netcdf_default_fill(&self.element.data_type).filter(|_| is_number && !is_declared);
        let fill = default.map_or_else(|| background.clone(), |(_, default)| default);
        if fill != *background && plan.missing_count(self.shape) > 0 {
            return Err(unsupported("its missing chunks and its padding read as different values"));
        }
        let made = ChunkPlanner { background: Some(&fill), ..*self }.last_chunks(plan, &shape)?;
        let grid = |shape: &[u64]| ChunkGrid::Regular(plan.chunk_shape.clone()).counts(shape);
        let from = &grid(self.shape);
        let to = &grid(&shape);
        let too_many = || Error::overflow("the padded chunk grid");
        to.iter().try_fold(1_u64, |product, n| product.checked_mul(*n)).ok_or_else(too_many)?;
        let moved = |position: u64| chunk_position(chunk_indices(position, from)?, to);
        let keeps_positions = from.iter().skip(1).eq(to.iter().skip(1));
        if !keeps_positions {
            let mut columns = Vec::with_capacity(plan.chunks.references.len());
            for column in &plan.chunks.references {
                let positions = column.iter().map(|(position, _)| moved(position));
                columns.push(positions.collect::<Option<Vec<u64>>>().ok_or_else(too_many)?);
            }
            for (column, positions) in plan.chunks.references.iter_mut().zip(columns) {
                column.positions = Some(positions.into());
            }
        }
        let mut inline: BTreeMap<u64, ChunkContent> = plan.inline.drain(..).collect();
        inline.extend(made);
        let inline = inline.into_iter().map(|(position, content)| Some((moved(position)?, content)));
        plan.inline = inline.collect::<Option<_>>().ok_or_else(too_many)?;
        Ok(Some(Padded { shape, fill }))
    }

    /// Returns the chunks in which the variable ends, by their positions before padding.
    fn last_chunks(&self, plan: &ChunkPlan, shape: &[u64]) -> Result<Vec<(u64, ChunkContent)>> {
        let chunk_shape = &plan.chunk_shape;
        let counts = ChunkGrid::Regular(chunk_shape.clone()).counts(self.shape);
        let used = |position| {
            let indices = chunk_indices(position, &counts)?;
            let ends = self.shape.iter().zip(shape).zip(chunk_shape).zip(indices);
            let used = ends.map(|(((own, full), chunk), index)| {
                if own < full { own.saturating_sub(index.saturating_mul(*chunk)).min(*chunk) } else { *chunk }
            });
            Some(used.collect()).filter(|used: &Vec<u64>| used != chunk_shape)
        };
        let mut made = Vec::new();
        for (position, content) in &plan.inline {
            if let Some(used) = used(*position) {
                made.push((*position, self.ended(content.clone(), &used)?));
            }
        }
        let inline: BTreeSet<u64> = plan.inline.iter().map(|(at, _)| *at).collect();
        for (position, reference) in plan.chunks.iter().filter(|(position, _)| !inline.contains(position)) {
            let Some(used) = used(position) else { continue };
            let ChunkEntry::Reference(reference) = reference else {
                return Err(unsupported("its last chunk is not stored in a file"));
            };
            let range = ByteRange::new(reference.offset, reference.length);
            let codecs = plan.codecs.iter().filter(|codec| !match codec {
                Codec::Bytes { .. } => true,
                Codec::Own(codec) => matches!(**codec, Codec::Integers { .. }),
                _ => false,
            });
            let content = self.content(chunk_shape, PieceBytes::At(range), codecs.cloned().collect());
            made.push((position, self.ended(content, &used)?));
            if made.len() as u64 > INLINE_CHUNKS {
                break;
            }
        }
        if made.is_empty() {
            return Ok(made);
        }
        if !plan.codecs.iter().all(can_encode) && self.element.data_type != DataType::String {
            return Err(unsupported("its last chunks cannot be encoded again"));
        }
        self.check_limit(made.len() as u64, chunk_shape, "the last chunks of a padded array are re-encoded")?;
        Ok(made)
    }

    /// Restricts a chunk to its first `used` elements along each axis, which belong to the variable.
    fn ended(&self, mut content: ChunkContent, used: &[u64]) -> Result<ChunkContent> {
        if let ChunkContent::Assemble { background, .. } = &mut content {
            *background = self.background_bytes();
        }
        let pieces = content.pieces_mut().ok_or_else(|| unsupported("its last chunks cannot be divided"))?;
        pieces.retain_mut(|piece| piece.clip(used.iter().copied()));
        Ok(content)
    }
}

fn unsupported(problem: &'static str) -> Error {
    Error::unsupported("padding", problem)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use virtualize_zarr::DataType;
    use virtualize_zarr::Endian;

    use super::*;
    use crate::hdf5::tests::dataset;
    use crate::hdf5::tests::int;

    fn fill(value: &[u8]) -> FillMessage {
        let value = Stored::User(Bytes::copy_from_slice(value));
        FillMessage { version: Some(3), write_time: FillTime::Never, allocation_time: 2, value }
    }

    /// File format specification, IV.A.2.d: a sequence of length 0 has no object in the global heap.
    #[test]
    fn text_in_the_global_heap_is_not_a_scalar_unless_it_is_empty() {
        let element = ElementType::plain(DataType::String, Endian::Little, 16);
        let found = |length: u8, address: u8| {
            let stored: Vec<u8> = [[length; 4], [address; 4], [0; 4], [0; 4]].concat();
            decode(&fill(&stored), &element).unwrap().is_ok()
        };
        assert_eq!([found(0, 0), found(0, 9), found(3, 9), found(3, 0)], [true, true, false, false]);
        assert!(decode(&fill(&[1; 16]), &element).unwrap().is_err());
    }

    #[test]
    fn items_of_an_array_type_are_equal_or_no_scalar() {
        let element = ElementType { axes: vec![2], ..ElementType::plain(DataType::UInt8, Endian::Little, 1) };
        let found = |stored: &[u8]| decode(&fill(stored), &element).unwrap();
        assert_eq!(found(&[7, 7]), Ok(FillValue::Fixed(Bytes::from_static(&[7]))));
        assert!(found(&[7, 8]).is_err());
    }

    /// h5py 3.16 on virtual datasets: the fill value, whatever its write time is.
    #[test]
    fn only_virtual_datasets_read_as_a_fill_value_that_is_never_written() {
        let element = ElementType::plain(DataType::UInt8, Endian::Little, 1);
        let unallocated = |layout: Layout| {
            let dataset = Dataset { fill: fill(&[7]), layout, ..dataset(int(1, false), &[2]) };
            DatasetFill::of(&dataset, &element).unwrap().unallocated
        };
        assert_eq!(unallocated(Layout::Virtual(Vec::new())), FillValue::Fixed(Bytes::from_static(&[7])));
        assert_eq!(unallocated(Layout::Contiguous(None)), FillValue::Fixed(Bytes::from_static(&[0])));
    }
}
