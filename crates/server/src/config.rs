use std::{collections::HashSet, net::SocketAddr, time::Duration};

use virtualize::{Limits, StoreOptions, options::value::parse_pair};
use virtualize_store::Allowed;

use crate::{
    ConfigError, Settings, Size,
    cache::Place,
    jwt::{Expected, Jwt},
    tokens::Tokens,
};

/// Minimum memory budget in bytes.
const LEAST_MEMORY: u64 = 16 << 20;
/// Maximum number of cached mapped files, regardless of their size: each may hold a descriptor.
const SOURCES_KEPT: usize = 512;

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
    pub(crate) trust_forwarded: bool,
    pub(crate) cache: Option<Place>,
    pub(crate) cache_size: u64,
    pub(crate) stores_size: u64,
    pub(crate) stores_time: Duration,
    pub(crate) hold_time: Duration,
    pub(crate) traffic: Traffic,
    pub(crate) times: Times,
    /// Maximum number of mapped files to cache, regardless of their size.
    pub(crate) sources_kept: usize,
    pub(crate) header_size: usize,
    pub(crate) request_size: usize,
    pub(crate) limits: Limits,
    pub(crate) memory: u64,
    pub(crate) file_memory: u64,
    pub(crate) output_size: u64,
    /// Options to open sources, without the allowed prefixes.
    pub(crate) store: StoreOptions,
}

/// Limits on requests and connections.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// Requests per second of one client, on average.
    pub(crate) rate: u32,
    /// Requests that one client may send at once after a pause.
    pub(crate) burst: u32,
    /// Requests in progress.
    pub(crate) concurrent: usize,
    /// Requests of one client in progress.
    pub(crate) client_requests: usize,
    /// Requests that wait.
    pub(crate) queue: usize,
    /// Time that a request waits.
    pub(crate) queue_time: Duration,
    /// Bytes of responses per second of one client, on average.
    pub(crate) client_bytes: u64,
    pub(crate) connections: usize,
    pub(crate) client_connections: usize,
    /// Whether the number of connections was configured.
    pub(crate) is_connections_given: bool,
    /// Files that are mapped concurrently.
    pub(crate) openings: usize,
}

/// Limits on durations.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Until a response begins.
    pub(crate) request: Duration,
    /// Until a response has been received.
    pub(crate) answer: Duration,
    /// For the head of a request.
    pub(crate) header: Duration,
    /// Between two requests on a connection.
    pub(crate) idle: Duration,
    /// In which a client must receive the next part of a response.
    pub(crate) write: Duration,
    /// For requests in progress when the service stops.
    pub(crate) stop: Duration,
}

impl Settings {
    /// Validates the settings. At least one prefix must be allowed, and an address that other machines can reach
    /// requires tokens, unless the service is explicitly public.
    ///
    /// # Errors
    /// Fails if a setting is missing or not valid.
    pub fn check(&self) -> Result<Config, ConfigError> {
        if self.allow.is_empty() {
            return Err(ConfigError::NothingAllowed);
        }
        let allowed = prefixes("allow", &self.allow)?;
        let tokens = self.token_file.as_deref().map(|file| Tokens::read(file, &allowed)).transpose()?;
        let jwt = self.jwt(&allowed)?;
        let example = |url: &String| {
            allowed.check(url).map_err(|error| ConfigError::Prefix { setting: "example", error })
        };
        let examples = self.example.iter().map(example).collect::<Result<_, _>>()?;
        let listen = self.address();
        if !listen.ip().is_loopback() && tokens.is_none() && jwt.is_none() && !self.public {
            return Err(ConfigError::Exposed { address: listen });
        }
        let memory = bytes(self.memory, 1 << 30).max(LEAST_MEMORY);
        let half = memory / 2;
        let file_memory = bytes(self.file_memory, half).min(half);
        Ok(Config {
            listen,
            allowed,
            examples,
            tokens,
            jwt,
            public: self.public,
            cors: self.cors.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect(),
            trust_forwarded: self.trust_forwarded,
            cache: self.cache.as_deref().map(str::parse).transpose()?,
            cache_size: bytes(self.cache_size, 10 << 30),
            stores_size: bytes(self.stores_size, half / 2).min(half),
            stores_time: seconds(self.stores_time, 60),
            hold_time: seconds(self.hold_time, 900),
            sources_kept: SOURCES_KEPT,
            limits: limits(file_memory),
            memory,
            file_memory,
            output_size: bytes(self.output_size, 2 << 30),
            traffic: self.traffic(),
            times: self.times(),
            header_size: small(bytes(self.header_size, 32 << 10).clamp(8 << 10, 1 << 20)),
            request_size: small(bytes(self.request_size, 1 << 20)),
            store: self.store()?,
        })
    }

