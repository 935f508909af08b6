//! Chunks that are read one after the other, so that the references of a large dataset need not be in memory.

use std::{fmt, ops::ControlFlow, sync::Arc};

use bytes::Bytes;

use crate::{Array, ChunkEntry, Hierarchy, Source};

/// A chunk of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Its encoded bytes.
    Inline(Bytes),
    /// Its location in a file.
    Reference {
        /// The file.
        source: Arc<Source>,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

/// A chunk of an array that its reader owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkRef<'a> {
    /// Its encoded bytes.
    Inline(&'a Bytes),
    /// Its location in a file.
    Reference {
        /// The file.
        source: &'a Arc<Source>,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

impl Chunk {
    /// Returns the chunk without its ownership.
    pub fn as_ref(&self) -> ChunkRef<'_> {
        match self {
            Self::Inline(bytes) => ChunkRef::Inline(bytes),
            Self::Reference { source, offset, length } => {
                ChunkRef::Reference { source, offset: *offset, length: *length }
            }
        }
    }
}

impl ChunkRef<'_> {
    /// Returns the chunk with its ownership.
    pub fn to_chunk(self) -> Chunk {
        match self {
            Self::Inline(bytes) => Chunk::Inline(bytes.clone()),
            Self::Reference { source, offset, length } => {
                Chunk::Reference { source: Arc::clone(source), offset, length }
            }
        }
    }
}

/// Receives a chunk and its row-major position, and decides whether to continue.
pub type ChunkVisitor<'a> = dyn FnMut(u64, ChunkRef<'_>) -> ControlFlow<()> + 'a;

/// Why chunks could not be read.
pub type ChunkReadError = Box<dyn std::error::Error + Send + Sync>;

/// Chunks with their row-major positions in the grid of an array, ascending.
pub type Chunks<'a> = Box<dyn Iterator<Item = Result<(u64, Chunk), ChunkReadError>> + Send + 'a>;

/// Supplies the chunks of a hierarchy.
pub trait ChunkReader: Send {
    /// Returns the chunks of the array at `path` from a position on. Positions without a chunk are omitted.
    ///
    /// # Errors
    /// An array that is not there. Items are errors if a chunk cannot be read; nothing follows such an item.
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError>;

    /// Passes the chunks that [`ChunkReader::chunks`] returns to a function, until it breaks. A reader whose chunks are in
    /// memory need not copy them.
    ///
    /// # Errors
    /// As [`ChunkReader::chunks`], and its first item that is an error.
    fn visit(&mut self, path: &str, start: u64, visit: &mut ChunkVisitor<'_>) -> Result<(), ChunkReadError> {
        for item in self.chunks(path, start)? {
            let (position, chunk) = item?;
            if visit(position, chunk.as_ref()).is_break() {
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
pub struct HierarchyChunks<'a> {
    hierarchy: &'a Hierarchy,
    /// The sources of the chunks that were read so far, by index; empty until a chunk is read.
    sources: Vec<Option<Arc<Source>>>,
}

impl<'a> HierarchyChunks<'a> {
    /// Creates a reader of a hierarchy's chunks.
    pub fn new(hierarchy: &'a Hierarchy) -> Self {
        Self { hierarchy, sources: Vec::new() }
    }
}

/// Returns the array at a path.
fn array_at<'a>(hierarchy: &'a Hierarchy, path: &str) -> Result<&'a Array, ChunkReadError> {
    Ok(hierarchy.array(path).ok_or_else(|| format!("there is no array {path:?}"))?)
}

/// Returns an entry with its source, which is copied when it is first needed.
#[inline(always)]
fn chunk_ref<'a>(
    hierarchy: &Hierarchy,
    sources: &'a mut [Option<Arc<Source>>],
    path: &str,
    (position, entry): (u64, ChunkEntry<'a>),
) -> Result<ChunkRef<'a>, ChunkReadError> {
    let reference = match entry {
        ChunkEntry::Inline(bytes) => return Ok(ChunkRef::Inline(bytes)),
        ChunkEntry::Reference(reference) => reference,
    };
    let index = reference.source.index();
    let source = match (sources.get_mut(index), hierarchy.sources.get(index)) {
        (Some(Some(known)), _) => known,
        (Some(unknown), Some(source)) => unknown.insert(Arc::new(source.clone())),
        _ => {
            let sources = hierarchy.sources.len();
            return Err(
                format!("array /{path}: chunk {position} refers to source {index} of {sources}").into()
            );
        }
    };
    Ok(ChunkRef::Reference { source, offset: reference.offset, length: reference.length })
}

