//! The public keys of an identity provider: a JSON Web Key Set (RFC 7517) in a file or behind a URL.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use reqwest::{Client, Url, redirect::Policy};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::config::ConfigError;

/// Maximum size of a set, or of an issuer's configuration, in bytes.
const LONGEST: usize = 1 << 20;
/// Time to fetch a set.
const PATIENCE: Duration = Duration::from_secs(10);
/// Minimum time between two fetches that tokens with an unknown key cause.
const PAUSE: Duration = Duration::from_secs(10);
/// Time between two fetches in the background.
pub(crate) const REFRESH: Duration = Duration::from_secs(300);
/// Minimum size of an RSA modulus in bytes: 2048 bits (RFC 7518, section 3.3).
const MODULUS: usize = 256;
/// Algorithms of an RSA key.
const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// A public key, and the algorithms that it verifies.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) id: Option<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) key: DecodingKey,
}

/// A set of keys.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    /// The text that the set was read from.
    text: String,
    /// Number of sets before this one that had another text.
    pub(crate) generation: u64,
    pub(crate) keys: Vec<Key>,
    /// The issuer that publishes the set, if it was found through the issuer's configuration.
    pub(crate) issuer: Option<String>,
}

/// Where a set comes from.
#[derive(Debug)]
enum Place {
    File(PathBuf),
    Url(Url, Client),
}

/// The keys of an identity provider in their last good version.
#[derive(Debug)]
pub(crate) struct Keys {
    place: Place,
    current: RwLock<Arc<KeySet>>,
    /// The start of the last fetch; locked while one is in progress.
    fetched: Mutex<Option<Instant>>,
}

impl Keys {
    /// Reads the keys of a file. Those of a URL are not fetched yet.
    pub(crate) fn new(place: &str) -> Result<Self, ConfigError> {
        let wrong = ConfigError::about(format!("--jwks {place}"));
        let place = if place.contains("://") {
            Place::Url(url(place).map_err(&wrong)?, client().map_err(&wrong)?)
        } else {
            Place::File(PathBuf::from(place))
        };
        let this = Self { place, current: RwLock::default(), fetched: Mutex::default() };
        if let Place::File(file) = &this.place {
            this.keep(read(file).map_err(&wrong)?, None).map_err(&wrong)?;
        }
        Ok(this)
    }

    /// Returns the file that the keys come from.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::File(file) => Some(file),
            Place::Url(..) => None,
        }
    }

    /// Returns the last good set; an empty one if none was fetched yet.
    pub(crate) fn current(&self) -> Arc<KeySet> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fetches the set at the start of the service, where a failure is an error.
    pub(crate) async fn first(&self) -> Result<(), ConfigError> {
        *self.fetched.lock().await = Some(Instant::now());
        let fetched = self.fetch().await;
        fetched.map_err(ConfigError::about(format!("--jwks {}", self.place())))
    }

    /// Reads the set again. A failure keeps the last good set.
    pub(crate) async fn refresh(&self) {
        let mut fetched = self.fetched.lock().await;
        *fetched = Some(Instant::now());
        if let Err(reason) = self.fetch().await {
            tracing::warn!("{}: the keys stay as they were: {reason}", self.place());
        }
    }

    /// Reads the set again because a token names an unknown key, unless that was done a moment ago.
    pub(crate) async fn refresh_for_unknown(&self) {
        let fetched = *self.fetched.lock().await;
        if fetched.is_none_or(|fetched| fetched.elapsed() >= PAUSE) {
            self.refresh().await;
        }
    }

    fn place(&self) -> String {
        match &self.place {
            Place::File(file) => file.display().to_string(),
            Place::Url(url, _) => url.to_string(),
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        match &self.place {
            Place::File(file) => self.keep(read(file)?, None),
            Place::Url(url, client) => {
                let (text, issuer) = found(client, url).await?;
                self.keep(text, issuer)
            }
        }
    }

    /// Replaces the set, unless it is the same.
    fn keep(&self, text: String, issuer: Option<String>) -> Result<(), String> {
        let current = self.current();
        if text == current.text && issuer == current.issuer {
            return Ok(());
        }
        let keys = keys(&text)?;
        tracing::info!("{}: {} keys", self.place(), keys.len());
        let set = KeySet { text, keys, issuer, generation: current.generation.saturating_add(1) };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }
}

