//! Access to files: options, the identity of requests, and the service they go to. A prefix of URLs can have its own
//! settings.

use std::{
    env, fmt,
    io::Read,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

use crate::{
    Allowed, Clients, ForeignStore, StoreError, Traffic,
    clients::{Pool, Settings},
    error::without_query,
    location::{Location, Service},
};

/// Maximum length of a bearer token in bytes.
const MAX_TOKEN: u64 = 64 << 10;
/// Maximum length of a configuration file of AWS in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// How files are accessed. Missing settings come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`, `EARTHDATA_*`).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// Configuration of the store by the keys of `object_store`, such as `aws_region` or `timeout`.
    pub values: Vec<(String, String)>,
    /// Send requests without a signature, token or login.
    pub anonymous: bool,
    /// URL of a service other than the default one.
    pub endpoint: Option<String>,
    /// Bearer token for HTTPS requests.
    pub bearer_token: Option<String>,
    /// File with the bearer token, which is read for each request.
    pub bearer_token_file: Option<PathBuf>,
    /// AWS profile, whose credentials the AWS CLI provides.
    pub profile: Option<String>,
    /// URL that returns temporary S3 credentials, such as the one of a NASA data centre.
    pub s3_credentials: Option<String>,
    /// URL that returns a SAS for a container of Azure Blob Storage, with the placeholders `{account}` and `{container}`.
    pub sas_tokens: Option<String>,
    /// URL of the Earthdata Login service, if it is not the one of NASA's production systems.
    pub earthdata_login: Option<String>,
}

/// Shows keys of values only, and of the token only whether it is set.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.values.iter().map(|(key, _)| key).collect();
        f.debug_struct("Access")
            .field("values", &keys)
            .field("anonymous", &self.anonymous)
            .field("endpoint", &self.endpoint)
            .field("bearer_token", &self.bearer_token.as_ref().map(|_| "…"))
            .field("profile", &self.profile)
            .field("s3_credentials", &self.s3_credentials)
            .finish_non_exhaustive()
    }
}

/// Prefixes of URLs with access of their own. The longest prefix of a URL applies, and replaces all settings of the
/// default access.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Stores(Arc<Vec<(String, Access)>>);

impl Stores {
    /// Creates a table of prefixes such as `s3://bucket/` or `https://host/folder/`.
    ///
    /// # Errors
    /// [`StoreError::Location`] for a prefix that is not the start of URLs.
    pub fn new(stores: impl IntoIterator<Item = (String, Access)>) -> Result<Self, StoreError> {
        let mut table = Vec::new();
        for (prefix, access) in stores {
            let remote = match Location::parse_prefix(&prefix)? {
                Location::Local(_) | Location::Foreign(_) => None,
                location => Some(location.url().trim_end_matches('/').to_owned()),
            };
            let reason = "expected the start of URLs, such as s3://bucket/ or https://host/";
            table.push((remote.ok_or_else(|| StoreError::location(prefix, reason))?, access));
        }
        table.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(Self(Arc::new(table)))
    }

    /// Returns the longest prefix of a URL, and its access.
    pub(crate) fn find(&self, url: &str) -> Option<(&str, &Access)> {
        self.0
            .iter()
            .find(|(prefix, _)| covers(prefix, url))
            .map(|(prefix, access)| (prefix.as_str(), access))
    }
}

/// Whose identity a request had, as far as this crate chose it. Its text has no secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// None, because the options say so.
    Anonymous,
    /// None, because none is configured.
    Nobody,
    /// None, although the server requires a login at this host.
    NoLogin(String),
    /// That of a setting, such as the environment variable with this name.
    Setting(&'static str),
    /// That of an AWS profile.
    Profile(String),
    /// That of the machine, or the default of the provider's tools.
    Machine,
    /// Temporary credentials that this URL returned.
    Issued(String),
    /// The bearer token of the options, or of this file.
    Bearer(Option<PathBuf>),
    /// The Earthdata login from this source.
    Earthdata(String),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("requested anonymously"),
            Self::Nobody => f.write_str("requested without credentials"),
            Self::NoLogin(host) => write!(f, "requested without a login at {host}"),
            Self::Setting(name) => write!(f, "requested with {name}"),
            Self::Profile(name) => write!(f, "requested with the AWS profile {name}"),
            Self::Machine => f.write_str("requested with the default credentials of this machine"),
            Self::Issued(url) => write!(f, "requested with credentials from {url}"),
            Self::Bearer(None) => f.write_str("requested with the bearer token"),
            Self::Bearer(Some(file)) => write!(f, "requested with the bearer token in {}", file.display()),
            Self::Earthdata(source) => write!(f, "requested with the Earthdata login of {source}"),
        }
    }
}

