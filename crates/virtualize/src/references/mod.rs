//! Existing reference sets: reading in all formats, conversion, comparison and validation.

mod convert;
mod diff;
mod tables;
mod validate;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_map::{Diagnostic, Report};
use virtualize_references::ReferenceSet;
use virtualize_remedy::Code;
use virtualize_store::{Object, StoreError, StoreOptions};
use virtualize_zarr::{
    Array, ChunkEntry, Codec, Hierarchy, Reference, References, ReferencesBuilder, Source,
};

pub(crate) use self::tables::Tables;
pub use self::{
    convert::{convert, from_text, to_text},
    diff::{ChunkDifference, Difference, NodeDifference, compare, diff},
    validate::{Checked, Sample, ValidationReport, validate},
};
use crate::{
    error::{Error, warning},
    options::ReadOptions,
    relocate::{Relocation, relocate},
    sources::source_of,
    store::VirtualStore,
};

/// Name of the metadata file in kerchunk's Parquet layout.
const ZMETADATA: &str = ".zmetadata";

/// Reads references: kerchunk JSON (versions 0 and 1), JSON with Zarr v3 keys, a folder or prefix with
/// `references.json`, kerchunk's Parquet layout, or an Icechunk repository. Urls of sources become absolute. The sizes
/// of files that are referred to as a whole are looked up; other sources are not opened. The report lists all
/// omissions.
///
/// # Errors
/// [`Error::Store`], [`Error::References`], [`Error::Icechunk`].
pub async fn read_references(location: &str, options: &ReadOptions) -> Result<VirtualStore, Error> {
    let file = virtualize_store::open(location, &options.store).await;
    let opened = open_references(location, file, options).await?;
    let store = resolved(opened.set, &opened.name, location, options).await?;
    match opened.tables {
        None => Ok(store),
        Some(tables) => tables.complete(store, true, location, options).boxed().await,
    }
}

/// References that were opened.
pub(crate) struct OpenReferences {
    /// Name in messages.
    pub(crate) name: String,
    /// All references, or metadata without chunks if there are tables.
    pub(crate) set: ReferenceSet,
    pub(crate) tables: Option<Tables>,
    /// The version of the references themselves.
    pub(crate) version: Source,
}

/// Completes what was read from references: urls of sources become absolute, and files that are referred to as a whole
/// get their size. Arrays of shards become arrays of the chunks in them.
pub(crate) async fn resolved(
    mut set: ReferenceSet,
    name: &str,
    location: &str,
    options: &ReadOptions,
) -> Result<VirtualStore, Error> {
    let mut diagnostics = omitted(&set);
    diagnostics.extend(resolve_urls(&mut set.hierarchy, location, options)?);
    if !options.rewrite_url.is_empty() {
        let rules = Relocation::Rewrite(options.rewrite_url.clone());
        relocate(&mut set.hierarchy.sources, &rules, false)?;
    }
    resolve_whole_files(&mut set, &options.store).await?;
    let mut store = VirtualStore::of(set.hierarchy, name);
    store.report = Report { diagnostics, ..Report::default() };
    tables::expand_shards(&mut store, options).await?;
    Ok(store)
}

