//! A Parquet file in which any damaged byte is found.
//!
//! ```text
//! PAR1 | row group | row group | … | footer | length of the footer | PAR1
//! ```
//!
//! The footer's metadata has three entries: `virtualize` (a header, as JSON), `virtualize.groups` (length and SHA-256 of
//! each row group, as JSON), and `virtualize.sha256`: the SHA-256 of the footer itself, computed while its 64 characters
//! were zeros. A reader that fetches only the footer and a row group can therefore trust both.

use std::sync::Arc;

use bytes::{Buf, Bytes, buf::Reader};
use parquet::{
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader, page_index::RowGroupPageIndex},
        properties::{EnabledStatistics, ReaderProperties, WriterProperties},
        reader::{ChunkReader, Length},
        serialized_reader::SerializedRowGroupReader,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::{ColumnPath, TypePtr},
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use virtualize_references::untrusted_parquet::{caught, check_row_group};

/// Names of the entries of the footer.
const HEADER: &str = "virtualize";
const GROUPS: &str = "virtualize.groups";
const SEAL: &str = "virtualize.sha256";
/// What precedes the 64 characters of the seal in the footer: its name, and the type and length of its value in Thrift's
/// compact protocol.
const BEFORE_SEAL: &[u8] = b"virtualize.sha256\x18\x40";
/// Characters of a SHA-256.
const DIGEST: usize = 64;
/// The magic number, at both ends.
const MAGIC: &[u8] = b"PAR1";
/// Bytes after the footer: its length and the magic number.
pub(super) const END: u64 = 8;
/// Greatest length of a footer in bytes.
const FOOTER: u64 = 64 << 20;
/// Greatest size of a row group in bytes, decompressed.
const DECOMPRESSED: u64 = 1 << 30;
/// Greatest number of rows of a row group.
const ROWS: usize = 1 << 20;
/// Level of Zstandard.
const LEVEL: i32 = 3;

