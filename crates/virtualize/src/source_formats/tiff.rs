//! TIFF files, and the files that contain further planes of an OME-TIFF.

use std::collections::BTreeMap;

use futures::StreamExt;
use virtualize_bytes::{Budget, Budgeted};
use virtualize_map::tiff::{OtherTiff, OtherTiffs, map_file_among, ome_files};
use virtualize_map::{MapOptions, Mapped};
use virtualize_store::Object;
use virtualize_tiff::model::File;
use virtualize_zarr::Source;

use crate::options::Options;
use crate::sources::{Sources, head, source_of};

/// Largest number of other files that are read for one file.
const FILES: usize = 4096;

/// A TIFF file, and the files that it refers to.
pub(crate) struct Files {
    file: Box<File>,
    others: OtherTiffs,
}

/// Returns whether a file starts with TIFF's or BigTIFF's signature.
pub(super) fn has_signature(head: &[u8]) -> bool {
    virtualize_tiff::is_tiff(head)
}

impl Files {
    pub(super) async fn read(
        object: &Object,
        options: &Options,
        budget: &Budget<'_>,
    ) -> Result<Self, virtualize_tiff::Error> {
        let file = virtualize_tiff::read(&Budgeted::new(object, budget), &options.limits).await?;
        Ok(Self { file: Box::new(file), others: OtherTiffs::default() })
    }

    /// Reads the files with planes of the OME-TIFF, unless single images were selected.
    pub(super) async fn read_related(&mut self, sources: &Sources<'_>, options: &Options) {
        if !options.map.ifds.is_empty() {
            return;
        }
        let urls = ome_files(&self.file, sources.own());
        let reads = urls.into_iter().enumerate().map(|(at, url)| async move {
            let other = match at < FILES {
                true => read_other(&url, sources, options).await.unwrap_or_else(OtherTiff::Refused),
                false => OtherTiff::Refused(format!("more than {FILES} other files are needed")),
            };
            (url, other)
        });
        self.others.files = sources.several(reads).collect::<BTreeMap<_, _>>().await;
    }

    pub(super) fn has_related(&self) -> bool {
        !self.others.files.is_empty()
    }

    pub(super) fn map(&self, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
        map_file_among(&self.file, source, &self.others, options, budget)
    }
}

async fn read_other(url: &str, sources: &Sources<'_>, options: &Options) -> Result<OtherTiff, String> {
    let object = sources.open(url).await.map_err(|unopened| unopened.to_string())?;
    let head = head(object.as_ref()).await.map_err(|error| error.to_string())?;
    if !has_signature(&head) {
        return Err("it is no TIFF file".to_owned());
    }
    match Files::read(&object, options, sources.budget()).await {
        Ok(files) => Ok(OtherTiff::Read(files.file, source_of(&object))),
        Err(error) => Err(format!("{}: {error}", object.name())),
    }
}
