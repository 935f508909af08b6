//! The token file.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use virtualize_store::Allowed;

use super::{Client, Scopes};
use crate::config::ConfigError;

/// The tokens of the token file. They follow the file's changes.
#[derive(Debug)]
pub(crate) struct Tokens {
    file: PathBuf,
    /// Prefixes that the service allows.
    allowed: Allowed,
    current: RwLock<Arc<[Token]>>,
}

/// The SHA-256 digest of a token, and the client that sends the token.
#[derive(Debug)]
struct Token {
    digest: [u8; 32],
    client: Arc<Client>,
}

impl Tokens {
    /// Reads a token file, which must contain a token. Messages give line numbers and no content.
    pub(crate) fn read(file: &Path, allowed: &Allowed) -> Result<Self, ConfigError> {
        let tokens = read(file, allowed)?;
        if tokens.is_empty() {
            return Err(ConfigError::new(format!("{}: the file contains no token", file.display())));
        }
        Ok(Self { file: file.to_owned(), allowed: allowed.clone(), current: RwLock::new(tokens.into()) })
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the file again. A file that is missing or not valid leaves the tokens as they were; one without a token
    /// revokes all of them.
    pub(crate) fn reload(&self) {
        match read(&self.file, &self.allowed) {
            Ok(tokens) => {
                match tokens.len() {
                    0 => tracing::warn!("{}: no token is left: all clients are refused", self.file.display()),
                    count => tracing::info!("{}: {count} tokens", self.file.display()),
                }
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = tokens.into();
            }
            Err(error) => tracing::error!("the tokens stay as they were: {error}"),
        }
    }

    /// Returns the client with the token that was sent. The search compares every token, each in constant time.
    pub(crate) fn find(&self, given: &str) -> Option<Arc<Client>> {
        let digest: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        let tokens = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let mut found = None;
        for token in tokens.iter() {
            if bool::from(token.digest.ct_eq(&digest)) {
                found = Some(&token.client);
            }
        }
        found.cloned()
    }
}

/// Reads and parses a token file.
fn read(file: &Path, allowed: &Allowed) -> Result<Vec<Token>, ConfigError> {
    let text = std::fs::read_to_string(file).map_err(ConfigError::about(file.display()))?;
    let failed = |(line, reason)| ConfigError::new(format!("{}: line {line}: {reason}", file.display()));
    parse(&text, allowed).map_err(failed)
}

/// Parses a token file. Empty lines and lines that start with `#` are ignored. An error has the number of its line,
/// from 1.
fn parse(text: &str, allowed: &Allowed) -> Result<Vec<Token>, (usize, String)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| token(line, allowed).map_err(|reason| (at, reason))).collect()
}

/// Parses a line of a token file: token, scopes, and optional prefixes.
fn token(line: &str, allowed: &Allowed) -> Result<Token, String> {
    let mut words = line.split_whitespace();
    let (Some(token), Some(scopes)) = (words.next(), words.next()) else {
        return Err("expected a token, its scopes, and optionally the prefixes that it may read".to_owned());
    };
    let scopes = Scopes::parse(scopes).ok_or("expected scopes of read, metrics, separated by commas")?;
    let prefixes: Vec<&str> = words.collect();
    let only = (!prefixes.is_empty()).then(|| Allowed::parse(prefixes)).transpose();
    let only = only.map_err(|error| error.to_string())?;
    let digest = digest(token)?;
    let name = format!("token {}", hex::encode(digest.split_at(6).0));
    Ok(Token { digest, client: Arc::new(Client::new(name, scopes, allowed, only.as_ref())) })
}

/// Returns the digest of a token that is given in plain text, or as `sha256:` and 64 hexadecimal digits.
fn digest(token: &str) -> Result<[u8; 32], &'static str> {
    let Some(digits) = token.strip_prefix("sha256:") else {
        return match token.len() {
            16.. => Ok(Sha256::digest(token.as_bytes()).into()),
            _ => Err("expected a token of at least 16 characters"),
        };
    };
    let mut digest = [0; 32];
    hex::decode_to_slice(digits, &mut digest).map_err(|_| "expected sha256: and 64 hexadecimal digits")?;
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SHA-256 of "abc" (FIPS 180-2, appendix B.1).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn written(text: &str) -> (tempfile::NamedTempFile, Allowed) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        (file, Allowed::parse(["s3://bucket/"]).unwrap())
    }

    #[test]
    fn tokens_are_found_by_digest() {
        let (file, all) = written(&format!(
            "# people\nsha256:{ABC} read,metrics\n\n0123456789abcdef read,metrics s3://bucket/a/\n"
        ));
        let tokens = Tokens::read(file.path(), &all).unwrap();
        let abc = tokens.find("abc").unwrap();
        assert_eq!(abc.scopes, Scopes { read: true, metrics: true });
        assert!(abc.allowed.check("s3://bucket/b/x").is_ok());
        let other = tokens.find("0123456789abcdef").unwrap();
        assert_eq!(other.scopes, Scopes::ALL);
        assert!(other.allowed.check("s3://bucket/b/x").is_err());
        for wrong in ["", "ab", "abcd", ABC, "0123456789abcde"] {
            assert!(tokens.find(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn invalid_lines_are_refused() {
        for line in [
            "abcdefghijklmnop",
            "short read",
            "abcdefghijklmnop write",
            "sha256:12 read",
            "abcdefghijklmnop read /data",
        ] {
            let all = Allowed::parse(["s3://bucket/"]).unwrap();
            let (at, reason) = parse(&format!("\n{line}"), &all).unwrap_err();
            assert_eq!(at, 2);
            assert!(!reason.to_string().contains("abcdef"), "{reason}");
        }
    }

    #[test]
    fn a_changed_file_replaces_all_tokens_or_none() {
        let (file, all) = written("first-token-of-a read\nsecond-token-of-a read\n");
        let tokens = Tokens::read(file.path(), &all).unwrap();
        let known = |token| tokens.find(token).is_some();
        std::fs::write(file.path(), "second-token-of-a metrics\nthird-token-of-a read\nbroken").unwrap();
        tokens.reload();
        assert!(known("first-token-of-a") && !known("third-token-of-a"), "a broken file changes nothing");
        std::fs::write(file.path(), "second-token-of-a metrics\nthird-token-of-a read\n").unwrap();
        tokens.reload();
        assert!(!known("first-token-of-a") && known("third-token-of-a"));
        let second = tokens.find("second-token-of-a").unwrap();
        assert_eq!(second.scopes, Scopes::METRICS);
        std::fs::remove_file(file.path()).unwrap();
        tokens.reload();
        assert!(known("third-token-of-a"), "a file that is missing changes nothing");
        std::fs::write(file.path(), "# all have left\n").unwrap();
        tokens.reload();
        assert!(!known("second-token-of-a") && !known("third-token-of-a"));
        assert!(Tokens::read(file.path(), &all).is_err(), "the service does not start without a token");
    }
}
