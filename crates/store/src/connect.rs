use std::{env, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, GetOptions, HeaderValue, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    client::HttpClient,
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    list::PaginatedListStore,
    path::Path,
};
use url::Url;
use virtualize_remedy::similar;

use crate::{
    Access, StoreError, StoreOptions,
    clients::{Bucket, Purpose, Straight, client, observed},
    credentials::{Endpoint, Profile, Renewed, S3Endpoint, SasEndpoint},
    error::without_query,
    link::{Failure, Link},
    location::{Location, Service},
    meter::Meter,
    session::{self, Signatures, WebClient},
};

/// Connects to the store of a remote object, and returns it with the path of the object within it. Callers that read retry by themselves; a store for writing retries
/// internally.
pub(crate) fn connect(
    location: &Location,
    purpose: Purpose,
    options: &StoreOptions,
) -> Result<(Arc<dyn ObjectStore>, Path), StoreError> {
    let Location::Bucket { service, bucket, key } = location else {
        return Err(StoreError::location(location.name(), "it is not in an object store"));
    };
    let path = key_path(&location.name(), key)?;
    Ok((connect_bucket(*service, bucket, key, purpose, options)?.objects, path))
}

/// Returns the store of an output in a bucket, and the key of the output, for libraries that write it by themselves. Detects the
/// region of the bucket first.
///
/// # Errors
/// [`StoreError`] if the URL does not name an object in a bucket, or the options do not describe a store.
pub async fn connect_output(
    url: &str,
    options: &StoreOptions,
) -> Result<(Arc<dyn ObjectStore>, String), StoreError> {
    let location = Location::parse(url.trim_end_matches('/'))?;
    settle_region(&location, options).await?;
    let (store, key) = connect(&location, Purpose::Writing, options)?;
    Ok((store, key.into()))
}

/// Returns the path of a key. Rejects keys that cannot be requested unmodified: `Path` drops a `/` at either end, and
/// HTTP clients resolve steps such as `..` in URLs.
fn key_path(name: &str, key: &str) -> Result<Path, StoreError> {
    let reason = if key.is_empty() || key.ends_with('/') {
        "a key that ends in a slash names a folder, expected the key of an object"
    } else if key.split('/').any(str::is_empty) {
        "the key has an empty name between slashes, which is not read here: copy the object to another key"
    } else if key.split('/').any(|part| matches!(part, "." | "..")) {
        "the key has a step such as `..`, which is not read here: copy the object to another key"
    } else if key.contains(|c: char| c.is_ascii_control()) {
        "the key has a control character, which is not read here: copy the object to another key"
    } else {
        let path = Path::parse(key).map_err(|error| StoreError::remote(name, &error.into()))?;
        if path.as_ref() == key {
            return Ok(path);
        }
        "the key cannot be requested: copy the object to another key"
    };
    let name: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    Err(StoreError::location(name, reason))
}

/// Returns the bucket of a URL such as `s3://name`, with shared connections and the access to a key.
pub(crate) fn connect_bucket(
    service: Service,
    bucket: &str,
    key: &str,
    purpose: Purpose,
    options: &StoreOptions,
) -> Result<Bucket, StoreError> {
    let retries = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: if purpose == Purpose::Reading { 0 } else { options.retries },
        retry_timeout: options.retry_timeout,
    };
    let location = Location::Bucket { service, bucket: bucket.to_owned(), key: key.to_owned() };
    let (prefix, access) = options.access_to(&location);
    options.pool().bucket(bucket, prefix, purpose, |region| {
        let built = match service {
            Service::S3 => s3(bucket, region, access, options)?.with_retry(retries).build().map(shared),
            Service::Google => google(bucket, access)?.with_retry(retries).build().map(shared),
            Service::Azure => azure(bucket, access, options)?.with_retry(retries).build().map(shared),
        };
        built.map_err(|error| StoreError::remote(bucket, &error))
    })
}

