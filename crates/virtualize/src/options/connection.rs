use std::time::Duration;

use serde::Deserialize;
use virtualize_store::{Minimize, StoreOptions};

use super::value;

/// How files are reached. Settings that are not given come from the environment (AWS_*, GOOGLE_*, AZURE_*).
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Store options"))]
pub struct ConnectionOptions {
    /// Store setting, such as aws_region=eu-west-1 or timeout=30s; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY=VALUE", value_parser = value::parse_pair))]
    #[serde(deserialize_with = "value::pairs")]
    pub store_option: Vec<(String, String)>,
    /// Do not sign requests: for public buckets
    #[cfg_attr(feature = "clap", arg(long))]
    pub anonymous: bool,
    /// URL of an S3-compatible, Google Cloud Storage or Azure service other than the default one
    #[cfg_attr(feature = "clap", arg(long, value_name = "URL"))]
    pub endpoint: Option<String>,
    /// Bearer token for HTTPS servers
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TOKEN", env = "VIRTUALIZE_BEARER_TOKEN", hide_env_values = true)
    )]
    pub bearer_token: Option<String>,
    /// Maximum concurrent requests
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", default_value_t = Self::default().concurrency, value_parser = value::parse_count)
    )]
    #[serde(deserialize_with = "value::count")]
    pub concurrency: usize,
    /// What reads of remote files minimize
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "time", value_name = "COST"))]
    pub minimize: Minimize,
    /// Retries of a failed request
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t = Self::default().retries))]
    pub retries: usize,
    /// Maximum seconds for all attempts of a request together
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS", default_value_t = Self::default().retry_timeout))]
    pub retry_timeout: u64,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        let StoreOptions { concurrency, retries, .. } = StoreOptions::default();
        Self {
            store_option: Vec::new(),
            anonymous: false,
            endpoint: None,
            bearer_token: None,
            concurrency,
            minimize: Minimize::Time,
            retries,
            retry_timeout: 60,
        }
    }
}

impl ConnectionOptions {
    /// Returns the library's options.
    pub fn options(&self) -> StoreOptions {
        StoreOptions {
            values: self.store_option.clone(),
            anonymous: self.anonymous,
            endpoint: self.endpoint.clone(),
            bearer_token: self.bearer_token.clone().filter(|token| !token.is_empty()),
            concurrency: self.concurrency,
            minimize: self.minimize,
            retries: self.retries,
            retry_timeout: Duration::from_secs(self.retry_timeout),
            ..StoreOptions::default()
        }
    }
}
