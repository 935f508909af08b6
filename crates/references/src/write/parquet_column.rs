//! A column of a Parquet file, in the smallest of several encodings.

use std::{io, sync::Arc};

use ::parquet::{
    basic::{Compression, ZstdLevel},
    column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer},
    data_type::DataType,
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite},
    },
    schema::types::{ColumnDescPtr, ColumnPath},
};
use bytes::Bytes;

pub(crate) type Out<'a> = Box<dyn io::Write + Send + 'a>;

/// Size limit of a data page in bytes. A page holds a whole column, except for very large inline chunks.
const PAGE: usize = 64 << 20;

/// Encoding and compression level of a column.
#[derive(Clone, Copy)]
pub(crate) struct Spelling {
    pub dictionary: bool,
    /// Compression level of zstd. Level 1 searches for long repetitions only and leaves more to the entropy coder.
    /// Compared with level 3, which fastparquet uses, unordered numbers, such as sizes of compressed chunks, become a
    /// fifth smaller, and regular sequences, such as offsets, become a third larger.
    pub level: i32,
}

impl Spelling {
    /// Returns the writer properties of a file, or of a column in this encoding.
    pub(crate) fn properties(self, statistics: &[&str]) -> WriterProperties {
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
        for column in statistics {
            builder =
                builder.set_column_statistics_enabled(ColumnPath::from(*column), EnabledStatistics::Chunk);
        }
        builder.build()
    }
}

/// A column to append to a row group: its values, and definition levels if the column is nullable.
pub(crate) struct Column<'a, T: DataType> {
    pub described: ColumnDescPtr,
    pub values: &'a [T::T],
    pub levels: Option<&'a [i16]>,
    /// Names of the columns whose statistics are written.
    pub statistics: &'a [&'a str],
}

impl<T: DataType> Column<'_, T> {
    /// Writes the column in the one of several encodings that takes the fewest bytes. The first wins a tie.
    pub(crate) fn write(
        &self,
        spellings: &[Spelling],
        rows: &mut SerializedRowGroupWriter<'_, Out<'_>>,
    ) -> Result<(), ParquetError> {
        let mut smallest: Option<(Bytes, ColumnCloseResult)> = None;
        for spelling in spellings {
            let (bytes, close) = self.spell(*spelling)?;
            if smallest.as_ref().is_none_or(|(least, _)| bytes.len() < least.len()) {
                smallest = Some((bytes, close));
            }
        }
        let none = || ParquetError::General("a column without a spelling".to_owned());
        let (bytes, close) = smallest.ok_or_else(none)?;
        rows.append_column(&bytes, close)
    }

    /// Encodes the column in memory.
    fn spell(&self, spelling: Spelling) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut out = TrackedWrite::new(Vec::new());
        let properties = Arc::new(spelling.properties(self.statistics));
        let pages = Box::new(SerializedPageWriter::new(&mut out));
        let mut writer =
            get_typed_column_writer::<T>(get_column_writer(Arc::clone(&self.described), properties, pages));
        writer.write_batch(self.values, self.levels, None)?;
        let close = writer.close()?;
        Ok((out.into_inner()?.into(), close))
    }
}
