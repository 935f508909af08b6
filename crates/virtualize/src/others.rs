//! The HDF5 files in which virtual datasets find their sources, and to which external links lead, and the files in which
//! an OME-TIFF has planes: each is read once, before anything is mapped.

use std::collections::BTreeSet;
use std::sync::Arc;

use virtualize_bytes::ReadErrorKind;
use virtualize_hdf5::model::File;
use virtualize_map::hdf5::{
    NumberedFiles, OtherFile, OtherFiles, link_files, numbered_files, virtual_source_files,
};
use virtualize_map::tiff::{OtherTiffs, ome_files};
use virtualize_store::{Object, StoreError};
use virtualize_zarr::Source;

use crate::open::source_of;
use crate::sniff::{Kind, sniff};
use crate::{Options, formats::Model, outside::is_allowed};

/// Most other files that one file may make us read.
const FILES: usize = 4096;

/// Other files, and what keeps them open.
#[derive(Default)]
pub(crate) struct Others {
    /// What they say.
    pub(crate) files: OtherFiles,
    /// The same of TIFF files.
    pub(crate) tiffs: OtherTiffs,
    objects: Vec<Arc<Object>>,
}

impl Others {
    /// Whether no other file was looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.files.is_empty() && self.tiffs.files.is_empty()
    }

    /// Whether they are still what they were.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        self.objects.iter().try_for_each(|object| object.verify())
    }
}

/// Reads the files that the virtual datasets of a file at `own` need, or its external links where they are followed,
/// and those that these need in turn.
pub(crate) async fn read(model: &Model, own: &str, options: &Options) -> Others {
    let mut others = Others::default();
    let file = match model {
        Model::Hdf5(file) => file,
        Model::Tiff(file) => {
            if options.map.ifds.is_empty() {
                read_tiffs(ome_files(file, own), own, options, &mut others).await;
            }
            return others;
        }
    };
    let mut needs = Needs { own, options, wanted: BTreeSet::new(), numbered: BTreeSet::new() };
    needs.add(file, own);
    loop {
        if let Some(url) = needs.wanted.pop_first() {
            needs.get(url, &mut others).await;
        } else if let Some(files) = needs.numbered.pop_first() {
            // Each file must be looked at before the next is named.
            let mut block = 0;
            while needs.get(files.url(block), &mut others).await {
                block += 1;
            }
        } else {
            return others;
        }
    }
}

/// Files that are still to be read.
struct Needs<'a> {
    own: &'a str,
    options: &'a Options,
    wanted: BTreeSet<String>,
    numbered: BTreeSet<NumberedFiles>,
}

impl Needs<'_> {
    /// Adds what a file needs.
    fn add(&mut self, file: &File, url: &str) {
        self.wanted.extend(virtual_source_files(file, url));
        self.numbered.extend(numbered_files(file, url));
        if self.options.map.follow_external {
            self.wanted.extend(link_files(file, url));
        }
    }

    /// Reads a file, unless that was done; whether it is one that could be read.
    async fn get(&mut self, url: String, others: &mut Others) -> bool {
        if url == self.own {
            return true;
        }
        if let Some(other) = others.files.files.get(&url) {
            return matches!(other, OtherFile::Read(..));
        }
        let other = match is_allowed(self.own, &url) {
            Err(why) => OtherFile::Refused(why),
            Ok(()) if others.files.files.len() >= FILES => {
                OtherFile::Refused(format!("more than {FILES} other files are needed"))
            }
            Ok(()) => read_one(&url, self.options, &mut others.objects).await,
        };
        let is_read = matches!(other, OtherFile::Read(..));
        if let OtherFile::Read(file, _) = &other {
            self.add(file, &url);
        }
        others.files.files.insert(url, other);
        is_read
    }
}

/// Reads the TIFF files with these urls.
async fn read_tiffs(urls: BTreeSet<String>, own: &str, options: &Options, others: &mut Others) {
    for url in urls {
        let other = match is_allowed(own, &url) {
            Err(why) => Err(why),
            Ok(()) if others.tiffs.files.len() >= FILES => {
                Err(format!("more than {FILES} other files are needed"))
            }
            Ok(()) => read_tiff(&url, options, &mut others.objects).await,
        };
        others.tiffs.files.insert(url, other);
    }
}

async fn read_tiff(
    url: &str,
    options: &Options,
    objects: &mut Vec<Arc<Object>>,
) -> Result<(Box<virtualize_tiff::model::File>, Source), String> {
    let object = virtualize_store::open(url, &options.store).await.map_err(|error| error.to_string())?;
    objects.push(Arc::clone(&object));
    match sniff(object.as_ref()).await.map_err(|error| error.to_string())? {
        Ok(Kind::Tiff) => {}
        _ => return Err("it is no TIFF file".to_owned()),
    }
    match Model::read(Kind::Tiff, &object, options).await {
        Ok(Model::Tiff(file)) => Ok((file, source_of(&object))),
        Ok(_) => Err("it is no TIFF file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn read_one(url: &str, options: &Options, objects: &mut Vec<Arc<Object>>) -> OtherFile {
    let object = match virtualize_store::open(url, &options.store).await {
        Ok(object) => object,
        Err(error) if error.kind() == ReadErrorKind::NotFound => return OtherFile::Missing,
        Err(error) => return OtherFile::Refused(error.to_string()),
    };
    objects.push(Arc::clone(&object));
    match sniff(object.as_ref()).await {
        Ok(Ok(Kind::Hdf5)) => {}
        Ok(_) => return OtherFile::Refused("it is no HDF5 file".to_owned()),
        Err(error) => return OtherFile::Refused(error.to_string()),
    }
    match Model::read(Kind::Hdf5, &object, options).await {
        Ok(Model::Hdf5(file)) => OtherFile::Read(file, source_of(&object)),
        Ok(Model::Tiff(_)) => OtherFile::Refused("it is no HDF5 file".to_owned()),
        Err(error) => OtherFile::Refused(error.to_string()),
    }
}
