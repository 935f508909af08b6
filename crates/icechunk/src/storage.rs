//! Where a repository lies, and how it is reached.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    path::PathBuf,
    sync::Arc,
};

use icechunk::{
    Storage,
    config::{AzureCredentials, GcsCredentials, S3Credentials, S3Options, S3StaticCredentials},
    storage::{
        new_azure_blob_storage, new_gcs_storage, new_local_filesystem_storage, new_s3_object_store_storage,
    },
};

use crate::IcechunkError;

/// How stores are reached. What is not said comes from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
#[derive(Clone, Debug, Default)]
pub struct StorageOptions {
    /// Settings such as (`aws_region`, `eu-west-1`).
    pub values: Vec<(String, String)>,
    /// Requests are not signed.
    pub anonymous: bool,
    /// Url of the service, where it is not the usual one.
    pub endpoint: Option<String>,
    /// Where buckets of S3 are, by their urls (`s3://name`), where that was found; it goes before other settings.
    pub regions: Arc<BTreeMap<String, String>>,
}

/// Where a repository lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RepositoryLocation {
    /// A folder.
    Local(PathBuf),
    /// A prefix of a bucket that speaks S3.
    S3 {
        /// The bucket.
        bucket: String,
        /// Without slashes at its ends; not empty.
        prefix: String,
    },
    /// A prefix in Google Cloud Storage.
    Google {
        /// The bucket.
        bucket: String,
        /// Without slashes at its ends; not empty.
        prefix: String,
    },
    /// A prefix in Azure Blob Storage.
    Azure {
        /// The container.
        container: String,
        /// Without slashes at its ends; not empty.
        prefix: String,
    },
}

impl RepositoryLocation {
    /// Reads a path or url.
    pub fn parse(text: &str) -> Result<Self, IcechunkError> {
        let refuse =
            |reason: &str| IcechunkError::Location { location: text.to_owned(), reason: reason.to_owned() };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        if scheme == "file" {
            return match rest.starts_with('/') {
                true => Ok(Self::Local(PathBuf::from(rest))),
                false => Err(refuse("a file url has three slashes")),
            };
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, prefix) = (bucket.to_owned(), prefix.trim_matches('/').to_owned());
        if bucket.is_empty() || prefix.is_empty() {
            return Err(refuse("a repository lies under a prefix of a bucket, such as s3://bucket/prefix"));
        }
        match scheme {
            "s3" | "s3a" => Ok(Self::S3 { bucket, prefix }),
            "gs" | "gcs" => Ok(Self::Google { bucket, prefix }),
            "az" | "azure" | "abfs" => Ok(Self::Azure { container: bucket, prefix }),
            _ => Err(refuse("a repository lies in a folder, or under s3://, gs:// or az://")),
        }
    }

    /// Connects to it. Nothing is read or written yet.
    pub(crate) async fn connect(
        &self,
        options: &StorageOptions,
    ) -> Result<Arc<dyn Storage + Send + Sync>, IcechunkError> {
        let connected = match self.clone() {
            Self::Local(path) => new_local_filesystem_storage(&path).await,
            Self::S3 { bucket, prefix } => {
                let credentials = options.s3_credentials();
                let settings = options.s3().with_anonymous(credentials.is_none());
                let credentials = credentials.or(Some(S3Credentials::Anonymous));
                new_s3_object_store_storage(
                    settings,
                    bucket,
                    Some(prefix),
                    credentials,
                    Vec::new(),
                    Vec::new(),
                )
                .await
            }
            Self::Google { bucket, prefix } => {
                let credentials = match options.google_is_anonymous() {
                    true => GcsCredentials::Anonymous,
                    false => GcsCredentials::FromEnv,
                };
                let settings = options.map().into_iter().chain(options.google_endpoint());
                new_gcs_storage(
                    bucket,
                    Some(prefix),
                    Some(credentials),
                    Some(settings.collect()),
                    Vec::new(),
                    Vec::new(),
                )
            }
            Self::Azure { container, prefix } => {
                let credentials = match options.anonymous {
                    true => AzureCredentials::Anonymous,
                    false => AzureCredentials::FromEnv,
                };
                let account = options.azure_account().ok_or_else(|| IcechunkError::Location {
                    location: format!("az://{container}/{prefix}"),
                    reason: "Azure needs the store option azure_storage_account_name".to_owned(),
                })?;
                new_azure_blob_storage(
                    account,
                    container,
                    Some(prefix),
                    Some(credentials),
                    Some(options.map().into_iter().chain(options.azure_endpoint()).collect()),
                )
                .await
            }
        };
        connected.map_err(IcechunkError::of("reaching the repository"))
    }
}

impl StorageOptions {
    /// S3's settings, as a virtual chunk container keeps them and as the repository's own store takes them.
    pub(crate) fn s3(&self) -> S3Options {
        let mut options = S3Options::default().with_anonymous(self.is_anonymous());
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
        let unsigned = |value: String| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes");
        self.anonymous || self.find(&["aws_skip_signature", "aws_no_sign_request"]).is_some_and(unsigned)
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

    /// Whether Google's requests carry no credentials: a server that stands for Google's takes none.
    pub(crate) fn google_is_anonymous(&self) -> bool {
        let unsigned = |value: String| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes");
        self.anonymous
            || self.find(&["google_skip_signature"]).is_some_and(unsigned)
            || (self.google_url().is_none() && emulator().is_some())
    }

    fn google_url(&self) -> Option<String> {
        self.endpoint.clone().or_else(|| self.find(&["google_base_url"]))
    }

    /// Where Google's service is, by object_store's keys, where it is not the usual one.
    pub(crate) fn google_endpoint(&self) -> Vec<(String, String)> {
        endpoint("google_base_url", "google_allow_http", self.google_url().or_else(emulator))
    }

    /// The same for Azure's.
    pub(crate) fn azure_endpoint(&self) -> Vec<(String, String)> {
        let url = self.endpoint.clone().or_else(|| self.find(&["azure_storage_endpoint", "azure_endpoint"]));
        endpoint("azure_storage_endpoint", "azure_allow_http", url)
    }

    /// The settings as Icechunk's constructors take them.
    fn map(&self) -> HashMap<String, String> {
        self.values.iter().cloned().collect()
    }

    /// Those of the repository: a public bucket of sources does not make its requests anonymous where there are some.
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

    /// A setting by any of its names: what the user said, else the environment.
    fn find(&self, names: &[&str]) -> Option<String> {
        let said = || self.values.iter().find(|(key, _)| names.contains(&key.to_ascii_lowercase().as_str()));
        let set = || names.iter().find_map(|name| env::var(name.to_ascii_uppercase()).ok());
        said().map(|(_, value)| value.clone()).or_else(set).filter(|value| !value.is_empty())
    }
}

/// A server that stands for Google's.
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
