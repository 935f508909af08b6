//! Padding of variables that are shorter than an unlimited dimension. NetCDF shows them at the length of the dimension, filled
//! beyond their end.

use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Datatype, FillValue as Stored, Layout};
use virtualize_zarr::{ChunkEntry, ChunkGrid, Codec, DataType, FillValue, chunk_indices, chunk_position};

use super::planner::{ChunkPlan, ChunkPlanner, INLINE_CHUNKS, can_encode};
use crate::hdf5::dimensions::AxisDimension;
use crate::{ChunkContent, Error, Result};

/// An array at the lengths of its dimensions.
pub(in crate::hdf5) struct Padded {
    /// Shape of the array, with the axes of an array type.
    pub(in crate::hdf5) shape: Vec<u64>,
    /// What elements beyond the end of the variable read as.
    pub(in crate::hdf5) fill: FillValue,
}

impl ChunkPlanner<'_> {
    /// Pads an array to the lengths of its unlimited dimensions. Returns `None` if it has these lengths.
    ///
    /// Chunks beyond the end of the variable are missing. Chunks in which it ends are made anew, since what HDF5 stores in
    /// them beyond the end is undefined.
    ///
    /// # Errors
    /// The array cannot be padded. The plan is unchanged then.
    pub(in crate::hdf5) fn padded(
        &self,
        plan: &mut ChunkPlan,
        axes: &[AxisDimension],
    ) -> Result<Option<Padded>> {
        let shape = full_shape(self.shape, axes);
        if shape == self.shape {
            return Ok(None);
        }
        // Flattened datasets are compact, and chunked in the file.
        if !matches!(self.dataset.layout, Layout::Chunked(_) | Layout::Compact(_))
            || plan.chunk_shape.len() != shape.len()
        {
            return Err(unsupported("its layout is not chunked"));
        }
        let background = self.background.ok_or_else(|| unsupported("its fill value is no scalar"))?;
        let fill = netcdf_fill(&self.dataset.datatype, &self.element.data_type, &self.dataset.fill.value)
            .unwrap_or_else(|| background.clone());
        if fill != *background && plan.missing_count(self.shape) > 0 {
            return Err(unsupported("its missing chunks and its padding read as different values"));
        }
        let made = ChunkPlanner { background: Some(&fill), ..*self }.last_chunks(plan, &shape)?;
        let grid = |shape: &[u64]| ChunkGrid::Regular(plan.chunk_shape.clone()).counts(shape);
        move_chunks(plan, made, &grid(self.shape), &grid(&shape))?;
        Ok(Some(Padded { shape, fill }))
    }

    /// Returns the chunks in which the variable ends, by their positions before padding.
    fn last_chunks(&self, plan: &ChunkPlan, shape: &[u64]) -> Result<Vec<(u64, ChunkContent)>> {
        let chunk_shape = &plan.chunk_shape;
        let counts = ChunkGrid::Regular(chunk_shape.clone()).counts(self.shape);
        let used = |position| {
            let indices = chunk_indices(position, &counts)?;
            let ends = self.shape.iter().zip(shape).zip(chunk_shape).zip(indices);
            let used = ends.map(|(((own, full), chunk), index)| match own < full {
                true => own.saturating_sub(index.saturating_mul(*chunk)).min(*chunk),
                false => *chunk,
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
            let codecs = plan.codecs.iter().filter(|codec| !is_of_elements(codec));
            let content = self.content(chunk_shape, range, codecs.cloned().collect());
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
        self.check_limit(made.len() as u64, chunk_shape, "the last chunks of a padded array are made anew")?;
        Ok(made)
    }

    /// Restricts a chunk to its first `used` elements along each axis, which belong to the variable.
    fn ended(&self, mut content: ChunkContent, used: &[u64]) -> Result<ChunkContent> {
        let pieces = match &mut content {
            ChunkContent::Assemble { background, pieces, .. } => {
                *background = self.background_bytes();
                pieces
            }
            ChunkContent::Variable { pieces, .. } => pieces,
            _ => return Err(unsupported("its last chunks cannot be taken apart")),
        };
        for piece in &mut *pieces {
            for ((extent, to), used) in piece.extent.iter_mut().zip(&piece.to).zip(used) {
                *extent = (*extent).min(used.saturating_sub(*to));
            }
        }
        pieces.retain(|piece| !piece.extent.contains(&0));
        Ok(content)
    }
}

fn unsupported(problem: &'static str) -> Error {
    Error::unsupported("padding", problem)
}

/// Returns the shape, with the lengths of unlimited dimensions that are greater.
fn full_shape(own: &[u64], axes: &[AxisDimension]) -> Vec<u64> {
    let lengths = axes.iter().map(|axis| axis.length.filter(|_| axis.unlimited));
    let lengths = lengths.chain(std::iter::repeat(None));
    own.iter().zip(lengths).map(|(own, length)| length.unwrap_or(0).max(*own)).collect()
}

/// Moves chunks to their positions in a larger grid, and adds those that were made. `from` and `to` are the numbers of chunks
/// along each axis.
fn move_chunks(plan: &mut ChunkPlan, made: Vec<(u64, ChunkContent)>, from: &[u64], to: &[u64]) -> Result<()> {
    let too_many = || Error::Overflow("the padded chunk grid");
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
    Ok(())
}

/// Returns what netCDF-C reads beyond the end of a variable without a fill value of its own: the default of the type
/// (`NC_FILL_FLOAT` and so on). `None` for other types, and if there is a fill value.
fn netcdf_fill(datatype: &Datatype, data_type: &DataType, stored: &Stored) -> Option<FillValue> {
    if matches!(stored, Stored::User(_)) || !matches!(datatype, Datatype::Integer(_) | Datatype::Float(_)) {
        return None;
    }
    const REAL: f64 = 9.969_209_968_386_869e36;
    let bytes = match data_type {
        DataType::Int8 => (-127_i8).to_le_bytes().to_vec(),
        DataType::UInt8 => u8::MAX.to_le_bytes().to_vec(),
        DataType::Int16 => (-32_767_i16).to_le_bytes().to_vec(),
        DataType::UInt16 => u16::MAX.to_le_bytes().to_vec(),
        DataType::Int32 => (-2_147_483_647_i32).to_le_bytes().to_vec(),
        DataType::UInt32 => u32::MAX.to_le_bytes().to_vec(),
        DataType::Int64 => (i64::MIN + 2).to_le_bytes().to_vec(),
        DataType::UInt64 => (u64::MAX - 1).to_le_bytes().to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "the number is one of 32 bits")]
        DataType::Float32 => (REAL as f32).to_le_bytes().to_vec(),
        DataType::Float64 => REAL.to_le_bytes().to_vec(),
        _ => return None,
    };
    Some(FillValue::Fixed(bytes.into()))
}
/// Whether a codec converts elements, as the transform of a piece does.
fn is_of_elements(codec: &Codec) -> bool {
    match codec {
        Codec::Bytes { .. } => true,
        Codec::Own(codec) => matches!(**codec, Codec::Integers { .. }),
        _ => false,
    }
}
