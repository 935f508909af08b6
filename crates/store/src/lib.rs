#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! [`open`] turns a path or URL into an [`Object`], which fetches batches of ranges: it merges neighbours, caches small
//! reads in pages, and sends requests concurrently. An object remembers the entity tag, size and modification time of
//! when it was opened; a later read of a changed file fails.
//!
//! Architecture invariant: the readers know only [`virtualize_bytes::ReadRanges`]; only this crate uses `object_store`.

mod allowed;
mod aside;
mod clients;
mod conditional;
mod connect;
mod error;
mod fetch;
mod folder;
mod foreign;
mod level;
mod link;
mod listed;
mod listing;
mod local;
mod location;
mod lock;
mod meter;
mod object;
mod options;
mod output;
mod pages;
mod place;
mod probe;
mod ranges;
mod receipt;
mod region;
mod remote;
mod remove;
mod retry;
mod transport;
mod waves;
mod web;

pub use allowed::Allowed;
pub use aside::{is_temporary, remove_abandoned};
pub use clients::Clients;
pub use conditional::{ObjectVersion, read_object, write_object};
pub use error::StoreError;
pub use fetch::{fetch, post};
pub use folder::{Recognizer, SideFolder};
pub use foreign::{FileVersion, ForeignError, ForeignStore};
pub use level::list_folder;
pub use listed::{Listed, milliseconds};
pub use listing::{Folder, Page, folder_url, list_page};
pub use location::{local_path, names_in, url_of};
pub use lock::OutputLock;
pub use meter::{Retries, Stats, Traffic};
pub use object::{Object, open, open_listed};
pub use options::StoreOptions;
pub use output::{SideFile, SideObject, create_folder, put, sync_folder};
pub use place::OutputPlace;
pub use probe::{Condition, probe};
pub use receipt::{Parts, Receipt, look, receipt};
pub use region::{detected_region, known_regions};
pub use remove::remove;
