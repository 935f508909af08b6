//! Contiguous, compact and external storage, records of NetCDF classic, and data that the file ends before.
//!
//! Records of several variables alternate, so each record of a variable is a chunk. If the records are many and small, the
//! references would be larger than the data, and a reader would need a request for a few bytes: such variables are inlined.
//! The records of a single variable are contiguous. They are chunks too if they are large, so that files with any numbers of
//! records can be joined; small ones form one chunk.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Classic, ExternalSegment, File, Layout, Object};
use virtualize_remedy::{Code, Remedy};
use virtualize_zarr::{
    ChunkManifest, DataType, Lengths, References, ReferencesBuilder, SourceId, greatest_common_divisor,
};

use super::chunks::{ChunkPlan, ChunkPlanner};
use super::heap::holds_pointers;
use super::{Mapper, SourceTable};
use crate::mapped::{chunk_bytes, resolve_relative};
use crate::{ChunkContent, Diagnostic, ElementTransform, Error, Piece, PieceBytes, Result};

/// The layout in error messages.
const EXTERNAL: &str = "external raw data";

/// Maximum number of chunks into which contiguous data or external segments are split.
const CHUNKS: u64 = 1_000_000;

/// Bytes from which the records of a single record variable are chunks.
const LARGE_RECORD: u64 = 64 << 10;

/// Maximum bytes of a small record of one variable.
const SMALL_RECORD: u64 = 256;

/// Minimum number of records of which small ones are inlined.
const MANY_RECORDS: u64 = 1000;