/// Returns whether a URL is below a prefix without a slash at its end.
pub(crate) fn covers(prefix: &str, url: &str) -> bool {
    url.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

impl Access {
    /// Returns the identity of requests to a location, before any login.
    pub(crate) fn identity(&self, location: &Location) -> Identity {
        let set = |names: &[&'static str]| self.setting(names).map(Identity::Setting);
        let issued = |url: &String| Identity::Issued(without_query(url).to_owned());
        match location {
            _ if self.anonymous => Identity::Anonymous,
            Location::Bucket { service: Service::S3, .. } => {
                let profile = || self.profile().map(Identity::Profile);
                let given = || set(&["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"]);
                let unsigned =
                    || set(&["AWS_SKIP_SIGNATURE", "AWS_NO_SIGN_REQUEST"]).map(|_| Identity::Anonymous);
                let issued = self.s3_credentials.as_ref().map(issued);
                issued.or_else(profile).or_else(unsigned).or_else(given).unwrap_or(Identity::Machine)
            }
            Location::Bucket { service: Service::Google, .. } => {
                let given =
                    ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_BEARER_TOKEN"];
                set(&given).unwrap_or(Identity::Machine)
            }
            Location::Bucket { service: Service::Azure, .. } => {
                let given = ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_CLIENT_ID"];
                let issued = self.sas_tokens.as_ref().map(issued);
                issued.or_else(|| set(&given)).unwrap_or(Identity::Machine)
            }
            Location::Http(_) => match (&self.bearer_token_file, &self.bearer_token, &self.sas_tokens) {
                (Some(file), ..) => Identity::Bearer(Some(file.clone())),
                (None, Some(_), _) => Identity::Bearer(None),
                (None, None, Some(url)) => issued(url),
                (None, None, None) => Identity::Nobody,
            },
            Location::Local(_) | Location::Foreign(_) => Identity::Nobody,
        }
    }

    /// Returns the first of these names that the settings or the environment have.
    fn setting(&self, names: &[&'static str]) -> Option<&'static str> {
        let given = |name: &str| self.values.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        names.iter().copied().find(|name| given(name) || is_set(name))
    }

    /// Returns the AWS profile to use: that of the settings, or, unless other credentials are given, that in `AWS_PROFILE`, or
    /// the profile `default` if it has credentials and the AWS CLI is installed.
    pub(crate) fn profile(&self) -> Option<String> {
        const OTHERS: [&str; 4] =
            ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE", "AWS_NO_SIGN_REQUEST"];
        if self.profile.is_some() {
            return self.profile.clone();
        }
        if self.setting(&OTHERS).is_some() {
            return None;
        }
        static DEFAULT: LazyLock<bool> = LazyLock::new(has_default_profile);
        let ambient = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        ambient.or_else(|| DEFAULT.then(|| "default".to_owned()))
    }

    /// Returns the bearer token for a web server; reads the file that contains it.
    pub(crate) fn token(&self) -> Result<Option<String>, StoreError> {
        let Some(path) = self.bearer_token_file.as_ref().filter(|_| !self.anonymous) else {
            return Ok(self.bearer_token.clone().filter(|_| !self.anonymous));
        };
        let failed = |error: &std::io::Error| StoreError::Denied {
            name: path.display().to_string(),
            reason: error.to_string(),
            identity: Some(Identity::Bearer(Some(path.clone()))),
        };
        let mut token = String::new();
        let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
        file.take(MAX_TOKEN).read_to_string(&mut token).map_err(|error| failed(&error))?;
        match token.trim() {
            "" => Err(failed(&std::io::Error::other("the file has no token"))),
            token => Ok(Some(token.to_owned())),
        }
    }
}

/// Returns whether the AWS CLI is installed, and the profile `default` has credentials.
fn has_default_profile() -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&folders);
    if !folders.any(|folder| folder.join(format!("aws{}", env::consts::EXE_SUFFIX)).is_file()) {
        return false;
    }
    let files = [("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")];
    files.into_iter().any(|(variable, name)| {
        let path = env::var_os(variable).map(PathBuf::from);
        let path = path.or_else(|| Some(env::home_dir()?.join(".aws").join(name)));
        let mut text = String::new();
        let file = path.and_then(|path| std::fs::File::open(path).ok());
        file.and_then(|file| file.take(MAX_CONFIG).read_to_string(&mut text).ok()).is_some()
            && has_credentials(&text)
    })
}

/// Returns whether a configuration of AWS has credentials for the profile `default`.
fn has_credentials(config: &str) -> bool {
    const KEYS: [&str; 6] = [
        "aws_access_key_id",
        "credential_process",
        "login_session",
        "role_arn",
        "sso_session",
        "sso_start_url",
    ];
    let lines = config.lines().map(str::trim).skip_while(|line| *line != "[default]").skip(1);
    let mut keys = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once('='));
    keys.any(|(key, _)| KEYS.contains(&key.trim()))
}

/// Options for accessing files.
#[derive(Clone)]
pub struct StoreOptions {
    /// Access to files below none of the prefixes of `stores`.
    pub access: Access,
    /// Access to files below prefixes.
    pub stores: Stores,
    /// Maximum concurrent requests, at least 1, of all files that share [`StoreOptions::clients`].
    pub concurrency: usize,
    /// Number of retries of a failed request.
    pub retries: usize,
    /// Maximum time for all attempts of a request together.
    pub retry_timeout: Duration,
    /// Maximum size in bytes of an HTTP file to download whole if its server does not support range requests.
    pub whole_limit: u64,
    /// Maximum bytes of cached pages.
    pub cache_bytes: u64,
    /// Listed files of at most this many bytes are fetched whole by their first request.
    pub small_file: u64,
    /// Counts the requests of all files with these options or clones of them.
    pub traffic: Traffic,
    /// Connections shared by files and by clones of these options.
    pub clients: Clients,
    /// Prefixes of files that may be opened, whether the user or another file names them; `None` for all.
    pub allowed: Option<Allowed>,
    /// Store through which all files are read, whatever the scheme of their URLs. Outputs are not written through it.
    pub through: Option<Arc<dyn ForeignStore>>,
}

impl StoreOptions {
    /// Checks that a URL starts with an allowed prefix.
    pub(crate) fn check_allowed(&self, url: &str) -> Result<(), StoreError> {
        self.allowed.as_ref().map_or(Ok(()), |allowed| allowed.check(url).map(drop))
    }

    /// Returns the access to a location, and the prefix of [`StoreOptions::stores`] that it comes from, if any.
    pub(crate) fn access_to(&self, location: &Location) -> (Option<&str>, &Access) {
        match self.stores.find(&location.url()) {
            Some((prefix, access)) => (Some(prefix), access),
            None => (None, &self.access),
        }
    }

    /// Returns the access to a URL or to a prefix of URLs.
    pub fn access(&self, url: &str) -> &Access {
        self.stores.find(url).map_or(&self.access, |(_, access)| access)
    }

    /// Returns the resources that files with these options share.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        self.clients.pool(Settings {
            access: self.access.clone(),
            stores: self.stores.clone(),
            concurrency: self.concurrency,
            retries: self.retries,
            retry_timeout: self.retry_timeout,
        })
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            access: Access::default(),
            stores: Stores::default(),
            concurrency: 128,
            retries: 5,
            retry_timeout: Duration::from_secs(60),
            whole_limit: 256 << 20,
            cache_bytes: 128 << 20,
            small_file: 1 << 20,
            traffic: Traffic::default(),
            clients: Clients::default(),
            allowed: None,
            through: None,
        }
    }
}