impl ChunkReader for HierarchyChunks<'_> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        self.sources.resize(self.hierarchy.sources.len(), None);
        let (hierarchy, sources) = (self.hierarchy, &mut self.sources);
        let (array, path) = (array_at(hierarchy, path)?, path.to_owned());
        Ok(Box::new(array.chunks.iter_from(start).map(move |(position, entry)| {
            Ok((position, chunk_ref(hierarchy, sources, &path, (position, entry))?.to_chunk()))
        })))
    }

    fn visit(&mut self, path: &str, start: u64, visit: &mut ChunkVisitor<'_>) -> Result<(), ChunkReadError> {
        self.sources.resize(self.hierarchy.sources.len(), None);
        let (hierarchy, sources) = (self.hierarchy, &mut self.sources);
        let array = array_at(hierarchy, path)?;
        for (position, entry) in array.chunks.iter_from(start) {
            if visit(position, chunk_ref(hierarchy, sources, path, (position, entry))?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        Ok(array_at(self.hierarchy, path)?.chunks.len())
    }
}

// The readers whose compatibility is known ([`crate::readers`]).

/// A released reader of Zarr.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reader {
    /// zarr-python, over fsspec's reference filesystem.
    ZarrPython,
    /// The Rust crate zarrs, with its codecs for blosc, bz2, fletcher32, gzip, transpose, zlib and zstd.
    Zarrs,
    /// zarrita.js, over its reference store.
    Zarrita,
    /// GDAL's Zarr driver, as raster: numbers of one dimension and more.
    Gdal,
    /// zarr-python with this project's Python package, which brings numcodecs and registers codecs of its own.
    Virtualize,
}

/// A package or setting that a reader needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// numcodecs' codecs for Zarr v3, which zarr-python depends on.
    Numcodecs,
    /// The package `imagecodecs`, with its codecs registered.
    Imagecodecs,
    /// The package `cast-value-rs`.
    CastValueRs,
    /// zarr-python's setting `array.rectilinear_chunks`.
    RectilinearChunks,
    /// A JavaScript engine with `Float16Array`.
    Float16Array,
}

impl Reader {
    /// All readers.
    pub const ALL: [Self; 5] = [Self::ZarrPython, Self::Zarrs, Self::Zarrita, Self::Gdal, Self::Virtualize];

    /// Returns the usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZarrPython => "zarr-python",
            Self::Zarrs => "zarrs",
            Self::Zarrita => "zarrita",
            Self::Gdal => "gdal",
            Self::Virtualize => "virtualize",
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Need {
    /// All packages and settings.
    pub const ALL: [Self; 5] =
        [Self::Numcodecs, Self::Imagecodecs, Self::CastValueRs, Self::RectilinearChunks, Self::Float16Array];

    /// Returns the name of the package or setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Numcodecs => "numcodecs",
            Self::Imagecodecs => "imagecodecs",
            Self::CastValueRs => "cast-value-rs",
            Self::RectilinearChunks => "array.rectilinear_chunks",
            Self::Float16Array => "Float16Array",
        }
    }
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
        let mut reader = HierarchyChunks::new(&hierarchy);
        let url = |chunk: Chunk| match chunk {
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
        let visit = &mut |at, chunk: ChunkRef<'_>| {
            visited.push((at, url(chunk.to_chunk())));
            if at == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        reader.visit("a", 1, visit).unwrap();
        assert_eq!(visited, seen[..2]);
        assert_eq!(reader.count("a").unwrap(), 4);
        assert!(reader.chunks("b", 0).is_err());
    }
}
