//! Who a client is, and what it may do.

pub(crate) mod jwt;
pub(crate) mod keys;
pub(crate) mod tokens;

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use sha2::{Digest, Sha256};
use virtualize_store::{Allowed, StoreError};

use crate::app::log_file;
use jwt::Jwt;
use tokens::Tokens;

/// A client, as its token or address identifies it: an extension of its requests.
#[derive(Debug)]
pub(crate) struct Client {
    /// Name in logs: an address, `token` and the start of the token's digest, or the issuer and subject of a JWT.
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    /// Prefixes that the client may read.
    pub(crate) allowed: Allowed,
    /// Identifies the allowed prefixes; part of every cache key.
    pub(crate) access_key: String,
}

impl Client {
    /// Creates a client that may read what the service allows and, if `only` restricts it, these prefixes.
    pub(crate) fn new(name: String, scopes: Scopes, allowed: &Allowed, only: Option<&Allowed>) -> Self {
        let access_key = only.map_or_else(String::new, |only| {
            let urls: BTreeSet<_> = only.prefixes().into_iter().collect();
            format!("only {}", urls.into_iter().collect::<Vec<_>>().join(" "))
        });
        let allowed = only.map_or_else(|| allowed.clone(), |only| allowed.and(only));
        Self { name, scopes, allowed, access_key }
    }

    /// Returns the canonical form of the URL of an allowed file or folder, and records it in the log of the request, without
    /// what may be a query.
    ///
    /// # Errors
    /// As [`Allowed::check`].
    pub(crate) fn check(&self, url: &str) -> Result<String, StoreError> {
        let checked = self.allowed.check(url);
        if let Ok(name) | Err(StoreError::NotAllowed { name }) = &checked {
            log_file(name.split('?').next().unwrap_or_default());
        }
        checked
    }
}

/// The set of scopes that a token grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scopes {
    /// Sources: references, inspection, Zarr.
    pub(crate) read: bool,
    pub(crate) metrics: bool,
}

impl Scopes {
    /// All scopes.
    pub(crate) const ALL: Self = Self { read: true, metrics: true };
    /// Read access only.
    pub(crate) const READ: Self = Self { read: true, metrics: false };
    /// Metrics only.
    pub(crate) const METRICS: Self = Self { read: false, metrics: true };

    /// Returns whether the set contains all `others`.
    pub(crate) fn contains(self, others: Self) -> bool {
        (self.read || !others.read) && (self.metrics || !others.metrics)
    }

    /// Returns the set with one more scope, by its name. `None` for an unknown name.
    pub(crate) fn with(self, name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self { read: true, ..self }),
            "metrics" => Some(Self { metrics: true, ..self }),
            _ => None,
        }
    }

    /// Parses comma-separated scopes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self::default(), Self::with)
    }
}

/// Time between two checks of a file.
const CHECK: Duration = Duration::from_secs(1);

/// A file whose changes are reported once its content is the same at two checks.
#[derive(Debug)]
struct Watched<'a> {
    file: &'a Path,
    /// Digest of the content that was reported, and of that at the last check; `None` if there was no file.
    reported: Option<[u8; 32]>,
    last: Option<[u8; 32]>,
}

impl<'a> Watched<'a> {
    fn new(file: &'a Path) -> Self {
        let now = Self::content(file);
        Self { file, reported: now, last: now }
    }

    fn content(file: &Path) -> Option<[u8; 32]> {
        Some(Sha256::digest(std::fs::read(file).ok()?).into())
    }

    /// Returns whether the file must be read again.
    fn has_changed(&mut self) -> bool {
        let now = Self::content(self.file);
        let is_settled = std::mem::replace(&mut self.last, now) == now;
        is_settled && std::mem::replace(&mut self.reported, now) != now
    }
}

/// Reads the token file and the keys again when they change, and on SIGHUP. Never returns.
pub(crate) async fn reload(mut hangup: Hangup, tokens: Option<&Tokens>, jwt: Option<&Jwt>) {
    let mut token_file = tokens.map(|tokens| Watched::new(tokens.file()));
    let mut key_file = jwt.and_then(|jwt| jwt.keys.file()).map(Watched::new);
    let mut fetched = tokio::time::Instant::now();
    loop {
        let is_signalled = tokio::select! {
            () = tokio::time::sleep(CHECK) => false,
            () = hangup.wait() => true,
        };
        let have_changed = token_file.as_mut().is_some_and(Watched::has_changed);
        if let Some(tokens) = tokens.filter(|_| have_changed || is_signalled) {
            tokens.reload();
        }
        let is_due = match &mut key_file {
            Some(file) => file.has_changed(),
            None => fetched.elapsed() >= keys::REFRESH,
        };
        if let Some(jwt) = jwt.filter(|_| is_due || is_signalled) {
            jwt.keys.refresh().await;
            fetched = tokio::time::Instant::now();
        }
    }
}

/// SIGHUP, where the system has it.
pub(crate) struct Hangup(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Hangup {
    /// Installs the handler: without one, the signal ends the process.
    pub(crate) fn new() -> Self {
        Self(
            #[cfg(unix)]
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        )
    }

    async fn wait(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// Returns the start of the digest of a text, in hexadecimal.
pub(crate) fn short_digest(text: &str) -> String {
    hex::encode(Sha256::digest(text).get(..12).unwrap_or_default())
}

/// Returns the client with this bearer token: one of the token file, or else a valid JWT.
///
/// # Errors
/// Why the token is refused.
pub(crate) async fn identify(
    token: Option<&str>,
    tokens: Option<&Tokens>,
    jwt: Option<&Jwt>,
) -> Result<Arc<Client>, &'static str> {
    let token = token.ok_or("expected `Authorization: Bearer` with a valid token")?;
    if let Some(client) = tokens.and_then(|tokens| tokens.find(token)) {
        return Ok(client);
    }
    match jwt.filter(|_| Jwt::is_jwt(token)) {
        Some(jwt) => jwt.verify(token).await,
        None => Err("expected `Authorization: Bearer` with a valid token"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        std::fs::write(&file, "a").unwrap();
        let mut watched = Watched::new(&file);
        assert!(!watched.has_changed());
        std::fs::write(&file, "ab").unwrap();
        assert!(!watched.has_changed());
        std::fs::write(&file, "abc").unwrap();
        assert!(!watched.has_changed(), "another write followed");
        assert!(watched.has_changed() && !watched.has_changed());
        std::fs::remove_file(&file).unwrap();
        assert!(!watched.has_changed() && watched.has_changed() && !watched.has_changed());
    }
}