fn shared(store: impl ObjectStore + PaginatedListStore) -> Bucket {
    let store = Arc::new(store);
    Bucket { objects: store.clone(), pages: store }
}

/// Returns the client for requests to a web server. If only some prefixes may be read, it follows no redirects, and refuses
/// a bearer token that is not for a prefix, which would be sent to every allowed host.
pub(crate) fn web_client(url: &Url, name: &str, options: &StoreOptions) -> Result<HttpClient, StoreError> {
    let (prefix, access) = options.access_to(&Location::Http(url.clone()));
    let has_token =
        !access.anonymous && (access.bearer_token.is_some() || access.bearer_token_file.is_some());
    if options.allowed.is_some() && has_token && prefix.is_none() {
        let reason = "is sent only below a prefix of `store` where only some prefixes are allowed".to_owned();
        return Err(StoreError::Option { key: "bearer token".to_owned(), reason });
    }
    if has_token && !session::is_private(url) {
        return Err(StoreError::location(name, "a bearer token is sent over https only"));
    }
    let failed = |error: object_store::Error| StoreError::remote(name, &error);
    let create = |client: HttpClient, follows: bool| {
        let sas = access.sas_tokens.as_ref().filter(|_| !access.anonymous);
        let sas = sas.map(|template| {
            let client = issuer_client(&session::sas_endpoint(template, "account", "container")?, options)?;
            Ok(Signatures { template: template.clone(), client })
        });
        Ok(HttpClient::new(WebClient {
            client: observed(client),
            access: access.clone(),
            prefix: prefix.map(str::to_owned),
            follows,
            sessions: Arc::clone(&options.pool().sessions),
            sas: sas.transpose()?,
        }))
    };
    if let Some(allowed) = &options.allowed {
        return create(allowed.client().map_err(failed)?, false);
    }
    options.pool().web(prefix, url.scheme() == "https", || {
        let mut settings = client_options().with_allow_http(url.scheme() == "http");
        for (key, value) in &access.values {
            let parsed = key.to_ascii_lowercase().parse::<ClientConfigKey>();
            settings = settings.with_config(parsed.map_err(|_| unknown(key))?, value);
        }
        create(client(&settings, |builder| builder).map_err(failed)?, true)
    })
}

/// Returns the client for a URL that issues credentials. The user names it, so that it needs not be allowed.
fn issuer_client(url: &Url, options: &StoreOptions) -> Result<HttpClient, StoreError> {
    let options = StoreOptions { allowed: None, ..options.clone() };
    if options.access_to(&Location::Http(url.clone())).1.sas_tokens.is_some() {
        let reason = "the service itself is below a prefix with signatures".to_owned();
        return Err(StoreError::Option { key: "sas-tokens".to_owned(), reason });
    }
    web_client(url, without_query(url.as_str()), &options)
}

macro_rules! configured {
    ($builder:expr, $key:ty, $prefix:literal, $access:expr) => {{
        let mut builder = $builder;
        for (name, value) in env::vars_os() {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
            if name.starts_with($prefix)
                && let Ok(key) = name.to_ascii_lowercase().parse::<$key>()
            {
                builder = builder.with_config(key, value);
            }
        }
        for (name, value) in &$access.values {
            let key = name.to_ascii_lowercase().parse::<$key>().map_err(|_| unknown(name))?;
            builder = builder.with_config(key, value);
        }
        builder
    }};
}

