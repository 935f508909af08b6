//! Decides how a combined array is stored: as the files' own chunks, as slices of them, or as copies of the values.

use std::{borrow::Cow, collections::BTreeMap};

use virtualize::zarr::greatest_common_divisor;

use super::geometry::{Axis, Geometry};
use crate::error::Problem;

/// How a combined array is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// As copies of its values.
    Copied,
    /// As the files' chunks, all of this shape.
    Regular(Vec<u64>),
    /// As slices of the files' chunks along one axis.
    Sliced {
        /// Axis of the files' array.
        axis: usize,
        /// Elements of a slice along it: a divisor of all chunk sizes, and of the lengths of all files but the last.
        step: u64,
    },
    /// As the files' chunks, whose sizes vary along the axes that grow.
    Rectilinear,
}

/// Maximum number of slices of one array.
const MAX_SLICES: u64 = 20_000_000;

/// Options that restrict the choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageOptions {
    /// Whether chunk sizes may vary.
    pub(crate) rectilinear: bool,
    /// Maximum size of an array in a file, in bytes, that is copied; named in errors.
    pub(crate) inline_limit: u64,
}

/// How the part of an array in one file is stored.
#[derive(Clone, Debug)]
pub(crate) struct ChunkLayout<'a> {
    /// The file.
    pub(crate) url: &'a str,
    /// Shape in the file.
    pub(crate) shape: Cow<'a, [u64]>,
    /// Chunk shape in the file; `None` if chunk sizes vary.
    pub(crate) chunk: Option<Cow<'a, [u64]>>,
    /// Whether codecs and fill value are those of the first file.
    pub(crate) fits: bool,
    /// Whether its values were read, so that they can be copied.
    pub(crate) is_read: bool,
}

/// An array of all files, as far as storage is concerned.
#[derive(Debug)]
pub(crate) struct ArrayParts<'a> {
    /// The first file.
    pub(crate) url: &'a str,
    /// Whether its values are always copied.
    pub(crate) always_copied: bool,
    /// Whether chunks are plain elements of a fixed size.
    pub(crate) is_plain: bool,
    /// The part of each file, by the file's place along each dimension.
    pub(crate) parts: BTreeMap<Vec<usize>, ChunkLayout<'a>>,
}

impl ChunkLayout<'_> {
    fn chunk_along(&self, axis: usize) -> Option<u64> {
        self.chunk.as_ref()?.get(axis).copied()
    }
}

