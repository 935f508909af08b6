//! How the chunks of a combined array are stored: the files' own, their parts, or copies of the values.

use std::collections::BTreeMap;

use virtualize::zarr::{Array, ChunkGrid, Codec, greatest_common_divisor};

use super::{
    geometry::{Axis, Geometry},
    role::{Place, is_coordinate},
};
use crate::{
    Layout,
    values::variable::{bytes_of, is_variable},
};

/// How an array is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Storing {
    /// As copies of its values.
    Copied,
    /// As the files' chunks, all of this shape.
    Regular(Vec<u64>),
    /// As slices of the files' chunks, so many elements along this axis of the files' array.
    Cut {
        /// The axis.
        axis: usize,
        /// Elements along it, a divisor of all chunks' and of all files' but the last one's.
        step: u64,
    },
    /// As the files' chunks, whose sizes vary along the axes that grow.
    Varying,
}

/// Most bytes of values that are kept of an array that may be copied. Past it, it is not.
pub(crate) const MOST_KEPT: u64 = 256 << 20;

/// Most chunks that one array is cut into.
const MOST_SLICES: u64 = 20_000_000;

/// What is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Chunk sizes that vary.
    pub(crate) rectilinear: bool,
    /// Bytes of an array in a file that are small enough to be copied.
    pub(crate) inline_limit: u64,
}

/// How the part of an array that is in one file is stored.
pub(crate) trait Laid {
    /// Url of the file.
    fn url(&self) -> &str;
    /// Shape in the file.
    fn shape(&self) -> &[u64];
    /// Chunk shape in the file; nothing where chunk sizes vary.
    fn chunk(&self) -> Option<&[u64]>;
    /// Whether codecs and fill value are those of the first file.
    fn fits(&self) -> bool;
    /// Whether its values were read.
    fn is_read(&self) -> bool;
}

/// An array in all files, as far as its storage goes.
pub(crate) struct Parts<'a, P> {
    /// The first file.
    pub(crate) url: &'a str,
    /// Whether its values are copied in any case.
    pub(crate) always: bool,
    /// Whether chunks are plain elements of a fixed size.
    pub(crate) is_plain: bool,
    /// Its part of each file, by place.
    pub(crate) pieces: &'a BTreeMap<Vec<usize>, P>,
}

/// Whether chunks hold plain elements of a fixed size.
pub(crate) fn is_plain(array: &Array) -> bool {
    matches!(array.codecs.as_slice(), [Codec::Bytes { .. }]) && array.data_type.size().is_some()
}

/// Decides how an array is stored.
///
/// # Errors
/// Why it cannot be, and what to do.
pub(crate) fn decide<P: Laid>(
    growing: &Parts<'_, P>,
    geometry: &Geometry,
    allowed: Allowed,
) -> Result<Storing, String> {
    let read = growing.pieces.values().all(Laid::is_read);
    if growing.always {
        return if read { Ok(Storing::Copied) } else { Err("its values were not read".to_owned()) };
    }
    if let Some(chunk) = regular(growing, geometry) {
        return Ok(Storing::Regular(chunk));
    }
    if read {
        return Ok(Storing::Copied);
    }
    if let Some(other) = growing.pieces.values().find(|piece| !piece.fits()) {
        return Err(format!("codecs or fill value of {} are not those of {}", other.url(), growing.url));
    }
    if allowed.rectilinear && varies_cleanly(growing, geometry) {
        return Ok(Storing::Varying);
    }
    cut(growing, geometry).ok_or_else(|| reason(growing, geometry, allowed))
}

/// The chunk shape that all files share, where each file but the last one along each axis is a whole number of chunks.
fn regular<P: Laid>(growing: &Parts<'_, P>, geometry: &Geometry) -> Option<Vec<u64>> {
    let chunk = growing.pieces.values().next()?.chunk()?;
    let same = growing.pieces.values().all(|piece| piece.fits() && piece.chunk() == Some(chunk));
    let whole = geometry.axes.iter().all(|axis| {
        let size = axis.own.and_then(|own| chunk.get(own)).copied().unwrap_or(1).max(1);
        all_but_last(axis).all(|n| n % size == 0)
    });
    (same && whole).then(|| chunk.to_vec())
}

fn all_but_last(axis: &Axis) -> impl Iterator<Item = u64> + '_ {
    axis.sizes.iter().take(axis.sizes.len().saturating_sub(1)).copied()
}

/// Whether an array is read in any case, to be copied where its chunks do not fit those of other files. What decides is
/// alike in the files of an era, but for their lengths: arrays of up to [`Layout::inline_limit`] bytes a file, except for
/// those whose chunks are single elements along all axes that grow (which fit everywhere) and that are not tiny.
pub(crate) fn may_be_copied(array: &Array, places: &[Place], layout: &Layout) -> bool {
    let grows = |axis: &usize| places.contains(&Place::Axis(*axis));
    if !(0..array.shape.len()).any(|axis| grows(&axis)) {
        return false;
    }
    let single = match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => chunk.iter().enumerate().all(|(axis, n)| *n == 1 || !grows(&axis)),
        ChunkGrid::Rectilinear(_) => false,
    };
    let others = array.shape.iter().enumerate().filter(|(axis, _)| !grows(axis)).map(|(_, n)| *n);
    let tiny = || {
        let step = |size| others.clone().try_fold(size, |all: u64, n| all.checked_mul(n));
        is_variable(&array.data_type)
            || array.data_type.size().and_then(step).is_some_and(|step| step <= TINY)
    };
    bytes_of(array).is_some_and(|size| size <= layout.inline_limit) && (!single || tiny())
}

