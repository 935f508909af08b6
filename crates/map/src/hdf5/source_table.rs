//! The files that chunks refer to.

use std::collections::BTreeMap;

use virtualize_zarr::SourceId;

use crate::{Error, Result};

/// Urls of files, numbered in the order of their first use. Number 0 is the file itself.
#[derive(Clone, Debug)]
pub(super) struct SourceTable {
    ids: BTreeMap<String, SourceId>,
    /// Urls of the other files: number 1 is the first.
    others: Vec<String>,
}

impl SourceTable {
    pub(super) fn new(own: &str) -> Self {
        Self { ids: BTreeMap::from([(own.to_owned(), SourceId(0))]), others: Vec::new() }
    }

    /// Returns the number of a file, and adds the file if it is new.
    ///
    /// # Errors
    /// There are more files than numbers.
    pub(super) fn id(&mut self, url: &str) -> Result<SourceId> {
        if let Some(id) = self.ids.get(url) {
            return Ok(*id);
        }
        self.others.push(url.to_owned());
        let id = u32::try_from(self.others.len()).map_err(|_| Error::Overflow("the list of source files"))?;
        self.ids.insert(url.to_owned(), SourceId(id));
        Ok(SourceId(id))
    }

    /// Returns the number of files, the file itself included.
    pub(super) fn len(&self) -> usize {
        self.others.len() + 1
    }

    /// Returns the urls of the other files, in the order of their numbers.
    pub(super) fn into_others(self) -> Vec<String> {
        self.others
    }
}
