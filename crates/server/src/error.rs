//! Errors that prevent the service from starting.

use std::{io, net::SocketAddr, path::PathBuf};

use virtualize::StoreError;

/// An error that prevents the service from starting; displayed as one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No prefix may be read.
    #[error("nothing is allowed: give --allow PREFIX, such as --allow s3://bucket/data/")]
    NothingAllowed,
    /// A prefix is not valid.
    #[error("--{setting}: {error}")]
    Prefix {
        /// Name of the setting.
        setting: &'static str,
        /// What is wrong with the prefix.
        error: StoreError,
    },
    /// The address is reachable by other machines, but there are no tokens.
    #[error(
        "{address} can be reached from other machines: give --token-file or --jwks, or --public to serve everybody"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// A value of the setting `cors` is not an origin.
    #[error("--cors {origin}: expected an origin, such as https://example.org, or *")]
    Origin {
        /// The value.
        origin: String,
    },
    /// A store setting has no key.
    #[error("--store-option: expected KEY=VALUE")]
    StoreOption,
    /// A store setting is unknown.
    #[error("{0}")]
    Store(StoreError),
    /// A limit is too small to serve anything.
    #[error("--{setting}: expected at least {least}")]
    TooSmall {
        /// The setting.
        setting: &'static str,
        /// The minimum.
        least: &'static str,
    },
    /// A file or address cannot be used.
    #[error("{name}: {error}")]
    Io {
        /// The file or address.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// A line of the token file is not valid.
    #[error("{}: line {line}: {error}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        error: TokenError,
    },
    /// The token file is empty.
    #[error("{}: the file contains no token", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// The keys of the identity provider cannot be used.
    #[error("--jwks {place}: {reason}")]
    Jwks {
        /// The URL or file.
        place: String,
        /// Why.
        reason: String,
    },
    /// Tokens for other services would be accepted.
    #[error("--jwks: give --jwt-audience NAME, the audience of the tokens for this service")]
    JwtAudience,
    /// JWTs are configured without keys.
    #[error("--jwt-issuer and --jwt-audience: give --jwks URL or FILE too")]
    NoJwks,
    /// Metrics cannot be registered.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Why a line of a token file is not valid. Messages contain no part of the token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    /// No scopes.
    #[error("expected a token, its scopes, and optionally the prefixes that it may read")]
    Incomplete,
    /// Unknown scope.
    #[error("expected scopes of read, metrics, separated by commas")]
    Scopes,
    /// Token that is too short to be safe.
    #[error("expected a token of at least 16 characters")]
    Short,
    /// Digest of a wrong length or with invalid digits.
    #[error("expected sha256: and 64 hexadecimal digits")]
    Digest,
    /// A prefix is not valid.
    #[error(transparent)]
    Prefix(#[from] StoreError),
}

impl ConfigError {
    /// Returns a function that converts an I/O error about `name` into this error.
    pub(crate) fn io(name: impl ToString) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { name: name.to_string(), error }
    }
}
