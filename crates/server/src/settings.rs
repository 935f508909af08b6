use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use serde::Deserialize;
use virtualize::options::value::{InvalidValue, parse_size};
use virtualize_remedy::alternatives;

use crate::ConfigError;

/// Settings of the service: flags, environment variables, and a TOML file, in this order of precedence. In the file a
/// setting has the name of its flag.
#[derive(clap::Args, Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// TOML file that contains any of these settings
    #[arg(long, help_heading = "Server options", value_name = "FILE", env = "VIRTUALIZE_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, help_heading = "Server options", value_name = "ADDRESS", env = "VIRTUALIZE_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Allow reading URLs that start with PREFIX, such as s3://bucket/ or file:///folder/; may be repeated or
    /// comma-separated
    #[arg(
        long,
        help_heading = "Access options",
        value_name = "PREFIX",
        env = "VIRTUALIZE_ALLOW",
        value_delimiter = ','
    )]
    pub allow: Vec<String>,
    /// Show this allowed file as an example on the page; may be repeated or comma-separated
    #[arg(
        long,
        help_heading = "Access options",
        value_name = "URL",
        env = "VIRTUALIZE_EXAMPLE",
        value_delimiter = ','
    )]
    pub example: Vec<String>,
    /// Token file: on each line a token (or sha256: and its digest), scopes, and optionally prefixes that it may read
    #[arg(long, help_heading = "Access options", value_name = "FILE", env = "VIRTUALIZE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept JWTs that the keys of this JSON Web Key Set verify: a file, its https URL, or the URL of an issuer's
    /// openid-configuration
    #[arg(long, help_heading = "Access options", value_name = "URL|FILE", env = "VIRTUALIZE_JWKS")]
    pub jwks: Option<String>,
    /// Issuer that a JWT must have
    #[arg(long, help_heading = "Access options", value_name = "ISSUER", env = "VIRTUALIZE_JWT_ISSUER")]
    pub jwt_issuer: Option<String>,
    /// Audience that a JWT must have; may be repeated or comma-separated, and one is enough
    #[arg(
        long,
        help_heading = "Access options",
        value_name = "AUDIENCE",
        env = "VIRTUALIZE_JWT_AUDIENCE",
        value_delimiter = ','
    )]
    pub jwt_audience: Vec<String>,
    /// Claim of a JWT with its scopes, or a JSON Pointer to it [default: scope]
    #[arg(long, help_heading = "Access options", value_name = "CLAIM", env = "VIRTUALIZE_JWT_SCOPE_CLAIM")]
    pub jwt_scope_claim: Option<String>,
    /// Claim of a JWT with the prefixes that it may read, or a JSON Pointer to it [default: prefixes]
    #[arg(
        long,
        help_heading = "Access options",
        value_name = "CLAIM",
        env = "VIRTUALIZE_JWT_PREFIXES_CLAIM"
    )]
    pub jwt_prefixes_claim: Option<String>,
    /// Serve everybody without a token, on an address that other machines reach or behind a proxy
    #[arg(long, help_heading = "Access options", env = "VIRTUALIZE_PUBLIC")]
    pub public: bool,
    /// Allow web pages of this origin to read responses (`*`: all); may be repeated or comma-separated
    #[arg(
        long,
        help_heading = "Access options",
        value_name = "ORIGIN",
        env = "VIRTUALIZE_CORS",
        value_delimiter = ','
    )]
    pub cors: Vec<String>,
    /// Identify clients by X-Forwarded-For: only behind a proxy that sets it
    #[arg(long, help_heading = "Access options", env = "VIRTUALIZE_TRUST_FORWARDED")]
    pub trust_forwarded: bool,
    /// Folder or bucket prefix to cache responses in, which several services may share
    #[arg(long, help_heading = "Cache options", value_name = "PLACE", env = "VIRTUALIZE_CACHE")]
    pub cache: Option<String>,
    /// Maximum disk space for responses: cached, being generated, or being sent [default: 10G]
    #[arg(long, help_heading = "Cache options", value_name = "SIZE", env = "VIRTUALIZE_CACHE_SIZE")]
    pub cache_size: Option<Size>,
    /// Part of --memory for cached mapped files [default: a quarter]
    #[arg(long, help_heading = "Cache options", value_name = "SIZE", env = "VIRTUALIZE_STORES_SIZE")]
    pub stores_size: Option<Size>,
    /// Seconds until a source is checked for changes again [default: 60]
    #[arg(long, help_heading = "Cache options", value_name = "SECONDS", env = "VIRTUALIZE_STORES_TIME")]
    pub stores_time: Option<u64>,
    /// Seconds to refuse a changed source under URLs without a version [default: 900]
    #[arg(long, help_heading = "Cache options", value_name = "SECONDS", env = "VIRTUALIZE_HOLD_TIME")]
    pub hold_time: Option<u64>,
    /// Average requests per second per client [default: 200]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_RATE")]
    pub rate: Option<u32>,
    /// Requests that a client may send at once after a pause [default: 1000]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_BURST")]
    pub burst: Option<u32>,
    /// Maximum requests that are worked on; further ones wait, and the clients take turns [default: 256]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_CONCURRENT")]
    pub concurrent: Option<usize>,
    /// Maximum connections; further ones wait [default: 2048]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_CONNECTIONS")]
    pub connections: Option<usize>,
    /// Maximum concurrent requests per client, until their responses have been sent; further ones wait, then get 429
    /// [default: a quarter of --concurrent]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_CLIENT_REQUESTS")]
    pub client_requests: Option<usize>,
    /// Maximum waiting requests, and half as many per client; further ones get 503 or 429 [default: --connections]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_QUEUE")]
    pub queue: Option<usize>,
    /// Seconds that a request waits before it gets 503 or 429 [default: 10]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_QUEUE_TIME")]
    pub queue_time: Option<u64>,
    /// Average bytes of responses per second per client; sixty times as many at once after a pause, then 429 [default: 1G]
    #[arg(long, help_heading = "Limit options", value_name = "SIZE", env = "VIRTUALIZE_CLIENT_BYTES")]
    pub client_bytes: Option<Size>,
    /// Maximum connections per address; further ones are closed [default: a quarter of --connections]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_CLIENT_CONNECTIONS")]
    pub client_connections: Option<usize>,
    /// Files to map concurrently; further ones wait [default: 4]
    #[arg(long, help_heading = "Limit options", value_name = "N", env = "VIRTUALIZE_OPENINGS")]
    pub openings: Option<usize>,
    /// Seconds until a response must begin [default: 60]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_REQUEST_TIME")]
    pub request_time: Option<u64>,
    /// Seconds until a client must have received its response [default: 600]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_ANSWER_TIME")]
    pub answer_time: Option<u64>,
    /// Seconds to receive the head of a request [default: 10]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_HEADER_TIME")]
    pub header_time: Option<u64>,
    /// Seconds that a connection may be idle between requests [default: 60]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_IDLE_TIME")]
    pub idle_time: Option<u64>,
    /// Seconds in which a client must receive 32K of its response, or the rest of it [default: 30]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_WRITE_TIME")]
    pub write_time: Option<u64>,
    /// Seconds for requests in progress to finish when the service stops [default: 20]
    #[arg(long, help_heading = "Timeout options", value_name = "SECONDS", env = "VIRTUALIZE_STOP_TIME")]
    pub stop_time: Option<u64>,
    /// Maximum size of a request's head [default: 32K]
    #[arg(long, help_heading = "Limit options", value_name = "SIZE", env = "VIRTUALIZE_HEADER_SIZE")]
    pub header_size: Option<Size>,
    /// Maximum size of a request's body [default: 1M]
    #[arg(long, help_heading = "Limit options", value_name = "SIZE", env = "VIRTUALIZE_REQUEST_SIZE")]
    pub request_size: Option<Size>,
    /// Memory budget of all requests; requests that exceed it get 503 [default: 1G]
    #[arg(long, help_heading = "Limit options", value_name = "SIZE", env = "VIRTUALIZE_MEMORY")]
    pub memory: Option<Size>,
    /// Maximum memory for the metadata of one file [default: half of --memory]
    #[arg(long, help_heading = "Limit options", value_name = "SIZE", env = "VIRTUALIZE_FILE_MEMORY")]
    pub file_memory: Option<Size>,
    /// Maximum size of references in one response [default: 2G]
    #[arg(long, help_heading = "Limit options", value_name = "SIZE", env = "VIRTUALIZE_OUTPUT_SIZE")]
    pub output_size: Option<Size>,
    /// Do not sign requests to sources: for public buckets
    #[arg(long, help_heading = "Store options", env = "VIRTUALIZE_ANONYMOUS")]
    pub anonymous: bool,
    /// URL of an S3-compatible, Google Cloud Storage or Azure service other than the default one
    #[arg(long, help_heading = "Store options", value_name = "URL", env = "VIRTUALIZE_ENDPOINT")]
    pub endpoint: Option<String>,
    /// Store setting, such as aws_region=eu-west-1; may be repeated
    #[arg(long = "store-option", help_heading = "Store options", value_name = "KEY=VALUE")]
    pub store_option: Vec<String>,
    /// Log format [default: text]
    #[arg(long, help_heading = "General options", value_name = "FORMAT", env = "VIRTUALIZE_LOG", value_parser = ["text", "json"])]
    pub log: Option<String>,
}

