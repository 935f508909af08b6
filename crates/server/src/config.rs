//! The settings of the service, the configuration that they result in, and the errors that prevent the service from
//! starting.

use std::{collections::HashSet, fmt::Display, net::SocketAddr, path::PathBuf, time::Duration};

use serde::Deserialize;
use virtualize::{
    Limits, StoreOptions,
    options::{
        StoresOption,
        value::{self, parse_pair, parse_size},
    },
};
use virtualize_store::{Access, Allowed, check_option};

use crate::auth::{
    jwt::{Expected, Jwt},
    tokens::Tokens,
};

/// Minimum memory budget in bytes.
const MIN_MEMORY: u64 = 16 << 20;

/// Settings of the service: options, environment variables, and a TOML file, in this order of precedence, if they are
/// parsed as [`virtualize::options::Given`]. In the file, a setting has the name of its option.
#[derive(clap::Args, Deserialize, Clone, Debug, Default)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Server options")]
pub struct Settings {
    /// TOML file that contains any of these settings
    #[arg(long, value_name = "FILE", env = "VIRTUALIZE_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "VIRTUALIZE_LISTEN", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Maximum number of concurrent requests; others get 503 [default: 1000]
    #[arg(long, value_name = "N", env = "VIRTUALIZE_CONCURRENCY")]
    pub concurrency: Option<usize>,
    /// Memory budget of all requests; requests that exceed it get 503 [default: 1G]
    #[arg(long, value_name = "SIZE", env = "VIRTUALIZE_MEMORY", value_parser = parse_size)]
    #[serde(deserialize_with = "value::size")]
    pub memory: Option<u64>,
    /// Seconds until a response must begin [default: 60]
    #[arg(long, value_name = "SECONDS", env = "VIRTUALIZE_REQUEST_TIME")]
    pub request_time: Option<u64>,
    /// Log format [default: text]
    #[arg(long, value_name = "FORMAT", env = "VIRTUALIZE_LOG", value_enum)]
    pub log: Option<LogFormat>,
    /// Allow reading URLs that start with PREFIX, such as s3://bucket/ or file:///folder/; may be repeated or
    /// comma-separated
    #[arg(long, help_heading = ACCESS, value_name = "PREFIX", env = "VIRTUALIZE_ALLOW", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Show this allowed file as an example on the page; may be repeated or comma-separated
    #[arg(long, help_heading = ACCESS, value_name = "URL", env = "VIRTUALIZE_EXAMPLE", value_delimiter = ',')]
    pub example: Vec<String>,
    /// Token file: on each line a token (or sha256: and its digest), scopes, and optionally prefixes that it may read
    #[arg(long, help_heading = ACCESS, value_name = "FILE", env = "VIRTUALIZE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept JWTs that the keys of this JSON Web Key Set verify: a file, its https URL, or the URL of an issuer's
    /// openid-configuration
    #[arg(long, help_heading = ACCESS, value_name = "URL|FILE", env = "VIRTUALIZE_JWKS")]
    pub jwks: Option<String>,
    /// Issuer that a JWT must have
    #[arg(long, help_heading = ACCESS, value_name = "ISSUER", env = "VIRTUALIZE_JWT_ISSUER")]
    pub jwt_issuer: Option<String>,
    /// Audience that a JWT must have; may be repeated or comma-separated, and one is enough
    #[arg(long, help_heading = ACCESS, value_name = "AUDIENCE", env = "VIRTUALIZE_JWT_AUDIENCE", value_delimiter = ',')]
    pub jwt_audience: Vec<String>,
    /// Claim of a JWT with its scopes, or a JSON Pointer to it [default: scope]
    #[arg(long, help_heading = ACCESS, value_name = "CLAIM", env = "VIRTUALIZE_JWT_SCOPE_CLAIM")]
    pub jwt_scope_claim: Option<String>,
    /// Serve everybody without tokens, also on an address that other machines can reach, or behind a proxy
    #[arg(long, help_heading = ACCESS, env = "VIRTUALIZE_PUBLIC")]
    pub public: bool,
    /// Allow web pages of this origin to read responses (`*`: all); may be repeated or comma-separated
    #[arg(long, help_heading = ACCESS, value_name = "ORIGIN", env = "VIRTUALIZE_CORS", value_delimiter = ',')]
    pub cors: Vec<String>,
    /// Do not sign requests to sources: for public buckets
    #[arg(long, help_heading = STORE, env = "VIRTUALIZE_ANONYMOUS")]
    pub anonymous: bool,
    /// URL of an S3-compatible, Google Cloud Storage or Azure service other than the default one
    #[arg(long, help_heading = STORE, value_name = "URL", env = "VIRTUALIZE_ENDPOINT")]
    pub endpoint: Option<String>,
    /// Store setting, such as aws_region=eu-west-1; may be repeated
    #[arg(long, help_heading = STORE, value_name = "KEY=VALUE")]
    pub store_option: Vec<String>,
    /// Access options by prefix of URLs, such as `[store."s3://bucket/"]` in the configuration file
    #[arg(long = "store", help_heading = STORE, hide = true, value_name = "TABLE")]
    pub stores: Option<StoresOption>,
}