/// Bytes of the file that are read together to inline records.
const BLOCK: u64 = 1 << 20;

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
            plan.inline.push((0, self.content(&plan.chunk_shape, here, Vec::new())));
            return Ok(plan);
        }
        let chunk = if self.element.is_stored_as_it_is() {
            bytes.slice_ref(stored)
        } else {
            let converted = self.element.transform.apply(stored, self.element.size());
            let problem = || Error::malformed("compact layout", "elements that cannot be converted");
            converted.ok_or_else(problem)?.into()
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
        let needed = self.stored_bytes(&plan.chunk_shape).ok_or_else(|| Error::overflow("the extent"))?;
        if range.length < needed {
            let problem = format!("{range} is shorter than the {needed} bytes of its extent");
            return Err(Error::malformed("contiguous layout", problem));
        }
        let range = ByteRange::new(range.start, needed);
        if self.is_cut_off(range) {
            self.cut_off(&mut plan, 0, range)?;
            return Ok(plan);
        }
        self.check_end(range.end())?;
        if let Some(why) = self.must_be_made() {
            self.check_limit(1, &plan.chunk_shape, why)?;
            plan.inline.push((0, self.content(&plan.chunk_shape, PieceBytes::At(range), Vec::new())));
            plan.inline_reason = Some(why.to_owned());
            return Ok(plan);
        }
        if let Some(split) = self.options.split_contiguous.and_then(|most| self.split(range, most)) {
            return Ok(split);
        }
        plan.chunks = all_chunks([range.start], needed);
        Ok(plan)
    }

    /// Splits a range that stores the whole array along the slowest axis, into chunks of at most `most` bytes, but at least one
    /// slice. All chunks of a regular grid have the same number of bytes, so the last one is whole, or inlined and padded
    /// beyond the end of the array. Returns `None` if there is nothing to split.
    fn split(&self, range: ByteRange, most: u64) -> Option<ChunkPlan> {
        let axis = self.shape.iter().position(|n| *n > 1)?;
        let size = *self.shape.get(axis)?;
        let slice = self.stored_bytes(self.shape.get(axis + 1..)?)?;
        let height = height(size, most.checked_div(slice)?, self.options.inline_limit.checked_div(slice)?)?;
        let mut plan = self.one_missing_chunk();
        *plan.chunk_shape.get_mut(axis)? = height;
        let (count, rest, length) = (size / height, size % height, height.checked_mul(slice)?);
        plan.chunks = all_chunks((0..count).map(|chunk| range.start.saturating_add(chunk * length)), length);
        if rest > 0 {
            let mut shape = plan.chunk_shape.clone();
            *shape.get_mut(axis)? = rest;
            let length = rest.saturating_mul(slice);
            let bytes = PieceBytes::At(ByteRange::new(range.end().saturating_sub(length), length));
            let piece = Piece::whole(SourceId(0), bytes, Vec::new(), shape, self.element.transform.clone());
            plan.inline.push((count, self.made_of_pieces(&plan.chunk_shape, vec![piece])));
            plan.inline_reason = Some("the last part of contiguous data is shorter than a chunk".to_owned());
        }
        Some(plan)
    }

    /// Plans an external layout. Several segments become chunks of equal size, each within one segment, so all segments must
    /// consist of whole rows.
    ///
    /// # Errors
    /// Segments do not cover the extent or split rows, or elements have to be converted.
    pub(super) fn external(&self, segments: &[ExternalSegment]) -> Result<ChunkPlan> {
        let mut plan = self.one_missing_chunk();
        if self.is_empty() {
            return Ok(plan);
        }
        if let Some(why) = self.must_be_made() {
            return Err(Error::unsupported(EXTERNAL, why));
        }
        let needed = self.stored_bytes(&plan.chunk_shape).ok_or_else(|| Error::overflow("the extent"))?;
        // The used part of each segment.
        let (mut rest, mut runs) = (needed, Vec::new());
        for segment in segments {
            let length = segment.size.unwrap_or(u64::MAX).min(rest);
            if length > 0 {
                runs.push((segment.file.as_str(), ByteRange::new(segment.offset, length)));
            }
            rest -= length;
        }
        if rest > 0 {
            let problem = format!("segments lack {rest} of {needed} bytes");
            return Err(Error::malformed(EXTERNAL, problem));
        }
        let row = self.stored_bytes(plan.chunk_shape.get(1..).unwrap_or_default()).unwrap_or(0);
        // Chunks of equal size, each within one segment.
        let step = runs.iter().fold(0, |step, (_, range)| greatest_common_divisor(step, range.length)).max(1);
        if !step.is_multiple_of(row) {
            let problem = format!("{} segments, of which some do not contain whole rows", runs.len());
            return Err(Error::unsupported(EXTERNAL, problem));
        }
        if needed / step > CHUNKS {
            return Err(Error::limit("chunks of equal size in external segments", CHUNKS));
        }
        if let Some(rows) = plan.chunk_shape.first_mut() {
            *rows = step / row;
        }
        let own = &self.context.here.source.url;
        let (mut position, mut sources) = (0, SourceTable::new(own));
        let mut columns: BTreeMap<SourceId, ReferencesBuilder> = BTreeMap::new();
        for (file, range) in runs {
            let column = columns.entry(sources.id(&resolve_relative(own, file))?).or_default();
            for start in 0..range.length / step {
                column.push(position, range.start.saturating_add(start * step), step);
                position += 1;
            }
        }
        plan.chunks.references = columns.into_iter().flat_map(|(id, column)| column.finish(id)).collect();
        plan.external_files = sources.into_others();
        Ok(plan)
    }

    /// Plans the records of a variable, of which `first` is the first.
    ///
    /// # Errors
    /// The data end past 64 bits, or the file ends within a chunk that is too large to be inlined.
    pub(super) fn records(&self, first: ByteRange) -> Result<ChunkPlan> {
        let mut plan = self.one_missing_chunk();
        let Some(classic) = self.context.here.file.classic.as_ref().filter(|_| !self.is_empty()) else {
            return Ok(plan);
        };
        let (records, stride, size) = (classic.records, classic.stride, first.length);
        let last = self.file_size().checked_sub(first.start).and_then(|bytes| bytes.checked_sub(size));
        let whole = last.and_then(|bytes| bytes.checked_div(stride));
        let whole = whole.map_or(0, |records| records.saturating_add(1)).min(records);
        let small = self.small_records.filter(|_| size <= SMALL_RECORD && size != stride);
        // Gaps between variables may move records beyond the stride.
        let is_inlined = |section: &u64| {
            first.start.saturating_sub(*section).saturating_add(size) <= stride
                && whole == records
                && size.saturating_mul(records) <= self.options.inline_limit
        };
        if let Some(section) = small.filter(is_inlined) {
            self.inline_records(&mut plan, section, first, classic)?;
            return Ok(plan);
        }
        let all = size.checked_mul(records).map(|length| ByteRange::new(first.start, length));
        let all = all.filter(|all| !self.is_cut_off(*all));
        // The records of a file that ends early are chunks, so that those before its end can be referenced.
        if let Some(all) = all.filter(|_| stride == size && size < LARGE_RECORD) {
            return self.contiguous(all);
        }
        if let Some(rows) = plan.chunk_shape.first_mut() {
            *rows = 1;
        }
        self.context.lookup.take("chunk tables", chunk_bytes(whole, ""))?;
        let start = |record: u64| record.checked_mul(stride)?.checked_add(first.start);
        if whole > 0 {
            plan.chunks = all_chunks((0..whole).filter_map(start), size);
        }
        if whole < records {
            let next = ByteRange::new(start(whole).unwrap_or(u64::MAX), size);
            self.cut_off(&mut plan, whole, next)?;
        } else if small.is_some() {
            let message = format!(
                "{records} records of {size} bytes are a chunk each, which is slow to read: inlining them exceeds the limit of {} bytes",
                self.options.inline_limit
            );
            plan.note = Some(Diagnostic::info(Code::InlineLimit, "", message));
        }
        Ok(plan)
    }

    /// Whether the file is NetCDF classic and ends before the data.
    pub(super) fn is_cut_off(&self, range: ByteRange) -> bool {
        self.context.here.file.classic.is_some() && range.end() > self.file_size()
    }

    /// Adds the chunk at `position`, of which the file contains a part of `range` or nothing. Like netCDF-C, takes zeros for
    /// the bytes past the end of the file.
    pub(super) fn cut_off(&self, plan: &mut ChunkPlan, position: u64, range: ByteRange) -> Result<()> {
        let size = self.file_size();
        let message = format!(
            "the file ends at {size:#x}, before the data of the variable end: the missing bytes read as zero, as in netCDF-C"
        );
        let advice = Remedy::advice("compare its size with the original: the file may be incomplete");
        plan.note = Some(Diagnostic::warning(Code::FileTruncated, "", message).with(advice));
        let stored = range.clamp_to(size);
        if stored.length == 0 {
            return Ok(());
        }
        if range.length > self.options.inline_limit {
            return Err(Error::inline_limit(
                "the file ends within a chunk, which has to be filled with zeros",
                &format!("a chunk of {:?}", plan.chunk_shape),
                self.options.inline_limit,
            ));
        }
        let piece = rows_of(stored, [1, stored.length], [0, 0], 0, stored.length);
        plan.inline.push((position, bytes_of(vec![1, range.length], vec![piece])));
        plan.inline_reason = Some("the file ends within it".to_owned());
        Ok(())
    }

    /// Plans chunks of many records each. The variables of the file share the ranges that are read.
    fn inline_records(
        &self,
        plan: &mut ChunkPlan,
        section: u64,
        first: ByteRange,
        classic: &Classic,
    ) -> Result<()> {
        let (count, stride, size) = (classic.records, classic.stride, first.length);
        let height = (BLOCK / stride.max(1)).clamp(1, count);
        if let Some(rows) = plan.chunk_shape.first_mut() {
            *rows = height;
        }
        let overflow = || Error::overflow("the extent");
        let start = |record: u64| {
            record.checked_mul(stride).and_then(|bytes| bytes.checked_add(section)).ok_or_else(overflow)
        };
        let column = first.start - section;
        for chunk in 0..count.div_ceil(height) {
            let record = chunk * height;
            let rows = height.min(count - record);
            // The last record may be shorter than the stride.
            let whole = if record + rows == count { rows - 1 } else { rows };
            let mut pieces = Vec::new();
            if whole > 0 {
                let length = whole.checked_mul(stride).ok_or_else(overflow)?;
                let range = ByteRange::new(start(record)?, length);
                pieces.push(rows_of(range, [whole, stride], [0, column], 0, size));
            }
            if whole < rows {
                let last = start(record + whole)?.checked_add(column).ok_or_else(overflow)?;
                pieces.push(rows_of(ByteRange::new(last, size), [1, size], [0, 0], whole, size));
            }
            plan.inline.push((chunk, bytes_of(vec![height, size], pieces)));
        }
        plan.inline_reason =
            Some("the records are small and alternate with those of other variables".to_owned());
        Ok(())
    }
}

