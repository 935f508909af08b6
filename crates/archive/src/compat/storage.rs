//! Decides how a combined array is stored: as the files' own chunks, as slices of them, or as copies of the values.

use virtualize::zarr::greatest_common_divisor;

use super::geometry::{Axis, Geometry};

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

/// How the part of an array in a file is stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ChunkLayout {
    /// Shape in the file.
    pub(crate) shape: Vec<u64>,
    /// Chunk shape in the file; `None` if chunk sizes vary.
    pub(crate) chunk: Option<Vec<u64>>,
    /// Whether codecs and fill value are those of the first file.
    pub(crate) fits: bool,
    /// Whether its values were read, so that they can be copied.
    pub(crate) is_read: bool,
}

/// An array of all files, as far as storage is concerned.
#[derive(Debug)]
pub(crate) struct ArrayParts<'a> {
    /// Whether its values are always copied.
    pub(crate) always_copied: bool,
    /// Whether chunks are plain elements of a fixed size.
    pub(crate) is_plain: bool,
    /// How the parts are stored: each layout that occurs, at least once; that of the first part first.
    pub(crate) layouts: Vec<&'a ChunkLayout>,
}

/// Why parts cannot be stored as one array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misfit {
    /// Values that have to be copied were not read.
    NotRead,
    /// Codecs or fill values differ.
    Codecs,
    /// The chunks cannot form one grid.
    Chunks,
}

impl ChunkLayout {
    /// Returns the chunk size along an axis.
    pub(crate) fn chunk_along(&self, axis: usize) -> Option<u64> {
        self.chunk.as_ref()?.get(axis).copied()
    }
}

impl ArrayParts<'_> {
    /// Decides how the array is stored; chunk sizes may vary if `rectilinear`.
    ///
    /// # Errors
    /// Parts that cannot be stored as one array.
    pub(crate) fn storage(&self, geometry: &Geometry, rectilinear: bool) -> Result<Storage, Misfit> {
        let is_read = self.all(|part| part.is_read);
        if self.always_copied {
            return if is_read { Ok(Storage::Copied) } else { Err(Misfit::NotRead) };
        }
        if let Some(chunk) = self.regular(geometry) {
            return Ok(Storage::Regular(chunk));
        }
        if is_read {
            return Ok(Storage::Copied);
        }
        if !self.all(|part| part.fits) {
            return Err(Misfit::Codecs);
        }
        if rectilinear && self.fits_rectilinear(geometry) {
            return Ok(Storage::Rectilinear);
        }
        self.sliced(geometry).ok_or(Misfit::Chunks)
    }

    fn all(&self, is: impl Fn(&ChunkLayout) -> bool) -> bool {
        self.layouts.iter().all(|part| is(part))
    }

    fn first(&self) -> Option<&ChunkLayout> {
        self.layouts.first().copied()
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
        let chunks = self.layouts.iter().filter_map(|part| part.chunk_along(own));
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
        let is_whole = |part: &ChunkLayout| {
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
