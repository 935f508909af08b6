#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! [`open`] turns a path or URL into an [`Object`], which fetches batches of ranges: it merges neighbours, caches small
//! reads in pages, and sends requests concurrently. An object remembers the entity tag, size and modification time of
//! when it was opened; a later read of a changed file fails.
//!
//! Architecture invariant: the readers know only [`virtualize_bytes::ReadRanges`]; only this crate uses `object_store`.

mod access;
mod allowed;
mod clients;
mod connect;
mod credentials;
mod error;
mod fetch;
mod folder;
mod link;
mod list;
mod location;
mod lock;
mod meter;
mod netrc;
mod object;
mod output;
mod pages;
mod remote;
mod session;
mod web;

pub use access::{Access, Identity, StoreOptions, Stores};
pub use allowed::Allowed;
pub use clients::{Clients, install_tls};
pub use connect::{check_option, connect_output, known_region};
pub use error::StoreError;
pub use fetch::{Condition, fetch, post, probe};
pub use folder::{Parts, Receipt, Recognizer, SideFolder, look, receipt};
pub use link::{FileVersion, ForeignStore};
pub use list::{Folder, Listed, Page, folder_url, list_folder, list_page, milliseconds, opaque_tag};
pub use location::{below, local_path, names_in, url_of};
pub use lock::OutputLock;
pub use meter::{Retries, Stats, Traffic};
pub use object::{Object, open, open_listed};
pub use output::{
    OutputPlace, SideFile, SideObject, check_is_json, create_folder, is_beside_output, put, remove,
    remove_abandoned, sync_folder,
};
