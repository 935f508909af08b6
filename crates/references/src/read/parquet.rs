//! kerchunk's Parquet layout: `.zmetadata`, and for each array files `NAME/refs.N.parq` with `record_size` chunks each.
//! <https://fsspec.github.io/kerchunk/spec.html#parquet-references>

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, atomic::AtomicU64},
};

use ::parquet::{
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use virtualize_zarr::{Array, node};

use super::{
    Entry, ReferenceSet, ReferencesError,
    hierarchy::Builder,
    numbers,
    parquet_rows::{Batch, Rows},
};

/// Greatest number of rows of a file.
const ROWS: u64 = 16 << 20;
/// Greatest length of the footer in bytes. Four columns in one row group take about 1 KB.
const FOOTER: u64 = 1 << 20;
/// Bytes of the footer's length and `PAR1`, which end a file.
const END: usize = 8;
/// Greatest size of all pages of a file in bytes, decompressed.
const PAGES: u64 = 1 << 30;
/// Greatest size of all inline chunks together, in bytes.
const INLINE: u64 = 1 << 30;

/// Reads references in kerchunk's Parquet layout. Create it from `.zmetadata`, then add the files of all arrays, or of
/// [some](Self::of_arrays), in any order.
pub struct ParquetReferences {
    builder: Builder,
    record_size: u64,
    /// Bytes left for inline chunks.
    inline: u64,
}

#[derive(Deserialize)]
struct Metadata {
    metadata: Map<String, Value>,
    record_size: u64,
}

impl ParquetReferences {
    /// Parses the metadata of all nodes.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn new(zmetadata: &[u8]) -> Result<Self, ReferencesError> {
        let json = |error: serde_json::Error| ReferencesError::Json(error.to_string());
        let document = numbers::parse(zmetadata).map_err(json)?;
        let read: Metadata = serde_json::from_value(document).map_err(json)?;
        if read.record_size == 0 || read.record_size > ROWS {
            let problem = format!("record_size {}, expected 1 to {ROWS}", read.record_size);
            return Err(ReferencesError::at(".zmetadata", problem));
        }
        let mut builder = Builder::of(read.metadata.into_iter().collect());
        builder.nodes()?;
        Ok(Self { builder, record_size: read.record_size, inline: INLINE })
    }

    /// Returns a reader of some arrays, without the chunks that were added so far.
    pub fn of_arrays<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        Self { builder: self.builder.of_arrays(paths), record_size: self.record_size, inline: INLINE }
    }

    /// Returns groups and arrays without chunks.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn metadata(&self) -> Result<ReferenceSet, ReferencesError> {
        self.builder.without_chunks().finish()
    }

    /// Returns an array without chunks.
    pub fn array(&self, path: &str) -> Option<&Array> {
        self.builder.array(path)
    }

    /// Returns the number of chunks of each file, in row-major order of the grid.
    pub fn record_size(&self) -> u64 {
        self.record_size
    }

    /// Returns the path of each array and the number of its [files](Self::key). A file whose chunks are all missing may
    /// be missing itself.
    pub fn arrays(&self) -> Vec<(String, u64)> {
        let count = |chunks: u64| chunks.div_ceil(self.record_size);
        self.builder.grids().map(|(path, chunks)| (path.to_owned(), count(chunks))).collect()
    }

    /// Returns the key of a file of an array, such as `a/refs.0.parq`.
    pub fn key(&self, path: &str, number: usize) -> String {
        self.builder.key_of(path, &format!("refs.{number}.parq"))
    }

    /// Adds the file of a key such as `a/refs.0.parq`. Keys of other forms, or of no array, are listed in
    /// [`ReferenceSet::ignored`].
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn add(&mut self, key: &str, file: Bytes) -> Result<(), ReferencesError> {
        let Some((path, total, number)) = self.part(key) else {
            self.builder.ignore(key);
            return Ok(());
        };
        let wrong = |fault: String| ReferencesError::at(key, fault);
        let start = number.saturating_mul(self.record_size);
        let mut file = File::open(file, self.record_size).map_err(wrong)?;
        let mut first = 0_u64;
        while let Some(batch) = file.batch().map_err(wrong)? {
            for (row, entry) in batch.entries() {
                let row = first.saturating_add(row as u64);
                let position = start.checked_add(row).filter(|at| *at < total);
                let position =
                    position.ok_or_else(|| wrong(format!("a chunk in row {row}, outside the grid")))?;
                let entry = entry.and_then(|entry| self.bounded(entry));
                let entry = entry.map_err(|fault| wrong(format!("row {row}: {fault}")))?;
                self.builder.put(&path, position, entry)?;
            }
            first = first.saturating_add(batch.len() as u64);
        }
        // Missing chunks are rows, too: without this check, those of an incomplete file would read as the fill value.
        let expected = total.saturating_sub(start).min(self.record_size);
        if first < expected {
            return Err(wrong(format!("{first} rows, expected {expected}")));
        }
        Ok(())
    }

    /// Counts the bytes of inline chunks.
    fn bounded<'a>(&mut self, entry: Entry<'a>) -> Result<Entry<'a>, String> {
        if let Entry::Inline(bytes) = &entry {
            let left = self.inline.checked_sub(bytes.len() as u64);
            self.inline = left.ok_or_else(|| format!("more than {INLINE} bytes are inline"))?;
        }
        Ok(entry)
    }

    /// Returns the hierarchy after all files were added.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn finish(self) -> Result<ReferenceSet, ReferencesError> {
        self.builder.finish()
    }

    /// Returns the array's path, its number of grid cells, and the number of the file.
    fn part(&self, key: &str) -> Option<(String, u64, u64)> {
        let key = self.builder.path_of(key);
        let (path, name) = node::split(&key);
        let number = name.strip_prefix("refs.")?.strip_suffix(".parq")?.parse().ok()?;
        Some((path.to_owned(), self.builder.grid(path)?, number))
    }
}