/// Omits secrets, as [`Access`] does.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("access", &self.access)
            .field("stores", &self.stores)
            .field("concurrency", &self.concurrency)
            .field("retries", &self.retries)
            .field("allowed", &self.allowed)
            .field("through", &self.through)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_applies() {
        let named = |name: &str| Access { endpoint: Some(name.to_owned()), ..Access::default() };
        let stores = ["s3://b/", "s3://b/deep", "s3a://other", "https://Host/data/"];
        let stores = Stores::new(stores.map(|prefix| (prefix.to_owned(), named(prefix)))).unwrap();
        let found = |url: &str| stores.find(url).and_then(|(_, access)| access.endpoint.clone());
        assert_eq!(found("s3://b/x.nc").as_deref(), Some("s3://b/"));
        assert_eq!(found("s3://b").as_deref(), Some("s3://b/"));
        assert_eq!(found("s3://b/deep/x.nc").as_deref(), Some("s3://b/deep"));
        assert_eq!(found("s3://b/deeper.nc").as_deref(), Some("s3://b/"));
        assert_eq!(found("s3://other/x").as_deref(), Some("s3a://other"));
        assert_eq!(found("https://host/data/a.nc?sig=1").as_deref(), Some("https://Host/data/"));
        for url in ["s3://bb/x", "gs://b/x", "https://host/database", "https://host.example/data/a"] {
            assert_eq!(found(url), None, "{url}");
        }
        for wrong in ["/data/", "file:///data/", "ftp://host/", "bucket"] {
            assert!(Stores::new([(wrong.to_owned(), Access::default())]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_profile_counts_if_it_has_credentials() {
        for has in
            ["[default]\naws_access_key_id = A\n", "[profile x]\na=b\n[default]\nregion=r\n sso_session=s"]
        {
            assert!(has_credentials(has), "{has}");
        }
        for none in ["", "[default]\nregion = r\n[profile x]\nrole_arn = r\n", "[defaults]\nrole_arn = r"] {
            assert!(!has_credentials(none), "{none}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let secret = || "s3cret".to_owned();
        let values = vec![("aws_secret_access_key".to_owned(), secret())];
        let access = Access { values, bearer_token: Some(secret()), ..Access::default() };
        assert!(!format!("{access:?}").contains("s3cret"));
    }
}
