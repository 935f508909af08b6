use virtualize_zarr::{MetadataError, ReadError};

/// Why a reference set could not be read or translated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ReferencesError {
    /// The text is not JSON, or not JSON of references.
    #[error("not a set of references: {0}")]
    Json(String),
    /// A template or generator cannot be rendered.
    #[error("{key}: {reason}")]
    Template {
        /// Key of the reference, or name of the template.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A reference is malformed.
    #[error("{key}: expected text, [url] or [url, offset, length], found {found}")]
    Reference {
        /// Key of the reference.
        key: String,
        /// What was found, shortened.
        found: String,
    },
    /// A metadata document is a reference to a file.
    #[error("{key}: metadata is stored in another file")]
    MetadataInFile {
        /// Key of the document.
        key: String,
    },
    /// A metadata document is not JSON.
    #[error("{key}: {reason}")]
    MetadataJson {
        /// Key of the document.
        key: String,
        /// The parser's message.
        reason: String,
    },
    /// A member without which a document describes no array.
    #[error("{key}: {error}")]
    Document {
        /// Key of the document.
        key: String,
        /// The member, and what it should be.
        error: ReadError,
    },
    /// An array at the root.
    #[error("{key}: an array at the root, expected in a group")]
    ArrayAtRoot {
        /// Key of its document.
        key: String,
    },
    /// A node inside an array.
    #[error("{path}: the node is inside an array")]
    InsideArray {
        /// Path of the node.
        path: String,
    },
    /// Groups are nested too deeply.
    #[error("{key}: nested deeper than {limit} groups")]
    Depth {
        /// Path of the group, or key of the array's document.
        key: String,
        /// Greatest depth.
        limit: usize,
    },
    /// A chunk has two references.
    #[error("{path}: chunk {position} is there twice")]
    RepeatedChunk {
        /// Path of the array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
    },
    /// No document describes a node.
    #[error("it has neither .zgroup or .zarray nor zarr.json")]
    NoMetadata,
    /// More than is accepted.
    #[error("{what}: more than {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The greatest number.
        limit: u64,
    },
    /// The number of references per Parquet file is out of bounds.
    #[error(".zmetadata: record_size {found}, expected 1 to {limit}")]
    RecordSize {
        /// The number in the document.
        found: u64,
        /// The greatest number.
        limit: u64,
    },
    /// A Parquet file is damaged, or takes too much memory.
    #[error("{key}: {fault}")]
    Parquet {
        /// Key of the file.
        key: String,
        /// What is wrong with it.
        fault: ParquetFault,
    },
    /// An array that the other Zarr format cannot express.
    #[error(transparent)]
    Untranslatable(#[from] MetadataError),
    /// Zarr v2 has regular grids only.
    #[error("Zarr v2 has no chunks of several sizes")]
    RectilinearGrid,
    /// A `_FillValue` that is not a scalar of its array's type.
    #[error("its _FillValue is not one of its type")]
    FillValue,
}

/// What is wrong with a file of references in Parquet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParquetFault {
    /// The `parquet` crate panicked.
    #[error("no Parquet file that can be read")]
    Unreadable,
    /// The `parquet` crate's message.
    #[error("{0}")]
    Library(String),
    /// The file ends before its footer.
    #[error("{0} bytes, too few for a footer")]
    NoFooter(usize),
    /// The footer is longer than the file, or than any that references need.
    #[error("footer of {length} bytes, expected at most {limit}")]
    Footer {
        /// Length in bytes.
        length: u64,
        /// Greatest length in bytes.
        limit: u64,
    },
    /// More rows than the file may have.
    #[error("{rows} rows, expected at most {limit}")]
    Rows {
        /// Rows of the file.
        rows: u64,
        /// Greatest number of rows.
        limit: u64,
    },
    /// A column is not within the file.
    #[error("column {0} lies outside the file")]
    ColumnOutside(String),
    /// A row of references is malformed.
    #[error("row {row}: {fault}")]
    Row {
        /// The row, within the file.
        row: u64,
        /// What is wrong with it.
        fault: RowFault,
    },
    /// A row beyond the last chunk of the array.
    #[error("a chunk in row {0}, outside the grid")]
    OutsideGrid(u64),
}

/// What is wrong with a row of references.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RowFault {
    /// The path is not UTF-8.
    #[error("a path that is not UTF-8")]
    Path,
    /// Offset or size is missing or negative.
    #[error("an offset or size that is missing or negative")]
    Range,
    /// The inline chunk is not base64.
    #[error("{0}")]
    Base64(#[from] base64::DecodeError),
    /// The inline chunks of all files are too large.
    #[error("more than {0} bytes are inline")]
    Inline(u64),
}
