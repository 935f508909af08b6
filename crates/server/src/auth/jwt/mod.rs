//! JSON Web Tokens (RFC 7519) as access tokens of an identity provider, checked as RFC 8725 and RFC 9068 recommend.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use jsonwebtoken::{Header, Validation, decode, decode_header};
use moka::future::Cache;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use virtualize_store::Allowed;

use super::{
    Client, Scopes,
    keys::{Key, KeySet, Keys},
    short_digest,
};
use crate::config::ConfigError;

/// Tolerated difference between the clocks of the issuer and of this machine, in seconds.
const LEEWAY: u64 = 30;
/// Maximum length of a token in bytes.
const LONGEST: usize = 16 << 10;
/// Number of verified tokens that are remembered.
const VERIFIED: u64 = 10_000;
/// Maximum number of prefixes in a token.
const PREFIXES: usize = 100;
/// Longest name of a client that is not shortened to its digest.
const NAME: usize = 128;

/// Settings of the verification.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) issuer: Option<String>,
    /// A token must be for one of these.
    pub(crate) audience: Vec<String>,
    /// Name of the claim with the scopes, or a JSON Pointer to it (RFC 6901).
    pub(crate) scope_claim: String,
}

/// The reason for refusing a token, which the client receives.
type Refusal = &'static str;

/// The verification of tokens.
#[derive(Debug)]
pub(crate) struct Jwt {
    pub(crate) keys: Keys,
    expected: Expected,
    /// Prefixes that the service allows.
    allowed: Allowed,
    /// Verified tokens by their digests.
    verified: Cache<[u8; 32], Arc<Verified>>,
}

/// A verified token.
#[derive(Debug)]
struct Verified {
    client: Arc<Client>,
    /// Time of expiry in seconds since 1970.
    expires: f64,
    /// Generation of the keys that verified it.
    generation: u64,
}

impl Jwt {
    /// Creates the verification with the keys of a URL or file.
    pub(crate) fn new(keys: &str, expected: Expected, allowed: &Allowed) -> Result<Self, ConfigError> {
        if expected.audience.is_empty() {
            let reason = "--jwks: give --jwt-audience NAME, the audience of the tokens for this service";
            return Err(ConfigError::new(reason));
        }
        let verified = Cache::builder().max_capacity(VERIFIED).build();
        Ok(Self { keys: Keys::new(keys)?, expected, allowed: allowed.clone(), verified })
    }

    /// Returns whether a bearer token has the form of a JWT: three parts.
    pub(crate) fn is_jwt(token: &str) -> bool {
        token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Verifies a token. One with an unknown key causes the keys to be read again.
    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Client>, Refusal> {
        if token.len() > LONGEST {
            return Err("the token is too long");
        }
        if let Some(verified) = self.verified.get(&digest(token)).await
            && verified.generation == self.keys.current().generation
            && !is_over(verified.expires)
        {
            return Ok(Arc::clone(&verified.client));
        }
        let header = header(token)?;
        let mut set = self.keys.current();
        if candidates(&set, &header).is_empty() {
            self.keys.refresh_for_unknown().await;
            set = self.keys.current();
        }
        let verified = Arc::new(self.checked(token, &header, &set)?);
        self.verified.insert(digest(token), Arc::clone(&verified)).await;
        Ok(Arc::clone(&verified.client))
    }

    /// Checks the signature and the claims of a token.
    fn checked(&self, token: &str, header: &Header, set: &KeySet) -> Result<Verified, Refusal> {
        let candidates = candidates(set, header);
        if candidates.is_empty() {
            return Err("no key of the issuer fits the token");
        }
        // The claims are checked below, more strictly than by the library.
        let mut signature = Validation::new(header.alg);
        signature.required_spec_claims.clear();
        (signature.validate_exp, signature.validate_nbf, signature.validate_aud) = (false, false, false);
        let decoded =
            candidates.iter().find_map(|key| decode::<Map<String, Value>>(token, &key.key, &signature).ok());
        let claims = decoded.ok_or("the signature of the token is not valid")?.claims;
        let expires = times(&claims, now())?;
        self.addressed(&claims, set)?;
        Ok(Verified { client: Arc::new(self.client(&claims)?), expires, generation: set.generation })
    }

    /// Checks issuer and audience.
    fn addressed(&self, claims: &Map<String, Value>, set: &KeySet) -> Result<(), Refusal> {
        let issuer = claims.get("iss").map(|issuer| issuer.as_str().ok_or("the claim iss is not text"));
        let issuer = issuer.transpose()?;
        if let Some(expected) = self.expected.issuer.as_ref().or(set.issuer.as_ref())
            && issuer != Some(expected)
        {
            return Err("the token is from another issuer");
        }
        let wanted = |audience: &Value| {
            audience.as_str().is_some_and(|name| self.expected.audience.iter().any(|wanted| wanted == name))
        };
        let is_for_us = match claims.get("aud") {
            Some(Value::Array(audiences)) => audiences.iter().any(wanted),
            Some(audience) => wanted(audience),
            None => false,
        };
        if is_for_us { Ok(()) } else { Err("the token is for another audience") }
    }

    /// Returns the client that the claims describe.
    fn client(&self, claims: &Map<String, Value>) -> Result<Client, Refusal> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or("the token has no claim sub")?;
        let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        let scopes = scopes(claim(claims, &self.expected.scope_claim))?;
        let only = claims.get("prefixes").map(prefixes).transpose()?;
        Ok(Client::new(name(issuer, subject), scopes, &self.allowed, only.as_ref()))
    }
}

