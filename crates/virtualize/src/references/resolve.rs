//! Where sources lie, and how long those are that are referred to as a whole.

use std::{collections::BTreeMap, path::Path};

use futures::{StreamExt, TryStreamExt, stream};
use virtualize_map::Diagnostic;
use virtualize_references::ReferenceSet;
use virtualize_store::StoreOptions;
use virtualize_zarr::{ChunkManifest, Hierarchy, ReferencesBuilder, Source};

use super::read::{ReadOptions, folder_of, is_remote, warning};
use crate::{Error, VirtualStore, sources::source_of};

/// Makes urls absolute: paths become `file` urls, relative ones start from the folder of the references (as GDAL takes
/// them), or, where nothing lies there, from the working directory (as fsspec does).
pub(super) fn urls(
    hierarchy: &mut Hierarchy,
    references: &str,
    options: &ReadOptions,
) -> Result<Vec<Diagnostic>, Error> {
    let mut said = Vec::new();
    for source in &mut hierarchy.sources {
        let url = match source.url.as_str() {
            url if url.contains("://") => continue,
            path if path.starts_with('/') => path.to_owned(),
            relative => from_folder(relative, references, options, &mut said)?,
        };
        source.url = virtualize_store::url_of(&url)?;
    }
    Ok(said)
}

fn from_folder(
    relative: &str,
    references: &str,
    options: &ReadOptions,
    said: &mut Vec<Diagnostic>,
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
            let message = format!("{relative:?} lies in the working directory, not beside the references");
            said.push(warning("relative-url", "", message));
            Ok(relative.to_owned())
        }
        (Some(one), Some(other)) if one != other => Err(Error::AmbiguousUrl { url: relative.to_owned() }),
        _ => Ok(there),
    }
}

/// Notes size, entity tag and time of sources of which neither tag nor time is known, as they are now: for formats by
/// which readers see that a file has changed.
///
/// # Errors
/// [`Error::Store`] where one cannot be opened.
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

/// Opens sources, many at once. The url stays as it was said: servers may spell it otherwise.
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

/// Gives chunks that are whole files their lengths.
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

/// Sets the lengths at positions.
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
