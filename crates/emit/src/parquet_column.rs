//! A column of a Parquet file, in the smallest of several spellings.

use std::{io, sync::Arc};

use bytes::Bytes;
use parquet::{
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

pub(crate) type Out<'a> = Box<dyn io::Write + Send + 'a>;

/// Bytes of a page: all of a column, but for very large inline chunks.
const PAGE: usize = 64 << 20;

/// How a column is spelled.
#[derive(Clone, Copy)]
pub(crate) struct Spelling {
    pub dictionary: bool,
    /// zstd's level. Level 1 looks for long repetitions alone and leaves more to its entropy coder: numbers without any
    /// order, such as sizes of compressed chunks, come out a fifth smaller than at level 3, which fastparquet uses, and
    /// numbers in steps, such as offsets, a third larger.
    pub level: i32,
}

impl Spelling {
    /// Of the file, and of a column that is written in one spelling.
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
            // No column changes from dictionary to plain on its way, which would bring back NaN.
            .set_dictionary_page_size_limit(usize::MAX);
        for column in statistics {
            builder =
                builder.set_column_statistics_enabled(ColumnPath::from(*column), EnabledStatistics::Chunk);
        }
        builder.build()
    }
}

/// A column on its way into a row group: values, and levels where it can have none.
pub(crate) struct Column<'a, T: DataType> {
    pub described: ColumnDescPtr,
    pub values: &'a [T::T],
    pub levels: Option<&'a [i16]>,
    /// Columns whose statistics are written.
    pub statistics: &'a [&'a str],
}

impl<T: DataType> Column<'_, T> {
    /// Writes the column in that of some spellings which takes the fewest bytes; the first of those that take the same.
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
