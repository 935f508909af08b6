//! Authorization: bearer tokens with scopes.

use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use virtualize_store::Allowed;

use crate::{ConfigError, TokenError};

/// The set of scopes that a token grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scopes {
    pub(crate) read: bool,
    pub(crate) jobs: bool,
    pub(crate) metrics: bool,
}

/// A scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Sources: references, inspection, Zarr.
    Read,
    /// Jobs.
    Jobs,
    /// Metrics.
    Metrics,
}

impl Scopes {
    /// All scopes.
    pub(crate) const ALL: Self = Self { read: true, jobs: true, metrics: true };
    /// Read access only.
    pub(crate) const READ: Self = Self { read: true, jobs: false, metrics: false };

    /// Returns whether the set contains a scope.
    pub(crate) fn has(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Jobs => self.jobs,
            Scope::Metrics => self.metrics,
        }
    }

    /// Parses comma-separated scopes; `admin` stands for all of them.
    fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self::default(), |all, scope| match scope {
            "read" => Some(Self { read: true, ..all }),
            "jobs" => Some(Self { jobs: true, ..all }),
            "metrics" => Some(Self { metrics: true, ..all }),
            "admin" => Some(Self::ALL),
            _ => None,
        })
    }
}

/// A token: its SHA-256 digest, its scopes, and the prefixes that it may read if they are restricted.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    digest: [u8; 32],
    pub(crate) scopes: Scopes,
    pub(crate) allowed: Option<Allowed>,
}

impl Token {
    /// Returns a name for the token that does not reveal it: the start of its digest.
    pub(crate) fn name(&self) -> String {
        hex::encode(self.digest.split_at(6).0)
    }
}

/// The tokens of the service; empty if it requires none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    /// Returns whether the service requires no token.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a token file. Messages give line numbers and no content.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(ConfigError::io(path.display()))?;
        let path = path.to_owned();
        match Self::parse(&text) {
            Ok(tokens) if tokens.is_empty() => Err(ConfigError::NoToken { path }),
            Ok(tokens) => Ok(tokens),
            Err((line, error)) => Err(ConfigError::Token { path, line, error }),
        }
    }

    /// Parses a token file, in which empty lines and lines that start with `#` are ignored.
    fn parse(text: &str) -> Result<Self, (usize, TokenError)> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let tokens = lines.map(|(at, line)| token(line).map_err(|reason| (at, reason)));
        tokens.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the token with a name.
    pub(crate) fn named(&self, name: &str) -> Option<&Token> {
        self.0.iter().find(|token| token.name() == name)
    }

    /// Returns the token that a client sent. The search compares every token, each in constant time.
    pub(crate) fn find(&self, given: &str) -> Option<&Token> {
        let digest: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        let mut found = None;
        for token in &self.0 {
            if bool::from(token.digest.ct_eq(&digest)) {
                found = Some(token);
            }
        }
        found
    }
}

/// Parses a line of a token file: token, scopes, and optional prefixes.
fn token(line: &str) -> Result<Token, TokenError> {
    let mut words = line.split_whitespace();
    let (Some(token), Some(scopes)) = (words.next(), words.next()) else {
        return Err(TokenError::Incomplete);
    };
    let scopes = Scopes::parse(scopes).ok_or(TokenError::Scopes)?;
    let prefixes: Vec<&str> = words.collect();
    let allowed = (!prefixes.is_empty()).then(|| Allowed::parse(prefixes)).transpose()?;
    Ok(Token { digest: digest(token)?, scopes, allowed })
}

/// Returns the digest of a token that is given in plain text, or as `sha256:` and 64 hexadecimal digits.
fn digest(token: &str) -> Result<[u8; 32], TokenError> {
    let Some(digits) = token.strip_prefix("sha256:") else {
        return match token.len() {
            16.. => Ok(Sha256::digest(token.as_bytes()).into()),
            _ => Err(TokenError::Short),
        };
    };
    let mut digest = [0; 32];
    hex::decode_to_slice(digits, &mut digest).map_err(|_| TokenError::Digest)?;
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SHA-256 of "abc" (FIPS 180-2, appendix B.1).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn tokens_are_found_by_their_digests() {
        let text = format!("# people\nsha256:{ABC} read,metrics\n\n0123456789abcdef admin s3://bucket/a/\n");
        let tokens = Tokens::parse(&text).unwrap();
        let abc = tokens.find("abc").unwrap();
        assert_eq!(
            (abc.scopes, abc.allowed.is_none()),
            (Scopes { read: true, jobs: false, metrics: true }, true)
        );
        let other = tokens.find("0123456789abcdef").unwrap();
        assert_eq!(other.scopes, Scopes::ALL);
        assert!(other.allowed.as_ref().unwrap().check("s3://bucket/b/x").is_err());
        for wrong in ["", "ab", "abcd", ABC, "0123456789abcde"] {
            assert!(tokens.find(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_refused() {
        for line in [
            "abcdefghijklmnop",
            "short read",
            "abcdefghijklmnop write",
            "sha256:12 read",
            "abcdefghijklmnop read /data",
        ] {
            let (at, reason) = Tokens::parse(&format!("\n{line}")).unwrap_err();
            assert_eq!(at, 2);
            assert!(!reason.to_string().contains("abcdef"), "{reason}");
        }
    }
}