impl ArrayParts<'_> {
    /// Decides how the array is stored.
    ///
    /// # Errors
    /// Values that have to be copied and were not read; chunks that cannot form one grid.
    pub(crate) fn storage(&self, geometry: &Geometry, options: StorageOptions) -> Result<Storage, Problem> {
        let is_read = self.all(|part| part.is_read);
        if self.always_copied {
            return if is_read { Ok(Storage::Copied) } else { Err(Problem::NotRead) };
        }
        if let Some(chunk) = self.regular(geometry) {
            return Ok(Storage::Regular(chunk));
        }
        if is_read {
            return Ok(Storage::Copied);
        }
        if let Some(other) = self.parts.values().find(|part| !part.fits) {
            return Err(Problem::Codecs { url: other.url.to_owned(), first: self.url.to_owned() });
        }
        if options.rectilinear && self.fits_rectilinear(geometry) {
            return Ok(Storage::Rectilinear);
        }
        self.sliced(geometry).ok_or_else(|| self.problem(geometry, options))
    }

    fn all(&self, is: impl Fn(&ChunkLayout<'_>) -> bool) -> bool {
        self.parts.values().all(is)
    }

    fn first(&self) -> Option<&ChunkLayout<'_>> {
        self.parts.values().next()
    }

    /// Returns the chunk shape that all files share, if each file but the last along each axis is a whole number of chunks.
    fn regular(&self, geometry: &Geometry) -> Option<Vec<u64>> {
        let chunk = self.first()?.chunk.as_deref()?;
        let is_same = self.all(|part| part.fits && part.chunk.as_deref() == Some(chunk));
        let is_whole = geometry.axes.iter().all(|axis| {
            let size = axis.own.and_then(|own| chunk.get(own)).copied().unwrap_or(1).max(1);
            all_but_last(axis).all(|n| n % size == 0)
        });
        (is_same && is_whole).then(|| chunk.to_vec())
    }

    /// Returns whether chunks hold plain elements, so that a slice along the axis is one run of bytes.
    fn is_run(&self, axis: usize) -> bool {
        let is_slowest = |chunk: &[u64]| chunk.iter().take(axis).all(|n| *n == 1);
        self.is_plain && self.all(|part| part.chunk.as_deref().is_some_and(is_slowest))
    }

    /// Returns whether chunks agree along all axes but one of the files' array.
    fn agree_except(&self, axis: usize) -> bool {
        let Some(first) = self.first().and_then(|part| part.chunk.as_deref()) else { return false };
        self.all(|part| {
            part.chunk.as_ref().is_some_and(|chunk| {
                let mut pairs = chunk.iter().zip(first).enumerate();
                chunk.len() == first.len()
                    && chunk.iter().all(|n| *n > 0)
                    && pairs.all(|(n, (left, right))| n == axis || left == right)
            })
        })
    }

    /// Returns the largest slices into which all chunks can be divided.
    fn sliced(&self, geometry: &Geometry) -> Option<Storage> {
        let axis = growing_axis(geometry)?;
        let own = axis.own?;
        if !self.is_run(own) || !self.agree_except(own) {
            return None;
        }
        let chunks = self.parts.values().filter_map(|part| part.chunk_along(own));
        let step = chunks.chain(all_but_last(axis)).fold(0, greatest_common_divisor);
        if step == 0 || axis.total / step > MAX_SLICES {
            return None;
        }
        Some(Storage::Sliced { axis: own, step })
    }

    /// Returns whether each chunk has the shape that a varying grid gives it, or can be referred to as if it had.
    fn fits_rectilinear(&self, geometry: &Geometry) -> bool {
        let Some((axis, own)) = growing_axis(geometry).and_then(|axis| Some((axis, axis.own?))) else {
            return false;
        };
        let is_whole = |part: &ChunkLayout<'_>| {
            let sizes = part.shape.get(own).zip(part.chunk_along(own));
            sizes.is_some_and(|(n, chunk)| chunk > 0 && n % chunk == 0)
        };
        let size = |own| self.first().and_then(|part| part.chunk_along(own));
        let is_divided = |other: &Axis| {
            let is_along =
                |at| at == own || size(at).is_some_and(|size| size > 0 && other.total.is_multiple_of(size));
            other.own.is_none_or(is_along)
        };
        let is_run = axis.own.is_some_and(|own| self.is_run(own));
        self.agree_except(own)
            && geometry.axes.iter().all(is_divided)
            && self.all(|part| part.fits && (is_run || is_whole(part)))
    }

    /// Returns why the files' chunks do not fit each other.
    fn problem(&self, geometry: &Geometry, options: StorageOptions) -> Problem {
        let growing = geometry.axes.iter().filter_map(|axis| Some((axis.own?, axis.dimension?, axis)));
        for (own, dimension, axis) in growing {
            let name = axis.name.clone().unwrap_or_else(|| "?".to_owned());
            let first = self.first().and_then(|part| part.chunk_along(own)).unwrap_or(0);
            for (at, part) in &self.parts {
                let is_last = at.get(dimension).is_some_and(|n| n + 1 == axis.sizes.len());
                let length = part.shape.get(own).copied().unwrap_or(0);
                let chunk = part.chunk_along(own).unwrap_or(0);
                let url = part.url.to_owned();
                if chunk != first {
                    let may_vary = chunk == length;
                    return Problem::ChunkSizes { axis: name, url, size: chunk, first, may_vary };
                }
                if !is_last && chunk > 0 && length % chunk != 0 {
                    let copy_limit = options.inline_limit;
                    return Problem::PartialChunk { axis: name, url, length, chunk, copy_limit };
                }
            }
        }
        Problem::Grid
    }
}

fn all_but_last(axis: &Axis) -> impl Iterator<Item = u64> + '_ {
    axis.sizes.iter().take(axis.sizes.len().saturating_sub(1)).copied()
}

/// Returns the axis of the files' array that grows, if there is only one.
fn growing_axis(geometry: &Geometry) -> Option<&Axis> {
    let mut growing = geometry.axes.iter().filter(|axis| axis.own.is_some() && axis.dimension.is_some());
    let axis = growing.next()?;
    growing.next().is_none().then_some(axis)
}
