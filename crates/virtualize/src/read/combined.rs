//! Reads arrays that consist of segments: each segment is read from its group, and its elements are converted.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use tokio::runtime::Handle;
use virtualize_zarr::{Array, ChunkGrid};

use super::{
    ArrayReader, AxisSelection, ChunkAddress, Selection, batches,
    place::{background, variable_fill},
    selection,
};
use crate::{
    error::{ArrayError, Error},
    segments::{CombinedArray, Part},
    sources::lock,
};

/// Maximum number of segments that are read at once.
const MAX_THREADS: usize = 8;

/// The part of a selection that is in one segment.
struct Job<'a> {
    part: &'a Part,
    /// Elements of the array of the group.
    selection: Selection,
    /// Where they are along the axis of the result.
    places: Vec<usize>,
}

/// A result in row-major order, divided at the axis of the segments.
struct Layout {
    /// Number of rows before the axis.
    outer: usize,
    /// Number of places along the axis.
    places: usize,
    /// Number of elements after it.
    inner: usize,
}

impl Layout {
    fn of(selection: &Selection, axis: usize) -> Result<Self, ArrayError> {
        let lengths = selection.lengths()?;
        let axis = if matches!(selection, Selection::Points(_)) { 0 } else { axis };
        let product = |lengths: Option<&[usize]>| lengths.unwrap_or_default().iter().product();
        Ok(Self {
            outer: product(lengths.get(..axis)),
            places: lengths.get(axis).copied().unwrap_or(1),
            inner: product(lengths.get(axis + 1..)),
        })
    }

    /// Copies the values of a job to their places in the result: `size` items for each element.
    fn place<T: Clone>(
        &self,
        job: &Job<'_>,
        values: &[T],
        size: usize,
        out: &mut [T],
    ) -> Result<(), ArrayError> {
        let row = self.inner * size;
        for (n, values) in values.chunks_exact(row.max(1)).enumerate() {
            let (outer, at) = (n / job.places.len(), n % job.places.len());
            let start = job.places.get(at).map(|place| (outer * self.places + place) * row);
            let slot = start.and_then(|start| out.get_mut(start..start + row));
            slot.ok_or(ArrayError::TOO_FEW_ELEMENTS)?.clone_from_slice(values);
        }
        Ok(())
    }
}

impl CombinedArray {
    /// Divides a selection, which fits the array, by segments.
    fn jobs(&self, axis: usize, selection: &Selection) -> Vec<Job<'_>> {
        let along = match selection {
            Selection::Axes(axes) => axes.get(axis).cloned(),
            Selection::Points(lists) => lists.get(axis).cloned().map(AxisSelection::Indices),
        };
        match along {
            Some(AxisSelection::Range { start, step, count }) => {
                let jobs = self.parts.iter().filter_map(|part| {
                    // Numbers of the selected indices from one on.
                    let number = |index: u64| index.saturating_sub(start).div_ceil(step.max(1)).min(count);
                    let (first, end) = (number(part.offset), number(part.offset + part.length));
                    if first >= end {
                        return None;
                    }
                    let start = start + step * first - part.offset + part.start;
                    let within = AxisSelection::Range { start, step, count: end - first };
                    let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                    let Selection::Axes(mut axes) = selection.clone() else { return None };
                    *axes.get_mut(axis)? = within;
                    let places = (at(first)..at(end)).collect();
                    Some(Job { part, selection: Selection::Axes(axes), places })
                });
                jobs.collect()
            }
            Some(AxisSelection::Indices(indices)) => {
                let mut by_part: BTreeMap<usize, (Vec<u64>, Vec<usize>)> = BTreeMap::new();
                for (place, index) in indices.into_iter().enumerate() {
                    let n = self.parts.partition_point(|part| part.offset + part.length <= index);
                    let (of_part, places) = by_part.entry(n).or_default();
                    let part = self.parts.get(n);
                    of_part.push(part.map_or(0, |part| index - part.offset + part.start));
                    places.push(place);
                }
                let jobs = by_part.into_iter().filter_map(|(n, (indices, places))| {
                    let selection = match selection {
                        Selection::Axes(axes) => {
                            let mut axes = axes.clone();
                            *axes.get_mut(axis)? = AxisSelection::Indices(indices);
                            Selection::Axes(axes)
                        }
                        Selection::Points(lists) => {
                            let of_part = |list: &Vec<u64>| {
                                places.iter().filter_map(|place| list.get(*place).copied()).collect()
                            };
                            let mut lists: Vec<Vec<u64>> = lists.iter().map(of_part).collect();
                            *lists.get_mut(axis)? = indices;
                            Selection::Points(lists)
                        }
                    };
                    Some(Job { part: self.parts.get(n)?, selection, places })
                });
                jobs.collect()
            }
            None => Vec::new(),
        }
    }
}