/// Returns chunks of `length` bytes at these offsets, from the first position on.
fn all_chunks(offsets: impl IntoIterator<Item = u64>, length: u64) -> ChunkManifest {
    ChunkManifest::of(References {
        source: SourceId(0),
        positions: None,
        offsets: Arc::new(offsets.into_iter().collect()),
        lengths: Lengths::Uniform(length),
    })
}

/// Returns the slices of a chunk, of which at most `most` are wanted: the largest divisor of `size` if it is at least half of
/// `most`; else `most`, if a chunk of it may be inlined (at most `inline` slices); else the largest divisor. `None` if the
/// axis is not split.
fn height(size: u64, most: u64, inline: u64) -> Option<u64> {
    let most = most.max(1);
    if most >= size || size.div_ceil(most) > CHUNKS {
        return None;
    }
    let mut counts = size.div_ceil(most)..=CHUNKS.min(size);
    let divisor = counts.find(|chunks| size.is_multiple_of(*chunks)).map(|chunks| size / chunks);
    if divisor.is_none_or(|height| height < most.div_ceil(2)) && most <= inline {
        return Some(most);
    }
    divisor
}

/// Returns the first record of each record variable.
fn first_records(file: &File) -> impl Iterator<Item = ByteRange> {
    file.objects.values().filter_map(|object| match object {
        Object::Dataset(dataset) => match dataset.layout {
            Layout::Records(first) => Some(first),
            _ => None,
        },
        _ => None,
    })
}