/// Detects the kind of reference set at a location, and opens it; `file` is the result of opening the location as a file.
/// Chunk tables that consist of several parts are not read.
pub(crate) async fn open_references(
    location: &str,
    file: Result<Arc<Object>, StoreError>,
    options: &ReadOptions,
) -> Result<OpenReferences, Error> {
    let open = |name: &str| {
        let place = virtualize_store::below(location, name);
        async move { virtualize_store::open(&place, &options.store).await }
    };
    if !location.ends_with('/') {
        match file {
            Ok(object) => return json(&object, options).await,
            Err(StoreError::NotAFile { what: "a directory", .. }) => {}
            Err(StoreError::NotFound { .. } | StoreError::Page { .. }) if is_remote(location) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let missing = match open(IN_FOLDER).await {
        Ok(object) => return json(&object, options).await,
        Err(error @ StoreError::NotFound { .. }) => error,
        Err(error) => return Err(error.into()),
    };
    match open(ZMETADATA).await {
        Ok(zmetadata) => {
            let text = whole(&zmetadata, options).await?;
            // Other Zarr v2 stores have no such member.
            if text.windows(b"\"record_size\"".len()).any(|window| window == b"\"record_size\"") {
                #[cfg(feature = "full")]
                return Tables::parquet(location, &zmetadata, &text);
                #[cfg(not(feature = "full"))]
                return Err(needs_full(zmetadata.name(), "kerchunk-parquet"));
            }
        }
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // The `icechunk` crate cannot read through a store of another package.
    #[cfg(feature = "full")]
    if options.store.through.is_none()
        && let Some(repository) =
            crate::commit::open_version(location, &options.version, &options.store).await?
    {
        return Ok(Tables::repository(location, Box::new(repository)));
    }
    #[cfg(not(feature = "full"))]
    if open("repo").await.is_ok() {
        return Err(needs_full(location, "Icechunk"));
    }
    Tables::native(location, options).boxed().await?.ok_or_else(|| missing.into())
}

/// Reads a JSON document with references.
async fn json(object: &Object, options: &ReadOptions) -> Result<OpenReferences, Error> {
    let (name, text) = (object.name().to_owned(), whole(object, options).await?);
    match virtualize_references::from_json(&text) {
        Ok(set) => Ok(OpenReferences { name, set, tables: None, version: source_of(object) }),
        Err(error) => Err(Error::References { name, reason: error.to_string() }),
    }
}

#[cfg(not(feature = "full"))]
fn needs_full(location: &str, format: &str) -> Error {
    let reason = format!("{format} needs a build with the cargo feature `full`");
    Error::References { name: location.to_owned(), reason }
}

/// Reads a whole document.
async fn whole(object: &Object, options: &ReadOptions) -> Result<Bytes, Error> {
    let size = object.size();
    check_size(object.name(), size, options)?;
    let parts = object.read_ranges(&[ByteRange::new(0, size)]).await?;
    Ok(parts.into_iter().next().unwrap_or_default())
}

/// Refuses references that take more bytes than the limit.
fn check_size(name: &str, bytes: u64, options: &ReadOptions) -> Result<(), Error> {
    let most = options.limits.metadata_bytes;
    if bytes <= most {
        return Ok(());
    }
    let reason = format!("the references take {bytes} bytes, more than the limit of {most}");
    Err(Error::References { name: name.to_owned(), reason })
}

/// Returns a warning for each omitted array and key.
fn omitted(set: &ReferenceSet) -> Vec<Diagnostic> {
    let omitted = set.omitted.iter().map(|(path, reason)| warning(Code::ArrayOmitted, path, reason.clone()));
    let mut all: Vec<_> = omitted.collect();
    if let Some(first) = set.ignored.first() {
        let message = format!("keys that do not belong to an array are ignored, such as {first:?}");
        all.push(warning(Code::KeyIgnored, "", message));
    }
    all
}

/// The chunks of an array in one source.
struct Part<'a> {
    /// Index of the array.
    at: usize,
    /// Path of the array, without a leading slash.
    path: &'a str,
    array: &'a Array,
    columns: Vec<&'a References>,
    /// Whether the hierarchy has no other source.
    is_only: bool,
}

/// Returns the parts of arrays in each source. All arrays have a part in the only source.
fn parts<'a>(arrays: &'a [(String, &'a Array)], sources: usize) -> Vec<Vec<Part<'a>>> {
    let mut all: Vec<Vec<Part<'a>>> = (0..sources).map(|_| Vec::new()).collect();
    let is_only = sources == 1;
    for (at, (path, array)) in arrays.iter().enumerate() {
        let part = || Part { at, path, array, columns: Vec::new(), is_only };
        if let [here] = all.as_mut_slice() {
            here.push(part());
        }
        for column in &array.chunks.references {
            let Some(here) = all.get_mut(column.source.index()) else { continue };
            if here.last().is_none_or(|last| last.at != at) {
                here.push(part());
            }
            here.last_mut().into_iter().for_each(|last| last.columns.push(column));
        }
    }
    all
}

impl Part<'_> {
    /// Returns the references of the part, except for those hidden by an inline chunk.
    fn references(&self) -> impl Iterator<Item = (u64, Reference)> {
        let inline = &self.array.chunks.inline;
        self.columns.iter().flat_map(|column| column.iter()).filter(|(at, _)| !inline.contains_key(at))
    }

    /// Returns the number of chunks of the part.
    fn count(&self) -> u64 {
        self.references().count() as u64
    }

    /// Returns whether all references of the array are to this source.
    fn is_whole(&self) -> bool {
        let all = self.array.chunks.references.len();
        self.columns.len() == all && (self.is_only || all > 0)
    }
}

/// A chunk of a direct read.
struct Place<'a> {
    length: u64,
    array: &'a Array,
    /// Row-major position in the array's grid.
    position: u64,
}

/// Chunks of a direct read by offset.
type Places<'a> = BTreeMap<u64, Place<'a>>;

/// Returns all chunks of a hierarchy of one source.
fn places(direct: &Hierarchy) -> Places<'_> {
    let mut known = Places::new();
    for (_, array) in direct.arrays() {
        for (position, entry) in array.chunks.iter() {
            if let ChunkEntry::Reference(part) = entry {
                known.entry(part.offset).or_insert(Place { length: part.length, array, position });
            }
        }
    }
    known
}

/// Returns whether chunks are stored without compression or filters.
fn is_plain(array: &Array) -> bool {
    array.codecs.iter().all(|codec| matches!(codec, Codec::Bytes { .. }))
}

/// Name of the reference file in a folder or prefix (`zarr3`).
const IN_FOLDER: &str = "references.json";

/// Returns whether a location is not a local path.
fn is_remote(location: &str) -> bool {
    location.contains("://") && !location.starts_with("file://")
}

/// Returns the folder or prefix of references: that of the file, or the one that contains the folder `store.zarr`, which is
/// a `references.json` with a `zarr.json`. Remote ones are assumed to have it.
fn folder_of(location: &str) -> &str {
    let trimmed = location.trim_end_matches('/');
    let is_store = |folder: &&str| {
        let path = Path::new(folder.strip_prefix("file://").unwrap_or(folder));
        is_remote(location) || path.join("zarr.json").exists()
    };
    let store = trimmed.strip_suffix(IN_FOLDER).and_then(|folder| folder.strip_suffix('/')).filter(is_store);
    store.unwrap_or(trimmed).rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// Makes urls absolute: paths become `file` urls. Relative urls are resolved against the folder of the references (as
/// in GDAL) or, if no file exists there, against the working directory (as in fsspec).
fn resolve_urls(
    hierarchy: &mut Hierarchy,
    references: &str,
    options: &ReadOptions,
) -> Result<Vec<Diagnostic>, Error> {
    let mut warnings = Vec::new();
    for source in &mut hierarchy.sources {
        let url = match source.url.as_str() {
            url if url.contains("://") => continue,
            path if path.starts_with('/') => path.to_owned(),
            relative => from_folder(relative, references, options, &mut warnings)?,
        };
        source.url = virtualize_store::url_of(&url)?;
    }
    Ok(warnings)
}

/// Resolves a relative url. Fails if different files match it in the folder and in the working directory.
fn from_folder(
    relative: &str,
    references: &str,
    options: &ReadOptions,
    warnings: &mut Vec<Diagnostic>,
) -> Result<String, Error> {
    let join = |folder: &str| format!("{}/{relative}", folder.trim_end_matches('/'));
    if let Some(folder) = &options.relative_to {
        return Ok(join(folder));
    }
    let there = join(folder_of(references));
    if is_remote(references) {
        return Ok(there);
    }
    let path = |url: &str| Path::new(url.strip_prefix("file://").unwrap_or(url)).canonicalize().ok();
    match (path(&there), path(relative)) {
        (None, Some(_)) => {
            let message =
                format!("{relative:?} is in the working directory, not in the folder of the references");
            warnings.push(warning(Code::RelativeUrl, "", message));
            Ok(relative.to_owned())
        }
        (Some(one), Some(other)) if one != other => Err(Error::AmbiguousUrl { url: relative.to_owned() }),
        _ => Ok(there),
    }
}

/// Records the current size, entity tag and time of sources without a recorded version, for formats by which readers
/// detect changed files.
///
/// # Errors
/// [`Error::Store`] if a source cannot be opened.
pub async fn record_sources(store: &mut VirtualStore, options: &StoreOptions) -> Result<(), Error> {
    let sources = &mut store.hierarchy.sources;
    let unknown = |source: &Source| source.etag.is_none() && source.modified.is_none();
    let places = sources.iter().enumerate().filter(|(_, source)| unknown(source));
    let places: Vec<_> = places.map(|(at, source)| (at, source.url.clone())).collect();
    for (at, found) in opened(places, options).await? {
        if let Some(source) = sources.get_mut(at) {
            *source = found;
        }
    }
    Ok(())
}

/// Opens sources concurrently. Urls stay as given, since servers may normalize them.
async fn opened<T>(places: Vec<(T, String)>, options: &StoreOptions) -> Result<Vec<(T, Source)>, Error> {
    stream::iter(places)
        .map(|(id, url)| async move {
            let object = virtualize_store::open(&url, options).await?;
            Ok::<_, Error>((id, Source { url, ..source_of(&object) }))
        })
        .buffer_unordered(options.concurrency.max(1))
        .try_collect()
        .await
}

/// Sets the lengths of chunks that consist of a whole file.
async fn resolve_whole_files(set: &mut ReferenceSet, options: &StoreOptions) -> Result<(), Error> {
    if set.whole_files.is_empty() {
        return Ok(());
    }
    let mut wanted: Vec<_> = set.whole_files.iter().map(|whole| whole.source).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let places: Vec<_> =
        wanted.iter().filter_map(|id| Some((*id, set.hierarchy.source(*id)?.url.clone()))).collect();
    for (id, found) in opened(places, options).await? {
        if let Some(source) = set.hierarchy.sources.get_mut(id.index()) {
            *source = found;
        }
    }
    let mut by_array: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for whole in &set.whole_files {
        let size = set.hierarchy.source(whole.source).map_or(0, |source| source.size);
        by_array.entry(&whole.array).or_default().insert(whole.position, size);
    }
    for (path, sizes) in by_array {
        let Some(array) = set.hierarchy.array_mut(path) else { continue };
        for column in std::mem::take(&mut array.chunks.references) {
            let mut builder = ReferencesBuilder::default();
            for (position, reference) in column.iter() {
                let length = match sizes.get(&position) {
                    Some(size) if (reference.offset, reference.length) == (0, 0) => *size,
                    _ => reference.length,
                };
                builder.push(position, reference.offset, length);
            }
            array.chunks.references.extend(builder.finish(column.source));
        }
    }
    Ok(())
}
