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

mod commit;
mod comparison;
mod container;
mod document_diff;
mod durable;
mod error;
mod history;
mod location;
mod lock;
mod metadata;
mod new_chunks;
mod python;
mod read;
mod repository;
mod scratch;
mod splits;
mod storage;
mod stored;
mod update;
mod update_plan;
mod write;

pub use commit::{CommitOptions, Committed, Mode, commit, commit_chunks};
pub use error::IcechunkError;
pub use history::{FoundCommit, History, find_commit, inspect};
pub use read::{ReadRepository, Version, read};
pub use storage::{RepositoryLocation, StorageOptions};
pub use update::{Update, documents_of};