/// Returns the start of the record section if the small records of its variables are to be inlined: there are many of them,
/// and they make up at least an eighth of the section, which is read whole.
pub(super) fn small_records(file: &File) -> Option<u64> {
    let classic = file.classic.as_ref()?;
    let sizes = first_records(file).map(|first| first.length).filter(|size| *size <= SMALL_RECORD);
    let small = sizes.fold(0, u64::saturating_add).saturating_mul(8);
    let is_worthwhile = classic.records >= MANY_RECORDS && small >= classic.stride;
    first_records(file).map(|first| first.start).min().filter(|_| is_worthwhile)
}

impl Mapper<'_> {
    /// Reports a file without a number of records that ends within one.
    pub(super) fn report_partial_record(&mut self) {
        let file = self.own.file;
        let Some(classic) = file.classic.as_ref().filter(|classic| classic.is_streamed) else { return };
        let Some(begin) = first_records(file).map(|first| first.start).min() else { return };
        let count = classic.records;
        if self.own.source.size > count.saturating_mul(classic.stride).saturating_add(begin) {
            let message = format!(
                "the header states no number of records, and the file ends within record {count}, which is omitted"
            );
            self.report.warn(Code::FileTruncated, "", message);
        }
    }
}

/// Returns a chunk of rows of bytes, of which the pieces do not cover all.
fn bytes_of(shape: Vec<u64>, pieces: Vec<Piece>) -> ChunkContent {
    ChunkContent::Assemble { shape, background: Bytes::from_static(&[0]), pieces }
}

/// Returns the piece of an inlined chunk that copies `size` bytes from each row of `range`, starting at `from`, to the rows of
/// the chunk from `to` on.
fn rows_of(range: ByteRange, shape: [u64; 2], from: [u64; 2], to: u64, size: u64) -> Piece {
    let [rows, _] = shape;
    let (bytes, shape) = (PieceBytes::At(range), shape.to_vec());
    let whole = Piece::whole(SourceId(0), bytes, Vec::new(), shape, ElementTransform::None);
    Piece { from: from.to_vec(), to: vec![to, 0], extent: vec![rows, size], ..whole }
}

#[cfg(test)]
mod contiguous_tests {
    use virtualize_zarr::ChunkGrid;
    use virtualize_zarr::Reference;

    use super::*;
    use crate::ChunkContent;
    use crate::MapOptions;
    use crate::Mapped;
    use crate::hdf5::map_file;
    use crate::hdf5::tests::dataset;
    use crate::hdf5::tests::file;
    use crate::hdf5::tests::int;

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

#[cfg(test)]
mod height_tests {
    use super::*;

