//! Locations of repositories, and the settings to connect to them.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    fmt::{self, Display},
    fs, io,
    num::{NonZeroU16, NonZeroU64},
    path::{Path, PathBuf},
    sync::Arc,
};

use icechunk::{
    Storage,
    config::{AzureCredentials, GcsCredentials, S3Credentials, S3Options, S3StaticCredentials},
    storage::{
        ConcurrencySettings, ObjectStorage, ObjectStoreBackend, RetriesSettings, Role, Settings,
        StorageError, StorageErrorKind, StorageInfo, new_azure_blob_storage, new_gcs_storage,
        new_http_storage, new_s3_object_store_storage,
    },
};
use object_store::{ObjectStore, local::LocalFileSystem};
use serde::{Deserialize, Serialize};
use virtualize_store::{Access, StoreOptions, sync_folder};

use crate::{IcechunkError, Result};

/// Settings of object stores. Missing ones are taken from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
#[derive(Clone, Debug, Default)]
pub struct StorageOptions {
    /// Pairs of key and value, such as (`aws_region`, `eu-west-1`).
    pub values: Vec<(String, String)>,
    /// Whether requests are unsigned.
    pub anonymous: bool,
    /// Url of a service other than the default one.
    pub endpoint: Option<String>,
    /// Detected regions of S3 buckets, by url (`s3://name`). They take precedence over other settings.
    pub regions: Arc<BTreeMap<String, String>>,
    /// Access to sources.
    pub store: StoreOptions,
}

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
    pub(crate) async fn connect(&self, options: &StorageOptions) -> Result<Arc<dyn Storage + Send + Sync>> {
        let settings = |endpoint: Vec<(String, String)>| {
            Some(options.values.iter().cloned().chain(endpoint).collect::<HashMap<_, _>>())
        };
        let connected = match self.clone() {
            Self::Local(path) => return Ok(Arc::new(durable_storage(&path)?)),
            Self::S3 { bucket, prefix } => {
                let credentials = options.s3_credentials();
                let settings = options.s3().with_anonymous(credentials.is_none());
                let credentials = credentials.or(Some(S3Credentials::Anonymous));
                let prefix = Some(prefix);
                new_s3_object_store_storage(settings, bucket, prefix, credentials, Vec::new(), Vec::new())
                    .await
            }
            Self::Google { bucket, prefix } => {
                let anonymous = options.google_is_anonymous();
                let credentials = if anonymous { GcsCredentials::Anonymous } else { GcsCredentials::FromEnv };
                let (prefix, credentials) = (Some(prefix), Some(credentials));
                let settings = settings(options.google_endpoint());
                new_gcs_storage(bucket, prefix, credentials, settings, Vec::new(), Vec::new())
            }
            Self::Azure { container, prefix } => {
                let anonymous = options.anonymous;
                let credentials =
                    if anonymous { AzureCredentials::Anonymous } else { AzureCredentials::FromEnv };
                let account = options.azure_account().ok_or_else(|| IcechunkError::Location {
                    location: format!("az://{container}/{prefix}"),
                    reason: "Azure needs the store option azure_storage_account_name".to_owned(),
                })?;
                let (prefix, credentials) = (Some(prefix), Some(credentials));
                let settings = settings(options.azure_endpoint());
                new_azure_blob_storage(account, container, prefix, credentials, settings).await
            }
            Self::Web(url) => {
                let plain = ("allow_http".to_owned(), "true".to_owned());
                new_http_storage(&url, Some(HashMap::from([plain])), None)
            }
        };
        connected.map_err(IcechunkError::of("connecting to the repository"))
    }
}

impl StorageOptions {
    /// Returns the settings for sources below a prefix.
    pub(crate) fn for_sources(&self, prefix: &str) -> Self {
        let Access { values, anonymous, endpoint, .. } = self.store.access(prefix).clone();
        Self { values, anonymous, endpoint, ..self.clone() }
    }

