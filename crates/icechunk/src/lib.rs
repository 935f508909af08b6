#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Commits are atomic: until the last step, readers of a branch see its previous snapshot. Referenced chunks become virtual
//! chunks with the entity tag or modification time of their file, so that a reader rejects a file that has changed. Inline
//! chunks are written to the repository.
//!
//! Architecture invariant: this crate makes no decisions about data. It is the only emitter that is asynchronous, because
//! the `icechunk` crate is.

mod chunks;
mod commit;
mod container;
mod error;
mod read;
mod repository;
mod storage;
mod update;
mod write;

pub use commit::{CommitOptions, Committed, Mode, commit, commit_chunks};
pub use error::{IcechunkError, Result};
pub use read::{ChunkTable, Native, OpenRepository, open_version};
pub use repository::{FoundCommit, History, find_commit, inspect};
pub use storage::RepositoryLocation;
pub use update::{CommitRecord, documents_of};