    fn jwt(&self, allowed: &Allowed) -> Result<Option<Jwt>, ConfigError> {
        let Some(keys) = &self.jwks else {
            let has_other = self.jwt_issuer.is_some() || !self.jwt_audience.is_empty();
            return if has_other { Err(ConfigError::NoJwks) } else { Ok(None) };
        };
        let claim =
            |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.to_owned());
        let expected = Expected {
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
            scope_claim: claim(&self.jwt_scope_claim, "scope"),
            prefixes_claim: claim(&self.jwt_prefixes_claim, "prefixes"),
        };
        Jwt::new(keys, expected, allowed).map(Some)
    }

    fn traffic(&self) -> Traffic {
        let concurrent = self.concurrent.unwrap_or(256).clamp(1, 1 << 16);
        let connections = self.connections.unwrap_or(2048).clamp(1, 1 << 20);
        Traffic {
            rate: self.rate.unwrap_or(200).max(1),
            burst: self.burst.unwrap_or(1000).max(1),
            concurrent,
            client_requests: share(self.client_requests, concurrent),
            queue: self.queue.unwrap_or(connections).clamp(1, 1 << 20),
            queue_time: seconds(self.queue_time, 10),
            client_bytes: bytes(self.client_bytes, 1 << 30).max(1),
            connections,
            client_connections: share(self.client_connections, connections),
            is_connections_given: self.connections.is_some(),
            openings: self.openings.unwrap_or(4).clamp(1, 1 << 10),
        }
    }

    fn times(&self) -> Times {
        Times {
            request: seconds(self.request_time, 60),
            answer: seconds(self.answer_time, 600),
            header: seconds(self.header_time, 10),
            idle: seconds(self.idle_time, 60),
            write: seconds(self.write_time, 30),
            stop: seconds(self.stop_time, 20),
        }
    }

    fn store(&self) -> Result<StoreOptions, ConfigError> {
        let pair = |text: &String| parse_pair(text).map_err(|_| ConfigError::StoreOption);
        Ok(StoreOptions {
            values: self.store_option.iter().map(pair).collect::<Result<_, _>>()?,
            anonymous: self.anonymous,
            endpoint: self.endpoint.clone(),
            retries: 2,
            retry_timeout: Duration::from_secs(20),
            whole_limit: 32 << 20,
            cache_bytes: 4 << 20,
            ..StoreOptions::default()
        })
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

fn prefixes(setting: &'static str, prefixes: &[String]) -> Result<Allowed, ConfigError> {
    Allowed::parse(prefixes).map_err(|error| ConfigError::Prefix { setting, error })
}

fn seconds(given: Option<u64>, default: u64) -> Duration {
    Duration::from_secs(given.unwrap_or(default).clamp(1, 86_400))
}

fn bytes(given: Option<Size>, default: u64) -> u64 {
    given.map_or(default, |size| size.0)
}

/// Returns the part of `all` that one client may use: by default a quarter.
fn share(given: Option<usize>, all: usize) -> usize {
    given.unwrap_or(all.div_ceil(4)).clamp(1, all)
}

fn small(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_starts_unless_it_is_safe() {
        let reason = |settings: Settings| settings.check().map(drop).unwrap_err().to_string();
        assert!(reason(Settings::default()).contains("--allow"));
        let open = Settings {
            allow: vec!["s3://bucket/".to_owned()],
            listen: Some("0.0.0.0:80".parse().unwrap()),
            ..Settings::default()
        };
        assert!(reason(open.clone()).contains("--public"));
        assert!(Settings { public: true, ..open.clone() }.check().is_ok());
        assert!(Settings { listen: None, ..open }.check().is_ok());
    }
}
