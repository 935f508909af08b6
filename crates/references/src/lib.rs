#![doc = include_str!("../README.md")]

#[cfg(target_endian = "big")]
compile_error!(
    "virtualize-references needs a little-endian processor: elsewhere, the crate `parquet` reads and writes other values"
);

mod read;
mod write;

#[cfg(feature = "parquet")]
pub use read::ParquetReferences;
pub use read::{
    NativeStore, PendingChunks, ReferenceSet, ReferencesError, Translation, WholeFile, fill_in_v3, from_json,
    parse_document, translate,
};
pub use write::{
    DOCUMENTS, EmitError, Format, MAX_RECORDS, Sink, foreign_file, is_valid_name, metadata, write,
    write_chunks, write_files, write_files_chunks,
};
