//! Resolution of source urls, and of the sizes of files that references name as a whole.

use std::{collections::BTreeMap, path::Path};

use futures::{StreamExt, TryStreamExt, stream};
use virtualize_map::Diagnostic;
use virtualize_references::ReferenceSet;
use virtualize_remedy::Code;
use virtualize_store::StoreOptions;
use virtualize_zarr::{ChunkManifest, Hierarchy, ReferencesBuilder, Source};

use super::read::{ReadOptions, folder_of, is_remote, warning};
use crate::error::Error;
use crate::sources::source_of;
use crate::store::VirtualStore;

/// Makes urls absolute: paths become `file` urls. Relative urls are resolved against the folder of the references (as
/// in GDAL) or, if no file exists there, against the working directory (as in fsspec).
pub(super) fn urls(
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
    let there = join(&folder_of(references));
    if is_remote(references) {
        return Ok(there);
    }
    let path = |url: &str| Path::new(url.strip_prefix("file://").unwrap_or(url)).canonicalize().ok();
    match (path(&there), path(relative)) {
        (None, Some(_)) => {
            let message = format!("{relative:?} is in the working directory, not beside the references");
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
pub(super) async fn whole_files(set: &mut ReferenceSet, options: &StoreOptions) -> Result<(), Error> {
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
        if let Some(array) = set.hierarchy.array_mut(path) {
            lengthen(&mut array.chunks, &sizes);
        }
    }
    Ok(())
}

/// Sets the lengths of chunks, given by position.
fn lengthen(chunks: &mut ChunkManifest, sizes: &BTreeMap<u64, u64>) {
    let columns = std::mem::take(&mut chunks.references);
    for column in columns {
        let mut builder = ReferencesBuilder::default();
        for (position, reference) in column.iter() {
            let length = match sizes.get(&position) {
                Some(size) if (reference.offset, reference.length) == (0, 0) => *size,
                _ => reference.length,
            };
            builder.push(position, reference.offset, length);
        }
        chunks.references.extend(builder.finish(column.source));
    }
}
