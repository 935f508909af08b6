//! Records of NetCDF classic, and data that the file ends before.
//!
//! Records of several variables alternate, so each record of a variable is a chunk. If the records are many and small, the
//! references would be larger than the data, and a reader would need a request for a few bytes: such variables are inlined.
//! The records of a single variable are contiguous. They are chunks too if they are large, so that files with any numbers of
//! records can be joined; small ones form one chunk.

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{File, Layout, Object};
use virtualize_remedy::{Code, Remedy};
use virtualize_zarr::{ChunkManifest, Lengths, References, SourceId};

use super::Mapper;
use super::chunks::{ChunkPlan, ChunkPlanner};
use crate::mapped::chunk_bytes;
use crate::{ChunkContent, Diagnostic, ElementTransform, Error, Piece, PieceBytes, Result};

/// Bytes from which the records of a single record variable are chunks.
const LARGE_RECORD: u64 = 64 << 10;

/// Maximum bytes of a small record of one variable.
const SMALL_RECORD: u64 = 256;

/// Minimum number of records of which small ones are inlined.
const MANY_RECORDS: u64 = 1000;

/// Bytes of the file that are read together to inline records.
const BLOCK: u64 = 1 << 20;

/// Returns the first record of each record variable.
fn first_records(file: &File) -> impl Iterator<Item = ByteRange> {
    file.objects.values().filter_map(|object| match object {
        Object::Dataset(dataset) => match dataset.layout {
            Layout::Records(first) => Some(first),
            _ => None,
        },
        _ => None,
    })
}

/// Returns the start of the record section if the small records of its variables are to be inlined: there are many of them,
/// and they make up at least an eighth of the section, which is read whole.
pub(super) fn small_records(file: &File) -> Option<u64> {
    let classic = file.classic.as_ref()?;
    let sizes = first_records(file).map(|first| first.length).filter(|size| *size <= SMALL_RECORD);
    let small = sizes.fold(0, u64::saturating_add).saturating_mul(8);
    let is_worthwhile = classic.records >= MANY_RECORDS && small >= classic.stride;
    first_records(file).map(|first| first.start).min().filter(|_| is_worthwhile)
}

impl Mapper<'_> {
    /// Reports a file without a number of records that ends within one.
    pub(super) fn report_partial_record(&mut self) {
        let file = self.own.file;
        let Some(classic) = file.classic.as_ref().filter(|classic| classic.is_streamed) else { return };
        let Some(begin) = first_records(file).map(|first| first.start).min() else { return };
        let count = classic.records;
        if self.own.source.size > count.saturating_mul(classic.stride).saturating_add(begin) {
            let message = format!(
                "the header states no number of records, and the file ends within record {count}, which is omitted"
            );
            self.report.warn(Code::FileTruncated, "", message);
        }
    }
}

