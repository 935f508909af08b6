//! Locations of repositories, and the settings to connect to them.

use std::{
    cell::Cell,
    collections::HashMap,
    env,
    fmt::{self, Display},
    fs, io,
    num::{NonZeroU16, NonZeroU64},
    path::{Path, PathBuf},
    sync::Arc,
};

use icechunk::{
    Storage,
    config::S3Options,
    storage::{
        ConcurrencySettings, ObjectStorage, ObjectStoreBackend, RetriesSettings, Role,
        Settings as StorageSettings, StorageError, StorageErrorKind, StorageInfo, new_http_storage,
    },
};
use object_store::{ObjectStore, local::LocalFileSystem};
use serde::{Deserialize, Serialize};
use virtualize_store::{Access, StoreOptions, connect_output, known_region, sync_folder};

use crate::{IcechunkError, Result};

/// Location of a repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RepositoryLocation {
    /// A local folder.
    Local(PathBuf),
    /// A prefix in a bucket of S3 or a compatible service.
    S3 {
        /// Bucket.
        bucket: String,
        /// Prefix without leading and trailing slashes; not empty.
        prefix: String,
    },
    /// A prefix in Google Cloud Storage.
    Google {
        /// Bucket.
        bucket: String,
        /// Prefix without leading and trailing slashes; not empty.
        prefix: String,
    },
    /// A prefix in Azure Blob Storage.
    Azure {
        /// Container.
        container: String,
        /// Prefix without leading and trailing slashes; not empty.
        prefix: String,
    },
    /// A url of a web server, without a slash at its end, from which a repository can be read.
    Web(String),
}

impl RepositoryLocation {
    /// Returns the url of the repository, without a slash at its end.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Local(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("file://{}", path.display()).trim_end_matches('/').to_owned()
            }
            Self::S3 { bucket, prefix } => format!("s3://{bucket}/{prefix}"),
            Self::Google { bucket, prefix } => format!("gs://{bucket}/{prefix}"),
            Self::Azure { container, prefix } => format!("az://{container}/{prefix}"),
            Self::Web(url) => url.clone(),
        }
    }

    /// Parses a path or url.
    ///
    /// # Errors
    /// The scheme is not supported, or the url has no bucket or no prefix.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse =
            |reason: &str| IcechunkError::Location { location: text.to_owned(), reason: reason.to_owned() };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        if scheme == "file" {
            return if rest.starts_with('/') {
                Ok(Self::Local(PathBuf::from(rest)))
            } else {
                Err(refuse("a file url starts with file:///"))
            };
        }
        if matches!(scheme, "http" | "https") {
            return Ok(Self::Web(text.trim_end_matches('/').to_owned()));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, prefix) = (bucket.to_owned(), prefix.trim_matches('/').to_owned());
        if bucket.is_empty() || prefix.is_empty() {
            return Err(refuse("expected a bucket and a prefix, such as s3://bucket/prefix"));
        }
        match scheme {
            "s3" | "s3a" => Ok(Self::S3 { bucket, prefix }),
            "gs" | "gcs" => Ok(Self::Google { bucket, prefix }),
            "az" | "azure" | "abfs" => Ok(Self::Azure { container: bucket, prefix }),
            _ => Err(refuse("expected a folder, or a url with the scheme s3, gs, az or https")),
        }
    }

    /// Connects to the storage. No request is made yet.
    pub(crate) async fn connect(&self, options: &StoreOptions) -> Result<Arc<dyn Storage + Send + Sync>> {
        match self {
            Self::Local(path) => of_backend(&DurableFolder { path: path.clone() }),
            Self::Web(url) => {
                let plain = ("allow_http".to_owned(), "true".to_owned());
                new_http_storage(url, Some(HashMap::from([plain])), None)
                    .map_err(IcechunkError::of("connecting to the repository"))
            }
            Self::S3 { .. } | Self::Google { .. } | Self::Azure { .. } => {
                let url = self.url();
                let (store, prefix) = connect_output(&url, options).await?;
                STORE.set(Some(store));
                of_backend(&Bucket { url, prefix, store: None })
            }
        }
    }
}

