//! Explains why the chunks of an array's parts do not form one array.

use super::accumulate::Growing;
use crate::{
    compat::{
        geometry::{Axis, Geometry},
        storage::Misfit,
    },
    error::Problem,
};

/// Returns why the parts of an array cannot be stored as one; arrays of up to `copy_limit` bytes per file are copied.
pub(super) fn explain(
    growing: &Growing<'_>,
    geometry: &Geometry,
    misfit: Misfit,
    copy_limit: u64,
) -> Problem {
    match misfit {
        Misfit::NotRead => Problem::NotRead,
        Misfit::Codecs => {
            let is_other = |n: &u32| growing.pieces.form(*n).is_some_and(|form| !form.layout.fits);
            let other = growing.pieces.iter().find(is_other);
            let url = other.map(|n| growing.url_of(n)).unwrap_or_default();
            Problem::Codecs { url, first: growing.url() }
        }
        Misfit::Chunks => {
            let axes = geometry.axes.iter();
            let growing_axes = axes.filter_map(|axis| Some((axis.own?, axis.dimension?, axis)));
            let mut problems = growing_axes.filter_map(|axis| along(growing, axis, copy_limit));
            problems.next().unwrap_or(Problem::Grid)
        }
    }
}

/// Returns the first part whose chunks do not fit along an axis.
fn along(
    growing: &Growing<'_>,
    (own, dimension, axis): (usize, usize, &Axis),
    copy_limit: u64,
) -> Option<Problem> {
    let name = || axis.name.clone().unwrap_or_else(|| "?".to_owned());
    let pieces = &growing.pieces;
    let layout = |n| pieces.form(n).map(|form| &form.layout);
    let first = pieces.first().and_then(layout).and_then(|first| first.chunk_along(own)).unwrap_or(0);
    pieces.iter().find_map(|n| {
        let place = growing.place_of(n);
        let is_last = place.get(dimension).is_some_and(|n| u64::from(*n) + 1 == axis.sizes.len() as u64);
        let part = layout(n)?;
        let length = part.shape.get(own).copied().unwrap_or(0);
        let chunk = part.chunk_along(own).unwrap_or(0);
        if chunk != first {
            let (url, may_vary) = (growing.url_of(n), chunk == length);
            return Some(Problem::ChunkSizes { axis: name(), url, size: chunk, first, may_vary });
        }
        let is_partial = !is_last && chunk > 0 && length % chunk != 0;
        is_partial.then(|| {
            let url = growing.url_of(n);
            Problem::PartialChunk { axis: name(), url, length, chunk, copy_limit }
        })
    })
}