/// Most bytes of a single element along the axes that grow, in an array of which single elements are read.
const TINY: u64 = 1 << 10;

/// The one axis of the files' array that grows, if there is one only.
fn growing_axis(geometry: &Geometry) -> Option<&Axis> {
    let mut growing = geometry.axes.iter().filter(|axis| axis.own.is_some() && axis.dimension.is_some());
    let axis = growing.next()?;
    growing.next().is_none().then_some(axis)
}

/// Whether chunks hold plain elements, so that a slice along the axis is one run of bytes.
fn is_run<P: Laid>(growing: &Parts<'_, P>, axis: usize) -> bool {
    let slowest = |piece: &P| piece.chunk().is_some_and(|chunk| chunk.iter().take(axis).all(|n| *n == 1));
    growing.is_plain && growing.pieces.values().all(slowest)
}

/// Whether chunks agree along all axes but one of the files' array.
fn agree_but<P: Laid>(growing: &Parts<'_, P>, axis: usize) -> bool {
    let Some(Some(first)) = growing.pieces.values().next().map(Laid::chunk) else {
        return false;
    };
    growing.pieces.values().all(|piece| {
        piece.chunk().is_some_and(|chunk| {
            let mut pairs = chunk.iter().zip(first).enumerate();
            chunk.len() == first.len()
                && chunk.iter().all(|n| *n > 0)
                && pairs.all(|(n, (left, right))| n == axis || left == right)
        })
    })
}

/// The largest slices that all chunks can be cut into.
fn cut<P: Laid>(growing: &Parts<'_, P>, geometry: &Geometry) -> Option<Storing> {
    let axis = growing_axis(geometry)?;
    let own = axis.own?;
    if !is_run(growing, own) || !agree_but(growing, own) {
        return None;
    }
    let chunks = growing.pieces.values().filter_map(|piece| piece.chunk()?.get(own).copied());
    let step = chunks.chain(all_but_last(axis)).fold(0, greatest_common_divisor);
    if step == 0 || axis.total / step > MOST_SLICES {
        return None;
    }
    Some(Storing::Cut { axis: own, step })
}

/// Whether each chunk has, or can be referred to as if it had, the shape that a varying grid gives it.
fn varies_cleanly<P: Laid>(growing: &Parts<'_, P>, geometry: &Geometry) -> bool {
    let Some(axis) = growing_axis(geometry) else { return false };
    let Some(own) = axis.own else { return false };
    let whole = |piece: &P| {
        let (n, chunk) = (piece.shape().get(own), piece.chunk().and_then(|chunk| chunk.get(own)));
        matches!((n, chunk), (Some(n), Some(chunk)) if *chunk > 0 && n % chunk == 0)
    };
    let others_whole = geometry.axes.iter().all(|other| {
        let size = |own| growing.pieces.values().next().and_then(|piece| piece.chunk()?.get(own).copied());
        other
            .own
            .is_none_or(|at| at == own || size(at).is_some_and(|size| size > 0 && other.total % size == 0))
    });
    let plain = is_run(growing, own);
    agree_but(growing, own)
        && others_whole
        && growing.pieces.values().all(|piece| piece.fits() && (plain || whole(piece)))
}

fn reason<P: Laid>(growing: &Parts<'_, P>, geometry: &Geometry, allowed: Allowed) -> String {
    let grows = geometry.axes.iter().filter_map(|axis| Some((axis.own?, axis.dimension?, axis)));
    for (own, dimension, axis) in grows {
        let name = axis.name.as_deref().unwrap_or("?");
        let size = |piece: &P| piece.chunk().and_then(|chunk| chunk.get(own).copied());
        let first = growing.pieces.values().next().and_then(size).unwrap_or(0);
        for (key, piece) in growing.pieces {
            let last = key.get(dimension).is_some_and(|n| n + 1 == axis.sizes.len());
            let (n, chunk) = (piece.shape().get(own).copied().unwrap_or(0), size(piece).unwrap_or(0));
            if chunk != first {
                let hint =
                    if chunk == n { "--chunk-grid rectilinear can say so" } else { "write the files anew" };
                return format!(
                    "chunks of {chunk} elements along {name} in {}, and of {first} before; {hint}",
                    piece.url()
                );
            }
            if !last && chunk > 0 && n % chunk != 0 {
                return format!(
                    "{n} elements along {name} in {} are no whole number of chunks, which have {chunk}, and only the \
                     last file may end within a chunk; arrays of up to --copy-limit bytes a file (now {}) are copied, \
                     larger ones must be left out or the files be written anew",
                    piece.url(),
                    allowed.inline_limit
                );
            }
        }
    }
    "its chunks cannot stand beside each other".to_owned()
}

/// Whether an array's values are copied into the references in any case.
pub(crate) fn is_copied(path: &str, array: &Array, places: &[Place], related: bool) -> bool {
    let grows = places.iter().any(|place| matches!(place, Place::Axis(_)));
    places.iter().any(|place| matches!(place, Place::Repeated | Place::Coordinate))
        || (grows && (related || is_coordinate(path, array)) && bytes_of(array).is_some())
}