/// A number of bytes: `1000`, `64K`, `512M`, `2G`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "SizeText")]
pub struct Size(pub u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum SizeText {
    Number(u64),
    Text(String),
}

impl TryFrom<SizeText> for Size {
    type Error = InvalidValue;

    fn try_from(size: SizeText) -> Result<Self, InvalidValue> {
        match size {
            SizeText::Number(bytes) => Ok(Self(bytes)),
            SizeText::Text(text) => text.parse(),
        }
    }
}

impl FromStr for Size {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        parse_size(text).map(Self)
    }
}

impl Settings {
    /// Completes these settings with those of the configuration file, if one is named.
    ///
    /// # Errors
    /// A file that cannot be read, or contains an unknown setting.
    pub fn with_file(self) -> Result<Self, ConfigError> {
        let Some(path) = &self.config else { return Ok(self) };
        let text = std::fs::read_to_string(path).map_err(ConfigError::io(path.display()))?;
        let wrong =
            |error: toml::de::Error| ConfigError::File { path: path.clone(), reason: reason(&error, &text) };
        let file: Self = toml::from_str(&text).map_err(wrong)?;
        Ok(self.or(file))
    }

    /// Returns the address to listen on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)))
    }

    fn or(self, file: Self) -> Self {
        let list = |ours: Vec<String>, theirs| if ours.is_empty() { theirs } else { ours };
        Self {
            config: self.config,
            listen: self.listen.or(file.listen),
            allow: list(self.allow, file.allow),
            example: list(self.example, file.example),
            token_file: self.token_file.or(file.token_file),
            jwks: self.jwks.or(file.jwks),
            jwt_issuer: self.jwt_issuer.or(file.jwt_issuer),
            jwt_audience: list(self.jwt_audience, file.jwt_audience),
            jwt_scope_claim: self.jwt_scope_claim.or(file.jwt_scope_claim),
            jwt_prefixes_claim: self.jwt_prefixes_claim.or(file.jwt_prefixes_claim),
            public: self.public || file.public,
            cors: list(self.cors, file.cors),
            trust_forwarded: self.trust_forwarded || file.trust_forwarded,
            cache: self.cache.or(file.cache),
            cache_size: self.cache_size.or(file.cache_size),
            stores_size: self.stores_size.or(file.stores_size),
            stores_time: self.stores_time.or(file.stores_time),
            hold_time: self.hold_time.or(file.hold_time),
            rate: self.rate.or(file.rate),
            burst: self.burst.or(file.burst),
            concurrent: self.concurrent.or(file.concurrent),
            client_requests: self.client_requests.or(file.client_requests),
            queue: self.queue.or(file.queue),
            queue_time: self.queue_time.or(file.queue_time),
            client_bytes: self.client_bytes.or(file.client_bytes),
            client_connections: self.client_connections.or(file.client_connections),
            connections: self.connections.or(file.connections),
            openings: self.openings.or(file.openings),
            request_time: self.request_time.or(file.request_time),
            answer_time: self.answer_time.or(file.answer_time),
            header_time: self.header_time.or(file.header_time),
            idle_time: self.idle_time.or(file.idle_time),
            write_time: self.write_time.or(file.write_time),
            stop_time: self.stop_time.or(file.stop_time),
            header_size: self.header_size.or(file.header_size),
            request_size: self.request_size.or(file.request_size),
            memory: self.memory.or(file.memory),
            file_memory: self.file_memory.or(file.file_memory),
            output_size: self.output_size.or(file.output_size),
            log: self.log.or(file.log),
            anonymous: self.anonymous || file.anonymous,
            endpoint: self.endpoint.or(file.endpoint),
            store_option: list(self.store_option, file.store_option),
        }
    }
}

