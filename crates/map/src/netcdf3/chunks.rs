//! Chunks: the ranges that store the elements of a variable.
//!
//! Records of several variables alternate, so each record of a variable is a chunk. If the records are many and small, the
//! references would be larger than the data, and a reader would need a request for a few bytes: such variables are inlined.
//! A single record variable is contiguous like a fixed one. Its records are chunks too if they are large, so that files with
//! any numbers of records can be joined; small ones form one chunk.

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_netcdf3::model::{File, Records, Variable};
use virtualize_zarr::{ChunkManifest, Lengths, References, SourceId};

use crate::split::{Contiguous, SHORTER, Split};
use crate::{ChunkContent, ElementTransform, Error, MapOptions, Piece, PieceBytes, Result};

/// Bytes from which the records of a single record variable are chunks.
const LARGE_RECORD: u64 = 64 << 10;

/// Maximum bytes of a small record of one variable.
pub(super) const SMALL_RECORD: u64 = 256;

/// Minimum number of records of which small ones are inlined.
const MANY_RECORDS: u64 = 1000;

/// Bytes of the file that are read together to inline records.
const BLOCK: u64 = 1 << 20;

/// Returns the start of the record section if the small records of its variables are to be inlined: there are many of them,
/// and they make up at least an eighth of the section, which is read whole.
pub(super) fn small_records(file: &File) -> Option<u64> {
    let variables = || file.variables.iter().filter(|variable| variable.is_record);
    let small = variables().map(|variable| variable.size).filter(|size| *size <= SMALL_RECORD);
    let small = small.fold(0, u64::saturating_add).saturating_mul(8);
    let is_worthwhile = file.records.count >= MANY_RECORDS && small >= file.records.stride;
    variables().map(|variable| variable.begin).min().filter(|_| is_worthwhile)
}

/// Inputs of chunk planning for one variable.
pub(super) struct ChunkPlanner<'a> {
    /// The variable.
    pub(super) variable: &'a Variable,
    /// Its shape.
    pub(super) shape: &'a [u64],
    /// Records of the file.
    pub(super) records: Records,
    /// Start of the record section if small records are inlined.
    pub(super) small_records: Option<u64>,
    /// Size of the file in bytes.
    pub(super) file_size: u64,
    /// The user's choices.
    pub(super) options: &'a MapOptions,
}

/// The chunks of a variable.
#[derive(Clone, Debug)]
pub(super) struct ChunkPlan {
    /// Shape of a chunk.
    pub(super) chunk_shape: Vec<u64>,
    /// Chunks that are stored in the file.
    pub(super) chunks: ChunkManifest,
    /// Positions and contents of the chunks that are inlined.
    pub(super) inline: Vec<(u64, ChunkContent)>,
    /// Why they are inlined.
    pub(super) inline_reason: Option<&'static str>,
    /// Positions from here on are beyond the end of the file, and read as zero.
    pub(super) missing: std::ops::Range<u64>,
    /// Whether the file ends before the data.
    pub(super) is_truncated: bool,
}

