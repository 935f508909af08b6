//! Commits virtual Zarr hierarchies to [Icechunk](https://icechunk.io) repositories, through the `icechunk` crate, and
//! reads them back.
//!
//! A commit is whole or not there: readers of a branch see the repository as it was until the last step. Chunks stay in
//! their files (virtual references, each with the entity tag or the modification time of its file, so that a reader
//! refuses a file that has changed); what a hierarchy carries inline is written into the repository.
//!
//! Architecture invariant: nothing is decided about data here. It is the one emitter that waits, since its library does.

mod commit;
mod container;
mod error;
mod history;
mod location;
mod lock;
mod metadata;
mod python;
mod read;
mod repository;
mod splits;
mod storage;
mod update;
mod write;

pub use commit::{CommitOptions, Committed, Mode, commit};
pub use error::IcechunkError;
pub use history::{FoundCommit, History, find_commit, inspect};
pub use read::{ReadRepository, Version, read};
pub use storage::{RepositoryLocation, StorageOptions};
pub use update::{Update, documents_of};