/// Describes an error of the configuration file on one line, and suggests a setting for an unknown one.
fn reason(error: &toml::de::Error, text: &str) -> String {
    // "unknown field `alow`, expected one of `listen`, `allow`, …"
    let mut names = error.message().split('`').skip(1).step_by(2);
    match (error.message().starts_with("unknown field "), names.next()) {
        (true, Some(given)) => {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: unknown setting {given}{}", alternatives("settings", given, names))
        }
        _ => one_line(&error.to_string()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_before_the_file() {
        let file: Settings =
            toml::from_str("allow = ['s3://b/']\nrate = 5\nburst = 7\nmemory = '1M'\npublic = true").unwrap();
        let both = Settings { rate: Some(9), ..Settings::default() }.or(file);
        assert_eq!(
            (both.rate, both.burst, both.memory, both.public),
            (Some(9), Some(7), Some(Size(1 << 20)), true)
        );
        let text = "rate = 5\nalow = ['s3://b/']";
        let error = toml::from_str::<Settings>(text).unwrap_err();
        let expected =
            "line 2: unknown setting alow; did you mean \"allow\"? existing settings: listen, allow, ";
        assert!(reason(&error, text).starts_with(expected), "{}", reason(&error, text));
    }

    #[test]
    fn the_table_of_the_documentation_has_all_settings() {
        let page = include_str!("../../../docs/service.md");
        let command = <Settings as clap::Args>::augment_args(clap::Command::new("serve"));
        let flags = command.get_arguments().filter_map(|flag| Some((flag.get_long()?, flag.get_env())));
        let mut rows = 0;
        for (name, variable) in flags {
            let variable = variable.map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
            let file = if name == "config" { String::new() } else { format!("`{name}`") };
            let row = format!("| `--{name}` | {variable} | {file} |");
            assert!(page.contains(&row), "{row}");
            rows += 1;
        }
        assert_eq!(page.matches("\n| `--").count(), rows);
    }
}
