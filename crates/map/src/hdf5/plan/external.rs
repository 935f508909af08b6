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
        if !step.is_multiple_of(row) {
            let problem = format!("{} segments are not all made of whole rows", runs.len());
            return Err(Error::unsupported(EXTERNAL, problem));
        }
        if needed / step > CHUNKS {
            return Err(Error::Limit { what: "chunks of equal size in external segments", limit: CHUNKS });
        }
        if let Some(rows) = plan.chunk_shape.first_mut() {
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

#[cfg(test)]
mod tests {
    use virtualize_hdf5::model::Layout;
    use virtualize_zarr::{ChunkGrid, ZarrFormat};

    use super::*;
    use crate::hdf5::tests::{dataset, int, map};

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
            return Err(mapped.report.arrays["v"].left_out.clone().unwrap());
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
        assert!(one.contains("2 segments are not all made of whole rows"), "{one}");
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