impl ArrayReader {
    /// Reads selected elements of an array that consists of segments, as [`ArrayReader::read`] does.
    pub(super) fn read_combined(
        &self,
        path: &str,
        combined: &CombinedArray,
        array: &Array,
        selection: &Selection,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let of_array = |error| self.error(path, error);
        let count = selection.check(&array.shape).map_err(of_array)?;
        let size = array.data_type.size().ok_or_else(|| of_array(ArrayError::VARIABLE_SIZE))?;
        if count.checked_mul(size) != Some(out.len() as u64) {
            let text = format!("a buffer of {} bytes for a selection of {count} elements", out.len());
            return Err(of_array(ArrayError::invalid(text)));
        }
        let Some(axis) = combined.axis else {
            let path = combined.parts.first().and_then(|part| part.path.as_deref());
            return self.read(path.unwrap_or_default(), selection, out);
        };
        let size = usize::try_from(size).unwrap_or(0);
        let layout = Layout::of(selection, axis).map_err(of_array)?;
        let missing = background(array).map_err(of_array)?;
        let jobs = combined.jobs(axis, selection);
        if let [Job { part: Part { path: Some(path), cast: None, .. }, selection, places }] = jobs.as_slice()
            && places.iter().copied().eq(0..layout.places)
        {
            return self.read(path, selection, out);
        }
        let out = Mutex::new(out);
        let work = |job: &Job<'_>| -> Result<(), Error> {
            let values = match (&job.part.path, &job.part.cast) {
                (None, _) => missing.repeat(layout.outer * job.places.len() * layout.inner),
                (Some(path), cast) => {
                    let stored = cast.as_ref().map_or(size, |cast| size_of(&cast.from));
                    let count = layout.outer * job.places.len() * layout.inner;
                    let mut values = vec![0; count * stored];
                    self.read(path, &job.selection, &mut values)?;
                    match cast {
                        None => values,
                        Some(cast) => {
                            let mut converted = vec![0; count * size];
                            cast.apply(&values, &mut converted);
                            converted
                        }
                    }
                }
            };
            layout.place(job, &values, size, &mut lock(&out)).map_err(of_array)
        };
        each(&jobs, work)
    }

    /// Reads selected elements of variable length of an array that consists of segments.
    pub(super) fn read_combined_variable(
        &self,
        path: &str,
        combined: &CombinedArray,
        array: &Array,
        selection: &Selection,
    ) -> Result<Vec<Bytes>, Error> {
        let of_array = |error| self.error(path, error);
        let count = selection.check(&array.shape).map_err(of_array)?;
        let Some(axis) = combined.axis else {
            let path = combined.parts.first().and_then(|part| part.path.as_deref());
            return self.read_variable(path.unwrap_or_default(), selection);
        };
        let layout = Layout::of(selection, axis).map_err(of_array)?;
        let count = usize::try_from(count).map_err(|_| of_array(selection::too_large(&selection.shape())))?;
        let mut all = vec![variable_fill(array); count];
        for job in combined.jobs(axis, selection) {
            let Some(path) = &job.part.path else { continue };
            let values = self.read_variable(path, &job.selection)?;
            layout.place(&job, &values, 1, &mut all).map_err(of_array)?;
        }
        Ok(all)
    }

    /// Returns a decoded chunk of an array that consists of segments, including elements outside the array.
    pub(super) fn combined_chunk(
        &self,
        array: &Array,
        ChunkAddress { path, indices }: &ChunkAddress,
    ) -> Result<Bytes, Error> {
        let of_array = |error| self.error(path, error);
        let ChunkGrid::Regular(shape) = &array.chunk_grid else {
            return Err(of_array(ArrayError::invalid("its chunks differ in shape")));
        };
        batches::position(array, indices).map_err(of_array)?;
        let ranges = indices.iter().zip(shape).zip(&array.shape).map(|((index, chunk), size)| {
            let start = index.saturating_mul(*chunk);
            (start, (*chunk).min(size.saturating_sub(start)))
        });
        let ranges: Vec<(u64, u64)> = ranges.collect();
        let axes = ranges.iter().map(|(start, count)| AxisSelection::Range {
            start: *start,
            step: 1,
            count: *count,
        });
        let selection = Selection::Axes(axes.collect());
        // The places of the elements in the chunk.
        let elements = super::within(array, shape, self.most, "a chunk").and_then(|()| {
            let all = shape.iter().try_fold(1_usize, |all, n| all.checked_mul(usize::try_from(*n).ok()?));
            all.ok_or(ArrayError::TOO_FEW_ELEMENTS)
        });
        let elements = elements.map_err(of_array)?;
        let places = places(shape, &ranges);
        if array.data_type.size().is_none() {
            let values = self.read_variable(path, &selection)?;
            let all = padded(&values, &places, 1, vec![variable_fill(array); elements]).map_err(of_array)?;
            let mut bytes = u32::try_from(elements).unwrap_or(u32::MAX).to_le_bytes().to_vec();
            bytes.extend(super::joined(&all, self.most).map_err(of_array)?);
            return Ok(bytes.into());
        }
        let missing = background(array).map_err(of_array)?;
        let (size, read) = (missing.len(), places.len());
        let mut values = vec![0; read * size];
        self.read(path, &selection, &mut values)?;
        if read == elements {
            return Ok(values.into());
        }
        let chunk = padded(&values, &places, size, missing.repeat(elements));
        chunk.map(Into::into).map_err(of_array)
    }
}