impl ChunkPlanner<'_> {
    /// Plans the chunks.
    ///
    /// # Errors
    /// The data end past 64 bits, or the file ends within a chunk that is too large to be inlined.
    pub(super) fn plan(&self) -> Result<ChunkPlan> {
        if self.shape.contains(&0) {
            return Ok(self.nothing());
        }
        if let Some(section) = self.small_records.filter(|_| self.is_inlined()) {
            self.inlined(section)
        } else if self.is_by_record() {
            let mut plan = self.nothing();
            if let Some(first) = plan.chunk_shape.first_mut() {
                *first = 1;
            }
            let whole = self.whole_records();
            let start = |record: u64| {
                record
                    .checked_mul(self.records.stride)
                    .and_then(|bytes| bytes.checked_add(self.variable.begin))
            };
            plan.chunks = self.references((0..whole).filter_map(start).collect(), self.variable.size);
            if whole < self.records.count {
                let next = start(whole).unwrap_or(u64::MAX);
                self.cut_off(&mut plan, whole..self.records.count, ByteRange::new(next, self.variable.size))?;
            }
            Ok(plan)
        } else {
            self.contiguous()
        }
    }

    /// Returns whether the small records of this variable are inlined, if those of the file are.
    pub(super) fn is_inlined(&self) -> bool {
        let Variable { size, is_record, .. } = *self.variable;
        let bytes = size.saturating_mul(self.records.count);
        self.small_records.is_some()
            && is_record
            && size <= SMALL_RECORD
            && size != self.records.stride
            && self.whole_records() == self.records.count
            && bytes <= self.options.inline_limit
    }

    /// Plans chunks of many records each. The variables of the file share the ranges that are read.
    fn inlined(&self, section: u64) -> Result<ChunkPlan> {
        let mut plan = self.nothing();
        let Records { count, stride, .. } = self.records;
        let Variable { begin, size, .. } = *self.variable;
        let height = (BLOCK / stride.max(1)).clamp(1, count);
        if let Some(first) = plan.chunk_shape.first_mut() {
            *first = height;
        }
        let overflow = || Error::overflow("the extent");
        for (chunk, first) in (0..count).step_by(usize::try_from(height).unwrap_or(usize::MAX)).enumerate() {
            let rows = height.min(count - first);
            // The last record may be shorter than the stride.
            let whole = if first + rows == count { rows - 1 } else { rows };
            let start = first
                .checked_mul(stride)
                .and_then(|bytes| bytes.checked_add(section))
                .ok_or_else(overflow)?;
            let mut pieces = Vec::new();
            if whole > 0 {
                let range = ByteRange::new(start, whole.checked_mul(stride).ok_or_else(overflow)?);
                pieces.push(rows_of(range, [whole, stride], [0, begin - section], 0, size));
            }
            if whole < rows {
                let last = whole.checked_mul(stride).and_then(|bytes| bytes.checked_add(start));
                let last = last.and_then(|last| last.checked_add(begin - section)).ok_or_else(overflow)?;
                pieces.push(rows_of(ByteRange::new(last, size), [1, size], [0, 0], whole, size));
            }
            let shape = vec![height, size];
            let content = ChunkContent::Assemble { shape, background: Bytes::from_static(&[0]), pieces };
            plan.inline.push((chunk as u64, content));
        }
        plan.inline_reason = Some("the records are small and alternate with those of other variables");
        Ok(plan)
    }

    /// Returns whether each record is a chunk. Those of a file that ends early are, so that the others can be referenced.
    pub(super) fn is_by_record(&self) -> bool {
        let Variable { begin, size, is_record, .. } = *self.variable;
        let end = self.records.count.checked_mul(size).and_then(|bytes| bytes.checked_add(begin));
        let is_whole = end.is_some_and(|end| end <= self.file_size);
        is_record && (self.records.stride != size || size >= LARGE_RECORD || !is_whole)
    }

    /// Returns the number of records that the file contains whole.
    pub(super) fn whole_records(&self) -> u64 {
        let last = self.file_size.checked_sub(self.variable.begin);
        let last = last.and_then(|bytes| bytes.checked_sub(self.variable.size));
        let whole = last.and_then(|bytes| bytes.checked_div(self.records.stride));
        whole.map_or(0, |records| records.saturating_add(1)).min(self.records.count)
    }

    fn contiguous(&self) -> Result<ChunkPlan> {
        let mut plan = self.nothing();
        let count = if self.variable.is_record { self.records.count } else { 1 };
        let length = self.variable.size.checked_mul(count).ok_or_else(|| Error::overflow("the extent"))?;
        let range = ByteRange::new(self.variable.begin, length);
        if range.end() > self.file_size {
            self.cut_off(&mut plan, 0..1, range)?;
        } else if let Some(split) = self.options.split_contiguous.and_then(|most| self.split(range, most)) {
            plan.chunk_shape = split.chunk_shape;
            plan.chunks = ChunkManifest::of(split.references);
            plan.inline_reason = split.last.as_ref().map(|_| SHORTER);
            plan.inline = split.last.into_iter().collect();
        } else {
            plan.chunks = self.references(vec![range.start], length);
        }
        Ok(plan)
    }

    fn split(&self, range: ByteRange, most: u64) -> Option<Split> {
        let size = self.variable.data_type.size();
        let contiguous = Contiguous {
            range,
            shape: self.shape,
            element: size,
            transform: &ElementTransform::None,
            background: vec![0; usize::try_from(size).ok()?].into(),
        };
        contiguous.split(most, self.options.inline_limit)
    }

    /// Adds the chunks that the file does not contain whole: the first of `positions`, at `range`, in part, and the others
    /// not at all. Like netCDF-C, takes zeros for the bytes beyond the end of the file.
    fn cut_off(&self, plan: &mut ChunkPlan, positions: std::ops::Range<u64>, range: ByteRange) -> Result<()> {
        plan.is_truncated = true;
        plan.missing = positions;
        let stored = range.clamp_to(self.file_size);
        if stored.length == 0 {
            return Ok(());
        }
        if range.length > self.options.inline_limit {
            return Err(Error::inline_limit(
                "the file ends within a chunk, which has to be filled with zeros",
                &format!("a chunk of {:?}", plan.chunk_shape),
                self.options.inline_limit,
            ));
        }
        let piece = Piece {
            source: SourceId(0),
            bytes: PieceBytes::At(stored),
            codecs: Vec::new(),
            shape: vec![stored.length],
            from: vec![0],
            to: vec![0],
            extent: vec![stored.length],
            transform: ElementTransform::None,
        };
        plan.inline.push((
            plan.missing.start,
            ChunkContent::Assemble {
                shape: vec![range.length],
                background: Bytes::from_static(&[0]),
                pieces: vec![piece],
            },
        ));
        plan.inline_reason = Some("the file ends within it");
        plan.missing.start = plan.missing.start.saturating_add(1);
        Ok(())
    }

    fn references(&self, offsets: Vec<u64>, length: u64) -> ChunkManifest {
        if offsets.is_empty() {
            return ChunkManifest::default();
        }
        ChunkManifest::of(References {
            source: SourceId(0),
            positions: None,
            offsets: offsets.into(),
            lengths: Lengths::Uniform(length),
        })
    }

    /// Returns the plan of an array of one chunk, which is not stored.
    fn nothing(&self) -> ChunkPlan {
        ChunkPlan {
            chunk_shape: self.shape.iter().map(|length| (*length).max(1)).collect(),
            chunks: ChunkManifest::default(),
            inline: Vec::new(),
            inline_reason: None,
            missing: 0..0,
            is_truncated: false,
        }
    }
}

/// Returns the piece of an inlined chunk that copies `size` bytes from each row of `range`, starting at `from`, to the rows of
/// the chunk from `to` on.
fn rows_of(range: ByteRange, shape: [u64; 2], from: [u64; 2], to: u64, size: u64) -> Piece {
    Piece {
        source: SourceId(0),
        bytes: PieceBytes::At(range),
        codecs: Vec::new(),
        shape: shape.to_vec(),
        from: from.to_vec(),
        to: vec![to, 0],
        extent: vec![shape[0], size],
        transform: ElementTransform::None,
    }
}