/// A file that is read batch by batch. Its sizes are checked before it is decoded, and panics of the `parquet` crate
/// are errors.
struct File {
    reader: SerializedFileReader<Bytes>,
    /// The next row group.
    next: usize,
    rows: Option<Rows>,
    /// Bytes left for the pages of the file, decompressed.
    left: Arc<AtomicU64>,
}

impl File {
    /// Opens a file of at most `most` rows.
    fn open(file: Bytes, most: u64) -> Result<Self, String> {
        check_footer(&file)?;
        let reader = checked(caught(|| SerializedFileReader::new(file.clone())))?;
        let metadata = reader.metadata();
        let groups = metadata.row_groups().iter();
        let rows = groups.fold(0, |rows: u64, group| {
            rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or(u64::MAX))
        });
        if rows > most {
            return Err(format!("{rows} rows, expected at most {most}"));
        }
        Ok(Self { reader, next: 0, rows: None, left: Arc::new(AtomicU64::new(PAGES)) })
    }

    /// Returns the next rows; `None` at the end.
    fn batch(&mut self) -> Result<Option<Batch>, String> {
        checked(caught(|| {
            loop {
                if let Some(batch) = self.rows.as_mut().map_or(Ok(None), Rows::batch)? {
                    return Ok(Some(batch));
                }
                if self.next >= self.reader.num_row_groups() {
                    return Ok(None);
                }
                self.rows = Some(Rows::new(self.reader.get_row_group(self.next)?.as_ref(), &self.left)?);
                self.next += 1;
            }
        }))
    }
}

/// Turns the outcome of the `parquet` crate, `None` after a panic, into a fault.
fn checked<T>(outcome: Option<Result<T, ParquetError>>) -> Result<T, String> {
    outcome.ok_or("no Parquet file that can be read")?.map_err(|error| error.to_string())
}

/// Runs a function and returns `None` if it panics. The panic hook of the process reports the panic as any other.
///
/// The `parquet` crate panics on some damaged files that pass the checks of this crate.
fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(run)).ok()
}

/// Rejects a footer that is longer than the file, or than [`FOOTER`].
fn check_footer(file: &[u8]) -> Result<(), String> {
    let end = file.len().checked_sub(END).and_then(|at| file.get(at..));
    let length = end.and_then(|end| end.first_chunk()).map(|length| u64::from(u32::from_le_bytes(*length)));
    let length = length.ok_or_else(|| format!("{} bytes, too few for a footer", file.len()))?;
    let limit = FOOTER.min((file.len() as u64).saturating_sub(END as u64));
    if length <= limit {
        return Ok(());
    }
    Err(format!("footer of {length} bytes, expected at most {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_are_bounded_by_the_file() {
        let footer = |length: u32, size: usize| {
            let mut file = vec![0; size];
            file.extend_from_slice(&length.to_le_bytes());
            file.extend_from_slice(b"PAR1");
            check_footer(&file)
        };
        assert_eq!(footer(100, 100), Ok(()));
        assert!(footer(101, 100).is_err());
        assert!(footer(2 << 20, 4 << 20).is_err());
        assert!(check_footer(b"PAR1").is_err());
    }
}
