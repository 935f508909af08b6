//! `<dmrpp:chunks>`: filters, fill value, and the table of chunks.
//!
//! ```xml
//! <dmrpp:chunks compressionType="shuffle deflate" deflateLevel="4" fillValue="-1" byteOrder="LE">
//!   <dmrpp:chunkDimensionSizes>10 20</dmrpp:chunkDimensionSizes>
//!   <dmrpp:chunk offset="4016" nBytes="143" chunkPositionInArray="[0,20]"/>
//! </dmrpp:chunks>
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{ByteOrder, ChunkIndexKind, ChunkSizes, ChunkTable, Chunked, Filter, Layout};

use crate::xml::{Element, Xml};
use crate::{Error, Result};

/// Identifiers of the filters in HDF5.
const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;

/// The content of the element.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// Names of the filters, in the order in which a writer applies them.
    compression: String,
    levels: String,
    pub(crate) fill_value: Option<String>,
    pub(crate) byte_order: Option<ByteOrder>,
    /// Chunk shape in elements; `None` for contiguous data.
    chunk_shape: Option<Vec<u64>>,
    /// Number of chunks along each axis.
    grid: Vec<u64>,
    chunks: Vec<Chunk>,
    masks: BTreeMap<u64, u32>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Chunk {
    /// Row-major position in the grid; 0 for contiguous data.
    position: u64,
    offset: u64,
    size: u64,
}

impl Chunks {
    /// Reads the element. `shape` is that of the variable, `end` the size of the data file.
    pub(crate) fn read(xml: &mut Xml<'_>, start: &Element<'_>, shape: &[u64], end: u64) -> Result<Self> {
        let mut chunks = Self::default();
        start.each_attribute(|name, value| {
            match name {
                "compressionType" => chunks.compression = value.to_owned(),
                "deflateLevel" => chunks.levels = value.to_owned(),
                "fillValue" => chunks.fill_value = Some(value.to_owned()),
                "byteOrder" if value == "LE" => chunks.byte_order = Some(ByteOrder::Little),
                "byteOrder" if value == "BE" => chunks.byte_order = Some(ByteOrder::Big),
                "byteOrder" => return Err(Error::new(format!("byteOrder \"{value}\", expected LE or BE"))),
                "DIO" => {}
                _ => return Err(Error::new(format!("attribute {name}"))),
            }
            Ok(())
        })?;
        while let Some(child) = xml.child()? {
            match child.name().as_str() {
                "dmrpp:chunk" => {
                    xml.hold("chunk tables", 24)?;
                    xml.chunks = xml.chunks.saturating_add(1);
                    if xml.chunks > xml.limits.chunks {
                        return Err(Error::new(format!("more than {} chunks", xml.limits.chunks)));
                    }
                    chunks.add(&child, end)?;
                    xml.skip()?;
                }
                "dmrpp:chunkDimensionSizes" => {
                    let text = xml.text()?;
                    if chunks.chunk_shape.is_some() || !chunks.chunks.is_empty() {
                        return Err(Error::new("chunkDimensionSizes twice or after a chunk"));
                    }
                    let sizes = text.split_ascii_whitespace();
                    let sizes = sizes.map(|size| size.parse().ok().filter(|size| *size > 0));
                    let sizes: Option<Vec<u64>> = sizes.collect();
                    let sizes = sizes.filter(|sizes| sizes.len() == shape.len() && !sizes.is_empty());
                    let invalid = || {
                        let rank = shape.len();
                        Error::new(format!("chunkDimensionSizes \"{text}\", expected {rank} numbers from 1"))
                    };
                    let sizes = sizes.ok_or_else(invalid)?;
                    chunks.grid = shape.iter().zip(&sizes).map(|(axis, size)| axis.div_ceil(*size)).collect();
                    chunks.chunk_shape = Some(sizes);
                }
                name => return Err(Error::new(format!("element {name}"))),
            }
        }
        Ok(chunks)
    }

    /// Adds a chunk.
    fn add(&mut self, element: &Element<'_>, end: u64) -> Result<()> {
        let (mut offset, mut size, mut position, mut mask) = (None, None, None, 0);
        element.each_attribute(|name, value| {
            let number = || {
                let problem = || Error::new(format!("{name} \"{value}\", expected a number"));
                value.parse::<u64>().map_err(|_| problem())
            };
            match name {
                "offset" => offset = Some(number()?),
                "nBytes" => size = Some(number()?),
                "chunkPositionInArray" => {
                    let problem = format!("{name} \"{value}\", expected the first element of a chunk");
                    position = Some(self.position(value).ok_or_else(|| Error::new(problem))?);
                }
                "fm" => mask = u32::try_from(number()?).unwrap_or(u32::MAX),
                _ => return Err(Error::new(format!("chunk with the attribute {name}"))),
            }
            Ok(())
        })?;
        let (Some(offset), Some(size)) = (offset, size) else {
            return Err(Error::new("chunk without offset or nBytes"));
        };
        if offset.checked_add(size).is_none_or(|last| last > end) {
            let problem =
                format!("chunk of {size} bytes at {offset}, beyond the {end} bytes of the data file");
            return Err(Error::new(problem));
        }
        if position.is_none() && (self.chunk_shape.is_some() || !self.chunks.is_empty()) {
            return Err(Error::new("chunk without chunkPositionInArray"));
        }
        let position = position.unwrap_or(0);
        if mask != 0 {
            self.masks.insert(position, mask);
        }
        self.chunks.push(Chunk { position, offset, size });
        Ok(())
    }

