#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Architecture invariant: this crate runs the stages in order (read, map, fetch, inline, write) and decides nothing about
//! data: policy lives in `virtualize_map`. Each error is one line.

pub mod chunks;
#[cfg(feature = "full")]
mod commit;
mod decode;
pub mod describe;
mod error;
mod inline;
pub mod keys;
mod open;
pub mod options;
mod output;
mod read;
mod references;
mod relocate;
pub mod segments;
mod source_formats;
mod sources;
mod store;

#[cfg(feature = "full")]
pub use commit::{
    CommitOptions, CommitRecord, FoundCommit, History, IcechunkError, Mode as CommitMode, commit,
    commit_chunks, documents_of, find_commit, inspect_branch,
};
pub use decode::PackageCodec;
pub use error::{ArrayError, Error, ErrorClass};
pub use open::{LazyStore, declare_joined_grids, open, open_object};
pub use options::{Hdf5Reader, InlineOptions, Options, ReadOptions};
pub use output::{
    Destination, PreparedOutput, check_replaceable, metadata, prepare, prepare_chunks, write, write_files,
    write_folder, write_to,
};
pub use read::{
    ArrayReader, ArrayValues, AxisSelection, ChunkAddress, ChunkPart, ForeignDecoder, MAX_BYTES, Selection,
    chunk_size, decode_chunk, digest, read_array, read_array_within,
};
pub use references::{
    Checked, ChunkDifference, Difference, NodeDifference, Sample, ValidationReport, compare, convert, diff,
    from_text, read_references, record_sources, to_text, validate,
};
pub use relocate::{Relocation, Rewrite};
pub use store::VirtualStore;
pub use virtualize_bytes::{BoxFuture, ByteRange, Gate, Limits, ReadError, ReadErrorKind};
#[cfg(feature = "full")]
pub use virtualize_icechunk::Committed;
pub use virtualize_map::tiff::DeclaredBand;
pub use virtualize_map::{
    ArrayReport, ChunkGridChoice, ComplexIntegers, Diagnostic, FillDecision, FillPolicy, FillSource,
    MapOptions, NumpyField, NumpyType, Outcome, Report, Severity, SourceAttribute, SourceValue,
    netcdf_default_fill,
};
pub use virtualize_references::{Format, MAX_RECORDS, Sink};
pub use virtualize_remedy::{Code, Notation, OptionName, Remedy};
pub use virtualize_store::{
    Access, FileVersion, ForeignStore, Listed, Object, Retries, SideFile, Stats, StoreError, StoreOptions,
    Stores, check_is_json, open_listed,
};
pub use virtualize_zarr as zarr;

/// The examples of the page on Rust, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct Page;
