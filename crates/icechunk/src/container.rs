//! Virtual chunk containers: url prefixes that a reader of a repository has to authorize.

use std::collections::BTreeMap;

use icechunk::{ObjectStoreConfig, config::HttpConfig, virtual_chunks::VirtualChunkContainer};
use virtualize_zarr::Source;

use crate::{IcechunkError, StorageOptions, location};

/// Returns containers for the sources that none of the `known` prefixes covers: the bucket of an object, the server of an
/// HTTP url, and the deepest common folder of all local files.
pub(crate) fn containers(
    sources: &[Source],
    known: &[String],
    options: &StorageOptions,
) -> Result<Vec<VirtualChunkContainer>, IcechunkError> {
    let mut prefixes: BTreeMap<String, &str> = BTreeMap::new();
    let mut folder: Option<String> = None;
    for source in sources {
        let url = location::encode_url(&source.url)?;
        if known.iter().any(|prefix| url.starts_with(prefix.as_str())) {
            continue;
        }
        if url.starts_with("file://") {
            let own = url.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned() + "/";
            folder = Some(folder.map_or_else(|| own.clone(), |folder| common_folder(&folder, &own)));
        } else {
            prefixes.insert(root(&url), &source.url);
        }
    }
    if let Some(folder) = &folder {
        if folder == "file:///" {
            let reason = "the only common folder of the local files is the root, which cannot be a container"
                .to_owned();
            return Err(IcechunkError::Source { url: folder.clone(), reason });
        }
        prefixes.insert(folder.clone(), folder);
    }
    prefixes.iter().map(|(prefix, url)| container(prefix, url, options)).collect()
}

/// Returns `scheme://bucket/`.
fn root(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    format!("{scheme}://{}/", rest.split('/').next().unwrap_or(rest))
}

/// Returns the deepest common folder, with a trailing slash.
fn common_folder(one: &str, other: &str) -> String {
    let steps = one.split_inclusive('/').zip(other.split_inclusive('/'));
    steps.take_while(|(one, other)| one == other).map(|(step, _)| step).collect()
}

fn container(
    prefix: &str,
    url: &str,
    options: &StorageOptions,
) -> Result<VirtualChunkContainer, IcechunkError> {
    let refuse = |reason: &str| IcechunkError::Source { url: url.to_owned(), reason: reason.to_owned() };
    let store = match prefix.split("://").next().unwrap_or_default() {
        "file" => ObjectStoreConfig::LocalFileSystem(Default::default()),
        "http" | "https" => ObjectStoreConfig::Http(HttpConfig::default()),
        "gs" => ObjectStoreConfig::Gcs(options.google_endpoint().into_iter().collect()),
        "az" | "abfs" => {
            let account = options.azure_account();
            let account =
                account.ok_or_else(|| refuse("Azure needs the store option azure_storage_account_name"))?;
            let account = ("account".to_owned(), account);
            ObjectStoreConfig::Azure(options.azure_endpoint().into_iter().chain([account]).collect())
        }
        _ => {
            let settings = match options.regions.get(prefix.trim_end_matches('/')) {
                Some(region) => options.s3().with_region(region.clone()),
                None => options.s3(),
            };
            match options.s3_endpoint().is_some() {
                true => ObjectStoreConfig::S3Compatible(settings),
                false => ObjectStoreConfig::S3(settings),
            }
        }
    };
    VirtualChunkContainer::new(prefix.to_owned(), store).map_err(|reason| refuse(&reason))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn prefixes(urls: &[&str]) -> Vec<String> {
        let source = |url: &&str| Source { url: (*url).to_owned(), ..Source::default() };
        let sources: Vec<_> = urls.iter().map(source).collect();
        let made = containers(&sources, &[], &StorageOptions::default()).unwrap();
        made.iter().map(|container| container.url_prefix().to_owned()).collect()
    }

    #[test]
    fn containers_are_buckets_servers_and_the_common_folder() {
        assert_eq!(
            prefixes(&[
                "s3://b/x/1.nc",
                "file:///d/e/1.nc",
                "s3://b/y/2.nc",
                "file:///d/ef/2.nc",
                "https://h/1.tif"
            ]),
            ["file:///d/", "https://h/", "s3://b/"]
        );
        assert_eq!(prefixes(&["file:///d/e/1.nc"]), ["file:///d/e/"]);
    }

    #[test]
    fn the_file_system_root_is_rejected() {
        let source = |url: &str| Source { url: url.to_owned(), ..Source::default() };
        assert!(
            containers(&[source("file:///a/1"), source("file:///b/2")], &[], &StorageOptions::default())
                .is_err()
        );
    }
}