/// Configures a client for S3; `region` is the detected region of the bucket.
fn s3(
    bucket: &str,
    region: Option<String>,
    access: &Access,
    options: &StoreOptions,
) -> Result<AmazonS3Builder, StoreError> {
    let mut start = AmazonS3Builder::new().with_client_options(client_options());
    if let Some(region) = region {
        start = start.with_region(region);
    }
    let mut builder = configured!(start, AmazonS3ConfigKey, "AWS_", access);
    if access.s3_credentials.is_some() || access.profile.is_some() {
        builder = builder.with_skip_signature(false);
    } else if is_set("AWS_NO_SIGN_REQUEST") {
        builder = builder.with_skip_signature(true);
    }
    if access.anonymous {
        builder = builder.with_skip_signature(true);
    } else if let Some(text) = &access.s3_credentials {
        let url = session::issuer("s3-credentials", text)?;
        let provider = S3Endpoint(Endpoint { client: issuer_client(&url, options)?, url });
        builder = builder.with_credentials(Arc::new(Renewed::new(provider)));
    } else if let Some(profile) = access.profile() {
        builder = builder.with_credentials(Arc::new(Renewed::new(Profile(profile))));
    }
    if let Some(endpoint) = &access.endpoint {
        builder = builder.with_endpoint(endpoint).with_config(
            AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp),
            endpoint.starts_with("http://").to_string(),
        );
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    check_endpoint(endpoint.clone())?;
    let allows_http = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    if endpoint.is_some_and(|url| url.starts_with("http:")) && allows_http.as_deref() != Some("true") {
        let reason = "it has no TLS: set AWS_ALLOW_HTTP=true to use it".to_owned();
        return Err(StoreError::Option { key: "endpoint".to_owned(), reason });
    }
    Ok(builder.with_url(bucket).with_http_connector(Straight))
}

/// Refuses an endpoint that is not the URL of a server: `object_store` panics at the first request to it.
fn check_endpoint(endpoint: Option<String>) -> Result<(), StoreError> {
    let Some(endpoint) = endpoint else { return Ok(()) };
    let is_server = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if Url::parse(&endpoint).is_ok_and(is_server) {
        return Ok(());
    }
    let reason = format!("{endpoint:?} is not a URL such as https://host:9000");
    Err(StoreError::Option { key: "endpoint".to_owned(), reason })
}

fn google(bucket: &str, access: &Access) -> Result<GoogleCloudStorageBuilder, StoreError> {
    let start = GoogleCloudStorageBuilder::new().with_client_options(client_options());
    let mut builder = configured!(start, GoogleConfigKey, "GOOGLE_", access);
    if access.anonymous {
        builder = builder.with_skip_signature(true);
    }
    let emulator = emulator(&builder).filter(|_| access.endpoint.is_none());
    if emulator.is_some() {
        builder = builder.with_skip_signature(true);
    }
    if let Some(endpoint) = access.endpoint.as_ref().or(emulator.as_ref()) {
        builder = builder.with_config(GoogleConfigKey::BaseUrl, endpoint).with_config(
            GoogleConfigKey::Client(ClientConfigKey::AllowHttp),
            endpoint.starts_with("http://").to_string(),
        );
    }
    check_endpoint(builder.get_config_value(&GoogleConfigKey::BaseUrl))?;
    Ok(builder.with_url(bucket).with_http_connector(Straight))
}

/// Returns the URL of an emulator of Google Cloud Storage, which needs no credentials.
fn emulator(builder: &GoogleCloudStorageBuilder) -> Option<String> {
    let host = env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty())?;
    if builder.get_config_value(&GoogleConfigKey::BaseUrl).is_some() {
        return None;
    }
    let url = if host.contains("://") { host } else { format!("http://{host}") };
    Some(url.trim_end_matches('/').to_owned())
}

