//! Compact and contiguous layouts, and the splitting of contiguous data along its slowest axis
//! ([`MapOptions::split_contiguous`](crate::MapOptions::split_contiguous)).

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_zarr::{ChunkManifest, DataType, Lengths, References, SourceId};

use super::planner::{ChunkPlan, ChunkPlanner};
use crate::hdf5::heap::holds_pointers;
use crate::split::{Contiguous, SHORTER, Split};
use crate::{Error, PieceBytes, Result};

impl ChunkPlanner<'_> {
    /// Plans a compact layout: its bytes are in the object header, and become an inlined chunk.
    ///
    /// # Errors
    /// The layout has fewer bytes than the extent needs.
    pub(super) fn compact(&self, bytes: &Bytes) -> Result<ChunkPlan> {
        let mut plan = self.one_missing_chunk();
        if self.is_empty() {
            return Ok(plan);
        }
        let needed = self.stored_bytes(&plan.chunk_shape).and_then(|n| usize::try_from(n).ok());
        let stored = needed.and_then(|needed| bytes.get(..needed)).ok_or_else(|| {
            let (found, needed) = (bytes.len(), needed.unwrap_or(usize::MAX));
            Error::malformed("compact layout", format!("{found} bytes, its extent needs {needed}"))
        })?;
        if self.element.data_type == DataType::String || holds_pointers(&self.dataset.datatype) {
            plan.inline_reason = self.must_be_made().map(str::to_owned);
            let here = PieceBytes::Here(bytes.slice_ref(stored));
            plan.inline.push((0, self.content_of(&plan.chunk_shape, here, Vec::new())));
            return Ok(plan);
        }
        let size = self.element.data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let chunk = match self.element.is_stored_as_it_is() {
            true => bytes.slice_ref(stored),
            false => {
                let converted = self.element.transform.apply(stored, size);
                let problem = || Error::malformed("compact layout", "elements that cannot be converted");
                converted.ok_or_else(problem)?.into()
            }
        };
        plan.chunks.inline.insert(0, chunk);
        Ok(plan)
    }

    /// Plans a contiguous layout, stored in `range`.
    ///
    /// # Errors
    /// The range is shorter than the extent, or past the end of the file; or the array has to be made and exceeds the inline
    /// limit.
    pub(super) fn contiguous(&self, range: ByteRange) -> Result<ChunkPlan> {
        let mut plan = self.one_missing_chunk();
        if self.is_empty() {
            return Ok(plan);
        }
        let needed = self.stored_bytes(&plan.chunk_shape).ok_or(Error::Overflow("the extent"))?;
        if range.length < needed {
            let problem = format!("{range} is shorter than the {needed} bytes of its extent");
            return Err(Error::malformed("contiguous layout", problem));
        }
        let range = ByteRange::new(range.start, needed);
        self.check_end(range.end())?;
        if let Some(why) = self.must_be_made() {
            self.check_limit(1, &plan.chunk_shape, why)?;
            plan.inline.push((0, self.content(&plan.chunk_shape, range, Vec::new())));
            plan.inline_reason = Some(why.to_owned());
            return Ok(plan);
        }
        if let Some(split) = self.options.split_contiguous.and_then(|most| self.split(range, most)) {
            return Ok(split);
        }
        plan.chunks = ChunkManifest::of(References {
            source: SourceId(0),
            positions: None,
            offsets: vec![range.start].into(),
            lengths: Lengths::Uniform(needed),
        });
        Ok(plan)
    }

    /// Plans chunks of at most `most` bytes in a range that stores the whole array. Returns `None` if there is nothing to
    /// split.
    fn split(&self, range: ByteRange, most: u64) -> Option<ChunkPlan> {
        let contiguous = Contiguous {
            range,
            shape: self.shape,
            element: self.element.stored_size,
            transform: &self.element.transform,
            background: self.background_bytes(),
        };
        let Split { chunk_shape, references, last } = contiguous.split(most, self.options.inline_limit)?;
        let inline_reason = last.is_some().then(|| SHORTER.to_owned());
        let inline = last.into_iter().collect();
        let chunks = ChunkManifest::of(references);
        Some(ChunkPlan { chunk_shape, chunks, inline, inline_reason, ..self.one_missing_chunk() })
    }
}

#[cfg(test)]
mod tests {
    use virtualize_zarr::{ChunkGrid, Reference};

    use super::*;
    use crate::hdf5::map_file;
    use crate::hdf5::tests::{dataset, file, int};
    use crate::{ChunkContent, MapOptions, Mapped};

    fn mapped(shape: &[u64], most: u64, inline_limit: u64) -> Mapped {
        let options = MapOptions { split_contiguous: Some(most), inline_limit, ..MapOptions::default() };
        let source = virtualize_zarr::Source { url: "file:///a.h5".to_owned(), ..Default::default() };
        map_file(&file(vec![("x", dataset(int(4, true), shape))]), source, &options)
    }

    fn chunks(mapped: &Mapped) -> (ChunkGrid, Vec<(u64, u64)>) {
        let array = mapped.hierarchy.array("x").unwrap();
        let all = array.chunks.references.iter().flat_map(References::iter);
        let place = |(_, Reference { offset, length, .. })| (offset, length);
        (array.chunk_grid.clone(), all.map(place).collect())
    }

    #[test]
    fn a_divisor_is_taken_where_it_is_large_enough() {
        let (grid, places) = chunks(&mapped(&[12, 5], 100, 1 << 20));
        assert_eq!(grid, ChunkGrid::Regular(vec![4, 5]));
        assert_eq!(places, [(4096, 80), (4176, 80), (4256, 80)]);
    }

    #[test]
    fn else_the_last_chunk_is_made_with_the_rest_filled_up() {
        let mapped = mapped(&[1, 7, 5], 60, 1 << 20);
        let (grid, places) = chunks(&mapped);
        assert_eq!(grid, ChunkGrid::Regular(vec![1, 3, 5]));
        assert_eq!(places, [(4096, 60), (4156, 60)]);
        let [task] = mapped.tasks.as_slice() else { panic!("{:?}", mapped.tasks) };
        let ChunkContent::Assemble { shape, pieces, .. } = &task.content else { panic!("{task:?}") };
        assert_eq!((task.positions.as_slice(), shape.as_slice()), (&[2][..], &[1, 3, 5][..]));
        assert_eq!(pieces[0].bytes, PieceBytes::At(ByteRange::new(4216, 20)));
        assert_eq!(pieces[0].extent, [1, 1, 5]);
    }

    #[test]
    fn past_the_inline_limit_the_largest_divisor_is_taken() {
        let (grid, places) = chunks(&mapped(&[7, 5], 60, 10));
        assert_eq!(grid, ChunkGrid::Regular(vec![1, 5]));
        assert_eq!(places.len(), 7);
    }

    #[test]
    fn one_slice_at_least_and_nothing_to_cut() {
        assert_eq!(chunks(&mapped(&[3, 5], 1, 1 << 20)).1.len(), 3);
        assert_eq!(chunks(&mapped(&[3, 5], 60, 1 << 20)).1, [(4096, 60)]);
        assert_eq!(chunks(&mapped(&[1, 1], 1, 1 << 20)).1, [(4096, 4)]);
    }
}
