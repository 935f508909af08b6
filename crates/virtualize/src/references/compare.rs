//! Comparison of two locations, each a reference set or a file.

use std::sync::Arc;

use virtualize_map::MapOptions;
use virtualize_remedy::Code;
use virtualize_store::Object;
use virtualize_zarr::ZarrFormat;

use super::{diff::diff, difference::Difference, location::ReadOptions, read::read_references};
use crate::error::Error;
use crate::open::open_object;
use crate::options::Options;
use crate::source_formats::{Detected, detect};
use crate::store::VirtualStore;

/// Compares two locations, each of which is a reference set or an HDF5, NetCDF or TIFF file. A file is mapped for the Zarr
/// format of the references that it is compared with; two files are mapped for v3. Chunks of two files are equal if
/// their offsets are.
///
/// # Errors
/// As [`read_references`] and [`crate::open`].
pub async fn compare(
    first: &str,
    second: &str,
    urls: bool,
    options: &ReadOptions,
) -> Result<Difference, Error> {
    let (one, other) = (file(first, options).await?, file(second, options).await?);
    let (first_is_set, second_is_set) = (one.is_none(), other.is_none());
    let (one, other, urls) = match (one, other) {
        (None, None) => {
            (read_references(first, options).await?, read_references(second, options).await?, urls)
        }
        (Some(file), None) => {
            let references = read_references(second, options).await?;
            (map(file, references.hierarchy.format, options).await?, references, urls)
        }
        (None, Some(file)) => {
            let references = read_references(first, options).await?;
            let mapped = map(file, references.hierarchy.format, options).await?;
            (references, mapped, urls)
        }
        (Some(one), Some(other)) => {
            (map(one, ZarrFormat::V3, options).await?, map(other, ZarrFormat::V3, options).await?, false)
        }
    };
    let mut found = diff(&one.hierarchy, &other.hierarchy, urls);
    for (is_first, is_set, store) in [(true, first_is_set, &one), (false, second_is_set, &other)] {
        if is_set {
            unread(store, is_first, &mut found);
        }
    }
    Ok(found)
}

/// Reports arrays that could not be read from references as unread instead of missing.
fn unread(store: &VirtualStore, first: bool, found: &mut Difference) {
    for left_out in store.warnings().filter(|warning| warning.code == Code::ArrayLeftOut) {
        found.unread(left_out.path.trim_start_matches('/'), first, &left_out.message);
    }
}

/// Opens a location if it is a file of a source format. Returns `None` otherwise.
async fn file(location: &str, options: &ReadOptions) -> Result<Option<Arc<Object>>, Error> {
    let Ok(object) = virtualize_store::open(location, &options.store).await else { return Ok(None) };
    let is_known = matches!(detect(object.as_ref()).await?, Detected::Known(_));
    Ok(is_known.then_some(object))
}

/// Maps a file for a Zarr format, with default options.
async fn map(object: Arc<Object>, format: ZarrFormat, options: &ReadOptions) -> Result<VirtualStore, Error> {
    let map = MapOptions { format, ..MapOptions::default() };
    open_object(object, &Options { store: options.store.clone(), map, ..Options::default() }).await
}
