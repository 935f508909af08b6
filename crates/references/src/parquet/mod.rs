//! kerchunk's Parquet layout: `.zmetadata`, and for each array files `NAME/refs.N.parq` of so many chunks each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::{
    basic::Type as Physical,
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::{ByteArray, DataType},
    errors::ParquetError,
    file::reader::{FileReader, RowGroupReader, SerializedFileReader},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    ReferenceSet, ReferencesError,
    document::{Entry, Place},
    hierarchy::Builder,
};

/// Most rows of a file.
const ROWS: u64 = 16 << 20;
/// Rows that are decoded at once.
const BATCH: usize = 8192;

/// Reads references in kerchunk's Parquet layout: made of `.zmetadata`, then given the files, in any order.
pub struct ParquetReferences {
    builder: Builder,
    record_size: u64,
}

#[derive(Deserialize)]
struct Metadata {
    metadata: Map<String, Value>,
    record_size: u64,
}

impl ParquetReferences {
    /// Reads the metadata of all nodes.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn new(zmetadata: &[u8]) -> Result<Self, ReferencesError> {
        let json = |error: serde_json::Error| ReferencesError::Json(error.to_string());
        let document = crate::numbers::parse(zmetadata).map_err(json)?;
        let read: Metadata = serde_json::from_value(document).map_err(json)?;
        if read.record_size == 0 || read.record_size > ROWS {
            let reason = format!("record_size {}, expected 1 to {ROWS}", read.record_size);
            return Err(ReferencesError::Metadata { key: ".zmetadata".to_owned(), reason });
        }
        let mut builder = Builder::of(read.metadata.into_iter().collect());
        builder.nodes()?;
        Ok(Self { builder, record_size: read.record_size })
    }

    /// The arrays, and of how many files each can be: `PATH/refs.0.parq` and so on. Files whose chunks are all missing
    /// may be missing themselves.
    pub fn arrays(&self) -> Vec<(String, u64)> {
        let count = |chunks: u64| chunks.div_ceil(self.record_size);
        self.builder.grids().map(|(path, chunks)| (path.to_owned(), count(chunks))).collect()
    }

    /// Takes the file of a key such as `a/refs.0.parq`. Keys of other forms, or of no array, are told in
    /// [`ReferenceSet::ignored`].
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn add(&mut self, key: &str, file: Bytes) -> Result<(), ReferencesError> {
        let Some((path, total, number)) = self.part(key) else {
            self.builder.ignore(key);
            return Ok(());
        };
        let wrong = |reason: String| ReferencesError::Metadata { key: key.to_owned(), reason };
        // The parquet crate asserts some of what a damaged file can break, such as lengths that are not negative.
        let rows = catch_unwind(AssertUnwindSafe(|| Rows::read(file)));
        let rows = rows.map_err(|_| wrong("no Parquet file that can be read".to_owned()))?;
        let rows = rows.map_err(|error| wrong(error.to_string()))?;
        let start = number.checked_mul(self.record_size);
        for (row, entry) in rows.entries() {
            let position = start.and_then(|start| start.checked_add(row));
            let position = position.filter(|at| *at < total && row < self.record_size);
            let position =
                position.ok_or_else(|| wrong(format!("a chunk in row {row}, outside the grid")))?;
            let entry = entry.map_err(|reason| wrong(format!("row {row}: {reason}")))?;
            self.builder.put(&path, position, key, entry)?;
        }
        Ok(())
    }

    /// The hierarchy, when all files were added.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn finish(self) -> Result<ReferenceSet, ReferencesError> {
        self.builder.finish()
    }

    /// The array, its chunks, and the number of a file.
    fn part(&self, key: &str) -> Option<(String, u64, u64)> {
        let (path, name) = key.rsplit_once('/')?;
        let number = name.strip_prefix("refs.")?.strip_suffix(".parq")?.parse().ok()?;
        Some((path.to_owned(), self.builder.grid(path)?, number))
    }
}

/// The columns of a file; empty where there is no such column, else one value a row.
#[derive(Default)]
struct Rows {
    paths: Vec<Option<ByteArray>>,
    offsets: Vec<Option<i64>>,
    sizes: Vec<Option<i64>>,
    raws: Vec<Option<ByteArray>>,
}

