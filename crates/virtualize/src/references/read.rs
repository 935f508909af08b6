//! Reading of reference sets in all formats.

use bytes::Bytes;
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_map::{Diagnostic, Report};
use virtualize_references::{ParquetReferences, ReferenceSet, ReferencesError};
use virtualize_store::{Object, StoreError};

use super::location::{IN_FOLDER, ReadOptions, is_remote, warning};
use super::resolve;
use crate::error::Error;
use crate::store::VirtualStore;
use virtualize_remedy::Code;

/// Size limit of a document in bytes.
const LARGEST: u64 = 16 << 30;
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
    let (name, mut set) = match find(location, options).await? {
        Found::Json(object) => {
            let set = virtualize_references::from_json(&whole(&object).await?);
            let name = object.name().to_owned();
            let set =
                set.map_err(|source| Error::References { name: name.clone(), reason: source.to_string() })?;
            (name, set)
        }
        Found::Parquet(zmetadata) => (location.to_owned(), parquet(location, &zmetadata, options).await?),
        #[cfg(feature = "icechunk")]
        Found::Repository(read) => (location.to_owned(), plain(*read)),
    };
    let mut diagnostics = left_out(&set);
    diagnostics.extend(resolve::urls(&mut set.hierarchy, location, options)?);
    resolve::whole_files(&mut set, &options.store).await?;
    let mut store = VirtualStore::of(set.hierarchy, name);
    store.report = Report { diagnostics, ..Report::default() };
    Ok(store)
}

/// Kind of reference set at a location.
enum Found {
    Json(std::sync::Arc<Object>),
    Parquet(std::sync::Arc<Object>),
    #[cfg(feature = "icechunk")]
    Repository(Box<virtualize_icechunk::ReadRepository>),
}

/// Detects the kind of reference set at a location, and opens its first file.
async fn find(location: &str, options: &ReadOptions) -> Result<Found, Error> {
    let open = |place: String| async move { virtualize_store::open(&place, &options.store).await };
    let below = below_of(location, IN_FOLDER);
    if !location.ends_with('/') {
        match open(location.to_owned()).await {
            Ok(object) => return Ok(Found::Json(object)),
            Err(StoreError::NotAFile { what: "a directory", .. }) => {}
            Err(StoreError::NotFound { .. }) if is_remote(location) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match open(below.clone()).await {
        Ok(object) => Ok(Found::Json(object)),
        Err(error @ StoreError::NotFound { .. }) => match open(below_of(location, ZMETADATA)).await {
            Ok(zmetadata) => Ok(Found::Parquet(zmetadata)),
            Err(StoreError::NotFound { .. }) => repository(location, options, error.into()).await,
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

fn below_of(location: &str, key: &str) -> String {
    format!("{}/{key}", location.trim_end_matches('/'))
}

/// Reads kerchunk's Parquet layout. Each array has its own files; files without chunks may be missing.
async fn parquet(location: &str, zmetadata: &Object, options: &ReadOptions) -> Result<ReferenceSet, Error> {
    let failed = |key: &str, error: ReferencesError| Error::References {
        name: below_of(location, key),
        reason: error.to_string(),
    };
    let read = ParquetReferences::new(&whole(zmetadata).await?);
    let mut set = read.map_err(|error| failed(ZMETADATA, error))?;
    for (array, files) in set.arrays() {
        for file in 0..files {
            let key = format!("{array}/refs.{file}.parq");
            match virtualize_store::open(&below_of(location, &key), &options.store).await {
                Ok(object) => set.add(&key, whole(&object).await?).map_err(|error| failed(&key, error))?,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    set.finish().map_err(|error| failed(ZMETADATA, error))
}

#[cfg(feature = "icechunk")]
async fn repository(location: &str, options: &ReadOptions, otherwise: Error) -> Result<Found, Error> {
    match crate::commit::read(location, &options.version, &options.store).await? {
        Some(read) => Ok(Found::Repository(Box::new(read))),
        None => Err(otherwise),
    }
}

#[cfg(not(feature = "icechunk"))]
#[expect(clippy::unused_async, reason = "the other one waits")]
async fn repository(_: &str, _: &ReadOptions, otherwise: Error) -> Result<Found, Error> {
    Err(otherwise)
}

/// Reads a whole document of at most [`LARGEST`] bytes.
async fn whole(object: &Object) -> Result<Bytes, Error> {
    let size = object.size();
    if size > LARGEST {
        let reason = format!("{size} bytes, more than the {LARGEST} that are read");
        return Err(Error::References { name: object.name().to_owned(), reason });
    }
    let parts = object.read_ranges(&[ByteRange::new(0, size)]).await?;
    Ok(parts.into_iter().next().unwrap_or_default())
}

#[cfg(feature = "icechunk")]
fn plain(read: virtualize_icechunk::ReadRepository) -> ReferenceSet {
    let virtualize_icechunk::ReadRepository { hierarchy, left_out } = read;
    ReferenceSet { hierarchy, whole_files: Vec::new(), ignored: Vec::new(), left_out }
}

/// Returns a warning for each omitted array and key.
fn left_out(set: &ReferenceSet) -> Vec<Diagnostic> {
    let left_out =
        set.left_out.iter().map(|(path, reason)| warning(Code::ArrayLeftOut, path, reason.clone()));
    let mut all: Vec<_> = left_out.collect();
    if let Some(first) = set.ignored.first() {
        let message = format!("keys that belong to no array are left out, such as {first:?}");
        all.push(warning(Code::KeyIgnored, "", message));
    }
    all
}