/// What is wrong with a sealed file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0} bytes, too few for a footer")]
    Short(u64),
    #[error("it does not begin and end with PAR1")]
    Magic,
    #[error("footer of {length} bytes, expected at most {limit}")]
    Footer { length: u64, limit: u64 },
    #[error("the footer has no {0}")]
    Entry(&'static str),
    #[error("SHA-256 of the footer is {found}, expected {expected}")]
    FooterDigest { found: String, expected: String },
    #[error("SHA-256 of row group {index} is {found}, expected {expected}")]
    GroupDigest { index: usize, found: String, expected: String },
    #[error("row groups of {found} bytes, expected {expected}")]
    Size { found: u64, expected: u64 },
    #[error("{found} row groups, expected {expected}")]
    GroupCount { found: usize, expected: usize },
    #[error("{found} rows in a row group, expected at most {limit}")]
    Rows { found: i64, limit: usize },
    #[error("{what}: {error}")]
    Json { what: &'static str, error: String },
    #[error("column {name}: {reason}")]
    Column { name: &'static str, reason: String },
    #[error("row {row}: {reason}")]
    Row { row: u64, reason: String },
    #[error("{0}")]
    Library(String),
    #[error("the parquet library panicked")]
    Panic,
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        Self::Library(error.to_string().replace('\n', " "))
    }
}

/// Writes a sealed file to memory.
pub(super) struct SealedWriter {
    file: SerializedFileWriter<Vec<u8>>,
    groups: Vec<(u64, String)>,
    /// End of the last row group.
    end: usize,
}

impl SealedWriter {
    /// Starts a file. Columns in `repetitive` store equal values of a row group once.
    pub(super) fn new(schema: TypePtr, repetitive: &[&str]) -> Result<Self, Fault> {
        let mut properties = WriterProperties::builder()
            .set_created_by("virtualize".to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(None)
            .set_data_page_size_limit(16 << 20)
            .set_data_page_row_count_limit(usize::MAX)
            .set_dictionary_enabled(false)
            .set_dictionary_page_size_limit(usize::MAX);
        for column in repetitive {
            let path = ColumnPath::new(column.split('.').map(str::to_owned).collect());
            properties = properties.set_column_dictionary_enabled(path, true);
        }
        let file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
        Ok(Self { file, groups: Vec::new(), end: MAGIC.len() })
    }

    /// Writes a row group.
    pub(super) fn group(
        &mut self,
        write: impl FnOnce(&mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut group = self.file.next_row_group()?;
        write(&mut group)?;
        group.close()?;
        self.file.flush().map_err(|error| Fault::Library(error.to_string()))?;
        let bytes = self.file.inner().get(self.end..).unwrap_or_default();
        self.groups.push((bytes.len() as u64, sha256(&[bytes])));
        self.end = self.file.inner().len();
        Ok(())
    }

    /// Returns the bytes of the file with this header, and the SHA-256 of its footer.
    pub(super) fn finish(mut self, header: &impl Serialize) -> Result<(Bytes, String), Fault> {
        let json = |what, error: serde_json::Error| Fault::Json { what, error: error.to_string() };
        let header = serde_json::to_string(header).map_err(|error| json(HEADER, error))?;
        let groups = serde_json::to_string(&self.groups).map_err(|error| json(GROUPS, error))?;
        for (key, value) in [(HEADER, header), (GROUPS, groups), (SEAL, "0".repeat(DIGEST))] {
            self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let mut bytes = self.file.into_inner()?;
        let footer = bytes.get_mut(self.end..).and_then(|rest| rest.split_last_chunk_mut::<8>());
        let (footer, _) = footer.ok_or(Fault::Magic)?;
        let seal = sha256(&[footer]);
        let at = find_seal(footer).ok_or(Fault::Entry(SEAL))?;
        footer.get_mut(at..at + DIGEST).ok_or(Fault::Entry(SEAL))?.copy_from_slice(seal.as_bytes());
        Ok((bytes.into(), seal))
    }
}

/// The footer of a sealed file.
pub(super) struct Sealed {
    metadata: ParquetMetaData,
    header: String,
    groups: Vec<Group>,
    /// SHA-256 of the footer, which identifies the file: it covers the digests of all row groups.
    pub(super) seal: String,
}

/// Place and digest of a row group.
struct Group {
    start: u64,
    length: u64,
    sha256: String,
}

impl Sealed {
    /// Returns the length of the footer of a file of `size` bytes that ends with `end`.
    pub(super) fn footer_length(size: u64, end: &[u8]) -> Result<u64, Fault> {
        let short = || Fault::Short(size);
        let (length, magic) = end.split_first_chunk().ok_or_else(short)?;
        if magic != MAGIC {
            return Err(Fault::Magic);
        }
        let length = u64::from(u32::from_le_bytes(*length));
        let limit = size.checked_sub(END + MAGIC.len() as u64).ok_or_else(short)?.min(FOOTER);
        if length > limit { Err(Fault::Footer { length, limit }) } else { Ok(length) }
    }

    /// Checks and parses the footer of a file of `size` bytes.
    pub(super) fn parse(footer: &[u8], size: u64) -> Result<Self, Fault> {
        let seal = check_seal(footer)?;
        let metadata = caught(|| ParquetMetaDataReader::decode_metadata(footer)).ok_or(Fault::Panic)??;
        let entries = metadata.file_metadata().key_value_metadata().cloned().unwrap_or_default();
        let entry = |name: &'static str| {
            let found = entries.iter().find(|entry| entry.key == name).and_then(|entry| entry.value.clone());
            found.ok_or(Fault::Entry(name))
        };
        let sizes: Vec<(u64, String)> = json(GROUPS, &entry(GROUPS)?)?;
        let mut end = MAGIC.len() as u64;
        let mut groups = Vec::new();
        for (length, sha256) in sizes {
            groups.push(Group { start: end, length, sha256 });
            end = end.saturating_add(length);
        }
        let expected = size.saturating_sub(footer.len() as u64 + END);
        if end != expected {
            return Err(Fault::Size { found: end, expected });
        }
        if groups.len() != metadata.num_row_groups() {
            return Err(Fault::GroupCount { found: metadata.num_row_groups(), expected: groups.len() });
        }
        Ok(Self { header: entry(HEADER)?, metadata, groups, seal })
    }

    /// Checks all bytes of a file, and parses its footer.
    pub(super) fn of_file(file: &Bytes) -> Result<Self, Fault> {
        let size = file.len() as u64;
        let (rest, end) = file.split_last_chunk::<8>().ok_or(Fault::Short(size))?;
        let length = usize::try_from(Self::footer_length(size, end)?).unwrap_or(usize::MAX);
        let start = rest.len().checked_sub(length).ok_or(Fault::Short(size))?;
        if !file.starts_with(MAGIC) {
            return Err(Fault::Magic);
        }
        let sealed = Self::parse(rest.get(start..).unwrap_or_default(), size)?;
        for index in 0..sealed.groups.len() {
            sealed.group_bytes(file, index)?;
        }
        Ok(sealed)
    }

    /// Parses the header.
    pub(super) fn header<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        json(HEADER, &self.header)
    }

    /// Returns the number of row groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns offset and length of a row group.
    pub(super) fn range(&self, index: usize) -> Option<(u64, u64)> {
        self.groups.get(index).map(|group| (group.start, group.length))
    }

    /// Returns the bytes of a row group of a whole file, checked.
    pub(super) fn group_bytes(&self, file: &Bytes, index: usize) -> Result<Bytes, Fault> {
        let range = self.range(index).and_then(|(start, length)| {
            let start = usize::try_from(start).ok()?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            (end <= file.len()).then(|| file.slice(start..end))
        });
        let bytes = range.ok_or(Fault::GroupCount { found: self.len(), expected: index })?;
        self.check_group(index, &bytes)?;
        Ok(bytes)
    }

    fn check_group(&self, index: usize, bytes: &[u8]) -> Result<(), Fault> {
        let expected = self.groups.get(index).map(|group| group.sha256.clone()).unwrap_or_default();
        let found = sha256(&[bytes]);
        if found == expected { Ok(()) } else { Err(Fault::GroupDigest { index, found, expected }) }
    }

    /// Checks the bytes of a row group, and reads it: `read` gets its number of rows and its columns. Panics of the
    /// `parquet` crate are errors.
    pub(super) fn read_group<T>(
        &self,
        index: usize,
        bytes: Bytes,
        read: impl FnOnce(usize, &SerializedRowGroupReader<'_, Part>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.check_group(index, &bytes)?;
        let missing = || Fault::GroupCount { found: self.len(), expected: index };
        let (start, _) = self.range(index).ok_or_else(missing)?;
        let metadata = self.metadata.row_groups().get(index).ok_or_else(missing)?;
        check_row_group(&bytes, start, metadata, &mut { DECOMPRESSED })
            .map_err(|fault| Fault::Library(fault.to_string()))?;
        let rows = usize::try_from(metadata.num_rows()).ok().filter(|rows| *rows <= ROWS);
        let rows = rows.ok_or(Fault::Rows { found: metadata.num_rows(), limit: ROWS })?;
        caught(|| {
            let part = Arc::new(Part { start, bytes });
            let page_index = RowGroupPageIndex::new(index, None);
            let properties = Arc::new(ReaderProperties::builder().build());
            let group = SerializedRowGroupReader::new(part, metadata, page_index, properties)?;
            read(rows, &group)
        })
        .ok_or(Fault::Panic)?
    }
}

/// A range of a file, which the `parquet` crate addresses by offsets in the file.
pub(super) struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| *at <= self.bytes.len());
        let at = at.ok_or_else(|| ParquetError::General("a column lies outside its row group".to_owned()))?;
        Ok(self.bytes.slice(at..))
    }
}