/// Settings that readers of a repository need for the URLs below a prefix. Missing ones are taken from the environment (`AWS_*`,
/// `GOOGLE_*`, `AZURE_*`).
pub(crate) struct Settings<'a> {
    pub(crate) access: &'a Access,
    url: &'a str,
    options: &'a StoreOptions,
}

impl<'a> Settings<'a> {
    /// Returns the settings of a URL or prefix.
    pub(crate) fn of(url: &'a str, options: &'a StoreOptions) -> Self {
        Self { access: options.access(url), url, options }
    }

    /// Returns the settings of S3.
    pub(crate) fn s3(&self) -> S3Options {
        let mut options = S3Options::default()
            .with_anonymous(self.is_anonymous())
            .with_requester_pays(self.requester_pays());
        if let Some(region) = self.region() {
            options = options.with_region(region);
        }
        if let Some(endpoint) = self.s3_endpoint() {
            options = options
                .with_allow_http(endpoint.starts_with("http://"))
                .with_force_path_style(true)
                .with_endpoint_url(endpoint);
        }
        options
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        let unsigned = self.find(&["aws_skip_signature", "aws_no_sign_request"]);
        self.access.anonymous || unsigned.is_some_and(|value| is_on(&value))
    }

    pub(crate) fn requester_pays(&self) -> bool {
        self.find(&["aws_request_payer", "request_payer"]).is_some_and(|value| is_on(&value))
    }

    pub(crate) fn region(&self) -> Option<String> {
        known_region(self.url, self.options)
            .or_else(|| self.find(&["aws_region", "region", "aws_default_region"]))
    }

    pub(crate) fn s3_endpoint(&self) -> Option<String> {
        self.access
            .endpoint
            .clone()
            .or_else(|| self.find(&["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"]))
    }

    pub(crate) fn azure_account(&self) -> Option<String> {
        self.find(&["azure_storage_account_name", "account_name"])
    }

    /// Returns whether requests to Google Cloud Storage are unsigned. Those to an emulator always are.
    pub(crate) fn google_is_anonymous(&self) -> bool {
        self.access.anonymous
            || self.find(&["google_skip_signature"]).is_some_and(|value| is_on(&value))
            || (self.google_url().is_none() && emulator().is_some())
    }

    fn google_url(&self) -> Option<String> {
        self.access.endpoint.clone().or_else(|| self.find(&["google_base_url"]))
    }

    /// Returns the settings for a custom endpoint of Google Cloud Storage, by keys of `object_store`.
    pub(crate) fn google_endpoint(&self) -> Vec<(String, String)> {
        endpoint("google_base_url", "google_allow_http", self.google_url().or_else(emulator))
    }

    /// Returns the settings for a custom endpoint of Azure Blob Storage, by keys of `object_store`.
    pub(crate) fn azure_endpoint(&self) -> Vec<(String, String)> {
        let url =
            self.access.endpoint.clone().or_else(|| self.find(&["azure_storage_endpoint", "azure_endpoint"]));
        endpoint("azure_storage_endpoint", "azure_allow_http", url)
    }

    /// Looks up a setting by any of its names: in the options, else in the environment.
    fn find(&self, names: &[&str]) -> Option<String> {
        let given =
            || self.access.values.iter().find(|(key, _)| names.contains(&key.to_ascii_lowercase().as_str()));
        let set = || names.iter().find_map(|name| env::var(name.to_ascii_uppercase()).ok());
        given().map(|(_, value)| value.clone()).or_else(set).filter(|value| !value.is_empty())
    }
}

fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes")
}

/// Returns the url of a Google Cloud Storage emulator from the environment.
fn emulator() -> Option<String> {
    let host = env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty())?;
    Some(if host.contains("://") { host } else { format!("http://{host}") })
}

fn endpoint(key: &str, plain: &str, url: Option<String>) -> Vec<(String, String)> {
    let Some(url) = url else { return Vec::new() };
    let is_plain = url.starts_with("http://");
    let plain = is_plain.then(|| (plain.to_owned(), "true".to_owned()));
    [(key.to_owned(), url.trim_end_matches('/').to_owned())].into_iter().chain(plain).collect()
}

