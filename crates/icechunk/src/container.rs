//! Virtual chunk containers: URL prefixes that a reader of a repository has to authorize, and the Python code that does.

use std::{collections::BTreeMap, fmt::Write};

use icechunk::{ObjectStoreConfig, config::HttpConfig, virtual_chunks::VirtualChunkContainer};
use virtualize_store::StoreOptions;
use virtualize_zarr::Source;

use crate::{CommitOptions, IcechunkError, RepositoryLocation, Result, storage::Settings};

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
    pub(crate) fn add(&mut self, url: &str, source: &Source) -> Result<()> {
        if self.known.iter().any(|prefix| url.starts_with(prefix.as_str())) {
            return Ok(());
        }
        if !url.starts_with("file://") {
            self.prefixes.entry(root(url)).or_insert_with(|| source.url.clone());
            return Ok(());
        }
        let own = url.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned() + "/";
        let folder = match self.folder.take() {
            None => own,
            Some(folder) => {
                let steps = folder.split_inclusive('/').zip(own.split_inclusive('/'));
                steps.take_while(|(one, other)| one == other).map(|(step, _)| step).collect()
            }
        };
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
        options: &StoreOptions,
    ) -> Result<Vec<VirtualChunkContainer>> {
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

fn container(prefix: &str, url: &str, options: &StoreOptions) -> Result<VirtualChunkContainer> {
    let options = Settings::of(prefix, options);
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
            let settings = options.s3();
            if options.s3_endpoint().is_some() {
                ObjectStoreConfig::S3Compatible(settings)
            } else {
                ObjectStoreConfig::S3(settings)
            }
        }
    };
    VirtualChunkContainer::new(prefix.to_owned(), store).map_err(|reason| refuse(&reason))
}

/// Returns a snippet that opens a group of the branch and authorizes all virtual chunk containers of the repository.
pub(crate) fn snippet(
    location: &RepositoryLocation,
    options: &CommitOptions,
    group: &str,
    containers: &[VirtualChunkContainer],
) -> String {
    let url = location.url();
    let storage = python_storage(location, &Settings::of(&url, &options.store));
    let credentials = containers.iter().map(|container| {
        let prefix = container.url_prefix();
        let credentials = credentials(prefix, &Settings::of(prefix, &options.store));
        format!("    {}: {credentials},\n", quoted(prefix))
    });
    let credentials: String = credentials.collect();
    let branch = quoted(&options.branch);
    let group = if group.is_empty() { String::new() } else { format!(", group={}", quoted(group)) };
    format!(
        "import icechunk, xarray as xr\n\
         storage = {storage}\n\
         credentials = icechunk.containers_credentials({{\n{credentials}}})\n\
         repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=credentials)\n\
         session = repository.readonly_session({branch})\n\
         dataset = xr.open_zarr(session.store{group}, consolidated=False)"
    )
}

fn python_storage(location: &RepositoryLocation, options: &Settings<'_>) -> String {
    match location {
        RepositoryLocation::Local(path) => {
            format!("icechunk.local_filesystem_storage({})", quoted(&path.display().to_string()))
        }
        RepositoryLocation::S3 { bucket, prefix } => {
            let mut text =
                format!("icechunk.s3_storage(bucket={}, prefix={}", quoted(bucket), quoted(prefix));
            if let Some(region) = options.region() {
                let _ = write!(text, ", region={}", quoted(&region));
            }
            if let Some(endpoint) = options.s3_endpoint() {
                let http = if endpoint.starts_with("http://") { ", allow_http=True" } else { "" };
                let _ = write!(text, ", endpoint_url={}{http}, force_path_style=True", quoted(&endpoint));
            }
            text + if options.is_anonymous() { ", anonymous=True)" } else { ", from_env=True)" }
        }
        RepositoryLocation::Google { bucket, prefix } => {
            let access = if options.google_is_anonymous() { "anonymous=True" } else { "from_env=True" };
            let (bucket, prefix) = (quoted(bucket), quoted(prefix));
            let config = python_config(&options.google_endpoint());
            format!("icechunk.gcs_storage(bucket={bucket}, prefix={prefix}, {access}{config})")
        }
        RepositoryLocation::Azure { container, prefix } => format!(
            "icechunk.azure_storage(account={}, container={}, prefix={}, {}{})",
            quoted(&options.azure_account().unwrap_or_default()),
            quoted(container),
            quoted(prefix),
            if options.access.anonymous { "anonymous=True" } else { "from_env=True" },
            python_config(&options.azure_endpoint())
        ),
        RepositoryLocation::Web(url) => format!("icechunk.http_storage({})", quoted(url)),
    }
}

/// Returns the `config` argument for a service with a custom endpoint.
fn python_config(settings: &[(String, String)]) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let settings: BTreeMap<_, _> = settings.iter().cloned().collect();
    format!(", config={}", serde_json::json!(settings))
}

fn credentials(prefix: &str, options: &Settings<'_>) -> &'static str {
    let anonymous = options.is_anonymous();
    match prefix.split("://").next().unwrap_or_default() {
        "file" => "icechunk.Credentials.LocalFileSystemAccess()",
        "http" | "https" => "icechunk.Credentials.HttpAccess()",
        "gs" if anonymous || options.google_is_anonymous() => "icechunk.GcsCredentials.Anonymous()",
        "gs" => "icechunk.gcs_from_env_credentials()",
        "az" | "abfs" if anonymous => "icechunk.azure_anonymous_credentials()",
        "az" | "abfs" => "icechunk.azure_from_env_credentials()",
        _ if anonymous => "icechunk.s3_anonymous_credentials()",
        _ => "icechunk.s3_from_env_credentials()",
    }
}

/// Returns a string literal that is valid in both JSON and Python.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::chunks;

    fn prefixes(urls: &[&str]) -> Result<Vec<String>> {
        let mut containers = Containers::default();
        for url in urls {
            let source = Source { url: (*url).to_owned(), ..Source::default() };
            containers.add(&chunks::encode_url(url)?, &source)?;
        }
        let made = containers.missing(&[], &StoreOptions::default())?;
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
