//! The chunks of a combined dataset.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use virtualize::zarr::{
    Chunk, ChunkManifest, ChunkReadError, ChunkReader, Chunks, Hierarchy, NodePath, ReferencesBuilder,
    Source, SourceId, node,
};

use super::{
    placing::{Placing, chunk_of},
    regions::{RegionSizes, Regions, read_part},
};
use crate::{
    error::{CombineError, Problem},
    file::{FileChunks, Members},
};

/// Where the chunks of a combined array are.
#[derive(Debug)]
pub(super) enum ArrayChunks<'a> {
    /// Inline.
    Inline(BTreeMap<u64, Bytes>),
    /// Those of one file.
    OfFile {
        /// The file's row.
        row: u64,
        /// Path of the array in the file.
        path: NodePath,
        /// Their number.
        count: u64,
    },
    /// Those of all files.
    Placed(Box<Placing<'a>>),
}

/// Where the chunks of a combined hierarchy are, by array.
#[derive(Debug, Default)]
pub(crate) struct ChunkPlaces<'a>(BTreeMap<NodePath, ArrayChunks<'a>>);

impl<'a> ChunkPlaces<'a> {
    /// Adds an array.
    pub(super) fn insert(&mut self, path: &str, chunks: ArrayChunks<'a>) {
        self.0.insert(path.to_owned(), chunks);
    }

    /// Adds the arrays of a hierarchy that becomes a group.
    pub(crate) fn graft(&mut self, group: &str, others: Self) {
        self.0.extend(others.0.into_iter().map(|(path, chunks)| (node::join(group, &path), chunks)));
    }
}

/// Reads the chunks of a combined hierarchy from its files.
pub(crate) struct JoinedChunks<'a, M> {
    members: M,
    places: ChunkPlaces<'a>,
    sizes: RegionSizes,
}

impl<'a, M> JoinedChunks<'a, M> {
    /// Creates a reader of chunks at the places that [`super::combine`] returned for the same files.
    pub(crate) fn new(members: M, places: ChunkPlaces<'a>) -> Self {
        Self { members, places, sizes: RegionSizes::DEFAULT }
    }

    /// Sets the sizes of regions.
    #[cfg(test)]
    pub(super) fn with_sizes(self, sizes: RegionSizes) -> Self {
        Self { sizes, ..self }
    }
}

impl<M: Members> ChunkReader for JoinedChunks<'_, M>
where
    M::Error: Into<ChunkReadError>,
{
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let Self { members, places, sizes } = self;
        match places.0.get(path).ok_or_else(|| absent(path))? {
            ArrayChunks::Inline(chunks) => {
                let chunks = chunks.range(start..);
                Ok(Box::new(chunks.map(|(position, bytes)| Ok((*position, Chunk::Inline(bytes.clone()))))))
            }
            ArrayChunks::OfFile { row, path, .. } => {
                let FileChunks { chunks, sources } = members.chunks(*row, path).map_err(Into::into)?;
                let chunks = chunks.iter_from(start);
                let all = chunks.map(|(position, entry)| Ok((position, chunk_of(&entry, &sources)?)));
                match all.collect::<Result<Vec<_>, Problem>>() {
                    Ok(all) => Ok(Box::new(all.into_iter().map(Ok))),
                    Err(problem) => {
                        let url = members.head(*row).map_err(Into::into)?.item.url;
                        Err(CombineError::array(url, path, problem).into())
                    }
                }
            }
            ArrayChunks::Placed(placing) => Ok(Box::new(Regions::new(members, placing, start, *sizes))),
        }
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        match self.places.0.get(path).ok_or_else(|| absent(path))? {
            ArrayChunks::Inline(chunks) => Ok(chunks.len() as u64),
            ArrayChunks::OfFile { count, .. } => Ok(*count),
            ArrayChunks::Placed(placing) => match placing.count() {
                Some(count) => Ok(count),
                None => count_slices(&mut self.members, placing),
            },
        }
    }
}

fn absent(path: &str) -> ChunkReadError {
    format!("there is no array {path:?}").into()
}

/// Counts the slices of chunks of which some are missing.
fn count_slices<M: Members>(members: &mut M, placing: &Placing<'_>) -> Result<u64, ChunkReadError>
where
    M::Error: Into<ChunkReadError>,
{
    let mut all = 0_u64;
    for part in (0..).map_while(|n| placing.part(n)) {
        let count = match placing.count_of(part) {
            Some(count) => count,
            None => placing.count_slices(part, &read_part(members, placing, part)?.chunks),
        };
        all = all.saturating_add(count);
    }
    Ok(all)
}

/// Returns a hierarchy with all chunks that a reader supplies, for those who need them in memory.
pub(crate) fn collect(
    mut hierarchy: Hierarchy,
    reader: &mut dyn ChunkReader,
) -> Result<Hierarchy, ChunkReadError> {
    let paths: Vec<NodePath> = hierarchy.arrays().into_iter().map(|(path, _)| path).collect();
    let mut sources = Sources::default();
    for path in paths {
        let mut columns: BTreeMap<SourceId, ReferencesBuilder> = BTreeMap::new();
        let mut manifest = ChunkManifest::default();
        for item in reader.chunks(&path, 0)? {
            match item? {
                (position, Chunk::Inline(bytes)) => {
                    manifest.inline.insert(position, bytes);
                }
                (position, Chunk::Reference { source, offset, length }) => {
                    columns.entry(sources.id(&source)).or_default().push(position, offset, length);
                }
            }
        }
        manifest.references = columns.into_iter().flat_map(|(id, column)| column.finish(id)).collect();
        if let Some(array) = hierarchy.array_mut(&path) {
            array.chunks = manifest;
        }
    }
    hierarchy.sources = sources.all;
    Ok(hierarchy)
}

type SourceKey = (String, Option<String>, u64, Option<i64>);

/// Distinct sources.
#[derive(Default)]
struct Sources {
    all: Vec<Source>,
    ids: HashMap<SourceKey, SourceId>,
}

impl Sources {
    fn id(&mut self, source: &Source) -> SourceId {
        let key = (source.url.clone(), source.etag.clone(), source.size, source.modified);
        *self.ids.entry(key).or_insert_with(|| {
            self.all.push(source.clone());
            SourceId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
        })
    }
}
