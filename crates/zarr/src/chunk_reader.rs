//! Chunks that are read one after the other, so that the references of a large dataset need not be in memory.

use std::{
    ops::{ControlFlow, Deref},
    sync::Arc,
};

use bytes::Bytes;

use crate::{Array, ChunkEntry, Hierarchy, Reference, Source};

/// The file of a chunk. Chunks of a hierarchy in memory borrow it: a reference count would change for each of millions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceRef<'a> {
    /// A file that outlives the chunk.
    Borrowed(&'a Source),
    /// A file that chunks share.
    Shared(Arc<Source>),
}

impl Deref for SourceRef<'_> {
    type Target = Source;

    fn deref(&self) -> &Source {
        match self {
            Self::Borrowed(source) => source,
            Self::Shared(source) => source,
        }
    }
}

/// A chunk of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk<'a> {
    /// Its encoded bytes.
    Inline(Bytes),
    /// Its location in a file.
    Reference {
        /// The file.
        source: SourceRef<'a>,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

/// Why chunks could not be read.
pub type ChunkReadError = Box<dyn std::error::Error + Send + Sync>;

/// Chunks with their row-major positions in the grid of an array, ascending.
pub type Chunks<'a> = Box<dyn Iterator<Item = Result<(u64, Chunk<'a>), ChunkReadError>> + Send + 'a>;

/// Receives a chunk and its row-major position, and decides whether to continue.
pub type ChunkVisitor<'a> = dyn FnMut(u64, &Chunk<'_>) -> ControlFlow<()> + 'a;

/// Supplies the chunks of a hierarchy.
pub trait ChunkReader: Send {
    /// Returns the chunks of the array at `path` from a position on. Positions without a chunk are omitted.
    ///
    /// # Errors
    /// An array that is not there. Items are errors if a chunk cannot be read; nothing follows such an item.
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError>;

    /// Passes the chunks that [`ChunkReader::chunks`] returns to a function, until it breaks: the fast way for millions of
    /// chunks in memory.
    ///
    /// # Errors
    /// As [`ChunkReader::chunks`], and its first item that is an error.
    fn visit(&mut self, path: &str, start: u64, visit: &mut ChunkVisitor<'_>) -> Result<(), ChunkReadError> {
        for item in self.chunks(path, start)? {
            let (position, chunk) = item?;
            if visit(position, &chunk).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the number of chunks of the array at `path`, inline ones included.
    ///
    /// # Errors
    /// As [`ChunkReader::chunks`].
    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError>;

    /// Makes the checks that need all chunks. Called after the last chunk has been read, before the output becomes visible.
    ///
    /// # Errors
    /// What a reader requires of the chunks together.
    fn finish(&mut self) -> Result<(), ChunkReadError> {
        Ok(())
    }
}

/// Reads the chunks of a hierarchy from its manifests.
pub struct HierarchyChunks<'a>(pub &'a Hierarchy);

impl<'a> HierarchyChunks<'a> {
    /// Returns an entry of the array at `path` with its source.
    #[inline(always)]
    fn chunk(&self, path: &str, position: u64, entry: ChunkEntry<'a>) -> Result<Chunk<'a>, ChunkReadError> {
        let Reference { source, offset, length } = match entry {
            ChunkEntry::Inline(bytes) => return Ok(Chunk::Inline(bytes.clone())),
            ChunkEntry::Reference(reference) => reference,
        };
        let source = self.0.sources.get(source.index()).ok_or_else(|| {
            let (index, sources) = (source.index(), self.0.sources.len());
            format!("array /{path}: chunk {position} refers to source {index} of {sources}")
        })?;
        Ok(Chunk::Reference { source: SourceRef::Borrowed(source), offset, length })
    }
}

impl ChunkReader for HierarchyChunks<'_> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let (array, path) = (array_at(self.0, path)?, path.to_owned());
        let chunks = array.chunks.iter_from(start);
        Ok(Box::new(chunks.map(move |(position, entry)| Ok((position, self.chunk(&path, position, entry)?)))))
    }

    fn visit(&mut self, path: &str, start: u64, visit: &mut ChunkVisitor<'_>) -> Result<(), ChunkReadError> {
        for (position, entry) in array_at(self.0, path)?.chunks.iter_from(start) {
            if visit(position, &self.chunk(path, position, entry)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        Ok(array_at(self.0, path)?.chunks.len())
    }
}

/// Returns the array at a path.
fn array_at<'a>(hierarchy: &'a Hierarchy, path: &str) -> Result<&'a Array, ChunkReadError> {
    Ok(hierarchy.array(path).ok_or_else(|| format!("there is no array {path:?}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ChunkGrid, ChunkManifest, Codec, DataType, Group, Lengths, Node, References, SourceId, ZarrFormat,
    };

    #[test]
    fn chunks_come_in_order_with_their_sources() {
        let column = |source, positions: &[u64], offset| References {
            source: SourceId(source),
            positions: Some(positions.to_vec().into()),
            offsets: vec![offset; positions.len()].into(),
            lengths: Lengths::Uniform(8),
        };
        let array = Array {
            shape: vec![5],
            data_type: DataType::Float64,
            chunk_grid: ChunkGrid::Regular(vec![1]),
            fill_value: None,
            codecs: vec![Codec::Bytes { endian: None }],
            dimension_names: vec![None],
            attributes: serde_json::Map::new(),
            chunks: ChunkManifest {
                references: vec![column(0, &[0, 3], 10), column(1, &[1], 20)],
                inline: [(4, Bytes::from_static(b"12345678"))].into(),
            },
        };
        let children = [("a".to_owned(), Node::Array(Box::new(array)))].into();
        let source = |url: &str| Source { url: url.to_owned(), ..Source::default() };
        let mut hierarchy = Hierarchy::new(ZarrFormat::V2);
        hierarchy.root = Group { children, ..Group::default() };
        hierarchy.sources = vec![source("file:///x"), source("file:///y")];
        let mut reader = HierarchyChunks(&hierarchy);
        let url = |chunk: Chunk<'_>| match chunk {
            Chunk::Inline(_) => "inline".to_owned(),
            Chunk::Reference { source, .. } => source.url.clone(),
        };
        let seen: Vec<(u64, String)> = reader
            .chunks("a", 1)
            .unwrap()
            .map(|item| item.map(|(at, chunk)| (at, url(chunk))).unwrap())
            .collect();
        let expected = [(1, "file:///y"), (3, "file:///x"), (4, "inline")];
        assert_eq!(seen, expected.map(|(at, url)| (at, url.to_owned())));
        let mut visited = Vec::new();
        let visit = &mut |at, chunk: &Chunk<'_>| {
            visited.push((at, url(chunk.clone())));
            if at == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        reader.visit("a", 1, visit).unwrap();
        assert_eq!(visited, seen[..2]);
        assert_eq!(reader.count("a").unwrap(), 4);
        assert!(reader.chunks("b", 0).is_err());
    }
}
