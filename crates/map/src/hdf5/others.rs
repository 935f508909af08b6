//! Other HDF5 files that a file refers to, read before it is mapped.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::Address;
use virtualize_hdf5::model::{File, Layout, LinkTarget, Object};
use virtualize_zarr::Source;

use super::lookup::Lookup;
use super::unlimited::Pattern;
use crate::related::resolve_relative;
use crate::{Error, Result};

/// Deepest chain of virtual datasets.
const DEPTH: u32 = 8;

/// Why a virtual dataset is no source of another one.
pub(super) fn grown() -> Error {
    Error::unsupported("a virtual source", "its own sources make another extent than its file declares")
}

pub(super) fn no_dataset() -> Error {
    Error::unresolved("its path", "leads to no dataset")
}

/// The limit of [`super::VIRTUAL_SOURCES`].
const TOO_MANY: Error =
    Error::Limit { what: "sources of virtual datasets", limit: super::VIRTUAL_SOURCES as u64 };

/// What became of another file.
#[derive(Clone, Debug)]
pub enum OtherFile {
    /// It was read.
    Read(Box<File>, Source),
    /// There is none, so that what it would hold reads as the fill value.
    Missing,
    /// It may or could not be read; why.
    Refused(String),
}

/// Other files by url.
#[derive(Clone, Debug, Default)]
pub struct OtherFiles {
    /// Each with what became of it.
    pub files: BTreeMap<String, OtherFile>,
    /// Virtual datasets (url and address) whose sources make another extent than their own file says. libhdf5 does not
    /// see it through another virtual dataset.
    pub grown: BTreeSet<(String, Address)>,
}

/// Urls of the files in which the virtual datasets of a file, which lies at `own`, find their sources.
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

/// Urls of the files to which the external links of a file lead, which lies at `own`.
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

/// A file that was read, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile<'a> {
    /// What it says.
    pub(super) file: &'a File,
    /// Where it lies.
    pub(super) source: &'a Source,
}

/// The files that mapping a dataset may look into.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileContext<'a> {
    /// The file that is mapped.
    pub(super) root: OpenFile<'a>,
    /// The file of the dataset.
    pub(super) here: OpenFile<'a>,
    /// The others.
    pub(super) others: &'a OtherFiles,
    /// How many sources of virtual datasets may still be looked at.
    pub(super) sources_left: &'a Cell<u32>,
    /// Objects by their paths.
    pub(super) lookup: &'a Lookup<'a>,
    /// Virtual datasets on the way from the dataset that is mapped.
    pub(super) depth: u32,
}

impl<'a> FileContext<'a> {
    /// Refuses a dataset of this file as a source, where libhdf5 would show its old extent.
    pub(super) fn check_extent(&self, address: Address) -> Result<()> {
        match self.others.grown.contains(&(self.here.source.url.clone(), address)) {
            true => Err(grown()),
            false => Ok(()),
        }
    }

    /// The context as a source in a file sees it that this file names; `None` where there is no such file.
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
