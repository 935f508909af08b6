use std::time::Duration;

use serde::Deserialize;
use virtualize_store::StoreOptions;

use super::value;

/// How files are reached. Settings that are not given come from the environment (AWS_*, GOOGLE_*, AZURE_*).
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Store options"))]
pub struct ConnectionOptions {
    /// Store setting, such as aws_region=eu-west-1 or timeout=30s; may be repeated
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "KEY=VALUE", value_parser = value::parse_pair, hide_env_values = true)
    )]
    #[serde(deserialize_with = "value::pairs")]
    pub store_option: Vec<(String, String)>,
    /// Do not sign requests: for public buckets
    #[cfg_attr(feature = "clap", arg(long))]
    pub anonymous: bool,
    /// URL of an S3-compatible, Google Cloud Storage or Azure service other than the default one
    #[cfg_attr(feature = "clap", arg(long, value_name = "URL"))]
    pub endpoint: Option<String>,
    /// Bearer token for HTTPS servers [default: that in VIRTUALIZE_BEARER_TOKEN]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "TOKEN", hide_env_values = true))]
    pub bearer_token: Option<String>,
    /// Maximum concurrent requests
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_name = "N", default_value_t = Self::default().concurrency)
    )]
    #[serde(deserialize_with = "value::count")]
    pub concurrency: usize,
    /// Retries of a failed request
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "N", default_value_t = Self::default().retries))]
    pub retries: usize,
    /// Maximum seconds for all attempts of a request together
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_name = "SECONDS", default_value_t = Self::default().retry_timeout)
    )]
    pub retry_timeout: u64,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        let StoreOptions { concurrency, retries, retry_timeout, .. } = StoreOptions::default();
        Self {
            store_option: Vec::new(),
            anonymous: false,
            endpoint: None,
            bearer_token: None,
            concurrency,
            retries,
            retry_timeout: retry_timeout.as_secs(),
        }
    }
}

impl ConnectionOptions {
    /// Returns the library's options. Without a bearer token, the environment may contain one.
    pub fn options(&self) -> StoreOptions {
        let token = self.bearer_token.clone().or_else(|| std::env::var("VIRTUALIZE_BEARER_TOKEN").ok());
        StoreOptions {
            values: self.store_option.clone(),
            anonymous: self.anonymous,
            endpoint: self.endpoint.clone(),
            bearer_token: token.filter(|token| !token.is_empty()),
            concurrency: self.concurrency,
            retries: self.retries,
            retry_timeout: Duration::from_secs(self.retry_timeout),
            ..StoreOptions::default()
        }
    }
}
