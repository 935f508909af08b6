//! The HDF5 files in which virtual datasets find their sources, and to which external links lead, and the files in which
//! an OME-TIFF has planes: each is read once, before anything is mapped.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use virtualize_hdf5::model::File;
use virtualize_map::hdf5::{
    NumberedFiles, OtherFile, OtherFiles, link_files, numbered_files, virtual_source_files,
};
use virtualize_map::tiff::{OtherTiffs, ome_files};
use virtualize_zarr::Source;

use crate::open::source_of;
use crate::sniff::{Kind, sniff};
use crate::sources::{PARALLEL, Sources, Unopened};
use crate::{Options, formats::Model};

/// Most other files that one file may make us read.
const FILES: usize = 4096;

/// Other files.
#[derive(Default)]
pub(crate) struct Others {
    /// What they say.
    pub(crate) files: OtherFiles,
    /// The same of TIFF files.
    pub(crate) tiffs: OtherTiffs,
}

impl Others {
    /// Whether no other file was looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.files.is_empty() && self.tiffs.files.is_empty()
    }
}

/// Reads the files that the virtual datasets of a file need, or its external links where they are followed, and those
/// that these need in turn.
pub(crate) async fn read(model: &Model, sources: &Sources<'_>, options: &Options) -> Others {
    let mut others = Others::default();
    let own = sources.own();
    let file = match model {
        Model::Hdf5(file) => file,
        Model::Tiff(file) => {
            if options.map.ifds.is_empty() {
                others.tiffs.files = read_tiffs(ome_files(file, own), sources, options).await;
            }
            return others;
        }
    };
    let mut needs = Needs { sources, options, wanted: BTreeSet::new(), numbered: BTreeSet::new() };
    needs.add(file, own);
    loop {
        if !needs.wanted.is_empty() {
            needs.get_all(&mut others).await;
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
    sources: &'a Sources<'a>,
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

    /// Reads all files that are wanted, several at the same time.
    async fn get_all(&mut self, others: &mut Others) {
        let own = self.sources.own();
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.retain(|url| url != own && !others.files.files.contains_key(url));
        let room = FILES.saturating_sub(others.files.files.len());
        let (sources, options) = (self.sources, self.options);
        let reads = wanted.into_iter().enumerate().map(|(at, url)| async move {
            let other = if at < room {
                read_one(&url, sources, options).await
            } else {
                OtherFile::Refused(too_many())
            };
            (url, other)
        });
        let read: Vec<_> = futures::stream::iter(reads).buffered(PARALLEL).collect().await;
        for (url, other) in read {
            if let OtherFile::Read(file, _) = &other {
                self.add(file, &url);
            }
            others.files.files.insert(url, other);
        }
    }

    /// Reads a file, unless that was done; whether it is one that could be read.
    async fn get(&mut self, url: String, others: &mut Others) -> bool {
        if url == self.sources.own() {
            return true;
        }
        self.wanted.insert(url.clone());
        self.get_all(others).await;
        matches!(others.files.files.get(&url), Some(OtherFile::Read(..)))
    }
}

fn too_many() -> String {
    format!("more than {FILES} other files are needed")
}

/// Reads the TIFF files with these urls, several at the same time.
async fn read_tiffs(
    urls: BTreeSet<String>,
    sources: &Sources<'_>,
    options: &Options,
) -> BTreeMap<String, Result<(Box<virtualize_tiff::model::File>, Source), String>> {
    let reads = urls.into_iter().enumerate().map(|(at, url)| async move {
        let other = if at < FILES { read_tiff(&url, sources, options).await } else { Err(too_many()) };
        (url, other)
    });
    futures::stream::iter(reads).buffered(PARALLEL).collect().await
}

async fn read_tiff(
    url: &str,
    sources: &Sources<'_>,
    options: &Options,
) -> Result<(Box<virtualize_tiff::model::File>, Source), String> {
    let object = sources.open(url).await.map_err(|unopened| unopened.why())?;
    match sniff(object.as_ref()).await.map_err(|error| error.to_string())? {
        Ok(Kind::Tiff) => {}
        _ => return Err("it is no TIFF file".to_owned()),
    }
    match Model::read(Kind::Tiff, &object, options, sources.budget()).await {
        Ok(Model::Tiff(file)) => Ok((file, source_of(&object))),
        Ok(_) => Err("it is no TIFF file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn read_one(url: &str, sources: &Sources<'_>, options: &Options) -> OtherFile {
    let object = match sources.open(url).await {
        Ok(object) => object,
        Err(Unopened::Missing(_)) => return OtherFile::Missing,
        Err(unopened) => return OtherFile::Refused(unopened.why()),
    };
    match sniff(object.as_ref()).await {
        Ok(Ok(Kind::Hdf5)) => {}
        Ok(_) => return OtherFile::Refused("it is no HDF5 file".to_owned()),
        Err(error) => return OtherFile::Refused(error.to_string()),
    }
    match Model::read(Kind::Hdf5, &object, options, sources.budget()).await {
        Ok(Model::Hdf5(file)) => OtherFile::Read(file, source_of(&object)),
        Ok(Model::Tiff(_)) => OtherFile::Refused("it is no HDF5 file".to_owned()),
        Err(error) => OtherFile::Refused(error.to_string()),
    }
}
