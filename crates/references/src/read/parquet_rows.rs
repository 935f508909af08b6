//! Rows of a row group, decoded batch by batch.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ::parquet::{
    basic::Encoding,
    column::{
        page::{Page, PageMetadata, PageReader},
        reader::{ColumnReader, ColumnReaderImpl, get_column_reader},
    },
    data_type::{ByteArray, DataType},
    errors::ParquetError,
    file::reader::RowGroupReader,
    schema::types::ColumnDescPtr,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;

use super::{Entry, Place};

/// Rows per batch.
const BATCH: usize = 8192;

/// The columns of a row group, read up to some row. A missing column has no values.
pub(super) struct Rows {
    left: usize,
    path: Option<Column>,
    offset: Option<Column>,
    size: Option<Column>,
    raw: Option<Column>,
}

/// A batch of rows. A missing column has no values.
pub(super) struct Batch {
    count: usize,
    paths: Vec<Option<ByteArray>>,
    offsets: Vec<Option<i64>>,
    sizes: Vec<Option<i64>>,
    raws: Vec<Option<ByteArray>>,
}

/// A column. pyarrow writes one of text that is entirely null as integers.
struct Column {
    reader: ColumnReader,
    described: ColumnDescPtr,
}

impl Rows {
    /// Starts to read a row group, whose pages take at most `bytes` together, decompressed.
    pub(super) fn new(group: &dyn RowGroupReader, bytes: &Arc<AtomicU64>) -> Result<Self, ParquetError> {
        let left = usize::try_from(group.metadata().num_rows())
            .map_err(|_| ParquetError::General("a negative number of rows".to_owned()))?;
        let mut rows = Self { left, path: None, offset: None, size: None, raw: None };
        for at in 0..group.num_columns() {
            let column = group.metadata().column(at);
            let name = column.column_path().string();
            let described = column.column_descr();
            if described.max_def_level() > 1 || described.max_rep_level() > 0 {
                return Err(ParquetError::General(format!("column {name} is nested")));
            }
            let target = match name.as_str() {
                "path" => &mut rows.path,
                "raw" => &mut rows.raw,
                "offset" => &mut rows.offset,
                "size" => &mut rows.size,
                _ => continue,
            };
            let pages = CheckedPages::new(group, at, bytes)?;
            let described = column.column_descr_ptr();
            let reader = get_column_reader(described.clone(), Box::new(pages));
            *target = Some(Column { reader, described });
        }
        // Writers may omit columns without values: those of urls if all chunks are inline, and the other way around.
        if rows.path.is_none() && rows.raw.is_none() {
            return Err(ParquetError::General("neither a column path nor raw".to_owned()));
        }
        if rows.offset.is_some() != rows.size.is_some() {
            return Err(ParquetError::General("only one of the columns offset and size".to_owned()));
        }
        Ok(rows)
    }

    /// Returns the next rows; `None` at the end.
    pub(super) fn batch(&mut self) -> Result<Option<Batch>, ParquetError> {
        let count = self.left.min(BATCH);
        self.left -= count;
        if count == 0 {
            return Ok(None);
        }
        let texts =
            |column: &mut Option<Column>| column.as_mut().map_or(Ok(Vec::new()), |it| it.texts(count));
        let (paths, raws) = (texts(&mut self.path)?, texts(&mut self.raw)?);
        let numbers =
            |column: &mut Option<Column>| column.as_mut().map_or(Ok(Vec::new()), |it| it.numbers(count));
        let (offsets, sizes) = (numbers(&mut self.offset)?, numbers(&mut self.size)?);
        Ok(Some(Batch { count, paths, offsets, sizes, raws }))
    }
}