const ACCESS: &str = "Access options";
const STORE: &str = "Store options";

/// Format of the log.
#[derive(clap::ValueEnum, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Lines of text.
    Text,
    /// A JSON object per line.
    Json,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8080")
}

/// Returns an origin in the form that browsers send: `https://host`, `https://host:8443`.
fn origin(text: &str) -> Result<String, ConfigError> {
    let origin = text.trim_end_matches('/');
    let is_host =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    match origin.split_once("://") {
        Some((scheme, host)) if is_host(scheme) && is_host(host) => Ok(origin.to_ascii_lowercase()),
        None if origin == "*" => Ok(origin.to_owned()),
        _ => Err(ConfigError::new(format!(
            "--cors {text}: expected an origin, such as https://example.org, or *"
        ))),
    }
}

/// A complete, validated configuration.
#[derive(Debug)]
pub struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) allowed: Allowed,
    /// The tokens of the token file.
    pub(crate) tokens: Option<Tokens>,
    /// The verification of JWTs.
    pub(crate) jwt: Option<Jwt>,
    /// Files that the page shows as examples.
    pub(crate) examples: Vec<String>,
    pub(crate) public: bool,
    pub(crate) cors: HashSet<String>,
    /// Maximum number of requests whose response has not begun.
    pub(crate) concurrency: usize,
    pub(crate) memory: u64,
    /// Maximum memory for the metadata of one file, in bytes.
    pub(crate) file_memory: u64,
    pub(crate) limits: Limits,
    /// Time until a response must begin.
    pub(crate) request_time: Duration,
    /// Options to open sources, without the allowed prefixes.
    store: StoreOptions,
}

impl Settings {
    /// Returns the address to listen on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)))
    }

    /// Validates the settings. At least one prefix must be allowed, and an address that other machines can reach
    /// requires tokens, unless the service is explicitly public.
    ///
    /// # Errors
    /// Fails if a setting is missing or not valid.
    pub fn check(&self) -> Result<Config, ConfigError> {
        if self.allow.is_empty() {
            let reason = "nothing is allowed: give --allow PREFIX, such as --allow s3://bucket/data/";
            return Err(ConfigError::new(reason));
        }
        let allowed = Allowed::parse(&self.allow).map_err(ConfigError::about("--allow"))?;
        let tokens = self.token_file.as_deref().map(|file| Tokens::read(file, &allowed)).transpose()?;
        let jwt = self.jwt(&allowed)?;
        let example = |url: &String| allowed.check(url).map_err(ConfigError::about("--example"));
        let examples = self.example.iter().map(example).collect::<Result<_, _>>()?;
        let listen = self.address();
        if !listen.ip().is_loopback() && tokens.is_none() && jwt.is_none() && !self.public {
            return Err(ConfigError::new(format!(
                "{listen} can be reached from other machines: give --token-file or --jwks, or --public to serve everybody"
            )));
        }
        let memory = self.memory.unwrap_or(1 << 30);
        let request_time = self.request_time.unwrap_or(60);
        let concurrency = self.concurrency.unwrap_or(1000);
        let least = [
            ("memory", memory >= MIN_MEMORY, "16M"),
            ("request-time", request_time > 0, "1"),
            ("concurrency", concurrency > 0, "1"),
        ];
        if let Some((setting, _, least)) = least.into_iter().find(|(_, is_enough, _)| !is_enough) {
            return Err(ConfigError::new(format!("--{setting}: expected at least {least}")));
        }
        let pair = |text: &String| -> Result<_, ConfigError> {
            let (key, value) = parse_pair(text).map_err(ConfigError::about("--store-option"))?;
            check_option(&key).map_err(ConfigError::new)?;
            Ok((key, value))
        };
        Ok(Config {
            listen,
            allowed,
            tokens,
            jwt,
            examples,
            public: self.public,
            cors: self.cors.iter().map(|text| origin(text)).collect::<Result<_, _>>()?,
            concurrency: concurrency.min(1 << 16),
            memory,
            file_memory: memory / 2,
            limits: limits(memory / 2),
            request_time: Duration::from_secs(request_time.min(86_400)),
            store: StoreOptions {
                access: Access {
                    values: self.store_option.iter().map(pair).collect::<Result<_, _>>()?,
                    anonymous: self.anonymous,
                    endpoint: self.endpoint.clone(),
                    ..Access::default()
                },
                stores: self.stores.clone().unwrap_or_default().0,
                retries: 2,
                retry_timeout: Duration::from_secs(20),
                whole_limit: 32 << 20,
                cache_bytes: 4 << 20,
                ..StoreOptions::default()
            },
        })
    }

    fn jwt(&self, allowed: &Allowed) -> Result<Option<Jwt>, ConfigError> {
        let Some(keys) = &self.jwks else {
            let has_other = self.jwt_issuer.is_some() || !self.jwt_audience.is_empty();
            let reason = "--jwt-issuer and --jwt-audience: give --jwks URL or FILE too";
            return if has_other { Err(ConfigError::new(reason)) } else { Ok(None) };
        };
        let expected = Expected {
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
            scope_claim: self.jwt_scope_claim.clone().unwrap_or_else(|| "scope".to_owned()),
        };
        Jwt::new(keys, expected, allowed).map(Some)
    }
}

