//! kerchunk's Parquet layout, as fsspec's `LazyReferenceMapper` reads it. `.zmetadata` contains all metadata and the
//! record size. Each array has files `NAME/refs.N.parq` with the columns path, offset, size and raw, and one row per
//! chunk position.
//!
//! fsspec reads the columns through pandas and fastparquet, whose limitations restrict the encodings:
//! - `path` has a dictionary page if any path is missing: without one, a missing path reads as NaN and is mistaken for
//!   a url.
//! - offsets are plain: fastparquet's decoder of DELTA_BINARY_PACKED returns wrong numbers from 28 bits on, and it has
//!   no decoder of BYTE_STREAM_SPLIT; pages are of version 1.
//! - offsets and sizes are never null, and their statistics say so: without statistics, the columns become floats.
//!
//! Each column is written in the smallest of the remaining encodings.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hasher},
    io,
    ops::ControlFlow,
    sync::Arc,
};

use ::parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel},
    column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer},
    data_type::{ByteArray, ByteArrayType, DataType, Int64Type},
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite},
    },
    schema::types::{ColumnDescPtr, ColumnPath, SchemaDescriptor, Type, TypePtr},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize_zarr::{Chunk, ChunkReader, Hierarchy, Node};

use super::{
    EmitError, Sink,
    format::{Format, MAX_RECORDS, ZMETADATA},
    grid_total,
    metadata::documents,
    visit_chunks,
};

/// Largest number of leading files without chunks that are written for an array. Unless the protocol is given, fsspec
/// searches an array's files in order for the first url, and fails at a missing file. Files before the first url are
/// therefore written even if all their chunks are missing; those beyond this number are omitted.
const LEADING: u64 = 64;
/// Average number of rows per distinct value from which a column counts as repetitive, so that a dictionary pays.
const ROWS_PER_VALUE: usize = 8;
/// Columns whose statistics are written.
const STATISTICS: &[&str] = &["offset", "size"];
const PLAIN: &[Spelling] =
    &[Spelling { dictionary: false, level: 1 }, Spelling { dictionary: false, level: 3 }];
const DICTIONARY: Spelling = Spelling { dictionary: true, level: 3 };
const THOROUGH: &[Spelling] =
    &[Spelling { dictionary: true, level: 1 }, Spelling { dictionary: true, level: 9 }];

/// Writes all files, `.zmetadata` last.
pub(crate) fn write(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    format: Format,
    sink: &mut dyn Sink,
) -> Result<(), EmitError> {
    let record_size = format.record_size();
    if record_size.get() > MAX_RECORDS {
        return Err(EmitError::RecordSize { found: record_size.get(), most: MAX_RECORDS });
    }
    check_names("", &hierarchy.root.children)?;
    let metadata: Map<String, Value> =
        documents(hierarchy)?.into_iter().filter(|(key, _)| key != ZMETADATA).collect();
    let mut table = Table::default();
    for (path, array) in hierarchy.arrays() {
        let counts = array.chunk_grid.counts(&array.shape);
        let (total, records) = (grid_total(&counts), u64::from(record_size.get()));
        table.clear();
        let mut records = Records { path: &path, records, total, has_url: false, next: 0 };
        let mut file = 0;
        visit_chunks(chunks, &path, &counts, |position, chunk| {
            if position / records.records != file {
                records.put(file, &mut table, sink)?;
                file = position / records.records;
            }
            table.pad(usize::try_from(position % records.records).unwrap_or(usize::MAX));
            let (source, offset, length) = match chunk {
                Chunk::Inline(bytes) => {
                    // Readers would decode bytes that start with `base64:`.
                    let bytes = match bytes.starts_with(b"base64:") {
                        true => Bytes::from(format!("base64:{}", BASE64_STANDARD.encode(bytes))),
                        false => bytes.clone(),
                    };
                    let mut hasher = DefaultHasher::new();
                    hasher.write(&bytes);
                    table.distinct.insert(hasher.finish());
                    table.raws.push(ByteArray::from(bytes));
                    table.push((0, 1), 0, 0);
                    return Ok(ControlFlow::Continue(()));
                }
                Chunk::Reference { source, offset, length } => (source, *offset, *length),
            };
            let problem = match (i64::try_from(offset), i64::try_from(length)) {
                // Readers would mistake it for a whole file.
                (Ok(0), Ok(0)) => format!(
                    "chunk {position} is 0 bytes at offset 0, which means the whole file in Parquet; write JSON"
                ),
                (Ok(offset), Ok(size)) => {
                    let url = match table.paths.last() {
                        Some(last) if last.data() == source.url.as_bytes() => last.clone(),
                        _ => {
                            table.runs += 1;
                            ByteArray::from(source.url.as_str())
                        }
                    };
                    table.paths.push(url);
                    table.push((1, 0), offset, size);
                    return Ok(ControlFlow::Continue(()));
                }
                _ => format!("offset or length of chunk {position} is 2^63 or more"),
            };
            Err(EmitError::array(&path, problem))
        })?;
        records.put(file, &mut table, sink)?;
        table.clear();
        records.leading(total.div_ceil(records.records), &mut table, sink)?;
    }
    let document = json!({"metadata": metadata, "record_size": record_size, "zarr_consolidated_format": 1});
    Ok(sink.put(ZMETADATA, format!("{document}\n").as_bytes())?)
}