impl Batch {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the rows that have a chunk, as fsspec interprets them: inline bytes take precedence over a path, and a
    /// path with offset and size 0 is a whole file.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Result<Entry<'_>, String>)> {
        (0..self.count).filter_map(|row| {
            let entry = match (value(&self.raws, row), value(&self.paths, row)) {
                (Some(raw), _) => inline(raw),
                (None, Some(path)) => self.place(row, path),
                (None, None) => return None,
            };
            Some((row, entry))
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
        Some(encoded) => {
            let bytes = BASE64_STANDARD.decode(encoded).map_err(|error| error.to_string())?;
            Ok(Entry::Inline(bytes.into()))
        }
        // A copy: the value's own buffer is a whole page.
        None => Ok(Entry::Inline(Bytes::copy_from_slice(raw.data()))),
    }
}

/// Pages of a column, checked before their values are decoded: the `parquet` crate allocates as many values as a page
/// declares.
struct CheckedPages {
    pages: Box<dyn PageReader>,
    /// Number of rows of the row group.
    rows: u64,
    /// Bytes left for the pages of the file.
    bytes: Arc<AtomicU64>,
}

impl CheckedPages {
    fn new(group: &dyn RowGroupReader, at: usize, bytes: &Arc<AtomicU64>) -> Result<Self, ParquetError> {
        let rows = u64::try_from(group.metadata().num_rows()).unwrap_or_default();
        Ok(Self { pages: group.get_column_page_reader(at)?, rows, bytes: Arc::clone(bytes) })
    }

    /// Rejects a page of more values than rows or bytes, of an encoding that no writer of references uses, or beyond the
    /// size limit of the file.
    fn check(&self, page: &Page) -> Result<(), ParquetError> {
        let size = page.buffer().len() as u64;
        let values = u64::from(page.num_values());
        // Values of a dictionary take memory before they are read. Rows of other pages may all be one value.
        let limit = if matches!(page, Page::DictionaryPage { .. }) { size } else { self.rows };
        let fits = |left: u64| left.checked_sub(size);
        let reason = if values > limit {
            format!("a page of {values} values, expected at most {limit}")
        } else if !matches!(
            page.encoding(),
            Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
        ) {
            format!("encoding {}, expected plain or a dictionary", page.encoding())
        } else if self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            "the pages are too large".to_owned()
        } else {
            return Ok(());
        };
        Err(ParquetError::General(reason))
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        page.iter().try_for_each(|page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}

impl Column {
    fn texts(&mut self, count: usize) -> Result<Vec<Option<ByteArray>>, ParquetError> {
        let is_optional = self.is_optional();
        match &mut self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => read(reader, is_optional, count, |value| value),
            ColumnReader::Int32ColumnReader(reader) if is_optional => {
                let nulls = read(reader, is_optional, count, |value| value)?;
                if nulls.iter().any(Option::is_some) {
                    return Err(ParquetError::General("integers for text".to_owned()));
                }
                Ok(vec![None; nulls.len()])
            }
            _ => Err(self.unexpected()),
        }
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<Option<i64>>, ParquetError> {
        let is_optional = self.is_optional();
        match &mut self.reader {
            ColumnReader::Int64ColumnReader(reader) => read(reader, is_optional, count, |value| value),
            ColumnReader::Int32ColumnReader(reader) => read(reader, is_optional, count, i64::from),
            _ => Err(self.unexpected()),
        }
    }

    fn is_optional(&self) -> bool {
        self.described.max_def_level() == 1
    }

    fn unexpected(&self) -> ParquetError {
        let (name, kind) = (self.described.path().string(), self.described.physical_type());
        ParquetError::General(format!("column {name} is {kind}"))
    }
}

/// Reads a value, or none, for each of `count` rows.
fn read<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    is_optional: bool,
    count: usize,
    convert: impl Fn(T::T) -> V,
) -> Result<Vec<Option<V>>, ParquetError> {
    let mut out = Vec::with_capacity(count);
    while out.len() < count {
        let (mut levels, mut found) = (Vec::new(), Vec::new());
        let levels_out = is_optional.then_some(&mut levels);
        let (records, _, _) = reader.read_records(count - out.len(), levels_out, None, &mut found)?;
        if records == 0 {
            return Err(ParquetError::General("fewer values than rows".to_owned()));
        }
        let mut found = found.into_iter().map(&convert);
        if is_optional {
            out.extend(levels.iter().map(|level| if *level == 1 { found.next() } else { None }));
        } else {
            out.extend(found.map(Some));
        }
    }
    Ok(out)
}
