//! Rows of a Parquet file that was written earlier.

use bytes::Bytes;
use parquet::{
    column::reader::get_typed_column_reader,
    data_type::DataType,
    errors::ParquetError,
    file::{
        reader::{FileReader, RowGroupReader},
        serialized_reader::SerializedFileReader,
    },
};

/// Values of a column, and definition levels if it is nullable.
pub(crate) struct ColumnRows<T: DataType> {
    pub(crate) values: Vec<T::T>,
    pub(crate) levels: Vec<i16>,
}

/// Opens the only row group of a file.
pub(crate) fn with_rows<T>(
    file: Bytes,
    read: impl FnOnce(&dyn RowGroupReader) -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    let file = SerializedFileReader::new(file)?;
    read(file.get_row_group(0)?.as_ref())
}

/// Reads the first rows of a column.
pub(crate) fn column<T: DataType>(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
) -> Result<ColumnRows<T>, ParquetError> {
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let (more, _, _) = reader.read_records(rows - done, Some(&mut levels), None, &mut values)?;
        if more == 0 {
            return Err(ParquetError::General(format!("{done} rows, expected at least {rows}")));
        }
        done += more;
    }
    Ok(ColumnRows { values, levels })
}