    /// Returns the row-major position of the chunk at an element, such as `[0,20]`.
    fn position(&self, text: &str) -> Option<u64> {
        let mut axes = self.chunk_shape.as_ref()?.iter().zip(&self.grid);
        let mut position = 0_u64;
        for start in text.strip_prefix('[')?.strip_suffix(']')?.split(',') {
            let (size, count) = axes.next()?;
            let start: u64 = start.trim().parse().ok()?;
            let index =
                start.checked_div(*size).filter(|index| index < count && start.is_multiple_of(*size))?;
            position = position.checked_mul(*count)?.checked_add(index)?;
        }
        axes.next().is_none().then_some(position)
    }

    /// Returns the filters of a variable whose elements have `size` bytes.
    pub(crate) fn filters(&self, size: u64) -> Result<Vec<Filter>> {
        let mut levels = self.levels.split_ascii_whitespace();
        let filters = self.compression.split_ascii_whitespace().map(|name| {
            let (id, parameters) = match name {
                "deflate" => {
                    let level = levels.next().ok_or_else(|| Error::new("no deflateLevel"))?;
                    let level = level.parse().ok().filter(|level| *level <= 9);
                    (DEFLATE, vec![level.ok_or_else(|| Error::new("deflateLevel, expected 0 to 9"))?])
                }
                "shuffle" => (SHUFFLE, vec![u32::try_from(size).unwrap_or(u32::MAX)]),
                "fletcher32" => (FLETCHER32, Vec::new()),
                _ => return Err(Error::new(format!("filter {name}"))),
            };
            Ok(Filter { id, name: None, optional: id != FLETCHER32, parameters })
        });
        let filters = filters.collect::<Result<Vec<_>>>()?;
        if self.chunk_shape.is_none() && !filters.is_empty() {
            return Err(Error::new("filters without chunkDimensionSizes"));
        }
        Ok(filters)
    }

    /// Returns the layout of a variable of `bytes` bytes (`None` for more than 64 bits can count) whose elements have `size`
    /// bytes.
    pub(crate) fn layout(mut self, size: u64, bytes: Option<u64>, filters: &[Filter]) -> Result<Layout> {
        let Some(chunk_shape) = self.chunk_shape else {
            let range = self.chunks.first().map(|chunk| ByteRange::new(chunk.offset, chunk.size));
            let Some(ByteRange { length, .. }) = range.filter(|range| Some(range.length) != bytes) else {
                return Ok(Layout::Contiguous(range));
            };
            let expected = bytes.map_or("fewer".to_owned(), |bytes| bytes.to_string());
            return Err(Error::new(format!("{length} bytes of contiguous data, expected {expected}")));
        };
        let too_large = || Error::new("chunks that are too large or too many");
        let product =
            |first: u64, factors: &[u64]| factors.iter().try_fold(first, |all, n| all.checked_mul(*n));
        let bytes = product(size, &chunk_shape).ok_or_else(too_large)?;
        let total = product(1, &self.grid).ok_or_else(too_large)?;
        // Old sidecars lack the masks of filters that were skipped, so a chunk that deflate did not change in size is not
        // trusted.
        let is_deflated = filters.iter().any(|filter| filter.id == DEFLATE);
        let checksums = filters.iter().filter(|filter| filter.id == FLETCHER32).count() as u64;
        let with_checksums = bytes.saturating_add(checksums.saturating_mul(4));
        for Chunk { size, .. } in self.chunks.iter().filter(|_| self.masks.is_empty()) {
            if is_deflated && (*size == bytes || *size == with_checksums) {
                return Err(Error::new(format!("chunk of {size} bytes may not be compressed")));
            } else if !is_deflated && *size != with_checksums {
                return Err(Error::new(format!("chunk of {size} bytes, expected {with_checksums}")));
            }
        }
        self.chunks.sort_unstable();
        if self.chunks.array_windows().any(|[one, other]| one.position == other.position) {
            return Err(Error::new("two chunks at one place"));
        }
        let column = |value: fn(&Chunk) -> u64| Arc::new(self.chunks.iter().map(value).collect::<Vec<_>>());
        let sizes = match filters {
            [] => ChunkSizes::Uniform(bytes),
            _ => {
                let sizes = self.chunks.iter().map(|chunk| u32::try_from(chunk.size).ok());
                ChunkSizes::Each(Arc::new(sizes.collect::<Option<_>>().ok_or_else(too_large)?))
            }
        };
        let chunks = ChunkTable {
            positions: (self.chunks.len() as u64 != total).then(|| column(|chunk| chunk.position)),
            addresses: column(|chunk| chunk.offset),
            sizes,
            grid: self.grid,
            filter_masks: if filters.is_empty() { BTreeMap::new() } else { self.masks },
        };
        let index = ChunkIndexKind::BTree1;
        Ok(Layout::Chunked(Chunked { chunk_shape, index, unfiltered_edges: false, chunks }))
    }
}
