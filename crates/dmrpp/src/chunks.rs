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

use virtualize_hdf5::model::{ByteOrder, ChunkSizes, ChunkTable, Filter};

use crate::error::Problem;
use crate::xml::{Element, Xml};

/// Deflate's number among the filters of HDF5.
const DEFLATE: u16 = 1;
/// Shuffle's number.
const SHUFFLE: u16 = 2;
/// The number of Fletcher-32.
const FLETCHER32: u16 = 3;

/// The content of the element.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// Names of the filters, in the order in which a writer applies them.
    compression: String,
    levels: Option<String>,
    pub(crate) fill_value: Option<String>,
    pub(crate) byte_order: Option<ByteOrder>,
    /// Chunk shape in elements; `None` for contiguous data.
    pub(crate) chunk_shape: Option<Vec<u64>>,
    /// Number of chunks along each axis.
    grid: Vec<u64>,
    /// Row-major positions, ascending or not.
    positions: Vec<u64>,
    offsets: Vec<u64>,
    sizes: Vec<u64>,
    masks: BTreeMap<u64, u32>,
}

/// Attributes of one `<dmrpp:chunk>`.
#[derive(Default)]
struct Chunk {
    offset: Option<u64>,
    size: Option<u64>,
    position: Option<u64>,
    mask: u32,
}

impl Chunks {
    /// Reads the element. `shape` is that of the variable, `end` the size of the data file.
    pub(crate) fn read(
        xml: &mut Xml<'_>,
        start: &Element<'_>,
        shape: &[u64],
        end: u64,
    ) -> Result<Self, Problem> {
        let mut chunks = Self::default();
        start.each_attribute(|name, _| chunks.attribute(name, start))?;
        while let Some(child) = xml.child()? {
            if child.is("dmrpp:chunk") {
                xml.count_chunk()?;
                let chunk = chunks.parse(&child)?;
                chunks.push(&chunk, end)?;
                xml.skip()?;
            } else if child.is("dmrpp:chunkDimensionSizes") {
                let text = xml.text()?;
                let invalid = || {
                    let problem =
                        format!("chunkDimensionSizes \"{text}\", expected {} numbers from 1", shape.len());
                    Problem::malformed(problem)
                };
                let sizes: Option<Vec<u64>> = text
                    .split_ascii_whitespace()
                    .map(|size| size.parse().ok().filter(|size| *size > 0))
                    .collect();
                let sizes = sizes
                    .filter(|sizes| sizes.len() == shape.len() && !sizes.is_empty())
                    .ok_or_else(invalid)?;
                if chunks.chunk_shape.is_some() || !chunks.offsets.is_empty() {
                    return Err(Problem::malformed("chunkDimensionSizes twice or after a chunk"));
                }
                chunks.grid = shape.iter().zip(&sizes).map(|(axis, size)| axis.div_ceil(*size)).collect();
                chunks.chunk_shape = Some(sizes);
            } else {
                return Err(Problem::incomplete(format!("element {}", child.name())));
            }
        }
        Ok(chunks)
    }

    fn attribute(&mut self, name: &str, start: &Element<'_>) -> Result<(), Problem> {
        let value = start.required(name)?;
        match name {
            "compressionType" => self.compression = value,
            "deflateLevel" => self.levels = Some(value),
            "fillValue" => self.fill_value = Some(value),
            "byteOrder" => {
                self.byte_order = Some(match value.as_str() {
                    "LE" => ByteOrder::Little,
                    "BE" => ByteOrder::Big,
                    _ => return Err(Problem::malformed(format!("byteOrder \"{value}\", expected LE or BE"))),
                });
            }
            "DIO" => {}
            _ => return Err(Problem::incomplete(format!("attribute {name}"))),
        }
        Ok(())
    }

    #[inline]
    fn parse(&self, element: &Element<'_>) -> Result<Chunk, Problem> {
        let mut chunk = Chunk::default();
        element.each_attribute(|name, value| {
            let number = || {
                let problem = || Problem::malformed(format!("{name} \"{value}\", expected a number"));
                value.parse::<u64>().map_err(|_| problem())
            };
            match name {
                "offset" => chunk.offset = Some(number()?),
                "nBytes" => chunk.size = Some(number()?),
                "chunkPositionInArray" => chunk.position = Some(self.position(value)?),
                "fm" => chunk.mask = u32::try_from(number()?).unwrap_or(u32::MAX),
                _ => return Err(Problem::incomplete(format!("chunk with the attribute {name}"))),
            }
            Ok(())
        })?;
        Ok(chunk)
    }

    /// Returns the row-major position of the chunk at an element, such as `[0,20]`.
    #[inline]
    fn position(&self, text: &str) -> Result<u64, Problem> {
        let invalid = || {
            let problem = format!("chunkPositionInArray \"{text}\", expected the first element of a chunk");
            Problem::malformed(problem)
        };
        let chunk_shape = self.chunk_shape.as_deref().unwrap_or_default();
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(invalid)?;
        let (mut axes, mut position) = (chunk_shape.iter().zip(&self.grid), 0_u64);
        for start in inner.split(',') {
            let (size, count) = axes.next().ok_or_else(invalid)?;
            let start: u64 = start.trim().parse().map_err(|_| invalid())?;
            let index = start.checked_div(*size).filter(|index| index < count).ok_or_else(invalid)?;
            if index.checked_mul(*size) != Some(start) {
                return Err(invalid());
            }
            let row = position.checked_mul(*count).and_then(|row| row.checked_add(index));
            position = row.ok_or_else(invalid)?;
        }
        if axes.next().is_some() { Err(invalid()) } else { Ok(position) }
    }