fn azure(bucket: &str, access: &Access, options: &StoreOptions) -> Result<MicrosoftAzureBuilder, StoreError> {
    let start = MicrosoftAzureBuilder::new().with_client_options(client_options());
    let mut builder = configured!(start, AzureConfigKey, "AZURE_", access);
    let is_set = |key| builder.get_config_value(&key).is_some_and(|value| value != "false");
    if !bucket.contains('@')
        && ![AzureConfigKey::AccountName, AzureConfigKey::UseEmulator].into_iter().any(is_set)
    {
        let reason =
            "the URL does not name the storage account: set the store option azure_storage_account_name";
        return Err(StoreError::location(bucket, reason));
    }
    builder = builder.with_url(bucket);
    if access.anonymous {
        builder = builder.with_skip_signature(true);
    } else if let Some(template) = &access.sas_tokens {
        // abfss://container@account.dfs.core.windows.net, or az://container
        let rest = bucket.split_once("://").map_or(bucket, |(_, rest)| rest);
        let (container, host) = rest.split_once('@').unwrap_or((rest, ""));
        let account = host.split('.').next().filter(|account| !account.is_empty()).map(str::to_owned);
        let account = account.or_else(|| builder.get_config_value(&AzureConfigKey::AccountName));
        let url = session::sas_endpoint(template, &account.unwrap_or_default(), container)?;
        let provider = SasEndpoint(Endpoint { client: issuer_client(&url, options)?, url });
        builder = builder.with_credentials(Arc::new(Renewed::new(provider)));
    }
    if let Some(endpoint) = &access.endpoint {
        builder = builder.with_endpoint(endpoint.clone()).with_config(
            AzureConfigKey::Client(ClientConfigKey::AllowHttp),
            endpoint.starts_with("http://").to_string(),
        );
    }
    check_endpoint(builder.get_config_value(&AzureConfigKey::Endpoint))?;
    Ok(builder.with_http_connector(Straight))
}

/// Returns the defaults of a client. As in `object_store`, it uses HTTP/1.1 unless the user sets `http1_only=false`: all
/// requests of an HTTP/2 client share the bandwidth that a server grants one connection.
pub(crate) fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_http1_only()
        .with_user_agent(HeaderValue::from_static(concat!("virtualize/", env!("CARGO_PKG_VERSION"))))
        .with_connect_timeout(Duration::from_secs(10))
        .with_read_timeout(Duration::from_secs(30))
        .with_timeout(Duration::from_secs(600))
}

fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes"))
}

/// Sends a request, and sends it again if the bucket turns out to be in another region than was known before.
pub(crate) async fn in_region<T, F: Future<Output = Result<T, Failure>>>(
    location: &Location,
    options: &StoreOptions,
    request: impl Fn() -> F,
) -> Result<T, Failure> {
    let known = region_of(location, options);
    match request().await {
        Err(Failure::Other(error)) if follow_region(location, &error, known.as_deref(), options) => {
            request().await
        }
        answer => answer,
    }
}

/// Returns the detected region of a location's bucket.
fn region_of(location: &Location, options: &StoreOptions) -> Option<String> {
    match location {
        Location::Bucket { service: Service::S3, bucket, .. } => options.pool().region(bucket),
        _ => None,
    }
}

/// Records the region that a failed request reported, and returns whether to send the request again: it was sent when
/// another region was known, `used`. Does not override a configured region.
fn follow_region(
    location: &Location,
    error: &StoreError,
    used: Option<&str>,
    options: &StoreOptions,
) -> bool {
    let (Location::Bucket { service: Service::S3, bucket, .. }, StoreError::Region { region, .. }) =
        (location, error)
    else {
        return false;
    };
    if is_configured(location, options) || used == Some(region) {
        return false;
    }
    tracing::info!("{bucket} is in the region {region}");
    options.pool().set_region(bucket, Some(region));
    true
}

/// Detects the region of a bucket before it is written to, once, unless a region is configured.
pub(crate) async fn settle_region(location: &Location, options: &StoreOptions) -> Result<(), StoreError> {
    let Location::Bucket { service: Service::S3, bucket, .. } = location else { return Ok(()) };
    let pool = options.pool();
    if is_configured(location, options) || pool.knows_region(bucket) {
        return Ok(());
    }
    let head = GetOptions { head: true, ..GetOptions::default() };
    // Any key serves; the object need not exist.
    let any = Location::Bucket { service: Service::S3, bucket: bucket.clone(), key: "region".to_owned() };
    let answer = Link::new(&any, options)?.get(head, &Meter::new(options), |_| Ok(())).await;
    match answer {
        Err(Failure::Other(error @ StoreError::Region { .. })) => {
            follow_region(location, &error, None, options);
        }
        _ if pool.knows_region(bucket) => {}
        _ => pool.set_region(bucket, None),
    }
    Ok(())
}