impl Rows {
    fn read(file: Bytes) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(file)?;
        let count = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(u64::MAX);
        if count > ROWS {
            return Err(ParquetError::General(format!("{count} rows, expected at most {ROWS}")));
        }
        let mut rows = Self::default();
        for group in 0..reader.num_row_groups() {
            rows.group(reader.get_row_group(group)?.as_ref())?;
        }
        rows.check()?;
        Ok(rows)
    }

    fn group(&mut self, group: &dyn RowGroupReader) -> Result<(), ParquetError> {
        let count = usize::try_from(group.metadata().num_rows())
            .ok()
            .filter(|count| self.paths.len().max(self.raws.len()).saturating_add(*count) as u64 <= ROWS)
            .ok_or_else(|| ParquetError::General("more rows than the file".to_owned()))?;
        for at in 0..group.num_columns() {
            let column = group.metadata().column(at);
            let name = column.column_path().string();
            let described = column.column_descr();
            if described.max_def_level() > 1 || described.max_rep_level() > 0 {
                return Err(ParquetError::General(format!("column {name} is nested")));
            }
            let optional = described.max_def_level() == 1;
            match name.as_str() {
                "path" => texts(group, at, count, optional, &mut self.paths)?,
                "raw" => texts(group, at, count, optional, &mut self.raws)?,
                "offset" => numbers(group, at, count, optional, &mut self.offsets)?,
                "size" => numbers(group, at, count, optional, &mut self.sizes)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// All columns that there are have the same rows.
    fn check(&self) -> Result<(), ParquetError> {
        let counts = [self.paths.len(), self.offsets.len(), self.sizes.len(), self.raws.len()];
        let most = counts.into_iter().max().unwrap_or(0);
        match counts.into_iter().all(|count| count == 0 || count == most) {
            true => Ok(()),
            false => Err(ParquetError::General("columns of different lengths".to_owned())),
        }
    }

    /// The rows that have a chunk. Where there are bytes, a path does not count; without offset and size it is a whole
    /// file. All as fsspec has it.
    fn entries(&self) -> impl Iterator<Item = (u64, Result<Entry<'_>, String>)> {
        (0..self.paths.len().max(self.raws.len())).filter_map(|row| {
            let entry = match (value(&self.raws, row), value(&self.paths, row)) {
                (Some(raw), _) => inline(raw),
                (None, Some(path)) => self.place(row, path),
                (None, None) => return None,
            };
            Some((row as u64, entry))
        })
    }

    fn place<'a>(&self, row: usize, path: &'a ByteArray) -> Result<Entry<'a>, String> {
        let url = std::str::from_utf8(path.data()).map_err(|_| "a path that is not UTF-8".to_owned())?;
        let number = |column: &[Option<i64>]| match column.is_empty() {
            true => Ok(0),
            false => column
                .get(row)
                .copied()
                .flatten()
                .and_then(|number| u64::try_from(number).ok())
                .ok_or_else(|| "an offset or size that is missing or negative".to_owned()),
        };
        let part = (number(&self.offsets)?, number(&self.sizes)?);
        Ok(Entry::Place(Place { url: url.into(), part: (part != (0, 0)).then_some(part) }))
    }
}

fn value(column: &[Option<ByteArray>], row: usize) -> Option<&ByteArray> {
    column.get(row)?.as_ref()
}

fn inline(raw: &ByteArray) -> Result<Entry<'static>, String> {
    match raw.data().strip_prefix(b"base64:") {
        Some(encoded) => BASE64_STANDARD
            .decode(encoded)
            .map(|bytes| Entry::Inline(bytes.into()))
            .map_err(|e| e.to_string()),
        // A copy: the value's own buffer is a whole page.
        None => Ok(Entry::Inline(Bytes::copy_from_slice(raw.data()))),
    }
}

/// Text or bytes; pyarrow says a column of nulls alone as one of integers.
fn texts(
    group: &dyn RowGroupReader,
    at: usize,
    count: usize,
    optional: bool,
    out: &mut Vec<Option<ByteArray>>,
) -> Result<(), ParquetError> {
    match group.get_column_reader(at)? {
        ColumnReader::ByteArrayColumnReader(reader) => values(reader, count, optional, out, |value| value),
        ColumnReader::Int32ColumnReader(reader) if optional => {
            let mut nulls = Vec::new();
            values(reader, count, optional, &mut nulls, |value| value)?;
            if nulls.iter().any(Option::is_some) {
                return Err(ParquetError::General("integers for text".to_owned()));
            }
            out.resize(out.len().saturating_add(nulls.len()), None);
            Ok(())
        }
        _ => Err(unexpected(group, at)),
    }
}

fn numbers(
    group: &dyn RowGroupReader,
    at: usize,
    count: usize,
    optional: bool,
    out: &mut Vec<Option<i64>>,
) -> Result<(), ParquetError> {
    match group.get_column_reader(at)? {
        ColumnReader::Int64ColumnReader(reader) => values(reader, count, optional, out, |value| value),
        ColumnReader::Int32ColumnReader(reader) => values(reader, count, optional, out, i64::from),
        _ => Err(unexpected(group, at)),
    }
}

fn unexpected(group: &dyn RowGroupReader, at: usize) -> ParquetError {
    let column = group.metadata().column(at);
    let found: Physical = column.column_type();
    ParquetError::General(format!("column {} is {found}", column.column_path().string()))
}

/// Appends a column: a value, or none, for each row.
fn values<T: DataType, V>(
    mut reader: ColumnReaderImpl<T>,
    count: usize,
    optional: bool,
    out: &mut Vec<Option<V>>,
    convert: impl Fn(T::T) -> V,
) -> Result<(), ParquetError> {
    let end = out.len().saturating_add(count);
    while out.len() < end {
        let (mut levels, mut found) = (Vec::new(), Vec::new());
        let most = (end - out.len()).min(BATCH);
        let (records, _, _) = reader.read_records(most, optional.then_some(&mut levels), None, &mut found)?;
        if records == 0 {
            return Err(ParquetError::General("fewer values than rows".to_owned()));
        }
        let mut found = found.into_iter().map(&convert);
        match optional {
            true => out.extend(levels.iter().map(|level| if *level == 1 { found.next() } else { None })),
            false => out.extend(found.map(Some)),
        }
    }
    Ok(())
}