    fn push(&mut self, chunk: &Chunk, end: u64) -> Result<(), Problem> {
        let (Some(offset), Some(size)) = (chunk.offset, chunk.size) else {
            return Err(Problem::malformed("chunk without offset or nBytes"));
        };
        if offset.checked_add(size).is_none_or(|last| last > end) {
            let problem =
                format!("chunk of {size} bytes at {offset}, beyond the {end} bytes of the data file");
            return Err(Problem::incomplete(problem));
        }
        match (chunk.position, &self.chunk_shape) {
            (Some(position), Some(_)) => self.positions.push(position),
            (None, None) if self.offsets.is_empty() => {}
            (None, _) => return Err(Problem::malformed("chunk without chunkPositionInArray")),
            (Some(_), None) => return Err(Problem::malformed("chunk before chunkDimensionSizes")),
        }
        if let (Some(position), true) = (chunk.position, chunk.mask != 0) {
            self.masks.insert(position, chunk.mask);
        }
        self.offsets.push(offset);
        self.sizes.push(size);
        Ok(())
    }

    /// Returns the filters of a variable whose elements have `size` bytes.
    pub(crate) fn filters(&self, size: u64) -> Result<Vec<Filter>, Problem> {
        let mut levels = self.levels.as_deref().unwrap_or_default().split_ascii_whitespace();
        let filters = self.compression.split_ascii_whitespace().map(|name| {
            let (id, parameters) = match name {
                "deflate" => {
                    let level = levels.next().ok_or_else(|| Problem::incomplete("no deflateLevel"))?;
                    let level = level.parse().ok().filter(|level| *level <= 9);
                    (DEFLATE, vec![level.ok_or_else(|| Problem::malformed("deflateLevel, expected 0 to 9"))?])
                }
                "shuffle" => (SHUFFLE, vec![u32::try_from(size).unwrap_or(u32::MAX)]),
                "fletcher32" => (FLETCHER32, Vec::new()),
                _ => return Err(Problem::incomplete(format!("filter {name}"))),
            };
            Ok(Filter { id, name: None, optional: id != FLETCHER32, parameters })
        });
        let filters = filters.collect::<Result<Vec<_>, _>>()?;
        if self.chunk_shape.is_none() && !filters.is_empty() {
            Err(Problem::malformed("filters without chunkDimensionSizes"))
        } else {
            Ok(filters)
        }
    }

    /// Returns the one chunk of contiguous data: offset and size; `None` without one.
    pub(crate) fn contiguous(&self) -> Option<(u64, u64)> {
        Some((*self.offsets.first()?, *self.sizes.first()?))
    }

    /// Returns the table of chunks whose elements have `size` bytes.
    pub(crate) fn table(mut self, size: u64, filters: &[Filter]) -> Result<ChunkTable, Problem> {
        let chunk_shape = self.chunk_shape.take().unwrap_or_default();
        let too_large = || Problem::malformed("chunks that are too large or too many");
        let bytes = product(size, &chunk_shape).ok_or_else(too_large)?;
        let total = product(1, &self.grid).ok_or_else(too_large)?;
        check_sizes(&self.sizes, filters, bytes, !self.masks.is_empty())?;
        self.sort()?;
        let is_full = self.positions.len() as u64 == total;
        let sizes = match filters {
            [] => ChunkSizes::Uniform(bytes),
            _ => {
                let sizes = self.sizes.iter().map(|size| u32::try_from(*size).ok());
                let sizes: Option<Vec<u32>> = sizes.collect();
                ChunkSizes::Each(Arc::new(sizes.ok_or_else(too_large)?))
            }
        };
        Ok(ChunkTable {
            grid: self.grid,
            positions: (!is_full).then(|| Arc::new(self.positions)),
            addresses: Arc::new(self.offsets),
            sizes,
            filter_masks: if filters.is_empty() { BTreeMap::new() } else { self.masks },
        })
    }

    /// Sorts the columns by position.
    fn sort(&mut self) -> Result<(), Problem> {
        if !self.positions.is_sorted() {
            let rows = self.positions.iter().zip(&self.offsets).zip(&self.sizes);
            let mut rows: Vec<_> =
                rows.map(|((position, offset), size)| (*position, *offset, *size)).collect();
            rows.sort_unstable();
            self.positions = rows.iter().map(|row| row.0).collect();
            self.offsets = rows.iter().map(|row| row.1).collect();
            self.sizes = rows.iter().map(|row| row.2).collect();
        }
        if self.positions.windows(2).any(|pair| pair.first() == pair.last()) {
            Err(Problem::malformed("two chunks at one place"))
        } else {
            Ok(())
        }
    }
}

/// Checks the stored sizes of chunks that have `bytes` bytes without filters. Old sidecars lack the masks of filters that
/// were skipped, so a chunk that deflate did not change in size is not trusted.
fn check_sizes(sizes: &[u64], filters: &[Filter], bytes: u64, has_masks: bool) -> Result<(), Problem> {
    let has = |id: u16| filters.iter().filter(|filter| filter.id == id).count() as u64;
    let with_sums = bytes.saturating_add(has(FLETCHER32).saturating_mul(4));
    for size in sizes {
        let is_raw = *size == bytes || *size == with_sums;
        if has(DEFLATE) == 0 && *size != with_sums && !has_masks {
            return Err(Problem::incomplete(format!("chunk of {size} bytes, expected {with_sums}")));
        }
        if has(DEFLATE) > 0 && is_raw && !has_masks {
            return Err(Problem::incomplete(format!("chunk of {size} bytes may not be compressed")));
        }
    }
    Ok(())
}

fn product(first: u64, factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(first, |all, factor| all.checked_mul(*factor))
}