    #[test]
    fn the_largest_divisor_is_the_height_if_it_is_large_enough() {
        assert_eq!((height(12, 5, 0), height(12, 11, 0)), (Some(4), Some(6)));
        assert_eq!((height(36, 6, 0), height(7, 6, 0)), (Some(6), Some(1)));
        assert_eq!(height(1_000_003, 2, 0), None);
        assert_eq!(height(1_000_003, 2, 2), Some(2));
        assert_eq!(height(u64::MAX, 1, 1), None);
        assert_eq!((height(CHUNKS, 1, 0), height(CHUNKS + 1, 1, 0)), (Some(1), None));
        assert_eq!(height(9, 6, 6), Some(3), "half of what is wanted");
        assert_eq!(height(7, 6, 6), Some(6));
    }
}

#[cfg(test)]
mod external_tests {
    use virtualize_hdf5::model::Layout;
    use virtualize_zarr::ChunkGrid;
    use virtualize_zarr::ZarrFormat;

    use super::*;
    use crate::hdf5::tests::dataset;
    use crate::hdf5::tests::int;
    use crate::hdf5::tests::map;

    /// Maps rows of two 16-bit integers. Returns the rows of a chunk and (position, file, offset, length) of each chunk.
    type Found = Result<(u64, Vec<(u64, String, u64, u64)>), String>;

    fn planned(shape: &[u64], segments: &[(&str, u64, Option<u64>)]) -> Found {
        let mut data = dataset(int(2, true), shape);
        let segment = |(file, offset, size): &(&str, u64, Option<u64>)| ExternalSegment {
            file: (*file).to_owned(),
            offset: *offset,
            size: *size,
        };
        data.layout = Layout::External(segments.iter().map(segment).collect());
        let mapped = map(&crate::hdf5::tests::file(vec![("v", data)]), ZarrFormat::V3);
        let Some(array) = mapped.hierarchy.array("v") else {
            return Err(mapped.report.arrays["v"].omitted.clone().unwrap());
        };
        let ChunkGrid::Regular(chunk) = &array.chunk_grid else { panic!() };
        let name = |source: virtualize_zarr::SourceId| {
            mapped.hierarchy.sources[source.index()].url.rsplit('/').next().unwrap().to_owned()
        };
        let all = array.chunks.references.iter().flat_map(|column| column.iter());
        let place = |(at, found): (u64, virtualize_zarr::Reference)| {
            (at, name(found.source), found.offset, found.length)
        };
        let mut places: Vec<_> = all.map(place).collect();
        places.sort();
        let files: std::collections::BTreeSet<_> = places.iter().map(|place| &place.1).collect();
        assert_eq!(mapped.hierarchy.sources.len() - 1, files.len(), "no file without a chunk");
        Ok((chunk[0], places))
    }

    /// Segments follow each other in the order of the list (HDF5 specification, IV.A.2.h).
    #[test]
    fn chunks_are_in_one_segment_each() {
        let at = |at: u64, file: &str, offset: u64, length: u64| (at, file.to_owned(), offset, length);
        let rows = |segments: &[_]| planned(&[4, 2], segments).unwrap();
        assert_eq!(rows(&[("a", 8, None)]), (4, vec![at(0, "a", 8, 16)]));
        assert_eq!(rows(&[("a", 1, Some(99))]), (4, vec![at(0, "a", 1, 16)]));
        let two = (2, vec![at(0, "a", 0, 8), at(1, "b", 16, 8)]);
        assert_eq!(rows(&[("a", 0, Some(8)), ("z", 0, Some(0)), ("b", 16, None), ("y", 0, None)]), two);
        let unequal = [at(0, "a", 0, 4), at(1, "b", 4, 4), at(2, "b", 8, 4), at(3, "a", 12, 4)];
        assert_eq!(rows(&[("a", 0, Some(4)), ("b", 4, Some(8)), ("a", 12, Some(4))]), (1, unequal.to_vec()));
        assert_eq!(planned(&[0, 2], &[]).unwrap().1, []);
        let one = planned(&[4, 2], &[("a", 0, Some(6)), ("b", 0, None)]).unwrap_err();
        assert!(one.contains("2 segments, of which some do not contain whole rows"), "{one}");
        let short = planned(&[4, 2], &[("a", 0, Some(6)), ("b", 0, Some(8))]).unwrap_err();
        assert!(short.contains("segments lack 2 of 16 bytes"), "{short}");
    }

    #[test]
    fn chunks_are_limited() {
        let halves = |rows: u64| planned(&[rows], &[("a", 0, Some(2)), ("b", 0, None)]);
        assert_eq!(halves(CHUNKS).unwrap().1.len() as u64, CHUNKS);
        assert!(halves(CHUNKS + 1).unwrap_err().contains("chunks of equal size in external segments"));
    }
}