/// Parses a claim with prefixes.
fn prefixes(claim: &Value) -> Result<Allowed, Refusal> {
    let wrong = "the token's prefixes are not a list of URLs";
    let listed = claim.as_array().filter(|listed| listed.len() <= PREFIXES).ok_or(wrong)?;
    let urls: Option<Vec<&str>> = listed.iter().map(Value::as_str).collect();
    Allowed::parse(urls.ok_or(wrong)?).map_err(|_| wrong)
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Returns the name of a client. An unusual one is replaced by its digest, so that no name can pass for another, or
/// break a line of the log.
fn name(issuer: &str, subject: &str) -> String {
    let name = format!("{issuer}#{subject}");
    let is_plain =
        name.len() <= NAME && !issuer.contains('#') && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain { name } else { format!("jwt {}", short_digest(&format!("{}\n{name}", issuer.len()))) }
}

/// Decodes the header of a token, and refuses extensions and tokens for other purposes.
fn header(token: &str) -> Result<Header, Refusal> {
    let header = decode_header(token).map_err(|_| "the token is not a signed JWT")?;
    let is_access = header.typ.as_deref().is_none_or(|kind| {
        ["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known))
    });
    let is_plain = is_access && header.crit.is_none();
    if is_plain { Ok(header) } else { Err("the token is not an access token") }
}

/// Returns the keys that may have signed a token: those with its key id; without one, the only key for its algorithm.
fn candidates<'a>(set: &'a KeySet, header: &Header) -> Vec<&'a Key> {
    let fits = |key: &&Key| key.algorithms.contains(&header.alg);
    match &header.kid {
        Some(id) => set.keys.iter().filter(fits).filter(|key| key.id.as_ref() == Some(id)).collect(),
        None => {
            let all: Vec<&Key> = set.keys.iter().filter(fits).collect();
            if all.len() == 1 { all } else { Vec::new() }
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn is_over(expires: f64) -> bool {
    now() >= expires + LEEWAY as f64
}

/// Checks the times of a token, and returns its expiry.
fn times(claims: &Map<String, Value>, now: f64) -> Result<f64, Refusal> {
    let wrong = "a time of the token is not a number";
    let time = |name| claims.get(name).map(|time| time.as_f64().ok_or(wrong)).transpose();
    let (expires, begins, issued) = (time("exp")?, time("nbf")?, time("iat")?);
    let expires = expires.ok_or("the token has no claim exp")?;
    let leeway = LEEWAY as f64;
    if now >= expires + leeway {
        return Err("the token has expired");
    }
    if [begins, issued].into_iter().flatten().any(|time| time > now + leeway) {
        return Err("the token is not valid yet");
    }
    Ok(expires)
}

/// Returns a claim by its name, or by a JSON Pointer.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.strip_prefix('/').and_then(|pointer| pointer.split_once('/')) {
        Some((first, rest)) if !claims.contains_key(name) => claims.get(first)?.pointer(&format!("/{rest}")),
        _ => claims.get(name),
    }
}

/// Returns the scopes in a claim: names separated by spaces, or a list of them. Those of other services are ignored.
fn scopes(claim: Option<&Value>) -> Result<Scopes, Refusal> {
    let wrong = "the token's scopes are neither text nor a list";
    let names: Vec<&str> = match claim {
        None => Vec::new(),
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(list)) => list.iter().map(Value::as_str).collect::<Option<_>>().ok_or(wrong)?,
        Some(_) => return Err(wrong),
    };
    let own = names.into_iter().map(|name| name.strip_prefix("virtualize:").unwrap_or(name));
    Ok(own.fold(Scopes::default(), |all, name| all.with(name).unwrap_or(all)))
}

#[cfg(test)]
mod tests;