/// Returns the storage of a backend.
fn of_backend(backend: &dyn ObjectStoreBackend) -> Result<Arc<dyn Storage + Send + Sync>> {
    // The only public way from a backend to a storage.
    let stored = serde_json::json!({ "backend": backend });
    let storage = serde_json::from_value::<ObjectStorage>(stored);
    Ok(Arc::new(storage.map_err(IcechunkError::of("connecting to the repository"))?))
}

/// Creates a folder and its missing parents, durably.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    create_folder(parent)?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| sync_folder(parent)),
    }
}

/// A folder to which each file is written with `fsync`, and then its name: a commit refers only to files that are on the disk.
/// Icechunk's own storage for folders leaves the writing to the system. After a loss of power, the file that names all commits
/// may then be empty, and the repository unreadable.
#[derive(Debug, Serialize, Deserialize)]
struct DurableFolder {
    path: PathBuf,
}

impl Display for DurableFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

#[typetag::serde(name = "virtualize_durable_folder")]
impl ObjectStoreBackend for DurableFolder {
    fn storage_info(&self) -> StorageInfo {
        StorageInfo { backend_type: "local folder", fields: vec![("path", self.path.display().to_string())] }
    }

    fn mk_object_store(&self, _: &StorageSettings, _: Role) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let path = fs::canonicalize(&self.path).map_err(storage_error)?;
        let folder = LocalFileSystem::new_with_prefix(path);
        let folder =
            folder.map_err(|error| StorageError::capture(StorageErrorKind::ObjectStore(Box::new(error))))?;
        Ok(Arc::new(folder.with_fsync(true)))
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn artificially_sort_refs_in_mem(&self) -> bool {
        true
    }

    fn supports_storage_class(&self) -> bool {
        false
    }

    fn default_settings(&self) -> StorageSettings {
        StorageSettings {
            concurrency: Some(ConcurrencySettings {
                max_concurrent_requests_for_object: NonZeroU16::new(5),
                ideal_concurrent_request_size: NonZeroU64::new(4096),
            }),
            // A folder has neither.
            unsafe_use_conditional_update: Some(false),
            unsafe_use_metadata: Some(false),
            retries: Some(RetriesSettings {
                max_tries: NonZeroU16::new(1),
                initial_backoff_ms: Some(0),
                max_backoff_ms: Some(0),
            }),
            ..StorageSettings::default()
        }
    }

    fn create_location_if_needed(&self) -> Result<(), StorageError> {
        create_folder(&self.path).map_err(storage_error)
    }
}

thread_local! {
    /// The store of the next [`Bucket`] that is deserialized.
    static STORE: Cell<Option<Arc<dyn ObjectStore>>> = const { Cell::new(None) };
}

/// A prefix of a bucket. Unlike the stores of Icechunk, its store renews credentials.
#[derive(Debug, Serialize, Deserialize)]
struct Bucket {
    url: String,
    prefix: String,
    #[serde(skip, default = "take_store")]
    store: Option<Arc<dyn ObjectStore>>,
}

fn take_store() -> Option<Arc<dyn ObjectStore>> {
    STORE.take()
}

impl Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[typetag::serde(name = "virtualize_bucket")]
impl ObjectStoreBackend for Bucket {
    fn storage_info(&self) -> StorageInfo {
        StorageInfo { backend_type: "bucket", fields: vec![("url", self.url.clone())] }
    }

    fn mk_object_store(&self, _: &StorageSettings, _: Role) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let missing =
            || StorageError::capture(StorageErrorKind::Other("the store is not connected".to_owned()));
        self.store.clone().ok_or_else(missing)
    }

    fn prefix(&self) -> String {
        self.prefix.clone()
    }

    fn default_settings(&self) -> StorageSettings {
        StorageSettings::default()
    }
}

fn storage_error(error: io::Error) -> StorageError {
    StorageError::capture(match error.kind() {
        io::ErrorKind::NotFound => StorageErrorKind::ObjectNotFound,
        _ => StorageErrorKind::IOError(error),
    })
}
