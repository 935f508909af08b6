//! External layouts: the bytes of a dataset are segments of raw data files.

use std::collections::BTreeMap;
use std::sync::Arc;

use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::ExternalSegment;
use virtualize_zarr::{ChunkManifest, Lengths, References, greatest_common_divisor};

use super::planner::{ChunkPlan, ChunkPlanner};
use crate::hdf5::source_table::SourceTable;
use crate::related::resolve_relative;
use crate::{Error, Result};

/// The layout in error messages.
const EXTERNAL: &str = "external raw data";

/// Most chunks that segments are split into.
const CHUNKS: u64 = 1_000_000;

impl ChunkPlanner<'_> {
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
        let needed = self.stored_bytes(&plan.chunk_shape).ok_or(Error::Overflow("the extent"))?;
        let runs = runs(segments, needed)?;
        let row = self.stored_bytes(plan.chunk_shape.get(1..).unwrap_or_default()).unwrap_or(0);
        // Chunks of equal size, each within one segment.
        let step = runs.iter().fold(0, |step, (_, range)| greatest_common_divisor(step, range.length)).max(1);
        if runs.len() > 1 && (row == 0 || !step.is_multiple_of(row)) {
            let problem = format!("{} segments are not all made of whole rows", runs.len());
            return Err(Error::unsupported(EXTERNAL, problem));
        }
        if needed / step > CHUNKS {
            return Err(Error::Limit { what: "chunks of equal size in external segments", limit: CHUNKS });
        }
        if runs.len() > 1
            && let Some(rows) = plan.chunk_shape.first_mut()
        {
            *rows = step / row;
        }
        let own = &self.context.here.source.url;
        let (mut position, mut sources) = (0, SourceTable::new(own));
        for (file, range) in runs {
            let source = sources.id(&resolve_relative(own, file))?;
            let count = range.length / step;
            plan.chunks.references.push(References {
                source,
                positions: Some((position..position + count).collect::<Vec<_>>().into()),
                offsets: (0..count)
                    .map(|at| range.start.saturating_add(at * step))
                    .collect::<Vec<_>>()
                    .into(),
                lengths: Lengths::Uniform(step),
            });
            position += count;
        }
        plan.chunks = joined(plan.chunks);
        plan.external_files = sources.into_others();
        Ok(plan)
    }
}

/// Returns the used part of each segment, as (file, range); `needed` is the size of the dataset in bytes.
fn runs(segments: &[ExternalSegment], needed: u64) -> Result<Vec<(&str, ByteRange)>> {
    let mut rest = needed;
    let mut runs = Vec::new();
    for segment in segments {
        let length = segment.size.unwrap_or(u64::MAX).min(rest);
        if length > 0 {
            runs.push((segment.file.as_str(), ByteRange::new(segment.offset, length)));
        }
        rest -= length;
    }
    match rest {
        0 => Ok(runs),
        _ => Err(Error::malformed(EXTERNAL, format!("segments lack {rest} of {needed} bytes"))),
    }
}

/// Merges the columns of each source into one.
fn joined(chunks: ChunkManifest) -> ChunkManifest {
    let mut joined = ChunkManifest::default();
    let mut places = BTreeMap::new();
    for column in chunks.references {
        let place = *places.entry(column.source).or_insert(joined.references.len());
        match joined.references.get_mut(place) {
            Some(known) => {
                if let (Some(known), Some(new)) = (&mut known.positions, column.positions) {
                    Arc::make_mut(known).extend(&*new);
                }
                Arc::make_mut(&mut known.offsets).extend(&*column.offsets);
            }
            None => joined.references.push(column),
        }
    }
    joined
}