    /// Returns the settings of S3, both for virtual chunk containers and for the repository's own storage.
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
        self.anonymous || unsigned.is_some_and(|value| is_on(&value))
    }

    pub(crate) fn requester_pays(&self) -> bool {
        self.find(&["aws_request_payer", "request_payer"]).is_some_and(|value| is_on(&value))
    }

    pub(crate) fn region(&self) -> Option<String> {
        self.find(&["aws_region", "region", "aws_default_region"])
    }

    pub(crate) fn s3_endpoint(&self) -> Option<String> {
        self.endpoint
            .clone()
            .or_else(|| self.find(&["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"]))
    }

    pub(crate) fn azure_account(&self) -> Option<String> {
        self.find(&["azure_storage_account_name", "account_name"])
    }

    /// Returns whether requests to Google Cloud Storage are unsigned. Those to an emulator always are.
    pub(crate) fn google_is_anonymous(&self) -> bool {
        self.anonymous
            || self.find(&["google_skip_signature"]).is_some_and(|value| is_on(&value))
            || (self.google_url().is_none() && emulator().is_some())
    }

    fn google_url(&self) -> Option<String> {
        self.endpoint.clone().or_else(|| self.find(&["google_base_url"]))
    }

    /// Returns the settings for a custom endpoint of Google Cloud Storage, by keys of `object_store`.
    pub(crate) fn google_endpoint(&self) -> Vec<(String, String)> {
        endpoint("google_base_url", "google_allow_http", self.google_url().or_else(emulator))
    }

    /// Returns the settings for a custom endpoint of Azure Blob Storage, by keys of `object_store`.
    pub(crate) fn azure_endpoint(&self) -> Vec<(String, String)> {
        let url = self.endpoint.clone().or_else(|| self.find(&["azure_storage_endpoint", "azure_endpoint"]));
        endpoint("azure_storage_endpoint", "azure_allow_http", url)
    }

    /// Returns the credentials for the repository's own storage; `None` for anonymous access. Explicit keys win over the
    /// anonymous flag, which is meant for public buckets of source files.
    fn s3_credentials(&self) -> Option<S3Credentials> {
        let given = || Some((self.find(&["aws_access_key_id"])?, self.find(&["aws_secret_access_key"])?));
        match given() {
            Some((access_key_id, secret_access_key)) => Some(S3Credentials::Static(S3StaticCredentials {
                access_key_id,
                secret_access_key,
                session_token: self.find(&["aws_session_token", "aws_token"]),
                expires_after: None,
            })),
            None if self.is_anonymous() => None,
            None => Some(S3Credentials::FromEnv),
        }
    }

    /// Looks up a setting by any of its names: in the options, else in the environment.
    fn find(&self, names: &[&str]) -> Option<String> {
        let given = || self.values.iter().find(|(key, _)| names.contains(&key.to_ascii_lowercase().as_str()));
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

/// Returns the storage of a repository in a folder.
fn durable_storage(path: &Path) -> Result<ObjectStorage> {
    // The only public way from a backend to a storage.
    let backend: &dyn ObjectStoreBackend = &DurableFolder { path: path.to_owned() };
    let stored = serde_json::json!({ "backend": backend });
    serde_json::from_value(stored).map_err(IcechunkError::of("connecting to the repository"))
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

    fn mk_object_store(&self, _: &Settings, _: Role) -> Result<Arc<dyn ObjectStore>, StorageError> {
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

    fn default_settings(&self) -> Settings {
        Settings {
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
            ..Settings::default()
        }
    }

    fn create_location_if_needed(&self) -> Result<(), StorageError> {
        create_folder(&self.path).map_err(storage_error)
    }
}

fn storage_error(error: io::Error) -> StorageError {
    StorageError::capture(match error.kind() {
        io::ErrorKind::NotFound => StorageErrorKind::ObjectNotFound,
        _ => StorageErrorKind::IOError(error),
    })
}
