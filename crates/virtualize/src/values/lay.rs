//! Where elements of chunks have their place in an array.

use virtualize_zarr::{Array, ChunkGrid, chunk_indices};

use super::{rank_of, stored_order};
use crate::decode;

/// The places of an array's chunks, in elements.
pub(super) struct Grid {
    /// Size along each axis.
    shape: Vec<u64>,
    /// Chunks along each axis.
    counts: Vec<u64>,
    /// First element of each chunk along each axis.
    starts: Starts,
    /// Axis `i` of stored elements is axis `order[i]` of the array.
    order: Vec<usize>,
}

enum Starts {
    /// So many elements from one chunk to the next.
    Even(Vec<u64>),
    Each(Vec<Vec<u64>>),
}

impl Grid {
    /// The grid of an array that has at most so many bytes.
    pub(super) fn of(array: &Array, most: u64) -> Result<Self, String> {
        let (shape, rank) = (array.shape.clone(), array.shape.len());
        if rank_of(&array.chunk_grid) != rank {
            return Err(format!("{rank} axes, and a chunk grid of {}", rank_of(&array.chunk_grid)));
        }
        within(array, &shape, most, "it")?;
        let starts = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => Starts::Even(chunk.clone()),
            ChunkGrid::Rectilinear(edges) => Starts::Each(edges.iter().map(|sizes| starts(sizes)).collect()),
        };
        let counts = array.chunk_grid.counts(&shape);
        Ok(Self { counts, starts, order: stored_order(&array.codecs, rank)?, shape })
    }

    /// All elements, each with the same bytes.
    pub(super) fn filled(&self, element: &[u8]) -> Result<Vec<u8>, String> {
        let count = decode::count(&self.shape).and_then(|count| usize::try_from(count).ok());
        Ok(element.repeat(count.ok_or("too many elements")?))
    }

    /// Shape of the chunk at a position.
    pub(super) fn chunk(&self, array: &Array, position: u64, most: u64) -> Result<Vec<u64>, String> {
        let outside = || format!("position {position} lies outside a grid of {:?} chunks", self.counts);
        if decode::count(&self.counts).is_some_and(|count| position >= count) {
            return Err(outside());
        }
        let shape = decode::chunk_shape(array, position).ok_or_else(outside)?;
        within(array, &shape, most, "a chunk")?;
        Ok(shape)
    }

    /// What is wrong with a chunk.
    pub(super) fn wrong(&self, position: u64, reason: &str) -> String {
        let at: Vec<String> =
            chunk_indices(position, &self.counts).unwrap_or_default().iter().map(u64::to_string).collect();
        format!("chunk {}: {reason}", if at.is_empty() { "0".to_owned() } else { at.join(".") })
    }

    /// Copies the elements of a chunk, in stored order, to their places. What sticks out is left.
    pub(super) fn lay(
        &self,
        whole: &mut [u8],
        position: u64,
        shape: &[u64],
        elements: &[u8],
    ) -> Result<(), String> {
        let size = decode::count(shape).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        if size == 0 || whole.is_empty() {
            return Ok(());
        }
        let element = elements.len() / size;
        let start = self.start(position);
        let extent: Vec<u64> = (self.shape.iter().zip(&start).zip(shape))
            .map(|((size, start), chunk)| size.saturating_sub(*start).min(*chunk))
            .collect();
        let stored = self.strides(shape);
        let target = strides(&self.shape);
        let from = |at: &[u64]| at.iter().zip(&stored).map(|(at, step)| at.saturating_mul(*step)).sum();
        let to = |at: &[u64]| {
            let places = at.iter().zip(&start).map(|(at, start)| at.saturating_add(*start));
            places.zip(&target).map(|(at, step)| at.saturating_mul(*step)).sum()
        };
        // A row is copied at once where its elements lie side by side.
        let run = if stored.last().is_none_or(|step| *step == 1) { extent.last().copied() } else { None };
        let run = run.unwrap_or(1);
        let mut steps = extent.clone();
        if let Some(last) = steps.last_mut().filter(|_| run > 0) {
            *last /= run;
        }
        each(&steps, |at| {
            let at: Vec<u64> = match at.split_last() {
                Some((last, rest)) => rest.iter().copied().chain([last.saturating_mul(run)]).collect(),
                None => Vec::new(),
            };
            copy(whole, to(&at), elements, from(&at), run, element)
                .ok_or_else(|| self.wrong(position, "its elements do not fit its place"))
        })
    }

    fn start(&self, position: u64) -> Vec<u64> {
        let at = chunk_indices(position, &self.counts).unwrap_or_default();
        match &self.starts {
            Starts::Even(chunk) => at.iter().zip(chunk).map(|(at, size)| at.saturating_mul(*size)).collect(),
            Starts::Each(starts) => {
                let start = |(at, starts): (&u64, &Vec<u64>)| {
                    usize::try_from(*at).ok().and_then(|at| starts.get(at)).copied().unwrap_or(u64::MAX)
                };
                at.iter().zip(starts).map(start).collect()
            }
        }
    }

    /// Stored elements from one to the next along each axis of the array.
    fn strides(&self, shape: &[u64]) -> Vec<u64> {
        let stored: Vec<u64> = self.order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
        let mut by_axis = vec![0; shape.len()];
        for (axis, step) in self.order.iter().zip(strides(&stored)) {
            if let Some(place) = by_axis.get_mut(*axis) {
                *place = step;
            }
        }
        by_axis
    }
}

