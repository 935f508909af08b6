//! TIFF files, their sidecars, and the files that contain further planes of an OME-TIFF.

use std::collections::BTreeMap;

use futures::StreamExt;
use virtualize_bytes::{Budget, Budgeted, ByteRange, ReadRanges};
use virtualize_map::tiff::{
    OtherTiff, OtherTiffs, Sidecar, SidecarKind, map_file_among, merge_declared, merge_sidecars, ome_files,
    sidecar_names,
};
use virtualize_map::{Diagnostic, MapOptions, Mapped};
use virtualize_store::Object;
use virtualize_tiff::model::File;
use virtualize_zarr::Source;

use crate::options::Options;
use crate::sources::{Sources, Unopened, head, source_of};

/// Largest number of other files that are read for one file.
const FILES: usize = 4096;

/// Number of names in a folder beyond which GDAL looks for sidecars by name.
const LISTED: usize = 1000;

/// Largest sidecar that is read, in bytes.
const LARGEST: u64 = 32 << 20;

/// A TIFF file, and the files that it refers to.
pub(crate) struct Files {
    file: Box<File>,
    others: OtherTiffs,
    has_sidecars: bool,
    diagnostics: Vec<Diagnostic>,
}

impl Files {
    pub(super) async fn read(
        object: &Object,
        options: &Options,
        budget: &Budget<'_>,
    ) -> Result<Self, virtualize_tiff::Error> {
        let file = virtualize_tiff::read(&Budgeted::new(object, budget), &options.limits).await?;
        let (file, others) = (Box::new(file), OtherTiffs::default());
        Ok(Self { file, others, has_sidecars: false, diagnostics: Vec::new() })
    }

    /// Reads the sidecars, and the files with planes of the OME-TIFF, unless single images were selected.
    pub(super) async fn read_related(&mut self, sources: &Sources<'_>, options: &Options) {
        let sidecars = self.sidecars(sources, options).await;
        self.has_sidecars = options.sidecars || !sidecars.is_empty();
        let merged = merge_sidecars(&mut self.file, &sidecars, options.limits.attributes);
        self.diagnostics.extend(merged);
        self.diagnostics.extend(merge_declared(&mut self.file, &options.declared_bands));
        if !options.map.ifds.is_empty() {
            return;
        }
        let urls = ome_files(&self.file, sources.own);
        let reads = urls.into_iter().enumerate().map(|(at, url)| async move {
            let other = match at < FILES {
                true => read_other(&url, sources, options).await.unwrap_or_else(OtherTiff::Refused),
                false => OtherTiff::Refused(format!("more than {FILES} other files are needed")),
            };
            (url, other)
        });
        self.others.files = sources.several(reads).collect::<BTreeMap<_, _>>().await;
    }

    /// Finds the sidecars of the file in the order of [`sidecar_names`], and reads them. A remote file has none unless
    /// `options` say so.
    async fn sidecars(&mut self, sources: &Sources<'_>, options: &Options) -> Vec<Sidecar> {
        let Some((folder, name)) = sources.own.rsplit_once('/') else { return Vec::new() };
        let listed = match sources.own.starts_with("file:") {
            true => virtualize_store::names_in(folder, LISTED),
            false if options.sidecars => None,
            false => return Vec::new(),
        };
        let mut candidates: Vec<(String, SidecarKind)> = Vec::new();
        for (wanted, kind) in sidecar_names(name) {
            let exact = listed.iter().flatten().find(|found| **found == wanted);
            // GDAL lists an `.aux.xml` in other letters, but opens the name that it expects.
            let same = |found: &&String| kind != SidecarKind::Pam && found.eq_ignore_ascii_case(&wanted);
            let found = exact.or_else(|| listed.iter().flatten().find(same));
            candidates.extend(found.map(|found| (found.clone(), kind)));
            if listed.is_none() {
                let (stem, extension) = wanted.rsplit_once('.').unwrap_or((&wanted, ""));
                let upper = format!("{stem}.{}", extension.to_uppercase());
                let lower = format!("{stem}.{}", extension.to_lowercase());
                candidates.extend([lower, upper].map(|name| (name, kind)));
            }
        }
        candidates.dedup();
        let reads = candidates.into_iter().map(|(name, kind)| async move {
            let content = read_sidecar(&format!("{folder}/{name}"), kind, sources).await;
            content.transpose().map(|content| Sidecar { name, kind, content })
        });
        let read: Vec<Option<Sidecar>> = sources.several(reads).collect().await;
        read.into_iter().flatten().collect()
    }

    pub(super) fn has_related(&self) -> bool {
        self.has_sidecars || !self.others.files.is_empty()
    }

    pub(super) fn map(&self, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
        let mut mapped = map_file_among(&self.file, source, &self.others, options, budget);
        mapped.report.diagnostics.splice(0..0, self.diagnostics.iter().cloned());
        mapped
    }
}

/// Reads a sidecar as text, if it exists. The error is the reason why it could not be read. Content that is not used is not
/// read.
async fn read_sidecar(url: &str, kind: SidecarKind, sources: &Sources<'_>) -> Result<Option<String>, String> {
    let object = match sources.open(url).await {
        Ok(object) => object,
        Err(Unopened::Missing(_)) => return Ok(None),
        Err(unopened) => return Err(unopened.to_string()),
    };
    let size = object.size();
    if matches!(kind, SidecarKind::Unread(_)) {
        return Ok(Some(String::new()));
    }
    if size > LARGEST {
        return Err(format!("it has {size} bytes, expected at most {LARGEST}"));
    }
    let bytes = Budgeted::new(object.as_ref(), sources.budget).read_ranges(&[ByteRange::new(0, size)]).await;
    let bytes = bytes.map_err(|error| error.to_string())?.pop().unwrap_or_default();
    Ok(Some(match std::str::from_utf8(&bytes) {
        Ok(text) => text.to_owned(),
        // The numbers are ASCII in either case.
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }))
}

async fn read_other(url: &str, sources: &Sources<'_>, options: &Options) -> Result<OtherTiff, String> {
    let object = sources.open(url).await.map_err(|unopened| unopened.to_string())?;
    let head = head(object.as_ref()).await.map_err(|error| error.to_string())?;
    if !virtualize_tiff::is_tiff(&head) {
        return Err("not a TIFF file".to_owned());
    }
    match Files::read(&object, options, sources.budget).await {
        Ok(files) => Ok(OtherTiff::Read(files.file, source_of(&object))),
        Err(error) => Err(format!("{}: {error}", object.name())),
    }
}
