//! Columns of a row group.

use parquet::{
    basic::Type as Physical,
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::DataType,
    file::{
        reader::RowGroupReader, serialized_reader::SerializedRowGroupReader, writer::SerializedRowGroupWriter,
    },
};

use super::sealed::{Fault, Part};

/// Columns to write, in the order of the schema.
pub(super) struct Columns<'a, 'b>(pub(super) &'a mut SerializedRowGroupWriter<'b, Vec<u8>>);

impl Columns<'_, '_> {
    /// Writes a column without nulls.
    pub(super) fn required<T: DataType>(&mut self, values: &[T::T]) -> Result<(), Fault> {
        self.column::<T>(values, None, None)
    }

    /// Writes a column with nulls.
    pub(super) fn optional<T: DataType>(
        &mut self,
        values: impl IntoIterator<Item = Option<T::T>>,
    ) -> Result<(), Fault> {
        let (mut present, mut levels) = (Vec::new(), Vec::new());
        for value in values {
            levels.push(i16::from(value.is_some()));
            present.extend(value);
        }
        self.column::<T>(&present, Some(&levels), None)
    }

    /// Writes a column of lists, given their lengths.
    pub(super) fn repeated<T: DataType>(&mut self, values: &[T::T], lengths: &[usize]) -> Result<(), Fault> {
        let (mut present, mut repeated) = (Vec::new(), Vec::new());
        for length in lengths {
            present.extend(std::iter::repeat_n(i16::from(*length > 0), (*length).max(1)));
            repeated.push(0);
            repeated.extend(std::iter::repeat_n(1, length.saturating_sub(1)));
        }
        self.column::<T>(values, Some(&present), Some(&repeated))
    }

    fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        present: Option<&[i16]>,
        repeated: Option<&[i16]>,
    ) -> Result<(), Fault> {
        let column = self.0.next_column()?;
        let mut column = column.ok_or_else(|| Fault::Library("more columns than declared".to_owned()))?;
        column.typed::<T>().write_batch(values, present, repeated)?;
        Ok(column.close()?)
    }
}

/// The columns of a row group that is read.
pub(super) struct Group<'a> {
    pub(super) rows: usize,
    pub(super) reader: &'a SerializedRowGroupReader<'a, Part>,
}

/// A column of lists: the length of each, and the values of all.
pub(super) struct Lists<T> {
    pub(super) lengths: Vec<usize>,
    pub(super) values: Vec<T>,
}

impl Group<'_> {
    /// Reads a column without nulls.
    pub(super) fn required<T: DataType>(&self, name: &'static str) -> Result<Vec<T::T>, Fault> {
        Ok(read(name, self.typed::<T>(name, (0, 0))?, self.rows, false)?.1)
    }

    /// Reads a column with nulls.
    pub(super) fn optional<T: DataType>(&self, name: &'static str) -> Result<Vec<Option<T::T>>, Fault> {
        let ((present, _), values) = read(name, self.typed::<T>(name, (1, 0))?, self.rows, false)?;
        spread(name, &present, values)
    }

    /// Reads a column of lists.
    pub(super) fn repeated<T: DataType>(&self, name: &'static str) -> Result<Lists<T::T>, Fault> {
        lists(name, self.rows, read(name, self.typed::<T>(name, (1, 1))?, self.rows, true)?)
    }

    fn typed<T: DataType>(
        &self,
        name: &'static str,
        levels: (i16, i16),
    ) -> Result<ColumnReaderImpl<T>, Fault> {
        T::get_column_reader(self.column(name, levels)?).ok_or_else(|| {
            let expected = match T::get_physical_type() {
                Physical::BYTE_ARRAY => "text or bytes",
                _ => "64-bit integers",
            };
            Fault::Column { name, reason: format!("not of {expected}") }
        })
    }

    /// Returns the reader of a column with these greatest levels of definition and repetition.
    fn column(&self, name: &'static str, levels: (i16, i16)) -> Result<ColumnReader, Fault> {
        let wrong = |reason: &str| Fault::Column { name, reason: reason.to_owned() };
        let columns = self.reader.metadata().columns();
        let at = columns.iter().position(|column| column.column_path().string() == name);
        let at = at.ok_or_else(|| wrong("missing"))?;
        let described = self.reader.metadata().column(at).column_descr();
        match (described.max_def_level(), described.max_rep_level()) == levels {
            true => Ok(self.reader.get_column_reader(at)?),
            false => Err(wrong("nullable or repeated other than expected")),
        }
    }
}

/// Levels of definition and repetition.
type Levels = (Vec<i16>, Vec<i16>);

/// Reads a whole column.
fn read<T: DataType>(
    name: &'static str,
    mut column: ColumnReaderImpl<T>,
    rows: usize,
    is_repeated: bool,
) -> Result<(Levels, Vec<T::T>), Fault> {
    let (mut present, mut repeated, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let levels = is_repeated.then_some(&mut repeated);
        let (records, _, _) = column.read_records(rows - done, Some(&mut present), levels, &mut values)?;
        if records == 0 {
            return Err(Fault::Column { name, reason: "fewer values than rows".to_owned() });
        }
        done += records;
    }
    Ok(((present, repeated), values))
}

/// Puts nulls between values.
fn spread<T>(name: &'static str, present: &[i16], values: Vec<T>) -> Result<Vec<Option<T>>, Fault> {
    let mut values = values.into_iter();
    let all: Vec<Option<T>> =
        present.iter().map(|level| if *level == 1 { values.next() } else { None }).collect();
    let is_complete = values.next().is_none()
        && all.iter().zip(present).all(|(value, level)| value.is_some() == (*level == 1));
    match is_complete {
        true => Ok(all),
        false => Err(Fault::Column { name, reason: "values and nulls do not match".to_owned() }),
    }
}

/// Divides values into lists.
fn lists<T>(
    name: &'static str,
    rows: usize,
    ((present, repeated), values): (Levels, Vec<T>),
) -> Result<Lists<T>, Fault> {
    let mut lengths: Vec<usize> = Vec::with_capacity(rows);
    let mut is_good = present.len() == repeated.len();
    for (present, repeated) in present.iter().zip(&repeated) {
        if *repeated == 0 {
            lengths.push(0);
        }
        match lengths.last_mut() {
            Some(length) if *present == 1 => *length += 1,
            Some(_) if *repeated == 0 => {}
            _ => is_good = false,
        }
    }
    is_good &= lengths.len() == rows && lengths.iter().sum::<usize>() == values.len();
    match is_good {
        true => Ok(Lists { lengths, values }),
        false => Err(Fault::Column { name, reason: "lists and values do not match".to_owned() }),
    }
}