/// Rejects names for which fsspec would not find the chunks and return the fill value instead. It mistakes keys that
/// contain `/.z` for metadata; over HTTP, `#` and `?` end a path, and `%` is unescaped.
fn check_names(parent: &str, children: &BTreeMap<String, Node>) -> Result<(), EmitError> {
    for (name, node) in children {
        let path = format!("{parent}/{name}");
        if name.starts_with(".z") || name.contains(['#', '?', '%']) {
            return Err(EmitError::Invalid(format!(
                "node {path}: names that start with .z or have #, ? or % cannot be written as Parquet, where readers \
                 would not find the chunks; write JSON"
            )));
        }
        if let Node::Group(group) = node {
            check_names(&path, &group.children)?;
        }
    }
    Ok(())
}

/// Writer of the files of one array.
struct Records<'a> {
    path: &'a str,
    /// Number of rows per file.
    records: u64,
    /// Number of chunks of the grid.
    total: u64,
    /// Whether a file with a url has been written.
    has_url: bool,
    /// Index of the first file that has been neither written nor omitted.
    next: u64,
}

impl Records<'_> {
    /// Writes a file if it has any chunk, preceded by the empty files that cannot be omitted.
    fn put(&mut self, file: u64, table: &mut Table, sink: &mut dyn Sink) -> Result<(), EmitError> {
        if table.is_empty() {
            return Ok(());
        }
        let mut empty = Table::default();
        self.leading(file, &mut empty, sink)?;
        self.next = file + 1;
        self.has_url |= !table.paths.is_empty();
        self.file(file, table, sink)
    }

    /// Writes the empty files before `end` that cannot be omitted, unless a file with a url has been written.
    fn leading(&mut self, end: u64, empty: &mut Table, sink: &mut dyn Sink) -> Result<(), EmitError> {
        if !self.has_url {
            for file in self.next..end.min(LEADING) {
                self.file(file, empty, sink)?;
            }
        }
        Ok(())
    }

    /// Writes a table as one file, padded to the number of rows of the file, and clears the table.
    fn file(&self, file: u64, table: &mut Table, sink: &mut dyn Sink) -> Result<(), EmitError> {
        let rows = (self.total - file * self.records).min(self.records);
        table.pad(usize::try_from(rows).unwrap_or(usize::MAX));
        let out = sink.create(&format!("{}/refs.{file}.parq", self.path))?;
        table.write(out).map_err(|error| match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => EmitError::Io(*error),
                Err(error) => EmitError::array(self.path, error),
            },
            error => EmitError::array(self.path, error),
        })?;
        table.clear();
        Ok(())
    }
}

/// Rows of a file. A definition level is 1 if the row has an entry in the column's values, and 0 otherwise.
#[derive(Default)]
struct Table {
    path_levels: Vec<i16>,
    paths: Vec<ByteArray>,
    /// Number of runs of equal values in `paths`.
    runs: usize,
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    raw_levels: Vec<i16>,
    raws: Vec<ByteArray>,
    /// Digests of the values of `raws`.
    distinct: HashSet<u64>,
}

impl Table {
    fn clear(&mut self) {
        self.path_levels.clear();
        self.paths.clear();
        self.runs = 0;
        self.offsets.clear();
        self.sizes.clear();
        self.raw_levels.clear();
        self.raws.clear();
        self.distinct.clear();
    }

    /// Returns whether the table has no chunks.
    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.raws.is_empty()
    }

    /// Appends missing chunks up to a number of rows.
    fn pad(&mut self, rows: usize) {
        self.path_levels.resize(rows, 0);
        self.offsets.resize(rows, 0);
        self.sizes.resize(rows, 0);
        self.raw_levels.resize(rows, 0);
    }

    /// Appends a row, given the definition levels of its path and its inline bytes.
    fn push(&mut self, (path, raw): (i16, i16), offset: i64, size: i64) {
        self.path_levels.push(path);
        self.offsets.push(offset);
        self.sizes.push(size);
        self.raw_levels.push(raw);
    }

    /// Writes the table as a Parquet file with one row group.
    fn write(&self, out: Out<'_>) -> Result<(), ParquetError> {
        let schema = schema()?;
        let described = SchemaDescriptor::new(Arc::clone(&schema));
        let mut file = SerializedFileWriter::new(out, schema, Arc::new(DICTIONARY.properties()))?;
        let mut rows = file.next_row_group()?;
        let texts = |at, values, levels| Column::<ByteArrayType> {
            described: described.column(at),
            values,
            levels: Some(levels),
        };
        let numbers =
            |at, values| Column::<Int64Type> { described: described.column(at), values, levels: None };
        // Plain text can be smaller than a dictionary if most urls are distinct. If a dictionary is required, a thorough
        // search for common parts of the urls recovers some of the difference.
        let many = self.runs > self.paths.len() / ROWS_PER_VALUE;
        let others = match (many, self.paths.len() == self.path_levels.len()) {
            (false, _) => &[],
            (true, true) => PLAIN,
            (true, false) => THOROUGH,
        };
        let spellings = [&[DICTIONARY], others].concat();
        texts(0, &self.paths, &self.path_levels).write(&spellings, &mut rows)?;
        numbers(1, &self.offsets).write(PLAIN, &mut rows)?;
        // A dictionary pays only if few sizes are distinct.
        let most = self.sizes.len() / ROWS_PER_VALUE;
        let mut seen = HashSet::new();
        let few =
            self.sizes.iter().all(|size| seen.contains(size) || (seen.insert(*size) && seen.len() <= most));
        let spellings = [PLAIN, if few { &[DICTIONARY] } else { &[] }].concat();
        numbers(2, &self.sizes).write(&spellings, &mut rows)?;
        // Only one encoding is tried, since inline chunks can be large.
        let spelling = Spelling { dictionary: self.distinct.len() < self.raws.len(), ..DICTIONARY };
        texts(3, &self.raws, &self.raw_levels).write(&[spelling], &mut rows)?;
        rows.close()?;
        file.finish()?;
        io::Write::flush(file.inner_mut())?;
        Ok(())
    }
}