impl ChunkPlanner<'_> {
    /// Plans the records of a variable, of which `first` is the first.
    ///
    /// # Errors
    /// The data end past 64 bits, or the file ends within a chunk that is too large to be inlined.
    pub(super) fn records(&self, first: ByteRange) -> Result<ChunkPlan> {
        let mut plan = self.one_missing_chunk();
        let Some(classic) = self.context.here.file.classic.as_ref().filter(|_| !self.is_empty()) else {
            return Ok(plan);
        };
        if let Some(section) = self.small_records.filter(|_| self.is_inlined(first)) {
            self.inline_records(&mut plan, section, first)?;
            return Ok(plan);
        }
        let size = first.length;
        let all = size.checked_mul(classic.records).map(|length| ByteRange::new(first.start, length));
        let all = all.filter(|all| !self.is_cut_off(*all));
        // The records of a file that ends early are chunks, so that those before its end can be referenced.
        if let Some(all) = all.filter(|_| classic.stride == size && size < LARGE_RECORD) {
            return self.contiguous(all);
        }
        if let Some(rows) = plan.chunk_shape.first_mut() {
            *rows = 1;
        }
        let whole = self.whole_records(first);
        self.context.lookup.take("chunk tables", chunk_bytes(whole, ""))?;
        let start = |record: u64| record.checked_mul(classic.stride)?.checked_add(first.start);
        if whole > 0 {
            plan.chunks = ChunkManifest::of(References {
                source: SourceId(0),
                positions: None,
                offsets: (0..whole).filter_map(start).collect::<Vec<_>>().into(),
                lengths: Lengths::Uniform(size),
            });
        }
        if whole < classic.records {
            let next = ByteRange::new(start(whole).unwrap_or(u64::MAX), size);
            self.cut_off(&mut plan, whole, next)?;
        }
        Ok(plan)
    }

    /// Returns what the user should know about the storage of a variable of NetCDF classic.
    pub(super) fn records_diagnostics(&self, path: &str) -> Option<Diagnostic> {
        let classic = self.context.here.file.classic.as_ref().filter(|_| !self.is_empty())?;
        let (is_cut_off, small) = match self.dataset.layout {
            Layout::Contiguous(Some(range)) => (self.is_cut_off(range), None),
            Layout::Records(first) => {
                let is_small = self.small_records.is_some()
                    && first.length <= SMALL_RECORD
                    && first.length != classic.stride
                    && !self.is_inlined(first);
                (self.whole_records(first) < classic.records, is_small.then_some(first.length))
            }
            _ => return None,
        };
        if is_cut_off {
            let message = format!(
                "the file ends at {:#x}, before the data of the variable end: the missing bytes read as zero, as in netCDF-C",
                self.file_size
            );
            let advice = "compare its size with the original: the file may be incomplete";
            let warning = Diagnostic::warning(Code::FileTruncated, path, message);
            return Some(warning.with(Some(Remedy::advice(advice))));
        }
        let message = format!(
            "{} records of {} bytes are a chunk each, which is slow to read: inlining them exceeds the limit of {} bytes",
            classic.records, small?, self.options.inline_limit
        );
        Some(Diagnostic::info(Code::InlineLimit, path, message))
    }

    /// Whether the file is NetCDF classic and ends before the data.
    pub(super) fn is_cut_off(&self, range: ByteRange) -> bool {
        self.context.here.file.classic.is_some() && range.end() > self.file_size
    }

    /// Adds the chunk at `position`, of which the file contains a part of `range` or nothing. Like netCDF-C, takes zeros for
    /// the bytes past the end of the file.
    pub(super) fn cut_off(&self, plan: &mut ChunkPlan, position: u64, range: ByteRange) -> Result<()> {
        let stored = range.clamp_to(self.file_size);
        if stored.length == 0 {
            return Ok(());
        }
        let why = "the file ends within it";
        if range.length > self.options.inline_limit {
            return Err(Error::inline_limit(
                "the file ends within a chunk, which has to be filled with zeros",
                &format!("a chunk of {:?}", plan.chunk_shape),
                self.options.inline_limit,
            ));
        }
        let piece = rows_of(stored, [1, stored.length], [0, 0], 0, stored.length);
        plan.inline.push((position, bytes_of(vec![1, range.length], vec![piece])));
        plan.inline_reason = Some(why.to_owned());
        Ok(())
    }

    /// Whether the small records of this variable are inlined.
    fn is_inlined(&self, first: ByteRange) -> bool {
        let Some(classic) = &self.context.here.file.classic else { return false };
        self.small_records.is_some()
            && first.length <= SMALL_RECORD
            && first.length != classic.stride
            && self.whole_records(first) == classic.records
            && first.length.saturating_mul(classic.records) <= self.options.inline_limit
    }

    /// Plans chunks of many records each. The variables of the file share the ranges that are read.
    fn inline_records(&self, plan: &mut ChunkPlan, section: u64, first: ByteRange) -> Result<()> {
        let Some(classic) = &self.context.here.file.classic else { return Ok(()) };
        let (count, stride, size) = (classic.records, classic.stride, first.length);
        let height = (BLOCK / stride.max(1)).clamp(1, count);
        if let Some(rows) = plan.chunk_shape.first_mut() {
            *rows = height;
        }
        let overflow = || Error::overflow("the extent");
        let start = |record: u64| {
            record.checked_mul(stride).and_then(|bytes| bytes.checked_add(section)).ok_or_else(overflow)
        };
        let column = first.start - section;
        for chunk in 0..count.div_ceil(height) {
            let record = chunk * height;
            let rows = height.min(count - record);
            // The last record may be shorter than the stride.
            let whole = if record + rows == count { rows - 1 } else { rows };
            let mut pieces = Vec::new();
            if whole > 0 {
                let length = whole.checked_mul(stride).ok_or_else(overflow)?;
                let range = ByteRange::new(start(record)?, length);
                pieces.push(rows_of(range, [whole, stride], [0, column], 0, size));
            }
            if whole < rows {
                let last = start(record + whole)?.checked_add(column).ok_or_else(overflow)?;
                pieces.push(rows_of(ByteRange::new(last, size), [1, size], [0, 0], whole, size));
            }
            plan.inline.push((chunk, bytes_of(vec![height, size], pieces)));
        }
        plan.inline_reason =
            Some("the records are small and alternate with those of other variables".to_owned());
        Ok(())
    }

    /// Returns the number of records that the file contains whole.
    fn whole_records(&self, first: ByteRange) -> u64 {
        let Some(classic) = &self.context.here.file.classic else { return 0 };
        let last = self.file_size.checked_sub(first.start).and_then(|bytes| bytes.checked_sub(first.length));
        let whole = last.and_then(|bytes| bytes.checked_div(classic.stride));
        whole.map_or(0, |records| records.saturating_add(1)).min(classic.records)
    }
}

/// Returns a chunk of rows of bytes, of which the pieces do not cover all.
fn bytes_of(shape: Vec<u64>, pieces: Vec<Piece>) -> ChunkContent {
    ChunkContent::Assemble { shape, background: Bytes::from_static(&[0]), pieces }
}

/// Returns the piece of an inlined chunk that copies `size` bytes from each row of `range`, starting at `from`, to the rows of
/// the chunk from `to` on.
fn rows_of(range: ByteRange, shape: [u64; 2], from: [u64; 2], to: u64, size: u64) -> Piece {
    let [rows, _] = shape;
    let (bytes, shape) = (PieceBytes::At(range), shape.to_vec());
    let whole = Piece::whole(SourceId(0), bytes, Vec::new(), shape, ElementTransform::None);
    Piece { from: from.to_vec(), to: vec![to, 0], extent: vec![rows, size], ..whole }
}