impl Length for Part {
    fn len(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

impl ChunkReader for Part {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let rest = self.from(start)?;
        let short = || ParquetError::General("a page reaches beyond its row group".to_owned());
        (length <= rest.len()).then(|| rest.slice(..length)).ok_or_else(short)
    }
}

/// Checks the seal of a footer, and returns it.
fn check_seal(footer: &[u8]) -> Result<String, Fault> {
    let at = find_seal(footer).ok_or(Fault::Entry(SEAL))?;
    let parts = footer.split_at_checked(at).zip(footer.get(at + DIGEST..));
    let ((before, seal), after) = parts.ok_or(Fault::Entry(SEAL))?;
    let found = sha256(&[before, "0".repeat(DIGEST).as_bytes(), after]);
    let expected = String::from_utf8_lossy(seal.get(..DIGEST).unwrap_or_default()).into_owned();
    if found == expected { Ok(found) } else { Err(Fault::FooterDigest { found, expected }) }
}

/// Returns the offset of the seal's characters in a footer. The seal is the last entry: the header may contain its name.
fn find_seal(footer: &[u8]) -> Option<usize> {
    let found = footer.windows(BEFORE_SEAL.len()).rposition(|window| window == BEFORE_SEAL);
    found.map(|at| at + BEFORE_SEAL.len())
}

fn json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Json { what, error: error.to_string() })
}

fn sha256(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hex::encode(hasher.finalize())
}
