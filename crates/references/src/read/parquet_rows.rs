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
    data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type},
    errors::ParquetError,
    file::reader::RowGroupReader,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;

use super::{Entry, Place};

/// Rows per batch.
const BATCH: usize = 8192;

/// The columns of a row group, read up to some row. A missing column has no values.
pub(super) struct Rows {
    left: usize,
    path: Option<Texts>,
    offset: Option<Numbers>,
    size: Option<Numbers>,
    raw: Option<Texts>,
}

/// A batch of rows. A missing column has no values.
pub(super) struct Batch {
    count: usize,
    paths: Vec<Option<ByteArray>>,
    offsets: Vec<Option<i64>>,
    sizes: Vec<Option<i64>>,
    raws: Vec<Option<ByteArray>>,
}

struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    optional: bool,
}

/// Text or bytes. pyarrow writes a column that is entirely null as integers.
enum Texts {
    Bytes(Column<ByteArrayType>),
    Nulls(Column<Int32Type>),
}

enum Numbers {
    Long(Column<Int64Type>),
    Short(Column<Int32Type>),
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
            let optional = described.max_def_level() == 1;
            match name.as_str() {
                "path" => rows.path = Some(texts(group, at, optional, bytes)?),
                "raw" => rows.raw = Some(texts(group, at, optional, bytes)?),
                "offset" => rows.offset = Some(numbers(group, at, optional, bytes)?),
                "size" => rows.size = Some(numbers(group, at, optional, bytes)?),
                _ => {}
            }
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
        let read = |texts: &mut Option<Texts>| texts.as_mut().map_or(Ok(Vec::new()), |it| it.read(count));
        let (paths, raws) = (read(&mut self.path)?, read(&mut self.raw)?);
        let read =
            |numbers: &mut Option<Numbers>| numbers.as_mut().map_or(Ok(Vec::new()), |it| it.read(count));
        let (offsets, sizes) = (read(&mut self.offset)?, read(&mut self.size)?);
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

fn texts(
    group: &dyn RowGroupReader,
    at: usize,
    optional: bool,
    bytes: &Arc<AtomicU64>,
) -> Result<Texts, ParquetError> {
    match CheckedPages::column(group, at, bytes)? {
        ColumnReader::ByteArrayColumnReader(reader) => Ok(Texts::Bytes(Column { reader, optional })),
        ColumnReader::Int32ColumnReader(reader) if optional => Ok(Texts::Nulls(Column { reader, optional })),
        _ => Err(unexpected(group, at)),
    }
}

fn numbers(
    group: &dyn RowGroupReader,
    at: usize,
    optional: bool,
    bytes: &Arc<AtomicU64>,
) -> Result<Numbers, ParquetError> {
    match CheckedPages::column(group, at, bytes)? {
        ColumnReader::Int64ColumnReader(reader) => Ok(Numbers::Long(Column { reader, optional })),
        ColumnReader::Int32ColumnReader(reader) => Ok(Numbers::Short(Column { reader, optional })),
        _ => Err(unexpected(group, at)),
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
    /// Returns the reader of a column.
    fn column(
        group: &dyn RowGroupReader,
        at: usize,
        bytes: &Arc<AtomicU64>,
    ) -> Result<ColumnReader, ParquetError> {
        let rows = u64::try_from(group.metadata().num_rows()).unwrap_or_default();
        let pages = group.get_column_page_reader(at)?;
        let checked = Self { pages, rows, bytes: Arc::clone(bytes) };
        Ok(get_column_reader(group.metadata().column(at).column_descr_ptr(), Box::new(checked)))
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

fn unexpected(group: &dyn RowGroupReader, at: usize) -> ParquetError {
    let column = group.metadata().column(at);
    ParquetError::General(format!("column {} is {}", column.column_path().string(), column.column_type()))
}

impl Texts {
    fn read(&mut self, count: usize) -> Result<Vec<Option<ByteArray>>, ParquetError> {
        match self {
            Self::Bytes(column) => column.read(count, |value| value),
            Self::Nulls(column) => {
                let nulls = column.read(count, |value| value)?;
                match nulls.iter().any(Option::is_some) {
                    true => Err(ParquetError::General("integers for text".to_owned())),
                    false => Ok(vec![None; nulls.len()]),
                }
            }
        }
    }
}

impl Numbers {
    fn read(&mut self, count: usize) -> Result<Vec<Option<i64>>, ParquetError> {
        match self {
            Self::Long(column) => column.read(count, |value| value),
            Self::Short(column) => column.read(count, i64::from),
        }
    }
}

impl<T: DataType> Column<T> {
    /// Reads a value, or none, for each of `count` rows.
    fn read<V>(&mut self, count: usize, convert: impl Fn(T::T) -> V) -> Result<Vec<Option<V>>, ParquetError> {
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            let (mut levels, mut found) = (Vec::new(), Vec::new());
            let levels_out = self.optional.then_some(&mut levels);
            let (records, _, _) =
                self.reader.read_records(count - out.len(), levels_out, None, &mut found)?;
            if records == 0 {
                return Err(ParquetError::General("fewer values than rows".to_owned()));
            }
            let mut found = found.into_iter().map(&convert);
            match self.optional {
                true => out.extend(levels.iter().map(|level| if *level == 1 { found.next() } else { None })),
                false => out.extend(found.map(Some)),
            }
        }
        Ok(out)
    }
}
