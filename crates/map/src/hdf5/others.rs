//! Other HDF5 files that a file names: by virtual datasets and external links. They are read before the file is mapped.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::Address;
use virtualize_hdf5::model::{File, Layout, LinkTarget, Object};
use virtualize_zarr::Source;

use super::heap::{DatasetKey, Flattened};
use super::lookup::Lookup;
use super::pattern::Pattern;
use crate::related::{self, resolve_relative};
use crate::{Error, Result};

/// Deepest chain of virtual datasets.
const DEPTH: u32 = 8;

/// Why a virtual dataset cannot be the source of another one.
pub(super) fn grown() -> Error {
    Error::unsupported("a virtual source", "its own sources make another extent than its file declares")
}

pub(super) fn no_dataset() -> Error {
    Error::unresolved("its path", "leads to no dataset")
}

/// The limit of [`super::VIRTUAL_SOURCES`].
const TOO_MANY: Error =
    Error::Limit { what: "sources of virtual datasets", limit: super::VIRTUAL_SOURCES as u64 };

/// Another HDF5 file that a file names. What virtual datasets map to a missing one reads as the fill value.
pub type OtherFile = related::OtherFile<File>;

/// Other files by url.
#[derive(Clone, Debug, Default)]
pub struct OtherFiles {
    /// The files by url.
    pub files: BTreeMap<String, OtherFile>,
    /// Virtual datasets, as (url, address), whose sources make another extent than their own file declares. Through another
    /// virtual dataset, libhdf5 shows the declared extent.
    pub grown: BTreeSet<DatasetKey>,
    /// What represents the datasets of [`heap_tasks`](super::heap_tasks), or why nothing does.
    pub flattened: BTreeMap<DatasetKey, Result<Flattened>>,
}

/// Returns the urls of the files that hold the sources of a file's virtual datasets. `own` is the url of the file itself,
/// which is not included; nor are numbered files ([`numbered_files`](super::numbered_files)).
pub fn virtual_source_files(file: &File, own: &str) -> BTreeSet<String> {
    let layouts = file.objects.values().filter_map(|object| match object {
        Object::Dataset(dataset) => Some(&dataset.layout),
        _ => None,
    });
    let mappings = layouts.flat_map(|layout| match layout {
        Layout::Virtual(mappings) => mappings.as_slice(),
        _ => &[],
    });
    mappings
        .filter(|mapping| mapping.file != ".")
        .filter_map(|mapping| Pattern::new(&mapping.file).ok().filter(|name| !name.is_numbered()))
        .map(|name| resolve_relative(own, &name.name(0)))
        .filter(|url| url != own)
        .collect()
}

/// Returns the urls of the files to which external links lead. `own` is the url of the file itself, which is not included.
pub fn link_files(file: &File, own: &str) -> BTreeSet<String> {
    let groups = file.objects.values().filter_map(|object| match object {
        Object::Group(group) => Some(group),
        _ => None,
    });
    let names = groups.flat_map(|group| &group.links).filter_map(|link| match &link.target {
        LinkTarget::External { file, .. } => Some(resolve_relative(own, file)),
        _ => None,
    });
    names.filter(|url| url != own).collect()
}

/// A file that was read, with its source.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile<'a> {
    /// Its metadata.
    pub(super) file: &'a File,
    /// Its url, size and version.
    pub(super) source: &'a Source,
}

/// The files that the mapping of a dataset can use.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileContext<'a> {
    /// The file that is mapped.
    pub(super) root: OpenFile<'a>,
    /// The file of the dataset.
    pub(super) here: OpenFile<'a>,
    /// All other files.
    pub(super) others: &'a OtherFiles,
    /// Number of sources of virtual datasets that may still be visited.
    pub(super) sources_left: &'a Cell<u32>,
    /// Lookup of objects by path.
    pub(super) lookup: &'a Lookup<'a>,
    /// Number of virtual datasets between the mapped dataset and this one.
    pub(super) depth: u32,
}

impl<'a> FileContext<'a> {
    /// Refuses a dataset as a source if libhdf5 would show the extent that its file declares.
    pub(super) fn check_extent(&self, address: Address) -> Result<()> {
        match self.others.grown.contains(&(self.here.source.url.clone(), address)) {
            true => Err(grown()),
            false => Ok(()),
        }
    }

    /// Returns the context of a source in the file called `name`; `None` if there is no such file.
    ///
    /// # Errors
    /// The file was refused, or sources are too many or too deeply nested.
    pub(super) fn of_source(&self, name: &str) -> Result<Option<Self>> {
        let left = self.sources_left.get().checked_sub(1).ok_or(TOO_MANY)?;
        self.sources_left.set(left);
        if self.depth >= DEPTH {
            return Err(Error::Limit { what: "virtual datasets in a chain", limit: DEPTH.into() });
        }
        let url = match name {
            "." => self.here.source.url.clone(),
            _ => resolve_relative(&self.here.source.url, name),
        };
        let here = match self.others.files.get(&url) {
            _ if url == self.here.source.url => self.here,
            _ if url == self.root.source.url => self.root,
            Some(OtherFile::Read(file, source)) => OpenFile { file, source },
            Some(OtherFile::Missing) => return Ok(None),
            Some(OtherFile::Refused(why)) => return Err(Error::other_file(name, why.clone())),
            None => return Err(Error::other_file(name, "was not read")),
        };
        Ok(Some(Self { here, depth: self.depth + 1, ..*self }))
    }
}