/// Returns the schema: path, offset, size and raw.
fn schema() -> Result<TypePtr, ParquetError> {
    let field = |name, physical, repetition, logical| {
        let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        Ok::<_, ParquetError>(Arc::new(field.with_logical_type(logical).build()?))
    };
    let fields = vec![
        field("path", Physical::BYTE_ARRAY, Repetition::OPTIONAL, Some(LogicalType::String))?,
        field("offset", Physical::INT64, Repetition::REQUIRED, None)?,
        field("size", Physical::INT64, Repetition::REQUIRED, None)?,
        field("raw", Physical::BYTE_ARRAY, Repetition::OPTIONAL, None)?,
    ];
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?))
}

// Columns, each in the smallest of several encodings.

type Out<'a> = Box<dyn io::Write + Send + 'a>;

/// Size limit of a data page in bytes. A page holds a whole column, except for very large inline chunks.
const PAGE: usize = 64 << 20;

/// Encoding and compression level of a column.
#[derive(Clone, Copy)]
struct Spelling {
    dictionary: bool,
    /// Compression level of zstd. Level 1 searches for long repetitions only and leaves more to the entropy coder.
    /// Compared with level 3, which fastparquet uses, unordered numbers, such as sizes of compressed chunks, become a
    /// fifth smaller, and regular sequences, such as offsets, become a third larger.
    level: i32,
}

impl Spelling {
    /// Returns the writer properties of a file, or of a column in this encoding.
    fn properties(self) -> WriterProperties {
        let level = ZstdLevel::try_new(self.level).unwrap_or_default();
        let mut builder = WriterProperties::builder()
            .set_created_by("virtualize".to_owned())
            .set_compression(Compression::ZSTD(level))
            .set_dictionary_enabled(self.dictionary)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(None)
            .set_data_page_size_limit(PAGE)
            .set_data_page_row_count_limit(usize::MAX)
            // A column must not fall back from dictionary to plain encoding midway, which would bring back NaN.
            .set_dictionary_page_size_limit(usize::MAX);
        for column in STATISTICS {
            builder =
                builder.set_column_statistics_enabled(ColumnPath::from(*column), EnabledStatistics::Chunk);
        }
        builder.build()
    }
}

/// A column to append to a row group: its values, and definition levels if the column is nullable.
struct Column<'a, T: DataType> {
    described: ColumnDescPtr,
    values: &'a [T::T],
    levels: Option<&'a [i16]>,
}

impl<T: DataType> Column<'_, T> {
    /// Writes the column in the one of several encodings that takes the fewest bytes. The first wins a tie.
    fn write(
        &self,
        spellings: &[Spelling],
        rows: &mut SerializedRowGroupWriter<'_, Out<'_>>,
    ) -> Result<(), ParquetError> {
        let mut smallest: Option<(Bytes, ColumnCloseResult)> = None;
        for spelling in spellings {
            let mut out = TrackedWrite::new(Vec::new());
            let pages = Box::new(SerializedPageWriter::new(&mut out));
            let properties = Arc::new(spelling.properties());
            let writer = get_column_writer(Arc::clone(&self.described), properties, pages);
            let mut writer = get_typed_column_writer::<T>(writer);
            writer.write_batch(self.values, self.levels, None)?;
            let close = writer.close()?;
            let bytes = Bytes::from(out.into_inner()?);
            if smallest.as_ref().is_none_or(|(least, _)| bytes.len() < least.len()) {
                smallest = Some((bytes, close));
            }
        }
        let none = || ParquetError::General("a column without a spelling".to_owned());
        let (bytes, close) = smallest.ok_or_else(none)?;
        rows.append_column(&bytes, close)
    }
}