/// Returns the detected region of the S3 bucket of a URL.
pub fn known_region(url: &str, options: &StoreOptions) -> Option<String> {
    region_of(&Location::parse_prefix(url).ok()?, options)
}

/// Returns whether the options or the environment set a region.
fn is_configured(location: &Location, options: &StoreOptions) -> bool {
    const NAMES: [&str; 4] = ["aws_region", "aws_default_region", "region", "default_region"];
    let is_region = |key: &str| NAMES.contains(&key.to_ascii_lowercase().as_str());
    options.access_to(location).1.values.iter().any(|(key, _)| is_region(key))
        || NAMES.iter().any(|name| {
            env::var(name.to_ascii_uppercase())
                .is_ok_and(|region| name.starts_with("aws") && !region.is_empty())
        })
}

/// Settings to suggest for unknown ones; `object_store` has no list of all.
const SETTINGS: &str = "\
    aws_access_key_id aws_secret_access_key aws_session_token aws_region aws_endpoint \
    aws_skip_signature aws_request_payer aws_virtual_hosted_style_request aws_allow_http \
    google_service_account google_service_account_key google_application_credentials \
    google_base_url google_bearer_token google_skip_signature azure_storage_account_name \
    azure_storage_account_key azure_storage_sas_key azure_storage_client_id \
    azure_storage_client_secret azure_storage_tenant_id azure_storage_endpoint \
    azure_storage_use_emulator azure_skip_signature allow_http allow_invalid_certificates \
    connect_timeout http1_only timeout pool_idle_timeout proxy_url user_agent";

/// Returns an error for the key of an option that no kind of store has.
///
/// # Errors
/// [`StoreError::Option`], with a similar key if there is one.
pub fn check_option(key: &str) -> Result<(), StoreError> {
    let name = key.to_ascii_lowercase();
    let is_known = name.parse::<AmazonS3ConfigKey>().is_ok()
        || name.parse::<GoogleConfigKey>().is_ok()
        || name.parse::<AzureConfigKey>().is_ok()
        || name.parse::<ClientConfigKey>().is_ok();
    if is_known { Ok(()) } else { Err(unknown(key)) }
}

fn unknown(key: &str) -> StoreError {
    let reason = match similar(&key.to_ascii_lowercase(), SETTINGS.split(' ')) {
        Some(name) => format!("unknown for this kind of store; did you mean \"{name}\"?"),
        None => "unknown for this kind of store".to_owned(),
    };
    StoreError::Option { key: key.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_settings_exist() {
        for name in SETTINGS.split(' ') {
            assert_eq!(check_option(name), Ok(()));
        }
    }

    #[test]
    fn endpoints_are_urls_of_servers() {
        for right in ["https://host", "http://127.0.0.1:9000/path", "https://[::1]:9000"] {
            assert!(check_endpoint(Some(right.to_owned())).is_ok(), "{right}");
        }
        for wrong in ["", "host", "localhost:9000", "ftp://host", "http://", "/path", "https:// host"] {
            assert!(check_endpoint(Some(wrong.to_owned())).is_err(), "{wrong}");
        }
        assert!(check_endpoint(None).is_ok());
    }

    #[test]
    fn keys_are_requested_as_they_are_or_not_at_all() {
        for key in ["a/b c.nc", "a%2Fb", "a+b#c?d", "\u{fc}/\u{65e5}", " a ", "a/...", ".a", "a\\b", "~a*"] {
            assert_eq!(key_path("", key).unwrap().as_ref(), key);
        }
        for key in ["", "/a", "a/", "a//b", "//a", "a/./b", "a/../b", "..", "a\nb", "a\u{7f}"] {
            assert!(matches!(key_path("s3://b/k", key), Err(StoreError::Location { .. })), "{key:?}");
        }
    }
}