/// Puts values in their places in a chunk: `size` items for each element.
fn padded<T: Clone>(
    values: &[T],
    places: &[usize],
    size: usize,
    mut chunk: Vec<T>,
) -> Result<Vec<T>, ArrayError> {
    for (value, place) in values.chunks_exact(size.max(1)).zip(places) {
        let slot = chunk.get_mut(place * size..(place + 1) * size);
        slot.ok_or(ArrayError::TOO_FEW_ELEMENTS)?.clone_from_slice(value);
    }
    Ok(chunk)
}

fn size_of(data_type: &virtualize_zarr::DataType) -> usize {
    data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
}

/// Returns the row-major places in a chunk of the elements that are inside the array.
fn places(shape: &[u64], ranges: &[(u64, u64)]) -> Vec<usize> {
    let mut places = vec![0_usize];
    for (size, (_, count)) in shape.iter().zip(ranges) {
        let (size, count) = (usize::try_from(*size).unwrap_or(0), usize::try_from(*count).unwrap_or(0));
        places = places.iter().flat_map(|place| (0..count).map(move |n| place * size + n)).collect();
    }
    places
}

/// Does the work on all jobs, several at once.
fn each<'a>(jobs: &[Job<'a>], work: impl Fn(&Job<'a>) -> Result<(), Error> + Sync) -> Result<(), Error> {
    if jobs.len() < 2 {
        return jobs.iter().try_for_each(work);
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let runtime = Handle::try_current().ok();
    let run = || {
        let _entered = runtime.as_ref().map(Handle::enter);
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = work(job) {
                lock(&failed).get_or_insert(error);
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.len().min(MAX_THREADS) {
            // Without a further thread, this one does all the work.
            drop(thread::Builder::new().spawn_scoped(scope, run));
        }
        run();
    });
    failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}