fn read(file: &Path) -> Result<String, String> {
    let bytes = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if bytes > LONGEST as u64 {
        return Err(format!("the file has {bytes} bytes, more than {LONGEST}"));
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Parses the URL of a set. Keys that were exchanged on the way would let anybody in, so it must be `https`, except on
/// this machine.
fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let is_own = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_own => Ok(url),
        _ => Err("expected a file, or a URL that starts with https://".to_owned()),
    }
}

fn client() -> Result<Client, String> {
    virtualize_store::install_tls();
    let builder = Client::builder().timeout(PATIENCE).redirect(Policy::none());
    builder.build().map_err(|error| error.to_string())
}

/// Fetches a set, either from its own URL or through the issuer's configuration (OpenID Connect Discovery 1.0), and
/// returns it with the issuer that the configuration names.
async fn found(client: &Client, at: &Url) -> Result<(String, Option<String>), String> {
    let text = get(client, at).await?;
    let document: Value = serde_json::from_str(&text).map_err(|_| "the response is not JSON".to_owned())?;
    let Some(jwks) = document.get("jwks_uri").and_then(Value::as_str) else { return Ok((text, None)) };
    let issuer = document.get("issuer").and_then(Value::as_str).map(str::to_owned);
    let issuer = issuer.ok_or("the configuration names no issuer")?;
    Ok((get(client, &url(jwks)?).await?, Some(issuer)))
}

async fn get(client: &Client, at: &Url) -> Result<String, String> {
    // The error's own text repeats the URL and hides the cause.
    let failed = |error: reqwest::Error| {
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        cause.to_string()
    };
    let mut response = client.get(at.clone()).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("{at} returned status {}", response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(more) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&more);
        if bytes.len() > LONGEST {
            return Err(format!("the response has more than {LONGEST} bytes"));
        }
    }
    String::from_utf8(bytes).map_err(|_| "the response is not text".to_owned())
}

/// Parses a set. Keys that cannot verify signatures of the supported algorithms are skipped.
fn keys(text: &str) -> Result<Vec<Key>, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let keys = document.get("keys").and_then(Value::as_array).ok_or("no list of keys")?;
    let keys: Vec<Key> = keys.iter().filter_map(key).collect();
    if keys.is_empty() {
        return Err("no key for RS256, PS256, ES256, ES384 or EdDSA signatures".to_owned());
    }
    Ok(keys)
}

fn key(document: &Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(document.clone()).ok()?;
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    let operations = jwk.common.key_operations.as_ref();
    let verifies = operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    let mut algorithms = algorithms(&jwk.algorithm).filter(|_| signs && verifies)?.to_vec();
    if let Some(only) = document.get("alg") {
        let only = Algorithm::from_str(only.as_str()?).ok()?;
        algorithms.retain(|algorithm| *algorithm == only);
    }
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(Key { id: jwk.common.key_id, algorithms, key })
}

/// Returns the algorithms of a key by its type; never a symmetric one.
fn algorithms(parameters: &AlgorithmParameters) -> Option<&'static [Algorithm]> {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    match parameters {
        AlgorithmParameters::RSA(key) => {
            let modulus = BASE64_URL_SAFE_NO_PAD.decode(&key.n).ok()?;
            let length = modulus.iter().skip_while(|byte| **byte == 0).count();
            (length >= MODULUS).then_some(RSA)
        }
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Some(&[Algorithm::ES256]),
            EllipticCurve::P384 => Some(&[Algorithm::ES384]),
            _ => None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            Some(&[Algorithm::EdDSA])
        }
        _ => None,
    }
}