fn starts(sizes: &[u64]) -> Vec<u64> {
    let sum = |sum: &mut u64, size: &u64| {
        let start = *sum;
        *sum = sum.saturating_add(*size);
        Some(start)
    };
    sizes.iter().scan(0, sum).collect()
}

/// Elements from one to the next along each axis, in row-major order.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut step = 1_u64;
    let mut strides: Vec<u64> = Vec::with_capacity(shape.len());
    for size in shape.iter().rev() {
        strides.push(step);
        step = step.saturating_mul(*size);
    }
    strides.reverse();
    strides
}

/// Calls `act` at each index of a shape, in row-major order; once for one without axes.
fn each(shape: &[u64], mut act: impl FnMut(&[u64]) -> Result<(), String>) -> Result<(), String> {
    if shape.contains(&0) {
        return Ok(());
    }
    let mut at = vec![0_u64; shape.len()];
    loop {
        act(&at)?;
        let mut axes = at.iter_mut().zip(shape).rev();
        let moved = axes.any(|(at, size)| {
            *at = at.saturating_add(1);
            if *at < *size {
                return true;
            }
            *at = 0;
            false
        });
        if !moved {
            return Ok(());
        }
    }
}

fn copy(whole: &mut [u8], to: u64, elements: &[u8], from: u64, count: u64, element: usize) -> Option<()> {
    let bytes = |elements: u64| usize::try_from(elements).ok()?.checked_mul(element);
    let (to, from, length) = (bytes(to)?, bytes(from)?, bytes(count)?);
    let target = whole.get_mut(to..to.checked_add(length)?)?;
    target.copy_from_slice(elements.get(from..from.checked_add(length)?)?);
    Some(())
}

/// Refuses what has more bytes than may be held.
fn within(array: &Array, shape: &[u64], most: u64, what: &str) -> Result<(), String> {
    // Elements of variable length are numbered first.
    let size = array.data_type.size().unwrap_or(8).max(1);
    let bytes = decode::count(shape).and_then(|count| count.checked_mul(size));
    match bytes {
        Some(bytes) if bytes <= most => Ok(()),
        Some(bytes) => Err(format!("{what} has {bytes} bytes, and at most {most} are read at once")),
        None => Err(format!("{what} has {shape:?} elements of {}, too many", array.data_type)),
    }
}