impl Config {
    /// Returns whether clients must send a token.
    pub(crate) fn needs_token(&self) -> bool {
        self.tokens.is_some() || self.jwt.is_some()
    }

    /// Returns the options to open sources for a client that may read the `allowed` prefixes.
    pub(crate) fn store_options(&self, allowed: &Allowed) -> StoreOptions {
        StoreOptions { allowed: Some(allowed.clone()), ..self.store.clone() }
    }
}

/// Returns the limits on the structures of a file whose metadata may take `memory` bytes.
fn limits(memory: u64) -> Limits {
    let usual = Limits::default();
    Limits {
        objects: usual.objects.min(memory >> 10),
        chunks: usual.chunks.min(memory >> 5),
        structure_bytes: usual.structure_bytes.min(memory >> 2),
        metadata_bytes: usual.metadata_bytes.min(memory),
        attributes: usual.attributes.min(memory >> 10),
        ..usual
    }
}

/// Why the service cannot start, in one line. Messages contain no part of a token.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }

    /// Returns a function that converts an error about a setting, file or address.
    pub(crate) fn about<E: Display>(subject: impl Display) -> impl Fn(E) -> Self {
        move |error| Self(format!("{subject}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use virtualize::options::Given;

    use super::*;

    #[derive(clap::Parser, Debug)]
    struct Line {
        #[command(flatten)]
        settings: Given<Settings>,
    }

    #[test]
    fn options_take_precedence_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let parse = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let line = ["serve", "--config", path.to_str().unwrap(), "--request-time", "9"];
            Line::try_parse_from(line).map(|line| line.settings.0).map_err(|error| error.to_string())
        };
        let file = "allow = ['s3://b/']\nrequest-time = 5\nconcurrency = 7\nmemory = '1M'\npublic = true\nlisten = '[::1]:80'";
        let both = parse(file).unwrap();
        assert_eq!((both.request_time, both.concurrency, both.memory), (Some(9), Some(7), Some(1 << 20)));
        assert!(both.public && both.allow == ["s3://b/"] && both.listen.is_some());
        let error = parse("request-time = 5\nalow = ['s3://b/']").unwrap_err();
        assert!(error.contains("serve.toml: alow: unknown option; did you mean \"allow\"?"), "{error}");
        let error = parse("log = 'xml'").unwrap_err();
        assert!(error.contains("serve.toml: log: expected \"text\" or \"json\", not \"xml\""), "{error}");
    }

    #[test]
    fn unsafe_settings_are_refused() {
        let reason = |settings: Settings| settings.check().map(drop).unwrap_err().to_string();
        assert!(reason(Settings::default()).contains("--allow"));
        let open = Settings {
            allow: vec!["s3://bucket/".to_owned()],
            listen: Some("0.0.0.0:80".parse().unwrap()),
            ..Settings::default()
        };
        assert!(reason(open.clone()).contains("--public"));
        assert!(Settings { public: true, ..open.clone() }.check().is_ok());
        let local = Settings { listen: None, ..open };
        for (origin, is_valid) in [
            ("https://a.example:8443/", true),
            ("*", true),
            ("a.example", false),
            ("https://a.example/page", false),
            ("https://", false),
        ] {
            let settings = Settings { cors: vec![origin.to_owned()], ..local.clone() };
            assert_eq!(settings.check().is_ok(), is_valid, "{origin}");
        }
        assert!(local.check().is_ok());
        let small = [
            Settings { memory: Some(10), ..local.clone() },
            Settings { concurrency: Some(0), ..local.clone() },
            Settings { request_time: Some(0), ..local.clone() },
        ];
        assert_eq!(
            small.map(reason),
            [
                "--memory: expected at least 16M",
                "--concurrency: expected at least 1",
                "--request-time: expected at least 1",
            ]
        );
        let unknown = Settings { store_option: vec!["aws_regoin=x".to_owned()], ..local };
        assert!(reason(unknown).contains("aws_region"));
    }
}
