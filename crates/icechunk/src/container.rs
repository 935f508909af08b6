//! Virtual chunk containers: url prefixes that a reader of a repository has to authorize.

use std::collections::BTreeMap;

use icechunk::{ObjectStoreConfig, config::HttpConfig, virtual_chunks::VirtualChunkContainer};
use virtualize_zarr::Source;

use crate::{IcechunkError, StorageOptions};

/// Prefixes of sources that no container of a repository covers: the bucket of an object, the server of an HTTP url, and the
/// deepest common folder of all local files.
#[derive(Clone, Default)]
pub(crate) struct Containers {
    /// Prefixes of the repository's containers.
    known: Vec<String>,
    /// Prefixes of other sources, each with the url of a source for messages.
    prefixes: BTreeMap<String, String>,
    folder: Option<String>,
}

impl Containers {
    /// Starts with the prefixes of the containers that a repository has.
    pub(crate) fn new(known: Vec<String>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Adds the prefix of a source, given with its encoded url.
    pub(crate) fn add(&mut self, url: &str, source: &Source) -> Result<(), IcechunkError> {
        if self.known.iter().any(|prefix| url.starts_with(prefix.as_str())) {
            return Ok(());
        }
        if !url.starts_with("file://") {
            self.prefixes.entry(root(url)).or_insert_with(|| source.url.clone());
            return Ok(());
        }
        let own = url.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned() + "/";
        let folder = self.folder.take().map_or_else(|| own.clone(), |folder| common_folder(&folder, &own));
        if folder == "file:///" {
            let reason = "the only common folder of the local files is the root, which cannot be a container"
                .to_owned();
            return Err(IcechunkError::Source { url: folder, reason });
        }
        self.folder = Some(folder);
        Ok(())
    }

    /// Returns containers for the prefixes that none of the `known` ones covers.
    pub(crate) fn missing(
        &self,
        known: &[String],
        options: &StorageOptions,
    ) -> Result<Vec<VirtualChunkContainer>, IcechunkError> {
        let folder = self.folder.iter().map(|folder| (folder, folder));
        self.prefixes
            .iter()
            .chain(folder)
            .filter(|(prefix, _)| !known.iter().any(|known| prefix.starts_with(known.as_str())))
            .map(|(prefix, url)| container(prefix, url, options))
            .collect()
    }
}

/// Returns `scheme://bucket/`.
pub(crate) fn root(url: &str) -> String {
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
    use crate::location;

    fn prefixes(urls: &[&str]) -> Result<Vec<String>, IcechunkError> {
        let mut containers = Containers::default();
        for url in urls {
            let source = Source { url: (*url).to_owned(), ..Source::default() };
            containers.add(&location::encode_url(url)?, &source)?;
        }
        let made = containers.missing(&[], &StorageOptions::default())?;
        Ok(made.iter().map(|container| container.url_prefix().to_owned()).collect())
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
            ])
            .unwrap(),
            ["https://h/", "s3://b/", "file:///d/"]
        );
        assert_eq!(prefixes(&["file:///d/e/1.nc"]).unwrap(), ["file:///d/e/"]);
    }

    #[test]
    fn the_file_system_root_is_rejected() {
        assert!(prefixes(&["file:///a/1", "file:///b/2"]).is_err());
    }
}
