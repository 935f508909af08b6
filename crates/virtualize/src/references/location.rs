//! Locations of reference sets, and options of reading them.

use std::path::Path;

use virtualize_map::{Diagnostic, Severity};
use virtualize_remedy::Code;
use virtualize_store::StoreOptions;

/// Name of the reference file in a folder or prefix (`zarr3`).
pub(super) const IN_FOLDER: &str = "references.json";

/// Options for reading a reference set.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Access to the reference set and its sources.
    pub store: StoreOptions,
    /// Folder or prefix against which relative urls are resolved; by default that of the references.
    pub relative_to: Option<String>,
    /// Branch, tag or snapshot of an Icechunk repository.
    pub version: String,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { store: StoreOptions::default(), relative_to: None, version: "main".to_owned() }
    }
}

/// Returns whether a location is not a local path.
pub(super) fn is_remote(location: &str) -> bool {
    location.contains("://") && !location.starts_with("file://")
}

/// Returns a warning about the node at a path without a leading slash.
pub(super) fn warning(code: Code, path: &str, message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Warning, code, path: format!("/{path}"), message, remedy: None }
}

/// Returns the folder or prefix of references: that of the file, or the one that contains the folder `store.zarr`.
pub(super) fn folder_of(location: &str) -> String {
    let trimmed = location.trim_end_matches('/');
    let trimmed =
        trimmed.strip_suffix(&format!("/{IN_FOLDER}")).filter(|_| is_store(trimmed)).unwrap_or(trimmed);
    match trimmed.rsplit_once('/') {
        Some((folder, _)) => folder.to_owned(),
        None => ".".to_owned(),
    }
}

/// Returns whether a `references.json` belongs to a store with a `zarr.json`. Remote stores are assumed to have one.
fn is_store(references: &str) -> bool {
    let path = references.strip_prefix("file://").unwrap_or(references);
    is_remote(references) || Path::new(path).parent().is_some_and(|folder| folder.join("zarr.json").exists())
}
